//! The words of the format: which are known, which have an effect, which are old.
//!
//! A word with no effect yet is listed as such and becomes a [`NotBuilt`]; a word in
//! no list is a mistake. Nothing is ever accepted without effect.
//!
//! [`NotBuilt`]: crate::NotBuilt

use crate::definition::problem::printable;
use nero_model::names::suggest;

/// A field of a block, by its present name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Field {
    Command,
    RunCommandPrefix,
    MainCodeFile,
    Parameters,
    ParametersFormat,
    Env,
    Collection,
    Cohort,
    Resources,
    Files,
    RequiredFiles,
    Outputs,
    Rules,
    Conditions,
    Metrics,
    Monitor,
    Buffered,
    LineBuffered,
    ResultsDir,
    ResultsMax,
    CustomMsg,
    SbatchArgs,
    QsubArgs,
    Partition,
    Account,
    Qos,
    Constraint,
    Queue,
    ParallelEnv,
    Launcher,
    OnLost,
    Setup,
    Pack,
    AtOnce,
    LogOutput,
    OutputLineProcessor,
    OutputFileProcessor,
    Plot,
    Node,
    Requires,
    Data,
    Checkpoint,
    Retry,
    OnTimeout,
    Split,
    Progress,
    Zip,
    Exclude,
    Repeat,
    Script,
    Python,
    Container,
    Render,
    ParametersStyle,
    Priority,
    /// Read before the fields, at the top of a file.
    Parent,
    Keep,
    Tags,
    DependsOn,
    Stages,
    Stage,
    Lock,
    Settle,
    Place,
    Probes,
    OnError,
    Steps,
    /// Understood and not built; the word as it is in the format.
    Later(&'static str),
}

/// Every word of a block with an effect, or with a type that is checked.
pub(crate) const FIELDS: &[(&str, Field)] = &[
    ("command", Field::Command),
    ("run_command_prefix", Field::RunCommandPrefix),
    ("main_code_file", Field::MainCodeFile),
    ("parameters", Field::Parameters),
    ("parameters_format", Field::ParametersFormat),
    ("parameter_format", Field::ParametersFormat),
    ("env", Field::Env),
    ("collection", Field::Collection),
    ("cohort", Field::Cohort),
    ("resources", Field::Resources),
    ("files", Field::Files),
    ("required_files", Field::RequiredFiles),
    ("outputs", Field::Outputs),
    ("rules", Field::Rules),
    ("conditions", Field::Conditions),
    ("warning", Field::Conditions),
    ("metrics", Field::Metrics),
    ("monitor", Field::Monitor),
    ("buffered", Field::Buffered),
    ("line_buffered", Field::LineBuffered),
    ("results_dir", Field::ResultsDir),
    ("results_max", Field::ResultsMax),
    ("custom_msg", Field::CustomMsg),
    ("sbatch_args", Field::SbatchArgs),
    ("qsub_args", Field::QsubArgs),
    ("partition", Field::Partition),
    ("account", Field::Account),
    ("qos", Field::Qos),
    ("constraint", Field::Constraint),
    ("queue", Field::Queue),
    ("parallel_env", Field::ParallelEnv),
    ("launcher", Field::Launcher),
    ("on_lost", Field::OnLost),
    ("setup", Field::Setup),
    ("pack", Field::Pack),
    ("at_once", Field::AtOnce),
    ("logoutput", Field::LogOutput),
    ("output_line_processor", Field::OutputLineProcessor),
    ("output_file_processor", Field::OutputFileProcessor),
    ("plot", Field::Plot),
    ("node", Field::Node),
    ("requires", Field::Requires),
    ("data", Field::Data),
    ("checkpoint", Field::Checkpoint),
    ("retry", Field::Retry),
    ("on_timeout", Field::OnTimeout),
    ("split", Field::Split),
    ("progress", Field::Progress),
    ("zip", Field::Zip),
    ("exclude", Field::Exclude),
    ("repeat", Field::Repeat),
    ("script", Field::Script),
    ("python", Field::Python),
    ("container", Field::Container),
    ("render", Field::Render),
    ("parameters_style", Field::ParametersStyle),
    ("priority", Field::Priority),
    ("parent", Field::Parent),
    ("keep", Field::Keep),
    ("tags", Field::Tags),
    ("depends_on", Field::DependsOn),
    ("stages", Field::Stages),
    ("stage", Field::Stage),
    ("lock", Field::Lock),
    ("settle", Field::Settle),
    ("place", Field::Place),
    ("probes", Field::Probes),
    ("on_error", Field::OnError),
    ("steps", Field::Steps),
];

/// Words of a block that are kept, and refused at the start.
const LATER: &[&str] = &[];

/// Words of `resources` that have an effect.
pub(crate) const RESOURCES: &[&str] = &[
    "cpus",
    "memory",
    "time",
    "disk",
    "gpus",
    "gpumem",
    "gpu_type",
    "nodes",
    "processes",
    "exclusive",
];
/// The field of a key.
pub(crate) fn field(key: &str) -> Option<Field> {
    FIELDS
        .iter()
        .find(|(word, _)| *word == key)
        .map(|(_, field)| *field)
        .or_else(|| {
            LATER
                .iter()
                .find(|word| **word == key)
                .map(|word| Field::Later(word))
        })
}

/// Every word of a block with an effect.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(word, _)| *word)
}

/// The present name of a field.
pub(crate) fn field_name(field: Field) -> &'static str {
    match field {
        Field::Later(word) => word,
        field => FIELDS
            .iter()
            .find(|(_, other)| *other == field)
            .map_or("", |(word, _)| word),
    }
}

/// Words of other tools, and our words for the same.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cmd", "command"),
    ("run", "command"),
    ("run_command", "command"),
    ("params", "parameters"),
    ("environment", "env"),
    ("needs", "depends_on"),
    ("dependencies", "depends_on"),
];

/// The field that a key is most likely meant to be.
pub(crate) fn suggested(key: &str) -> Option<&'static str> {
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(word, _)| *word == key) {
        return Some(ours);
    }
    let words = FIELDS.iter().map(|(word, _)| *word);
    suggest(key, words.chain(LATER.iter().copied()))
}

/// What to say of a key of a block that is no field.
pub(crate) fn field_hint(key: &str, is_map: bool) -> String {
    if let "table" | "results" = key {
        return format!(
            "`{key}` stands in the YAML file beside a table: plan.yaml beside plan.xlsx"
        );
    }
    if let Some(word) = suggested(key) {
        return format!("did you mean `{word}`?");
    }
    for (outer, words) in [
        ("resources", RESOURCES.to_vec()),
        ("rules", nero_expr::ACTIONS.to_vec()),
        ("monitor", vec!["interval", "grace", "strays"]),
    ] {
        if words.contains(&key) {
            return format!("`{key}` stands inside of `{outer}:`");
        }
    }
    if is_map {
        return format!(
            "the key of an experiment begins with `+`: `+{}`",
            printable(key)
        );
    }
    "a parameter stands inside of `parameters:`".to_owned()
}

/// The field that names the file above.
pub(crate) const PARENT: &str = "parent";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested() {
        let table = [
            ("paramters", false, "did you mean `parameters`?"),
            ("parameter", true, "did you mean `parameters`?"),
            (
                "run-command-prefix",
                false,
                "did you mean `run_command_prefix`?",
            ),
            ("Command", false, "did you mean `command`?"),
            ("run_command", false, "did you mean `command`?"),
            ("params", true, "did you mean `parameters`?"),
            ("retries", false, "did you mean `retry`?"),
            ("memory", false, "`memory` stands inside of `resources:`"),
            (
                "exp1",
                true,
                "the key of an experiment begins with `+`: `+exp1`",
            ),
            (
                "learning_rate",
                false,
                "a parameter stands inside of `parameters:`",
            ),
        ];
        for (key, is_map, want) in table {
            assert_eq!(field_hint(key, is_map), want, "{key}");
        }
    }

    #[test]
    fn every_word_has_one_meaning() {
        for (word_written, of) in FIELDS {
            assert_eq!(field(word_written), Some(*of));
            assert_eq!(field(field_name(*of)), Some(*of));
            assert!(!LATER.contains(word_written), "{word_written}");
        }
    }
}
