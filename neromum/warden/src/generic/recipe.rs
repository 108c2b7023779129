//! The words with which a configuration describes a scheduler, and their checks.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::template::{NoSuchName, Template};

/// A scheduler in the words of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recipe {
    words: BTreeMap<String, WordValue>,
}

/// What a word is set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WordValue {
    /// A text or a number, as written.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

/// A recipe that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// A word that describes nothing.
    #[error("`{0}` is no word of a scheduler")]
    Unknown(String),
    /// A value of another form.
    #[error("`{word}` takes {needs}")]
    Form {
        /// The word.
        word: String,
        /// What it takes.
        needs: &'static str,
    },
    /// A pattern that is no regular expression.
    #[error("`{word}` is no regular expression: {why}")]
    Pattern {
        /// The word.
        word: String,
        /// What is wrong with it.
        why: String,
    },
    /// A pattern without a group that is needed.
    #[error("`{word}` needs the group {group}")]
    Group {
        /// The word.
        word: &'static str,
        /// The group, as it is written.
        group: &'static str,
    },
    /// A name in braces that stands for nothing.
    #[error("`{word}`: {{{name}}} stands for nothing there; known are {known}")]
    Name {
        /// The word.
        word: String,
        /// The name.
        name: String,
        /// The names that stand for something.
        known: String,
    },
    /// A word that cannot be left out.
    #[error("`{word}` is missing: {why}")]
    Missing {
        /// The word.
        word: &'static str,
        /// What it is for.
        why: &'static str,
    },
    /// A text that the neroman of another build made.
    #[error("the description of the scheduler cannot be read: {0}")]
    Text(String),
}

/// The recipes that have a name.
const NAMED: &[(&str, &str)] = &[
    ("pbs", include_str!("recipes/pbs.json")),
    ("torque", include_str!("recipes/torque.json")),
    ("slurm-torque", include_str!("recipes/slurm-torque.json")),
    ("lsf", include_str!("recipes/lsf.json")),
];

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Variable,
    Number,
    Command(&'static [&'static str]),
    Filled(&'static [&'static str]),
    Lines,
    Pattern,
    Words,
}

/// Names that stand for something in `submit`, and those before `script` in `header`.
const IN_SUBMIT: &[&str] = &[
    "name",
    "short_name",
    "cpus",
    "memory_bytes",
    "memory_kb",
    "memory_mb",
    "time_s",
    "time_minutes",
    "time_hms",
    "gpus",
    "gpu_type",
    "exclusive",
    "partition",
    "queue",
    "account",
    "qos",
    "parallel_env",
    "constraint",
    "output",
    "array",
    "script",
    "user",
];
const IN_LIST: &[&str] = &["user"];
const IN_CANCEL: &[&str] = &["id", "user"];
const IN_RANGE: &[&str] = &["first", "last"];
const IN_AT_ONCE: &[&str] = &["at_once"];
const IN_TASK: &[&str] = &["id", "task"];
const IN_WHOLE: &[&str] = &["id"];

const WORDS: &[(&str, Form)] = &[
    ("name", Form::Text),
    ("submit", Form::Command(IN_SUBMIT)),
    ("id", Form::Pattern),
    ("refused", Form::Pattern),
    ("header", Form::Lines),
    ("job", Form::Variable),
    ("list", Form::Command(IN_LIST)),
    ("row", Form::Pattern),
    ("empty", Form::Pattern),
    ("cancel", Form::Command(IN_CANCEL)),
    ("hold", Form::Command(IN_CANCEL)),
    ("release", Form::Command(IN_CANCEL)),
    ("states.waiting", Form::Words),
    ("states.held", Form::Words),
    ("states.starting", Form::Words),
    ("states.running", Form::Words),
    ("states.suspended", Form::Words),
    ("states.ending", Form::Words),
    ("states.ended", Form::Words),
    ("states.failed", Form::Words),
    ("states.cancelled", Form::Words),
    ("array.range", Form::Filled(IN_RANGE)),
    ("array.at_once", Form::Filled(IN_AT_ONCE)),
    ("array.index", Form::Variable),
    ("array.first", Form::Number),
    ("array.id", Form::Filled(IN_TASK)),
    ("array.whole", Form::Filled(IN_WHOLE)),
    ("array.output", Form::Text),
    ("array.max", Form::Number),
];

/// Longest text of a word, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Most items of a list.
const ITEMS_MAX: usize = 100;
/// Largest pattern once it is compiled, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

impl Recipe {
    /// A recipe by its name.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = NAMED.iter().find(|(known, _)| *known == name)?;
        Some(Self::read(text).expect("a test reads each of them"))
    }

    /// The names of recipes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// The words that a recipe may contain; those of one group have a dot.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(word, _)| *word)
    }

    /// Reads what [`text`](Self::text) returned.
    ///
    /// # Errors
    /// When it is none, or contains a word that cannot be used.
    pub fn read(text: &str) -> Result<Self, RecipeError> {
        let given: BTreeMap<String, WordValue> =
            serde_json::from_str(text).map_err(|error| RecipeError::Text(error.to_string()))?;
        let mut recipe = Self::default();
        for (word, value) in given {
            recipe.set(&word, value)?;
        }
        Ok(recipe)
    }

    /// In one line.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and lists of texts")
    }

    /// Sets a word, in the place of what it was.
    ///
    /// # Errors
    /// When there is no such word, or the value is not valid for it.
    pub fn set(&mut self, word: &str, value: WordValue) -> Result<(), RecipeError> {
        let known = WORDS.iter().find(|(known, _)| *known == word);
        let (_, form) = known.ok_or_else(|| RecipeError::Unknown(word.to_owned()))?;
        check(word, *form, &value)?;
        self.words.insert(word.to_owned(), value);
        Ok(())
    }

    /// Takes a word away, or all words of a group such as `array`.
    pub fn unset(&mut self, word: &str) {
        let is_of_group = |known: &str| known.split_once('.').is_some_and(|(one, _)| one == word);
        self.words
            .retain(|known, _| known != word && !is_of_group(known));
    }

    /// Whether any word of a group such as `array` is set.
    pub(super) fn has_group(&self, group: &str) -> bool {
        let mut words = self.words.keys();
        words.any(|word| word.split_once('.').is_some_and(|(one, _)| one == group))
    }

    pub(super) fn text_of(&self, word: &str) -> Option<&str> {
        match self.words.get(word)? {
            WordValue::Text(text) => Some(text),
            WordValue::List(_) => None,
        }
    }

    pub(super) fn list_of(&self, word: &str) -> Vec<&str> {
        match self.words.get(word) {
            Some(WordValue::List(list)) => list.iter().map(String::as_str).collect(),
            Some(WordValue::Text(text)) => text.lines().collect(),
            None => Vec::new(),
        }
    }

    pub(super) fn number_of(&self, word: &str) -> Option<u32> {
        self.text_of(word)?.parse().ok()
    }

    pub(super) fn pattern_of(&self, word: &'static str) -> Result<Option<Regex>, RecipeError> {
        let text = self.text_of(word);
        text.map(|text| pattern(word, text)).transpose()
    }

    /// The texts of a word with names in braces, in order.
    pub(super) fn templates_of(&self, word: &'static str) -> Result<Vec<Template>, RecipeError> {
        let known = WORDS.iter().find(|(known, _)| *known == word);
        let names = known.and_then(|(_, form)| form.names()).unwrap_or_default();
        let each = self.list_of(word).into_iter();
        each.map(|text| template(word, text, names)).collect()
    }

    pub(super) fn template_of(&self, word: &'static str) -> Result<Option<Template>, RecipeError> {
        Ok(self.templates_of(word)?.into_iter().next())
    }
}

impl Form {
    fn names(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Command(names) | Self::Filled(names) => Some(names),
            Self::Lines => Some(&IN_SUBMIT[..IN_SUBMIT.len() - 2]),
            Self::Text | Self::Variable | Self::Number | Self::Pattern | Self::Words => None,
        }
    }

    fn needs(self) -> &'static str {
        match self {
            Self::Text | Self::Filled(_) => "a text of one line",
            Self::Variable => "the name of a variable, such as PBS_JOBID",
            Self::Number => "a whole number",
            Self::Command(_) => "a list of words, the program first; no shell reads them",
            Self::Lines => "lines of text",
            Self::Pattern => "a regular expression",
            Self::Words => "a list of the scheduler's own words",
        }
    }

    fn fits(self, value: &WordValue) -> bool {
        let is_line = |text: &str| !text.contains(['\n', '\r']);
        match (self, value) {
            (Self::Lines, _) => true,
            (Self::Pattern, WordValue::Text(_)) => true,
            (Self::Command(_), WordValue::List(list)) => {
                list.first().is_some_and(|program| is_program(program))
                    && list.iter().all(|word| is_line(word))
            }
            (Self::Words, WordValue::List(list)) => list.iter().all(|word| is_line(word)),
            (Self::Text | Self::Filled(_) | Self::Words, WordValue::Text(text)) => is_line(text),
            (Self::Variable, WordValue::Text(text)) => is_variable(text),
            (Self::Number, WordValue::Text(text)) => text.parse::<u32>().is_ok(),
            (Self::Command(_), WordValue::Text(_))
            | (
                Self::Text | Self::Filled(_) | Self::Variable | Self::Number | Self::Pattern,
                WordValue::List(_),
            ) => false,
        }
    }
}

/// A name that is looked for, or an absolute path.
fn is_program(text: &str) -> bool {
    let is_name = !text.is_empty() && !text.contains(['/', '{']);
    is_name || text.starts_with('/')
}

fn is_variable(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check(word: &str, form: Form, value: &WordValue) -> Result<(), RecipeError> {
    let texts = match value {
        WordValue::Text(text) => std::slice::from_ref(text),
        WordValue::List(list) => list,
    };
    let is_odd = |text: &String| text.len() > TEXT_BYTES_MAX || text.contains('\0');
    if texts.len() > ITEMS_MAX || texts.iter().any(is_odd) || !form.fits(value) {
        return Err(RecipeError::Form {
            word: word.to_owned(),
            needs: form.needs(),
        });
    }
    for text in texts {
        if form == Form::Pattern {
            pattern(word, text)?;
        }
        if let Some(names) = form.names() {
            template(word, text, names)?;
        }
    }
    Ok(())
}

fn pattern(word: &str, text: &str) -> Result<Regex, RecipeError> {
    let mut builder = RegexBuilder::new(text);
    // As in other patterns of the configuration: `\d` and `\s` are those of ASCII.
    builder.unicode(false).multi_line(true);
    builder.size_limit(PATTERN_BYTES_MAX);
    builder.build().map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        RecipeError::Pattern {
            word: word.to_owned(),
            why: why.trim_start_matches("error: ").to_owned(),
        }
    })
}

fn template(word: &str, text: &str, names: &[&'static str]) -> Result<Template, RecipeError> {
    Template::read(text, names).map_err(|NoSuchName(name)| RecipeError::Name {
        word: word.to_owned(),
        name,
        known: names.join(", "),
    })
}
