//! The facts of `--version --verbose`: what a report of a bug needs to tell about this build.

use std::process::Command;

use nero_child::{OFFICE, Office};
use nero_cli::BuildFact;
use nero_model::{PROTOCOL_HIGHEST, PROTOCOL_LOWEST};

/// Every fact, in the order in which they are printed.
pub fn facts() -> Vec<BuildFact> {
    let mut facts = vec![
        fact("revision", nero_child::REVISION),
        fact("target", nero_child::TARGET),
        fact("C library", c_library()),
        fact("protocol", protocol()),
    ];
    let stored = nero_store::VERSIONS.map(|(name, version)| format!("{name} {version}"));
    let journals = format!("journals {}", nero_journal::VERSION);
    facts.push(fact(
        "stored formats",
        format!("{}, {journals}", stored.join(", ")),
    ));
    facts.push(fact(OFFICE, office()));
    facts.extend(agents());
    facts
}

fn fact(name: &'static str, value: impl Into<String>) -> BuildFact {
    BuildFact {
        name,
        value: value.into(),
    }
}

/// The build of `neroman-office` and where it lies.
fn office() -> String {
    let office = match Office::own() {
        Ok(office) => office.folder().join(OFFICE),
        Err(error) => return format!("none: {error}"),
    };
    let said = Command::new(&office).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    match said {
        Ok(build) => format!("{build}: {}", office.display()),
        Err(error) => format!("{}: {error}", office.display()),
    }
}

fn protocol() -> String {
    if PROTOCOL_LOWEST == PROTOCOL_HIGHEST {
        PROTOCOL_HIGHEST.to_string()
    } else {
        format!("{PROTOCOL_LOWEST} to {PROTOCOL_HIGHEST}")
    }
}

/// The C library that this program asks for.
fn c_library() -> String {
    let own = std::env::current_exe().and_then(|path| nero_agents::glibc_of(&path));
    match own {
        Ok(needed) => at_least(needed),
        Err(error) => format!("unknown: {error}"),
    }
}

fn at_least(needed: Option<nero_agents::Glibc>) -> String {
    needed.map_or_else(
        || "any".to_owned(),
        |needed| format!("glibc {needed} or newer"),
    )
}

/// A fact for each set of agents, the preferred first.
fn agents() -> Vec<BuildFact> {
    let sets = match nero_agents::sets() {
        Ok(sets) => sets,
        Err(error) => return vec![fact("agents", format!("none: {error}"))],
    };
    let sets = sets.into_iter().map(|set| {
        let (program, folder) = (set.program, set.folder.display());
        let needed = at_least(set.glibc);
        fact(
            "agents",
            format!("{}, {needed}, {program}: {folder}", set.arch),
        )
    });
    sets.collect()
}
