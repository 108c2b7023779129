//! Leading: beats, and the check before each turn whether we still lead.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nero_journal::Clocks;
use nero_model::ProcessId;
use nero_node_core::lease::{ObservedLease, ProcessPlace};
use tokio::sync::Notify;

use super::files::{self, LeaseError, Leases};
use super::host::{Eye, Hosts};

/// An epoch that is ours. Dropping it ends the beats; the epoch stays.
#[derive(Debug)]
pub struct HeldEpoch {
    inner: Arc<HoldState>,
    /// The former leader that may still act; `None` when there is none.
    before: Mutex<Option<FormerLeader>>,
    hosts: Mutex<(u64, Hosts)>,
    beating: Mutex<Option<Heartbeat>>,
}

/// The thread that beats; it ends when its sender is dropped.
#[derive(Debug)]
struct Heartbeat {
    stop: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Debug)]
struct HoldState {
    leases: Leases,
    eye: Eye,
    epoch: u64,
    beat: Duration,
    file: File,
    /// Time at which we last made sure that there is no higher epoch, in ns of
    /// the machine's clock, which goes on while the machine (or this process
    /// alone) is suspended.
    sure_ns: AtomicU64,
    lost: AtomicBool,
    told: Notify,
}

/// The former leader.
#[derive(Debug)]
struct FormerLeader {
    epoch: u64,
    host: String,
}

/// Host on which a claim was made, as far as it can be proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimHost {
    /// This host, since its last boot.
    Here,
    /// A host that has been booted since.
    Over,
    /// Another host, with its name where it is known.
    Elsewhere(String),
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn now_ns() -> u64 {
    Clocks::now().mono_ns
}

impl HeldEpoch {
    /// Begins to beat for an epoch that was just begun. `before` is the lease
    /// that it follows.
    ///
    /// # Errors
    /// When the beat's file or the thread cannot be made.
    pub fn new(
        leases: Leases,
        eye: Eye,
        epoch: u64,
        beat: Duration,
        before: Option<(&ObservedLease, &str)>,
    ) -> io::Result<Self> {
        let inner = Arc::new(HoldState {
            file: leases.open_beat(epoch)?,
            leases,
            eye,
            epoch,
            beat,
            sure_ns: AtomicU64::new(now_ns()),
            lost: AtomicBool::new(false),
            told: Notify::new(),
        });
        let (stop, stopped) = mpsc::channel();
        let beating = inner.clone();
        let thread = std::thread::Builder::new()
            .name("lease".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || beating.beat(&stopped))?;
        let before = before
            .filter(|(seen, _)| seen.may_act())
            .map(|(seen, host)| FormerLeader {
                epoch: seen.epoch,
                host: host.to_owned(),
            });
        Ok(Self {
            inner,
            before: Mutex::new(before),
            hosts: Mutex::default(),
            beating: Mutex::new(Some(Heartbeat { stop, thread })),
        })
    }

    /// Our epoch.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Whether we lead: a recent look or a look now found no higher epoch. A
    /// process that was frozen has no recent look.
    pub fn is_sure(&self) -> bool {
        self.inner.is_sure_at(now_ns())
    }

    /// Returns when we lead no more.
    pub async fn lost(&self) {
        while !self.inner.lost.load(Ordering::Acquire) {
            self.inner.told.notified().await;
        }
    }

    /// Reason why nothing may be started yet: the former leader may still act.
    pub fn must_wait(&self) -> Option<String> {
        let mut before = lock(&self.before);
        let FormerLeader { epoch, host } = before.as_ref()?;
        let may_act = match self.inner.leases.look_at(*epoch, &self.inner.eye) {
            Ok(found) => found.seen.may_act(),
            // The lease cannot be read just now, which proves nothing.
            Err(LeaseError::Io { source, .. }) => source.kind() != io::ErrorKind::NotFound,
            // The lease is damaged for good, so the claims decide.
            Err(LeaseError::Damaged { .. }) => false,
        };
        if may_act {
            return Some(format!(
                "waiting until the neromum of {host}, which cannot be reached, has left"
            ));
        }
        tracing::info!(epoch, host, "who led before does nothing any more");
        *before = None;
        None
    }

    /// Host of a process that a claim names.
    pub fn origin(&self, boot_id: &[u8; 16], process: Option<&ProcessId>) -> ClaimHost {
        let own = &self.inner.eye.process;
        let hosts = self.hosts();
        if *boot_id == own.boot_id {
            return match process {
                Some(process) if process.pid_namespace != own.pid_namespace => {
                    ClaimHost::Elsewhere(named(&hosts, boot_id))
                }
                _ => ClaimHost::Here,
            };
        }
        let claim = ProcessId {
            boot_id: *boot_id,
            ..*own
        };
        let (name, machine) = hosts
            .of(boot_id)
            .map(|seen| (seen.host.clone(), seen.machine.clone()))
            .unwrap_or_default();
        let known = hosts.of(boot_id).is_some();
        match self.inner.eye.place(&claim, &name, &machine, &hosts) {
            ProcessPlace::Dead if known => ClaimHost::Over,
            ProcessPlace::Dead | ProcessPlace::Here | ProcessPlace::Elsewhere => {
                ClaimHost::Elsewhere(named(&hosts, boot_id))
            }
        }
    }

    /// The recorded boots of hosts, read anew once per beat, since a booted host
    /// records it in a file.
    fn hosts(&self) -> Hosts {
        let mut hosts = lock(&self.hosts);
        let age = Duration::from_nanos(now_ns().saturating_sub(hosts.0));
        if hosts.0 == 0 || age >= self.inner.beat {
            match self.inner.leases.hosts() {
                Ok(read) => *hosts = (now_ns(), read),
                Err(error) => tracing::error!(%error, "cannot read which hosts were here"),
            }
        }
        hosts.1.clone()
    }

    /// Ends the beats and records that we left. Returns true when we led to the
    /// end.
    pub fn leave(&self) -> bool {
        self.end();
        let led = self.inner.check_epoch();
        // A leader that was replaced records it as well: its successor waits for
        // that.
        if let Err(error) = self.inner.leases.leave(self.inner.epoch) {
            tracing::warn!(%error, "cannot say that we left");
        }
        led
    }

    fn end(&self) {
        let beating = lock(&self.beating).take();
        if let Some(Heartbeat { stop, thread }) = beating {
            drop(stop);
            // The thread panics only for a bug of ours, and reports it itself.
            let _ = thread.join();
        }
    }
}

impl Drop for HeldEpoch {
    fn drop(&mut self) {
        self.end();
    }
}

fn named(hosts: &Hosts, boot_id: &[u8; 16]) -> String {
    hosts.of(boot_id).map_or_else(
        || "an unknown host".to_owned(),
        |seen| nero_model::safe::Safe::line(&seen.host).to_string(),
    )
}

impl HoldState {
    /// Beats until it is stopped, or another process leads.
    fn beat(&self, stopped: &mpsc::Receiver<()>) {
        let mut count = 0;
        while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(self.beat) {
            count += 1;
            // Look first: a leader that was replaced must not look alive.
            if !self.check_epoch() {
                return;
            }
            if let Err(error) = files::beat(&self.file, count) {
                tracing::warn!(%error, "cannot renew the lease");
            }
        }
    }

    fn is_sure_at(&self, now_ns: u64) -> bool {
        if self.lost.load(Ordering::Acquire) {
            return false;
        }
        let unsure_ns = now_ns.saturating_sub(self.sure_ns.load(Ordering::Acquire));
        if Duration::from_nanos(unsure_ns) < self.beat * 2 {
            return true;
        }
        let unsure_ms = unsure_ns / 1_000_000;
        tracing::warn!(
            unsure_ms,
            "was away for long: looking whether another leads"
        );
        self.check_epoch()
    }

    /// Checks for a higher epoch; false when there is one, or when the folder cannot
    /// be listed.
    fn check_epoch(&self) -> bool {
        let before_ns = now_ns();
        match self.leases.newest() {
            Ok(newest) if newest <= self.epoch => {
                self.sure_ns.fetch_max(before_ns, Ordering::AcqRel);
                return !self.lost.load(Ordering::Acquire);
            }
            Ok(newest) => tracing::warn!(epoch = self.epoch, newest, "another leads: leaving"),
            Err(error) => tracing::error!(%error, "cannot see who leads: leaving"),
        }
        self.lost.store(true, Ordering::Release);
        self.told.notify_waiters();
        self.told.notify_one();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_journal::v1::Lease;

    fn lease(epoch: u64) -> Lease {
        Lease {
            epoch,
            ..Lease::default()
        }
    }

    fn held(leases: &Leases, beat: Duration) -> HeldEpoch {
        assert!(leases.begin(&lease(1)).unwrap());
        HeldEpoch::new(leases.clone(), Eye::own().unwrap(), 1, beat, None).unwrap()
    }

    #[tokio::test]
    async fn a_higher_epoch_ends_a_lease() {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases::open(folder.path()).unwrap();
        let held = held(&leases, Duration::from_millis(5));
        assert!(held.is_sure());
        assert!(leases.begin(&lease(2)).unwrap());
        held.lost().await;
        assert!(!held.is_sure());
        assert!(!held.leave(), "it was replaced");
        let found = leases.look_at(1, &Eye::own().unwrap()).unwrap();
        assert!(found.seen.left, "its successor learns that it left");
    }

    #[test]
    fn a_holder_that_slept_looks_before_it_acts() {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases::open(folder.path()).unwrap();
        // Beats so rare that the thread does not look during this test.
        let held = held(&leases, Duration::from_secs(600));
        assert!(leases.begin(&lease(2)).unwrap());
        assert!(held.is_sure(), "sure lately");
        let later_ns = now_ns() + 1_300_000_000_000;
        assert!(!held.inner.is_sure_at(later_ns));
        assert!(!held.is_sure(), "and it stays so");
    }

    #[test]
    fn a_follower_waits_until_a_holder_that_may_act_left() {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases::open(folder.path()).unwrap();
        assert!(leases.begin(&lease(1)).unwrap());
        let eye = Eye::own().unwrap();
        let found = leases.newest_lease(&eye).unwrap().unwrap();
        assert_eq!(
            found.seen.place,
            ProcessPlace::Elsewhere,
            "a lease of nobody"
        );
        assert!(leases.begin(&lease(2)).unwrap());
        let before = Some((&found.seen, "h1"));
        let beat = Duration::from_secs(600);
        let held = HeldEpoch::new(leases.clone(), eye, 2, beat, before).unwrap();
        assert!(held.must_wait().unwrap().contains("h1"));
        // A lease that cannot be read just now proves nothing.
        let (path, away) = (folder.path().join("epoch.1"), folder.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(held.must_wait().is_some());
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        leases.leave(1).unwrap();
        assert_eq!(held.must_wait(), None);
    }

    #[test]
    fn claims_are_placed_by_their_boot() {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases::open(folder.path()).unwrap();
        let held = held(&leases, Duration::from_secs(600));
        let own = ProcessId::own().unwrap();
        assert_eq!(held.origin(&own.boot_id, Some(&own)), ClaimHost::Here);
        let container = ProcessId {
            pid_namespace: 1,
            ..own
        };
        let elsewhere = ClaimHost::Elsewhere("an unknown host".to_owned());
        assert_eq!(held.origin(&own.boot_id, Some(&container)), elsewhere);
        assert_eq!(held.origin(&[7; 16], None), elsewhere);
    }
}
