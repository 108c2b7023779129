//! The words that are verbs: those of the command line and their aliases, the
//! original Neronet's, and those that the design has and this build has not.

use crate::line;

/// A word of the original Neronet for a verb and the word that follows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Original {
    word: &'static str,
    /// A verb of the command line.
    pub verb: &'static str,
    /// The word behind it.
    pub first: Option<&'static str>,
}

/// Words that other tools have for our verbs.
const FOREIGN: &[(&str, &str)] = &[
    ("cancel", "abort"),
    ("delete", "rm"),
    ("describe", "show"),
    ("edit", "set"),
    ("get", "fetch"),
    ("hold", "pause"),
    ("info", "show"),
    ("init", "template"),
    ("jobs", "status"),
    ("kill", "abort"),
    ("list", "status"),
    ("log", "logs"),
    ("nodes", "status nodes"),
    ("ps", "status"),
    ("prune", "clean"),
    ("pull", "fetch"),
    ("queue", "status"),
    ("release", "resume"),
    ("remove", "rm"),
    ("rerun", "restart"),
    ("retry", "restart"),
    ("scancel", "abort"),
    ("squeue", "status"),
    ("ssh", "shell"),
    ("stop", "abort"),
    ("suspend", "pause"),
    ("tail", "logs"),
];

/// `--submit SEL NODE`: the node becomes an option, see `steps`.
pub const SUBMIT: Original = original("submit", "start", None);

const ORIGINALS: &[Original] = &[
    SUBMIT,
    original("monitor", "logs", Some("--follow")),
    original("addnode", "node", Some("add")),
    original("delnode", "node", Some("rm")),
];

const fn original(word: &'static str, verb: &'static str, first: Option<&'static str>) -> Original {
    Original { word, verb, first }
}

/// Verbs of the design that answer "not built yet".
pub const NOT_BUILT: &[&str] = &["setup", "user"];

/// Options of built verbs that answer "not built yet": verb, option.
pub const NOT_BUILT_OPTIONS: &[(&str, &str)] = &[("add", "big")];

/// The meaning of a word where a verb is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbWord {
    /// A verb that works, and the original's word that stands for it.
    Verb(&'static str, Option<&'static Original>),
    /// A verb that is not built yet.
    NotBuilt(&'static str),
    /// No word of ours.
    Unknown,
}

/// Reads a verb without its dashes.
pub fn read(word: &str) -> VerbWord {
    if let Some(verb) = line::command().find_subcommand(word) {
        return VerbWord::Verb(verb.get_name(), None);
    }
    if let Some(original) = ORIGINALS.iter().find(|original| original.word == word) {
        return VerbWord::Verb(original.verb, Some(original));
    }
    match NOT_BUILT.iter().find(|verb| **verb == word) {
        Some(verb) => VerbWord::NotBuilt(verb),
        None => VerbWord::Unknown,
    }
}

/// The verb that the user may have meant; `node doctor` for `doctor`.
pub fn near(word: &str) -> Option<String> {
    if let Some((_, verb)) = FOREIGN.iter().find(|(foreign, _)| *foreign == word) {
        return Some((*verb).to_owned());
    }
    let command = line::command();
    for verb in command.get_subcommands() {
        if verb.find_subcommand(word).is_some() {
            return Some(format!("{} {word}", verb.get_name()));
        }
    }
    let all = command
        .get_subcommands()
        .flat_map(|verb| std::iter::once(verb.get_name()).chain(verb.get_all_aliases()))
        .chain(ORIGINALS.iter().map(|original| original.word));
    nero_model::names::suggest(word, all).map(str::to_owned)
}
