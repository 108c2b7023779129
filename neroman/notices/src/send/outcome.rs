//! What became of one message or event.

use nero_model::safe::Safe;

/// Longer answers of a server are cut.
const CHARS_MAX: usize = 400;

/// What became of one message or event. Each variant has the words to show: those of the
/// server, made safe, or what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendOutcome {
    /// It was taken.
    Accepted(String),
    /// It may get through later: the network, a busy server, a certificate, a program for the
    /// password. After a timeout it may even have been taken.
    Later(String),
    /// It never gets through: the recipient is unknown, or the message itself is refused.
    Refused(String),
    /// Nothing gets through until the configuration changes: the login or the sender is refused.
    LoginRefused(String),
}

impl SendOutcome {
    /// The words to show.
    pub fn words(&self) -> &str {
        match self {
            Self::Accepted(words)
            | Self::Later(words)
            | Self::Refused(words)
            | Self::LoginRefused(words) => words,
        }
    }
}

/// Words of a server or a program, in one safe line of bounded length.
pub(crate) fn shown(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = Safe::line(&line).to_string();
    match safe.char_indices().nth(CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &safe[..cut]),
        None => safe,
    }
}
