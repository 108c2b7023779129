//! Reads a run's segments from disk: where each stands, what it says. The disk
//! is the truth; everything that rings only tells when to look.

mod read;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nero_journal::v1::{
    Claimed, JobNotStarted, JobStarted, RecordKind, TakenOver, TreeGone, WatchEnded, WatchStarted,
    job_not_started, ledger_exited,
};
use nero_journal::{
    Clocks, HEADER_BYTES, Header, HeaderError, PAYLOAD_BYTES_MAX, Reader, Record, is_shut,
};
use nero_model::paths::run as names;

use crate::core::facts::{Fact, Facts};
pub use read::read_part;
use read::{open, read_at_most};

/// One segment of a run, as far as it was read.
#[derive(Clone, Debug)]
pub struct Seg {
    /// Which start of the job it belongs to.
    pub incarnation: u32,
    /// Its random id.
    pub id: [u8; 8],
    /// Name in the incarnation's folder.
    pub name: Box<str>,
    /// Bytes known to be there, header included.
    pub len: u64,
    /// Chain value there.
    pub chain: u32,
    /// How much of it may be passed on: an end only once the ledger has it.
    pub visible: u64,
    /// What was read or received last, kept until it is passed on.
    pub fresh: Option<Fresh>,
}

/// Bytes of a segment in memory.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Of its first byte.
    pub offset: u64,
    /// Chain value before it.
    pub chain: u32,
    /// Whole records; the header too at offset 0.
    pub data: Bytes,
}

/// What a look brought.
#[derive(Debug, Default)]
pub struct Look {
    /// Something was appended, or a segment is new.
    pub grew: bool,
    /// The records with which the run (or its main process) ended.
    pub ends: Vec<ledger_exited::Copy>,
    /// Segments whose mode lets nobody read them; they were passed over.
    pub shut: Vec<PathBuf>,
}

/// Bytes read at first, and of what is longer at a time; a whole record fits.
const PIECE_BYTES_FIRST: usize = 8 * 1024;
const PIECE_BYTES: usize = 2 * PAYLOAD_BYTES_MAX;
/// More than this is not kept in memory for passing on.
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

/// Looks at every segment of an incarnation.
///
/// # Errors
/// When a folder or file cannot be read; a folder that is not there has no
/// segments.
pub fn look(
    run_dir: &Path,
    incarnation: u32,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
) -> io::Result<Look> {
    let mut look = Look::default();
    look_into(run_dir, incarnation, segments, facts, &mut look).map(|()| look)
}

/// As [`look`], into `look`, which after an error has what was read before it.
///
/// # Errors
/// As [`look`].
pub fn look_into(
    run_dir: &Path,
    incarnation: u32,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> io::Result<()> {
    let folder = folder(run_dir, incarnation);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut new = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_segment = name == names::CLAIM || name.ends_with(names::SEGMENT_SUFFIX);
        // Whatever else has such a name, a job put there.
        if !is_segment || name.starts_with('.') || !entry.file_type()?.is_file() {
            continue;
        }
        let is_known = |seg: &Seg| seg.incarnation == incarnation && *seg.name == *name;
        let looked = if segments.iter().any(is_known) {
            look_at(&folder, incarnation, name, segments, facts, look)
        } else {
            header(&folder, name).map(|header| new.push((header, name.to_owned())))
        };
        let Err(error) = looked else { continue };
        let path = folder.join(name);
        // Without its claim nothing can be said of a run; without another one
        // that nobody may read, all the rest can.
        if name == names::CLAIM || !is_shut(&path, &error) {
            return Err(about(&path, &error));
        }
        look.shut.push(path);
    }
    in_order(&mut new, facts.boot_id);
    for (_, name) in new {
        look_at(&folder, incarnation, &name, segments, facts, look)?;
    }
    Ok(())
}

/// Sorts new segments of one incarnation by their beginning, as they are passed
/// on in the order in which they lie in memory: a watcher begins when the one
/// before it is dead, so its points are the later ones. The claim is the first;
/// `boot_id`: of the claim, when it is known. What was begun after another
/// start of the machine comes last.
fn in_order(new: &mut [(Option<Header>, String)], boot_id: Option<[u8; 16]>) {
    let claim = new.iter().find(|(_, name)| name == names::CLAIM);
    let boot_id = boot_id.or(claim.and_then(|(header, _)| Some(header.as_ref()?.boot_id)));
    new.sort_by_key(|(header, name)| match header {
        Some(header) => (
            name != names::CLAIM,
            boot_id.is_some_and(|boot_id| header.boot_id != boot_id),
            header.mono_ns,
        ),
        // Not there yet; it is looked at again.
        None => (true, true, u64::MAX),
    });
}

/// The same error, which names the file.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn header(folder: &Path, name: &str) -> io::Result<Option<Header>> {
    let mut head = [0; HEADER_BYTES];
    let length = read_at_most(&open(&folder.join(name))?, &mut head, 0)?;
    Ok(Header::parse(&head[..length]).ok())
}

/// Looks at the claim alone: enough for a run so short that nothing but its
/// shim wrote.
///
/// # Errors
/// As [`look`].
pub fn look_at_claim(
    run_dir: &Path,
    incarnation: u32,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> io::Result<()> {
    let folder = folder(run_dir, incarnation);
    match look_at(&folder, incarnation, names::CLAIM, segments, facts, look) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        looked => looked,
    }
}

fn look_at(
    folder: &Path,
    incarnation: u32,
    name: &str,
    segments: &mut Vec<Seg>,
    facts: &mut Facts,
    look: &mut Look,
) -> io::Result<()> {
    let file = open(&folder.join(name))?;
    let known = segments
        .iter()
        .position(|seg| seg.incarnation == incarnation && *seg.name == *name);
    let is_claim = name == names::CLAIM;
    facts.claimed |= is_claim;
    let index = match known {
        Some(index) => index,
        None => match begin(&file, incarnation, name)? {
            Ok(seg) => {
                if is_claim {
                    facts.boot_id = Some(seg.1);
                    // It was not all here yet when it was looked at before.
                    facts.unreadable = false;
                }
                segments.push(seg.0);
                look.grew = true;
                segments.len() - 1
            }
            // A segment whose header is not written yet says nothing so far;
            // a claim has its name only after its header.
            Err(_) => {
                facts.unreadable |= is_claim;
                return Ok(());
            }
        },
    };
    go_on(&file, &mut segments[index], facts, look)
}

type Begun = Result<(Seg, [u8; 16]), HeaderError>;

fn begin(file: &File, incarnation: u32, name: &str) -> io::Result<Begun> {
    let mut head = [0; HEADER_BYTES];
    let length = read_at_most(file, &mut head, 0)?;
    Ok(Header::parse(&head[..length]).map(|header| {
        let seg = Seg {
            incarnation,
            id: header.segment.0,
            name: name.into(),
            len: 0,
            chain: header.chain,
            visible: 0,
            fresh: None,
        };
        (seg, header.boot_id)
    }))
}

/// Reads what was appended, piece by piece.
fn go_on(file: &File, seg: &mut Seg, facts: &mut Facts, look: &mut Look) -> io::Result<()> {
    // One small piece is enough nearly always: segments grow by a record or a few.
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
            return Ok(());
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
        // A piece that begins no whole record is torn or not there yet, unless
        // the record is longer than the piece.
        if !more || (end == from && size >= PIECE_BYTES) {
            return Ok(());
        }
        longer.resize(PIECE_BYTES, 0);
    }
}

/// Keeps bytes for passing on, when nothing older waits and they are few.
fn keep(seg: &mut Seg, offset: u64, chain: u32, data: &[u8]) {
    let behind = seg.visible < offset;
    seg.fresh = (!behind && data.len() <= FRESH_BYTES_MAX).then(|| Fresh {
        offset,
        chain,
        data: Bytes::copy_from_slice(data),
    });
}

/// Takes what a watcher sent of its segment; false when it does not continue
/// what is known, or holds no whole good records: then the disk says.
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
    let Some(kind) = RecordKind::try_from(i32::from(record.kind)).ok() else {
        return;
    };
    if let Some(fact) = fact_of(kind, record) {
        facts.fold(fact);
    }
    let ends = match kind {
        // Without why it was stopped, an aborted job would be one that crashed.
        RecordKind::StopAsked | RecordKind::JobExited | RecordKind::TreeGone | RecordKind::Lost => {
            true
        }
        RecordKind::JobNotStarted => facts.not_started,
        _ => false,
    };
    if ends {
        look.ends.push(ledger_exited::Copy {
            kind: record.kind.into(),
            payload: record.payload.to_vec(),
            wall_ns: record.wall_ns,
            mono_ns: record.mono_ns,
        });
    }
}

/// When the original of a copied record was written.
pub fn clocks_of(copy: &ledger_exited::Copy) -> Clocks {
    match copy.wall_ns {
        0 => Clocks::now(),
        wall_ns => Clocks {
            wall_ns,
            mono_ns: copy.mono_ns,
        },
    }
}

/// What a record means here. A payload that cannot be decoded counts as an
/// empty one: its checksum is right, so its writer is of another mind, and its
/// kind still says what happened.
fn fact_of(kind: RecordKind, record: &Record<'_>) -> Option<Fact> {
    Some(match kind {
        RecordKind::Claimed => Fact::Claimed {
            shim: decoded::<Claimed>(record).shim.and_then(|p| p.identity()),
        },
        RecordKind::JobStarted => Fact::JobStarted {
            job: decoded::<JobStarted>(record).job.and_then(|p| p.identity()),
        },
        RecordKind::JobNotStarted => match decoded::<JobNotStarted>(record).stage() {
            job_not_started::Stage::Gate => Fact::GateClosed,
            _ => Fact::NotStarted,
        },
        RecordKind::JobExited => Fact::LeaderEnded,
        RecordKind::TreeGone => {
            let gone: TreeGone = decoded(record);
            Fact::Gone {
                output_bytes: gone.stdout_bytes.saturating_add(gone.stderr_bytes),
            }
        }
        RecordKind::TakenOver => {
            let taken: TakenOver = decoded(record);
            Fact::TakenOver {
                is_parent: taken.is_parent,
                job: taken.job.and_then(|p| p.identity()),
                launcher: taken.launcher.and_then(|p| p.identity()),
            }
        }
        RecordKind::WatchStarted => Fact::WatchStarted {
            watcher: decoded::<WatchStarted>(record)
                .watcher
                .and_then(|p| p.identity()),
        },
        RecordKind::WatchEnded => Fact::WatchEnded {
            complete: decoded::<WatchEnded>(record).complete,
        },
        RecordKind::Lost => Fact::Lost,
        _ => return None,
    })
}

fn decoded<M: prost::Message + Default>(record: &Record<'_>) -> M {
    record.decode().unwrap_or_default()
}
