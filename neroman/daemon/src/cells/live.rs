//! `plan.live.csv` beside `plan.xlsx`: the rows of a table that cannot be written now.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use nero_format::{BoundTable, CellValue};
use nero_model::ExperimentId;
use nero_model::safe::Safe;

use super::row_values::ShownRow;
use nero_link::outside::live_names;

/// The heading of the last column; a file without it is not ours.
const HEADING: &str = "as of (neronet)";

/// Whether a file is such a copy of rows.
pub(crate) fn is_live(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".live.csv")) && is_ours(path)
}

fn is_ours(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64 << 10).read_to_end(&mut begin));
    let first = begin.split(|byte| *byte == b'\n').next();
    let first = first.unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    read.is_ok() && first.trim_end().ends_with(HEADING)
}

/// The file beside a table: `plan.live.csv`, or `plan-xlsx.live.csv` where another table of the
/// folder is called `plan`, too.
fn path_of(table: &Path) -> PathBuf {
    let [short, long] = live_names(table);
    let is_other = |file: &Path| {
        let is_table = nero_format::is_table(file) && file.file_stem() == table.file_stem();
        is_table && file.file_name() != table.file_name()
    };
    let mut files = table.parent().into_iter().flat_map(fs::read_dir).flatten();
    let is_shared = files.any(|file| file.is_ok_and(|file| is_other(&file.path())));
    table.with_file_name(if is_shared { long } else { short })
}

/// Writes the rows, in the order of the table.
///
/// # Errors
/// Also when a file of this name is not ours.
pub(super) fn write(
    table: &Path,
    bound: &BoundTable,
    rows: &BTreeMap<ExperimentId, ShownRow>,
    as_of: &str,
) -> io::Result<PathBuf> {
    let path = path_of(table);
    if path.exists() && !is_ours(&path) {
        let why = format!("{} is not neronet's", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    let headings = bound.columns.iter().map(|column| column.heading.as_str());
    let begin = [bound.number.as_str(), "name"].into_iter();
    let mut text = line(begin.chain(headings).chain([HEADING]).map(field));
    let mut rows: Vec<&ShownRow> = rows.values().collect();
    rows.sort_by_key(|row| (row.line, row.number));
    for row in rows {
        let values = row.values.iter().map(|value| match value {
            None => String::new(),
            Some(CellValue::Number(number)) => number.clone(),
            Some(value) => field(value.text()),
        });
        let begin = [row.number.to_string(), field(&row.name)].into_iter();
        text.push_str(&line(begin.chain(values).chain([as_of.to_owned()])));
    }
    let mut private = path.clone().into_os_string();
    private.push(".neronet");
    let private = PathBuf::from(private);
    let mut file = File::create(&private)?;
    file.write_all(text.as_bytes())?;
    // Readable by whom the table is.
    let rights = fs::metadata(table).map(|meta| meta.permissions());
    if let Ok(rights) = rights {
        file.set_permissions(rights)?;
    }
    fs::rename(&private, &path)?;
    Ok(path)
}

/// Removes the file, when the table has the results.
pub(super) fn remove(table: &Path) {
    // Another table of the same stem, whose file the short name may be, writes its rows anew.
    for path in live_names(table).map(|name| table.with_file_name(name)) {
        if is_live(&path) {
            // The next write into the table tries again.
            let _ = fs::remove_file(path);
        }
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// A field; a text that a spreadsheet would run gets an apostrophe.
fn field(text: &str) -> String {
    let text = Safe::line(text).to_string();
    let text = if text.starts_with(['=', '+', '-', '@']) {
        format!("'{text}")
    } else {
        text
    };
    if text.contains([',', '"', ';']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> BoundTable {
        BoundTable {
            sheet: None,
            header: None,
            header_rows: 1,
            number: "nr".to_owned(),
            columns: Vec::new(),
        }
    }

    #[test]
    fn two_tables_of_one_stem_have_a_file_each() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["plan.xlsx", "plan.ods"].map(|name| folder.path().join(name));
        let write = |table: &Path, as_of| write(table, &bound(), &BTreeMap::new(), as_of).unwrap();
        fs::write(&one, "").unwrap();
        let alone = write(&one, "1");
        assert_eq!(alone, folder.path().join("plan.live.csv"));
        assert_eq!(write(&one, "2"), alone);
        fs::write(&other, "").unwrap();
        let both = [&one, &other].map(|table| write(table, "3"));
        let named = ["plan-xlsx.live.csv", "plan-ods.live.csv"];
        assert_eq!(both, named.map(|name| folder.path().join(name)));
        // The table that has its results takes away its own, and the one that is nobody's now.
        remove(&one);
        assert_eq!(
            [&both[0], &both[1], &alone].map(|path| path.exists()),
            [false, true, false]
        );
        // A file of that name that is not ours stays.
        fs::write(&alone, "notes").unwrap();
        remove(&other);
        assert!(alone.exists() && !both[1].exists());
    }
}
