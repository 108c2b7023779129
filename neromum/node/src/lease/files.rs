//! The folder of leases. Epochs and hosts are made by `link()` and never
//! changed; a beat is written in place by one process alone. Ages are taken on
//! the file server's clock: a file made now against the file in question.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::{HostSeen, Lease};
use nero_model::paths::make_private;
use nero_node_core::lease::{ObservedLease, ProcessPlace};

use super::host::{Eye, Hosts};

/// Number of leases that are kept, the newest among them.
const KEPT: u64 = 8;
/// Bounds for a lease's interval of beats, in ms.
const BEAT_MS: std::ops::RangeInclusive<u32> = 50..=600_000;
/// Interval of beats of a lease that contains none.
pub const BEAT: Duration = Duration::from_secs(15);
/// Age above which a private file counts as left by a dead process.
const PRIVATE_OLD: Duration = Duration::from_secs(3600);

/// Reason why leases cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The folder or a file in it cannot be used.
    #[error("cannot use the lease {path}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The lease is damaged; it is left untouched.
    #[error(
        "cannot read the lease {path}; it is left untouched. Move it away when no neromum of this node runs anywhere"
    )]
    Damaged {
        /// The lease.
        path: PathBuf,
        /// Fault of the lease.
        #[source]
        source: FrameError,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LeaseError {
    let path = path.to_path_buf();
    move |source| LeaseError::Io { path, source }
}

/// The folder of leases.
#[derive(Clone, Debug)]
pub struct Leases {
    folder: PathBuf,
}

/// The newest lease, and its meaning from here.
#[derive(Clone, Debug)]
pub struct NewestLease {
    /// Contents of the lease.
    pub lease: Lease,
    /// State of the leader, seen from here and now.
    pub seen: ObservedLease,
}

impl Leases {
    /// Opens the leases in this folder, which is made.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(folder: &Path) -> Result<Self, LeaseError> {
        make_private(folder).map_err(at(folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
        })
    }

    /// The newest epoch's number; 0 when there is none.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn newest(&self) -> Result<u64, LeaseError> {
        let numbers = self.numbers("epoch.")?;
        Ok(numbers.into_iter().max().unwrap_or(0))
    }

    fn numbers(&self, prefix: &str) -> Result<Vec<u64>, LeaseError> {
        // A network file system may not show another host's new names. Making a
        // name of our own makes it read the folder anew. A full disk refuses
        // that.
        let _ = self.touch();
        let io_error = || at(&self.folder);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io_error())? {
            let name = entry.map_err(io_error())?.file_name();
            numbers.extend(
                name.to_str()
                    .and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok()),
            );
        }
        Ok(numbers)
    }

    /// Makes a file and removes it; returns the time that the file server gave
    /// it.
    fn touch(&self) -> io::Result<SystemTime> {
        server_time(&self.folder)
    }

    /// The newest lease; `None` when there is no epoch.
    ///
    /// # Errors
    /// When the lease cannot be read.
    pub fn newest_lease(&self, eye: &Eye) -> Result<Option<NewestLease>, LeaseError> {
        match self.newest()? {
            0 => Ok(None),
            epoch => self.look_at(epoch, eye).map(Some),
        }
    }

    /// The lease of one epoch.
    ///
    /// # Errors
    /// When the lease cannot be read.
    pub fn look_at(&self, epoch: u64, eye: &Eye) -> Result<NewestLease, LeaseError> {
        let path = self.path("epoch", epoch);
        let lease: Lease = frame::read(FrameKind::Lease, &path).map_err(|source| match source {
            FrameError::Io(source) => LeaseError::Io {
                path: path.clone(),
                source,
            },
            source => LeaseError::Damaged {
                path: path.clone(),
                source,
            },
        })?;
        let place = match lease
            .process
            .as_ref()
            .and_then(|process| process.identity())
        {
            Some(process) => eye.place(&process, &lease.host, &lease.machine, &self.hosts()?),
            None => ProcessPlace::Elsewhere,
        };
        // On a full disk no age is known, so nothing is old. Proofs of death
        // still count.
        let now = self.touch().unwrap_or(SystemTime::UNIX_EPOCH);
        let age = |path: &Path| Ok(since(modified(path)?, now));
        let began: Duration = age(&path).map_err(at(&path))?;
        // If there is no beat, or it was swept, the age of the lease counts.
        let beat_age = age(&self.path("beat", epoch)).map_or(began, |beat| beat.min(began));
        let seen = ObservedLease {
            epoch,
            left: self.path("left", epoch).exists(),
            place,
            beat_age,
            age: began,
            beat: beat_of(&lease),
            listens: !lease.relay.is_empty(),
        };
        Ok(NewestLease { lease, seen })
    }

    /// Begins an epoch with its first beat. False when another process was
    /// faster.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(&self, lease: &Lease) -> Result<bool, LeaseError> {
        let path = self.path("epoch", lease.epoch);
        match frame::create_synced(FrameKind::Lease, &path, lease) {
            Ok(()) => {
                self.open_beat(lease.epoch).map_err(at(&path))?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// The file that the leader of an epoch writes its beats to.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open_beat(&self, epoch: u64) -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path("beat", epoch))?;
        beat(&file, 0)?;
        Ok(file)
    }

    /// Records that an epoch's leader left in order.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn leave(&self, epoch: u64) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path("left", epoch))
            .map(drop)
    }

    /// The recorded boots of hosts.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn hosts(&self) -> Result<Hosts, LeaseError> {
        let mut numbers = self.numbers("host.")?;
        numbers.sort_unstable();
        let read = |number| {
            let path = self.path("host", number);
            frame::read::<HostSeen>(FrameKind::HostSeen, &path)
                .map_err(|source| LeaseError::Damaged { path, source })
        };
        let seen: Result<_, _> = numbers.into_iter().map(read).collect();
        seen.map(Hosts::new)
    }

    /// Records the present boot of this host.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn note_host(&self, eye: &Eye) -> Result<(), LeaseError> {
        let boot_id = eye.process.boot_id;
        while !self.hosts()?.knows(&eye.host, &boot_id) {
            let number = self.numbers("host.")?.into_iter().max().unwrap_or(0) + 1;
            let path = self.path("host", number);
            let seen = HostSeen {
                host: eye.host.name.clone(),
                machine: eye.host.machine.clone(),
                boot_id: boot_id.to_vec(),
            };
            match frame::create_synced(FrameKind::HostSeen, &path, &seen) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(at(&path)(error));
                }
                // This process or another made the file: look again.
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes leases that are no longer needed, and half-made files of dead
    /// processes.
    pub fn sweep(&self, newest: u64) {
        let Ok(now) = self.touch() else { return };
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let of_epoch = ["epoch.", "beat.", "left."]
                .iter()
                .find_map(|prefix| name.strip_prefix(prefix)?.parse::<u64>().ok());
            let stale = of_epoch.is_some_and(|epoch| epoch + KEPT <= newest);
            let private = name.starts_with('.')
                && modified(&entry.path()).is_ok_and(|made| since(made, now) > PRIVATE_OLD);
            if stale || private {
                // A file that stays is removed by the next sweep.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, kind: &str, number: u64) -> PathBuf {
        self.folder.join(format!("{kind}.{number}"))
    }
}

/// Writes one beat.
///
/// # Errors
/// When the disk refuses.
pub fn beat(file: &File, count: u64) -> io::Result<()> {
    file.write_all_at(&count.to_le_bytes(), 0)?;
    file.sync_data()
}

/// Interval of the beats of a lease.
pub fn beat_of(lease: &Lease) -> Duration {
    match lease.beat_ms {
        0 => BEAT,
        given => Duration::from_millis(u64::from(given.clamp(*BEAT_MS.start(), *BEAT_MS.end()))),
    }
}

/// The time that the file server gives to a file made in this folder now.
///
/// # Errors
/// When the disk refuses.
pub fn server_time(folder: &Path) -> io::Result<SystemTime> {
    let name = nero_model::ids::hex(&nero_model::ids::random::<8>());
    let path = folder.join(format!(".{name}"));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let time = made.metadata()?.modified();
    // If the file stays, a sweep removes it.
    let _ = fs::remove_file(&path);
    time
}

/// The time of a file's last change, on the file server's clock. The file is opened
/// first, which makes a network file system ask its server.
///
/// # Errors
/// When the file cannot be read.
pub fn modified(path: &Path) -> io::Result<SystemTime> {
    File::open(path)?.metadata()?.modified()
}

/// The time between two times of the file server.
pub fn since(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::ProcessId;

    fn lease(epoch: u64) -> Lease {
        Lease {
            epoch,
            process: Some(ProcessId::own().unwrap().into()),
            ..Lease::default()
        }
    }

    fn leases() -> (tempfile::TempDir, Leases) {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases::open(&folder.path().join("lease")).unwrap();
        (folder, leases)
    }

    #[test]
    fn exactly_one_of_many_threads_begins_an_epoch() {
        let (_folder, leases) = leases();
        let eye = Eye::own().unwrap();
        assert!(leases.newest_lease(&eye).unwrap().is_none());
        let begun: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| leases.begin(&lease(1)).unwrap()))
                .collect();
            let begun = threads.into_iter().map(|thread| thread.join().unwrap());
            begun.filter(|won| *won).count()
        });
        assert_eq!(begun, 1);
        let found = leases.newest_lease(&eye).unwrap().unwrap();
        assert_eq!(
            (found.seen.epoch, found.seen.place),
            (1, ProcessPlace::Here)
        );
        assert!(found.seen.may_act() && !found.seen.listens);
        leases.leave(1).unwrap();
        assert!(leases.newest_lease(&eye).unwrap().unwrap().seen.left);
    }

    #[test]
    fn ages_come_from_the_files_alone() {
        let (folder, leases) = leases();
        let eye = Eye::own().unwrap();
        assert!(leases.begin(&lease(1)).unwrap());
        let minute = SystemTime::now() - Duration::from_secs(60);
        for name in ["epoch.1", "beat.1"] {
            let path = folder.path().join("lease").join(name);
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(minute).unwrap();
        }
        let found = leases.newest_lease(&eye).unwrap().unwrap();
        assert!(found.seen.beat_age >= Duration::from_secs(59));
        assert!(!found.seen.may_act(), "silent for four beats");
        drop(leases.open_beat(1).unwrap());
        let found = leases.newest_lease(&eye).unwrap().unwrap();
        assert!(found.seen.beat_age < Duration::from_secs(50));
        assert!(found.seen.age >= Duration::from_secs(59));
        assert!(found.seen.may_act());
    }

    #[test]
    fn a_damaged_lease_is_named_and_left() {
        let (folder, leases) = leases();
        let path = folder.path().join("lease/epoch.3");
        fs::write(&path, b"what").unwrap();
        let error = leases.newest_lease(&Eye::own().unwrap()).unwrap_err();
        assert!(error.to_string().contains("epoch.3"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"what");
    }

    #[test]
    fn old_leases_are_swept_and_the_last_few_stay() {
        let (folder, leases) = leases();
        for epoch in 1..=20 {
            assert!(leases.begin(&lease(epoch)).unwrap());
            leases.leave(epoch).unwrap();
        }
        leases.note_host(&Eye::own().unwrap()).unwrap();
        leases.sweep(20);
        let mut left = leases.numbers("epoch.").unwrap();
        left.sort_unstable();
        assert_eq!(left, (13..=20).collect::<Vec<_>>());
        let names = fs::read_dir(folder.path().join("lease")).unwrap().count();
        assert_eq!(names, 3 * 8 + 1, "beats and leaves go with their epoch");
    }

    #[test]
    fn a_host_is_noted_once() {
        let (_folder, leases) = leases();
        let eye = Eye::own().unwrap();
        leases.note_host(&eye).unwrap();
        leases.note_host(&eye).unwrap();
        assert_eq!(leases.numbers("host.").unwrap(), [1]);
        let hosts = leases.hosts().unwrap();
        assert_eq!(hosts.of(&eye.process.boot_id).unwrap().host, eye.host.name);
        assert!(!hosts.is_over(&eye.process.boot_id));
    }
}
