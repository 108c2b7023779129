//! Firings of rules in a run, and rules that cannot apply.

use std::collections::{BTreeMap, BTreeSet};

use nero_expr::Bound;
use serde::{Deserialize, Serialize};

use super::Key;

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
    pub ran: BTreeMap<u32, CommandEnd>,
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
pub struct CommandEnd {
    pub at_ms: i64,
    /// `exit code 0`, `signal 9`, or a sentence.
    pub how: String,
    /// The end of what it printed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
}

impl CommandEnd {
    /// How it ended, with the last line that it printed.
    pub fn line(&self) -> String {
        let mut lines = self.output.lines().map(str::trim);
        match lines.rfind(|line| !line.is_empty()) {
            Some(line) => format!("{}: {line}", self.how),
            None => self.how.clone(),
        }
    }
}

/// A rule that cannot apply to this run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleOff {
    pub text: String,
    pub why: String,
}

fn is_default(key: &(u32, Key)) -> bool {
    *key == Default::default()
}
