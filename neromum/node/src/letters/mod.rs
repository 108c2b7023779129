//! Letters that this node sends by itself while neroman is away: an order says to whom and about
//! which runs, a claim on disk names each letter before `sendmail` gets it.
//!
//! Everything here does file work, or waits for a program: it is called off the reactor. The
//! agent decides when (`agent/letters.rs`). A claim without an outcome is a letter that
//! `sendmail` may have taken just before a death: its bytes are sent once more.

mod compose;
mod sendmail;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_model::{RunToken, ids};
use nero_wire::v1::{RelayClaim, RelayOrder};

pub use compose::EndedRun;
use sendmail::SendmailOutcome;

/// The longest that is read of a folder of claims.
const CLAIMS_MAX: usize = 10_000;

/// The folder of order and claims.
#[derive(Clone, Debug)]
pub struct LetterDesk(PathBuf);

/// The result of one round of letters.
#[derive(Debug, Default)]
pub struct NotifiedEnds {
    /// Runs of which every recipient was told, or that nobody wants to hear of.
    pub done: Vec<RunToken>,
    /// A letter could not be sent: the rest is tried again.
    pub has_failed: bool,
}

impl LetterDesk {
    /// In the folder of a neromum.
    pub fn new(mum: &Path) -> Self {
        Self(mum.join("letters"))
    }

    fn order_file(&self) -> PathBuf {
        self.0.join("order")
    }

    /// The order that an earlier neromum kept; none where it cannot be read, since neroman gives
    /// it anew.
    pub fn order(&self) -> Option<RelayOrder> {
        match frame::read(FrameKind::RelayOrder, &self.order_file()) {
            Ok(order) => Some(order),
            Err(frame::FrameError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::error!(%error, "nobody is told of ends: the order cannot be read");
                None
            }
        }
    }

    /// Nobody is told any more.
    pub fn forget_order(&self) {
        match fs::remove_file(self.order_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, "an order of letters cannot be removed");
            }
            _ => {}
        }
    }

    fn claims(&self) -> Vec<(PathBuf, RelayClaim)> {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let is_claim = |path: &PathBuf| path.extension().is_some_and(|word| word == "claim");
        let paths = entries.flatten().map(|entry| entry.path());
        let mut claims = Vec::new();
        for path in paths.filter(is_claim).take(CLAIMS_MAX) {
            match frame::read(FrameKind::RelayClaim, &path) {
                Ok(claim) => claims.push((path, claim)),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "a claim cannot be read");
                }
            }
        }
        claims
    }

    /// Takes an order in, and returns the claims of letters that were sent. Letters without an
    /// outcome are sent first: from here on neroman tells what no letter did.
    ///
    /// # Errors
    /// When the order cannot be kept: the one before holds.
    pub fn settle(&self, order: &RelayOrder) -> io::Result<Vec<RelayClaim>> {
        let mut sent = Vec::new();
        for (path, claim) in self.claims() {
            if order.adopted.contains(&claim.id) {
                fs::remove_file(&path)?;
                continue;
            }
            match claim.is_sent.then_some(claim.clone()) {
                Some(claim) => sent.push(claim),
                None => match send(&path, claim) {
                    Ok(claim) => sent.push(claim),
                    // neroman tells these ends.
                    Err(_) => fs::remove_file(&path)?,
                },
            }
        }
        for claim in &mut sent {
            claim.message.clear();
        }
        if order.tokens.is_empty() {
            self.forget_order()
        } else {
            nero_model::paths::make_private(&self.0)?;
            let kept = RelayOrder {
                adopted: Vec::new(),
                ..order.clone()
            };
            frame::replace(FrameKind::RelayOrder, &self.order_file(), &kept)?;
        }
        Ok(sent)
    }

    /// Tells the recipients of an order of these ends, one letter for each of them.
    pub fn tell(
        &self,
        order: &RelayOrder,
        ended: &[EndedRun],
        away: std::time::Duration,
    ) -> NotifiedEnds {
        let mut told = NotifiedEnds::default();
        let mut claimed: HashSet<(String, Vec<u8>)> = HashSet::new();
        for (path, claim) in self.claims() {
            let is_sent = claim.is_sent || send(&path, claim.clone()).is_ok();
            told.has_failed |= !is_sent;
            // One without an outcome waits for that: no second letter is made of it.
            let of = claim.tokens.iter();
            claimed.extend(of.map(|token| (claim.to.clone(), token.clone())));
        }
        let wanted: Vec<&EndedRun> = (ended.iter())
            .filter(|run| order.events.iter().any(|event| *event == run.event))
            .collect();
        for to in &order.to {
            let is_news =
                |run: &&&EndedRun| !claimed.contains(&(to.clone(), run.token.as_bytes().to_vec()));
            let news: Vec<&EndedRun> = wanted.iter().filter(is_news).copied().collect();
            if news.is_empty() {
                continue;
            }
            if let Err(error) = self.letter(order, to, &news, away) {
                tracing::error!(to, %error, "a letter is not sent");
                told.has_failed = true;
            }
        }
        if !told.has_failed {
            told.done = ended.iter().map(|run| run.token).collect();
        }
        told
    }

    fn letter(
        &self,
        order: &RelayOrder,
        to: &str,
        runs: &[&EndedRun],
        away: std::time::Duration,
    ) -> io::Result<()> {
        let id = ids::random::<16>();
        let claim = compose::claim(order, to, runs, away, id);
        let path = self.0.join(format!("{}.claim", ids::hex(&id)));
        frame::create_synced(FrameKind::RelayClaim, &path, &claim)?;
        fs::File::open(&self.0)?.sync_all()?;
        match send(&path, claim) {
            Ok(_) => Ok(()),
            Err(UnsentLetter::Refused(why)) => {
                fs::remove_file(&path)?;
                Err(io::Error::other(why))
            }
            Err(UnsentLetter::Unknown(why)) => Err(io::Error::other(why)),
        }
    }
}

/// A letter that is not known to be sent.
enum UnsentLetter {
    /// `sendmail` did not take it.
    Refused(String),
    /// It may have.
    Unknown(String),
}

/// Sends the letter of a claim, and records that it was sent.
fn send(path: &Path, claim: RelayClaim) -> Result<RelayClaim, UnsentLetter> {
    let words = match sendmail::send(&claim.from, &claim.to, &claim.message) {
        SendmailOutcome::Yes(words) => words,
        SendmailOutcome::No(why) => return Err(UnsentLetter::Refused(why)),
        SendmailOutcome::Unknown(why) => return Err(UnsentLetter::Unknown(why)),
    };
    let claim = RelayClaim {
        is_sent: true,
        words,
        ..claim
    };
    if let Err(error) = frame::replace(FrameKind::RelayClaim, path, &claim) {
        tracing::error!(%error, "that a letter was sent cannot be recorded: it may be sent once more");
    }
    tracing::info!(to = claim.to, runs = claim.tokens.len(), "told of ends");
    Ok(claim)
}
