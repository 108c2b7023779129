//! Rows of parameters that come without a file: they are kept in one, which is then the source
//! of their experiments as any other.
//!
//! A row that the file has already is the same experiment, so a command that is sent again
//! adds nothing twice.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nero_format::{Edits, ROWS_FOLDER, RowsOptions};
use nero_model::ExperimentId;
use nero_model::json::{JsonToken, tokens};
use nero_wire::v1;
use nero_wire::v1::add_reply::one::What as WireWhat;
use serde_json::{Map, Value};

use super::add::{canonical, options_of, reply};
use super::sources::{self, SourceReadings, SourceToRead};
use crate::service::change::ChangeRequest as _;
use crate::service::files::code;
use crate::service::nodes::state::resolved;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::{self, Decision};
use nero_life::add::{self, DiffKind, MergeOutcome, StampedSource};
use nero_life::experiment::Stamp;
use nero_life::state::State;

/// Every number of fewer digits has them all in memory.
const DIGITS_KEPT: usize = 15;
/// Most files of one name that are looked at.
const NAMES_MAX: u32 = 1000;

/// A file with the rows in it.
struct RowsFile {
    read: StampedSource,
    /// The line of each row that was given.
    lines: Vec<u32>,
}

impl Man {
    /// Adds the rows of a request.
    pub(crate) async fn add_rows(&self, request: v1::AddRequest) -> Result<v1::AddReply, Failure> {
        let _held = self.rows.lock().await;
        if !request.node.is_empty() {
            let config = self.nodes.config()?;
            resolved(&config, &request.node, "")?;
        }
        let options = options_of(&request);
        if options.command.is_some() == options.block.is_some() {
            return Err(Failure::usage("nothing says what the rows run")
                .hint("one of --command 'python3 main.py {lr}' and --to BLOCK"));
        }
        let folder = canonical(std::slice::from_ref(&request.rows_folder))?;
        let (state, config) = (self.ledger.state(), self.home.config.clone());
        let (rows, dry_run) = (request.rows.clone(), request.dry_run);
        let at = self.clock.moment();
        let (sources, lines, folders) = blocking(move || {
            let folder = folder.into_iter().next().unwrap_or_default();
            let kept = keep(&state, &folder, &options, &rows, &config, dry_run)?;
            let folders = code::survey(kept.read.loaded.definitions.iter());
            let sources = SourceReadings::of(&state, vec![kept.read], at);
            Ok::<_, Failure>((sources, kept.lines, folders))
        })
        .await??;
        self.decided(&request.head(), move |state, now_ms| {
            let mut merged = sources.merged(state)?;
            let ids = ids(&sources.reads, &lines, &merged);
            merged.bring_back(state, &ids, now_ms);
            let mut answer = reply(&sources.reads, &merged, &folders);
            answer.range = add::ranges(ids.iter().copied());
            answer.rows = ids.iter().map(|id| id.0).collect();
            // The other rows of the file were added before.
            let of_rows: HashSet<u64> = answer.rows.iter().copied().collect();
            let mut seen = merged.seen.iter();
            answer.experiments.retain(|one| {
                let is_news = seen.next().is_some_and(|seen| seen.what != DiffKind::Same);
                is_news || of_rows.contains(&one.experiment)
            });
            for one in &mut answer.experiments {
                let is_known = one.what() == WireWhat::Same && of_rows.contains(&one.experiment);
                if is_known {
                    one.notes.push(known(state, one.experiment));
                }
            }
            let mut changes = merged.changes;
            changes.push(ledger::last(ids));
            Ok(Decision { answer, changes })
        })
        .await
    }
}

/// What a person is told of a row that is an experiment already.
fn known(state: &State, id: u64) -> String {
    let newest = state
        .experiment(ExperimentId(id))
        .and_then(|experiment| experiment.newest());
    match newest {
        None => "the row is known already".to_owned(),
        Some(run) => format!(
            "the row is known already, its run {} is {}; `neroman restart '{id} && changed'` runs it again where its code changed",
            run.made.id,
            run.phase().as_str()
        ),
    }
}

/// The experiments of the rows that were given, in their order.
fn ids(reads: &[StampedSource], lines: &[u32], merged: &MergeOutcome) -> Vec<ExperimentId> {
    let definitions = reads.iter().flat_map(|read| &read.loaded.definitions);
    let mut of_line: HashMap<u32, Vec<ExperimentId>> = HashMap::new();
    // What was seen begins with the definitions.
    for (definition, seen) in definitions.zip(&merged.seen) {
        of_line
            .entry(definition.place.line)
            .or_default()
            .push(seen.id);
    }
    lines
        .iter()
        .filter_map(|line| of_line.get(line))
        .flatten()
        .copied()
        .collect()
}

/// Puts rows into their file, unless one of them has a mistake. Blocks.
fn keep(
    state: &State,
    folder: &Path,
    options: &RowsOptions,
    rows: &[String],
    config: &Path,
    dry_run: bool,
) -> Result<RowsFile, Failure> {
    let file = file_of(state, folder, options)?;
    let cannot = |what: &str, error: &io::Error| {
        Failure::failed(format!("cannot {what} {}", file.display())).caused_by(error)
    };
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot("read", &error)),
    };
    let (text, lines) = joined(&before, rows);
    let defaults = sources::defaults(config)?;
    let edits = Edits::new();
    let loaded = nero_format::read_rows(&file, options, &defaults, Some(text.clone()), edits);
    let loaded = loaded.map_err(|errors| {
        Failure::usage("the rows have a mistake; none is added").report(errors.to_string())
    })?;
    if dry_run {
        let read = StampedSource {
            stamp: Stamp::default(),
            companion: Stamp::default(),
            loaded,
        };
        return Ok(RowsFile { read, lines });
    }
    if text != before {
        write(&file, &text).map_err(|error| cannot("write", &error))?;
    }
    // From the file, with what people changed of its experiments.
    let source = SourceToRead {
        path: file,
        with: None,
        offset: 0,
        rows: options.clone(),
    };
    let read = sources::read_paths(state, &[source], config)?.pop();
    let read = read.ok_or_else(|| Failure::bug("a file of rows was not read"))?;
    Ok(RowsFile { read, lines })
}

/// The text with the rows that it lacks, and the line of each row.
fn joined(before: &str, rows: &[String]) -> (String, Vec<u32>) {
    // Equal for rows that differ in blanks and order alone.
    let meaning = |line: &str| {
        let row: Map<String, Value> = serde_json::from_str(line).ok()?;
        let mut pairs: Vec<(String, Value)> = row.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        // Of long numbers `Value` keeps the first digits alone.
        let long = |token| match token {
            JsonToken::Number(digits) if digits.len() > DIGITS_KEPT => Some(digits),
            _ => None,
        };
        let mut long: Vec<&str> = tokens(line).filter_map(long).collect();
        long.sort_unstable();
        Some(format!("{} {long:?}", serde_json::to_string(&pairs).ok()?))
    };
    let mut text = before.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        last = number;
        if let Some(meaning) = meaning(line) {
            known.entry(meaning).or_insert(number);
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        let meaning = meaning(row);
        if let Some(number) = meaning.as_ref().and_then(|meaning| known.get(meaning)) {
            lines.push(*number);
            continue;
        }
        last += 1;
        text.push_str(row.trim());
        text.push('\n');
        lines.push(last);
        known.extend(meaning.map(|meaning| (meaning, last)));
    }
    (text, lines)
}

/// The file that keeps rows with these options; a new file is named after the block or the
/// program.
fn file_of(state: &State, folder: &Path, options: &RowsOptions) -> Result<PathBuf, Failure> {
    let has_them = |source: &&nero_format::Source| {
        source.folder == folder && source.rows.as_ref() == Some(options)
    };
    let mut sources = state.origins.values().map(|origin| &origin.source);
    if let Some(known) = sources.find(has_them) {
        return Ok(known.file.clone());
    }
    let name = match (&options.block, &options.command) {
        (Some(block), _) => block.clone(),
        (None, command) => program(command.as_deref().unwrap_or_default()),
    };
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    let name: String = name.collect();
    let name = name.trim_start_matches('.');
    let name = if name.is_empty() { "rows" } else { name };
    let kept = folder.join(ROWS_FOLDER);
    let mut each = (1..NAMES_MAX).map(|number| match number {
        1 => kept.join(format!("{name}.jsonl")),
        number => kept.join(format!("{name}-{number}.jsonl")),
    });
    let is_free = |file: &PathBuf| {
        let mut known = state.origins.values();
        let known = known.any(|origin| origin.source.file == *file);
        !known && !file.exists()
    };
    each.find(is_free).ok_or_else(|| {
        let what = format!("{} has too many files of rows of {name}", folder.display());
        Failure::failed(what)
    })
}

/// The name of what a command runs: the first word that names a file with an ending, else
/// its program.
fn program(command: &str) -> String {
    let words = nero_format::split_command(command).unwrap_or_default();
    let script = words.iter().skip(1).find(|word| {
        let ending = Path::new(word)
            .extension()
            .and_then(|ending| ending.to_str());
        let is_ending = |ending: &str| ending.chars().all(|c| c.is_ascii_alphabetic());
        !word.starts_with('-') && !word.contains(['{', '=']) && ending.is_some_and(is_ending)
    });
    let word = script.or(words.first()).map_or("", String::as_str);
    let stem = Path::new(word).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or_default().to_owned()
}

/// Replaces a file as a whole, whatever dies meanwhile.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let private = folder.join(format!(".{name}.neronet"));
    fs::create_dir_all(folder)?;
    let mut fresh = File::create(&private)?;
    if let Ok(known) = fs::metadata(file) {
        fresh.set_permissions(known.permissions())?;
    }
    fresh.write_all(text.as_bytes())?;
    fresh.sync_all()?;
    fs::rename(&private, file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_there_is_not_added_again() {
        let rows = [
            r#"{"n": 1, "lr": 0.1}"#.to_owned(),
            r#"{"lr": 0.2}"#.to_owned(),
            r#" {"lr": 0.2}"#.to_owned(),
        ];
        let before = "{\"lr\": 0.1, \"n\": 1}\n\n{\"lr\": 3}";
        let (text, lines) = joined(before, &rows);
        assert_eq!(text, format!("{before}\n{{\"lr\": 0.2}}\n"));
        assert_eq!(lines, [1, 4, 4]);
        assert_eq!(joined(&text, &rows), (text.clone(), lines));
        let long = |last| format!(r#"{{"seed": 34028236692093846346337460743176821145{last}}}"#);
        assert_eq!(joined("", &[long(4), long(5), long(4)]).1, [1, 2, 1]);
    }

    #[test]
    fn a_file_of_rows_is_called_after_the_program() {
        let table = [
            ("python3 train.py --lr {lr}", "train"),
            ("./solve {x} --out=a.txt", "solve"),
            ("bash -c 'echo {x}'", "bash"),
            ("Rscript src/fit.R {x}", "fit"),
            ("sleep 0.5", "sleep"),
            ("", ""),
        ];
        for (command, name) in table {
            assert_eq!(program(command), name, "{command}");
        }
    }
}
