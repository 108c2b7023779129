//! The state in the ledger, record by record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use nero_journal::v1::{
    LedgerAccepted, LedgerCards, LedgerClosed, LedgerExited, LedgerSubmission, LedgerSubmitted,
};
use nero_journal::{Content, HeaderError, LedgerRecord, Record, Stop, scan};
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken, SubmissionId};

use super::LedgerError;
use crate::config;

/// One run that neroman has not closed, as the ledger has it.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRun {
    /// The run.
    pub id: RunId,
    /// Place in the queue.
    pub order: u64,
    /// The author of the cancel, when it was cancelled before its start.
    pub taken_away: Option<String>,
    /// Why its scheduler ended its job before it began.
    pub refused: Option<String>,
    /// The highest cancel in its records.
    pub cancel: u32,
    /// Record of its end.
    pub exited: Option<LedgerExited>,
    /// The cards of its newest start.
    pub cards: Option<LedgerCards>,
}

/// A submission whose runs are not all closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Names it, its folder, and its job at the scheduler.
    pub submission: SubmissionId,
    /// Its runs.
    pub tokens: Vec<RunToken>,
    /// When it was made, by this host's clock.
    pub made_ms: i64,
    /// What the scheduler answered.
    pub answer: Answer,
}

/// What a scheduler answered to a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing that was recorded: it may have the submission.
    #[default]
    InDoubt,
    /// It has it as this job.
    Job(u64),
    /// It refused, with these words.
    Refused(String),
    /// It took no more jobs, with these words: its runs wait for another submission.
    NotNow(String),
}

/// The whole state in the ledger.
#[derive(Debug, Default)]
pub struct LedgerState {
    /// Runs not closed.
    pub runs: HashMap<RunToken, LedgerRun>,
    /// Submissions, the oldest first.
    pub submissions: Vec<Intent>,
    /// Place of the next run in the queue.
    pub next_order: u64,
    /// Answers to mutating calls, oldest first.
    pub answers: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// Segments that cannot be used whole, with the reason. Their facts about a
    /// run are in its folder, too, except an end that a power cut took from
    /// there.
    pub damaged: Vec<LedgerError>,
    /// Boot ids under which a neromum wrote here.
    pub boot_ids: HashSet<[u8; 16]>,
    records: usize,
    pub(super) bytes: u64,
}

impl LedgerState {
    /// The content of a compacted ledger.
    pub fn of(runs: impl Iterator<Item = (RunToken, LedgerRun)>) -> Self {
        Self {
            runs: runs.collect(),
            ..Self::default()
        }
    }

    pub(super) fn replay(
        &mut self,
        path: &Path,
        bytes: &[u8],
        deployment: DeploymentId,
    ) -> Result<(), LedgerError> {
        let (header, mut reader) = match scan(bytes) {
            Ok(found) => found,
            // neromum was killed between making the file and writing its
            // header.
            Err(HeaderError::Short) if bytes.len() < nero_journal::HEADER_BYTES => return Ok(()),
            Err(source) => {
                return Err(LedgerError::Header {
                    path: path.to_path_buf(),
                    source,
                });
            }
        };
        if header.token != *deployment.as_bytes() {
            return Err(LedgerError::Foreign {
                path: path.to_path_buf(),
            });
        }
        self.boot_ids.insert(header.boot_id);
        for record in reader.by_ref() {
            self.records += 1;
            self.apply(&record).map_err(|_| LedgerError::Damaged {
                path: path.to_path_buf(),
                offset: record.offset,
            })?;
        }
        self.bytes += bytes.len() as u64;
        match reader.stop() {
            Stop::End | Stop::Unfinished => Ok(()),
            Stop::Damaged(damage) => Err(LedgerError::Damaged {
                path: path.to_path_buf(),
                offset: damage.offset,
            }),
        }
    }

    pub(super) fn apply(&mut self, record: &Record<'_>) -> Result<(), prost::DecodeError> {
        match record.content() {
            Content::Ledger(record) => self.take(&record),
            // Records of run folders have no place here. One of a newer build is kept on disk
            // and skipped.
            Content::Job(_)
            | Content::Watch(_)
            | Content::Observation(_)
            | Content::Rule(_)
            | Content::Unknown(_) => Ok(()),
        }
    }

    fn take(&mut self, record: &LedgerRecord<'_>) -> Result<(), prost::DecodeError> {
        match record {
            LedgerRecord::LedgerAccepted(accepted) => self.accept(&accepted.decode()?),
            LedgerRecord::LedgerTakenAway(taken) => {
                let taken = taken.decode()?;
                if let Some(kept) = self.kept(&taken.token) {
                    kept.taken_away = Some(taken.author);
                }
            }
            LedgerRecord::LedgerRefused(refused) => {
                let refused = refused.decode()?;
                if let Some(kept) = self.kept(&refused.token) {
                    kept.refused = Some(refused.why);
                }
            }
            LedgerRecord::LedgerCancelAsked(asked) => {
                let asked = asked.decode()?;
                if let Some(kept) = self.kept(&asked.token) {
                    kept.cancel = kept.cancel.max(asked.cancel);
                }
            }
            LedgerRecord::LedgerExited(exited) => {
                let exited = exited.decode()?;
                if let Some(kept) = self.kept(&exited.token) {
                    kept.exited = Some(exited);
                }
            }
            LedgerRecord::LedgerCards(cards) => {
                let cards = cards.decode()?;
                if let Some(kept) = self.kept(&cards.token) {
                    kept.cards = Some(cards);
                }
            }
            LedgerRecord::LedgerClosed(closed) => self.close(&closed.decode()?),
            LedgerRecord::LedgerSubmission(made) => self.intend(&made.decode()?),
            LedgerRecord::LedgerSubmitted(answered) => self.answer(answered.decode()?),
            LedgerRecord::LedgerAnswered(answered) => {
                let answered = answered.decode()?;
                self.remember(answered.request, answered.answer);
            }
        }
        Ok(())
    }

    fn accept(&mut self, accepted: &LedgerAccepted) {
        let id = RunId {
            experiment: ExperimentId(accepted.experiment),
            number: accepted.number,
        };
        self.next_order = self.next_order.max(accepted.order + 1);
        if let Some(token) = RunToken::from_slice(&accepted.token) {
            self.runs.entry(token).or_insert(LedgerRun {
                id,
                order: accepted.order,
                taken_away: None,
                refused: None,
                cancel: 0,
                exited: None,
                cards: None,
            });
        }
    }

    fn close(&mut self, closed: &LedgerClosed) {
        for token in &closed.tokens {
            if let Some(token) = RunToken::from_slice(token) {
                self.runs.remove(&token);
            }
        }
    }

    fn intend(&mut self, made: &LedgerSubmission) {
        let tokens = made.tokens.iter();
        if let Some(submission) = SubmissionId::from_slice(&made.submission)
            && self.submission(&made.submission).is_none()
        {
            self.submissions.push(Intent {
                submission,
                tokens: tokens
                    .filter_map(|token| RunToken::from_slice(token))
                    .collect(),
                made_ms: made.made_ms,
                answer: Answer::InDoubt,
            });
        }
    }

    fn answer(&mut self, answered: LedgerSubmitted) {
        if let Some(intent) = self.submission(&answered.submission) {
            intent.answer = match (answered.job, answered.refused, answered.full) {
                (0, refused, _) if !refused.is_empty() => Answer::Refused(refused),
                (0, _, full) if !full.is_empty() => Answer::NotNow(full),
                (0, _, _) => Answer::InDoubt,
                (job, _, _) => Answer::Job(job),
            };
        }
    }

    fn submission(&mut self, id: &[u8]) -> Option<&mut Intent> {
        let mut intents = self.submissions.iter_mut();
        intents.find(|intent| *intent.submission.as_bytes() == *id)
    }

    /// Forgets submissions of which every run is closed, and those that the scheduler had
    /// no room for.
    pub(super) fn forget_submissions(&mut self) {
        let runs = &self.runs;
        self.submissions.retain(|intent| {
            let mut tokens = intent.tokens.iter();
            let is_open = tokens.any(|token| runs.contains_key(token));
            is_open && !matches!(intent.answer, Answer::NotNow(_))
        });
    }

    fn kept(&mut self, token: &[u8]) -> Option<&mut LedgerRun> {
        self.runs.get_mut(&RunToken::from_slice(token)?)
    }

    /// Keeps an answer; the oldest goes when there are too many.
    pub fn remember(&mut self, request: Vec<u8>, answer: Vec<u8>) {
        if self.answers.len() >= config::ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((request, answer));
    }

    pub(super) fn worth_compacting(&self) -> bool {
        let live = self.runs.len() * 3 + self.answers.len() + self.submissions.len() * 2;
        self.bytes > config::LEDGER_COMPACT_BYTES && self.records > 2 * live
    }
}
