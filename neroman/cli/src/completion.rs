//! Completions: the shell calls this very program.

use std::ffi::OsStr;

use clap_complete::CompleteEnv;
use clap_complete::engine::ArgValueCompleter;

use crate::args::{Shell, fitting};
use crate::line::all_with_options;
use crate::verb::help;

/// The variable by which a shell's script asks for completions.
pub const ASKED_BY: &str = "NERONET_COMPLETE";

/// Answers a shell that asks for completions; false when none does.
pub fn answer() -> bool {
    if std::env::var_os(ASKED_BY).is_none() {
        return false;
    }
    CompleteEnv::with_factory(whole_line)
        .var(ASKED_BY)
        .complete();
    true
}

/// The script by which a shell asks.
///
/// # Errors
/// When the library cannot write it.
pub fn script(shell: Shell) -> std::io::Result<Vec<u8>> {
    use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    completer.write_registration(ASKED_BY, "neroman", "neroman", "neroman", &mut script)?;
    match shell {
        Shell::Zsh => Ok(unquoted(&String::from_utf8_lossy(&script)).into_bytes()),
        Shell::Bash | Shell::Fish => Ok(script),
    }
}

/// The script for zsh, which hands words over without their quotes: zsh compares answers with
/// what stands behind an opening quote, and none begins with that quote.
fn unquoted(script: &str) -> String {
    const FIRST: &str = "    local _CLAP_IFS=$'\\n'\n";
    const WORDS: &str = r#""${words[@]}""#;
    let typed = r#"    local typed="${(Q)PREFIX}"
    [[ -n "$QIPREFIX" ]] && typed="$PREFIX"
"#;
    let words = r#""${(@Q)words[1,CURRENT-1]}" "$typed""#;
    script
        .replacen(FIRST, &format!("{FIRST}{typed}"), 1)
        .replacen(WORDS, words, 1)
}

/// The verbs with their options, and the words that `help` explains.
fn whole_line() -> clap::Command {
    let help_words = ArgValueCompleter::new(|begun: &OsStr| fitting(begun, help::words()));
    all_with_options().mut_subcommand("help", |help| {
        help.mut_arg("topic", |word| word.add(help_words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zsh_hands_words_over_without_their_quotes() {
        let script = script(Shell::Zsh).unwrap();
        let script = String::from_utf8(script).unwrap();
        let typed = script.find("local typed=").unwrap();
        let asked = script.find(r#"CURRENT-1]}" "$typed" 2>/dev/null"#).unwrap();
        assert!(typed < asked, "{script}");
        assert!(!script.contains("${words[@]}"), "{script}");
    }
}
