//! The run as a rule's expression sees it.

use std::collections::BTreeMap;

use nero_expr::{CohortNumber, Fact, NameKind, Past, Scope, Value};
use nero_journal::v1::{JobExited, Progress, Sample};

use super::series::AllSeries;

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// In ms since the machine was started.
    pub mono_ms: u64,
    /// In ms since 1970.
    pub wall_ms: i64,
}

impl From<nero_journal::Clocks> for Moment {
    fn from(at: nero_journal::Clocks) -> Self {
        Self {
            mono_ms: at.mono_ns / 1_000_000,
            wall_ms: at.wall_ns / 1_000_000,
        }
    }
}

impl Moment {
    /// The moment `ms` milliseconds later.
    pub fn later(self, ms: u64) -> Self {
        Self {
            mono_ms: self.mono_ms + ms,
            wall_ms: self.wall_ms.saturating_add_unsigned(ms),
        }
    }
}

/// A parameter's typed value.
#[derive(Clone, Debug, PartialEq)]
enum ParameterValue {
    Null,
    Bool(bool),
    Number(f64),
    Text,
}

/// A parameter with the text in which it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    name: String,
    text: String,
    typed: ParameterValue,
}

impl Param {
    /// From its name, its text and the JSON text of its value.
    pub fn new(name: &str, text: &str, json: &str) -> Self {
        let typed = match json.trim() {
            "null" => ParameterValue::Null,
            "true" => ParameterValue::Bool(true),
            "false" => ParameterValue::Bool(false),
            json if json.starts_with('"') => ParameterValue::Text,
            json => json
                .parse()
                .map_or(ParameterValue::Text, ParameterValue::Number),
        };
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            typed,
        }
    }

    /// Name of the parameter.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn value(&self) -> Value<'_> {
        match self.typed {
            ParameterValue::Null => Value::Unknown,
            ParameterValue::Bool(truth) => Value::Bool(truth, Some(&self.text)),
            ParameterValue::Number(number) => Value::Number(number, Some(&self.text)),
            ParameterValue::Text => Value::Text(&self.text),
        }
    }
}

/// Facts about the run itself.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Number of the experiment.
    pub id: u64,
    /// Name of the experiment.
    pub name: String,
    /// Collection of the experiment.
    pub collection: String,
    /// Node of the run.
    pub node: String,
    /// Number of the run within the experiment.
    pub attempt: u32,
    /// The command line.
    pub command: String,
    /// The arguments behind the program.
    pub params_text: String,
    /// The parameters.
    pub params: Vec<Param>,
    /// The time limit; 0 when there is none.
    pub time_limit_ms: u64,
    /// When its scheduler ends the task, on the wall clock; 0: not told.
    pub granted_until_ms: i64,
    /// Time of the job's start.
    pub started: Option<Moment>,
    /// Time at which it ended, or was asked to.
    pub ending: Option<Moment>,
    /// Time of the pauses that are over.
    pub paused_ms: u64,
    /// Time at which the present pause began.
    pub paused_since: Option<Moment>,
    /// Exit of the main process.
    pub exited: Option<JobExited>,
    /// When its last pause ended, in ms since the machine's start; 0: there was none.
    pub resumed_ms: u64,
    /// Time of its last output, in ms since the machine's start.
    pub output_ms: u64,
    /// The last measurement.
    pub sample: Option<Sample>,
    /// How far the job has come.
    pub progress: Option<Progress>,
    /// Aggregates over its peers, as neroman folded them last, by text.
    pub cohort: BTreeMap<String, CohortNumber>,
}

/// The run at one moment, for expressions.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The run itself.
    pub facts: &'a RunFacts,
    /// Metrics of the run.
    pub series: &'a AllSeries,
    /// The moment.
    pub now: Moment,
}

impl Sight<'_> {
    /// Time in which the job could run: not before its start, nor while it was
    /// paused.
    pub fn runtime_ms(&self) -> Option<u64> {
        let started = self.facts.started?;
        let passed = self.until().mono_ms.saturating_sub(started.mono_ms);
        Some(passed.saturating_sub(self.facts.paused_ms))
    }

    /// Run time until the end, by the progress; none while the job does not run, and
    /// when the expected time is over.
    fn eta_ms(&self) -> Option<u64> {
        let facts = self.facts;
        let progress = facts.progress?;
        if facts.ending.is_some() || facts.paused_since.is_some() {
            return None;
        }
        let passed_ms = self.runtime_ms()?.saturating_sub(progress.ran_ms);
        let left_ms = progress.left_ms?.saturating_sub(passed_ms);
        (left_ms > 0 || progress.done >= 1.0).then_some(left_ms)
    }

    /// Time until our limit, or the scheduler, ends the run. A pause stops the first
    /// clock alone.
    fn time_left_ms(&self) -> Option<u64> {
        let facts = self.facts;
        let ours = match facts.time_limit_ms {
            0 => None,
            limit => self.runtime_ms().map(|ran| limit.saturating_sub(ran)),
        };
        let at = facts.ending.unwrap_or(self.now);
        // The end of the grant is a time of the wall clock. Only the start's time is compared
        // with it: the clock may be set since.
        let theirs = match (facts.granted_until_ms, facts.started) {
            (0, _) | (_, None) => None,
            (until, Some(started)) => {
                let granted_ms = u64::try_from(until.saturating_sub(started.wall_ms));
                let passed_ms = at.mono_ms.saturating_sub(started.mono_ms);
                Some(granted_ms.unwrap_or(0).saturating_sub(passed_ms))
            }
        };
        ours.into_iter().chain(theirs).min()
    }

    /// The end of the time that counts so far.
    fn until(&self) -> Moment {
        let facts = self.facts;
        facts.ending.or(facts.paused_since).unwrap_or(self.now)
    }

    fn exit(&self) -> Option<&JobExited> {
        self.facts.exited.as_ref().filter(|exit| !exit.code_unknown)
    }
}

fn seconds(ms: Option<u64>) -> Value<'static> {
    Value::number_or_unknown(ms.map(|ms| ms as f64 / 1000.0))
}

impl Scope for Sight<'_> {
    fn now_ms(&self) -> i64 {
        self.now.wall_ms
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        let facts = self.facts;
        let sampled = |number: fn(&Sample) -> f64| {
            Value::number_or_unknown(facts.sample.as_ref().map(number))
        };
        match fact {
            Fact::Id => Value::number(facts.id as f64),
            Fact::Name => Value::Text(&facts.name),
            Fact::Collection => Value::Text(&facts.collection),
            Fact::Node => Value::Text(&facts.node),
            Fact::Attempt => Value::number(f64::from(facts.attempt)),
            Fact::Command => Value::Text(&facts.command),
            Fact::Params => Value::Text(&facts.params_text),
            Fact::State => Value::Text(match (facts.started, facts.ending) {
                (_, Some(_)) => "ending",
                (Some(_), None) if facts.paused_since.is_some() => "paused",
                (Some(_), None) => "running",
                (None, None) => "pending",
            }),
            Fact::Runtime => seconds(self.runtime_ms()),
            Fact::Timeleft => seconds(self.time_left_ms()),
            Fact::Progress => Value::number_or_unknown(facts.progress.map(|one| one.done)),
            Fact::Eta => seconds(self.eta_ms()),
            Fact::Silent => {
                let until = self.until().mono_ms;
                seconds(facts.started.map(|started| {
                    let since = facts.output_ms.max(started.mono_ms);
                    until.saturating_sub(since.max(facts.resumed_ms))
                }))
            }
            Fact::Exit => Value::number_or_unknown(
                self.exit()
                    .filter(|exit| exit.signal == 0)
                    .map(|exit| f64::from(exit.code)),
            ),
            Fact::Signal => Value::number_or_unknown(
                self.exit()
                    .filter(|exit| exit.signal != 0)
                    .map(|exit| f64::from(exit.signal)),
            ),
            Fact::Tstart => Value::time_or_unknown(facts.started.map(|moment| moment.wall_ms)),
            Fact::Cpu => sampled(|sample| sample.cpu_cores),
            Fact::Mem => sampled(|sample| sample.rss_bytes as f64),
            Fact::Disk => sampled(|sample| sample.written_bytes as f64),
            Fact::Gpu => Value::number_or_unknown(facts.sample.and_then(|sample| sample.gpu)),
            Fact::Gpumem => {
                let bytes = facts.sample.and_then(|sample| sample.gpumem_bytes);
                Value::number_or_unknown(bytes.map(|bytes| bytes as f64))
            }
            // Known to neroman only, or not before the run is over.
            Fact::Path
            | Fact::Waittime
            | Fact::Reason
            | Fact::Tmod
            | Fact::Tsub
            | Fact::Tend
            | Fact::Note
            | Fact::Tag => Value::Unknown,
        }
    }

    fn param(&self, name: &str) -> Value<'_> {
        let found = self.facts.params.iter().find(|param| param.name == name);
        found.map_or(Value::Unknown, Param::value)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.series.named(name)?.latest
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        self.series.past(name, past, self.runtime_ms().unwrap_or(0))
    }

    fn cohort(&self, text: &str) -> Option<CohortNumber> {
        self.facts.cohort.get(text).copied()
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for param in &self.facts.params {
            visit(NameKind::Param, &param.name);
        }
        for series in self.series.iter() {
            visit(NameKind::Metric, &series.name);
        }
    }
}
