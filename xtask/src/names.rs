//! Check of type names: a name that stands for many things explains none of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of types that may share a name.
const TYPES_MAX: usize = 3;

/// Folders of the product's crates.
const CRATES: &[&str] = &["neroman", "neromum", "nerokid", "proto"];

/// Folders without names of ours: tests have small helpers, the rest is generated.
const SKIPPED: &[&str] = &["tests", "it", "gen", "benches", "target"];

/// Refuses a name that more than [`TYPES_MAX`] types of the product share.
pub fn check(root: &Path) -> Result<(), String> {
    let mut places = BTreeMap::new();
    for folder in CRATES {
        add(&root.join(folder), &mut places)?;
    }
    let shared = places.iter().filter(|(_, at)| at.len() > TYPES_MAX);
    let told: Vec<String> = shared
        .map(|(name, at)| {
            format!(
                "{} types are called `{name}`: name them after what they are\n  {}",
                at.len(),
                at.join("\n  ")
            )
        })
        .collect();
    if told.is_empty() {
        Ok(())
    } else {
        Err(told.join("\n"))
    }
}

fn add(folder: &Path, places: &mut BTreeMap<String, Vec<String>>) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| format!("{path}: {error}")
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path: PathBuf = entry.map_err(failed(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        if path.is_dir() && !SKIPPED.contains(&name) {
            add(&path, places)?;
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            for (line, name) in types(&text) {
                let at = format!("{}:{line}", path.display());
                places.entry(name.to_owned()).or_default().push(at);
            }
        }
    }
    Ok(())
}

/// The types that a file defines, with their lines. Inline tests stand at its end.
fn types(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = text.lines().take_while(|line| *line != "mod tests {");
    product.enumerate().filter_map(|(index, line)| {
        // An associated type stands within a trait or its implementation.
        if line.starts_with(' ') && line.trim_start().starts_with("type ") {
            return None;
        }
        let mut words = line.split_whitespace();
        let mut word = words.next()?;
        if word.starts_with("pub") {
            word = words.find(|word| !word.ends_with(')'))?;
        }
        if !["struct", "enum", "trait", "union", "type"].contains(&word) {
            return None;
        }
        let name = words.next()?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
        Some((index + 1, &name[..end.unwrap_or(name.len())]))
    })
}

#[cfg(test)]
mod tests {
    use super::types;

    #[test]
    fn types_of_the_product_are_found_with_their_lines() {
        let text = "pub struct One<T>(T);\n\
                    // struct None\n    pub(in crate::a) enum Two {\n    type Item = u8;\n\
                    trait Three: Sized {}\ntype Four = u8;\n\
                    #[cfg(test)]\nmod tests {\n    struct Five;\n}\n";
        let found: Vec<(usize, &str)> = types(text).collect();
        assert_eq!(found, [(1, "One"), (3, "Two"), (5, "Three"), (6, "Four")]);
    }
}
