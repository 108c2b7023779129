//! `template NAME CMD…`: writes a `neronet.yaml` with comments. Answered without a daemon.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use nero_format::template;

use crate::args::Template;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;

const FILE: &str = "neronet.yaml";

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
    let text = template(name, &args.command);
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

#[cfg(test)]
mod tests {
    use super::*;

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
