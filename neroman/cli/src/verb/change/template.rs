//! `template NAME CMD…`: writes a `neronet.yaml` with comments. Answered without a daemon.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::Value;

use crate::args::Template;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;

const FILE: &str = "neronet.yaml";

/// Runs the verb.
pub fn run(out: &VerbOutput, args: &Template) -> Result<u8, Stop> {
    if args.schema {
        let schema = serde_json::to_string_pretty(&nero_format::schema());
        let schema = schema.expect("a schema has string keys only");
        out.raw(format!("{schema}\n").as_bytes())?;
        return Ok(code::OK);
    }
    let name = args.name.as_deref().unwrap_or_default();
    if name.is_empty() || name.contains(|c: char| c.is_control() || c == '+') {
        let what = "this is no name for an experiment";
        return Err(Fault::new(code::USAGE, what).hint("for example fit").into());
    }
    let text = text(name, &args.command);
    if args.dry_run {
        out.raw(text.as_bytes())?;
        return Ok(code::OK);
    }
    check_beside(Path::new(FILE))?;
    if fs::exists("config.yaml").unwrap_or(false) {
        out.note(&format!("note: {FILE} is read in place of config.yaml"));
    }
    let made = fs::File::create_new(FILE).and_then(|mut file| file.write_all(text.as_bytes()));
    match made {
        Ok(()) => {
            out.raw(format!("wrote {FILE}; edit it, then: neroman add .\n").as_bytes())?;
            Ok(code::OK)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let fault = Fault::failed(format!("{FILE} is there already"));
            Err(fault.hint("`--dry-run` prints the text").into())
        }
        Err(error) => Err(Fault::failed(format!("cannot write {FILE}"))
            .because(&error)
            .into()),
    }
}

/// Refuses a `neronet.yaml` beside a `config.yaml` with experiments, which would not be read any
/// more.
pub fn check_beside(path: &Path) -> Result<(), Fault> {
    let config = path.with_file_name("config.yaml");
    let is_read = path.file_name().is_some_and(|name| name == FILE);
    if !is_read || nero_format::read_source(&config, &nero_format::Defaults::default()).is_err() {
        return Ok(());
    }
    let what = format!("{FILE} would be read in place of {}", config.display());
    let fault = Fault::failed(what).cause("that has experiments, which would be gone");
    Err(fault.hint("add a block to config.yaml, or work in another folder"))
}

/// The file. Places of the command are its parameters.
fn text(name: &str, command: &[String]) -> String {
    let mut places = Vec::new();
    let words: Vec<String> = command
        .iter()
        .map(|word| quoted(&with_places(word, &mut places)))
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
pub fn quoted(word: &str) -> String {
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
        text(name, &command)
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
    #[test]
    fn experiments_of_a_config_yaml_are_not_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let of = |text: &str| fs::write(folder.path().join("config.yaml"), text).unwrap();
        assert_eq!(check_beside(&file), Ok(()));
        // One of another program is not ours to keep.
        of("model: {layers: 3}\nlr: 0.1\n");
        assert_eq!(check_beside(&file), Ok(()));
        of("collection: c\n+fit: {command: fit}\n");
        let text = check_beside(&file).unwrap_err().text();
        assert!(text.contains("would be read in place of"), "{text}");
        assert_eq!(check_beside(&folder.path().join("other.yaml")), Ok(()));
    }
}
