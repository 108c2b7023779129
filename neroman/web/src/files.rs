//! Logs by ranges of bytes, and the files of runs that are here. What a job wrote is never a page:
//! text without markup, or an attachment.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use futures_util::stream;
use nero_views::json;
use nero_wire::v1::{LogsRequest, PathsRequest};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::call::{Refusal, ViewCall};
use crate::query::Query;
use crate::reply::{Reply, SANDBOX, body, document, error, fault, refusal};
use crate::server::{Caller, Site};

/// Bytes of a log in one answer.
const LOG_MAX: usize = 256 * 1024;
/// The last lines of a log that names no number of them.
const LINES: u64 = 1000;
const LINES_MAX: u64 = 100_000;
/// Files of a list, and how deep folders are looked into.
const FILES_MAX: usize = 1000;
const DEPTH_MAX: usize = 32;
/// Bytes of a file that are read at a time.
const PIECE: usize = 64 * 1024;

/// `GET /log`: bytes of a log, with their place in the headers.
pub(crate) async fn log(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let read = async {
        let asked = asked_log(raw.as_deref())?;
        log_part(&site.caller, asked, LOG_MAX).await
    };
    let part = match read.await {
        Ok(part) => part,
        Err(refused) => return refusal(&refused),
    };
    let fields = [
        ("x-from", part.from.to_string()),
        ("x-next", (part.from + part.bytes.len() as u64).to_string()),
        ("x-end", u8::from(part.is_end).to_string()),
        ("x-notice", json::print(&json!(part.notice))),
    ];
    let mut reply = body("text/plain; charset=utf-8", part.bytes);
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            reply.headers_mut().insert(name, value);
        }
    }
    reply
}

fn asked_log(raw: Option<&str>) -> Result<LogsRequest, Refusal> {
    let query = Query::read(raw, &["run", "stream", "from", "last", "start"], &[])?;
    let from = query.number("from", 0..=i64::MAX)?;
    Ok(LogsRequest {
        what: query.text_or_empty("run").to_owned(),
        stderr: match query.text("stream") {
            None | Some("stdout") => false,
            Some("stderr") => true,
            Some(other) => return Err(fault(&format!("a run has no stream `{other}`"), "")),
        },
        lines: query.number("last", 1..=LINES_MAX)?.unwrap_or(LINES),
        offset: from.unwrap_or(0),
        use_offset: from.is_some(),
        start: query.number("start", 1..=u32::MAX)?.unwrap_or(0),
        ..LogsRequest::default()
    })
}

/// A part of a log.
pub(crate) struct LogPart {
    /// The place of the first byte.
    pub from: u64,
    pub bytes: Vec<u8>,
    /// Whether nothing follows at the moment.
    pub is_end: bool,
    /// What the daemon remarks, as that the log came home from a node that is away.
    pub notice: String,
}

/// At most so many bytes of a log.
///
/// # Errors
/// The daemon's.
pub(crate) async fn log_part(
    caller: &Caller,
    asked: LogsRequest,
    most: usize,
) -> Result<LogPart, Refusal> {
    let begin = asked.offset.unsigned_abs();
    let chunks = caller
        .ask(|answer| ViewCall::Log(asked, most, answer))
        .await?;
    let first = chunks.iter().find(|chunk| !chunk.data.is_empty());
    let notices = chunks.iter().map(|chunk| chunk.notice.as_str());
    let notices: Vec<&str> = notices.filter(|notice| !notice.is_empty()).collect();
    Ok(LogPart {
        from: first.map_or(begin, |chunk| chunk.offset),
        is_end: chunks.iter().any(|chunk| chunk.end),
        notice: notices.join("; "),
        bytes: chunks
            .iter()
            .flat_map(|chunk| &chunk.data)
            .copied()
            .collect(),
    })
}

/// The folder of a run's results on this machine.
async fn results_of(site: &Site, run: &str) -> Result<PathBuf, Refusal> {
    let asked = PathsRequest {
        selection: Some((site.caller.settings.select)(run)),
        work: false,
    };
    let reply = site
        .caller
        .ask(|answer| ViewCall::Paths(asked, answer))
        .await?;
    match reply.paths.as_slice() {
        [one] if !one.path.is_empty() && one.node.is_empty() => Ok(PathBuf::from(&one.path)),
        [one] => Err(fault(
            &format!("nothing of {run} is here"),
            if one.note.is_empty() {
                "`neroman fetch` brings files of runs"
            } else {
                &one.note
            },
        )),
        _ => Err(fault(&format!("`{run}` is not one run"), "")),
    }
}

/// `GET /files`: the files of a run that are here.
pub(crate) async fn files(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let listed = async {
        let query = Query::read(raw.as_deref(), &["run"], &[])?;
        let folder = results_of(&site, query.text_or_empty("run")).await?;
        let listed = tokio::task::spawn_blocking(move || {
            let mut list = FileList::default();
            list.add(&folder, "", 0);
            list
        });
        listed
            .await
            .map_err(|_| fault("the files cannot be listed", ""))
    };
    match listed.await {
        Ok(mut list) => {
            list.files.sort();
            let files = list.files.iter();
            let files = files.map(|(path, bytes)| json!({"path": path, "bytes": bytes}));
            document(&json::document(json!({
                "files": files.collect::<Vec<_>>(),
                "more": list.more,
            })))
        }
        Err(refused) => refusal(&refused),
    }
}

/// Regular files below a folder; links are not followed.
#[derive(Default)]
struct FileList {
    files: Vec<(String, u64)>,
    /// Files that are left out.
    more: u64,
}

impl FileList {
    fn add(&mut self, folder: &Path, begin: &str, depth: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            // A name that is no text has no address.
            let Ok(name) = entry.file_name().into_string() else {
                self.more += 1;
                continue;
            };
            let Ok(about) = entry.metadata() else {
                continue;
            };
            let path = format!("{begin}{name}");
            if about.is_dir() && depth < DEPTH_MAX {
                self.add(&entry.path(), &format!("{path}/"), depth + 1);
            } else if about.is_file() && self.files.len() < FILES_MAX {
                self.files.push((path, about.len()));
            } else {
                self.more += 1;
            }
        }
    }
}

/// `GET /file`: a file of a run's results as an attachment.
pub(crate) async fn file(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let opened = async {
        let query = Query::read(raw.as_deref(), &["run", "path"], &[])?;
        let folder = results_of(&site, query.text_or_empty("run")).await?;
        let path = query.text_or_empty("path").to_owned();
        Ok((folder, path))
    };
    let (folder, path) = match opened.await {
        Ok(found) => found,
        Err(refused) => return refusal(&refused),
    };
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let opened = tokio::task::spawn_blocking(move || open_beneath(&folder, &path)).await;
    match opened {
        Ok(Ok(file)) => attachment(file, &name),
        Ok(Err(_)) | Err(_) => error(
            StatusCode::NOT_FOUND,
            "there is no such file among the results of the run",
            "",
        ),
    }
}

/// Opens a regular file of a folder; no link and no `..` leads out of it.
fn open_beneath(folder: &Path, path: &str) -> std::io::Result<std::fs::File> {
    let base = rustix::fs::open(folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // A pipe without a writer would keep the thread.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let limits = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file: OwnedFd = rustix::fs::openat2(&base, path, flags, Mode::empty(), limits)?;
    let file = std::fs::File::from(file);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::ErrorKind::InvalidInput.into())
    }
}

fn attachment(file: std::fs::File, name: &str) -> Reply {
    let file = tokio::fs::File::from_std(file);
    let pieces = stream::try_unfold(file, async |mut file| {
        let mut piece = vec![0; PIECE];
        let count = file.read(&mut piece).await?;
        piece.truncate(count);
        let more = (count > 0).then(|| (Bytes::from(piece), file));
        Ok::<_, std::io::Error>(more)
    });
    let mut reply = body("application/octet-stream", Body::from_stream(pieces));
    let encoded = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>();
    let disposition = format!(
        "attachment; filename*=UTF-8''{}",
        encoded.replace('+', "%20")
    );
    let headers = reply.headers_mut();
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(SANDBOX),
    );
    reply
}
