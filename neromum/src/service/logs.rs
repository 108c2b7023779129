//! Sends a log: its present content, and with `follow` its growth until the run
//! has ended. Reads in short steps off the reactor: a log may lie on a distant
//! file server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_node::agent::Milestone;
use nero_node::files::log::{From, Growth, LogReader, PARTS_IN_FLIGHT};
use nero_node::runs::segments;
use nero_wire::v1::{LogPart, ReadLogRequest};
use tokio::sync::mpsc;
use tonic::Status;

use super::{ServiceState, io_status};

type Parts = mpsc::Sender<Result<LogPart, Status>>;

/// Reads a log into `parts`; ends when the reader leaves.
pub async fn read(
    inner: Arc<ServiceState>,
    token: RunToken,
    run_dir: PathBuf,
    request: ReadLogRequest,
    parts: Parts,
) {
    if let Err(status) = go_on(&inner, token, run_dir, request, &parts).await {
        // A reader that has left needs no error.
        let _ = parts.send(Err(status)).await;
    }
}

async fn go_on(
    inner: &ServiceState,
    token: RunToken,
    run_dir: PathBuf,
    request: ReadLogRequest,
    parts: &Parts,
) -> Result<(), Status> {
    let agent = &inner.agent;
    let mut ended = None;
    if request.follow {
        let started = agent.until(token, Milestone::Started).await?;
        tokio::select! {
            _ = started => {}
            () = parts.closed() => return Ok(()),
        }
        ended = Some(agent.until(token, Milestone::Ended).await?);
    }
    let path = inner
        .file_work({
            let request = request.clone();
            move || log_path(&run_dir, &request)
        })
        .await?;
    // Watched before it is read, so that bytes appended in between are not
    // missed.
    let mut growth = ended.is_some().then(|| Growth::of(&path));
    let opened = inner.file_work(move || open(&path, &request)).await?;
    let mut log = match opened {
        Ok(log) => log,
        // There is no log, so nothing was printed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return send(parts, nothing()).await;
        }
        Err(error) => return Err(io_status("cannot read the log", &error)),
    };
    let mut over = ended.is_none();
    loop {
        loop {
            let (back, step) = inner.file_work(move || step(log)).await?;
            log = back;
            let (read, more) = step.map_err(|error| io_status("cannot read the log", &error))?;
            for part in read {
                send(parts, part).await?;
            }
            if !more {
                break;
            }
        }
        if over || log.is_full() {
            return send(parts, log.end()).await;
        }
        if let (Some(growth), Some(ended)) = (&mut growth, &mut ended) {
            tokio::select! {
                // Output printed before the end is read once more.
                last = growth.changed_or(ended) => over = last,
                () = parts.closed() => return Ok(()),
            }
        }
        if over {
            log = inner.file_work(move || log.opened_again()).await?;
        }
    }
}

fn open(path: &Path, request: &ReadLogRequest) -> io::Result<LogReader> {
    let from = match request.last_lines {
        0 => From::Offset(request.offset),
        lines => From::LastLines(lines),
    };
    LogReader::open(path, from, request.max_bytes)
}

/// The next few parts, and whether more may follow.
fn step(mut log: LogReader) -> (LogReader, io::Result<(Vec<LogPart>, bool)>) {
    let mut read = Vec::new();
    while read.len() < PARTS_IN_FLIGHT {
        match log.next_part() {
            Ok(Some(part)) => read.push(part),
            Ok(None) => return (log, Ok((read, false))),
            Err(error) => return (log, Err(error)),
        }
    }
    (log, Ok((read, true)))
}

async fn send(parts: &Parts, part: LogPart) -> Result<(), Status> {
    parts
        .send(Ok(part))
        .await
        .map_err(|_| Status::cancelled("the reader left"))
}

fn nothing() -> LogPart {
    LogPart {
        end: true,
        ..LogPart::default()
    }
}

fn log_path(run_dir: &Path, request: &ReadLogRequest) -> PathBuf {
    let incarnation = match request.incarnation {
        0 => segments::newest(run_dir).unwrap_or(1).max(1),
        given => given,
    };
    let name = if request.stderr {
        names::STDERR
    } else {
        names::STDOUT
    };
    segments::folder(run_dir, incarnation).join(name)
}
