//! Files of experiments: read whole, or every mistake is told in a safe text.

use std::fs;
use std::path::Path;

use nero_format::{
    Defaults, Definition, FormatErrors, Loaded, RowsOptions, read_rows, read_source,
};

pub fn law(bytes: &[u8]) {
    let folder = tempfile::tempdir_in(crate::MEMORY_FOLDER).expect("memory has a folder");
    let file = |name: &str| -> Box<Path> {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("the file is written");
        path.into()
    };
    let defaults = Defaults::default();
    judge(read_source(&file("config.yaml"), &defaults));
    judge(read_source(&file("job.sh"), &defaults));
    let rows = file("rows.jsonl");
    judge(read_rows(
        &rows,
        &RowsOptions::default(),
        &defaults,
        None,
        Default::default(),
    ));
}

fn judge(read: Result<Loaded, FormatErrors>) {
    match read {
        Ok(loaded) => {
            let stored = serde_json::to_string(&loaded.definitions).expect("it is stored");
            let again: Vec<Definition> = serde_json::from_str(&stored).expect("it is read again");
            assert!(
                again == loaded.definitions,
                "stored and read again, it differs"
            );
        }
        Err(errors) => {
            let text = errors.to_string();
            let is_safe = |letter: char| letter == '\n' || !letter.is_control();
            assert!(text.chars().all(is_safe), "a report is not safe: {text:?}");
        }
    }
}
