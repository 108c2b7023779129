//! The remains of a cleaned run: the file `runs/<experiment>/<run>.gone` with the
//! records of its end, so that it is never started again, and its end can be
//! reported again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nero_journal::Clocks;
use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::{Gone, JobNotStarted, LedgerExited, job_not_started, ledger_exited};
use nero_model::paths::{NodePaths, run as names};
use nero_model::{DeploymentId, RunId, RunToken};
use nero_wire::v1::RunSpec;

use super::{folders, own};

/// Path of the file.
pub fn path(paths: &NodePaths, id: RunId) -> PathBuf {
    paths.run(id).with_extension("gone")
}

/// Writes the file; it is not yet durable.
///
/// # Errors
/// When the disk refuses; an earlier file stays.
pub fn write(paths: &NodePaths, id: RunId, end: LedgerExited) -> io::Result<()> {
    let path = path(paths, id);
    let gone = Gone {
        end: Some(end),
        cleaned_ms: Clocks::now().wall_ns / 1_000_000,
    };
    let private = path.with_extension(nero_model::ids::hex(&nero_model::ids::random::<8>()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&private)
        .and_then(|mut file| file.write_all(&frame::encode(FrameKind::Gone, &gone)))
        .and_then(|()| fs::rename(&private, &path));
    if written.is_err() {
        // The private name is ours; a leftover only takes space.
        let _ = fs::remove_file(&private);
    }
    written
}

/// The remains of exactly this run; `None` when it was not cleaned.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read(paths: &NodePaths, id: RunId, token: RunToken) -> Result<Option<Gone>, FrameError> {
    let gone: Gone = match frame::read(FrameKind::Gone, &path(paths, id)) {
        Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        gone => gone?,
    };
    let is_its = gone
        .end
        .as_ref()
        .is_some_and(|end| end.token == token.as_bytes());
    Ok(is_its.then_some(gone))
}

/// Makes a run's folder anew, with the records of its end and nothing else.
///
/// # Errors
/// When the folder cannot be made.
pub fn raise(
    paths: &NodePaths,
    deployment: DeploymentId,
    id: RunId,
    token: RunToken,
    gone: Gone,
) -> io::Result<()> {
    let run_dir = paths.run(id);
    let end = gone.end.unwrap_or_default();
    let spec = RunSpec {
        token: token.to_vec(),
        experiment: id.experiment.0,
        number: id.number,
        deployment: deployment.to_vec(),
        ..RunSpec::default()
    };
    let incarnation = end.incarnation.max(1);
    nero_model::paths::make_private(&run_dir)?;
    // A neromum that was killed while cleaning may have left the whole folder.
    if !folders::life(&run_dir, token)?.facts.ended() {
        write_end(&run_dir, token, incarnation, end.records)?;
    }
    // The spec comes last: a folder without it belongs to no run.
    match frame::create(FrameKind::Spec, &run_dir.join(names::SPEC), &spec) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes the records of an end; those of a run that was never started when there
/// are none.
fn write_end(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    mut records: Vec<ledger_exited::Copy>,
) -> io::Result<()> {
    if records.is_empty() {
        let never = JobNotStarted {
            stage: job_not_started::Stage::Cancelled.into(),
            errno: 0,
            ..JobNotStarted::default()
        };
        records.push(ledger_exited::Copy::new(own::NO_TIME, &never));
    }
    own::write_copies(run_dir, token, incarnation, &records)
}
