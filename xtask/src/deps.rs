//! Checks of dependencies that must hold without `cargo deny`: one TLS
//! provider, licences, banned crates, no source but the registry, and modules
//! that decide without doing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates that must not be in the tree, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "ring is the one TLS provider"),
    ("aws-lc-sys", "ring is the one TLS provider"),
    ("openssl-sys", "ring is the one TLS provider"),
    ("native-tls", "ring is the one TLS provider"),
    ("serde_yaml", "deprecated; serde-saphyr reads YAML"),
    ("serde_yml", "unsound; serde-saphyr reads YAML"),
    ("evalexpr", "AGPL"),
];

/// Licences that may be in the tree, one of them for each crate.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
    "MPL-2.0",
    "0BSD",
    "BSL-1.0",
    "Unlicense",
    "MIT-0",
];

/// Crates that the shim must not link, since it runs once per job on a bare
/// node.
const NOT_IN_SHIM: &[&str] = &["tokio", "tonic", "regex", "rusqlite", "rustls"];

/// What the crate that decides over runs must not link: it has no clock, no task, no
/// database and no wire type.
const NOT_IN_LIFE: &[&str] = &["tokio", "tonic", "rusqlite", "nero-wire"];

/// What the crate that shows experiments must not link: it has no terminal and no
/// database.
const NOT_IN_VIEWS: &[&str] = &["clap", "ratatui", "rusqlite"];

/// What neroman must not link: processes with limits do.
const NOT_IN_NEROMAN: &[&str] = &[
    "resvg",
    "calamine",
    "rust_xlsxwriter",
    "quick-xml",
    "parquet",
];

/// Modules that decide and do nothing else. Most are part of a crate that also does things, so
/// neither the crate's manifest nor its `clippy.toml` can say this.
const DECIDING: &[&str] = &[
    "neromum/core/src",
    "neromum/warden/src",
    "nerokid/src/core",
    "nerokid/shim/src/core.rs",
    "proto/metrics/src",
    "neroman/noodles/src",
    "neroman/mlframework/src",
    "neroman/format/src/python",
    "neroman/format/src/text.rs",
    "neroman/notices/src/account.rs",
    "neroman/notices/src/compose.rs",
    "neroman/notices/src/letter",
    "neroman/notices/src/plan.rs",
    "neroman/notices/src/post.rs",
    "neroman/notices/src/settings.rs",
];

/// What a deciding module must not name.
const NOT_IN_DECIDING: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "tokio",
];

/// Crates whose code must not decide by a text that is written for people: such texts
/// change with their wording. (`neroman/ssh` reads what `ssh` says.)
const NOT_READING: &[&str] = &[
    "neroman/life/src",
    "neroman/daemon/src",
    "neroman/home/src",
    "neroman/link/src",
    "neroman/cli/src",
    "neroman/views/src",
    "neroman/notices/src/account.rs",
    "neroman/notices/src/compose.rs",
    "neroman/notices/src/letter",
    "neroman/notices/src/plan.rs",
    "neroman/notices/src/post.rs",
    "neroman/notices/src/settings.rs",
    "neromum/cluster/src",
    "neromum/node/src",
    "neromum/src",
    "nerokid/src",
];

/// Fields and methods with texts for people.
const FOR_PEOPLE: &[&str] = &[
    "why",
    "hint",
    "reason",
    "outcome",
    "problem",
    "skipped",
    "cause",
    "message",
    "hint_text",
];

/// Ways to read a text.
const READING: &[&str] = &[
    ".contains(",
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".split(",
    ".split_once(",
    ".rsplit_once(",
    ".eq_ignore_ascii_case(",
    " == \"",
    " != \"",
];

/// Checks the whole tree.
///
/// # Errors
/// Every crate that breaks a rule, by name; every line of a deciding module that does something.
pub fn check(root: &Path) -> Result<(), String> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata has no packages")?;
    let mut broken = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            broken.push(format!("{name} is banned: {why}"));
        }
        let licence = package["license"].as_str().unwrap_or_default();
        if !allowed(licence) {
            broken.push(format!("{name} has the licence `{licence}`"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| !source.starts_with("registry+")) {
            broken.push(format!("{name} comes from {}", source.unwrap_or_default()));
        }
    }
    for (package, unwanted, why) in [
        ("nerokid-shim", NOT_IN_SHIM, "one runs beside every job"),
        ("nero-life", NOT_IN_LIFE, "it decides and does nothing else"),
        (
            "nero-views",
            NOT_IN_VIEWS,
            "a mail and a browser will show the same facts",
        ),
        ("neroman", NOT_IN_NEROMAN, "neroman-office does"),
    ] {
        let tree = tree_of(root, package)?;
        let is_linked = |name: &&&str| {
            let mut lines = tree.lines();
            lines.any(|line| line.split(' ').next() == Some(**name))
        };
        let linked = unwanted.iter().filter(is_linked);
        broken.extend(linked.map(|name| format!("{package} links {name}, and {why}")));
    }
    for module in DECIDING {
        broken.extend(lines(&root.join(module), &doing)?);
    }
    for module in NOT_READING {
        broken.extend(lines(&root.join(module), &reading)?);
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("\n"))
    }
}

/// What a line of a module does that decides and does nothing else.
fn doing(line: &str) -> Option<String> {
    let name = NOT_IN_DECIDING.iter().find(|name| line.contains(**name))?;
    Some(format!("names {name}, and this module only decides"))
}

/// Which text for people a line reads.
fn reading(line: &str) -> Option<String> {
    let reads = |text: &str| READING.iter().any(|reading| text.starts_with(reading));
    let name = FOR_PEOPLE.iter().find(|name| {
        let begins = |at: usize| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        };
        line.match_indices(**name).any(|(at, _)| {
            let after = &line[at + name.len()..];
            begins(at) && reads(after.strip_prefix("()").unwrap_or(after))
        })
    })?;
    Some(format!(
        "reads `{name}`, a text for people: decide by a type"
    ))
}

/// Lines of a module, a file or a folder, that break a rule; those of tests may.
fn lines(module: &Path, rule: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let at = |error: std::io::Error| format!("{}: {error}", module.display());
    if module.is_dir() {
        let entries: Result<Vec<PathBuf>, _> = fs::read_dir(module)
            .map_err(at)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect();
        let each: Result<Vec<_>, _> = entries
            .map_err(at)?
            .iter()
            .filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs"))
            .map(|path| lines(path, rule))
            .collect();
        return Ok(each?.concat());
    }
    let text = fs::read_to_string(module).map_err(at)?;
    let code = |line: &str| !line.trim_start().starts_with("//");
    let product = text.split("#[cfg(test)]\nmod tests {").next();
    let product = product.unwrap_or_default();
    let lines = (1..).zip(product.lines()).filter(|(_, line)| code(line));
    Ok(lines
        .filter_map(|(number, line)| Some(format!("{}:{number} {}", module.display(), rule(line)?)))
        .collect())
}

/// Whether an SPDX expression can be met with the allowed licences.
fn allowed(expression: &str) -> bool {
    let one = |text: &str| LICENCES.contains(&text.trim().trim_matches(['(', ')']).trim());
    let any = |text: &str| text.split(" OR ").flat_map(|part| part.split('/')).any(one);
    !expression.is_empty()
        && expression
            .split(" AND ")
            .all(|part| any(part.trim().trim_matches(['(', ')'])))
}

fn metadata(root: &Path) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version=1",
            "--all-features",
            "--locked",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn tree_of(root: &Path, package: &str) -> Result<String, String> {
    let output = Command::new("cargo")
        .args([
            "tree", "-p", package, "-e", "normal", "--prefix", "none", "--locked",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{allowed, doing, lines, reading};

    #[test]
    fn a_line_of_a_deciding_module_that_reads_the_clock_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("core.rs");
        std::fs::write(&file, "// Instant::now\nlet now = Instant::now();\n").unwrap();
        let named = lines(folder.path(), &doing).unwrap();
        assert_eq!(named.len(), 1, "{named:?}");
        assert!(
            named[0].contains("core.rs:2 names Instant::now"),
            "{named:?}"
        );
    }

    #[test]
    fn a_line_that_reads_a_text_for_people_is_named() {
        for bad in [
            "if one.outcome == \"skipped\" {",
            "let head = why.split(\": \").next();",
            "if status.message().contains(TAKEN_OVER) {",
            "node.hint.contains(\"node take-over\")",
        ] {
            assert!(reading(bad).is_some(), "{bad}");
        }
        for good in [
            "one.became() == Outcome::Skipped",
            "if why.is_empty() {",
            "let why_not = node.why_not();",
            "because.contains(x)",
        ] {
            assert_eq!(reading(good), None, "{good}");
        }
    }

    #[test]
    fn an_expression_is_met_by_one_allowed_licence_of_each_part() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in ["", "AGPL-3.0-only", "MIT AND GPL-3.0", "SSPL-1.0"] {
            assert!(!allowed(bad), "{bad}");
        }
    }
}
