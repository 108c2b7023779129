//! The file of `write_status_to`.

use nero_format::python::{Object, Plain, float_text, resolve};

/// What the file says.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusFile<'a> {
    /// The command type.
    pub command_type: &'a str,
    /// The spec as it was typed, without names.
    pub spec_path: &'a str,
    /// When the flow began, as Python's `isoformat` writes local time.
    pub started: &'a str,
    /// When the round before this one ended.
    pub previous_round: &'a str,
    /// Seconds since the flow began.
    pub elapsed_s: f64,
    /// The stage.
    pub stage: &'a str,
    /// The round, from one.
    pub round: usize,
    /// Names of experiments that are deployed.
    pub deployed: &'a [&'a str],
    /// Names of those that are not.
    pub undeployed: &'a [&'a str],
}

impl StatusFile<'_> {
    /// The ten keys of the original, in the order in which it writes them.
    pub fn yaml(&self) -> String {
        let list = |names: &[&str]| {
            if names.is_empty() {
                " []\n".to_owned()
            } else {
                let lines = names.iter().map(|name| format!("- {}\n", scalar(name)));
                format!("\n{}", lines.collect::<String>())
            }
        };
        let for_command = self.undeployed.join(",");
        format!(
            "Command type: {}\nUser spec path: {}\nStart time: {}\nPrevious round time: {}\n\
             Elapsed time (s): {}\nStage: {}\n'Round #': {}\nDeployed experiments:{}\
             Undeployed experiments:{}Undeployed experiments (For command): {}\n",
            scalar(self.command_type),
            scalar(self.spec_path),
            scalar(self.started),
            scalar(self.previous_round),
            float_text(self.elapsed_s),
            scalar(self.stage),
            self.round,
            list(self.deployed),
            list(self.undeployed),
            scalar(&for_command),
        )
    }
}

/// Text that every YAML reader reads back as this text.
fn scalar(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./ ,".contains(c);
    let begins = |c: char| c.is_ascii_alphabetic() || c == '/';
    let reads_as_text = matches!(resolve(text), Plain::Read(Object::Text(_)));
    let is_plain = text.starts_with(begins)
        && !text.ends_with(' ')
        && text.chars().all(is_word)
        && reads_as_text;
    if is_plain {
        return text.to_owned();
    }
    if text.chars().any(char::is_control) {
        let mut quoted = String::from("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        return quoted;
    }
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_whatever_they_look_like() {
        for (text, written) in [
            ("train", "train"),
            ("Exp 1", "Exp 1"),
            ("yes", "'yes'"),
            ("012", "'012'"),
            ("", "''"),
            ("a: b", "'a: b'"),
            ("it's", "'it''s'"),
            ("a\nb", "\"a\\nb\""),
        ] {
            assert_eq!(scalar(text), written);
        }
    }
}
