//! The reading of a step's words.

use clap::FromArgMatches as _;

use crate::args::{Line, Verb};
use crate::fault::Fault;
use crate::line::line_of;
use crate::mistakes;
use crate::steps::Step;

/// A verb as it was typed.
#[derive(Debug)]
pub struct TypedVerb {
    /// The verb with its options and operands.
    pub verb: Verb,
    /// Whether `--json` was given.
    pub json: bool,
    /// The words that select experiments or runs.
    pub picked: Vec<String>,
}

/// A step that was read.
#[derive(Debug)]
pub enum ParsedStep {
    /// A verb to do.
    Do(Box<TypedVerb>),
    /// Help to print.
    Help(String),
}

/// Reads a step's words.
///
/// # Errors
/// Words that the verb does not take.
pub fn read(step: &Step) -> Result<ParsedStep, Fault> {
    let words = ["neroman", step.verb].into_iter().map(str::to_owned);
    let words = words.chain(step.words.iter().cloned());
    let typed = line_of(step.verb).try_get_matches_from(words);
    match typed.and_then(|matches| typed_of(&matches)) {
        Ok(typed) => Ok(ParsedStep::Do(Box::new(typed))),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {
            Ok(ParsedStep::Help(error.render().to_string()))
        }
        Err(error) => Err(mistakes::fault(step, &error)),
    }
}

/// Reads what verbs have in common by the names of their options.
fn typed_of(matches: &clap::ArgMatches) -> Result<TypedVerb, clap::Error> {
    let mut verb = matches;
    while let Some((_, part)) = verb.subcommand() {
        verb = part;
    }
    let json = verb.try_get_one::<bool>("json").ok().flatten();
    let picked = verb.try_get_many::<String>("picked").ok().flatten();
    Ok(TypedVerb {
        json: json.is_some_and(|json| *json),
        picked: picked.into_iter().flatten().cloned().collect(),
        verb: Line::from_arg_matches(matches)?.verb,
    })
}
