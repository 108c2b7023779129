//! The licences of every crate that the programs are linked with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::at;
use crate::portable::Arch;
use crate::steps::{PROGRAMS, Steps};

/// Beginnings of the names of files that hold a licence, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// One text of all licences, each once, below the names of the crates that have it.
pub fn collected(steps: &Steps) -> Result<String, String> {
    let linked = linked(steps)?;
    let places = places(steps)?;
    let mut crates_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut listed = String::new();
    for (name, terms) in &linked {
        listed.push_str(&format!("{name}: {terms}\n"));
        let Some(folder) = places.get(name) else {
            continue;
        };
        for text in texts(folder)? {
            crates_of.entry(text).or_default().insert(name);
        }
    }
    let mut all = format!("Neronet's programs contain these crates.\n\n{listed}");
    for (text, crates) in crates_of {
        let names: Vec<&str> = crates.into_iter().collect();
        all.push_str(&format!("\n{:=<72}\n{}\n\n{text}\n", "", names.join(", ")));
    }
    Ok(all)
}

/// The crates of others in the programs, as `NAME VERSION`, with the terms that they name.
fn linked(steps: &Steps) -> Result<BTreeMap<String, String>, String> {
    let mut command = steps.cargo(&["tree", "--locked", "--offline", "--edges", "normal"]);
    for program in PROGRAMS {
        command.args(["--package", program]);
    }
    command.args(["--prefix", "none", "--format", "{p}|{l}"]);
    let said = said(command)?;
    let line = |line: &str| {
        let (package, terms) = line.split_once('|')?;
        let mut words = package.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        // Our own have a folder behind them.
        let is_own = words.any(|word| word.starts_with("(/"));
        (!is_own).then(|| {
            (
                format!("{name} {version}"),
                terms.trim_end_matches(" (*)").to_owned(),
            )
        })
    };
    Ok(said.lines().filter_map(line).collect())
}

/// The folder of each crate.
fn places(steps: &Steps) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut command = steps.cargo(&["metadata", "--locked", "--offline", "--format-version", "1"]);
    // Crates for other systems were never downloaded here.
    let own = Arch::own()?.triple("gnu");
    command.args(["--filter-platform", &own]);
    let known: Value = serde_json::from_str(&said(command)?).map_err(|error| error.to_string())?;
    let packages = known["packages"].as_array().cloned().unwrap_or_default();
    let place = |package: &Value| {
        let text = |name: &str| package[name].as_str();
        let name = format!("{} {}", text("name")?, text("version")?);
        Some((
            name,
            Path::new(text("manifest_path")?).parent()?.to_path_buf(),
        ))
    };
    Ok(packages.iter().filter_map(place).collect())
}

fn texts(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_licence = NAMES
            .iter()
            .any(|begin| name.to_uppercase().starts_with(begin));
        if is_licence && path.is_file() {
            found.push(fs::read_to_string(&path).map_err(at(&path))?);
        }
    }
    Ok(found)
}

fn said(mut command: std::process::Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}
