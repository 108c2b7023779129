//! `import SOURCE`: writes what another system reads in the words of `neronet.yaml`. `nero-noodles` and
//! `nero-mlframework` make the text; what has no counterpart there is a comment in the file and a
//! warning. Answered without a daemon.

mod mlframework;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use nero_format::ImportedText;
use nero_model::safe::Safe;
use nero_noodles::imported;

use crate::args::Import;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;
use crate::verb::change::template::check_beside;
use crate::verb::noodles::{contents, spec_target, understood};

/// The file that experiments are described in.
const OUTPUT: &str = "neronet.yaml";

pub fn run(out: &VerbOutput, args: &Import) -> Result<u8, Stop> {
    let folder = Path::new(&args.source);
    if folder.is_dir() {
        return project(out, args, folder);
    }
    save(out, args.output.as_deref().unwrap_or(OUTPUT), &spec(args)?)
}

/// A spec in our words.
fn spec(args: &Import) -> Result<ImportedText, Fault> {
    let command_type = args.command_type.as_deref().unwrap_or("run");
    let (path, only) = spec_target(&args.source)?;
    let spec = understood(path, &contents(path)?, command_type, only.as_deref())?;
    let folder = std::env::current_dir();
    let folder = folder.map_or_else(|_| "~".to_owned(), |folder| folder.display().to_string());
    let typist = std::env::var("USER").ok();
    Ok(imported(
        &spec,
        command_type,
        path,
        &folder,
        typist.as_deref(),
    ))
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
