//! What clap knows of the command line: its verbs and their options.

use std::sync::LazyLock;

use clap::CommandFactory as _;
use clap::builder::Resettable;

use crate::args::Line;

/// The verbs that `help` lists, with one line each.
pub fn listed() -> Vec<(String, String)> {
    command()
        .get_subcommands()
        .filter(|verb| !["help", "version"].contains(&verb.get_name()))
        .map(|verb| {
            let about = verb.get_about().map(ToString::to_string);
            (verb.get_name().to_owned(), about.unwrap_or_default())
        })
        .collect()
}

/// The verbs as clap knows them, without their options; see [`whole`].
pub fn command() -> &'static clap::Command {
    static COMMAND: LazyLock<clap::Command> = LazyLock::new(Line::command);
    &COMMAND
}

/// A verb with its options, without those that clap adds to every verb.
fn whole(verb: &str) -> Option<clap::Command> {
    let verb = command().find_subcommand(verb)?.clone();
    let mut verb = verb.disable_help_flag(true).disable_help_subcommand(true);
    verb.build();
    Some(verb)
}

/// Whether a word such as `--wait` or `--node=x` is an option of a verb.
pub fn knows(verb: &str, word: &str) -> bool {
    option(verb, word).is_some()
}

/// The verbs that have an option such as `--node=x` and a verb of its name
/// whose next word is another verb.
pub fn owners(word: &str) -> Vec<&'static str> {
    let command = command();
    let name = word.trim_start_matches('-').split('=').next();
    let verb = name.and_then(|name| command.find_subcommand(name));
    if !verb.is_some_and(clap::Command::has_subcommands) {
        return Vec::new();
    }
    let verbs = command.get_subcommands().map(clap::Command::get_name);
    verbs.filter(|verb| knows(verb, word)).collect()
}

/// Whether `second` may stand after this verb, as `add` after `node`.
pub fn has_subverb(verb: &str, second: &str) -> bool {
    let command = command();
    let verb = command.find_subcommand(verb);
    verb.is_some_and(|verb| verb.find_subcommand(second).is_some())
}

/// Where in a step's words an option that stood before all steps belongs; none
/// when the step does not know it.
pub fn place_of(verb: &str, words: &[String], word: &str) -> Option<usize> {
    let verb = whole(verb)?;
    let (verb, at) = match words.first() {
        Some(first) if verb.has_subcommands() => (verb.find_subcommand(first)?, 1),
        _ => (&verb, 0),
    };
    let mut options = verb.get_arguments();
    options.any(|arg| is_called(arg, word)).then_some(at)
}

/// Whether the option takes no value.
pub fn is_switch(verb: &str, word: &str) -> bool {
    option(verb, word).is_some_and(|arg| !arg.get_action().takes_values())
}

pub fn option(verb: &str, word: &str) -> Option<clap::Arg> {
    let verb = whole(verb)?;
    verb.get_arguments()
        .chain(
            verb.get_subcommands()
                .flat_map(clap::Command::get_arguments),
        )
        .find(|arg| is_called(arg, word))
        .cloned()
}

/// Whether an option is the one of a word such as `--node=x` or `-y`.
fn is_called(arg: &clap::Arg, word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        return arg.get_long() == long.split('=').next();
    }
    let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => arg.get_short() == Some(letter),
        _ => false,
    }
}

/// The verbs, one of them with its options.
pub fn line_of(verb: &str) -> clap::Command {
    let line = command().clone();
    match line.find_subcommand(verb) {
        Some(found) if !found.has_subcommands() => line.mut_subcommand(verb, with_options),
        Some(_) | None => line,
    }
}

/// The verbs, each with its options.
pub fn all_with_options() -> clap::Command {
    command().clone().mut_subcommands(|verb| {
        if verb.has_subcommands() {
            verb
        } else {
            with_options(verb)
        }
    })
}

/// A verb that has learned its options. It keeps its text: clap would give it that
/// of the type of its options.
fn with_options(mut verb: clap::Command) -> clap::Command {
    let (about, long) = (verb.get_about().cloned(), verb.get_long_about().cloned());
    verb.build();
    verb.about(Resettable::from(about))
        .long_about(Resettable::from(long))
}
