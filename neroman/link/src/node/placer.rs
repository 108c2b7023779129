//! Chooses nodes for runs that wait for one, places runs anew whose node is out of reach
//! and never got them, and moves runs to nodes with room.

mod balance;
mod deferred;
mod probes;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::RunId;
use tokio::time::Instant;

use self::probes::Probes;
use super::description::figures;
use super::now::NodeNow;
use super::registry::Nodes;
use crate::restored;
use nero_home::ledger::LatePolicy;
use nero_life::choose::{choose, count, is_alike};
use nero_life::input::Input;
use nero_life::locks::Locks;
use nero_life::now::{PresentTime, Tick};
use nero_life::place::{Candidate, Choice, Figures, NodeAvailability};
use nero_life::reason::WaitReason;
use nero_life::run::{Run, Turn};
use nero_life::state::State;

/// How long a node's description counts as fresh.
const FRESH_MS: i64 = 30_000;
/// How long to wait for an answer that may change a choice.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks while a run waits or a node is out of reach.
const EVERY: Duration = Duration::from_secs(10);
/// Between two looks at all runs for those that nodes out of reach never got.
const LEAVE_EVERY: Duration = Duration::from_secs(1);
/// Runs of one decision.
const RUNS_MAX: usize = 10_000;

/// Works until the daemon stops, which drops it.
pub(super) async fn run(nodes: Nodes) {
    let mut placer = Placer {
        nodes,
        asked: BTreeMap::new(),
        looked: None,
        looked_for_later: None,
        balance_due: None,
        balancing: false,
        recalled: HashMap::new(),
        probes: Probes::default(),
    };
    let mut known = placer.nodes.watch();
    loop {
        known.borrow_and_update();
        let pause = placer.place_runs().await;
        let Placer { nodes, probes, .. } = &mut placer;
        let news = async {
            tokio::select! {
                () = nodes.inboxes().placing() => {}
                () = probes.answer(|| nodes.clock().moment().ms) => {}
                // An error means that the daemon leaves; this is dropped then.
                changed = known.changed() => drop(changed),
            }
        };
        match pause {
            Some(pause) => drop(tokio::time::timeout(pause, news).await),
            None => news.await,
        }
    }
}

struct Placer {
    nodes: Nodes,
    /// The nodes whose answers are awaited.
    asked: BTreeMap<String, DescriptionRequest>,
    /// The last look for runs that nodes out of reach never got.
    looked: Option<Instant>,
    /// The last look for runs that their nodes cannot take for now.
    looked_for_later: Option<Instant>,
    /// The next look for runs that wait on one node while another has room.
    balance_due: Option<Instant>,
    /// Whether runs waited on a node at the last look.
    balancing: bool,
    /// When runs were recalled for a node with room.
    recalled: HashMap<RunId, Instant>,
    probes: Probes,
}

/// A request for a node's description.
#[derive(Clone, Copy)]
struct DescriptionRequest {
    /// The first request since the last description: runs that other nodes could
    /// take wait no longer than [`PATIENCE`] from here.
    first: Instant,
    /// The last request over the same connection, or for the same try.
    at: Instant,
    /// Over a connection; else one is to be made first.
    connected: bool,
}

impl DescriptionRequest {
    /// Whether the request went over the connection that exists now.
    fn counts(self, connected: bool) -> bool {
        self.connected == connected
    }
}

/// The runs that are placed in one look.
struct Round<'s> {
    state: &'s State,
    /// Runs with the same word share the candidates.
    words: BTreeMap<String, Vec<Candidate>>,
    known: PresentTime,
    /// Made for the first run that looks at others.
    locks: Option<Locks<'s>>,
}

impl Placer {
    /// Places the runs that can be placed; returns how soon to look again, if
    /// any is left.
    async fn place_runs(&mut self) -> Option<Duration> {
        let state = self.nodes.ledger().state();
        if state.restored.made_ms != 0 {
            let config = self.nodes.usable_config();
            if let Err(error) = restored::release(self.nodes.ledger(), &config).await {
                tracing::warn!(%error, "runs of a restored home still wait");
            }
        }
        let state = self.nodes.ledger().state();
        let now = self.nodes.clock().tick();
        let due = self.leave(&state, now.ms).await;
        let later = self.recall_deferred(&state, &now).await;
        let due = due.into_iter().chain(later).min();
        self.probes.begin_look();
        if state.unplaced == 0 {
            let room = self.balance(&state, &now).await;
            if state.deferred == 0 && !self.balancing {
                self.asked.clear();
            }
            return due.into_iter().chain(room).min();
        }
        let mut changes: Vec<(RunId, Choice)> = Vec::new();
        let mut pause = due.unwrap_or(EVERY).min(EVERY);
        let mut round = Round {
            state: &state,
            words: BTreeMap::new(),
            known: self.nodes.known().now(self.nodes.clock()),
            locks: None,
        };
        let (mut durable, mut is_taken) = (false, false);
        // Thousands may wait for the same: what no node takes is no more taken a moment later.
        let mut last: Option<(&Run, Choice)> = None;
        for (.., id) in waiting(&state) {
            let Some(run) = state.run(id) else { continue };
            if let Some((like, choice)) = &last
                && is_alike(like, run)
                && self.probes.keep_ready(run)
            {
                changes.extend(news(run, choice.clone()));
                continue;
            }
            let choice = self.choose(&mut round, run, &now);
            match &choice {
                Choice::Wait => pause = self.patience_left().min(pause),
                Choice::Later { left_ms } => {
                    pause = pause.min(Duration::from_millis(left_ms.unsigned_abs()));
                }
                Choice::Nowhere(_) => last = Some((run, choice.clone())),
                Choice::On(_) | Choice::Never(_) => {}
            }
            durable |= choice.is_synced(run);
            is_taken |= takes_room(&choice);
            changes.extend(news(run, choice));
        }
        if let Some(left_ms) = round.locks.as_ref().and_then(Locks::settled_in_ms) {
            pause = pause.min(Duration::from_millis(left_ms.unsigned_abs()));
        }
        self.write(durable, changes).await;
        if !is_taken && let Some(room) = self.balance(&state, &now).await {
            pause = pause.min(room);
        }
        Some(pause)
    }

    /// Chooses a node for a run, and counts the run there.
    fn choose(&mut self, round: &mut Round<'_>, run: &Run, now: &Tick) -> Choice {
        let (state, known, word) = (round.state, &round.known, &run.made.node);
        let candidates = round.words.entry(word.clone());
        let candidates = candidates.or_insert_with(|| self.candidates(state, word));
        let looks = run.made.precedence.looks_at_others();
        let mut own = looks.then(|| {
            let locks = round.locks.get_or_insert_with(|| Locks::of(state, known));
            locks.without_taken(run, candidates)
        });
        let asked = own.as_deref().unwrap_or(candidates);
        let asked = self.probes.ask(&self.nodes, run, asked);
        if !asked.old.is_empty() {
            let own = own.get_or_insert_with(|| candidates.clone());
            without_answers(own, &asked.old);
        }
        let choice = match &mut own {
            _ if !asked.awaited.is_empty() => Choice::Wait,
            Some(own) => choose(run, own, now),
            None => choose(run, candidates, now),
        };
        let cores = |name: &str| run.made.takes.on(name).cores();
        if let (Choice::On(name), Some(_)) = (&choice, &own) {
            count(candidates, name, cores(name));
        }
        if let Some(locks) = round.locks.as_mut().filter(|_| looks) {
            if let Choice::On(name) = &choice {
                locks.take(run, name, known);
            }
            for node in &asked.awaited {
                // It is this one's turn, once its node has answered.
                locks.reserve(run, node, known);
            }
        }
        if let Choice::On(name) = &choice {
            taken(&mut round.words, name, cores(name), word);
        }
        choice
    }

    /// The candidates among the nodes that a word stands for; nodes that were
    /// not asked lately are asked now.
    fn candidates(&mut self, state: &State, word: &str) -> Vec<Candidate> {
        let config = self.nodes.usable_config();
        let Ok(target) = config.resolve(word) else {
            return Vec::new();
        };
        target
            .nodes()
            .iter()
            .map(|name| Candidate {
                name: name.clone(),
                standing: self.standing(state, name),
            })
            .collect()
    }

    fn standing(&mut self, state: &State, name: &str) -> NodeAvailability {
        let Some(node) = self.nodes.node(name) else {
            return NodeAvailability::Away("not configured any more".to_owned());
        };
        let now = node.now();
        if let (true, Some(about)) = (now.connected(), &now.about)
            && self.nodes.clock().boot_ms() - about.boot_ms <= FRESH_MS
        {
            self.asked.remove(name);
            let config = self.nodes.usable_config();
            let figures = Figures {
                probes: self.probes.answers(name),
                ..figures(state, &config, name, &about.description)
            };
            return NodeAvailability::Known(Box::new(figures));
        }
        if now.needs_person {
            return NodeAvailability::Away(away(&now));
        }
        // The answer gets its full time after the connection is made.
        let known = self.asked.get(name).copied();
        let asked = match known.filter(|asked| asked.counts(now.connected())) {
            Some(asked) => asked,
            None => {
                if now.connected() {
                    node.inbox.want_description();
                } else {
                    node.inbox.want_link();
                }
                let at = Instant::now();
                let asked = DescriptionRequest {
                    first: known.map_or(at, |known| known.first),
                    at,
                    connected: now.connected(),
                };
                self.asked.insert(name.to_owned(), asked);
                asked
            }
        };
        if asked.at.elapsed() >= Duration::from_millis(FRESH_MS.unsigned_abs()) {
            // The next look asks anew.
            self.asked.remove(name);
        }
        if on_its_way(&now, asked.at.elapsed()) {
            return if asked.first.elapsed() < PATIENCE {
                NodeAvailability::Asked
            } else {
                NodeAvailability::Late
            };
        }
        NodeAvailability::Away(away(&now))
    }

    /// The time until the first of the awaited answers is late.
    fn patience_left(&self) -> Duration {
        let left = self.asked.values().filter_map(|asked| {
            let left = PATIENCE.checked_sub(asked.first.elapsed())?;
            Some(left + Duration::from_millis(1))
        });
        let second = Duration::from_secs(1);
        left.min().map_or(second, |left| left.min(second))
    }

    async fn write(&self, durable: bool, choices: Vec<(RunId, Choice)>) {
        if choices.is_empty() {
            return;
        }
        let input = |(id, choice)| (id, Input::Choice(choice));
        let choices: Vec<_> = choices.into_iter().map(input).collect();
        let late = LatePolicy::Passes("it was cancelled or placed meanwhile");
        let ledger = self.nodes.ledger();
        let written = ledger.happened(durable, choices, late).await;
        if let Err(failure) = written {
            tracing::warn!(%failure, "no node chosen");
        }
    }

    /// Takes back the runs that nodes out of reach never got, if other nodes may
    /// have them. Returns how soon there may be more.
    async fn leave(&mut self, state: &State, boot_ms: i64) -> Option<Duration> {
        if let Some(at) = self.looked.filter(|at| at.elapsed() < LEAVE_EVERY) {
            return Some(LEAVE_EVERY.saturating_sub(at.elapsed()));
        }
        let config = self.nodes.usable_config();
        let patience = self.nodes.away();
        let mut due: Option<Duration> = None;
        let mut taken: Vec<(RunId, Input)> = Vec::new();
        for (name, _) in state.nodes.iter().filter(|(_, count)| count.live > 0) {
            let known = self.nodes.node(name).map(|node| node.now());
            let gone = match &known {
                Some(now) if !now.out_of_reach() => continue,
                Some(now) => now.away(boot_ms),
                None => Duration::MAX,
            };
            self.looked = Some(Instant::now());
            let movable = state
                .active()
                .flat_map(|experiment| experiment.runs.iter())
                .filter(|run| run.node() == Some(name) && run.movable())
                .filter(|run| {
                    config
                        .resolve(&run.made.node)
                        .is_ok_and(|target| target.nodes().iter().any(|other| other != name))
                });
            let movable: Vec<RunId> = movable.map(|run| run.made.id).collect();
            if movable.is_empty() {
                continue;
            }
            if gone < patience {
                let rest = patience - gone;
                due = Some(due.map_or(rest, |due| due.min(rest)));
                continue;
            }
            let why = known.map_or_else(|| "it is not configured".to_owned(), |now| away(&now));
            let node = name.clone();
            let away = Input::NodeAway { node, why };
            taken.extend(movable.into_iter().map(|id| (id, away.clone())));
        }
        if taken.is_empty() {
            return due;
        }
        let late = LatePolicy::Passes("it was offered to its node or cancelled meanwhile");
        let ledger = self.nodes.ledger();
        let written = ledger.happened(false, taken, late).await;
        if let Err(failure) = written {
            tracing::warn!(%failure, "runs not recalled");
            return Some(EVERY);
        }
        due
    }
}

/// The runs that wait for a node, in their order.
fn waiting(state: &State) -> Vec<Turn> {
    let runs = state.active().flat_map(|experiment| &experiment.runs);
    let mut waiting: Vec<Turn> = runs.filter(|run| run.unplaced()).map(Run::turn).collect();
    waiting.sort_unstable();
    waiting.truncate(RUNS_MAX);
    waiting
}

/// Forgets what these nodes answered.
fn without_answers(candidates: &mut [Candidate], nodes: &[String]) {
    for one in candidates
        .iter_mut()
        .filter(|one| nodes.contains(&one.name))
    {
        if let NodeAvailability::Known(figures) = &mut one.standing {
            figures.probes.clear();
        }
    }
}

/// A choice that says something new about a run.
fn news(run: &Run, choice: Choice) -> Option<(RunId, Choice)> {
    let is_known = match (&choice, run.why()) {
        (Choice::Nowhere(why), WaitReason::NoNode(known)) => why == known,
        (Choice::Wait, _) => true,
        _ => false,
    };
    (!is_known).then(|| (run.made.id, choice))
}

/// Whether a run that waits for a node takes the room that there is, so that balancing
/// waits. A run that no node can have keeps no other run where it is.
fn takes_room(choice: &Choice) -> bool {
    match choice {
        Choice::On(_) | Choice::Wait => true,
        Choice::Later { .. } | Choice::Nowhere(_) | Choice::Never(_) => false,
    }
}

/// Counts one more run on a node, in every list that contains the node.
fn taken(words: &mut BTreeMap<String, Vec<Candidate>>, name: &str, cores: f64, but: &str) {
    for (word, candidates) in words {
        if word == but {
            continue;
        }
        count(candidates, name, cores);
    }
}

/// Whether to wait longer for a node that was asked `asked` ago.
fn on_its_way(now: &NodeNow, asked: Duration) -> bool {
    // A first push may take long on a slow line; a push that stalls is ended.
    let pushed_to = !now.connected() && now.transfer.is_some();
    !now.out_of_reach() && (asked < PATIENCE || pushed_to)
}

/// Why a node cannot be asked, in a few words.
fn away(now: &NodeNow) -> String {
    let why = now.why_not();
    let since = match now.since_ms {
        Some(at) => format!("no contact since {}", clock(at)),
        None if now.connecting => "being connected".to_owned(),
        None => "not heard of yet".to_owned(),
    };
    if why.is_empty() {
        since
    } else {
        format!("{since} ({why})")
    }
}

/// A time of day of this machine's zone: it is kept as text.
fn clock(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(
        |_| "earlier".to_owned(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%H:%M")
                .to_string()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_pushed_to_is_waited_for_and_one_out_of_reach_is_not() {
        let long = PATIENCE * 20;
        let silent = NodeNow {
            connecting: true,
            ..NodeNow::default()
        };
        assert!(on_its_way(&silent, PATIENCE / 2) && !on_its_way(&silent, long));
        let pushed_to = NodeNow {
            transfer: Some(nero_wire::v1::Progress::default()),
            ..silent.clone()
        };
        assert!(on_its_way(&pushed_to, long));
        let lost = NodeNow {
            since_ms: Some(1),
            ..pushed_to
        };
        assert!(!on_its_way(&lost, PATIENCE / 2));
    }

    #[test]
    fn a_connection_gives_an_answer_its_own_time() {
        let begun = Instant::now();
        let asked = DescriptionRequest {
            first: begun,
            at: begun,
            connected: false,
        };
        assert!(asked.counts(false) && !asked.counts(true));
    }
}
