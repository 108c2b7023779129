//! Files of experiments: read whole, or every mistake is told in a safe text.

use std::fs;
use std::path::Path;

use nero_format::{
    Defaults, Definition, FormatErrors, LoadedSource, RowsOptions, TableOptions, read_rows, read_source,
    read_table,
};

use crate::Choices;

const TABLE_BYTES: usize = 600;

pub fn law(bytes: &[u8]) {
    let folder = tempfile::tempdir_in(crate::MEMORY_FOLDER).expect("memory has a folder");
    let written = |name: &str, bytes: &[u8]| -> Box<Path> {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("the file is written");
        path.into()
    };
    let file = |name: &str| written(name, bytes);
    let defaults = Defaults::default();
    judge(read_source(&file("config.yaml"), &defaults));
    judge(read_source(&file("job.sh"), &defaults));
    judge(read_source(&written("rules.yaml", conditions(bytes).as_bytes()), &defaults));
    // A next line (C1) is a blank between words and acts on a terminal, too.
    let cells = String::from_utf8_lossy(&bytes[..bytes.len().min(TABLE_BYTES)]);
    let cells = cells.replace('_', "\u{85}").replace("NA", "");
    written("table.yaml", b"command: p {bill_length_mm} {sex}");
    let sheet = |_: &Path, name: Option<&str>| nero_workbook::read(cells.as_bytes(), "csv", name);
    judge(read_table(&file("table.csv"), &TableOptions::default(), &defaults, &sheet));
    let rows = file("rows.jsonl");
    judge(read_rows(
        &rows,
        &RowsOptions::default(),
        &defaults,
        None,
        Default::default(),
    ));
}

/// A condition of the original, with right words and any others.
fn conditions(bytes: &[u8]) -> String {
    let (text, choices) = crate::parts(bytes);
    let text = String::from_utf8_lossy(text);
    let (mut lines, mut choices) = (text.split_whitespace(), Choices(choices));
    let mut word = |words: &[&str]| match choices.below(4) {
        0 => format!("{:?}\u{1b}", lines.next()),
        one => words[one % words.len()].to_owned(),
    };
    let condition = serde_json::json!({
        "variablename": word(&["loss", "val loss:", "\u{e9}'="]),
        "killvalue": word(&["0.4", "1e400", "-7"]),
        "comparator": word(&["gt", "leq"]),
        "when": word(&["immediately", "time 10", "time 1e300"]),
        "action": word(&["kill", "warn", "email"]),
    });
    serde_json::json!({ "+a": { "command": "p" }, "conditions": { "c": condition } }).to_string()
}

fn judge(read: Result<LoadedSource, FormatErrors>) {
    match read {
        Ok(loaded) => {
            let stored = serde_json::to_string(&loaded.definitions).expect("it is stored");
            let again: Vec<Definition> = serde_json::from_str(&stored).expect("it is read again");
            assert!(again == loaded.definitions, "stored and read again, it differs");
            loaded.notes.iter().for_each(|note| crate::assert_safe(&note.text));
        }
        Err(errors) => errors.to_string().lines().for_each(crate::assert_safe),
    }
}
