//! The configuration file, whose stamp shows whether it changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old the stamp may be for parts of the daemon that no person waits for: they look with each
/// change of the state.
pub const STAMP_AGE_MAX: Duration = Duration::from_millis(100);

/// A cheap fingerprint of the file, its rights and its folder's; `None` if
/// there is no file.
pub type ConfigStamp = Option<[i64; 9]>;

/// The configuration file. All parts of the daemon look at it together.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    age_max: Duration,
    /// The last stamp, and when it was taken.
    last: Mutex<Option<(Instant, ConfigStamp)>>,
}

impl ConfigFile {
    /// `age_max`: how long a stamp counts.
    pub fn new(path: PathBuf, age_max: Duration) -> Self {
        Self {
            path,
            age_max,
            last: Mutex::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp, at most so old as it may be.
    pub fn stamp(&self) -> ConfigStamp {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last.filter(|(at, _)| at.elapsed() < self.age_max);
        let (_, stamp) = *last.insert(fresh.unwrap_or_else(|| (Instant::now(), of(&self.path))));
        stamp
    }

    /// Has the next stamp be taken anew: a person may have changed the file just now.
    pub fn look_again(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn of(path: &Path) -> ConfigStamp {
    let found = std::fs::metadata(path).ok()?;
    let folder = std::fs::metadata(path.parent()?).ok()?;
    let number = |value: u64| i64::from_ne_bytes(value.to_ne_bytes());
    Some([
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
        number(found.size()),
        number(found.ino()),
        i64::from(folder.mode()),
        i64::from(folder.uid()),
        i64::from(folder.gid()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_seen_when_the_stamp_is_old_or_a_person_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let rarely = ConfigFile::new(path.clone(), Duration::from_secs(3600));
        let always = ConfigFile::new(path.clone(), Duration::ZERO);
        assert_eq!((rarely.stamp(), always.stamp()), (None, None));
        std::fs::write(&path, "nodes: {}\n").unwrap();
        assert!(always.stamp().is_some());
        assert_eq!(rarely.stamp(), None, "looked at just now");
        rarely.look_again();
        assert_eq!(rarely.stamp(), always.stamp());
    }
}
