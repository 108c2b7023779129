//! Fetches a run's logs: the end of each, or the whole when it was asked for. A
//! whole log of a run that has ended is continued after a cut, since nothing is
//! appended to it any more.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nero_model::paths::run::{STDERR, STDOUT};
use nero_wire::v1;

use super::folder::Folder;
use super::receive;
use super::stamps::{FileStamps, Stamp};
use super::trouble::Trouble;
use super::way::{SILENCE, Way, blocking, silent};
use crate::transfer::RunningTransfer;
use nero_home::failure::Failure;

/// The length of the end of a log that is too long to come whole.
pub(super) const LOG_BYTES: u64 = 1024 * 1024;
/// Parts that wait for the disk.
const PARTS_WAITING: usize = 32;

/// One log to fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogToFetch {
    pub(super) stderr: bool,
    /// Its size, if known.
    pub(super) bytes: Option<u64>,
    /// A longer log does not come whole.
    pub(super) most: u64,
    /// Whether the run ended: the log does not grow.
    pub(super) ended: bool,
}

impl LogToFetch {
    /// Whether the whole log comes.
    pub(super) fn is_whole(self) -> bool {
        match self.bytes {
            Some(bytes) => bytes <= self.most,
            // The length shows while it comes; the automatic fetch then takes the
            // end alone.
            None => self.most > LOG_BYTES,
        }
    }

    /// Bytes of the end of a log that is not fetched whole.
    pub(super) fn tail_bytes(self) -> u64 {
        LOG_BYTES.min(self.most)
    }

    pub(super) fn name(self) -> &'static str {
        if self.stderr { STDERR } else { STDOUT }
    }

    /// No file of a job has such a name.
    fn key(self) -> &'static str {
        if self.stderr { "//stderr" } else { "//stdout" }
    }
}

/// The path of the log with this key.
pub(super) fn place(key: &str) -> Option<PathBuf> {
    match key {
        "//stdout" => Some(PathBuf::from(STDOUT)),
        "//stderr" => Some(PathBuf::from(STDERR)),
        _ => None,
    }
}

/// Whether the whole log is home, of an ended run whose files came home: the log
/// does not grow, and its size was recorded at the end.
pub(super) async fn is_home(way: &Way, log: LogToFetch) -> Result<bool, Trouble> {
    let path = way.folder.join(log.name());
    blocking(move || {
        std::fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && log.bytes == Some(found.len()))
    })
    .await
}

/// Brings a log home. Returns how many bytes travelled.
pub(super) async fn fetch(way: &Way, log: LogToFetch) -> Result<u64, Trouble> {
    if log.is_whole() {
        whole(way, log).await
    } else {
        tail(way, log).await
    }
}

/// The end of a log, which fits into memory.
async fn tail(way: &Way, log: LogToFetch) -> Result<u64, Trouble> {
    let most = log.tail_bytes();
    let request = v1::ReadLogRequest {
        run: Some(way.run.clone()),
        incarnation: way.start,
        stderr: log.stderr,
        offset: match log.bytes {
            // Bytes that leftover processes appended after the end do not belong
            // to the run.
            Some(bytes) => i64::try_from(bytes.saturating_sub(most)).unwrap_or(0),
            None => -i64::try_from(most).unwrap_or(0),
        },
        max_bytes: most,
        ..v1::ReadLogRequest::default()
    };
    let mut parts = open(way, log, request).await?;
    let mut data: Vec<u8> = Vec::new();
    while let Some(part) = next(&mut parts, log).await? {
        if data.len() as u64 + part.data.len() as u64 > most {
            return Err(Trouble::Refused(
                Failure::node_errs("answers with something else")
                    .because(format!("{} is longer than was asked for", log.name())),
            ));
        }
        data.extend_from_slice(&part.data);
        if part.end {
            break;
        }
    }
    let folder = way.folder.clone();
    let came = blocking(move || {
        let path = Path::new(log.name());
        let bytes = data.len() as u64;
        let whole = all_of(log, bytes, most);
        let write = |folder: &mut Folder| {
            if whole.is_err() && has_more(folder, path, bytes) {
                return Ok(());
            }
            let mut part = folder.begin(path, false)?;
            part.file.write_all(&data)?;
            folder.finish(path, part.file, None, false)
        };
        Folder::open(&folder)
            .and_then(|mut folder| write(&mut folder))
            .map_err(|error| Trouble::unwritten(&folder.join(path), &error))?;
        whole.map(|()| bytes)
    });
    came.await?
}

/// Whether our copy is longer than what the node still has (the job truncated its
/// log). Then we keep ours.
fn has_more(folder: &mut Folder, path: &Path, came: u64) -> bool {
    folder.there(path).is_some_and(|(bytes, _)| bytes > came)
}

/// Refuses a log that is shorter than at the end of its run; no more than `most`
/// bytes were requested.
fn all_of(log: LogToFetch, came: u64, most: u64) -> Result<(), Trouble> {
    let Some(bytes) = log.bytes.filter(|_| log.ended) else {
        return Ok(());
    };
    let asked = bytes.min(most);
    if came >= asked {
        return Ok(());
    }
    let failure = Failure::failed(format!("{} is not whole on its node", log.name()));
    let why = format!("{came} of {asked} bytes came");
    Err(Trouble::Refused(failure.because(why)))
}

/// Fetches the whole log, through the disk.
async fn whole(way: &Way, log: LogToFetch) -> Result<u64, Trouble> {
    let stamp = Stamp {
        size: log.bytes.unwrap_or(0),
        ..Stamp::default()
    };
    let (folder, place, min_free) = (way.folder.clone(), way.known.clone(), way.min_free);
    let (folder, known, from) = blocking(move || {
        let failed = |error| Trouble::unwritten(&folder.join(log.name()), &error);
        let mut folder = Folder::open(&folder).map_err(failed)?;
        let known = FileStamps::open(&place).map_err(failed)?;
        let again = log.ended && log.bytes.is_some() && known.begun_as(log.key()) == Some(stamp);
        let there = folder.part_bytes(Path::new(log.name()));
        let from = if again && there < stamp.size {
            there
        } else {
            0
        };
        receive::enough_room(&folder, stamp.size.saturating_sub(from), min_free)?;
        Ok::<_, Trouble>((folder, known, from))
    })
    .await??;
    let request = v1::ReadLogRequest {
        run: Some(way.run.clone()),
        incarnation: way.start,
        stderr: log.stderr,
        offset: i64::try_from(from).unwrap_or(0),
        // 0 would mean no limit.
        max_bytes: limit(log).saturating_sub(from).max(1),
        ..v1::ReadLogRequest::default()
    };
    let mut parts = open(way, log, request).await?;
    let moving = RunningTransfer::new(
        way.on_progress.clone(),
        &way.whose.node,
        &format!("fetching {}", log.name()),
        stamp.size.saturating_sub(from),
        1,
    );
    let (tx, mut rx) = tokio::sync::mpsc::channel(PARTS_WAITING);
    let writing = tokio::task::spawn_blocking(move || {
        let parts = std::iter::from_fn(|| rx.blocking_recv());
        LogWrite {
            folder,
            known,
            log,
            stamp,
            from,
            moving,
            min_free,
        }
        .take(parts)
    });
    let pumped = pump(&mut parts, log, tx).await;
    let written = writing.await.map_err(|error| {
        Trouble::Refused(Failure::bug("writing a log ended early").caused_by(&error))
    })?;
    let bytes = written?;
    pumped.map(|()| bytes)
}

/// Hands the parts of a log to the disk's thread, to the end of one of the two.
async fn pump(
    parts: &mut Parts,
    log: LogToFetch,
    tx: tokio::sync::mpsc::Sender<v1::LogPart>,
) -> Result<(), Trouble> {
    loop {
        // A stream that ends is complete.
        let part = next(parts, log).await?.unwrap_or_else(|| v1::LogPart {
            end: true,
            offset: u64::MAX,
            ..v1::LogPart::default()
        });
        let is_last = part.end;
        // If the writer has ended, its own result shows why.
        if tx.send(part).await.is_err() || is_last {
            return Ok(());
        }
    }
}

/// The state of the disk's thread while a log comes.
struct LogWrite {
    folder: Folder,
    known: FileStamps,
    log: LogToFetch,
    stamp: Stamp,
    from: u64,
    moving: RunningTransfer,
    min_free: u64,
}

/// Most bytes that may come of a whole log: the size at its end.
fn limit(log: LogToFetch) -> u64 {
    match log.bytes.filter(|_| log.ended) {
        Some(bytes) => bytes.min(log.most),
        None => log.most,
    }
}

impl LogWrite {
    /// Writes parts until the end part; without it, half a log stays.
    fn take(mut self, parts: impl Iterator<Item = v1::LogPart>) -> Result<u64, Trouble> {
        let path = Path::new(self.log.name());
        let shown = self.folder.path().join(path);
        let failed = |error: std::io::Error| Trouble::unwritten(&shown, &error);
        self.known
            .begin(self.log.key(), self.stamp)
            .map_err(failed)?;
        let mut part = self.folder.begin(path, self.from > 0).map_err(failed)?;
        let (mut at, mut travelled, mut looked) = (part.there, 0_u64, 0_u64);
        let most = limit(self.log);
        let refused = |why: String| {
            Trouble::Refused(Failure::node_errs("answers with something else").because(why))
        };
        for piece in parts {
            if piece.truncated {
                // The job truncated its log; so does the copy.
                part = self.folder.begin(path, false).map_err(failed)?;
                at = piece.offset;
            }
            let bytes = piece.data.len() as u64;
            if bytes > 0 && piece.offset != at {
                let name = self.log.name();
                return Err(refused(format!("{name} came with a gap at byte {at}")));
            }
            if bytes == 0 && !piece.end && !piece.truncated {
                return Err(refused(format!("{} came in empty parts", self.log.name())));
            }
            // A job may truncate its log while it is read, but not for ever.
            let all = travelled.saturating_add(bytes);
            if at.saturating_add(bytes) > most || all > most.saturating_mul(2) {
                let name = self.log.name();
                return Err(refused(format!("{name} is longer than was asked for")));
            }
            part.file.write_all(&piece.data).map_err(failed)?;
            at = at.saturating_add(bytes);
            travelled = all;
            self.moving.add(bytes, 0);
            if travelled >= looked.saturating_add(receive::LOOK_EVERY_BYTES) {
                looked = travelled;
                receive::enough_room(&self.folder, 0, self.min_free)?;
            }
            if piece.end {
                let whole = all_of(self.log, at, u64::MAX);
                if whole.is_err() && has_more(&mut self.folder, path, at) {
                    self.folder.discard(path);
                } else {
                    self.folder
                        .finish(path, part.file, None, false)
                        .map_err(failed)?;
                }
                self.known.drop_half(self.log.key()).map_err(failed)?;
                return whole.map(|()| travelled);
            }
        }
        Ok(travelled)
    }
}

type Parts = tonic::Streaming<v1::LogPart>;

async fn open(way: &Way, log: LogToFetch, request: v1::ReadLogRequest) -> Result<Parts, Trouble> {
    let mut client = way.client.clone();
    tokio::time::timeout(SILENCE, client.read_log(request))
        .await
        .map_err(|_| silent())?
        .map(tonic::Response::into_inner)
        .map_err(|status| failed(log, &status))
}

async fn next(parts: &mut Parts, log: LogToFetch) -> Result<Option<v1::LogPart>, Trouble> {
    tokio::time::timeout(SILENCE, parts.message())
        .await
        .map_err(|_| silent())?
        .map_err(|status| failed(log, &status))
}

fn failed(log: LogToFetch, status: &tonic::Status) -> Trouble {
    Trouble::status(format!("cannot fetch {}", log.name()), status)
}
