//! Reads a run's segments from disk: positions and facts. The disk is the truth;
//! every doorbell only triggers a look.

mod read;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nero_journal::v1::{StopCause, job_not_started, ledger_exited};
use nero_journal::{
    Content, HEADER_BYTES, Header, HeaderError, JobRecord, PAYLOAD_BYTES_MAX, Payload,
    RECORD_OVERHEAD, Reader, Record, RecordMessage, Stop, WatchRecord, is_shut,
};
use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_node_core::facts::{Fact, Facts};

use super::unreadable::{FileFault, Unreadable};
pub use read::read_part;
use read::{open, read_at_most};

/// One segment of a run, as far as it was read.
#[derive(Clone, Debug)]
pub struct Seg {
    /// Number of the start that it belongs to.
    pub incarnation: u32,
    /// Random id of the segment.
    pub id: [u8; 8],
    /// Name in the incarnation's folder.
    pub name: Box<str>,
    /// Bytes known to exist, header included.
    pub len: u64,
    /// Chain value at `len`.
    pub chain: u32,
    /// Offset up to which it may be passed on: an end only once the ledger has
    /// it.
    pub visible: u64,
    /// Bytes read or received last, kept until they are passed on.
    pub fresh: Option<SegmentBytes>,
}

/// Bytes of a segment in memory.
#[derive(Clone, Debug)]
pub struct SegmentBytes {
    /// Of its first byte.
    pub offset: u64,
    /// Chain value before it.
    pub chain: u32,
    /// Whole records; at offset 0 with the header.
    pub data: Bytes,
}

/// Result of a look.
#[derive(Debug, Default)]
pub struct Look {
    /// Whether bytes were appended, or a segment is new.
    pub grew: bool,
    /// The records of the end of the run (or of its main process).
    pub ends: Vec<ledger_exited::Copy>,
    /// Files that cannot be used, but do not hide the run's end.
    pub passed_over: Vec<Unreadable>,
}

/// The folder of one start of a run.
#[derive(Clone, Copy, Debug)]
pub struct StartFolder<'a> {
    /// The run's folder.
    pub run_dir: &'a Path,
    /// Token of the run that the files must belong to.
    pub token: RunToken,
    /// Number of the start.
    pub incarnation: u32,
}

/// Bytes of the first read, and of each further one in a longer segment; a whole
/// record fits.
const PIECE_BYTES_FIRST: usize = 8 * 1024;
/// A bad record and a good one behind it fit, too.
const PIECE_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + RECORD_OVERHEAD);
/// Limit of the bytes kept in memory for passing on.
const FRESH_BYTES_MAX: usize = 64 * 1024;

/// The folder of one incarnation.
pub fn folder(run_dir: &Path, incarnation: u32) -> PathBuf {
    run_dir.join(incarnation.to_string())
}

/// The newest incarnation that has a folder; 0 when there is none.
///
/// # Errors
/// When the run's folder cannot be read.
pub fn newest(run_dir: &Path) -> io::Result<u32> {
    let mut newest = 0;
    for entry in std::fs::read_dir(run_dir)? {
        let number = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        newest = newest.max(number.unwrap_or(0));
    }
    Ok(newest)
}

/// Returns the token in the claim of the first start; none without a sound header.
///
/// # Errors
/// When the claim may exist and cannot be read.
pub fn claimed_by(run_dir: &Path) -> io::Result<Option<[u8; 16]>> {
    let claim = folder(run_dir, 1).join(names::CLAIM);
    let bytes = nero_journal::open(&claim).and_then(|file| {
        let mut head = Vec::new();
        file.take(HEADER_BYTES as u64).read_to_end(&mut head)?;
        Ok(head)
    });
    match bytes {
        Ok(head) => Ok(Header::parse(&head).ok().map(|header| header.token)),
        Err(error) if proves_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the first start was claimed, by any run.
///
/// # Errors
/// When the system does not say whether the claim exists.
pub fn is_claimed(run_dir: &Path) -> io::Result<bool> {
    exists(&folder(run_dir, 1).join(names::CLAIM))
}

/// Whether something has that name.
///
/// # Errors
/// When the system does not say so.
pub fn exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if proves_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an error says that the file does not exist. After any other, it may.
pub fn proves_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Scans every segment of an incarnation.
///
/// # Errors
/// A folder or file that cannot be used and may contain the run's end. A folder
/// that was never there has no segments.
pub fn scan(
    place: StartFolder<'_>,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
) -> Result<Look, Unreadable> {
    let mut look = Look::default();
    look_into(place, segments, facts, &mut look).map(|()| look)
}

/// As [`scan`], into `look`, which keeps what was read before an error.
///
/// # Errors
/// As [`scan`].
pub fn look_into(
    place: StartFolder<'_>,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> Result<(), Unreadable> {
    let incarnation = place.incarnation;
    let folder = folder(place.run_dir, incarnation);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound && facts.goes_on() => {
            return Err(gone(&folder));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Unreadable::refused(&folder, &error)),
    };
    let refused = |error: io::Error| Unreadable::refused(&folder, &error);
    let (mut new, mut bad) = (Vec::new(), Vec::new());
    let (mut has_claim, mut younger) = (false, None);
    for entry in entries {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_younger_than_the_claim(name) {
            younger = Some(name.to_owned());
        }
        let is_segment = name == names::CLAIM || name.ends_with(names::SEGMENT_SUFFIX);
        // A job made any other entry with such a name.
        if !is_segment || name.starts_with('.') || !entry.file_type().map_err(refused)?.is_file() {
            continue;
        }
        has_claim |= name == names::CLAIM;
        let is_known = |seg: &Seg| seg.incarnation == incarnation && *seg.name == *name;
        if segments.iter().any(is_known) {
            let looked = look_at(place, name, segments, facts, look);
            bad.extend(looked.err().map(|fault| (name.to_owned(), fault)));
            continue;
        }
        match header(&folder, name) {
            Ok(header) => new.push((header, name.to_owned())),
            Err(fault) => bad.push((name.to_owned(), fault)),
        }
    }
    in_order(&mut new, facts.boot_id);
    for (_, name) in new {
        let looked = look_at(place, &name, segments, facts, look);
        bad.extend(looked.err().map(|fault| (name, fault)));
    }
    if let Some(beside) = younger.filter(|_| !has_claim && !facts.claimed) {
        // A claim may have been made while the folder was read.
        let looked = look_at(place, names::CLAIM, segments, facts, look);
        if !facts.claimed && looked.is_ok() {
            let path = folder.join(names::CLAIM);
            bad.push((
                names::CLAIM.to_owned(),
                Unreadable::new(&path, FileFault::Missing { beside }),
            ));
        }
    }
    // The claim may have come while the folder was read.
    if !has_claim && facts.goes_on() && is_gone(&folder.join(names::CLAIM)) {
        bad.push((names::CLAIM.to_owned(), gone(&folder)));
    }
    pass_over(bad, facts, look)
}

/// The fault of a claim that was read and removed, or of its removed folder.
fn gone(folder: &Path) -> Unreadable {
    if is_gone(folder) {
        Unreadable::new(folder, FileFault::Gone)
    } else {
        Unreadable::new(&folder.join(names::CLAIM), FileFault::Gone)
    }
}

/// Whether nothing has this name; a folder that cannot be searched proves nothing.
pub fn is_gone(path: &Path) -> bool {
    path.symlink_metadata()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a file of this name is made only after the claim.
fn is_younger_than_the_claim(name: &str) -> bool {
    let is_segment =
        |writer: &str| name.starts_with(writer) && name.ends_with(names::SEGMENT_SUFFIX);
    name == names::STDOUT
        || name == names::STDERR
        || is_segment("watch-")
        || is_segment("launcher-")
}

/// Passes over damaged files that contain nothing about the run's end, or nothing
/// new. The first one left may contain it.
fn pass_over(
    bad: Vec<(String, Unreadable)>,
    facts: &Facts,
    look: &mut Look,
) -> Result<(), Unreadable> {
    let mut stops = None;
    for (name, fault) in bad {
        let is_refused = matches!(fault.what, FileFault::Refused(_));
        let is_watchers = name.starts_with("watch-");
        // Nothing follows the end in the claim, or in what a launcher saw. Of a run that has
        // ended no other look follows, in which such a file would be read again. A run that was
        // given up as lost may have its end in them.
        let is_claim = name == names::CLAIM;
        let is_known = facts.ended() && !facts.lost;
        if is_known && is_refused && (is_claim || name.starts_with("launcher-")) {
            continue;
        }
        let is_damaged = is_watchers && !is_refused;
        let is_shut = !is_claim
            && is_refused
            && File::open(&fault.path).is_err_and(|error| is_shut(&fault.path, &error));
        if is_damaged || is_shut || facts.ended() || stops.is_some() {
            look.passed_over.push(fault);
        } else {
            stops = Some(fault);
        }
    }
    stops.map_or(Ok(()), Err)
}

/// Sorts new segments of one incarnation by their beginning, in which order they
/// are passed on: a watcher begins when the one before it is dead, so its points
/// are the later ones. The claim is the first; `boot_id` is that of the claim,
/// when it is known. Segments begun after another boot come last.
fn in_order(new: &mut [(Option<Header>, String)], boot_id: Option<[u8; 16]>) {
    let claim = new.iter().find(|(_, name)| name == names::CLAIM);
    let boot_id = boot_id.or(claim.and_then(|(header, _)| Some(header.as_ref()?.boot_id)));
    new.sort_by_key(|(header, name)| match header {
        Some(header) => (
            name != names::CLAIM,
            boot_id.is_some_and(|boot_id| header.boot_id != boot_id),
            header.mono_ns,
        ),
        // Its header is not written yet; it is looked at again.
        None => (true, true, u64::MAX),
    });
}

/// The header of a segment; `None` while it is not written yet.
fn header(folder: &Path, name: &str) -> Result<Option<Header>, Unreadable> {
    let path = folder.join(name);
    let mut head = [0; HEADER_BYTES];
    let length = open(&path)
        .and_then(|file| read_at_most(&file, &mut head, 0))
        .map_err(|error| Unreadable::refused(&path, &error))?;
    Ok(Header::parse(&head[..length]).ok())
}

/// Looks at the claim alone: enough for a short run without other writers.
///
/// # Errors
/// As [`scan`].
pub fn look_at_claim(
    place: StartFolder<'_>,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> Result<(), Unreadable> {
    look_at(place, names::CLAIM, segments, facts, look)
}

/// Looks at one segment; does nothing when it does not exist.
fn look_at(
    place: StartFolder<'_>,
    name: &str,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> Result<(), Unreadable> {
    let incarnation = place.incarnation;
    let path = folder(place.run_dir, incarnation).join(name);
    let file = match open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if name == names::CLAIM && facts.goes_on() {
                Err(gone(&folder(place.run_dir, incarnation)))
            } else {
                Ok(())
            };
        }
        Err(error) => return Err(Unreadable::refused(&path, &error)),
    };
    let known = segments
        .iter()
        .position(|seg| seg.incarnation == incarnation && *seg.name == *name);
    let is_claim = name == names::CLAIM;
    facts.claimed |= is_claim;
    let index = match known {
        Some(index) => index,
        None => match begin(&file, &path, place, name)? {
            Some(seg) => {
                if is_claim {
                    facts.boot_id = Some(seg.1);
                }
                segments.push(seg.0);
                look.grew = true;
                segments.len() - 1
            }
            None => return Ok(()),
        },
    };
    let mut stop = go_on(&file, &mut segments[index], facts, look);
    if matches!(stop, Ok(Stop::Damaged(_))) {
        // A record that is just being written may look damaged for a moment.
        stop = go_on(&file, &mut segments[index], facts, look);
    }
    match stop {
        Ok(Stop::Damaged(damage)) => {
            Err(Unreadable::new(&path, FileFault::DamagedAt(damage.offset)))
        }
        // A claim has its first record before it has its name.
        Ok(Stop::End | Stop::Unfinished)
            if is_claim && segments[index].len <= HEADER_BYTES as u64 =>
        {
            Err(Unreadable::new(
                &path,
                FileFault::Header(HeaderError::Short),
            ))
        }
        Ok(Stop::End | Stop::Unfinished) => Ok(()),
        Err(error) => Err(Unreadable::refused(&path, &error)),
    }
}

/// State of a segment from its header; `None` when that is not written yet.
fn begin(
    file: &File,
    path: &Path,
    place: StartFolder<'_>,
    name: &str,
) -> Result<Option<(Seg, [u8; 16])>, Unreadable> {
    let mut head = [0; HEADER_BYTES];
    let length =
        read_at_most(file, &mut head, 0).map_err(|error| Unreadable::refused(path, &error))?;
    let is_claim = name == names::CLAIM;
    // A power cut leaves zeros in the place of lost bytes.
    let is_cut_off = length < HEADER_BYTES || head == [0; HEADER_BYTES];
    let header = match Header::parse(&head[..length]) {
        Ok(header) => header,
        // A claim gets its name only after its header.
        Err(_) if is_cut_off && is_claim => {
            return Err(Unreadable::new(path, FileFault::Header(HeaderError::Short)));
        }
        Err(_) if is_cut_off => return Ok(None),
        Err(error) => return Err(Unreadable::new(path, FileFault::Header(error))),
    };
    if header.token != *place.token.as_bytes() || header.incarnation != place.incarnation {
        return Err(Unreadable::new(path, FileFault::Foreign));
    }
    let seg = Seg {
        incarnation: place.incarnation,
        id: header.segment.0,
        name: name.into(),
        len: 0,
        chain: header.chain,
        visible: 0,
        fresh: None,
    };
    Ok(Some((seg, header.boot_id)))
}

/// Reads the appended bytes piece by piece. Returns the reason for the end.
fn go_on(file: &File, seg: &mut Seg, facts: &mut Facts, look: &mut Look) -> io::Result<Stop> {
    // One small piece is nearly always enough: segments grow by few records.
    let mut first = [0; PIECE_BYTES_FIRST];
    let mut longer = Vec::new();
    loop {
        let from = seg.len;
        let piece: &mut [u8] = if longer.is_empty() {
            &mut first
        } else {
            &mut longer
        };
        let size = piece.len();
        let length = read_at_most(file, piece, from)?;
        let data = &piece[..length];
        let more = length == size;
        let header = if from == 0 { HEADER_BYTES } else { 0 };
        if length < header.max(1) {
            return Ok(Stop::End);
        }
        let mut reader = Reader::new(&data[header..], from + header as u64, seg.chain);
        for record in reader.by_ref() {
            take(&record, facts, look);
        }
        let end = reader.offset();
        let before = if from == 0 { 0 } else { seg.chain };
        seg.chain = Reader::chain(&reader);
        if end > from {
            look.grew = true;
            seg.len = end;
            keep(seg, from, before, &data[..(end - from) as usize]);
        }
        // A piece without a whole record is torn or not written yet, unless the
        // record is longer than the piece.
        if !more || (end == from && size >= PIECE_BYTES) {
            return Ok(reader.stop());
        }
        longer.resize(PIECE_BYTES, 0);
    }
}

/// Keeps bytes for passing on, when no older bytes wait and they are few.
fn keep(seg: &mut Seg, offset: u64, chain: u32, data: &[u8]) {
    let behind = seg.visible < offset;
    seg.fresh = (!behind && data.len() <= FRESH_BYTES_MAX).then(|| SegmentBytes {
        offset,
        chain,
        data: Bytes::copy_from_slice(data),
    });
}

/// Takes bytes of its segment that a watcher sent. False when they do not
/// continue the known part, or hold no whole good records: then the disk is read.
pub fn received(seg: &mut Seg, offset: u64, data: Bytes, facts: &mut Facts) -> bool {
    if seg.len != offset || offset < HEADER_BYTES as u64 {
        return false;
    }
    let mut look = Look::default();
    let mut reader = Reader::new(&data, offset, seg.chain);
    for record in reader.by_ref() {
        take(&record, facts, &mut look);
    }
    if reader.offset() != offset + data.len() as u64 {
        return false;
    }
    let before = seg.chain;
    seg.chain = Reader::chain(&reader);
    seg.len = reader.offset();
    keep(seg, offset, before, &data);
    true
}

fn take(record: &Record<'_>, facts: &mut Facts, look: &mut Look) {
    match record.content() {
        Content::Job(job) => {
            if let Some(fact) = fact_of_job(&job, record.mono_ns / 1_000_000) {
                facts.fold(fact);
            }
            if tells_the_end(&job, facts) {
                look.ends.push(ledger_exited::Copy {
                    kind: record.kind.into(),
                    payload: record.payload.to_vec(),
                    wall_ns: record.wall_ns,
                    mono_ns: record.mono_ns,
                });
            }
        }
        Content::Watch(watch) => facts.fold(fact_of_watcher(&watch)),
        Content::Observation(_) | Content::Rule(_) | Content::Ledger(_) | Content::Unknown(_) => {}
    }
}

/// Whether a record, whose fact is in `facts`, is kept as one of the run's end.
fn tells_the_end(record: &JobRecord<'_>, facts: &Facts) -> bool {
    match record {
        // Without the reason of its stop, an aborted job would count as crashed.
        JobRecord::StopAsked(_)
        | JobRecord::JobExited(_)
        | JobRecord::TreeGone(_)
        | JobRecord::Lost(_)
        | JobRecord::TaskOver(_) => true,
        JobRecord::JobNotStarted(_) => facts.not_started,
        JobRecord::Claimed(_)
        | JobRecord::JobStarted(_)
        | JobRecord::SignalSent(_)
        | JobRecord::Paused(_)
        | JobRecord::Resumed(_)
        | JobRecord::TakenOver(_)
        | JobRecord::Granted(_) => false,
    }
}

/// The fact in a record about a job, written at `at_ms` by the boot clock. A payload that cannot
/// be decoded counts as an empty one: its checksum is right, so another build wrote it, and its
/// kind is still meaningful.
fn fact_of_job(record: &JobRecord<'_>, at_ms: u64) -> Option<Fact> {
    Some(match record {
        JobRecord::Claimed(claimed) => {
            let claimed = decoded(claimed);
            Fact::Claimed {
                shim: claimed.shim.and_then(|p| p.identity()),
                launcher: claimed.launcher.and_then(|p| p.identity()),
            }
        }
        JobRecord::JobStarted(started) => Fact::JobStarted {
            job: decoded(started).job.and_then(|p| p.identity()),
            at_ms,
        },
        JobRecord::JobNotStarted(not) => match decoded(not).stage() {
            job_not_started::Stage::Gate => Fact::GateClosed,
            job_not_started::Stage::Unspecified
            | job_not_started::Stage::Output
            | job_not_started::Stage::Folder
            | job_not_started::Stage::Exec
            | job_not_started::Stage::Fork
            | job_not_started::Stage::Cancelled => Fact::NotStarted,
        },
        JobRecord::StopAsked(asked) => Fact::StopAsked {
            by_scheduler: decoded(asked).cause() == StopCause::Warden,
        },
        JobRecord::JobExited(exited) => Fact::LeaderEnded {
            code_unknown: decoded(exited).code_unknown,
        },
        JobRecord::TreeGone(gone) => {
            let gone = decoded(gone);
            Fact::Gone {
                output_bytes: gone.stdout_bytes.saturating_add(gone.stderr_bytes),
            }
        }
        JobRecord::TakenOver(taken) => {
            let taken = decoded(taken);
            Fact::TakenOver {
                is_parent: taken.is_parent,
                job: taken.job.and_then(|p| p.identity()),
                launcher: taken.launcher.and_then(|p| p.identity()),
            }
        }
        JobRecord::Lost(_) => Fact::Lost,
        JobRecord::SignalSent(_)
        | JobRecord::Paused(_)
        | JobRecord::Resumed(_)
        | JobRecord::TaskOver(_)
        | JobRecord::Granted(_) => return None,
    })
}

fn fact_of_watcher(record: &WatchRecord<'_>) -> Fact {
    match record {
        WatchRecord::WatchStarted(started) => Fact::WatchStarted {
            watcher: decoded(started).watcher.and_then(|p| p.identity()),
        },
        WatchRecord::WatchEnded(ended) => Fact::WatchEnded {
            complete: decoded(ended).complete,
        },
    }
}

fn decoded<M: RecordMessage>(payload: &Payload<'_, M>) -> M {
    payload.decode().unwrap_or_default()
}
