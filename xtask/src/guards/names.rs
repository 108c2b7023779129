//! Names that tell what a thing does or answers, and not what it is.

use super::functions::functions;
use super::source::File;

/// Words of this form that are nouns of the field.
const NOUNS: &[&str] = &[
    "Feed", "Heading", "Listing", "Mapping", "Padding", "Pairing", "Ring", "Seed", "Setting",
    "Sibling", "Speed", "Spring", "Staging", "String", "Timing", "Warning",
];

/// Verbs, pronouns and question words that types were called by.
const WORDS: &[&str] = &[
    "Across",
    "Again",
    "Alike",
    "Because",
    "Before",
    "Began",
    "Begun",
    "Beneath",
    "Best",
    "Came",
    "Comes",
    "Done",
    "Due",
    "Each",
    "Either",
    "Everything",
    "Far",
    "Found",
    "Frozen",
    "Given",
    "Gone",
    "Heard",
    "Held",
    "Here",
    "How",
    "In",
    "Is",
    "Keep",
    "Kept",
    "Known",
    "Late",
    "Leads",
    "Leaves",
    "Left",
    "Lies",
    "Lives",
    "Made",
    "May",
    "No",
    "Now",
    "Off",
    "Ours",
    "Out",
    "Outside",
    "Over",
    "Own",
    "Ran",
    "Read",
    "Said",
    "Same",
    "Seen",
    "Sent",
    "Shown",
    "Since",
    "Stays",
    "Stood",
    "Stuck",
    "Swept",
    "Taken",
    "Takes",
    "There",
    "Told",
    "Until",
    "Waits",
    "Went",
    "What",
    "Which",
    "Who",
    "Whose",
    "Why",
    "Woken",
    "Written",
];

/// Names of functions that tell nothing of what they return.
const FUNCTIONS: &[&str] = &["look", "one", "shown", "told", "word"];

/// Types with such a name: `PATH:LINE NAME`.
pub fn types(file: &File) -> Vec<String> {
    let lines = file.code.lines().enumerate();
    let found = lines.filter_map(|(at, line)| {
        let name = type_name(line)?;
        is_odd(name).then(|| format!("{}:{} {name}", file.path, at + 1))
    });
    found.collect()
}

/// Functions with such a name.
pub fn of_functions(file: &File) -> Vec<String> {
    let all = functions(file).into_iter();
    let names = all.filter_map(|function| {
        let (_, name) = function.place.rsplit_once(' ')?;
        FUNCTIONS.contains(&name).then(|| function.place.clone())
    });
    names.collect()
}

/// Arms of a `match` over a truth, for which there is `if`.
pub fn matched_truths(file: &File) -> Vec<String> {
    let lines = file.code.lines().enumerate();
    let found = lines.filter(|(_, line)| line.trim_start().starts_with("true => "));
    found
        .map(|(at, _)| format!("{}:{}", file.path, at + 1))
        .collect()
}

fn is_odd(name: &str) -> bool {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    let is_participle = name.len() > 4 && (name.ends_with("ed") || name.ends_with("ing"));
    is_one_word && !NOUNS.contains(&name) && (is_participle || WORDS.contains(&name))
}

/// The name of a type that is defined in this line.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&kind) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participles_and_question_words_are_no_names() {
        let odd = |line: &str| type_name(line).is_some_and(is_odd);
        for line in [
            "pub struct Stood {",
            "    pub(super) enum Which {",
            "type Came = (u8, u8);",
            "struct Listed<'a> {",
            "pub(in crate::agent) struct Answered {",
        ] {
            assert!(odd(line), "{line}");
        }
        for line in [
            "struct Setting;",
            "pub enum Warning {",
            "struct ListedJob;",
            "fn which() {",
            "enum Kind {",
        ] {
            assert!(!odd(line), "{line}");
        }
    }
}
