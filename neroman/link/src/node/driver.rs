//! The task of one node: connect, work while there is something to do, leave.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use nero_life::ledgers::{self, NodeLedger};
use nero_life::state::State;
use nero_life::text::bounded;
use nero_model::LedgerId;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::abandoned;
use super::backoff::{Backoff, Pace};
use super::deliver::{Deliver, Peer};
use super::description;
use super::follow::Replication;
use super::hand_over::HandOver;
use super::inbox::{Inbox, RetryCause};
use super::now::{self, ReceivedDescription, StatePublisher};
use super::way::Way;
use super::{Settings, open_runs, wake};
use crate::connect::{ConnectFailure, Link, mum_client};
use crate::restored;
use crate::results;
use nero_home::failure::Failure;
use nero_home::ledger::{Audience, Ledger};

/// A session that lasted this long was a good one: the next try is at once.
const GOOD: Duration = Duration::from_secs(1);
/// How long a node may take to describe itself.
const DESCRIBE: Duration = Duration::from_secs(20);
/// How long the description may take after this machine slept: a dead connection
/// gives none.
const AWAKE: Duration = Duration::from_secs(5);

/// Drives one node until the daemon stops, or the node leaves the configuration.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(super) settings: Settings,
    pub(super) inbox: Arc<Inbox>,
    pub(super) ledger: Ledger,
    pub(super) way: Way,
    pub(super) tell: StatePublisher,
    pub(super) stop: watch::Receiver<DriverStop>,
}

/// Whether and why a driver stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DriverStop {
    #[default]
    No,
    /// The daemon is leaving.
    Leaving,
    /// The node has left the configuration.
    Removed,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Why a session ended.
enum SessionEnd {
    /// No work is left.
    Idle,
    /// The connection is made anew at once.
    Anew,
    /// This machine slept and the node has not answered since.
    Slept,
    Lost(ConnectFailure),
}

/// Time between two panics that are taken for unrelated.
const QUIET: Duration = Duration::from_secs(60);

/// Runs a driver until it is told to stop. After a panic the driver pauses and
/// begins anew: the daemon and the other nodes go on.
pub(crate) async fn run(driver: Driver) {
    let mut backoff = driver.backoff();
    loop {
        let began = Instant::now();
        // A separate task, which ends with this one.
        let mut work = JoinSet::new();
        work.spawn(driver.clone().run());
        let panic = match work.join_next().await {
            Some(Err(error)) if error.is_panic() => error.into_panic(),
            Some(_) | None => return,
        };
        if began.elapsed() > QUIET {
            backoff.reset();
        }
        let wait = backoff.next();
        driver.panicked(panic.as_ref(), wait);
        let mut stop = driver.stop.clone();
        let stopped = stop.wait_for(|stop| *stop != DriverStop::No);
        if tokio::time::timeout(wait, stopped).await.is_ok() {
            return;
        }
    }
}

impl Driver {
    fn backoff(&self) -> Backoff {
        Backoff::new(if self.settings.remote {
            Pace::REMOTE
        } else {
            Pace::LOCAL
        })
    }

    /// Reports that the work for this node failed by our own mistake.
    fn panicked(&self, panic: &(dyn std::any::Any + Send), wait: Duration) {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_default();
        tracing::error!(
            node = self.settings.name,
            panic = text,
            "a node's driver failed"
        );
        let failure = Failure::bug("working with this node failed by a mistake of Neronet's own")
            .because(text)
            .hint("it is tried again; `neroman daemon logs` shows what to report");
        let at = self.settings.clock.moment();
        let next_ms = at
            .ms
            .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        self.tell.change(|now| {
            now.lose(&at);
            now.connecting = false;
            now.transfer = None;
            now.failed = Some(failure);
            now.next_try_ms = Some(next_ms);
            now.failures += 1;
        });
    }

    /// Works until it is told to stop.
    async fn run(mut self) {
        let mut stop = self.stop.clone();
        let stopped = tokio::select! {
            () = self.drive() => false,
            // An error means that the sender is gone: the daemon leaves, too.
            stopped = async { stop.wait_for(|stop| *stop != DriverStop::No).await.is_ok() } => stopped,
        };
        if stopped {
            self.send_home().await;
        }
        let (way, told) = (self.way.now(), *stop.borrow());
        match told {
            DriverStop::Removed => way.forget().await,
            DriverStop::Leaving | DriverStop::No => way.hang_up().await,
        }
        tracing::debug!(node = self.settings.name, "driver ended");
    }

    /// Lets the node's agent leave if no run needs it. It would leave by itself,
    /// so this waits for nothing.
    async fn send_home(&self) {
        let state = self.ledger.state();
        let live = |id: &nero_model::RunId| state.run(*id).is_some_and(|run| run.phase().is_live());
        if open_runs(&state, &self.settings.name).iter().any(live) {
            return;
        }
        let Some(channel) = self.tell.now().channel else {
            return;
        };
        let mut client = mum_client(channel);
        let asked = client.stop(v1::StopRequest::default());
        // The agent may be gone already, and leaves by itself if the request is
        // lost.
        let _ = tokio::time::timeout(Duration::from_secs(2), asked).await;
    }

    async fn drive(&mut self) {
        let mut backoff = self.backoff();
        loop {
            while !self.wanted() {
                self.inbox.rung().await;
            }
            self.inbox.settle();
            let end = match self.connect().await {
                Ok(link) => {
                    let began = Instant::now();
                    let end = self.session(link).await;
                    if began.elapsed() > GOOD {
                        backoff.reset();
                    }
                    end
                }
                Err(refused) => SessionEnd::Lost(refused),
            };
            match end {
                SessionEnd::Idle | SessionEnd::Anew => {
                    backoff.reset();
                    self.tell.change(|now| {
                        now.keep_contact();
                        now.part();
                        now.found();
                    });
                }
                SessionEnd::Slept => {
                    tracing::info!(node = self.settings.name, "connecting anew after a sleep");
                    backoff.reset();
                    self.way.now().hang_up().await;
                    self.tell.change(|now| now.channel = None);
                }
                SessionEnd::Lost(refused) => self.lost(refused, &mut backoff).await,
            }
        }
    }

    async fn connect(&self) -> Result<Link, ConnectFailure> {
        if self.settings.remote {
            self.settings.turns.next().await;
        }
        self.tell.change(|now| {
            now.connecting = true;
            now.next_try_ms = None;
        });
        let way = self.way.now();
        let tell = self.tell.clone();
        let heard = move |progress: v1::Progress| {
            tell.change(|now| now.transfer = Some(progress));
        };
        let connected = way.connect(&heard).await;
        self.tell.change(|now| {
            now.connecting = false;
            now.transfer = None;
        });
        connected
    }

    /// Reports the failure, and waits for the next try.
    async fn lost(&self, refused: ConnectFailure, backoff: &mut Backoff) {
        let ConnectFailure {
            failure,
            needs_person,
        } = refused;
        let failure = failure.of(&self.settings.name);
        let at = self.settings.clock.moment();
        let wait = backoff.next();
        let news = {
            let known = self.tell.now();
            !known.out_of_reach() || known.needs_person != needs_person
        };
        if news {
            // Logged once: the same failure again is no news.
            tracing::warn!(
                node = self.settings.name,
                %failure,
                hint = failure.hint_text(),
                needs_person,
                "node out of reach"
            );
        } else {
            tracing::debug!(node = self.settings.name, %failure, "still out of reach");
        }
        let next_ms = at.ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        self.tell.change(|now| {
            now.lose(&at);
            now.failed = Some(failure);
            now.needs_person = needs_person;
            now.next_try_ms = (!needs_person).then_some(next_ms);
            now.failures += 1;
        });
        let kick = if needs_person {
            Some(self.inbox.kicked(RetryCause::Agent).await)
        } else {
            tokio::select! {
                () = tokio::time::sleep(wait) => None,
                // A person's command does not wait for minutes.
                kick = self.inbox.kicked(RetryCause::Wanted) => Some(kick),
                () = wake::resumed(), if self.settings.remote => {
                    backoff.reset();
                    None
                }
            }
        };
        if kick.is_some_and(|kick| kick > RetryCause::Wanted) {
            backoff.reset();
        }
        if !self.wanted_still() {
            // No caller needs the node now: the next caller causes a try.
            self.tell.change(|now| now.next_try_ms = None);
        }
    }

    /// Whether a caller or a run needs the connection.
    fn wanted(&self) -> bool {
        self.inbox.link_wanted() || self.needed()
    }

    fn wanted_still(&self) -> bool {
        self.inbox.link_is_wanted() || self.needed()
    }

    /// Whether the node may have news of runs, or has runs that it must be told
    /// to end.
    fn needed(&self) -> bool {
        let (state, name) = (self.ledger.state(), &self.settings.name);
        state.on_node(name).open > 0
            || abandoned::any(name, &state)
            || state.restored.nodes.contains(name)
    }

    async fn session(&mut self, link: Link) -> SessionEnd {
        let Link {
            channel,
            hello,
            gone,
            host,
            facts,
        } = link;
        let client = mum_client(channel.clone());
        let clock = self.settings.clock;
        // An earlier build names none.
        let ledger = LedgerId::from_slice(&hello.ledger).map(|id| NodeLedger {
            id,
            root: bounded(&hello.root),
        });
        self.tell.change(|now| {
            now.channel = Some(channel);
            now.hello = Some(Arc::new(hello));
            now.host = host;
            now.facts = facts;
            now.found();
            now.greeted = true;
            now.hear(clock.moment());
        });
        if let Err(failure) = self.know_ledger(ledger).await {
            return SessionEnd::Lost(failure.into());
        }
        let name = &self.settings.name;
        let awaited = self.ledger.state().restored.nodes.contains(name);
        if awaited {
            let store = &self.settings.store;
            let learnt = restored::learn(name, store, &self.ledger, client.clone()).await;
            if let Err(failure) = learnt {
                return SessionEnd::Lost(failure.into());
            }
        }
        // All open runs are looked at anew: this session knows nothing of an
        // earlier connection.
        self.inbox.look_at_all();
        let on_progress = now::progress_callback(self.tell.clone());
        let fetcher = results::Fetcher::new(
            self.settings.name.clone(),
            self.settings.results.clone(),
            self.ledger.clone(),
            client.clone(),
            on_progress.clone(),
        );
        let hand_over = HandOver::new(
            self.settings.clone(),
            Arc::clone(&self.inbox),
            self.ledger.clone(),
            client.clone(),
            on_progress,
        );
        let (closed_tx, closed_rx) = tokio::sync::mpsc::channel(16);
        let (_, gate) = hand_over.queue();
        let deliver = Deliver::new(
            self.settings.clone(),
            Arc::clone(&self.inbox),
            self.ledger.clone(),
            Peer {
                client: client.clone(),
                supports_recall: self.tell.now().supports_recall(),
            },
            hand_over.queue(),
            fetcher.queue(),
            closed_tx,
        );
        let follow = Replication {
            settings: self.settings.clone(),
            inbox: Arc::clone(&self.inbox),
            ledger: self.ledger.clone(),
            client: client.clone(),
            tell: self.tell.clone(),
            closed: closed_rx,
            ended: HashSet::new(),
            unknown: HashSet::new(),
            gate,
        };
        let lost = |failure: Failure| SessionEnd::Lost(failure.into());
        let end = tokio::select! {
            failure = follow.run() => lost(failure),
            failure = deliver.run() => lost(failure),
            failure = hand_over.run() => lost(failure),
            () = fetcher.run() => lost(Failure::bug("the fetcher of results ended")),
            failure = self.describe(client.clone()) => lost(failure),
            () = gone => lost(Failure::lost()),
            () = self.slept(client.clone()), if self.settings.remote => SessionEnd::Slept,
            _ = self.inbox.kicked(RetryCause::Changed) => SessionEnd::Anew,
            () = self.idle() => SessionEnd::Idle,
        };
        end
    }

    /// Records, synced, which ledger the node answers with, before anything is handed over to it.
    async fn know_ledger(&self, ledger: Option<NodeLedger>) -> Result<(), Failure> {
        let node = self.settings.name.clone();
        let Some(ledger) =
            ledger.filter(|one| !ledgers::is_known(&self.ledger.state(), &node, one))
        else {
            return Ok(());
        };
        if let Some(before) = self.ledger.state().ledgers.get(&node) {
            let (before, root) = (&before.root, &ledger.root);
            tracing::warn!(node, before, root, "the node answers with another ledger");
        }
        let unanswered = self.inbox.unanswered();
        let note = move |state: &State, _| ledgers::greeted(state, &node, &ledger, &unanswered);
        self.ledger.note(true, note).await
    }

    /// Asks for the node's description whenever a caller wants it.
    async fn describe(&self, client: MumClient<Channel>) -> Failure {
        loop {
            match self.describe_once(client.clone(), DESCRIBE).await {
                Ok(about) => self.tell.change(|now| {
                    now.hear(self.settings.clock.moment());
                    now.about = Some(Arc::new(about));
                }),
                Err(failure) => return failure,
            }
            self.inbox.description_wanted().await;
        }
    }

    async fn describe_once(
        &self,
        mut client: MumClient<Channel>,
        patience: Duration,
    ) -> Result<ReceivedDescription, Failure> {
        let request = tonic::Request::new(v1::DescribeRequest {});
        let (asked, asked_ms) = (Instant::now(), self.settings.clock.now_ms());
        let asked_boot_ms = self.settings.clock.boot_ms();
        let description = tokio::time::timeout(patience, client.describe(request))
            .await
            .map_err(|_| {
                let within = patience.as_secs();
                Failure::node(format!("it said nothing within {within} s"))
            })?
            .map_err(|status| Failure::node_does("does not answer").status(&status))?
            .into_inner();
        let trip = asked.elapsed();
        let trip_ms = u64::try_from(trip.as_millis()).unwrap_or(u64::MAX);
        let description = description::checked(description)?;
        // One kernel has one wall clock, however it was set meanwhile.
        let is_here = description.boot_id == self.settings.clock.tick().boot;
        let there_ms = description.clock_ms;
        Ok(ReceivedDescription {
            clock_offset_ms: if is_here {
                0
            } else {
                nero_agents::clock_offset_ms(there_ms, asked_ms, trip_ms)
            },
            boot_ms: asked_boot_ms.saturating_add_unsigned(trip_ms / 2),
            round_trip_ms: trip.as_secs_f64() * 1000.0,
            description,
        })
    }

    /// Returns when this machine slept and the node has not answered since.
    async fn slept(&self, client: MumClient<Channel>) {
        loop {
            wake::resumed().await;
            if self.describe_once(client.clone(), AWAKE).await.is_err() {
                return;
            }
        }
    }

    /// Returns when no run was open for long enough.
    async fn idle(&self) {
        let mut states = self.ledger.watch(Audience::Runs);
        let mut since = Instant::now();
        loop {
            let busy = states.state().on_node(&self.settings.name).open > 0;
            if busy || self.inbox.link_wanted() {
                since = Instant::now();
                tokio::time::sleep(self.settings.idle.min(Duration::from_secs(10))).await;
            } else if since.elapsed() >= self.settings.idle {
                return;
            } else {
                let rest = self.settings.idle - since.elapsed();
                // Any change may open a run; an error means that the daemon is
                // leaving.
                let _ = tokio::time::timeout(rest, states.changed()).await;
            }
        }
    }
}
