//! The format from outside: folders in, definitions or reports out.

mod batch;
mod beneath;
mod combining;
mod edits;
mod errors;
mod handing;
mod limits;
mod native;
mod original;
mod people;
mod placing;
mod precedence;
mod processing;
mod properties;
mod resources;
mod retries;
mod rows;
mod rules;
mod schema;
mod slips;
mod steps;
mod tables;

use nero_format::{Defaults, Definition, LoadedSource, Value, read_source_in};
use std::path::{Path, PathBuf};

/// A folder that goes away with the test.
pub(crate) struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    /// An experiment folder `lab` with a main file and some data.
    pub(crate) fn new() -> Self {
        let folder = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        };
        for file in ["main.py", "data/1.txt", "run.sh"] {
            folder.write(file, b"");
        }
        folder
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("lab")
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below lab")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    /// Reads the folder.
    pub(crate) fn read(&self) -> Result<LoadedSource, String> {
        self.read_path(&self.path())
    }

    /// The `defaults` of a `home.yaml` above the folder.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults::read(&self.dir.path().join("home.yaml")).expect("defaults")
    }

    /// Reads a path; a report names the temporary folder `DIR`.
    pub(crate) fn read_path(&self, path: &Path) -> Result<LoadedSource, String> {
        let context = nero_expr::ParseContext::utc(1_795_000_000_000);
        read_source_in(path, &context, &self.defaults()).map_err(|errors| {
            let dir = self.dir.path().to_str().expect("UTF-8");
            errors.to_string().replace(dir, "DIR")
        })
    }
}

/// Reads a text as `config.yaml`.
pub(crate) fn read(yaml: &str) -> Result<LoadedSource, String> {
    let folder = Folder::new();
    folder.write("config.yaml", yaml.as_bytes());
    folder.read()
}

/// Reads a text that has no mistake.
pub(crate) fn load(yaml: &str) -> LoadedSource {
    read(yaml).unwrap_or_else(|report| panic!("{report}"))
}

/// Reads a text that has one.
pub(crate) fn report(yaml: &str) -> String {
    match read(yaml) {
        Ok(loaded) => panic!("no mistake was found: {loaded:#?}"),
        Err(report) => report,
    }
}

pub(crate) fn names(loaded: &LoadedSource) -> Vec<&str> {
    loaded.definitions.iter().map(|d| d.name.as_str()).collect()
}

pub(crate) fn named<'a>(loaded: &'a LoadedSource, name: &str) -> &'a Definition {
    let found = loaded.definitions.iter().find(|d| d.name == name);
    found.unwrap_or_else(|| panic!("no {name} among {:?}", names(loaded)))
}

/// All argument lists, one line each.
pub(crate) fn commands(loaded: &LoadedSource) -> Vec<String> {
    loaded
        .definitions
        .iter()
        .map(|d| d.argv.join("|"))
        .collect()
}

/// The texts of a parameter over all definitions.
pub(crate) fn texts<'a>(loaded: &'a LoadedSource, name: &str) -> Vec<&'a str> {
    let of = |d: &'a Definition| d.params.iter().find(|p| p.name == name);
    let found = loaded.definitions.iter().filter_map(of);
    found.map(|p| p.text.as_str()).collect()
}

pub(crate) fn value<'a>(definition: &'a Definition, name: &str) -> &'a Value {
    let found = definition.params.iter().find(|p| p.name == name);
    &found.unwrap_or_else(|| panic!("no parameter {name}")).value
}
