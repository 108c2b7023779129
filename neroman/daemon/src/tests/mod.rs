//! The daemon in one process, with a node that does as it is told.

mod away;
mod cleaning;
mod clocks;
mod deferred;
mod doubts;
mod files;
#[cfg(debug_assertions)]
mod growth;
mod infra;
mod meanwhile;
mod mum;
mod node_add;
mod nodes;
mod notices;
mod one_node;
mod patience;
mod probes;
mod recalled;
mod refused;
mod restored;
mod resuming;
mod sending;
mod staging;
mod stories;
mod transfers;
mod unasked_notes;
mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nero_config::LOCAL;
use nero_model::Home;
use nero_wire::v1;
use tokio::sync::{Notify, mpsc, watch};

use crate::service::{CurveCache, Man, WalkRest};
use mum::FakeMum;
use nero_home::clock::Clock;
use nero_home::keep::Databases;
use nero_home::ledger::{Audience, Ledger, LedgerThread, Listener};
use nero_link::config_file::ConfigFile;
use nero_link::connect::{Connect, NodeConnector};
use nero_link::node::{Inboxes, Nodes, Settings, Setup};
use nero_link::outside::{Agents, Freezer};
use nero_link::results::{Pace, Places};

/// Longer than anything here takes; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_secs(20);

/// Fake nodes by name, made when they are first asked for.
#[derive(Default)]
struct Fakes {
    nodes: Mutex<BTreeMap<String, Arc<FakeMum>>>,
}

impl Fakes {
    fn mum(&self, name: &str) -> Arc<FakeMum> {
        let mut nodes = self.nodes.lock().unwrap();
        Arc::clone(nodes.entry(name.to_owned()).or_default())
    }
}

impl NodeConnector for Fakes {
    fn way(&self, name: &str, _: &nero_config::Node) -> Arc<dyn Connect> {
        self.mum(name)
    }
}

/// A daemon over a folder of its own.
struct Rig {
    man: Man,
    /// The node of this machine.
    mum: Arc<FakeMum>,
    fakes: Arc<Fakes>,
    home: Home,
    /// Holds the experiment's files.
    folder: PathBuf,
    leave: watch::Sender<bool>,
    driver: tokio::task::JoinHandle<()>,
    mail: tokio::task::JoinHandle<()>,
    thread: LedgerThread,
    base: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("lab");
        std::fs::create_dir_all(&folder).unwrap();
        Self::over(base, Arc::default())
    }

    /// With nodes elsewhere: the text of `config.yaml`.
    fn configured(config: &str) -> Self {
        Self::configured_at(Clock::system(), config)
    }

    fn configured_at(clock: Clock, config: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("lab")).unwrap();
        let home = Home::below(&base.path().canonicalize().unwrap().join("home"));
        nero_model::paths::make_private(&home.data).unwrap();
        std::fs::write(&home.config, config).unwrap();
        Self::at(clock, base, Arc::default())
    }

    /// A node elsewhere.
    fn node(&self, name: &str) -> Arc<FakeMum> {
        self.fakes.mum(name)
    }

    fn over(base: tempfile::TempDir, fakes: Arc<Fakes>) -> Self {
        Self::at(Clock::system(), base, fakes)
    }

    fn at(clock: Clock, base: tempfile::TempDir, fakes: Arc<Fakes>) -> Self {
        let home = Home::below(&base.path().canonicalize().unwrap().join("home"));
        nero_model::paths::make_private(&home.data).unwrap();
        let (keep, state) = Databases::open(&home, clock.now_ms()).unwrap();
        state.check_invariants();
        let deployment = keep.deployment();
        let inboxes = Arc::new(Inboxes::default());
        let listener: Listener = {
            let inboxes = Arc::clone(&inboxes);
            Arc::new(move |state, rings| {
                state.check_invariants();
                inboxes.ring(state, rings);
            })
        };
        let config = Arc::new(ConfigFile::new(home.config.clone(), Duration::ZERO));
        let wants_notice = crate::mail::watching(Arc::clone(&config));
        let (ledger, thread) = Ledger::start(keep, state, clock, listener, wants_notice).unwrap();
        let (leave, stop) = watch::channel(false);
        let settings = Settings {
            name: String::new(),
            remote: false,
            turns: Arc::default(),
            asks: tokio::sync::watch::channel(nero_format::SchedulerOptions::default()).1,
            away: Duration::from_millis(300),
            store: home.store(),
            results: Places {
                pace: Pace {
                    first: Duration::from_millis(5),
                    times: 1,
                    longest: Duration::from_millis(10),
                    again: Duration::from_millis(5),
                },
                ..Places::of(&home)
            },
            idle: Duration::from_secs(300),
            clock,
        };
        let (nodes, driving) = Nodes::new(Setup {
            config,
            contacts: home.contacts(),
            settings,
            ledger: ledger.clone(),
            inboxes,
            ways: Arc::clone(&fakes) as Arc<dyn NodeConnector>,
            stop: stop.clone(),
        });
        let mail = crate::mail::run(crate::mail::MailDesk {
            home: home.clone(),
            ledger: ledger.clone(),
            nodes: nodes.clone(),
            clock,
            deployment,
        });
        let man = Man {
            walks: WalkRest::default(),
            curves: CurveCache::default(),
            rows: Arc::default(),
            modules: crate::processing::Modules {
                ledger: ledger.clone(),
                home: home.clone(),
                turn: Arc::default(),
            },
            ledger,
            nodes,
            agents: Agents::new(&home.sockets.join("ssh"), deployment, 0),
            books: crate::cells::Books::default(),
            deployment,
            started_ms: clock.now_ms(),
            clock,
            freezer: Freezer::new(&home),
            stop: Arc::new(Notify::new()),
            leaving: stop,
            home: home.clone(),
        };
        Self {
            man,
            mum: fakes.mum(LOCAL),
            fakes,
            home,
            folder: base.path().join("lab"),
            leave,
            driver: tokio::spawn(driving.run()),
            mail: tokio::spawn(mail),
            thread,
            base,
        }
    }

    /// Ends the daemon and starts it again over what it left.
    async fn restart(self) -> Self {
        let (base, fakes) = self.stop().await;
        Self::over(base, fakes)
    }

    async fn stop(self) -> (tempfile::TempDir, Arc<Fakes>) {
        self.leave.send_replace(true);
        self.mail.abort();
        // An aborted task has let go of the ledger once it is joined.
        let _ = self.mail.await;
        tokio::time::timeout(DEADLINE, self.driver)
            .await
            .expect("the driver leaves")
            .unwrap();
        self.man.ledger.stop().await;
        drop(self.man);
        tokio::task::spawn_blocking(|| self.thread.join())
            .await
            .unwrap()
            .unwrap();
        (self.base, self.fakes)
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.join("neronet.yaml"), text).unwrap();
    }

    async fn add(&self) -> v1::AddReply {
        let request = v1::AddRequest {
            paths: vec![self.folder.display().to_string()],
            ..v1::AddRequest::default()
        };
        self.man.add(request).await.unwrap()
    }

    async fn start(&self, text: &str) -> v1::StartReply {
        let request = v1::StartRequest {
            selection: select(text),
            ..v1::StartRequest::default()
        };
        self.man.start(request).await.unwrap()
    }

    async fn restart_runs_on(&self, text: &str, node: &str) -> v1::StartReply {
        let request = v1::StartRequest {
            selection: select(text),
            node: node.to_owned(),
            restart: true,
            ..v1::StartRequest::default()
        };
        self.man.start(request).await.unwrap()
    }

    /// Asks that runs end.
    async fn abort(&self, text: &str) -> v1::AbortReply {
        let request = v1::AbortRequest {
            selection: select(text),
            ..v1::AbortRequest::default()
        };
        self.man.abort(request).await.unwrap()
    }

    /// What happened to an experiment, line by line.
    async fn history(&self, what: &str) -> String {
        let request = v1::ShowRequest {
            what: what.to_owned(),
            zone: String::new(),
        };
        self.man.show(request).await.unwrap().history.join("\n")
    }

    /// Waits until a node looks as wanted.
    async fn until_node(&self, name: &str, wanted: impl Fn(&v1::NodeView) -> bool) -> v1::NodeView {
        let mut news = self.man.nodes.watch();
        let seen = tokio::time::timeout(DEADLINE, async {
            loop {
                news.borrow_and_update();
                let request = v1::NodesRequest { as_known: true };
                let reply = self.man.ask_nodes(request).await;
                if let Some(node) = reply
                    .nodes
                    .into_iter()
                    .find(|node| node.name == name && wanted(node))
                {
                    return node;
                }
                news.changed().await.unwrap();
            }
        });
        seen.await.expect("the node comes to look so")
    }

    async fn restart_runs(&self, text: &str) -> v1::StartReply {
        let request = v1::StartRequest {
            selection: select(text),
            restart: true,
            ..v1::StartRequest::default()
        };
        self.man.start(request).await.unwrap()
    }

    async fn view(&self, id: u64) -> v1::ExperimentView {
        let request = v1::ListRequest {
            selection: select(&id.to_string()),
            settle: false,
            ..v1::ListRequest::default()
        };
        self.man.list(request).await.unwrap().experiments.remove(0)
    }

    /// Waits until an experiment looks as wanted.
    async fn until(
        &self,
        id: u64,
        what: &str,
        wanted: impl Fn(&v1::ExperimentView) -> bool,
    ) -> v1::ExperimentView {
        let mut states = self.man.ledger.watch(Audience::Everyone);
        let mut nodes = self.man.nodes.watch();
        let mut last = None;
        let seen = tokio::time::timeout(DEADLINE, async {
            loop {
                states.mark_unchanged();
                nodes.borrow_and_update();
                let view = self.view(id).await;
                if wanted(&view) {
                    return view;
                }
                last = Some(view);
                tokio::select! {
                    changed = states.changed() => changed.unwrap(),
                    changed = nodes.changed() => changed.unwrap(),
                }
            }
        })
        .await;
        seen.unwrap_or_else(|_| panic!("{id} never {what}; last: {last:?}"))
    }

    async fn state(&self, id: u64, state: &str) -> v1::ExperimentView {
        self.until(id, state, |view| view.state == state).await
    }

    /// Everything that a wait reports.
    async fn wait(&self, text: &str, settle: bool) -> Vec<v1::WaitEvent> {
        let (tx, mut rx) = mpsc::channel(8);
        let request = v1::WaitRequest {
            selection: select(text),
            settle,
            any: false,
        };
        let man = self.man.clone();
        let waiting = tokio::spawn(async move { man.wait(request, tx).await });
        let mut events = Vec::new();
        while let Some(event) = tokio::time::timeout(DEADLINE, rx.recv())
            .await
            .expect("a wait ends")
        {
            events.push(event.unwrap());
        }
        waiting.await.unwrap().unwrap();
        events
    }
}

fn select(text: &str) -> Option<v1::Selection> {
    Some(v1::Selection {
        text: text.to_owned(),
        ..v1::Selection::default()
    })
}
