//! Laws that hold for every text.

use crate::{Folder, read};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fmt::Write;

/// Lines that make files of our shape, right and wrong.
const LINES: &[&str] = &[
    "+a:",
    "  +b:",
    "+a: {command: p}",
    "command: prog {x} {y:03d}",
    "  command: [a, '{x}']",
    "run_command_prefix: python3",
    "main_code_file: main.py",
    "parameters_format: '{x}'",
    "parameters: {x: [1, 2], y: 3}",
    "  parameters: {x: !!python/tuple [0, 1, 0.1]}",
    "    x: [a, b]",
    "  parameters:",
    "env: {A: null}",
    "rules: [{abort: 'x > 1'}]",
    "    - abort: !x",
    "  - warn: a > b",
    "conditions: {c: {variablename: a}}",
    "outputs: stdout",
    "  <<: *a",
    "x: &a {y: 1}",
    "\tfoo",
    "'",
    "]",
    "- a",
    "",
    "# c",
    "...",
    "---",
    "resources: {cpus: 2}",
    "metrics: [{match: '(?<a>.)'}]",
    "? [a]",
    ": b",
    "repeat: 3",
    "zip: [x, y]",
    "exclude: x == 1",
    "parameters: {x: {linspace: [0, 1, 3]}, y: {sample: [0, 1], n: 3}}",
    "files: ['*']",
    "monitor: {grace: 1s}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::new();
        folder.write("config.yaml", &bytes);
        drop(folder.read());
    }

    #[test]
    fn no_text_panics_and_reports_are_safe(text in "[-+a-c:{}\\[\\]'\"!&*|>%@ \n\t\r\u{1b}é🦀]{0,80}") {
        if let Err(report) = read(&text) {
            prop_assert!(!report.chars().any(|c| c.is_control() && c != '\n'), "{report:?}");
        }
    }

    #[test]
    fn no_lines_panic(picked in proptest::collection::vec(0..LINES.len(), 0..12)) {
        let text: Vec<&str> = picked.into_iter().map(|i| LINES[i]).collect();
        if let Ok(loaded) = read(&text.join("\n")) {
            let json = serde_json::to_string(&loaded.definitions).expect("serialises");
            let back: Vec<nero_format::Definition> = serde_json::from_str(&json).expect("reads back");
            prop_assert_eq!(back, loaded.definitions);
        }
    }

    #[test]
    fn the_expansion_is_the_product(sizes in proptest::collection::vec(1usize..5, 0..5)) {
        let mut yaml = String::from("+a:\n  command: prog\n");
        if !sizes.is_empty() {
            yaml.push_str("  parameters:\n");
        }
        for (i, size) in sizes.iter().enumerate() {
            writeln!(yaml, "    p{i}: {{range: [0, {size}, 1]}}").expect("a string");
        }
        let loaded = read(&yaml).expect("reads");
        prop_assert_eq!(loaded.definitions.len(), sizes.iter().product::<usize>());
        let distinct: HashSet<&str> = loaded.definitions.iter().map(|d| d.name.as_str()).collect();
        prop_assert_eq!(distinct.len(), loaded.definitions.len());
        // The last-listed runs fastest.
        let rows: Vec<Vec<i64>> = loaded
            .definitions
            .iter()
            .map(|d| d.params.iter().map(|p| p.text.parse().expect("a number")).collect())
            .collect();
        prop_assert!(rows.is_sorted());
    }

    #[test]
    fn a_value_of_any_text_is_one_argument_of_the_command(value in "[^\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u{feff}\u{2028}\u{2029}\u{e0d0}\u{e0d1}]{0,30}") {
        let quoted = serde_json::to_string(&value).expect("serialises");
        let loaded = read(&format!("+a:\n  command: prog {{x}} end\n  parameters: {{x: {quoted}}}\n"));
        let loaded = loaded.map_err(TestCaseError::fail)?;
        prop_assert_eq!(&loaded.definitions[0].argv, &["prog", value.as_str(), "end"]);
    }
}
