//! Sizes: bombs are refused at once, honest files are read whatever their size.

use crate::{load, names, report};
use nero_format::EXPERIMENTS_MAX;
use std::fmt::Write;

#[test]
fn a_huge_product_is_refused_with_its_count() {
    let report = report(
        "+a:\n  command: prog {x} {y}\n  parameters: {x: {range: [0, 1000, 1]}, y: {range: [0, 1, 0.001]}}\n",
    );
    assert!(
        report.contains("`a` would make 1000000 experiments (`x`: 1000 × `y`: 1000)"),
        "{report}"
    );
    assert!(report.contains("at most 100000"), "{report}");
}

#[test]
fn a_product_beyond_all_counting_is_refused() {
    let mut yaml = String::from("+a:\n  command: prog\n  parameters:\n");
    for i in 0..50 {
        writeln!(yaml, "    p{i}: {{range: [0, 1e9, 1]}}").expect("a string");
    }
    assert!(report(&yaml).contains("would make too many to count experiments"));
}

#[test]
fn all_blocks_together_are_bounded() {
    let one = "  command: prog {x}\n  parameters: {x: {range: [0, 60000, 1]}}\n";
    let report = report(&format!("+a:\n{one}+b:\n{one}"));
    assert!(
        report.contains("with `b` the source makes more than 100000 experiments"),
        "{report}"
    );
}

#[test]
fn the_allowed_number_of_experiments_is_read() {
    let loaded = load(&format!(
        "+a:\n  command: prog {{x}}\n  parameters: {{x: {{range: [0, {EXPERIMENTS_MAX}, 1]}}}}\n"
    ));
    assert_eq!(loaded.definitions.len() as u64, EXPERIMENTS_MAX);
    assert_eq!(loaded.definitions[99_999].name, "a_x-99999");
}

#[test]
fn a_large_honest_file_is_read() {
    let mut yaml = String::from(
        "command: prog {lr} {seed}\nrules: [{abort: 'loss > 3'}]\nmetrics: [{match: 'a(?<b>.)'}]\n",
    );
    for i in 0..20_000 {
        writeln!(
            yaml,
            "+e{i}:\n  parameters:\n    lr: 0.{i:05}\n    seed: {i}\n  custom_msg: number {i}"
        )
        .expect("a string");
    }
    assert_eq!(names(&load(&yaml)).len(), 20_000);
}

/// Nothing is quadratic in the keys of a map or the words of a line.
#[test]
fn wide_maps_are_read() {
    let keys: Vec<String> = (0..50_000).map(|i| format!("A{i}: {i}")).collect();
    let places: Vec<String> = (0..50_000).map(|i| format!("{{A{i}}}")).collect();
    let keys = keys.join(", ");
    let places = places.join(" ");
    let loaded = load(&format!(
        "+a:\n  command: prog {places}\n  env: {{{keys}}}\n  parameters: {{{keys}}}\n"
    ));
    assert_eq!(loaded.definitions[0].argv.len(), 50_001);
    assert_eq!(loaded.definitions[0].env.len(), 50_000);
    let report = report(&format!(
        "+a:\n  command: prog {places}\n  env: {{{keys}, {keys}}}\n"
    ));
    assert_eq!(report.matches("error: ").count(), nero_format::PROBLEMS_MAX);
}

#[test]
fn alias_bombs_are_refused() {
    let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let alias = format!("*a{},", i - 1).repeat(10);
        writeln!(yaml, "a{i}: &a{i} [{alias}]").expect("a string");
    }
    let report = report(&yaml);
    assert!(
        report.contains("aliases repeat more than 250000 values"),
        "{report}"
    );
}

#[test]
fn long_texts_are_bounded() {
    let long = "x".repeat(1 << 20);
    let report = report(&format!(
        "+a:\n  command: prog {{x}} {{y}}\n  parameters: {{y: {{range: [0, 90000, 1]}}, x: '{long}'}}\n"
    ));
    assert!(report.len() < 2000, "{}", report.len());
    let loaded = load(&format!(
        "+a:\n  command: prog {{x}}\n  parameters: {{x: '{long}'}}\n"
    ));
    assert_eq!(loaded.definitions[0].argv[1].len(), 1 << 20);
}

/// The deepest nesting that is accepted fits a small stack, and so does its refusal.
#[test]
fn nesting_fits_a_small_stack() {
    let run = || {
        let mut yaml = String::from("command: prog\n");
        for i in 0..60 {
            writeln!(yaml, "{}+e{i}:", " ".repeat(i)).expect("a string");
        }
        assert_eq!(names(&load(&yaml)).len(), 60);
        assert!(report(&"[".repeat(1 << 20)).contains("nested too deeply"));
        assert!(report(&"{a: ".repeat(1 << 18)).contains("nested too deeply"));
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(run);
    thread.expect("a thread").join().expect("no overflow");
}
