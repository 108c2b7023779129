//! The one writer of neromum's state: accepted runs, requests, ends of runs,
//! runs that neroman has closed. Segments of `nero_journal`, a new one for every
//! start; replaying any of them twice changes nothing, so that compaction may
//! die at any step. A torn end is fine. A damaged segment is named and left, and
//! counts up to its damage: run folders hold the facts behind it.

mod identity;
mod state;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nero_journal::frame::FrameError;
use nero_journal::v1::{
    LedgerAccepted, LedgerAnswered, LedgerCancelAsked, LedgerCards, LedgerClosed, LedgerExited,
    LedgerRefused, LedgerSubmission, LedgerSubmitted, LedgerTakenAway,
};
use nero_journal::{Clocks, HeaderError, RecordMessage, Segment, WriteError, Writer};
use nero_model::{DeploymentId, LedgerId, RunId, RunToken, SubmissionId};

use crate::config;
pub use state::{Answer, Intent, LedgerRun, LedgerState};

/// Reason why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The folder or a file cannot be read or made.
    #[error("cannot use the ledger {path}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// A file has no good header.
    #[error("cannot read the ledger {path}; it is left untouched")]
    Header {
        /// The file.
        path: PathBuf,
        /// Fault of the header.
        #[source]
        source: HeaderError,
    },
    /// A bad record lies before a good one, or a record cannot be decoded.
    #[error("the ledger {path} is damaged at byte {offset}; it is left untouched")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage.
        offset: u64,
    },
    /// The file belongs to another deployment.
    #[error("the ledger {path} belongs to another deployment")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file of its identity cannot be used: another one would be another ledger.
    #[error("cannot read {path}, by which neroman knows this ledger; it is left untouched")]
    Identity {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        #[source]
        source: FrameError,
    },
    /// A new segment cannot be written.
    #[error("cannot write the ledger {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the write.
        #[source]
        source: WriteError,
    },
}

impl LedgerError {
    /// Whether only this file cannot be used, which lasts until a person repairs
    /// it. The rest of the ledger can be used.
    fn is_of_this_file(&self, path: &Path) -> bool {
        match self {
            Self::Io { source, .. } => nero_journal::is_shut(path, source),
            Self::Header { source, .. } => !matches!(source, HeaderError::TooNew { .. }),
            Self::Damaged { .. } | Self::Foreign { .. } => true,
            Self::Write { .. } | Self::Identity { .. } => false,
        }
    }

    /// The file, and its fault.
    pub fn file(&self) -> (&Path, String) {
        match self {
            Self::Io { path, source } => (path, format!("cannot be read: {source}")),
            Self::Header { path, source } => (path, format!("is damaged: {source}")),
            Self::Damaged { path, offset } => (path, format!("is damaged at byte {offset}")),
            Self::Foreign { path } => (path, "belongs to another deployment".to_owned()),
            Self::Write { path, source } => (path, format!("cannot be written: {source}")),
            Self::Identity { path, source } => (path, format!("cannot be used: {source}")),
        }
    }
}

/// The ledger, open for writing.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    deployment: DeploymentId,
    identity: LedgerId,
    path: PathBuf,
    number: u64,
    /// The segment that is written; `None`: nothing is kept.
    open: Option<OpenSegment>,
    /// End of the space taken beforehand.
    reserved: u64,
    /// Bytes of all earlier segments together.
    bytes: u64,
    /// Whether every segment can be used, so that earlier ones may be removed.
    is_sound: bool,
}

/// The newest segment.
#[derive(Debug)]
struct OpenSegment {
    segment: Segment,
    /// Handle for syncing off the reactor.
    file: std::sync::Arc<File>,
}

impl Ledger {
    /// Reads the ledger and begins a new segment. `alone`: it is proven that no
    /// other process can write an earlier segment.
    ///
    /// # Errors
    /// When a file cannot be read just now; nothing is changed then.
    pub fn open(
        folder: &Path,
        deployment: DeploymentId,
        alone: bool,
    ) -> Result<(Self, LedgerState), LedgerError> {
        let io_error = |path: &Path| {
            let path = path.to_path_buf();
            move |source| LedgerError::Io { path, source }
        };
        nero_model::paths::make_private(folder).map_err(io_error(folder))?;
        let segments = list(folder).map_err(io_error(folder))?;
        let mut state = LedgerState::default();
        for (_, path) in &segments {
            let replayed = match fs::read(path) {
                Ok(bytes) => state.replay(path, &bytes, deployment),
                Err(error) => Err(io_error(path)(error)),
            };
            match replayed {
                Err(error) if error.is_of_this_file(path) => state.damaged.push(error),
                replayed => replayed?,
            }
        }
        state.forget_submissions();
        if alone {
            give_back(&segments);
        }
        let number = segments.last().map_or(1, |(number, _)| number + 1);
        let identity = identity::of(folder)?;
        let mut ledger = Self::begin(folder, deployment, identity, number)?;
        ledger.bytes = state.bytes;
        // Damaged segments are left for a person to repair.
        ledger.is_sound = state.damaged.is_empty();
        if ledger.is_sound
            && (state.worth_compacting() || segments.len() >= config::LEDGER_SEGMENTS_MAX)
        {
            ledger.write_state(&state)?;
            ledger.remove_before(number)?;
        }
        Ok((ledger, state))
    }

    fn begin(
        folder: &Path,
        deployment: DeploymentId,
        identity: LedgerId,
        number: u64,
    ) -> Result<Self, LedgerError> {
        let path = folder.join(format!("{number:08}.seg"));
        let io_error = |source| LedgerError::Io {
            path: path.clone(),
            source,
        };
        let segment = Segment::create(&path, Writer::Ledger, deployment.as_bytes(), 0)
            .inspect_err(|error| {
                if error.kind() != io::ErrorKind::AlreadyExists {
                    // A file without a header contains nothing, and we made it.
                    let _ = fs::remove_file(&path);
                }
            })
            .map_err(io_error)?;
        // A full disk must not keep neromum from starting, since running jobs
        // must be seen. The space that earlier segments gave back may not
        // suffice for the whole reserve.
        let reserved = [1, 2, 4]
            .map(|part| config::LEDGER_RESERVE_BYTES / part)
            .into_iter()
            .find(|bytes| segment.reserve(*bytes).is_ok())
            .map_or(0, |bytes| segment.offset() + bytes);
        let file = File::options().write(true).open(&path).map_err(io_error)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            deployment,
            identity,
            number,
            open: Some(OpenSegment {
                segment,
                file: std::sync::Arc::new(file),
            }),
            reserved,
            bytes: 0,
            is_sound: true,
            path,
        })
    }

    /// A ledger that keeps nothing: in an allocation of a scheduler the folders of
    /// the runs hold everything.
    pub fn nowhere(deployment: DeploymentId) -> Self {
        Self {
            folder: PathBuf::new(),
            deployment,
            identity: LedgerId::random(),
            path: PathBuf::new(),
            number: 0,
            open: None,
            reserved: 0,
            bytes: 0,
            is_sound: false,
        }
    }

    /// The deployment that the ledger belongs to.
    pub fn deployment(&self) -> DeploymentId {
        self.deployment
    }

    /// The identity by which neroman tells this ledger from that of another root.
    pub fn identity(&self) -> LedgerId {
        self.identity
    }

    /// Bytes of all segments together.
    pub fn bytes(&self) -> u64 {
        let open = self.open.as_ref();
        self.bytes + open.map_or(0, |open| open.segment.offset())
    }

    /// A handle whose `sync_data` makes everything appended so far durable;
    /// `None` when nothing is kept.
    pub fn syncer(&self) -> Option<std::sync::Arc<File>> {
        Some(self.open.as_ref()?.file.clone())
    }

    /// Records that neromum accepted a run.
    ///
    /// # Errors
    /// When the disk refuses; nothing is changed then. The same holds for the
    /// records below.
    pub fn accepted(&mut self, token: RunToken, id: RunId, order: u64) -> Result<(), WriteError> {
        self.append(&accepted(token, id, order))
    }

    /// Records that a waiting run was cancelled.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn taken_away(&mut self, token: RunToken, author: &str) -> Result<(), WriteError> {
        let record = LedgerTakenAway {
            token: token.to_vec(),
            author: author.to_owned(),
        };
        self.append(&record)
    }

    /// Records that the scheduler ended the job of a submitted run before the run began.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn refused(&mut self, token: RunToken, why: &str) -> Result<(), WriteError> {
        let record = LedgerRefused {
            token: token.to_vec(),
            why: why.to_owned(),
        };
        self.append(&record)
    }

    /// Records that `control/cancel.<n>` is about to be made.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn cancel_asked(
        &mut self,
        token: RunToken,
        cancel: u32,
        request: &[u8],
    ) -> Result<(), WriteError> {
        let record = LedgerCancelAsked {
            token: token.to_vec(),
            cancel,
            request: request.to_vec(),
        };
        self.append(&record)
    }

    /// Records the end of a run (or of its main process); synced before it is
    /// reported.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn exited(&mut self, record: &LedgerExited) -> Result<(), WriteError> {
        self.append(record)
    }

    /// Records the cards of a start, before it is launched.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn cards(&mut self, record: &LedgerCards) -> Result<(), WriteError> {
        self.append(record)
    }

    /// Records that neroman has everything of these runs.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn closed(&mut self, tokens: &[RunToken]) -> Result<(), WriteError> {
        let record = LedgerClosed {
            tokens: tokens.iter().map(|token| token.to_vec()).collect(),
        };
        self.append(&record)
    }

    /// Records the reply to a mutating call.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn answered(&mut self, request: &[u8], answer: &[u8]) -> Result<(), WriteError> {
        let record = LedgerAnswered {
            request: request.to_vec(),
            answer: answer.to_vec(),
        };
        self.append(&record)
    }

    /// Records that a submission is about to be made; synced before the scheduler
    /// is called.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn submission(&mut self, intent: &Intent) -> Result<(), WriteError> {
        let record = LedgerSubmission {
            submission: intent.submission.to_vec(),
            tokens: intent.tokens.iter().map(|token| token.to_vec()).collect(),
            made_ms: intent.made_ms,
        };
        self.append(&record)
    }

    /// Records what the scheduler answered to a submission. Without the record the
    /// submission is in doubt, and listings tell.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn submitted(
        &mut self,
        submission: SubmissionId,
        answer: &Answer,
    ) -> Result<(), WriteError> {
        let mut record = LedgerSubmitted {
            submission: submission.to_vec(),
            ..LedgerSubmitted::default()
        };
        match answer {
            Answer::InDoubt => {}
            Answer::Job(job) => record.job = *job,
            Answer::Refused(why) => record.refused.clone_from(why),
            Answer::NotNow(why) => record.full.clone_from(why),
        }
        self.append(&record)
    }

    fn append(&mut self, record: &impl RecordMessage) -> Result<(), WriteError> {
        let Some(OpenSegment { segment, .. }) = &mut self.open else {
            return Ok(());
        };
        segment.record(Clocks::now(), record)?;
        if self.reserved != 0 && segment.offset() + config::LEDGER_RESERVE_BYTES / 2 > self.reserved
        {
            self.reserved = match segment.reserve(config::LEDGER_RESERVE_BYTES) {
                Ok(()) => segment.offset() + config::LEDGER_RESERVE_BYTES,
                // The rest of the old space still serves.
                Err(_) => self.reserved,
            };
        }
        Ok(())
    }

    /// Writes `state` into a new segment, syncs it, and removes the old ones:
    /// for a neromum that runs for long.
    ///
    /// # Errors
    /// When the disk refuses. The old segments still exist then, and the ledger
    /// goes on with its current segment.
    pub fn compact(&mut self, state: &LedgerState) -> Result<(), LedgerError> {
        if !self.is_sound {
            return Ok(());
        }
        let number = self.number + 1;
        let mut fresh = Self::begin(&self.folder, self.deployment, self.identity, number)?;
        if let Err(error) = fresh.write_state(state) {
            // The next try takes the same number.
            let _ = fs::remove_file(&fresh.path);
            return Err(error);
        }
        // Before anything is removed: from now on only the new segment is
        // written.
        *self = fresh;
        self.remove_before(number)
    }

    fn write_state(&mut self, state: &LedgerState) -> Result<(), LedgerError> {
        let write_error = |path: &Path| {
            let path = path.to_path_buf();
            move |source| LedgerError::Write { path, source }
        };
        let path = self.path.clone();
        for (token, kept) in &state.runs {
            self.write_run(*token, kept).map_err(write_error(&path))?;
        }
        for intent in &state.submissions {
            self.submission(intent).map_err(write_error(&path))?;
            self.submitted(intent.submission, &intent.answer)
                .map_err(write_error(&path))?;
        }
        for (request, answer) in &state.answers {
            self.answered(request, answer).map_err(write_error(&path))?;
        }
        let sync = |source| LedgerError::Io {
            path: path.clone(),
            source,
        };
        if let Some(open) = &self.open {
            open.segment.sync().map_err(sync)?;
        }
        let folder = File::open(&self.folder).map_err(sync)?;
        folder.sync_all().map_err(sync)
    }

    fn write_run(&mut self, token: RunToken, kept: &LedgerRun) -> Result<(), WriteError> {
        self.accepted(token, kept.id, kept.order)?;
        if let Some(author) = &kept.taken_away {
            self.taken_away(token, author)?;
        }
        if let Some(why) = &kept.refused {
            self.refused(token, why)?;
        }
        if kept.cancel > 0 {
            self.cancel_asked(token, kept.cancel, &[])?;
        }
        if let Some(record) = &kept.cards {
            self.cards(record)?;
        }
        match &kept.exited {
            Some(record) => self.exited(record),
            None => Ok(()),
        }
    }

    fn remove_before(&mut self, number: u64) -> Result<(), LedgerError> {
        let segments = list(&self.folder).map_err(|source| LedgerError::Io {
            path: self.folder.clone(),
            source,
        })?;
        for (_, path) in segments.into_iter().filter(|(other, _)| *other < number) {
            fs::remove_file(&path).map_err(|source| LedgerError::Io { path, source })?;
        }
        self.bytes = 0;
        Ok(())
    }
}

fn accepted(token: RunToken, id: RunId, order: u64) -> LedgerAccepted {
    LedgerAccepted {
        token: token.to_vec(),
        experiment: id.experiment.0,
        number: id.number,
        order,
    }
}

/// Gives back the reserved and unused space of earlier segments, so that the new
/// one can take it, on a full disk, too.
fn give_back(segments: &[(u64, PathBuf)]) {
    for (_, path) in segments {
        let cut = File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(file.metadata()?.len()));
        if let Err(error) = cut {
            tracing::warn!(path = %path.display(), %error, "space taken beforehand is not given back");
        }
    }
}

/// The segments by number.
fn list(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".seg")?.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
