//! What reading a source yields: plain data that the daemon stores as JSON.
//!
//! Owned by this module: the shape of a [`Definition`] and of everything in it.
//! The reader makes them; neroman stores them, compares them when a source is
//! read again and turns them into runs. Nothing here touches the disk.

mod again;
mod edit;
mod origin;
mod param;
mod precedence;
pub(crate) mod problem;
mod processing;
mod resources;
mod shared;
mod value;

pub use again::{AfterError, ErrorHandler, FollowUp, Retry, RetryOn};
pub use edit::{AppliedEdit, Edit, EditMistake, Edits, Effective, Override};
pub use origin::{
    BoundColumn, BoundTable, ParentFile, Place, RowsOptions, ShownValue, Source, SourceKind,
    TableOptions,
};
pub use param::Param;
pub(crate) use param::json_of;
pub use precedence::{
    Dependency, DependsUntil, InStage, NodeChoice, NodeProbe, Precedence, RunLock,
};
pub use processing::{OutputPlot, OutputProcessing, ProcessedOutput, ProcessedUnit, PythonCall};
pub use resources::{Container, NodeResources, OnNode, OnNodes, Resources, SchedulerOptions};
pub use shared::SharedPart;
pub use value::{Value, float_text};

use nero_expr::{Expr, RulePlace};
use nero_model::safe::quoted;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One experiment, completely resolved: inherited, expanded and filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The name, unique within its collection; any characters. Empty as read from a row of a
    /// table without one: its experiment is called after its number.
    pub name: String,
    /// The number that its row gives it, offset included: its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The name of the block that it was made by; empty in what earlier versions
    /// stored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub block: SharedPart<String>,
    /// The cohort that it belongs to, in place of its block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: SharedPart<Option<String>>,
    /// Names of the parameters for which its block gives several values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varied: SharedPart<Vec<String>>,
    /// The collections; names are unique in the first.
    pub collections: SharedPart<Vec<String>>,
    /// The folder that it works from, absolute.
    pub folder: SharedPart<PathBuf>,
    /// Where its block begins.
    pub place: SharedPart<Place>,
    /// Program and arguments, filled in. Empty only beside a [`NotBuilt`] with the reason.
    pub argv: Vec<String>,
    /// The command as one line to read, quoted for a shell.
    pub command_text: String,
    /// Parameters in the order of the file.
    pub params: Vec<Param>,
    /// Environment in the order of the file; `None` unsets.
    pub env: SharedPart<Vec<(String, Option<String>)>>,
    /// Data that stays where it is; its places in `argv` and `env` are filled on the
    /// node (see `nero_model::data`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: SharedPart<Vec<DataDef>>,
    /// What the run needs.
    pub resources: SharedPart<Resources>,
    /// Where it goes: a node, a group or `any`. Whether there is such a one is asked
    /// at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: SharedPart<Option<SourceText>>,
    /// What a node must be, as `nero_expr::Requirement` reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: SharedPart<Option<SourceText>>,
    /// The probes that `requires` uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: SharedPart<Vec<NodeProbe>>,
    /// Globs of what travels with the run; `None` is the whole folder.
    pub files: SharedPart<Option<Vec<String>>>,
    /// Those among `files` that runs share as links to one read-only copy
    /// (`mode: link`), instead of getting a copy each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_files: SharedPart<Vec<String>>,
    /// Paths below the folder that exist and must travel.
    pub required_files: SharedPart<Vec<String>>,
    /// The program's file, where the original's `main_code_file` names it.
    pub main_file: SharedPart<Option<String>>,
    /// Files that are made on the node from templates of the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub render: SharedPart<Vec<RenderDef>>,
    /// A file of all parameters that is made in the working directory; its ending (json,
    /// yaml, toml) is its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_file: SharedPart<Option<String>>,
    /// What comes home.
    pub outputs: SharedPart<Vec<Output>>,
    /// What is made of it here.
    #[serde(default, skip_serializing_if = "OutputProcessing::is_empty")]
    pub processing: SharedPart<OutputProcessing>,
    /// Globs below the run's working folder: files that a later run goes on from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoint: SharedPart<Vec<String>>,
    /// Standing rules, those of `conditions` first in the order of the file.
    pub rules: SharedPart<Vec<RuleDef>>,
    /// Patterns over lines of output, with named groups; they compile as
    /// `regex::bytes` without Unicode classes.
    pub metric_patterns: SharedPart<Vec<String>>,
    /// What else is said of how the output is read.
    #[serde(default, skip_serializing_if = "MetricReading::is_default")]
    pub metric_reading: SharedPart<MetricReading>,
    /// The canonical expression of how far a run has come; none: what it prints tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: SharedPart<Option<String>>,
    /// How the run is watched.
    pub monitor: SharedPart<Monitor>,
    /// How output reaches the log.
    pub buffering: OutputBuffering,
    /// Where results go instead of `results/` of the folder.
    pub results_dir: SharedPart<Option<String>>,
    /// Where no outputs are named, so many bytes of what the job makes come home, and
    /// of each log; `None`: the limit of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_max_bytes: Option<u64>,
    /// The folder of a run goes from its node so long after its end, if all of it is home;
    /// `None`: never by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// A user's remark on the experiment.
    pub custom_msg: SharedPart<Option<String>>,
    /// The original's `sbatch_args` as it was written; its options are in
    /// `scheduling`.
    pub sbatch_args: SharedPart<Option<String>>,
    /// What it asks of a scheduler.
    #[serde(default, skip_serializing_if = "SchedulerOptions::is_empty")]
    pub scheduling: SharedPart<SchedulerOptions>,
    /// The runs that follow the end of one by themselves.
    #[serde(default, skip_serializing_if = "FollowUp::is_none")]
    pub again: SharedPart<FollowUp>,
    /// Its runs go before those of a lower one where both wait on a node.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub priority: i32,
    /// What comes before its runs.
    #[serde(default, skip_serializing_if = "Precedence::is_none")]
    pub precedence: SharedPart<Precedence>,
    /// Words of the file to pick it by, in the order of the alphabet, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: SharedPart<Vec<String>>,
    /// Words that are understood and not built: `start` refuses with each.
    pub not_built: SharedPart<Vec<NotBuilt>>,
    /// Remarks for the user on this experiment.
    pub notes: SharedPart<Vec<String>>,
}

/// Holds these parts of the other one, where they are equal.
macro_rules! share {
    ($one:ident, $other:ident: $($part:ident)*) => {
        $($one.$part.share(&$other.$part);)*
    };
}

impl Definition {
    /// Takes as little memory as it can: what is equal to what the definition before it holds is
    /// held once, and there is no room for more parameters.
    pub fn share(&mut self, before: &Self) {
        self.argv.shrink_to_fit();
        self.params.shrink_to_fit();
        share!(
            self, before:
            block cohort varied collections folder place env data resources node requires probes
            files linked_files required_files main_file render params_file outputs processing
            checkpoint rules metric_patterns metric_reading progress monitor results_dir custom_msg
            sbatch_args scheduling again precedence tags not_built notes
        );
    }

    /// The time limit that a scheduler is asked for, in seconds; 0: none.
    pub fn scheduler_limit_s(&self) -> u64 {
        let limit = |time_ms| Self::limit_s(time_ms, self.monitor.grace_ms);
        self.resources.time_ms.map_or(0, limit)
    }

    /// The limit that a scheduler is asked for, in seconds, for this time and grace.
    pub fn limit_s(time_ms: u64, grace_ms: u64) -> u64 {
        nero_warden::limit::limit_s(time_ms, grace_ms)
    }

    /// The time limit, in seconds, of a scheduler's job that has `runs` runs, each with the
    /// limit `limit_s`.
    pub fn pack_limit_s(limit_s: u64, runs: u32) -> u64 {
        nero_warden::limit::of_pack_s(limit_s, runs)
    }

    /// The collection that the name is unique in.
    pub fn collection(&self) -> &str {
        self.collections.first().map_or("", String::as_str)
    }

    /// A digest of the definition, without places, folder and notes: equal for two
    /// readings between which only comments, blanks or other experiments changed.
    pub fn fingerprint(&self) -> String {
        let mut bare = self.clone();
        bare.notes.clear();
        bare.number = None;
        bare.block.clear();
        bare.varied.clear();
        // No run depends on what is made of its outputs.
        bare.processing = SharedPart::default();
        bare.priority = 0;
        bare.tags.clear();
        // The same is executed, whatever comes before it.
        bare.precedence = SharedPart::default();
        bare.probes.clear();
        // Or of how long their folders stay.
        bare.keep_ms = None;
        // A folder that was moved holds the same experiments.
        bare.folder = SharedPart::default();
        bare.place = SharedPart::default();
        for rule in &mut *bare.rules {
            rule.place = Place::default();
        }
        for placed in bare.node.iter_mut().chain(&mut *bare.requires) {
            placed.place = Place::default();
        }
        for word in &mut *bare.not_built {
            word.place = Place::default();
        }
        let json = serde_json::to_vec(&bare).expect("a definition has string keys only");
        blake3::hash(&json).to_hex().to_string()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_usual(priority: &i32) -> bool {
    *priority == 0
}

/// A text of the source and where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The text.
    pub text: String,
    /// Where it was written.
    pub place: Place,
}

/// A template and the file that is made of it, as paths below the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderDef {
    /// The template.
    pub template: String,
    /// The file.
    pub path: String,
}

/// Data that does not travel with the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDef {
    /// The name, as in `{data.corpus}`.
    pub name: String,
    /// Where it lies; never empty.
    pub paths: Vec<DataPath>,
}

/// Where data lies on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPath {
    /// The node; `None`: every node that has no path of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The path, with `~` and `$NAME` as on the node.
    pub path: String,
}

impl DataDef {
    /// Where it lies on a node.
    pub fn path_on(&self, node: &str) -> Option<&str> {
        let of = |wanted: Option<&str>| {
            let mut found = self.paths.iter();
            let found = found.find(|path| path.node.as_deref() == wanted);
            found.map(|path| path.path.as_str())
        };
        of(Some(node)).or_else(|| of(None))
    }
}

/// One entry of `outputs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// A glob below the run's working folder, or the stream's file name.
    pub path: String,
    /// Set when the entry names a stream and not a file.
    pub stream: Option<Stream>,
    /// When it comes home.
    pub fetch: Fetch,
    /// Larger files stay on the node; `None` is the default of 1 GiB.
    pub max_bytes: Option<u64>,
}

/// A stream of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// `stdout`, `stdout.log`.
    Stdout,
    /// `stderr`, `stderr.log`.
    Stderr,
}

/// When an output comes home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetch {
    /// As it is produced, and at the end.
    #[default]
    Live,
    /// At the end only.
    End,
}

/// A standing rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDef {
    /// The name of the `conditions` entry it was made from.
    pub name: Option<String>,
    /// What it does.
    pub action: RuleAction,
    /// What the action runs or sends; empty for the others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub argument: String,
    /// Pause between two firings while it holds; 0: the default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeat_ms: u64,
    /// The expression in its canonical form.
    pub text: String,
    /// The expression as it was written, or made from a condition.
    pub written: String,
    /// Where it was written.
    pub place: Place,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a rule does when it fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Ends the run.
    Abort,
    /// Marks the run with a warning.
    Warn,
    /// Tells the user.
    Notify,
    /// Stops its processes until a person lets them go on.
    Pause,
    /// Ends the run; a new one goes on from its checkpoint, on the same node.
    Restart,
    /// The same, on a node that is chosen anew.
    Requeue,
    /// Sends the job's processes a signal.
    Signal,
    /// Runs a command beside the job.
    Run,
    /// Runs a command on the researcher's machine.
    RunLocal,
}

impl RuleAction {
    /// Every action.
    pub const ALL: [Self; 9] = [
        Self::Abort,
        Self::Warn,
        Self::Notify,
        Self::Pause,
        Self::Restart,
        Self::Requeue,
        Self::Signal,
        Self::Run,
        Self::RunLocal,
    ];

    /// The word in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Warn => "warn",
            Self::Notify => "notify",
            Self::Pause => "pause",
            Self::Restart => "restart",
            Self::Requeue => "requeue",
            Self::Signal => "signal",
            Self::Run => "run",
            Self::RunLocal => "run_local",
        }
    }

    /// What stands behind the word: a command, a signal; `None` for the condition alone.
    pub const fn argument(self) -> Option<&'static str> {
        match self {
            Self::Signal => Some("USR1"),
            Self::Run | Self::RunLocal => Some("./x.sh"),
            Self::Abort
            | Self::Warn
            | Self::Notify
            | Self::Pause
            | Self::Restart
            | Self::Requeue => None,
        }
    }

    /// Whether it ends the run.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Abort | Self::Restart | Self::Requeue)
    }

    /// Refuses what no rule sends: what is no signal, and those that have an action of
    /// their own, which says in the run's records what became of it.
    ///
    /// # Errors
    /// The reason, and what to write instead.
    pub fn check_signal(word: &str) -> Result<(), (String, String)> {
        const KILL: u8 = 9;
        const STOP: u8 = 19;
        let instead = match nero_expr::sendable_signal(word) {
            None => {
                let message = format!("{} is no signal", quoted(word));
                return Err((message, "for example `signal: USR1`".to_owned()));
            }
            Some(KILL) => Self::Abort.as_str(),
            Some(STOP) => Self::Pause.as_str(),
            Some(_) => return Ok(()),
        };
        let message = format!("no program can act on the signal {word}");
        Err((message, format!("the action for this is `{instead}`")))
    }

    /// Refuses what is no command of an action.
    ///
    /// # Errors
    /// The reason, and what to write instead.
    pub fn check_command(self, command: &str) -> Result<(), (String, String)> {
        const BYTES_MAX: usize = 4096;
        let word = self.as_str();
        let message = match command.len() {
            0 => format!("`{word}` has no command"),
            1..=BYTES_MAX if command.contains('\0') => format!("`{word}` contains a NUL byte"),
            1..=BYTES_MAX => return Ok(()),
            _ => format!("`{word}` has more than {BYTES_MAX} bytes"),
        };
        Err((message, format!("for example `{word}: ./x.sh`")))
    }

    /// Refuses an action that cannot follow from this condition.
    ///
    /// # Errors
    /// The reason, and what to write instead.
    pub fn check(self, expr: &Expr) -> Result<(), (String, String)> {
        if expr.rule_place() == RulePlace::Job {
            return Ok(());
        }
        let word = self.as_str();
        match self {
            Self::Warn | Self::Notify | Self::RunLocal => Ok(()),
            Self::Abort if !expr.needs_end() => Ok(()),
            Self::Abort => Err((
                "`abort` of a run that is over ends nothing".to_owned(),
                "`notify` or `warn` tell of an end".to_owned(),
            )),
            Self::Restart | Self::Requeue => Err((
                format!("`{word}` ends a job, and this is known to neroman alone"),
                "after an end: `retry: {on: [crashed]}`".to_owned(),
            )),
            Self::Pause | Self::Signal | Self::Run => Err((
                format!("`{word}` is done beside the job, and this is known to neroman alone"),
                "of what neroman knows: `notify`, `warn`, `abort`, `run_local`".to_owned(),
            )),
        }
    }
}

/// Which lines of a job's output are read for metrics, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricReading {
    /// Patterns: lines that none of them matches are not looked at.
    pub only: Vec<String>,
    /// Patterns: lines that one of them matches are not looked at.
    pub skip: Vec<String>,
    /// Whether `0,25` is a number.
    pub decimal_comma: bool,
    /// Whether tables are left alone.
    pub no_tables: bool,
    /// Files of metrics that the job writes, below its work folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Programs that get the job's output and print metrics, with their arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<Vec<String>>,
}

impl MetricReading {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How a run is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitor {
    /// Time between two looks at the job.
    pub interval_ms: u64,
    /// Time between the polite signal and the final one.
    pub grace_ms: u64,
    /// What happens to processes left when the main one has ended.
    pub strays: Strays,
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            interval_ms: 10_000,
            grace_ms: 30_000,
            strays: Strays::Kill,
        }
    }
}

/// What happens to processes that outlive the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strays {
    /// They are ended.
    Kill,
    /// The run goes on until they end.
    Wait,
    /// They go on, and the run ends.
    Leave,
}

/// How the job's output reaches its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputBuffering {
    /// Environment variables ask interpreters to write at once.
    #[default]
    Unbuffered,
    /// `line_buffered: true`: the job starts under `stdbuf -oL`.
    Line,
    /// `buffered: true`: everything is left alone.
    Untouched,
}

/// A word that is understood and has no effect yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NotBuilt {
    /// The word, with the field it stands in: `resources.gpus`.
    pub word: String,
    /// Where it was written.
    pub place: Place,
}

/// A remark on a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What there is to say.
    pub text: String,
    /// Where, if at one place.
    pub place: Option<Place>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_builds_stored_is_read_and_what_is_no_table_is_stored_as_then() {
        let place = r#"{"file":"a.yaml","line":3,"column":5}"#;
        let source =
            r#"{"path":"/a","kind":"file","file":"/a/a.yaml","folder":"/a","digest":"00"}"#;
        let read: Place = serde_json::from_str(place).unwrap();
        assert_eq!(read.to_string(), "a.yaml:3:5");
        assert_eq!(serde_json::to_string(&read).unwrap(), place);
        let read: Source = serde_json::from_str(source).unwrap();
        assert_eq!(read.table, None);
        assert_eq!(serde_json::to_string(&read).unwrap(), source);
        let cell = Place {
            file: "plan.xlsx".to_owned(),
            line: 7,
            column: 3,
            sheet: Some("My plan".into()),
        };
        assert_eq!(cell.to_string(), "plan.xlsx:'My plan'!C7");
        let back: Place = serde_json::from_str(&serde_json::to_string(&cell).unwrap()).unwrap();
        assert_eq!(back, cell);
    }

    #[test]
    fn values_survive_json() {
        let values = [
            Value::Null,
            Value::Bool(false),
            Value::Int(i64::MAX),
            Value::Float(0.1),
            Value::Float(f64::NEG_INFINITY),
            Value::Text("no".into()),
        ];
        for value in values {
            let json = serde_json::to_string(&value).unwrap();
            let back: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(back, value, "{json}");
        }
        let nan = serde_json::to_string(&Value::Float(f64::NAN)).unwrap();
        let back: Value = serde_json::from_str(&nan).unwrap();
        assert!(matches!(back, Value::Float(x) if x.is_nan()), "{nan}");
    }
}
