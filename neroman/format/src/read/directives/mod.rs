//! Scheduler options in a text, such as the `#SBATCH` lines of a script, become fields of an
//! experiment, resources, options that are passed on, and notes about the rest.

pub(crate) mod engine;
pub(crate) mod one_text;
pub(crate) mod options;
pub(crate) mod slurm;

pub(crate) use options::directives;

use nero_model::safe::quoted;
use nero_yaml::Mark;

use self::options::Directive;

/// Most tasks of an array that become experiments.
pub(crate) const TASKS_MAX: u64 = 100_000;

/// A scheduler whose options a script has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Slurm,
    GridEngine,
}

impl Dialect {
    fn prefix(self) -> &'static str {
        match self {
            Self::Slurm => "#SBATCH",
            Self::GridEngine => "#$",
        }
    }
}

/// Requests of a script as fields of an experiment; each with the option that it comes from.
#[derive(Debug, Default)]
pub(crate) struct ScriptRequest {
    /// Fields of the experiment.
    pub(crate) fields: Vec<(&'static str, ScriptValue<String>)>,
    /// Fields of `resources`.
    pub(crate) resources: Vec<(&'static str, ScriptValue<String>)>,
    /// Options that are passed on.
    pub(crate) passed: Vec<ScriptValue<String>>,
    /// The interpreter, where an option names it.
    pub(crate) shell: Option<String>,
    /// Indexes of an array.
    pub(crate) tasks: Option<ScriptValue<Vec<u64>>>,
    /// The step between them; 0: there is no array.
    pub(crate) step: u64,
    /// What becomes of the other options.
    pub(crate) notes: Vec<(Mark, String)>,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct ScriptValue<T> {
    pub(crate) value: T,
    pub(crate) mark: Mark,
}

impl ScriptRequest {
    pub(crate) fn field(&mut self, word: &'static str, mark: Mark, value: impl Into<String>) {
        put(&mut self.fields, word, mark, value.into());
    }

    pub(crate) fn resource(&mut self, word: &'static str, mark: Mark, value: impl Into<String>) {
        put(&mut self.resources, word, mark, value.into());
    }

    pub(crate) fn note(&mut self, mark: Mark, text: impl Into<String>) {
        self.notes.push((mark, text.into()));
    }
}

/// The last value of a word counts, as it does for schedulers.
fn put(
    fields: &mut Vec<(&'static str, ScriptValue<String>)>,
    word: &'static str,
    mark: Mark,
    value: String,
) {
    fields.retain(|(known, _)| *known != word);
    fields.push((word, ScriptValue { value, mark }));
}

/// A note about an option that is not taken over.
pub(crate) fn left_out(directive: &Directive, why: &str) -> String {
    format!("{} is left out: {why}", quoted(&directive.name))
}
