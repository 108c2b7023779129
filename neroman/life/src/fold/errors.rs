//! `on_error`: whether the end of a run is an error, where its experiment tells. The verdict
//! follows from the records of the end, so that it is the same after any death.

use std::cell::RefCell;
use std::collections::HashMap;

use nero_expr::Pattern;
use nero_format::{AfterError, ErrorHandler};
use nero_model::{EndReason, Phase};

use super::outcome::{self, Outcome};
use crate::facts::dispatch::Dispatch;
use crate::facts::journal::{Exit, Incarnation, Journal};
use crate::facts::run_record::RunRecord;

/// The end of a run by itself, as its experiment's `on_error` takes it. Until the command of the
/// handler has run it is ending, so that nothing follows, and an abort still counts.
pub(crate) fn judged(
    made: &RunRecord,
    dispatch: &Dispatch,
    journal: &Journal,
    outcome: Outcome,
) -> Outcome {
    let Some((exit, handler)) = error(made, journal, &outcome) else {
        return outcome;
    };
    if handler.is_some_and(|handler| awaits(handler, dispatch, journal)) {
        return Outcome {
            phase: Phase::Ending,
            reason: None,
            ended_ms: None,
        };
    }
    let (phase, reason) = match handler.map(|handler| handler.then) {
        Some(AfterError::Continue) if !is_cut(handler, dispatch, journal) => {
            (Phase::Finished, None)
        }
        Some(_) | None => {
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

/// The error of a run that ended by itself, and the handler that fits it.
fn error<'r>(
    made: &'r RunRecord,
    journal: &'r Journal,
    outcome: &Outcome,
) -> Option<(&'r Exit, Option<&'r ErrorHandler>)> {
    let handlers = made.again.on_error.as_ref()?;
    let (newest, exit) = own_end(outcome, journal)?;
    let is_error = exit.code != 0 || printed_errors(newest, exit);
    is_error.then(|| (exit, handlers.iter().find(|one| fits(one, exit))))
}

/// Whether a person ended the run before the command of its handler did: what was to be mended
/// may not be.
fn is_cut(handler: Option<&ErrorHandler>, dispatch: &Dispatch, journal: &Journal) -> bool {
    handler.is_some_and(|handler| lacks_response(handler, dispatch, journal))
        && dispatch.cancel.is_some()
}

fn lacks_response(handler: &ErrorHandler, dispatch: &Dispatch, journal: &Journal) -> bool {
    let newest = journal.newest().map(|(number, _)| number);
    let responded = dispatch.responded.as_ref().map(|one| one.incarnation);
    !handler.run.is_empty() && responded < newest
}

/// The command of the handler that a run's error waits for.
pub(crate) fn awaited(made: &RunRecord, dispatch: &Dispatch, journal: &Journal) -> Option<String> {
    let outcome = outcome::judge(dispatch, journal);
    let (_, handler) = error(made, journal, &outcome)?;
    let handler = handler.filter(|one| awaits(one, dispatch, journal))?;
    Some(handler.run.join("\n"))
}

/// Whether the command of a handler is to run, or runs, before anything follows.
fn awaits(handler: &ErrorHandler, dispatch: &Dispatch, journal: &Journal) -> bool {
    lacks_response(handler, dispatch, journal)
        && dispatch.cancel.is_none()
        && dispatch.cleaned_ms.is_none()
        && dispatch.stage.verdict().is_none()
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

/// Most patterns that are kept.
const COMPILED_MAX: usize = 256;

thread_local! {
    /// Patterns that were asked for: thousands of runs share one, and their ends are judged again
    /// with each change of them.
    static COMPILED: RefCell<HashMap<String, Option<Pattern>>> = RefCell::default();
}

/// Whether the last line on standard error fits a pattern. A failed step has its own words before
/// the line of its command.
pub(crate) fn line_fits(pattern: &str, line: &str) -> bool {
    let own = line.strip_prefix('`');
    let own = own.and_then(|line| line.split_once(" steps: exit code "));
    let own = own.and_then(|(_, line)| line.split_once(": "));
    let fits =
        |pattern: &Pattern| pattern.fits(line) || own.is_some_and(|(_, line)| pattern.fits(line));
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.contains_key(pattern) {
            if compiled.len() >= COMPILED_MAX {
                compiled.clear();
            }
            compiled.insert(pattern.to_owned(), Pattern::new(pattern).ok());
        }
        compiled[pattern].as_ref().is_some_and(fits)
    })
}
