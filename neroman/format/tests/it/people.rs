//! Files that are wrong as people get them wrong: one line each, in a file that is right
//! otherwise. None is accepted, and what is said stands in one snapshot to read.

use crate::read;

#[test]
fn a_line_that_is_wrong_is_refused_with_its_place_and_what_to_write() {
    let mut page = String::new();
    let mut accepted = Vec::new();
    for line in include_str!("../fixtures/mistakes.txt").lines() {
        // A field that is given again would be another mistake.
        let rest = match line.split(':').next() {
            Some("script") => "",
            Some("parameters") => "  command: prog\n",
            _ => "  parameters: {x: 1}\n  command: prog {x}\n",
        };
        let text = format!("+a:\n{rest}  {line}\n");
        match read(&text) {
            Ok(_) => accepted.push(line),
            Err(report) => {
                page.push_str(&format!("## {line}\n"));
                let told = report
                    .lines()
                    .filter(|said| said.starts_with("error: ") || said.starts_with("hint: "));
                told.for_each(|said| page.push_str(&format!("{said}\n")));
            }
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:#?}");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("mistakes", page);
    });
}

/// Whole files: indentation, tabs, keys that are given twice, brackets.
#[test]
fn a_file_that_is_wrong_is_refused_with_its_place_and_what_to_write() {
    let mut page = String::new();
    let mut accepted = Vec::new();
    for text in include_str!("../fixtures/mistaken_files.txt").split("\n=\n") {
        let text = format!("{}\n", text.trim_end_matches('\n'));
        match read(&text) {
            Ok(loaded) => accepted.push(format!("{text}{:#?}", loaded.notes)),
            Err(report) => page.push_str(&format!("##\n{text}##\n{report}\n")),
        }
    }
    assert!(accepted.is_empty(), "accepted: {}", accepted.join("\n=\n"));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("mistaken_files", page);
    });
}
