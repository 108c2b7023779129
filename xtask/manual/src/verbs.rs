//! The verbs and their options, as clap knows them.

use clap::{Arg, Command};

use crate::{Chapter, table, typed};

const INTRODUCTION: &str = "\
Each verb works as a flag, too: `neroman --start all` is `neroman start all`.
`neroman help VERB` prints the same with examples.

";

/// `verbs.md`.
pub fn page() -> Chapter {
    let mut body = INTRODUCTION.to_owned();
    let command = nero_cli::command();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        body += &section(verb, "");
    }
    Chapter::new("verbs.md", "Verbs and options", &body)
}

/// A verb with its operands and options; then the verbs below it.
fn section(verb: &Command, outer: &str) -> String {
    let mut verb = verb.clone().disable_help_flag(true);
    verb.build();
    let name = format!("{outer}{}", verb.get_name());
    let about = verb
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let level = if outer.is_empty() { "##" } else { "###" };
    let mut text = format!("{level} {name}\n\n{about}.\n\n");
    let aliases: Vec<String> = verb.get_all_aliases().map(typed).collect();
    if !aliases.is_empty() {
        text += &format!("Also: {}.\n\n", aliases.join(", "));
    }
    let below = verb.get_subcommands();
    let below: Vec<&Command> = below.filter(|one| one.get_name() != "help").collect();
    if below.is_empty() {
        text += &rows(&verb);
    }
    let below = below.into_iter();
    let below = below.map(|one| section(one, &format!("{name} ")));
    text + &below.collect::<String>()
}

/// The operands and options of a verb.
fn rows(verb: &Command) -> String {
    let args = verb.get_arguments();
    let args = args.filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let rows: Vec<[String; 2]> = args
        .map(|arg| {
            let about = arg.get_help().map(ToString::to_string);
            [typed(&shown(arg)), about.unwrap_or_default()]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    table(["written", "means"], rows) + "\n"
}

/// `-n, --lines N`, or the operand.
fn shown(arg: &Arg) -> String {
    let short = arg.get_short().filter(|_| arg.get_long().is_some());
    let short = short.map(|letter| format!("-{letter}, "));
    let usage = arg.to_string().replace(['<', '>', '[', ']'], "");
    short.unwrap_or_default() + &usage.replace("...", "…")
}
