//! Commands in groups, and the scripts that shells read.

use crate::NoodlesSpec;

/// Commands in a row that run at the same place: one shell reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandGroup {
    /// Whether they run on the caller's machine, whatever the server.
    pub local: bool,
    /// The commands without their prefix.
    pub commands: Vec<String>,
}

/// A prefix that is none: `echo:foo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScheme(pub String);

/// Groups commands by their prefixes.
///
/// # Errors
/// A prefix other than `local:` and `remote:`.
pub fn group<'c>(
    commands: impl IntoIterator<Item = &'c str>,
) -> Result<Vec<CommandGroup>, UnknownScheme> {
    let mut groups: Vec<CommandGroup> = Vec::new();
    for command in commands {
        let (scheme, command) = split_scheme(command);
        let local = match scheme {
            Some("local") => true,
            Some("remote") | None => false,
            Some(other) => return Err(UnknownScheme(other.to_owned())),
        };
        match groups.last_mut() {
            Some(group) if group.local == local => group.commands.push(command.to_owned()),
            _ => groups.push(CommandGroup {
                local,
                commands: vec![command.to_owned()],
            }),
        }
    }
    Ok(groups)
}

/// Splits `word:rest`. What stands before the colon is a prefix if it is one word:
/// `scp a:b` has none.
pub fn split_scheme(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((scheme, rest))
            if !scheme.is_empty() && scheme.chars().all(|c| c.is_alphanumeric() || c == '_') =>
        {
            (Some(scheme), rest)
        }
        _ => (None, text),
    }
}

/// The script of a group. Variables of the experiment are expanded where the script runs; `exact`
/// ones have their exact text, and take the place of one of the same name.
pub fn script(env: &[(String, String)], exact: &[(&str, String)], commands: &[String]) -> String {
    let mut lines = Vec::with_capacity(env.len() + exact.len() + commands.len());
    let exactly = |name: &str| exact.iter().find(|(known, _)| *known == name);
    for (name, value) in env {
        lines.push(match exactly(name) {
            Some((name, value)) => export_exact(name, value),
            None => export(name, value),
        });
    }
    for (name, value) in exact {
        if !env.iter().any(|(known, _)| known == name) {
            lines.push(export_exact(name, value));
        }
    }
    lines.extend_from_slice(commands);
    lines.join("\n")
}

/// The original's line: only double quotes are escaped.
fn export(name: &str, value: &str) -> String {
    format!("export {name}=\"{}\"", value.replace('"', "\\\""))
}

/// The original's line where a shell reads it as the exact text, else one with quotes that hold.
fn export_exact(name: &str, value: &str) -> String {
    if value.contains(['$', '`', '\\', '"']) {
        format!("export {name}='{}'", value.replace('\'', "'\\''"))
    } else {
        export(name, value)
    }
}

/// The text that the shell of a group reads. A shell of the usual kind is made to read all of it
/// before it runs any: a command that reads standard input does not swallow the rest. Bash evaluates
/// it, command by command with the line numbers that it would have; others would put `eval` into
/// each of their messages, and have no quotes that hold a line break without one.
pub fn whole_script(spec: &NoodlesSpec, script: &str) -> String {
    let shell = spec.shell_stdin.split_whitespace().next();
    let shell = shell.unwrap_or_default();
    let shell = shell.rsplit('/').next().unwrap_or_default();
    if script.ends_with('\\') {
        return script.to_owned();
    }
    // What is evaluated is traced with one sign more.
    if shell == "bash" && !is_traced(script) {
        let mut line = String::from("eval $'");
        for c in script.chars() {
            match c {
                '\n' => line.push_str("\\n"),
                '\\' | '\'' => line.extend(['\\', c]),
                _ => line.push(c),
            }
        }
        return line + "' </dev/null\n";
    }
    let is_usual = ["bash", "sh", "dash", "zsh", "ksh"].contains(&shell);
    // These would take the closing brace as theirs, or change how the lines behind them are read.
    let words = ["<<", "shopt", "alias", "set -o"];
    let is_open = words.iter().any(|word| script.contains(word));
    if is_usual && !is_open {
        format!("{{ :; {script}\n}} </dev/null\n")
    } else {
        script.to_owned()
    }
}

/// Whether a script may have its shell print each command.
fn is_traced(script: &str) -> bool {
    let mut parts = script.split("set -").skip(1);
    let options = |part: &str| {
        part.split([';', '\n'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    parts.any(|part| options(part).contains('x'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_row_with_one_prefix_are_one_group() {
        let commands = [
            "cd ~",
            "remote:ls",
            "local:scp a b:c",
            "local: x",
            "PATH=x:y z",
        ];
        let groups = group(commands).expect("the prefixes are known");
        let told: Vec<_> = groups
            .iter()
            .map(|g| (g.local, g.commands.join("; ")))
            .collect();
        let expected = [
            (false, "cd ~; ls"),
            (true, "scp a b:c;  x"),
            (false, "PATH=x:y z"),
        ];
        assert_eq!(told, expected.map(|(local, text)| (local, text.to_owned())));
        assert_eq!(group(["echo:foo"]), Err(UnknownScheme("echo".to_owned())));
    }

    #[test]
    fn names_of_experiments_and_servers_are_no_program() {
        let env = [("A", "x \"$HOME\""), ("NOODLES_SERVER_NAME", "mine")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let exact = [
            ("NOODLES_EXPERIMENT_NAME", "it's `rm`".to_owned()),
            ("NOODLES_SERVER_NAME", "s1".to_owned()),
        ];
        let script = script(&env, &exact, &["true".to_owned()]);
        let lines = [
            "export A=\"x \\\"$HOME\\\"\"",
            "export NOODLES_SERVER_NAME=\"s1\"",
            "export NOODLES_EXPERIMENT_NAME='it'\\''s `rm`'",
            "true",
        ];
        assert_eq!(script, lines.join("\n"));
    }
}
