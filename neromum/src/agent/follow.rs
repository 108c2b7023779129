//! Replication upward: every follower is sent what it lacks of every segment,
//! in order per segment, and then the run's state. What waits for a slow
//! follower is a set of runs, never their bytes: these are read from disk when
//! there is room again.

mod stream;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use nero_journal::{HEADER_BYTES, is_shut};
use nero_model::paths::run as names;
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::run_state::Stage as WireStage;
use nero_wire::v1::{CaughtUp, FollowEvent, FollowRequest, RunPosition, RunState, SegmentPart};
use tokio::sync::{mpsc, oneshot};

use super::segments::{self, Fresh, Seg};
use super::{Agent, AgentHandle, Entry, Message, effects};
use crate::config;
use crate::core::{Run, Stage};
use crate::ledger::Kept;
use stream::Flow;
pub use stream::FollowStream;

/// Everybody who follows.
#[derive(Debug, Default)]
pub struct Followers {
    pub(super) handle: Option<AgentHandle>,
    list: Vec<Follower>,
    next: u64,
    /// Runs whose bytes in memory can go after this turn.
    fresh: Vec<RunToken>,
    /// Runs of which something cannot be read now.
    unread: HashSet<RunToken>,
}

/// What came of taking up a run that the ledger does not know.
#[derive(Debug)]
pub enum Adopted {
    /// It is known now.
    Known,
    /// It never was here.
    Unknown,
    /// The disk does not say, or does not take it, in this moment; why.
    NotNow(String),
}

/// What came of sending a follower what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// It has everything.
    All,
    /// There was no room for all of it.
    NoRoom,
    /// The disk does not give it now: what it says of the run's end waits.
    Unread,
}

#[derive(Debug)]
struct Follower {
    id: u64,
    events: mpsc::UnboundedSender<FollowEvent>,
    flow: Arc<Flow>,
    told: HashMap<RunToken, Told>,
    /// Where it stands in runs that cannot be taken up now.
    waiting: HashMap<RunToken, RunPosition>,
    dirty: VecDeque<RunToken>,
    marked: HashSet<RunToken>,
    caught_up: bool,
}

/// What a follower has of one run.
#[derive(Debug, Default)]
struct Told {
    segments: Vec<Position>,
    /// The entry's version whose state was sent; none yet.
    version: Option<u32>,
    ended: bool,
}

#[derive(Debug)]
struct Position {
    incarnation: u32,
    id: [u8; 8],
    offset: u64,
    /// As the follower said; to be compared before anything is sent.
    claimed_chain: Option<u32>,
    /// It was told in the log that nobody gets the rest.
    lost: bool,
}

impl Followers {
    /// Whether nobody follows.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A follower has room again; the pump at the end of the turn fills it.
    pub fn room(&mut self, id: u64) {
        if let Some(follower) = self.list.iter().find(|follower| follower.id == id) {
            follower.flow.set_starved(false);
        }
    }

    /// A follower left.
    pub fn gone(&mut self, id: u64) {
        self.list.retain(|follower| follower.id != id);
    }

    /// Marks once more what could not be read.
    fn mark_unread(&mut self) {
        for token in std::mem::take(&mut self.unread) {
            self.mark(token);
        }
    }

    fn mark(&mut self, token: RunToken) {
        for follower in &mut self.list {
            follower.mark(token);
        }
    }
}

impl Follower {
    fn mark(&mut self, token: RunToken) {
        if self.marked.insert(token) {
            self.dirty.push_back(token);
        }
    }

    fn send(&self, event: Event) {
        let event = FollowEvent { event: Some(event) };
        self.flow.begun(&event);
        // A follower that left is told by `FollowGone`.
        let _ = self.events.send(event);
    }

    /// The follower stands there in a run that is known.
    fn stands(&mut self, token: RunToken, position: RunPosition) {
        let segments = position.segments.into_iter().filter_map(|segment| {
            Some(Position {
                incarnation: segment.incarnation,
                id: segment.segment.try_into().ok()?,
                offset: segment.offset,
                claimed_chain: (segment.offset > 0).then_some(segment.chain),
                lost: false,
            })
        });
        let told = Told {
            segments: segments.collect(),
            ..Told::default()
        };
        self.told.insert(token, told);
    }

    /// A run cannot be taken up now: nothing is said of its stage, and it is
    /// tried again. True when that is news.
    fn waits(&mut self, token: RunToken, position: RunPosition, why: &str) -> bool {
        if self.waiting.insert(token, position).is_some() {
            return false;
        }
        self.send(Event::State(RunState {
            token: token.to_vec(),
            stage: WireStage::Unspecified.into(),
            why: why.to_owned(),
            ..RunState::default()
        }));
        true
    }

    fn send_state(&self, token: RunToken, stage: WireStage, known: Option<(&Run, &Entry)>) {
        let run = known.map(|(run, _)| run);
        let elsewhere = known.and_then(|(_, entry)| entry.elsewhere.clone());
        let unsupervised = run.is_some_and(|run| {
            matches!(
                run.stage,
                Stage::Running {
                    unsupervised: true,
                    ..
                }
            )
        });
        self.send(Event::State(RunState {
            token: token.to_vec(),
            stage: stage.into(),
            why: run.map(|run| run.why.clone()).unwrap_or_default(),
            unsupervised,
            via_disk: elsewhere.is_some(),
            host: elsewhere.unwrap_or_default(),
        }));
    }

    /// Sends what the follower lacks of one run, in the order of its segments.
    fn send_run(
        &mut self,
        run_dir: &std::path::Path,
        token: RunToken,
        entry: &Entry,
        run: &Run,
    ) -> Sent {
        let mut told = self.told.remove(&token).unwrap_or_default();
        let mut sent = Sent::All;
        for seg in &entry.segments {
            if sent == Sent::All {
                sent = self.send_segment(run_dir, token, seg, &mut told);
            }
        }
        // A state that says more than the segments sent so far comes later.
        if sent == Sent::All && !entry.unsynced && told.version != Some(entry.version) {
            let stage = wire_stage(&run.stage);
            if stage == WireStage::Settled && !told.ended {
                self.send_state(token, WireStage::Ended, Some((run, entry)));
            }
            told.ended |= matches!(stage, WireStage::Ended | WireStage::Settled);
            told.version = Some(entry.version);
            self.send_state(token, stage, Some((run, entry)));
        }
        self.told.insert(token, told);
        sent
    }

    fn send_segment(
        &self,
        run_dir: &std::path::Path,
        token: RunToken,
        seg: &Seg,
        told: &mut Told,
    ) -> Sent {
        let place = told
            .segments
            .iter()
            .position(|position| position.id == seg.id && position.incarnation == seg.incarnation);
        let place = place.unwrap_or_else(|| {
            told.segments.push(Position {
                incarnation: seg.incarnation,
                id: seg.id,
                offset: 0,
                claimed_chain: None,
                lost: false,
            });
            told.segments.len() - 1
        });
        let position = &mut told.segments[place];
        let path = segments::folder(run_dir, seg.incarnation).join(&*seg.name);
        if let Some(chain) = position.claimed_chain {
            match position_holds(seg, &path, position.offset, chain) {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(token = %token, segment = %seg.name, offset = position.offset, "a follower's position does not match: sending the segment anew");
                    position.offset = 0;
                }
                Err(error) => return unread(position, &path, &error),
            }
            position.claimed_chain = None;
        }
        while position.offset < seg.visible {
            if !self.flow.open() {
                return Sent::NoRoom;
            }
            let (chain, data) = match in_memory(seg, position.offset) {
                Some(found) => found,
                None => match segments::read_part(
                    &path,
                    position.offset,
                    seg.visible,
                    config::PART_BYTES_MAX,
                    None,
                ) {
                    Ok((chain, data)) => (chain, data.into()),
                    Err(error) => return unread(position, &path, &error),
                },
            };
            if data.is_empty() {
                // A torn end, or damage: nothing whole follows for now.
                return Sent::All;
            }
            let length = data.len() as u64;
            self.send(Event::Part(SegmentPart {
                token: token.to_vec(),
                incarnation: seg.incarnation,
                segment: seg.id.to_vec(),
                offset: position.offset,
                data: data.to_vec(),
                chain,
            }));
            position.offset += length;
        }
        Sent::All
    }
}

fn in_full(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// The highest number of the wishes in a run's folder; 0 when there is none.
fn newest_wish(run_dir: &std::path::Path) -> u32 {
    let entries = std::fs::read_dir(run_dir.join(names::CONTROL));
    let wishes = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("cancel.")?.parse::<u32>().ok()
    });
    wishes.max().unwrap_or(0)
}

/// What a segment that cannot be read means for what is to be sent.
fn unread(position: &mut Position, path: &std::path::Path, error: &std::io::Error) -> Sent {
    if error.kind() == std::io::ErrorKind::NotFound || is_shut(path, error) {
        // Somebody took it away, or lets nobody read it: what else there is of
        // the run does not wait for it.
        if !position.lost {
            tracing::error!(path = %path.display(), %error, "a segment cannot be had any more");
            position.lost = true;
        }
        return Sent::All;
    }
    tracing::warn!(path = %path.display(), %error, "a segment cannot be read now");
    Sent::Unread
}

/// What is in memory of a segment from an offset on, with the chain before.
fn in_memory(seg: &Seg, offset: u64) -> Option<(u32, bytes::Bytes)> {
    let Fresh {
        offset: first,
        chain,
        data,
    } = seg.fresh.as_ref()?;
    let whole = seg.visible == first + data.len() as u64 && data.len() <= config::PART_BYTES_MAX;
    let from = usize::try_from(offset.checked_sub(*first)?).ok()?;
    if !whole || from >= data.len() {
        return None;
    }
    let chain = match from {
        0 => *chain,
        from => u32::from_le_bytes(*data[..from].last_chunk::<4>()?),
    };
    Some((chain, data.slice(from..)))
}

/// Whether a follower's position lies in this very segment: the chain value is
/// the four bytes before the offset.
fn position_holds(
    seg: &Seg,
    path: &std::path::Path,
    offset: u64,
    chain: u32,
) -> std::io::Result<bool> {
    if offset == 0 {
        return Ok(true);
    }
    if offset < HEADER_BYTES as u64 || offset > seg.len {
        return Ok(false);
    }
    if offset == seg.len {
        return Ok(chain == seg.chain);
    }
    let part = segments::read_part(path, offset, seg.len, config::PART_BYTES_MAX, Some(chain));
    part.map(|(_, data)| !data.is_empty())
}

fn wire_stage(stage: &Stage) -> WireStage {
    match stage {
        Stage::Waiting => WireStage::Waiting,
        Stage::Starting { .. } => WireStage::Starting,
        Stage::Running { .. } => WireStage::Running,
        Stage::Ended { .. } => WireStage::Ended,
        Stage::Settled { .. } => WireStage::Settled,
        Stage::TakenAway => WireStage::TakenAway,
        Stage::Refused => WireStage::Refused,
    }
}

impl Agent {
    /// A run's state changed.
    pub(super) fn report(&mut self, token: RunToken) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.version = entry.version.wrapping_add(1);
        }
        self.mark(token);
    }

    /// Something of a run may have to be sent.
    pub(super) fn mark(&mut self, token: RunToken) {
        self.followers.mark(token);
        self.followers.fresh.push(token);
    }

    pub(super) fn follow(&mut self, request: FollowRequest, answer: oneshot::Sender<FollowStream>) {
        let Some(handle) = self.followers.handle.clone() else {
            return;
        };
        self.followers.next += 1;
        let id = self.followers.next;
        let (events, receiver) = mpsc::unbounded_channel();
        let flow = Arc::new(Flow::default());
        let stream = FollowStream::new(id, receiver, flow.clone(), handle);
        if answer.send(stream).is_err() {
            return;
        }
        self.followers.list.push(Follower {
            id,
            events,
            flow,
            told: HashMap::new(),
            waiting: HashMap::new(),
            dirty: VecDeque::new(),
            marked: HashSet::new(),
            caught_up: false,
        });
        self.follow_more(id, request);
        let mut known: Vec<(u64, RunToken)> = self
            .core
            .runs()
            .map(|(token, run)| (run.order, *token))
            .collect();
        known.sort_unstable();
        if let Some(follower) = self.followers.list.iter_mut().find(|one| one.id == id) {
            for (_, token) in known {
                follower.mark(token);
            }
        }
    }

    pub(super) fn follow_more(&mut self, id: u64, request: FollowRequest) {
        self.close(&request.closed);
        for position in request.positions {
            self.position(id, position);
        }
    }

    fn position(&mut self, id: u64, position: RunPosition) {
        let Some(run) = &position.run else { return };
        let Some(token) = RunToken::from_slice(&run.token) else {
            return;
        };
        let mut not_now = None;
        if !self.entries.contains_key(&token) {
            let run = RunId {
                experiment: ExperimentId(run.experiment),
                number: run.number,
            };
            if let Adopted::NotNow(why) = self.adopt(token, run) {
                not_now = Some((run, why));
            }
        }
        let Some(follower) = self.followers.list.iter_mut().find(|one| one.id == id) else {
            return;
        };
        if let Some((run, why)) = not_now {
            // Said to be unknown, it could be taken elsewhere.
            if follower.waits(token, position, &why) {
                tracing::error!(%run, why, "a run that lies here cannot be taken up now; it is tried again");
            }
            let again = tokio::time::Instant::now() + config::UNREAD_RETRY;
            self.timers.unread.get_or_insert(again);
            return;
        }
        follower.waiting.remove(&token);
        if !self.entries.contains_key(&token) {
            follower.send_state(token, WireStage::UnknownRun, None);
            return;
        }
        follower.stands(token, position);
        follower.mark(token);
    }

    /// Sends once more what could not be read, and takes up what could not be.
    pub(super) fn try_unread(&mut self) {
        self.followers.mark_unread();
        let mut waiting = Vec::new();
        for follower in &self.followers.list {
            let positions = follower.waiting.values().cloned();
            waiting.extend(positions.map(|position| (follower.id, position)));
        }
        for (id, position) in waiting {
            self.position(id, position);
        }
    }

    /// Takes up a run whose folder is here and that the ledger does not know
    /// (any more): it was closed, or a power cut took the ledger's record.
    pub(super) fn adopt(&mut self, token: RunToken, id: RunId) -> Adopted {
        if id.experiment.0 == 0 || self.cleaning.contains(&token) || self.was_turned_away(&token) {
            return Adopted::Unknown;
        }
        match effects::read_spec(&self.setup, id, token) {
            Ok(_) => {}
            Err(error) if error.may_pass => return Adopted::NotNow(error.why),
            Err(_) => match self.raise(token, id) {
                Adopted::Known => {}
                other => return other,
            },
        }
        let order = self.next_order;
        if let Err(error) = self.ledger.accepted(token, id, order) {
            return Adopted::NotNow(in_full(&error));
        }
        self.next_order += 1;
        let kept = Kept {
            id,
            order,
            taken_away: None,
            // Nobody else remembers that it was not to be started.
            cancel: newest_wish(&self.setup.paths.run(id)),
            exited: None,
        };
        self.restore_run(token, kept);
        if self.launchers.ready()
            && let Some(entry) = self.entries.get(&token)
            && entry.incarnation > 0
        {
            let incarnation = entry.incarnation;
            self.look_and_decide(token, incarnation);
        }
        self.report(token);
        Adopted::Known
    }

    fn close(&mut self, closed: &[Vec<u8>]) {
        let tokens = closed.iter();
        let tokens: Vec<_> = tokens
            .filter_map(|token| RunToken::from_slice(token))
            .collect();
        self.forget(&tokens);
        for follower in &mut self.followers.list {
            for token in &tokens {
                follower.waiting.remove(token);
            }
        }
        self.compact_when_worth();
    }

    /// Forgets those of these runs that are over.
    pub(super) fn forget(&mut self, tokens: &[RunToken]) {
        let mut gone = Vec::new();
        for &token in tokens {
            if self.core.closed(token) {
                self.entries.remove(&token);
                gone.push(token);
                for follower in &mut self.followers.list {
                    follower.told.remove(&token);
                }
            }
        }
        for tokens in gone.chunks(config::HAND_OVER_MAX) {
            // Not kept, it is said again: neroman closes what it is told anew.
            if let Err(error) = self.ledger.closed(tokens) {
                tracing::error!(?error, "the ledger does not take that runs are closed");
            }
        }
    }

    /// Sends followers what they lack, as far as there is room.
    pub(super) fn pump(&mut self) {
        let mut again = false;
        for follower in &mut self.followers.list {
            let mut budget = config::PUMP_RUNS_MAX;
            while budget > 0 && !follower.dirty.is_empty() {
                if !follower.flow.open() {
                    follower.flow.set_starved(true);
                    // Whoever took events before that did not see the mark.
                    if !follower.flow.half_empty() {
                        break;
                    }
                    follower.flow.set_starved(false);
                }
                budget -= 1;
                let Some(token) = follower.dirty.pop_front() else {
                    break;
                };
                follower.marked.remove(&token);
                let (Some(entry), Some(run)) = (self.entries.get(&token), self.core.run(&token))
                else {
                    continue;
                };
                if let Some(position) = follower.waiting.remove(&token) {
                    // It was taken up for somebody else.
                    follower.stands(token, position);
                }
                let run_dir = self.setup.paths.run(entry.id);
                match follower.send_run(&run_dir, token, entry, run) {
                    Sent::All => {}
                    Sent::NoRoom => {
                        follower.marked.insert(token);
                        follower.dirty.push_front(token);
                    }
                    Sent::Unread => {
                        self.followers.unread.insert(token);
                        let again = tokio::time::Instant::now() + config::UNREAD_RETRY;
                        self.timers.unread.get_or_insert(again);
                    }
                }
            }
            again |= budget == 0 && !follower.dirty.is_empty();
            if follower.dirty.is_empty() && !follower.caught_up {
                follower.caught_up = true;
                follower.send(Event::CaughtUp(CaughtUp {}));
            }
        }
        if again {
            // The next turn goes on; others get their turn in between.
            let _ = self.done.send(Message::FollowRoom(0));
        }
        for token in std::mem::take(&mut self.followers.fresh) {
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            if !entry.unsynced {
                entry.segments.iter_mut().for_each(|seg| seg.fresh = None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use crate::core::capacity::{Capacity, Needs};
    use crate::core::decide::Decision;
    use crate::core::facts::Facts;
    use nero_journal::v1::{RecordKind, TreeGone};
    use nero_journal::{Clocks, Segment, Writer};

    #[test]
    fn a_run_is_not_told_as_over_while_its_records_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path();
        std::fs::create_dir(run_dir.join("1")).unwrap();
        let claim = run_dir.join("1/claim");
        let token = RunToken::from_bytes([1; 16]);
        let mut segment = Segment::create(&claim, Writer::Shim, token.as_bytes(), 1).unwrap();
        let gone = TreeGone::default();
        segment
            .append(RecordKind::TreeGone, Clocks::now(), &gone)
            .unwrap();
        let id = RunId {
            experiment: ExperimentId(1),
            number: 1,
        };
        let mut entry = Entry::new(id);
        let mut facts = Facts::default();
        segments::look(run_dir, 1, &mut entry.segments, &mut facts).unwrap();
        entry.segments[0].visible = entry.segments[0].len;
        entry.segments[0].fresh = None;
        let mut core = Core::new(Capacity::new(1.0, None));
        core.restore(token, id, 1, Needs::default(), 1);
        core.found(token, 1, Decision::Ended);
        let run = core.run(&token).unwrap();
        let (events, mut sent) = mpsc::unbounded_channel();
        let mut follower = Follower {
            id: 1,
            events,
            flow: Arc::default(),
            told: HashMap::new(),
            waiting: HashMap::new(),
            dirty: VecDeque::new(),
            marked: HashSet::new(),
            caught_up: false,
        };
        // The kernel refuses to look for such a name.
        let name = std::mem::replace(&mut entry.segments[0].name, "x".repeat(300).into());
        let first = follower.send_run(run_dir, token, &entry, run);
        assert_eq!(first, Sent::Unread);
        assert!(sent.try_recv().is_err(), "nothing is told yet");
        entry.segments[0].name = name;
        let second = follower.send_run(run_dir, token, &entry, run);
        assert_eq!(second, Sent::All);
        let told: Vec<FollowEvent> = std::iter::from_fn(|| sent.try_recv().ok()).collect();
        assert!(matches!(told[0].event, Some(Event::Part(_))), "{told:?}");
        assert!(matches!(told[1].event, Some(Event::State(_))), "{told:?}");
    }
}
