//! One watcher at work: looks, lets `core` decide, writes, sends, waits.
//!
//! Everything happens in turns. A turn is synchronous and bounded; between two
//! turns the watcher sleeps until a file changed, the shim ended, neromum said
//! something, or a time has come.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nero_journal::{Clocks, WriteError};
use nero_model::DeploymentId;
use nero_model::ProcessId;
use nero_model::paths::run;

use crate::core::finder::Finder;
use crate::core::history::History;
use crate::core::intake::{Begin, Intake, Log};
use crate::core::record::Record;
use crate::journal::Journal;
use crate::life::{Contact, Life, Moment};
use crate::link::{Caller, Link, LinkEvent};
use crate::pace::Pace;
use crate::place::{Place, PlaceError};
use crate::sample::{Measure, Procfs, Sampler};
use crate::tail::{Look, Tail};
use crate::wake::{Wake, Waker};
use crate::{host, segments};

/// Bytes read from a log at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// Blocks of each log in one turn, so that other things get theirs.
const BLOCKS_PER_TURN: usize = 32;
/// Between samples, unless the spec says otherwise.
const INTERVAL_MS: u64 = 10_000;
/// Shortest time between samples.
const INTERVAL_MIN_MS: u64 = 100;
/// The first sample comes soon, so that short runs have one.
const FIRST_SAMPLE_MS: u64 = 1_000;
/// Between two tries to write what the disk refused.
const RETRY_MS: u64 = 250;
/// How long a run without shim and job may stay without a word of its end.
const SILENT_MAX_MS: u64 = 5_000;
/// Between two looks at such a run.
const SILENT_LOOK_MS: u64 = 250;
/// How long the end waits for a disk that refuses.
const STUCK_MAX_MS: u64 = 60_000;
/// How long the end waits for neromum.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a run was not watched to its end.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its claim cannot be read.
    #[error("cannot read what was written of the run in {folder}")]
    Read {
        /// The incarnation's folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The watcher's segment cannot be begun.
    #[error("cannot begin a segment in {folder}")]
    Segment {
        /// The incarnation's folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A log cannot be read.
    #[error("cannot read {path}")]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A record cannot be written, ever.
    #[error("cannot write a record")]
    Write(#[from] WriteError),
    /// The disk took no record for a minute after the run's end.
    #[error("the disk of {folder} takes no records")]
    Stuck {
        /// The incarnation's folder.
        folder: PathBuf,
    },
    /// Asked to settle a run that goes on.
    #[error("the run in {folder} has not ended")]
    Alive {
        /// The incarnation's folder.
        folder: PathBuf,
    },
}

/// How a watcher ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Every byte of output was evaluated.
    Complete,
    /// That was so before.
    Already,
    /// Another process watches.
    ByAnother,
}

/// One watcher.
#[derive(Debug)]
pub struct Watch {
    place: Place,
    life: Life,
    intake: Intake,
    tails: [Tail; 2],
    journal: Journal,
    sampler: Sampler,
    procfs: Procfs,
    waker: Waker,
    pace: Pace,
    link: Option<Link>,
    out: Vec<Record>,
    block: Vec<u8>,
    now: Moment,
    begun_ms: u64,
    sample_due_ms: u64,
    output_ms: u64,
    silent_since_ms: Option<u64>,
    look_at_life: bool,
    /// Keeps others away for as long as it is open.
    _lock: File,
}

/// Both clocks, in ms.
fn now() -> Moment {
    let clocks = Clocks::now();
    Moment {
        mono_ms: clocks.mono_ns / 1_000_000,
        wall_ms: clocks.wall_ns / 1_000_000,
    }
}

/// Watches a live run until it is over.
///
/// # Errors
/// See [`WatchError`]; the launcher tries again.
pub async fn watch(place: Place, socket: Option<PathBuf>) -> Result<Watched, WatchError> {
    match Watch::begin(place, false)? {
        Ok(mut watch) => {
            watch.dial(socket);
            watch.live().await
        }
        Err(done) => Ok(done),
    }
}

/// Does for a run that has ended what a watcher would have done.
///
/// # Errors
/// See [`WatchError`].
pub async fn settle(place: Place) -> Result<Watched, WatchError> {
    match Watch::begin(place, true)? {
        Ok(watch) => watch.end().await,
        Err(done) => Ok(done),
    }
}

impl Watch {
    /// Takes the lock, reads the past, begins the segment. The inner error is
    /// the answer when there is nothing to do.
    fn begin(place: Place, settling: bool) -> Result<Result<Self, Watched>, WatchError> {
        let Some(lock) = place.lock()? else {
            return Ok(Err(Watched::ByAnother));
        };
        let read = |source| WatchError::Read {
            folder: place.folder.clone(),
            source,
        };
        let life = Life::read(&place.folder).map_err(read)?;
        if settling && life.contact() == Contact::Alive {
            return Err(WatchError::Alive {
                folder: place.folder,
            });
        }
        let history = history(&place).map_err(read)?;
        if history.complete {
            return Ok(Err(Watched::Already));
        }
        let segment = place
            .begin_segment()
            .map_err(|source| WatchError::Segment {
                folder: place.folder.clone(),
                source,
            })?;
        let now = now();
        let tails = [(Log::Stdout, run::STDOUT), (Log::Stderr, run::STDERR)].map(|(log, name)| {
            let offset = history.positions[log.index()].offset;
            Tail::new(log, place.folder.join(name), offset)
        });
        let (finder, pattern_errors) = Finder::new(&place.spec.metric_patterns);
        let begin = Begin {
            positions: history.positions,
            series: history.series,
            kept: history.kept,
        };
        let mut out = vec![Record::Started(nero_journal::v1::WatchStarted {
            watcher: ProcessId::own().ok().map(Into::into),
            build: nero_model::VERSION.to_owned(),
            environment: Some(host::environment(&place.folder)),
            settling,
        })];
        out.extend(
            pattern_errors
                .iter()
                .map(|error| Record::notice(error.to_string())),
        );
        let waker = if settling {
            Waker::blind()
        } else {
            Waker::new(&place, &life)
        };
        Ok(Ok(Self {
            intake: Intake::new(begin, finder, life.run_ms(now), now.mono_ms),
            sampler: Sampler::new(history.sample),
            journal: Journal::new(segment),
            procfs: Procfs::default(),
            waker,
            pace: Pace::new(now.mono_ms),
            link: None,
            tails,
            life,
            place,
            out,
            block: vec![0; BLOCK_BYTES],
            now,
            begun_ms: now.mono_ms,
            sample_due_ms: now.mono_ms + FIRST_SAMPLE_MS,
            output_ms: now.mono_ms,
            silent_since_ms: None,
            look_at_life: true,
            _lock: lock,
        }))
    }

    fn dial(&mut self, socket: Option<PathBuf>) {
        self.link = socket.map(|socket| {
            Link::start(Caller {
                socket,
                deployment: DeploymentId::from_slice(&self.place.spec.deployment),
                token: self.place.spec.token.clone(),
                incarnation: self.place.incarnation,
                segment: self.journal.id().0.to_vec(),
            })
        });
    }

    /// Turns until the run is over.
    async fn live(mut self) -> Result<Watched, WatchError> {
        loop {
            self.now = now();
            if self.look_at_life && self.is_over()? {
                return self.end().await;
            }
            let more = self.turn()?;
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let wake = self.wait().await;
            self.note(wake);
        }
    }

    /// One turn: read, sample, write, send. True when there is more to read.
    fn turn(&mut self) -> Result<bool, WatchError> {
        let mut more = false;
        if !self.journal.is_stuck() {
            more = self.read_logs()?;
            self.intake.tick(self.now.mono_ms, &mut self.out);
            if self.sample_due_ms <= self.now.mono_ms {
                self.sample();
            }
            self.intake.flush(&mut self.out);
        }
        self.write()?;
        Ok(more && !self.journal.is_stuck())
    }

    /// Writes what is decided, then sends it.
    fn write(&mut self) -> Result<(), WatchError> {
        self.journal.write(self.out.drain(..))?;
        self.journal.send();
        Ok(())
    }

    /// Reads both logs, a bounded piece; true when there is more.
    fn read_logs(&mut self) -> Result<bool, WatchError> {
        let mut more = false;
        for index in 0..self.tails.len() {
            more |= self.read_log(index)?;
        }
        Ok(more)
    }

    fn read_log(&mut self, index: usize) -> Result<bool, WatchError> {
        let tail = &mut self.tails[index];
        for _ in 0..BLOCKS_PER_TURN {
            let look = tail
                .look(&mut self.block)
                .map_err(|source| WatchError::Log {
                    path: tail.path().to_path_buf(),
                    source,
                })?;
            match look {
                Look::Bytes(count) => {
                    self.output_ms = self.now.mono_ms;
                    let bytes = &self.block[..count];
                    self.intake
                        .feed(tail.log, bytes, self.now.mono_ms, &mut self.out, |_, _| {});
                    if count < BLOCK_BYTES {
                        return Ok(false);
                    }
                }
                Look::NewPart => self.intake.truncated(tail.log, &mut self.out),
                Look::Nothing => return Ok(false),
            }
        }
        Ok(true)
    }

    fn sample(&mut self) {
        let interval = match self
            .place
            .spec
            .monitor
            .and_then(|one| (one.interval_ms > 0).then_some(one.interval_ms))
        {
            Some(given) => given.max(INTERVAL_MIN_MS),
            None => INTERVAL_MS,
        };
        self.sample_due_ms = self.now.mono_ms + interval;
        let pid = |process: Option<ProcessId>| process.map(|one| one.pid);
        let usage = self.procfs.measure(pid(self.life.shim), pid(self.life.job));
        let since = self
            .life
            .started
            .map_or(self.begun_ms, |started| started.mono_ms);
        let mut sample = self.sampler.sample(usage, self.now.mono_ms, since);
        sample.stdout_bytes = self.tails[0].bytes();
        sample.stderr_bytes = self.tails[1].bytes();
        sample.silent_ms = self.now.mono_ms.saturating_sub(self.output_ms);
        self.out.push(Record::Sample(sample));
        self.intake.mark(&mut self.out);
        for tail in &mut self.tails {
            tail.check_name();
        }
    }

    /// Whether the run is over, or has been without a word for too long.
    fn is_over(&mut self) -> Result<bool, WatchError> {
        self.life = Life::read(&self.place.folder).map_err(|source| WatchError::Read {
            folder: self.place.folder.clone(),
            source,
        })?;
        self.look_at_life = false;
        self.waker.follow(&self.place, &self.life);
        match self.life.contact() {
            Contact::Over => return Ok(true),
            Contact::Alive => self.silent_since_ms = None,
            Contact::Silent => {
                let since = *self.silent_since_ms.get_or_insert(self.now.mono_ms);
                if self.now.mono_ms >= since + SILENT_MAX_MS {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Sleeps until something is to be done.
    async fn wait(&mut self) -> Wake {
        let mut due = self.sample_due_ms;
        let mut earlier = |other: Option<u64>| due = other.map_or(due, |other| due.min(other));
        earlier(self.intake.window_due_ms());
        earlier(self.waker.look_due_ms(self.now.mono_ms));
        earlier(
            self.silent_since_ms
                .map(|_| self.now.mono_ms + SILENT_LOOK_MS),
        );
        if self.journal.is_stuck() {
            due = self.now.mono_ms + RETRY_MS;
        }
        let pause = self.pace.pause_ms(self.now.mono_ms);
        let link = async {
            match &mut self.link {
                Some(link) => link.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = link => Wake::Link(event),
            wake = self.waker.wake(pause, self.journal.is_stuck()) => wake,
            () = until(due) => Wake::Time,
        }
    }

    fn note(&mut self, wake: Wake) {
        match wake {
            Wake::Changed(changes) => {
                self.pace.spend(now().mono_ms);
                self.look_at_life |= changes.life || changes.folder;
                if changes.folder {
                    for tail in &mut self.tails {
                        tail.check_name();
                    }
                }
            }
            Wake::Ended => self.look_at_life = true,
            Wake::Time => {
                self.look_at_life |= self.silent_since_ms.is_some() || self.waker.is_blind();
            }
            Wake::Link(Some(LinkEvent::Up(sender))) => self.journal.send_to(Some(sender)),
            Wake::Link(Some(LinkEvent::Down)) => self.journal.send_to(None),
            Wake::Link(Some(LinkEvent::Rules(_))) => {}
            Wake::Link(None) => self.link = None,
        }
    }

    /// The run is over: reads what is left, says so, leaves.
    async fn end(mut self) -> Result<Watched, WatchError> {
        let stuck_since = now().mono_ms;
        loop {
            self.now = now();
            for tail in &mut self.tails {
                tail.check_name();
            }
            let more = self.turn()?;
            if self.journal.is_stuck() {
                self.wait_for_the_disk(stuck_since).await?;
            } else if !more {
                break;
            }
            tokio::task::yield_now().await;
        }
        for log in Log::BOTH {
            self.intake
                .finish(log, self.now.mono_ms, &mut self.out, |_, _| {});
        }
        self.intake.close_window(&mut self.out);
        self.intake.flush(&mut self.out);
        self.intake.tell_refused_at_the_end(&mut self.out);
        self.out.push(Record::Ended(nero_journal::v1::WatchEnded {
            read_to: self.intake.read_to(),
            complete: true,
        }));
        self.write()?;
        while self.journal.is_stuck() {
            self.wait_for_the_disk(stuck_since).await?;
            self.write()?;
        }
        self.journal.send_to(None);
        if let Some(link) = self.link.take() {
            link.finish(FAREWELL).await;
        }
        Ok(Watched::Complete)
    }

    async fn wait_for_the_disk(&self, since_ms: u64) -> Result<(), WatchError> {
        if now().mono_ms > since_ms + STUCK_MAX_MS {
            return Err(WatchError::Stuck {
                folder: self.place.folder.clone(),
            });
        }
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
        Ok(())
    }
}

/// Sleeps until a moment of the machine's clock.
async fn until(due_ms: u64) {
    let now_ms = now().mono_ms;
    if due_ms > now_ms {
        tokio::time::sleep(Duration::from_millis(due_ms - now_ms)).await;
    }
}

/// What earlier watchers of the run wrote.
fn history(place: &Place) -> io::Result<History> {
    let mut history = History::default();
    for incarnation in 1..=place.incarnation {
        let earlier = incarnation < place.incarnation;
        let folder = place.run.join(incarnation.to_string());
        if earlier && !folder.is_dir() {
            continue;
        }
        for path in segments::list(&folder, "watch-")? {
            history.begin_segment(earlier);
            segments::for_each(&path, |record| history.fold(record))?;
        }
    }
    Ok(history)
}
