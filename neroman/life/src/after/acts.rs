//! Commands that the daemon has run for runs: of rules (`run_local`), `local` steps, and
//! responses by `on_error` on their nodes.
//!
//! Nothing says that a command is to be run but the record of its firing, or of the wait of its
//! job, while its end is not in `ActionEnd` or `StepEnd`. So a firing and what follows from it
//! cannot be torn apart.

use nero_model::RunId;

use crate::facts::actions::{ActionEnd, ResponseEnd, StepEnd};
use crate::facts::journal::CommandEnd;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;
use crate::fold::state::State;

/// A command that the daemon has run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalCommand {
    pub run: RunId,
    /// When it was asked for.
    pub asked_ms: i64,
    pub of: CommandOf,
}

/// What a command belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandOf {
    /// A firing of a rule.
    Rule {
        rule: u64,
        /// How often the rule had fired.
        times: u32,
        command: String,
        /// The condition of the rule.
        text: String,
        /// The names of the rule with their values.
        values: String,
    },
    /// A step of the run's job; its command is in the run's spec.
    Step { incarnation: u32, step: u32 },
    /// A handler of `on_error`, for this start of the run; its node runs it.
    Response { incarnation: u32, command: String },
}

/// The commands of a run that have not come to their ends. Of several firings of a rule that came
/// while none of its commands ended, the newest counts.
pub fn commands(state: &State, id: RunId) -> Vec<LocalCommand> {
    let Some(run) = state.run(id) else {
        return Vec::new();
    };
    let lacking = run.unacted(&state.rules).filter_map(|(rule, times)| {
        let known = state.rules.get(&rule)?;
        let (fired_ms, values) = match run.dispatch.fired.get(&rule) {
            Some(firing) => (firing.at_ms, &firing.values),
            None => {
                let facts = run.journal.rules.get(&rule)?;
                (facts.last_fired_ms, &facts.last_values)
            }
        };
        Some(LocalCommand {
            run: id,
            asked_ms: fired_ms,
            of: CommandOf::Rule {
                rule,
                times,
                command: known.argument.clone(),
                text: known.text.clone(),
                values: values.clone(),
            },
        })
    });
    let step = run.awaited_step().map(|asked| LocalCommand {
        run: id,
        asked_ms: asked.at_ms,
        of: CommandOf::Step {
            incarnation: asked.of.0,
            step: asked.of.1,
        },
    });
    let response = run
        .awaited_response()
        .map(|(incarnation, command)| LocalCommand {
            run: id,
            asked_ms: 0,
            of: CommandOf::Response {
                incarnation,
                command,
            },
        });
    lacking.chain(step).chain(response).collect()
}

/// Records the end of a command.
pub fn acted(state: &State, command: &LocalCommand, ran: &CommandEnd) -> Vec<Change> {
    let id = command.run;
    let Some(run) = state.run(id) else {
        return Vec::new();
    };
    let is_late = |of| (run.dispatch.stepped.as_ref()).is_some_and(|newer| newer.of >= of);
    if let CommandOf::Step { incarnation, step } = command.of
        && is_late((incarnation, step))
    {
        // It was ended because a later start asks for steps, whose ends count.
        return Vec::new();
    }
    let mut event = None;
    let line = |what: String| Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: ran.at_ms,
        text: format!("{id}: {what}: {}", ran.line()),
    };
    let change = dispatch_changed(run, |dispatch| match command.of {
        CommandOf::Rule { rule, times, .. } => {
            let ran = ran.clone();
            dispatch.acted.insert(rule, ActionEnd { times, ran });
        }
        CommandOf::Step { incarnation, step } => {
            event = Some(line(format!("local step {step}")));
            dispatch.stepped = Some(Box::new(StepEnd {
                of: (incarnation, step),
                ran: ran.clone(),
                delivered: false,
            }));
        }
        CommandOf::Response { incarnation, .. } => {
            event = Some(line("response by `on_error`".to_owned()));
            let ran = ran.clone();
            dispatch.responded = Some(Box::new(ResponseEnd { incarnation, ran }));
        }
    });
    change.into_iter().chain(event).collect()
}

/// Records that the node has the end of this step.
pub fn answered(state: &State, id: RunId, of: (u32, u32)) -> Option<Change> {
    dispatch_changed(state.run(id)?, |dispatch| {
        if let Some(stepped) = dispatch.stepped.as_mut().filter(|one| one.of == of) {
            stepped.delivered = true;
        }
    })
}

/// Keeps commands of a rule from being run: those of firings that have not come to an end. The
/// end of one that is at work takes the place of this.
pub fn forget(state: &State, run: &Run, rule: u64, why: &str, now_ms: i64) -> Option<Change> {
    let (_, times) = run.unacted(&state.rules).find(|(id, _)| *id == rule)?;
    let ran = CommandEnd {
        at_ms: now_ms,
        how: why.to_owned(),
        output: String::new(),
    };
    dispatch_changed(run, |dispatch| {
        dispatch.acted.insert(rule, ActionEnd { times, ran });
    })
}
