//! The facts of an experiment for expressions: its definition, its current run (or
//! a named one), parameters and metrics. Answers from memory.

use nero_expr::{CohortNumber, Fact, NameKind, Past, Scope, Value};
use nero_format as format;
use nero_model::{EndReason, TaskEnd};

use super::experiment::Experiment;
use super::pasts;
use super::run::Run;
use crate::facts::now::PresentTime;

/// An experiment with one of its runs, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub experiment: &'a Experiment,
    pub run: Option<&'a Run>,
    pub now: &'a PresentTime,
}

impl<'a> Sight<'a> {
    /// With the current run.
    pub fn current(experiment: &'a Experiment, now: &'a PresentTime) -> Self {
        Self {
            experiment,
            run: experiment.current(),
            now,
        }
    }

    /// Without a run: the facts before a run is made.
    pub fn defined(experiment: &'a Experiment, now: &'a PresentTime) -> Self {
        Self {
            experiment,
            run: None,
            now,
        }
    }

    fn state(&self) -> &'static str {
        match self.run {
            None => "defined",
            Some(run) => run.state_word().as_str(),
        }
    }

    fn of_run(&self, run: &'a Run, fact: Fact) -> Value<'a> {
        let sample = run.journal.sample.as_ref();
        let live = run.phase().is_live();
        let running = live.then_some(sample).flatten();
        match fact {
            Fact::Node => Value::Text(run.node_word()),
            Fact::Attempt => Value::number(f64::from(run.made.id.number)),
            Fact::Runtime => Value::number_or_unknown(run.runtime_s(self.now)),
            Fact::Waittime => {
                let made = &run.made;
                let waited = match run.started_ms().or(run.outcome.ended_ms) {
                    Some(until) => (until - made.created_ms).max(0),
                    None => self.now.since(made.created.as_ref(), made.created_ms),
                };
                Value::number(waited as f64 / 1000.0)
            }
            Fact::Timeleft => Value::number_or_unknown(run.timeleft_s(self.now)),
            Fact::Progress => {
                Value::number_or_unknown(run.journal.progress().map(|progress| progress.done))
            }
            Fact::Eta => Value::number_or_unknown(run.eta_s(run.runtime_s(self.now))),
            Fact::Exit => {
                let seen = run
                    .exit()
                    .filter(|exit| exit.signal == 0 && !exit.code_unknown);
                Value::number_or_unknown(seen.map(|exit| f64::from(exit.code)))
            }
            Fact::Signal => {
                let seen = run.exit().filter(|exit| exit.signal != 0);
                Value::number_or_unknown(seen.map(|exit| f64::from(exit.signal)))
            }
            Fact::Reason => match run.reason() {
                Some(EndReason::Other { text }) => Value::Text(text),
                Some(reason) => Value::Text(reason_word(reason)),
                None => Value::Unknown,
            },
            Fact::Silent => Value::number_or_unknown(running.map(|sample| {
                let since = self.now.since(sample.tick.as_ref(), sample.at_ms) as f64;
                (sample.silent_ms as f64 + since) / 1000.0
            })),
            // For a live run the condition asks for an age, which no step of a
            // clock changes.
            Fact::Tsub if live => Value::Time(
                self.now
                    .wall_of(run.made.created.as_ref(), run.made.created_ms),
            ),
            Fact::Tstart if live => Value::time_or_unknown(
                run.started_ms()
                    .map(|started_ms| self.now.wall_of(run.journal.started(), started_ms)),
            ),
            Fact::Tsub => Value::Time(run.made.created_ms),
            Fact::Tstart => Value::time_or_unknown(run.started_ms()),
            Fact::Tend => Value::time_or_unknown(run.outcome.ended_ms),
            Fact::Cpu => Value::number_or_unknown(running.map(|sample| sample.cpu_cores)),
            Fact::Mem => Value::number_or_unknown(running.map(|sample| sample.rss_bytes as f64)),
            Fact::Disk => {
                Value::number_or_unknown(running.map(|sample| sample.written_bytes as f64))
            }
            Fact::Gpu => Value::number_or_unknown(running.and_then(|sample| sample.gpu)),
            Fact::Gpumem => {
                let bytes = running.and_then(|sample| sample.gpumem_bytes);
                Value::number_or_unknown(bytes.map(|bytes| bytes as f64))
            }
            Fact::Id
            | Fact::Name
            | Fact::Collection
            | Fact::Path
            | Fact::State
            | Fact::Command
            | Fact::Params
            | Fact::Note
            | Fact::Tag
            | Fact::Tmod => Value::Unknown,
        }
    }
}

/// The word that selects an end, as in `reason == 'exit code'`.
fn reason_word(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Exited { .. } => "exit code",
        EndReason::Signalled { .. } => "signal",
        EndReason::DiskFull { .. } => "disk full",
        EndReason::OutOfMemory { .. } => "out of memory",
        EndReason::NotStarted { .. } => "not started",
        EndReason::ByPerson { .. } => "person",
        EndReason::ByRule { .. } => "rule",
        EndReason::TimeLimit { .. } => "time limit",
        EndReason::ByScheduler { how, .. } => match how {
            TaskEnd::TimeLimit => "time limit",
            TaskEnd::OutOfMemory => "out of memory",
            TaskEnd::HostFailure
            | TaskEnd::Preempted
            | TaskEnd::Cancelled
            | TaskEnd::Escalated
            | TaskEnd::Failed
            | TaskEnd::Untold => "scheduler",
        },
        EndReason::TakenAway { .. } => "taken away",
        EndReason::CodeUnknown => "exit code unknown",
        EndReason::Rebooted => "node was restarted",
        EndReason::NodeGone { .. } => "node gone",
        EndReason::Other { .. } => "other",
    }
}

impl Scope for Sight<'_> {
    fn now_ms(&self) -> i64 {
        self.now.ms
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        let definition = &self.experiment.definition;
        match fact {
            Fact::Id => Value::number(self.experiment.id.0 as f64),
            Fact::Name => Value::Text(&definition.name),
            Fact::Collection => Value::Text(definition.collection()),
            Fact::Path => Value::text_or_unknown(definition.folder.to_str()),
            Fact::State => Value::Text(self.state()),
            Fact::Command => Value::Text(&definition.command_text),
            Fact::Params => Value::Text(&self.experiment.params_text),
            Fact::Note => {
                let note = Some(self.experiment.by_hand.note.as_str());
                Value::text_or_unknown(note.filter(|note| !note.is_empty()))
            }
            Fact::Tag => Value::Text(&self.experiment.tags_text),
            Fact::Tmod => Value::Time(self.now.wall_of(
                self.experiment.modified.as_ref(),
                self.experiment.modified_ms,
            )),
            other => match self.run {
                Some(run) => self.of_run(run, other),
                None => Value::Unknown,
            },
        }
    }

    fn param(&self, name: &str) -> Value<'_> {
        let mut found = self.experiment.definition.params.iter();
        let found = found.find(|param| param.name == name);
        let Some(param) = found else {
            return Value::Unknown;
        };
        match &param.value {
            format::Value::Null => Value::Unknown,
            format::Value::Bool(truth) => Value::Bool(*truth, Some(&param.text)),
            format::Value::Int(number) => Value::Number(*number as f64, Some(&param.text)),
            format::Value::Float(number) => Value::Number(*number, Some(&param.text)),
            format::Value::Text(_) => Value::Text(&param.text),
        }
    }

    fn metric(&self, name: &str) -> Option<f64> {
        Some(self.run?.metric(name)?.last)
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        pasts::answer(self.run?, name, past, self.now)
    }

    fn cohort(&self, text: &str) -> Option<CohortNumber> {
        let folded = self.run?.peers().iter().find(|one| one.text == text)?;
        Some(CohortNumber {
            value: folded.value,
            peers: folded.peers,
            at_ms: folded.at_ms,
        })
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for param in &self.experiment.definition.params {
            visit(NameKind::Param, &param.name);
        }
        if let Some(run) = self.run {
            for (name, _) in run.metrics() {
                visit(NameKind::Metric, name);
            }
        }
    }

    fn gone(&self) -> Option<bool> {
        Some(self.experiment.is_gone())
    }

    fn changed(&self) -> Option<bool> {
        Some(self.experiment.changed())
    }
}
