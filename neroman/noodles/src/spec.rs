//! A spec, resolved for one command type.

use std::collections::BTreeMap;

use nero_yaml::Mark;

use crate::command::CommandGroup;
use crate::difference::Departure;
use crate::handler::Handler;
use crate::metric::Comparison;
use crate::server::Server;

/// The three stages in their order, under their keys.
pub const STAGES: [&str; 3] = [
    "before_all_experiments",
    "experiments",
    "after_all_experiments",
];
/// The stage whose experiments a filter picks.
pub const MAIN_STAGE: usize = 1;

/// A spec.
#[derive(Debug)]
pub struct NoodlesSpec {
    /// Its name.
    pub name: String,
    /// The experiments of each of [`STAGES`].
    pub stages: [Vec<Experiment>; 3],
    /// Servers in the order of preference.
    pub servers: Vec<Server>,
    /// The probes that requirements name; an id without one is missing.
    pub probes: BTreeMap<String, Vec<CommandGroup>>,
    /// Variables of `experiment_default`, in which the status file's path is expanded.
    pub default_env: Vec<(String, String)>,
    /// The status file of this type.
    pub status_path: Option<String>,
    /// Seconds before every round but the first of a stage.
    pub round_interval: f64,
    /// Seconds before a deployment that is not the first of its round.
    pub deployment_interval: f64,
    /// Seconds before each batch of commands.
    pub commands_interval: f64,
    /// Whether errors count.
    pub check_any_errors: bool,
    /// Error handlers; the first that matches counts.
    pub error_handlers: Vec<Handler>,
    /// The shell that takes a command as its argument.
    pub shell_string: String,
    /// The shell that reads a script.
    pub shell_stdin: String,
    /// What may be meant differently; never a reason to refuse the spec.
    pub remarks: Remarks,
}

/// What a person may want to know about a spec.
#[derive(Debug, Default)]
pub struct Remarks {
    /// Keys that mean nothing.
    pub unknown_keys: Vec<UnknownKey>,
    /// Differences from the original.
    pub departures: Vec<Departure>,
    /// Command types that the spec has commands for.
    pub types: Vec<String>,
    /// Probes that the spec defines itself.
    pub probes: Vec<String>,
    /// Names in the filter that no experiment has, with the nearest one.
    pub unknown_names: Vec<(String, Option<String>)>,
    /// Names of the main stage that the filter leaves out.
    pub left_out: Vec<String>,
}

/// A key that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// The key.
    pub key: String,
    /// Where it stands.
    pub mark: Mark,
    /// What was probably meant.
    pub near: Option<&'static str>,
}

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name; several may have the same.
    pub name: String,
    /// Where it stands.
    pub mark: Mark,
    /// Its own variables, then the defaults.
    pub env: Vec<(String, String)>,
    /// Names of experiments that come first.
    pub depends_on: Vec<MarkedName>,
    /// All have to be satisfied by one server, in this order.
    pub requirements: Vec<Requirement>,
    /// What is run; nothing of an experiment that is empty for this type.
    pub commands: Vec<CommandGroup>,
    /// The file that takes standard output, on the caller's machine.
    pub stdout_to: Option<String>,
    /// The file that takes standard error.
    pub stderr_to: Option<String>,
}

/// A name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedName {
    /// The name.
    pub name: String,
    /// Where it stands.
    pub mark: Mark,
}

/// How often a probe is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// For each experiment.
    Dynamic,
    /// Once per round and server.
    Static,
}

/// A condition on a server.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// The probe.
    pub id: String,
    /// How often it is asked.
    pub freshness: Freshness,
    /// What its result has to satisfy.
    pub comparison: Comparison,
    /// The expression as it is written.
    pub expression: String,
    /// Where it stands.
    pub mark: Mark,
}

/// `SPEC:Exp 1,Exp 2` with two colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoColonsError;

/// The path and the names of `SPEC:Exp 1,Exp 2`. Names are not trimmed.
///
/// # Errors
/// There are two colons.
pub fn target(word: &str) -> Result<(&str, Option<Vec<String>>), TwoColonsError> {
    let mut parts = word.split(':');
    let path = parts.next().unwrap_or("");
    let names = parts.next();
    if parts.next().is_some() {
        return Err(TwoColonsError);
    }
    let names = names.map(|names| names.split(',').map(str::to_owned).collect());
    Ok((path, names))
}
