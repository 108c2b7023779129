//! The spec of a run: without it a folder belongs to no run.

use std::path::Path;
use std::{fs, io};

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_model::paths::{NodePaths, run as names};
use nero_model::{RunId, RunToken};
use nero_wire::v1::RunSpec;

use super::segments::proves_absence;
use super::unreadable::{FileFault, Unreadable};

/// Reason why a run's spec cannot be used.
#[derive(Debug)]
pub struct SpecError {
    /// The file, and its fault.
    pub file: Unreadable,
    /// Whether the disk only fails to deliver the spec now, which proves nothing
    /// about the run.
    pub may_pass: bool,
}

/// Reads a run's spec and checks that it is this run's.
///
/// # Errors
/// When it cannot be read, or is damaged or another run's.
pub fn read(paths: &NodePaths, id: RunId, token: RunToken) -> Result<RunSpec, SpecError> {
    let path = paths.run(id).join(names::SPEC);
    let spec: RunSpec = frame::read(FrameKind::Spec, &path).map_err(|error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        let may_pass = may_pass(&error);
        let what = if may_pass {
            FileFault::Refused(why)
        } else {
            FileFault::Spec(why)
        };
        SpecError {
            file: Unreadable::new(&path, what),
            may_pass,
        }
    })?;
    if spec.token != token.as_bytes() {
        return Err(SpecError {
            file: Unreadable::new(&path, FileFault::Spec("it is another run's".to_owned())),
            may_pass: false,
        });
    }
    Ok(spec)
}

/// Whether the file may exist although it cannot be read.
pub fn may_pass(error: &FrameError) -> bool {
    matches!(error, FrameError::Io(error) if !proves_absence(error))
}

/// Reads the spec in a folder, of any run.
///
/// # Errors
/// A text, when the spec cannot be read or is damaged.
pub fn of_folder(run_dir: &Path) -> Result<RunSpec, String> {
    let path = run_dir.join(names::SPEC);
    frame::read(FrameKind::Spec, &path).map_err(|error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        format!("cannot use {}: {why}", path.display())
    })
}

/// Whether a folder belongs to no run because its run was recalled.
pub fn is_recalled(run_dir: &Path) -> bool {
    let is_there = |name| fs::symlink_metadata(run_dir.join(name)).is_ok();
    is_there(names::RECALLED) && !is_there(names::SPEC)
}

/// Whether the folder is that of this run, recalled. A spec that cannot be read
/// counts, too: no run is started from that name.
pub fn was_recalled(run_dir: &Path, token: RunToken) -> bool {
    match frame::read::<RunSpec>(FrameKind::Spec, &run_dir.join(names::RECALLED)) {
        Ok(spec) => spec.token == token.as_bytes(),
        Err(FrameError::Io(error)) => !proves_absence(&error),
        Err(_) => true,
    }
}

/// Removes a folder that was made just now for a refused run: a neroman that
/// takes the deployment over would start the run in it.
///
/// # Errors
/// When the spec cannot be removed.
pub fn unmake(run_dir: &Path) -> io::Result<()> {
    // Without its spec a folder belongs to no run, whichever process removed it.
    match fs::remove_file(run_dir.join(names::SPEC)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let _ = fs::remove_file(run_dir.join(names::SPARE));
    for folder in [&run_dir.join(names::CONTROL), run_dir] {
        // Other files in it are not ours to remove.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Removes such a folder, unless it holds the spec of a hand-over after number `last`: a hand-over
/// whose caller is gone may end long after a later one made the folder anew. Returns whether it
/// was removed.
///
/// # Errors
/// When the spec cannot be removed.
pub fn unmake_up_to(paths: &NodePaths, id: RunId, token: RunToken, last: u32) -> io::Result<bool> {
    match read(paths, id, token) {
        Ok(spec) if spec.generation > last => Ok(false),
        // A later one may make it just now.
        Err(_) if matches!(paths.run(id).join(names::SPEC).try_exists(), Ok(false)) => Ok(false),
        Ok(_) | Err(_) => unmake(&paths.run(id)).map(|()| true),
    }
}

/// Removes the folder of a run that was recalled and never started. Its spec goes
/// last: the spec's name keeps the run away while anything else of it is left.
///
/// # Errors
/// When something of it stays.
pub fn unmake_recalled(run_dir: &Path) -> io::Result<()> {
    // The spare is not there if a full disk took it.
    let _ = fs::remove_file(run_dir.join(names::SPARE));
    fs::remove_dir_all(run_dir.join(names::CONTROL))?;
    fs::remove_file(run_dir.join(names::RECALLED))?;
    fs::remove_dir(run_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::{DeploymentId, ExperimentId};

    #[test]
    fn a_late_hand_over_leaves_the_folder_of_a_later_one() {
        let root = tempfile::tempdir().unwrap();
        let paths = NodePaths::new(root.path(), &DeploymentId::random(), "n");
        let (token, experiment) = (RunToken::from_bytes([1; 16]), ExperimentId(1));
        let id = RunId {
            experiment,
            number: 1,
        };
        let (run_dir, spec) = (paths.run(id), paths.run(id).join(names::SPEC));
        let later = RunSpec {
            token: token.to_vec(),
            generation: 2,
            ..RunSpec::default()
        };
        fs::create_dir_all(&run_dir).unwrap();
        fs::write(&spec, frame::encode(FrameKind::Spec, &later)).unwrap();
        assert!(!unmake_up_to(&paths, id, token, 1).unwrap());
        assert!(spec.exists(), "it was made since");
        assert!(unmake_up_to(&paths, id, token, 2).unwrap());
        assert!(!run_dir.exists());
        assert!(!unmake_up_to(&paths, id, token, 2).unwrap());
    }

    #[test]
    fn a_run_is_recalled_also_when_its_spec_went_meanwhile() {
        let root = tempfile::tempdir().unwrap();
        let run_dir = root.path().join("1");
        for has_spec in [true, false] {
            fs::create_dir_all(run_dir.join(names::CONTROL)).unwrap();
            if has_spec {
                fs::write(run_dir.join(names::SPEC), "spec").unwrap();
            }
            unmake(&run_dir).unwrap();
            assert!(!run_dir.exists(), "with its spec: {has_spec}");
        }
    }
}
