//! `import SOURCE`: writes what another system reads in the words of `neronet.yaml`. What has no
//! counterpart there is a comment in the file and a warning. Answered without a daemon.

mod mlframework;
mod noodles;

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use nero_model::safe::Safe;
use serde_json::Value;

use crate::args::Import;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;
use crate::verb::change::template::check_beside;

/// A file of ours, and what of its source is not in it.
#[derive(Default)]
struct ImportedText {
    text: String,
    warnings: Vec<String>,
}

impl ImportedText {
    /// Reports what has no counterpart, in a comment and in a warning.
    fn lost(&mut self, what: String) {
        let _ = writeln!(self.text, "# not imported: {}", Safe::line(&what));
        self.warnings.push(what);
    }
}

/// The file that experiments are described in.
const OUTPUT: &str = "neronet.yaml";

/// Runs the verb.
pub fn run(out: &VerbOutput, args: &Import) -> Result<u8, Stop> {
    let folder = Path::new(&args.source);
    if folder.is_dir() {
        return project(out, args, folder);
    }
    let imported = noodles::read(args)?;
    save(out, args.output.as_deref().unwrap_or(OUTPUT), &imported)
}

/// Imports a project of mlframework. Its commands begin in the folder of the file that is written.
fn project(out: &VerbOutput, args: &Import, folder: &Path) -> Result<u8, Stop> {
    if args.command_type.is_some() {
        return Err(Fault::usage("--type is for the commands of a spec").into());
    }
    let project = mlframework::Project::find(folder)?;
    let framework = &project.framework;
    let is_there = |folder: &Path| fs::canonicalize(folder).is_ok_and(|one| one == *framework);
    let output = match &args.output {
        None if is_there(Path::new(".")) => OUTPUT.to_owned(),
        None => framework.join(OUTPUT).display().to_string(),
        Some(output) => {
            let folder = Path::new(output).parent();
            let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
            if output != "-" && !is_there(folder.unwrap_or(Path::new("."))) {
                let what = format!("{output} does not lie in {}", framework.display());
                let fault = Fault::usage(what)
                    .cause("the commands of the project begin in that folder")
                    .hint("leave -o out, or name a file there");
                return Err(fault.into());
            }
            output.clone()
        }
    };
    save(out, &output, &project.imported()?)
}

/// Writes the file, which must not be there yet; `-` prints it.
fn save(out: &VerbOutput, path: &str, imported: &ImportedText) -> Result<u8, Stop> {
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
    check_beside(Path::new(path))?;
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
            let fault = Fault::failed(format!("cannot write {path}"));
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
