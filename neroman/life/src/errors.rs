//! `on_error`: whether the end of a run is an error, where its experiment tells. The verdict
//! follows from the records of the end, so that it is the same after any death.

use nero_expr::Pattern;
use nero_format::{AfterError, ErrorHandler};
use nero_model::{EndReason, Phase};

use super::journal::{Exit, Incarnation, Journal};
use super::made::Made;
use super::outcome::Outcome;
use super::run::Run;

/// The end of a run by itself, as its experiment's `on_error` takes it.
pub(crate) fn judged(made: &Made, journal: &Journal, outcome: Outcome) -> Outcome {
    let Some(handlers) = &made.again.on_error else {
        return outcome;
    };
    let Some((newest, exit)) = own_end(&outcome, journal) else {
        return outcome;
    };
    if exit.code == 0 && !printed_errors(newest, exit) {
        return outcome;
    }
    let handler = handlers.iter().find(|one| fits(one, exit));
    let (phase, reason) = match handler.map(|handler| handler.then) {
        Some(AfterError::Continue) => (Phase::Finished, None),
        Some(AfterError::Retry | AfterError::Abort) | None => {
            let reason = EndReason::Exited { code: exit.code };
            (Phase::Crashed, Some(reason))
        }
    };
    Outcome {
        phase,
        reason,
        ..outcome
    }
}

/// The records of an end by an exit code that nobody caused from outside.
fn own_end<'j>(outcome: &Outcome, journal: &'j Journal) -> Option<(&'j Incarnation, &'j Exit)> {
    let by_itself = match (outcome.phase, &outcome.reason) {
        (Phase::Finished, None) => true,
        (Phase::Crashed, Some(EndReason::Exited { .. })) => true,
        (_, Some(_) | None) => false,
    };
    let newest = journal.newest().filter(|_| by_itself)?.1;
    Some((newest, newest.exit.as_ref()?))
}

/// Whether it printed anything on standard error.
fn printed_errors(newest: &Incarnation, exit: &Exit) -> bool {
    let bytes = newest.gone.as_ref().map_or(0, |gone| gone.stderr_bytes);
    bytes > 0 || !exit.stderr_line.is_empty()
}

fn fits(handler: &ErrorHandler, exit: &Exit) -> bool {
    let code_fits = handler.exit.is_empty() || handler.exit.contains(&exit.code);
    code_fits && (handler.stderr.as_ref()).is_none_or(|text| line_fits(text, &exit.stderr_line))
}

/// Whether the last line on standard error fits a pattern. A failed step has its own words before
/// the line of its command.
pub(crate) fn line_fits(pattern: &str, line: &str) -> bool {
    let own = line.strip_prefix('`');
    let own = own.and_then(|line| line.split_once(" steps: exit code "));
    let own = own.and_then(|(_, line)| line.split_once(": "));
    Pattern::new(pattern)
        .is_ok_and(|pattern| pattern.fits(line) || own.is_some_and(|(_, line)| pattern.fits(line)))
}

impl Run {
    /// What `on_error` made of its end, where that is not what the exit code tells.
    pub fn error_verdict(&self) -> Option<String> {
        let code = self.exit()?.code;
        self.made.again.on_error.as_ref()?;
        match (self.phase(), self.reason()) {
            (Phase::Finished, None) if code != 0 => {
                Some(format!("exit code {code} counts as success (`on_error`)"))
            }
            (Phase::Crashed, Some(EndReason::Exited { code: 0 })) => {
                Some("it printed on standard error, an error by `on_error`".to_owned())
            }
            (_, _) => None,
        }
    }
}
