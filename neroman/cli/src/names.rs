//! The words that are verbs: built ones, their other names, and those of the
//! design that are not built yet.

/// Verbs that work. `help` and `version` are answered without a daemon.
pub const BUILT: &[&str] = &[
    "add",
    "status",
    "show",
    "start",
    "restart",
    "abort",
    "rm",
    "wait",
    "logs",
    "metrics",
    "results",
    "path",
    "fetch",
    "node",
    "shell",
    "exec",
    "clean",
    "du",
    "rule",
    "config",
    "daemon",
    "completions",
    "help",
    "version",
];

/// Other names, most of them the original Neronet's.
pub const ALIASES: &[(&str, &str)] = &[
    ("addexp", "add"),
    ("ls", "status"),
    ("terminate", "abort"),
    ("delexp", "rm"),
    ("submit", "submit"),
    ("monitor", "monitor"),
    ("addnode", "addnode"),
    ("delnode", "delnode"),
];

/// Verbs of the design that answer "not built yet".
pub const NOT_BUILT: &[&str] = &[
    "template", "run", "set", "note", "tag", "copy", "copyexp", "pause", "resume", "plot", "open",
    "diff", "export", "backup", "top", "web", "setup", "mail", "import", "user",
];

/// Options of built verbs that answer "not built yet": verb, option.
pub const NOT_BUILT_OPTIONS: &[(&str, &str)] = &[
    ("add", "command"),
    ("add", "with"),
    ("add", "offset"),
    ("add", "big"),
    ("start", "priority"),
    ("start", "order"),
    ("start", "pilot"),
    ("restart", "priority"),
    ("restart", "order"),
    ("restart", "pilot"),
    ("restart", "set"),
    ("restart", "same-code"),
    ("metrics", "parquet"),
];

/// The meaning of a word where a verb is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A verb that works; `submit` and `monitor` are rewritten.
    Verb(&'static str),
    /// A verb that is not built yet.
    NotBuilt(&'static str),
    /// No word of ours.
    Unknown,
}

/// Reads a verb without its dashes.
pub fn read(word: &str) -> Word {
    if let Some(verb) = BUILT.iter().find(|verb| **verb == word) {
        return Word::Verb(verb);
    }
    if let Some((_, verb)) = ALIASES.iter().find(|(alias, _)| *alias == word) {
        return Word::Verb(verb);
    }
    match NOT_BUILT.iter().find(|verb| **verb == word) {
        Some(verb) => Word::NotBuilt(verb),
        None => Word::Unknown,
    }
}

/// The verb that the user may have meant.
pub fn near(word: &str) -> Option<&'static str> {
    let all = BUILT
        .iter()
        .copied()
        .chain(ALIASES.iter().map(|(alias, _)| *alias));
    nero_model::names::suggest(word, all)
}
