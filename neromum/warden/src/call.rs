//! A command of a scheduler, and what it said.

use std::borrow::Cow;

/// A command to be executed. Its words are ours or were checked to be
/// [`Word`](crate::Word)s; longer texts travel on standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the program, without a folder, or its absolute path.
    pub program: Cow<'static, str>,
    /// Its words; `{user}` in them stands for the name of the user.
    pub words: Vec<Cow<'static, str>>,
    /// Its standard input.
    pub input: Vec<u8>,
}

impl Call {
    /// A command without standard input.
    pub fn new<const N: usize>(program: &'static str, words: [&'static str; N]) -> Self {
        Self {
            program: program.into(),
            words: words.map(Cow::Borrowed).into(),
            input: Vec::new(),
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was ended because it took too long; its effect is unknown.
    TimedOut,
    /// It was ended because it printed too much; its effect is unknown.
    TooMuch,
    /// It was not executed, for this reason; it has no effect.
    NotExecuted(String),
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutput {
    /// How the command ended.
    pub end: End,
    /// Its standard output.
    pub out: Vec<u8>,
    /// The beginning of its standard error.
    pub err: Vec<u8>,
}

/// Longest quotation of a scheduler in one of our messages, in characters.
const QUOTED_CHARS: usize = 300;

impl CallOutput {
    /// Its output when it succeeded; the text need not be UTF-8, so odd bytes are
    /// replaced.
    ///
    /// # Errors
    /// When the command did not succeed.
    pub fn text(&self, call: &Call) -> Result<Cow<'_, str>, Unreadable> {
        match &self.end {
            End::Code(0) => Ok(String::from_utf8_lossy(&self.out)),
            End::Code(_) | End::Signal(_) | End::TimedOut | End::TooMuch | End::NotExecuted(_) => {
                Err(Unreadable::failed(call, self))
            }
        }
    }

    /// What it complained of, in one line: standard error, else standard output.
    pub fn complaint(&self) -> String {
        let text = if self.complains() {
            in_one_line(&self.err)
        } else {
            in_one_line(&self.out)
        };
        text.chars().take(QUOTED_CHARS).collect()
    }

    /// Whether standard error has more than a shell's warning about a language that is not
    /// installed.
    pub fn complains(&self) -> bool {
        !in_one_line(&self.err).is_empty()
    }
}

fn in_one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim);
    let told = lines.filter(|line| !line.is_empty() && !line.contains(": warning: setlocale: "));
    told.collect::<Vec<_>>().join("; ")
}

/// Reason why an answer tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The command failed.
    #[error("{program} {how}{}", colon(.complaint))]
    Failed {
        /// The program.
        program: Cow<'static, str>,
        /// "exited with 1", "took too long".
        how: String,
        /// Its own words, cut.
        complaint: String,
    },
    /// The command succeeded with an answer that has another form.
    #[error("the answer of {program} is not understood: {what}")]
    Odd {
        /// The program.
        program: Cow<'static, str>,
        /// What is wrong with it.
        what: String,
    },
}

fn colon(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

impl Unreadable {
    fn failed(call: &Call, said: &CallOutput) -> Self {
        let how = match &said.end {
            End::Code(code) => format!("exited with {code}"),
            End::Signal(signal) => format!("was ended by signal {signal}"),
            End::TimedOut => "took too long".to_owned(),
            End::TooMuch => "printed too much".to_owned(),
            End::NotExecuted(why) => format!("cannot be executed: {why}"),
        };
        Self::Failed {
            program: call.program.clone(),
            how,
            complaint: said.complaint(),
        }
    }

    /// An answer of another form, with its first line.
    pub(crate) fn odd_beginning(
        program: impl Into<Cow<'static, str>>,
        why: &str,
        text: &str,
    ) -> Self {
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let first: String = first.chars().take(QUOTED_CHARS / 2).collect();
        Self::odd(program, format!("it begins with {first:?}: {why}"))
    }

    /// An answer of another form.
    pub(crate) fn odd(program: impl Into<Cow<'static, str>>, what: impl Into<String>) -> Self {
        let what: String = what.into();
        Self::Odd {
            program: program.into(),
            what: what.chars().take(QUOTED_CHARS).collect(),
        }
    }
}
