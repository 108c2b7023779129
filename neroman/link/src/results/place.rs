//! The folder of a run's results, and the link `latest` beside it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::ids::{hex, random};
use nero_model::paths::file_name;

use super::trouble::Trouble;
use nero_home::failure::Failure;
use nero_life::experiment::Experiment;
use nero_life::run::Run;

/// Parent folders, best first, and the name below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderChoices {
    parents: Vec<PathBuf>,
    name: String,
}

/// The folders that may take the results of a run.
pub(super) fn plan(experiment: &Experiment, run: &Run, fallback: &Path) -> FolderChoices {
    let definition = &experiment.definition;
    let beside = definition.results_dir.as_deref().unwrap_or("results");
    let at_ms = run.started_ms().unwrap_or(run.made.created_ms);
    let date = Timestamp::from_millisecond(at_ms).map_or_else(
        |_| at_ms.to_string(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d-%H-%M-%S")
                .to_string()
        },
    );
    FolderChoices {
        parents: vec![
            definition.folder.join(beside),
            fallback.join(run.made.id.experiment.to_string()),
        ],
        name: format!("{}-{date}-{}", file_name(&definition.name), run.made.id),
    }
}

/// Makes the folder in the first parent that takes it. Blocks.
///
/// # Errors
/// When no parent takes it; a full disk may take it later.
pub(super) fn make(plan: &FolderChoices) -> Result<PathBuf, Trouble> {
    let mut refused = None;
    for parent in &plan.parents {
        let folder = parent.join(&plan.name);
        match fs::create_dir_all(&folder).and_then(|()| writable(&folder)) {
            Ok(()) => return Ok(folder),
            Err(error) => refused = Some((folder, error)),
        }
    }
    Err(not_made(refused))
}

/// Why the last parent does not take it.
fn not_made(refused: Option<(PathBuf, io::Error)>) -> Trouble {
    match refused {
        Some((folder, error)) => Trouble::unwritten(&folder, &error),
        None => Failure::bug("there is no place for results").into(),
    }
}

/// Whether files can be made in a folder; a link is not followed.
fn writable(folder: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something else has this name",
        ));
    }
    rustix::fs::access(
        folder,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )
    .map_err(io::Error::from)
}

/// Makes `latest` beside the folder point to it. A `latest` that is no link
/// belongs to the user and stays. Blocks.
pub(super) fn latest(folder: &Path) {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return;
    };
    let link = parent.join("latest");
    let ours = match fs::symlink_metadata(&link) {
        Ok(found) => found.is_symlink(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !ours {
        return;
    }
    let private = parent.join(format!(".latest-{}", hex(&random::<6>())));
    let made = symlink(name, &private).and_then(|()| fs::rename(&private, &link));
    if let Err(error) = made {
        // A convenience: the results themselves are there.
        tracing::info!(%error, link = %link.display(), "link not made");
        let _ = fs::remove_file(&private);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_takes_it_is_taken_and_latest_follows() {
        let base = tempfile::tempdir().unwrap();
        let blocked = base.path().join("blocked");
        fs::write(&blocked, "a file").unwrap();
        let good = base.path().join("good");
        let plan = |name: &str| FolderChoices {
            parents: vec![blocked.clone(), good.clone()],
            name: name.to_owned(),
        };
        for name in ["a-1.1", "b-2.1"] {
            let folder = make(&plan(name)).unwrap();
            assert_eq!(folder, good.join(name));
            latest(&folder);
            assert_eq!(fs::read_link(good.join("latest")).unwrap(), Path::new(name));
        }
        assert_eq!(fs::read_dir(&good).unwrap().count(), 3);
    }

    #[test]
    fn a_place_that_never_takes_it_is_refused_and_a_full_one_is_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let blocked = base.path().join("blocked");
        fs::write(&blocked, "a file").unwrap();
        let plan = FolderChoices {
            parents: vec![blocked],
            name: "a-1.1".to_owned(),
        };
        assert!(matches!(make(&plan), Err(Trouble::Refused(_))));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(
            not_made(Some((base.path().to_path_buf(), full))),
            Trouble::Full(_)
        ));
    }

    #[test]
    fn a_latest_of_the_user_stays() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("latest")).unwrap();
        let folder = base.path().join("a-1.1");
        fs::create_dir(&folder).unwrap();
        latest(&folder);
        assert!(base.path().join("latest").is_dir());
    }
}
