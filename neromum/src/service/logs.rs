//! Sends a log: what is there, and with `follow` what comes until the run has
//! ended.

use std::io;
use std::path::{Path, PathBuf};

use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_wire::v1::{LogPart, ReadLogRequest};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::io_status;
use crate::agent::segments;
use crate::agent::{AgentHandle, Message, Until};
use crate::files::log::{From, Growth, Log};

type Parts = mpsc::Sender<Result<LogPart, Status>>;

/// Reads a log into `parts`; ends when the reader leaves.
pub async fn read(
    agent: AgentHandle,
    token: RunToken,
    run_dir: PathBuf,
    request: ReadLogRequest,
    parts: Parts,
) {
    if let Err(status) = go_on(&agent, token, &run_dir, &request, &parts).await {
        // A reader that left needs no error.
        let _ = parts.send(Err(status)).await;
    }
}

async fn go_on(
    agent: &AgentHandle,
    token: RunToken,
    run_dir: &Path,
    request: &ReadLogRequest,
    parts: &Parts,
) -> Result<(), Status> {
    let mut ended = None;
    if request.follow {
        let started = until(agent, token, Until::Started).await?;
        tokio::select! {
            _ = started => {}
            () = parts.closed() => return Ok(()),
        }
        ended = Some(until(agent, token, Until::Ended).await?);
    }
    let path = log_path(run_dir, request);
    let from = match request.last_lines {
        0 => From::Offset(request.offset),
        lines => From::LastLines(lines),
    };
    // Watched before it is read: what is appended in between is not missed.
    let mut growth = ended.is_some().then(|| Growth::of(&path));
    let mut log = match Log::open(&path, from, request.max_bytes) {
        Ok(log) => log,
        // No log was made: nothing was printed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return send(parts, nothing()).await;
        }
        Err(error) => return Err(io_status("cannot read the log", &error)),
    };
    let mut over = ended.is_none();
    loop {
        while let Some(part) = log
            .next()
            .map_err(|error| io_status("cannot read the log", &error))?
        {
            send(parts, part).await?;
        }
        if over || log.is_full() {
            return send(parts, log.end()).await;
        }
        if let (Some(growth), Some(ended)) = (&mut growth, &mut ended) {
            tokio::select! {
                // What was printed before the end is read once more.
                last = growth.changed_or(ended) => over = last,
                () = parts.closed() => return Ok(()),
            }
        }
    }
}

async fn until(
    agent: &AgentHandle,
    token: RunToken,
    until: Until,
) -> Result<oneshot::Receiver<()>, Status> {
    let (answer, reached) = oneshot::channel();
    agent.tell(Message::Until(token, until, answer)).await?;
    Ok(reached)
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
