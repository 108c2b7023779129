//! The facts of a run from its journal alone. Folded by [`crate::fold::records`], judged
//! by [`crate::fold::outcome`]; stored as JSON with the run.
//!
//! Every field depends on which records were folded and never on the order in
//! which parts of different segments came: if one of several records counts, a
//! [`Key`] selects it.

use std::collections::{BTreeMap, BTreeSet};

use nero_expr::Bound;
use serde::{Deserialize, Serialize};

use super::now::{Now, Tick};

/// The place of a record within its incarnation: writers take over from each
/// other in the order of `rank`; segments of one writer are ordered by the
/// monotonic clock of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Key {
    /// Shim 0, launcher 1, neromum 2, watcher 3.
    pub rank: u8,
    /// The time at which the segment was made, on the machine's monotonic
    /// clock.
    pub made_ns: u64,
    /// Offset in the segment.
    pub offset: u64,
}

/// Everything folded from the segments of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// By number of the start. A leaf of the tree has eleven places, and most runs one start: in
    /// boxes the ten empty places take 80 bytes instead of 8 KB.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub incarnations: BTreeMap<u32, Box<Incarnation>>,
    /// By random id in hexadecimal; emptied when the run is closed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub segments: BTreeMap<String, Segment>,
    /// By name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// The newest measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The newest progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// By id of the rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<u64, RuleFacts>,
    /// The newest step on neroman's machine that its job waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<AskedStep>,
    /// Highest version of the rules that a watcher took.
    pub rules_applied: u64,
    /// Rules of that version that cannot apply to this run, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules_off: BTreeMap<u64, RuleOff>,
    /// The newest refusal, with the version refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_refused: Option<(u64, String)>,
    /// The watchers' remarks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Remark>,
    /// The host at the run's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Points that were folded into buckets.
    pub folded_points: u64,
    /// Records of kinds that this build does not know.
    pub unknown_records: u64,
    /// Records with a payload that could not be decoded.
    pub damaged_records: u64,
    /// The last sign of each start on each boot clock, in milliseconds: for the
    /// boot on which it ran, and for those on which its output was read later.
    /// Empty for runs that an earlier build folded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub signs: BTreeMap<u32, BTreeMap<String, i64>>,
    /// Whether its node sends more segments, or names of series, than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overflows: bool,
}

/// One start of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Incarnation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// The same moment on its machine's boot clock; `None` for runs that an
    /// earlier build folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Tick>,
    /// Its main process, by the number that its machine gave it; none of runs
    /// that an earlier build folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_started: Option<NotStarted>,
    /// The first stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The newest pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The newest end of a pause: its request, and the time of all pauses until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<(u32, u64)>,
    /// The newest remark on what keeps the end from being recorded: the main process is gone, and
    /// the runtime of its container does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_hold: Option<EndHold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<Gone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// What its scheduler gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,
    /// How its scheduler ended its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_over: Option<TaskOver>,
    /// How often a launcher took over.
    pub taken_over: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub at_ms: i64,
    pub time_limit_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotStarted {
    pub key: Key,
    /// `nero.journal.v1.JobNotStarted.Stage`, perhaps a value that this build
    /// does not know.
    pub stage: i32,
    pub errno: i32,
    /// The program that was to be executed; empty in records of earlier builds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub key: Key,
    /// `nero.journal.v1.StopCause`, perhaps a value that this build does not
    /// know.
    pub cause: i32,
    pub rule: u64,
    pub at_ms: i64,
}

/// A pause of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paused {
    pub key: Key,
    /// `n` of `control/pause.<n>`.
    pub request: u32,
    pub at_ms: i64,
    /// The same moment on its machine's boot clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Tick>,
}

/// What keeps the end of a start from being recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndHold {
    pub key: Key,
    /// In words; also a remark.
    pub why: String,
}

impl Incarnation {
    /// Why its end is not recorded, although its main process is gone.
    pub fn end_hold(&self) -> Option<&EndHold> {
        self.end_hold.as_ref().filter(|_| self.exit.is_none())
    }

    /// The pause in force.
    pub fn pause(&self) -> Option<&Paused> {
        let (ended, _) = self.resumed.unwrap_or_default();
        let is_over = self.exit.is_some() || self.gone.is_some();
        let present = self.paused.as_ref().filter(|_| !is_over);
        present.filter(|pause| pause.request > ended)
    }

    /// Milliseconds for which the job has been paused so far.
    pub fn paused_ms(&self, now: &Now) -> i64 {
        let (_, before_ms) = self.resumed.unwrap_or_default();
        let present = self
            .pause()
            .map(|pause| now.since(pause.at.as_ref(), pause.at_ms));
        let before_ms = i64::try_from(before_ms).unwrap_or(i64::MAX);
        before_ms.saturating_add(present.unwrap_or(0))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub key: Key,
    pub code: i32,
    pub signal: i32,
    pub core_dumped: bool,
    pub code_unknown: bool,
    pub user_cpu_us: u64,
    pub system_cpu_us: u64,
    pub peak_rss_bytes: u64,
    pub disk_free_bytes: Option<u64>,
    /// See `nero.journal.v1.JobExited`; 0: none, or unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oom_kills: u64,
    /// The last line of a failed job on standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_line: String,
    pub run_ms: u64,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gone {
    pub key: Key,
    pub strays_killed: u32,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub left_alive: u32,
    /// From the end of the main process to the last record.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays_ms: u64,
    /// How many go on because the run allows it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays_left: u64,
    /// The first processes of those that were ended, or that go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<Stray>,
    pub at_ms: i64,
}

/// A process that outlived the main one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stray {
    pub pid: i32,
    pub name: String,
}

/// What a scheduler gave a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// "SLURM".
    pub scheduler: String,
    /// Its number there, with the task of an array.
    pub job: String,
    pub host: String,
    /// Partition or queue; empty: not told.
    pub partition: String,
    /// CPUs; 0: not told.
    pub cpus: f64,
    /// Memory; 0: not told.
    pub memory_bytes: u64,
    /// GPUs of its host, as the scheduler numbers them.
    pub gpus: Vec<String>,
    /// All hosts, its own first; empty: not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// When the scheduler ends the task; 0: not told.
    #[serde(default)]
    pub until_ms: i64,
}

/// How a scheduler ended the task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskOver {
    pub key: Key,
    /// `nero.journal.v1.TaskOver.How`, perhaps a value that this build does not know.
    pub how: i32,
    /// "SLURM".
    pub scheduler: String,
    /// Whether neromum had its job cancelled, since an abort had not ended the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    pub key: Key,
    /// `nero.journal.v1.Lost.Reason`, perhaps a value that this build does not
    /// know.
    pub reason: i32,
    pub detail: String,
    pub at_ms: i64,
}

/// How far one segment is folded, and the state that its records depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub incarnation: u32,
    /// `nero_journal::Writer` as its byte.
    pub writer: u8,
    pub made_ns: u64,
    pub made_wall_ms: i64,
    /// The boot that `made_ns` counts from, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Everything before this offset is folded into facts.
    pub offset: u64,
    /// The chain value at that offset.
    pub chain: u32,
    /// Series by their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How far its watcher read both logs, by the records folded so far.
    #[serde(default, skip_serializing_if = "LogsRead::is_nothing")]
    pub read_to: LogsRead,
}

/// How far logs were read: standard output, standard error, files of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsRead(Vec<LogRead>);

/// How far one log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogRead {
    /// How often the job had truncated the file.
    pub part: u32,
    /// Bytes of this part.
    pub offset: u64,
}

impl LogsRead {
    /// How far one was read; `None` before its first record.
    pub fn of(&self, log: usize) -> Option<LogRead> {
        self.0.get(log).copied()
    }

    /// How far one was read, to be changed.
    pub fn of_mut(&mut self, log: usize) -> &mut LogRead {
        // Earlier builds read exactly two.
        let count = self.0.len().max(log + 1).max(2);
        self.0.resize(count, LogRead::default());
        &mut self.0[log]
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|one| *one == LogRead::default())
    }
}

impl Segment {
    /// Whether this segment's writer began before the other's; both belong to
    /// the same start of the run.
    pub fn is_before(&self, other: &Self) -> bool {
        if self.boot == other.boot {
            self.made_ns < other.made_ns
        } else {
            self.made_wall_ms < other.made_wall_ms
        }
    }
}

/// Summary of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub key: (u32, Key),
    #[serde(with = "float")]
    pub last: f64,
    #[serde(with = "float")]
    pub step: f64,
    #[serde(with = "float")]
    pub min: f64,
    #[serde(with = "float")]
    pub max: f64,
    pub count: u64,
    /// Time of the last point, on the node's wall clock.
    pub at_ms: i64,
}

/// The last measurement of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub key: (u32, Key),
    pub at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Tick>,
    pub cpu_cores: f64,
    pub cpu_ms: u64,
    pub rss_bytes: u64,
    pub peak_rss_bytes: u64,
    pub written_bytes: u64,
    pub silent_ms: u64,
    /// Mean utilisation of its GPUs, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<f64>,
    /// Memory of its processes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpumem_bytes: Option<u64>,
    /// Power that its GPUs take together, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_power_w: Option<f64>,
    /// Of the hottest of its GPUs, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_c: Option<f64>,
}

/// How far the job has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub key: (u32, Key),
    /// From 0 to 1.
    pub done: f64,
    /// Run time of its start at that moment.
    pub ran_ms: u64,
    /// Expected run time from then to the end; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

/// How often a rule fired in this run, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleFacts {
    pub fired: u32,
    pub key: (u32, Key),
    pub action: String,
    pub text: String,
    pub last_values: String,
    pub last_fired_ms: i64,
    /// The newest firings: the time of each, by how often it had fired then. Empty of runs that an
    /// earlier build folded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub firings: BTreeMap<u32, i64>,
    /// Written name → exact name.
    pub bound: BTreeMap<String, String>,
    /// The ends of the commands of its newest firings, by how often it had fired then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ran: BTreeMap<u32, Ran>,
    pub problem: String,
    /// Written names that the metric of a set alone did not bind, each with that.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub of_set: BTreeSet<(String, String)>,
    /// Since which run time, in seconds, the condition of each `for` holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Option<f64>>,
    /// The record of that.
    #[serde(skip_serializing_if = "is_default")]
    pub held_key: (u32, Key),
}

impl RuleFacts {
    /// The names that are unknown since only the metric of a set was printed, as sentences.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        let open = self.of_set.iter();
        let open = open.filter(|(written, _)| !self.bound.contains_key(written));
        open.map(|(written, exact)| {
            let meant = Bound::Metric(exact.as_str().into()).written();
            format!("`{written}` is not the metric `{exact}`, so it is unknown until it is printed: write `{meant}` if that is meant")
        })
    }
}

/// The end of the command of a firing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ran {
    pub at_ms: i64,
    /// `exit code 0`, `signal 9`, or a sentence.
    pub how: String,
    /// The end of what it printed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
}

impl Ran {
    /// How it ended, with the last line that it printed.
    pub fn line(&self) -> String {
        let mut lines = self.output.lines().map(str::trim);
        match lines.rfind(|line| !line.is_empty()) {
            Some(line) => format!("{}: {line}", self.how),
            None => self.how.clone(),
        }
    }
}

fn is_default(key: &(u32, Key)) -> bool {
    *key == Default::default()
}

/// A step on neroman's machine that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedStep {
    /// The start whose job asked, and the number of the step.
    pub of: (u32, u32),
    pub at_ms: i64,
}

/// A rule that cannot apply to this run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleOff {
    pub text: String,
    pub why: String,
}

/// A remark of a watcher.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Remark {
    pub key: (u32, Key),
    pub at_ms: i64,
    pub text: String,
}

/// The host at the run's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub key: (u32, Key),
    pub host: String,
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub cpu_model: String,
    pub disk_free_bytes: u64,
    pub gpus: Vec<String>,
    /// Of these the ones that the run was given, where a node gives them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_gpus: Vec<String>,
    /// The image of its container with its digest; empty: it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}

impl Journal {
    /// The start that counts: the highest known.
    pub fn newest(&self) -> Option<(u32, &Incarnation)> {
        let (number, incarnation) = self.incarnations.last_key_value()?;
        Some((*number, incarnation))
    }

    /// Whether the job was started, by the newest start.
    pub(crate) fn has_run(&self) -> bool {
        let newest = self.newest();
        newest.is_some_and(|(_, one)| one.started_ms.is_some() && one.not_started.is_none())
    }

    /// The time of the job's first start.
    pub fn started_ms(&self) -> Option<i64> {
        self.incarnations.values().find_map(|one| one.started_ms)
    }

    /// The last sign of the newest start by its records, not after `latest_ms`;
    /// 0 if there is none.
    pub fn last_sign_ms(&self, latest_ms: i64) -> i64 {
        let Some((number, newest)) = self.newest() else {
            return 0;
        };
        let of_newest = |key: &(u32, Key)| key.0 == number;
        let job = [
            newest.claimed.as_ref().map(|claimed| claimed.at_ms),
            newest.started_ms,
            newest.stop.as_ref().map(|stop| stop.at_ms),
            newest.exit.as_ref().map(|exit| exit.at_ms),
            newest.gone.as_ref().map(|gone| gone.at_ms),
        ];
        let sample = self.sample.iter().filter(|one| of_newest(&one.key));
        let metrics = self.metrics.values().filter(|one| of_newest(&one.key));
        let signs = job
            .into_iter()
            .flatten()
            .chain(sample.map(|one| one.at_ms))
            .chain(metrics.map(|one| one.at_ms));
        signs.max().unwrap_or(0).min(latest_ms)
    }

    /// The progress of the newest start.
    pub fn progress(&self) -> Option<&Progress> {
        let (number, _) = self.newest()?;
        let known = self.progress.as_ref();
        known.filter(|progress| progress.key.0 == number)
    }

    /// Time from the begin of the newest start to its last metric, by the node's clock;
    /// `None`: it has reported none.
    pub(crate) fn reported_after_ms(&self) -> Option<u64> {
        let (number, newest) = self.newest()?;
        let of_newest = self.metrics.values().filter(|one| one.key.0 == number);
        let last_ms = of_newest.map(|one| one.at_ms).max()?;
        u64::try_from(last_ms - newest.started_ms?).ok()
    }

    /// Records a sign of one start.
    pub fn sign(&mut self, incarnation: u32, at: Tick) {
        let known = self.signs.entry(incarnation).or_default();
        let last_ms = known.entry(at.boot).or_default();
        *last_ms = at.ms.max(*last_ms);
    }

    /// For how long the newest start certainly ran, in milliseconds: up to its
    /// last sign.
    pub fn surely_ran_ms(&self) -> Option<i64> {
        let (number, newest) = self.newest()?;
        let started = newest.started.as_ref()?;
        let last_ms = self.signs.get(&number)?.get(&started.boot)?;
        Some(last_ms.saturating_sub(started.ms).max(0))
    }

    /// The time of the job's first start, on its machine's boot clock.
    pub fn started(&self) -> Option<&Tick> {
        let first = self
            .incarnations
            .values()
            .find(|one| one.started_ms.is_some());
        first?.started.as_ref()
    }

    /// Warnings for people: rules that warn, and remarks.
    pub fn warnings(&self) -> Vec<String> {
        let mut texts: Vec<String> = self
            .rules
            .values()
            .filter(|rule| rule.fired > 0 && rule.action == "warn")
            .map(|rule| match rule.last_values.as_str() {
                "" => format!("rule `{}`", rule.text),
                values => format!("rule `{}` ({values})", rule.text),
            })
            .collect();
        for (id, rule) in &self.rules {
            texts.extend(rule.doubts().map(|doubt| format!("rule {id}: {doubt}")));
        }
        let off = self.rules_off.values();
        texts.extend(off.map(|off| format!("rule `{}` is off: {}", off.text, off.why)));
        if let Some((version, why)) = &self.rules_refused
            && *version >= self.rules_applied
        {
            texts.push(format!("rules refused: {why}"));
        }
        let notices = self.notices.iter().filter(|one| !self.is_past(one));
        texts.extend(notices.map(|remark| remark.text.clone()));
        for incarnation in self.incarnations.values() {
            if let Some(gone) = incarnation.gone.as_ref().filter(|gone| gone.left_alive > 0) {
                texts.push(format!("{} processes could not be ended", gone.left_alive));
            }
        }
        if self.damaged_records > 0 {
            texts.push(format!(
                "{} records could not be read",
                self.damaged_records
            ));
        }
        if self.overflows {
            texts.push("its node tells more of it than is kept: points may be missing".to_owned());
        }
        texts
    }

    /// Whether a remark told what kept an end from being recorded, which is recorded now.
    fn is_past(&self, remark: &Remark) -> bool {
        let (number, key) = remark.key;
        self.incarnations.get(&number).is_some_and(|one| {
            let hold = one.end_hold.as_ref();
            one.exit.is_some() && hold.is_some_and(|hold| hold.key == key)
        })
    }

    /// Forgets the state that only further folding needs.
    pub fn compact(&mut self) {
        self.segments.clear();
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Floats as JSON numbers, and as text where JSON has none.
mod float {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(f64),
        Text(String),
    }

    pub(super) fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        if x.is_finite() {
            to.serialize_f64(*x)
        } else {
            to.collect_str(x)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match NumberOrText::deserialize(from)? {
            NumberOrText::Number(x) => Ok(x),
            NumberOrText::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: &str, ms: i64) -> Tick {
        Tick {
            boot: boot.to_owned(),
            ms,
        }
    }

    #[test]
    fn the_sure_run_time_follows_the_boot_clock_of_its_start() {
        let mut journal = Journal::default();
        let started = Incarnation {
            started_ms: Some(1_000_000),
            started: Some(at("b", 2000)),
            ..Incarnation::default()
        };
        journal.incarnations.insert(2, started.into());
        assert_eq!(journal.surely_ran_ms(), None, "of an earlier build");
        for (incarnation, sign) in [
            (2, at("b", 7000)),
            (2, at("b", 2000)),
            (1, at("b", 90_000)),
            // Another boot has another clock.
            (2, at("c", 80_000)),
        ] {
            journal.sign(incarnation, sign);
        }
        assert_eq!(journal.surely_ran_ms(), Some(5000));
    }
}
