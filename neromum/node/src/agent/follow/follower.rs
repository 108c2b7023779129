//! One follower: its position in every run, and sending a run to it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use nero_journal::{HEADER_BYTES, is_shut};
use nero_model::RunToken;
use nero_node_core::{Run, Stage};
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::run_state::Stage as WireStage;
use nero_wire::v1::{self, FollowEvent, RunPosition, RunState, SegmentPart};
use tokio::sync::mpsc;

use super::stream::Flow;
use crate::agent::Entry;
use crate::config;
use crate::files::made;
use crate::runs::control::newest_cancel;
use crate::runs::segments::{self, Seg, SegmentBytes};
use crate::staging;

/// Result of sending to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The follower has everything.
    All,
    /// There was no room for all of it.
    NoRoom,
    /// The disk does not deliver a segment now; the run's end waits for it.
    Unread,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) id: u64,
    pub(super) events: mpsc::UnboundedSender<FollowEvent>,
    pub(super) flow: Arc<Flow>,
    pub(super) told: HashMap<RunToken, FollowerPosition>,
    /// The follower's positions in runs that cannot be taken up now.
    pub(super) waiting: HashMap<RunToken, RunPosition>,
    pub(super) dirty: VecDeque<RunToken>,
    pub(super) marked: HashSet<RunToken>,
    pub(super) caught_up: bool,
}

/// A follower's position in one run.
#[derive(Debug, Default)]
pub(super) struct FollowerPosition {
    pub(super) segments: Vec<SegmentOffset>,
    /// The entry's version whose state was sent; `None` before the first.
    pub(super) version: Option<u32>,
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) struct SegmentOffset {
    pub(super) incarnation: u32,
    pub(super) id: [u8; 8],
    pub(super) offset: u64,
    /// Chain value from the follower's request, to be compared before anything is
    /// sent.
    pub(super) claimed_chain: Option<u32>,
    /// Whether the log has an error about the unreadable rest.
    pub(super) lost: bool,
}

impl Follower {
    pub(super) fn mark(&mut self, token: RunToken) {
        if self.marked.insert(token) {
            self.dirty.push_back(token);
        }
    }

    pub(super) fn send(&self, event: Event) {
        let event = FollowEvent { event: Some(event) };
        self.flow.begun(&event);
        // If the follower has left, `FollowGone` reports that.
        let _ = self.events.send(event);
    }

    /// Notes the follower's position in a known run.
    pub(super) fn stands(&mut self, token: RunToken, position: RunPosition) {
        let segments = position.segments.into_iter().filter_map(|segment| {
            Some(SegmentOffset {
                incarnation: segment.incarnation,
                id: segment.segment.try_into().ok()?,
                offset: segment.offset,
                claimed_chain: (segment.offset > 0).then_some(segment.chain),
                lost: false,
            })
        });
        let told = FollowerPosition {
            segments: segments.collect(),
            ..FollowerPosition::default()
        };
        self.told.insert(token, told);
    }

    /// Tells the follower that a run cannot be taken up now, without a stage; it is
    /// tried again. Returns true for the first time.
    pub(super) fn waits(&mut self, token: RunToken, position: RunPosition, why: &str) -> bool {
        let generation = position.generation;
        if self.waiting.insert(token, position).is_some() {
            return false;
        }
        self.send(Event::State(RunState {
            token: token.to_vec(),
            stage: WireStage::Unspecified.into(),
            why: why.to_owned(),
            generation,
            ..RunState::default()
        }));
        true
    }

    /// Tells the follower that nothing of the run is here, up to this generation;
    /// `why` when there was something before.
    pub(super) fn send_unknown(&self, token: RunToken, generation: u32, why: &str) {
        self.send(Event::State(RunState {
            token: token.to_vec(),
            stage: WireStage::UnknownRun.into(),
            why: why.to_owned(),
            generation,
            ..RunState::default()
        }));
    }

    pub(super) fn send_state(
        &self,
        run_dir: &std::path::Path,
        token: RunToken,
        stage: WireStage,
        run: &Run,
        entry: &Entry,
    ) {
        let ended = matches!(stage, WireStage::Ended | WireStage::Settled);
        // A scheduler's runs are on other hosts by nature: that is no news.
        let elsewhere = entry.elsewhere.clone().filter(|_| !entry.at_scheduler);
        let unsupervised = matches!(
            run.stage,
            Stage::Running {
                unsupervised: true,
                ..
            }
        );
        let made_checkpoint = (ended && may_be_over_its_limit(run_dir, entry))
            .then(|| staging::work_folder(run_dir, entry.incarnation))
            .and_then(|work| made::left_checkpoint(run_dir, &work));
        let files = entry.unreadable.values().flatten();
        let unreadable: Vec<v1::Unreadable> = files.map(|file| file.to_wire(run_dir)).collect();
        self.send(Event::State(RunState {
            token: token.to_vec(),
            stage: stage.into(),
            why: match (stage, unreadable.first()) {
                (WireStage::Settled, _) => entry.missing.clone(),
                (WireStage::Unspecified, Some(file)) => format!("{} {}", file.path, file.why),
                _ => run.why.clone(),
            },
            unsupervised,
            via_disk: elsewhere.is_some(),
            host: elsewhere.unwrap_or_default(),
            made_nothing: ended && entry.made_nothing,
            unreadable,
            generation: entry.generation,
            paused: run.paused,
            made_checkpoint,
            needs_person: run.needs_person,
            waits_again: run.waits_again,
        }));
    }

    /// Sends the bytes of one run that the follower lacks, in the order of its
    /// segments.
    pub(super) fn send_run(
        &mut self,
        run_dir: &std::path::Path,
        token: RunToken,
        entry: &Entry,
        run: &Run,
    ) -> SendOutcome {
        let mut told = self.told.remove(&token).unwrap_or_default();
        let mut sent = SendOutcome::All;
        // A shim that finds the cancel request of a recalled run records that. The
        // records must not reach neroman, for which the run is elsewhere.
        let of_it = |_: &&Seg| !entry.recalled;
        let mut segments: Vec<&Seg> = entry.segments.iter().filter(of_it).collect();
        // An earlier start that ended must not be taken for the run's end.
        segments.sort_by_key(|seg| std::cmp::Reverse(seg.incarnation));
        for seg in segments {
            if sent == SendOutcome::All {
                sent = self.send_segment(run_dir, token, seg, &mut told);
            }
        }
        // A state that depends on unsent segments comes later.
        if sent == SendOutcome::All && !entry.unsynced && told.version != Some(entry.version) {
            let stage = wire_stage(&run.stage);
            if stage == WireStage::Settled && !told.ended {
                self.send_state(run_dir, token, WireStage::Ended, run, entry);
            }
            told.ended |= matches!(stage, WireStage::Ended | WireStage::Settled);
            told.version = Some(entry.version);
            self.send_state(run_dir, token, stage, run, entry);
        }
        self.told.insert(token, told);
        sent
    }

    fn send_segment(
        &self,
        run_dir: &std::path::Path,
        token: RunToken,
        seg: &Seg,
        told: &mut FollowerPosition,
    ) -> SendOutcome {
        let place = told
            .segments
            .iter()
            .position(|position| position.id == seg.id && position.incarnation == seg.incarnation);
        let place = place.unwrap_or_else(|| {
            told.segments.push(SegmentOffset {
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
                return SendOutcome::NoRoom;
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
                return SendOutcome::All;
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
        SendOutcome::All
    }
}

/// Decides what follows from a segment that cannot be read.
fn unread(
    position: &mut SegmentOffset,
    path: &std::path::Path,
    error: &std::io::Error,
) -> SendOutcome {
    if error.kind() == std::io::ErrorKind::NotFound || is_shut(path, error) {
        // The file was removed, or its mode keeps everybody from reading it: the
        // rest of the run does not wait for it.
        if !position.lost {
            tracing::error!(path = %path.display(), %error, "a segment cannot be had any more");
            position.lost = true;
        }
        return SendOutcome::All;
    }
    tracing::warn!(path = %path.display(), %error, "a segment cannot be read now");
    SendOutcome::Unread
}

/// Bytes of a segment in memory from an offset on, with the chain value before.
fn in_memory(seg: &Seg, offset: u64) -> Option<(u32, bytes::Bytes)> {
    let SegmentBytes {
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

/// Whether a follower's position belongs to this very segment: the chain value is
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
    if offset < HEADER_BYTES as u64 {
        return Ok(false);
    }
    if offset > seg.len {
        // A power cut took the end that the follower has: sent anew, the rest would
        // replace what it showed.
        return Ok(true);
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
        Stage::Starting { .. } | Stage::Submitted { .. } => WireStage::Starting,
        Stage::Running { .. } => WireStage::Running,
        Stage::Held { .. } => WireStage::Unspecified,
        Stage::Ended { .. } => WireStage::Ended,
        Stage::Settled { .. } => WireStage::Settled,
        Stage::TakenAway => WireStage::TakenAway,
        Stage::Refused => WireStage::Refused,
    }
}

/// Whether a time limit may have ended the run: ours, or its scheduler's. A person and a
/// rule leave a cancel request, and nobody asks for the checkpoints of their runs.
fn may_be_over_its_limit(run_dir: &std::path::Path, entry: &Entry) -> bool {
    let is_stopped = entry.facts.stop_asked || entry.facts.lost;
    is_stopped && newest_cancel(run_dir) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_journal::v1::{RecordKind, TreeGone};
    use nero_journal::{Clocks, Segment, Writer};
    use nero_model::{ExperimentId, RunId};
    use nero_node_core::Core;
    use nero_node_core::capacity::{Capacity, Needs};
    use nero_node_core::decide::Decision;
    use nero_node_core::facts::Facts;

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
        let place = segments::StartFolder {
            run_dir,
            token,
            incarnation: 1,
        };
        segments::scan(place, &mut entry.segments, &mut facts).unwrap();
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
        assert_eq!(first, SendOutcome::Unread);
        assert!(sent.try_recv().is_err(), "nothing is told yet");
        entry.segments[0].name = name;
        let second = follower.send_run(run_dir, token, &entry, run);
        assert_eq!(second, SendOutcome::All);
        let told: Vec<FollowEvent> = std::iter::from_fn(|| sent.try_recv().ok()).collect();
        assert!(matches!(told[0].event, Some(Event::Part(_))), "{told:?}");
        assert!(matches!(told[1].event, Some(Event::State(_))), "{told:?}");
    }

    #[test]
    fn bytes_at_a_follower_stay_when_a_power_cut_took_the_end_of_a_segment() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("1")).unwrap();
        let claim = folder.path().join("1/claim");
        let token = [1; 16];
        let mut segment = Segment::create(&claim, Writer::Shim, &token, 1).unwrap();
        let gone = TreeGone::default();
        segment
            .append(RecordKind::TreeGone, Clocks::now(), &gone)
            .unwrap();
        let (mut segs, mut facts) = (Vec::new(), Facts::default());
        let place = segments::StartFolder {
            run_dir: folder.path(),
            token: RunToken::from_bytes(token),
            incarnation: 1,
        };
        segments::scan(place, &mut segs, &mut facts).unwrap();
        let (len, chain) = (segs[0].len, segs[0].chain);
        let holds = |offset, chain| position_holds(&segs[0], &claim, offset, chain).unwrap();
        assert!(holds(len, chain) && holds(len + 100, 7));
        assert!(!holds(len, !chain), "another segment is sent anew");
    }
}
