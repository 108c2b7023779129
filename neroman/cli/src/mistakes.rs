//! Mistakes in the words of a step, in our form.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::fault::Fault;
use crate::line;
use crate::names;
use crate::steps::Step;

/// clap's message in our form.
pub fn fault(step: &Step, error: &clap::Error) -> Fault {
    let text_of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let odd = text_of(ContextKind::InvalidArg);
    let odd_name = odd.as_deref().map(|word| word.trim_start_matches('-'));
    let not_built = names::NOT_BUILT_OPTIONS
        .iter()
        .find(|(verb, option)| *verb == step.verb && odd_name == Some(*option));
    if let Some((verb, option)) = not_built {
        let dashes = if option.len() == 1 { "-" } else { "--" };
        return Fault::not_built(format!("`{dashes}{option}` of `{verb}`"));
    }
    if let Some(words) = words_after(step.verb)
        && matches!(
            error.kind(),
            ErrorKind::InvalidSubcommand
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        )
    {
        let what = match text_of(ContextKind::InvalidSubcommand) {
            Some(word) => format!("`{} {word}` is no command of neroman", step.verb),
            None => format!("`{}` needs a sub-verb", step.verb),
        };
        return Fault::usage(what).hint(format!("neroman {} {words}", step.verb));
    }
    if is_without_selector(error) {
        let what = format!("`{}` needs the experiments that it is for", step.verb);
        return Fault::usage(what).hint(format!(
            "neroman {0} 124-186, neroman {0} last, neroman {0} all, or what `neroman help \
             selectors` explains",
            step.verb
        ));
    }
    let rendered = error.render().to_string();
    let text = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let what = text
        .split("\n\n")
        .next()
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .unwrap_or_default();
    let near = [ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let near = near.into_iter().find_map(text_of);
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => Some(usage.to_string()),
        _ => None,
    };
    let fault = Fault::usage(what);
    match (near, usage) {
        (Some(near), _) => fault.hint(format!("did you mean `{near}`?")),
        (None, Some(usage)) => fault.hint(usage.replacen("Usage", "usage", 1)),
        (None, None) => fault.hint(help_of(step)),
    }
}

/// Whether the words lack the selector, and nothing else.
fn is_without_selector(error: &clap::Error) -> bool {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.as_slice(),
        _ => &[],
    };
    error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(missing, [only] if only.starts_with("<SEL"))
}

/// The command whose help lists these words.
fn help_of(step: &Step) -> String {
    let line = line::command();
    let of_verb = line.find_subcommand(step.verb).zip(step.words.first());
    let of_verb = of_verb.and_then(|(verb, word)| verb.find_subcommand(word));
    match of_verb {
        Some(word) => format!("neroman {} {} --help", step.verb, word.get_name()),
        None => format!("neroman help {}", step.verb),
    }
}

/// The words that may follow a verb that has verbs of its own, as `list|add|rm`.
fn words_after(verb: &str) -> Option<String> {
    let line = line::command();
    let words = line.find_subcommand(verb)?.get_subcommands();
    let words = words.filter(|word| !word.is_hide_set());
    let words: Vec<&str> = words.map(clap::Command::get_name).collect();
    (!words.is_empty()).then(|| words.join("|"))
}
