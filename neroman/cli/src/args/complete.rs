//! Completions that know the nodes: the shell calls this very program, which
//! reads the configuration and nothing else.

use std::ffi::OsStr;

use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use nero_config::{ANY, Config};
use nero_model::Home;

/// The variable by which a shell's script asks for completions.
pub const ASKED_BY: &str = "NERONET_COMPLETE";

/// Answers a shell that asks for completions; false when none does.
pub fn answer() -> bool {
    if std::env::var_os(ASKED_BY).is_none() {
        return false;
    }
    CompleteEnv::with_factory(super::command)
        .var(ASKED_BY)
        .complete();
    true
}

/// The script by which a shell asks.
///
/// # Errors
/// When the library cannot write it.
pub fn script(shell: super::Shell) -> std::io::Result<Vec<u8>> {
    use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
    let completer: &dyn EnvCompleter = match shell {
        super::Shell::Bash => &Bash,
        super::Shell::Zsh => &Zsh,
        super::Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    completer.write_registration(ASKED_BY, "neroman", "neroman", "neroman", &mut script)?;
    Ok(script)
}

/// Completes the name of a node.
pub fn node_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| words(begun, false))
}

/// Completes a node, a group, or `any`.
pub fn target_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| words(begun, true))
}

fn words(begun: &OsStr, groups: bool) -> Vec<CompletionCandidate> {
    // A configuration that cannot be read completes nothing; the verb says why.
    let Some(config) = Home::find()
        .ok()
        .and_then(|home| Config::read(&home.config).ok())
    else {
        return Vec::new();
    };
    let begun = begun.to_string_lossy();
    let nodes = config.nodes.iter().map(|(name, node)| {
        let about = node
            .address
            .clone()
            .unwrap_or_else(|| "this machine".into());
        (name.clone(), about)
    });
    let others = config
        .groups
        .iter()
        .map(|(name, group)| (name.clone(), group.nodes.join(", ")))
        .chain([(ANY.to_owned(), "whichever has most room".to_owned())]);
    let others = others.filter(|_| groups);
    nodes
        .chain(others)
        .filter(|(word, _)| word.starts_with(&*begun))
        .map(|(word, about)| {
            let about = nero_model::safe::Safe::line(&about).to_string();
            CompletionCandidate::new(word).help(Some(about.into()))
        })
        .collect()
}
