//! A command as it is typed, in a `neronet.yaml`.

use serde_json::Value;

/// A `neronet.yaml` with comments for a command, whose places are its parameters.
pub fn template(name: &str, command: &[String]) -> String {
    let mut places = Vec::new();
    let words: Vec<String> = command
        .iter()
        .map(|word| shell_word(&with_places(word, &mut places)))
        .collect();
    let mut text = String::from(HEAD);
    text.push_str(&format!("{}:\n", scalar(&format!("+{name}"))));
    text.push_str(&format!("  command: {}\n", scalar(&words.join(" "))));
    if places.is_empty() {
        text.push_str(
            "  # parameters: {x: [1, 2, 3], y: 2}   # {x} and {y} are places in the command\n",
        );
    } else {
        text.push_str("  parameters:                # a list makes one experiment of each value\n");
        for place in places {
            text.push_str(&format!("    {}: 1\n", scalar(&place)));
        }
    }
    text.push_str(TAIL);
    text
}

const HEAD: &str = "\
# Experiments for neronet: `neroman add .` registers them, `neroman start all` starts them.
# Lines without a # in front are in force. More: neroman help format

# collection: digits         # unless given: the name of this folder
";

const TAIL: &str = "  \
  # parameters_style: flags  # --x 1 --y 2; what has no place in the command
  # resources: {cpus: 1, memory: 2G, time: 2h}
  # env: {OMP_NUM_THREADS: 1}
  # python: conda:myenv      # venv:PATH, uv, system
  # outputs: [stdout, 'model*.pt']   # unless given: whatever the program makes
  # rules:
  #   - abort: loss > 20
  #   - warn: runtime > 1h
";

/// A word in which each brace is doubled that belongs to no place: `{name}` or `{name:format}`.
/// What stands in `{{…}}` is doubled already. Adds the names of its places, each once.
pub fn with_places(word: &str, names: &mut Vec<String>) -> String {
    let mut written = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, braces) = rest.split_at(at);
        written.push_str(before);
        let (taken, behind) = match (doubled(braces), place(braces)) {
            (Some(end), _) => braces.split_at(end),
            (None, Some((name, end))) => {
                if names.iter().all(|known| known != name) {
                    names.push(name.to_owned());
                }
                braces.split_at(end)
            }
            (None, None) => {
                written.push_str(&braces[..1]);
                braces.split_at(1)
            }
        };
        written.push_str(taken);
        rest = behind;
    }
    written + rest
}

/// Where `{{…}}` ends at the begin of a text.
fn doubled(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("{{")?;
    let end = inside.find(['{', '}'])?;
    inside[end..].starts_with("}}").then_some(2 + end + 2)
}

/// The name of the place at the begin of a text, and where the place ends.
fn place(text: &str) -> Option<(&str, usize)> {
    let inside = text.strip_prefix('{')?;
    let end = inside.find(['{', '}'])?;
    if !inside[end..].starts_with('}') {
        return None;
    }
    let name = inside[..end].split(':').next().unwrap_or("");
    let is_name = name
        .chars()
        .all(|c| c.is_alphanumeric() || "_-.".contains(c));
    // The format has no places with a number alone.
    let has_letter = name.contains(|c: char| c.is_alphabetic() || c == '_');
    (is_name && has_letter).then_some((name, 1 + end + 1))
}

/// A word as a shell line has it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%{}[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A text as a value of YAML.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+ {}=".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || "/.+".contains(c));
    let is_word = ["true", "false", "yes", "no", "on", "off", "null"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(text));
    if begins && !is_word && !text.ends_with(' ') && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, command: &[&str]) -> String {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        template(name, &command)
    }

    #[test]
    fn places_of_the_command_are_parameters() {
        let text = made(
            "fit",
            &[
                "python3", "a b.py", "--lr", "{lr}", "{n:03d}", "{lr}", "{{}}",
            ],
        );
        assert!(
            text.contains("+fit:\n  command: \"python3 'a b.py' --lr {lr} {n:03d} {lr} {{}}\"\n"),
            "{text}"
        );
        assert!(text.contains("\n    lr: 1\n    n: 1\n  #"), "{text}");
        let text = made(
            "fit",
            &["awk", "{print $1}", "{}", "{\"a\": {\"b\": 1}}", "{1}"],
        );
        let command = "awk '{{print $1}}' {{}} '{{\\\"a\\\": {{\\\"b\\\": 1}}}}' {{1}}";
        assert!(
            text.contains(&format!("\n  command: \"{command}\"\n  # parameters:")),
            "{text}"
        );
        let text = made("fit", &["./solve"]);
        assert!(
            text.contains("\n  command: ./solve\n  # parameters:"),
            "{text}"
        );
    }
}
