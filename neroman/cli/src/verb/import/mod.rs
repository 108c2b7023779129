//! `import SOURCE`: writes what another system reads in the words of `neronet.yaml`. What has no
//! counterpart there is a comment in the file and a warning. Answered without a daemon.

mod noodles;

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};

use nero_model::safe::Safe;
use serde_json::Value;

use crate::args::Import;
use crate::fault::{Fault, Stop, code};
use crate::say::Out;

/// A file of ours, and what of its source is not in it.
struct ImportedText {
    text: String,
    warnings: Vec<String>,
}

/// Runs the verb.
pub fn run(out: &Out, args: &Import) -> Result<u8, Stop> {
    let imported = noodles::read(args)?;
    save(out, &args.output, &imported)
}

/// Writes the file, which must not be there yet; `-` prints it.
fn save(out: &Out, path: &str, imported: &ImportedText) -> Result<u8, Stop> {
    let ImportedText { text, warnings } = imported;
    let warn = || {
        for warning in warnings {
            out.note(&format!("warning: not imported: {}", Safe::line(warning)));
        }
    };
    if path == "-" {
        warn();
        out.raw(text.as_bytes())?;
        return Ok(code::OK);
    }
    let made = fs::File::create_new(path);
    match made.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => {
            warn();
            let file = Safe::line(path);
            let next = format!("wrote {file}; look at it, then: neroman add {file}\n");
            out.raw(next.as_bytes())?;
            Ok(code::OK)
        }
        Err(error) => {
            let is_there = error.kind() == ErrorKind::AlreadyExists;
            let fault = Fault::new(code::FAILED, format!("cannot write {path}"));
            Err(if is_there {
                fault.cause("it is there already").hint("`-o -` prints it")
            } else {
                fault.because(&error)
            }
            .into())
        }
    }
}

/// A text as one word of a shell.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text as a value of YAML.
fn scalar(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A text of several lines, as it is where YAML lets it be.
fn put_block(text: &mut String, key: &str, lines: &str) {
    let is_plain = |c: char| c == '\n' || !c.is_control();
    if !lines.chars().all(is_plain) {
        let _ = writeln!(text, "{key}{}", scalar(lines));
        return;
    }
    let indent = key.len() - key.trim_start().len() + 4;
    let _ = writeln!(text, "{key}|");
    for line in lines.lines() {
        let indent = if line.is_empty() { 0 } else { indent };
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}
