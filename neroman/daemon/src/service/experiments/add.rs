//! `Add`: experiments from folders and files, all or nothing.

use std::path::{Path, PathBuf};

use nero_format::RowsOptions;
use nero_wire::v1;
use nero_wire::v1::add_reply::One;
use nero_wire::v1::add_reply::one::What as WireWhat;

use super::numbers;
use super::sources::{self, SourceReadings, SourceToRead};
use crate::cells;
use crate::service::change::ChangeRequest as _;
use crate::service::files::code;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::{self, Decision};
use nero_life::add::{DiffKind, ExperimentDiff, MergeOutcome, StampedSource};
use nero_life::state::State;

impl Man {
    /// Adds new experiments and updates changed ones.
    pub(crate) async fn add(&self, request: v1::AddRequest) -> Result<v1::AddReply, Failure> {
        let answered = self.ledger.answered::<v1::AddReply>(&request.request);
        if let Some(mut answer) = answered.await? {
            answer.notes.extend(self.number_again(&request).await);
            return Ok(answer);
        }
        if !request.rows.is_empty() {
            return self.add_rows(request).await;
        }
        let mut paths = canonical(&request.paths)?;
        paths.retain(|path| !numbers::is_backup(path) && !cells::is_live(path));
        if paths.is_empty() {
            return Err(
                Failure::usage("nothing to add").hint("name a folder, a YAML file or a table")
            );
        }
        let wanted = wanted(&self.ledger.state(), paths, &request)?;
        let (state, at) = (self.ledger.state(), self.clock.moment());
        let again = wanted.clone();
        let config = self.home.config.clone();
        let (sources, folders) = blocking(move || {
            let reads = sources::read_paths(&state, &wanted, &config)?;
            let definitions = reads.iter().flat_map(|read| &read.loaded.definitions);
            let folders = code::survey(definitions);
            Ok::<_, Failure>((SourceReadings::of(&state, reads, at), folders))
        })
        .await??;
        let head = request.head();
        let unnumbered = numbers::unnumbered(&sources.reads);
        let decide = move |state: &State, _| {
            let merged = sources.merged(state)?;
            let answer = reply(&sources.reads, &merged, &folders);
            let mut changes = merged.changes.clone();
            changes.push(ledger::last(merged.present()));
            Ok(Decision { answer, changes })
        };
        let mut answer = self.decided(&head, decide).await?;
        if !head.is_rehearsal {
            answer.notes.extend(self.number(again, unnumbered).await);
        }
        Ok(answer)
    }

    /// Writes the numbers that a daemon left out which died behind its decision. What cannot be
    /// read is told by the next `add`.
    async fn number_again(&self, request: &v1::AddRequest) -> Vec<String> {
        let state = self.ledger.state();
        let mut paths = canonical(&request.paths).unwrap_or_default();
        paths.retain(|path| nero_format::is_table(path) && !numbers::is_backup(path));
        if paths.is_empty() {
            return Vec::new();
        }
        let Ok(again) = wanted(&state, paths, request) else {
            return Vec::new();
        };
        let (sources, config) = (again.clone(), self.home.config.clone());
        let read = blocking(move || sources::read_paths(&state, &sources, &config)).await;
        let reads = read.ok().and_then(Result::ok).unwrap_or_default();
        self.number(again, numbers::unnumbered(&reads)).await
    }
}

/// The sources, tables among them with what was typed for tables.
fn wanted(
    state: &State,
    paths: Vec<PathBuf>,
    request: &v1::AddRequest,
) -> Result<Vec<SourceToRead>, Failure> {
    let typed = request.offset.is_some() || !request.with.is_empty();
    if typed && !paths.iter().any(|path| nero_format::is_table(path)) {
        return Err(Failure::usage("--with and --offset go with a table")
            .hint("name a workbook or a .csv file"));
    }
    let typed = !request.command.is_empty() || !request.block.is_empty();
    if typed && !paths.iter().any(|path| nero_format::is_rows(path)) {
        return Err(Failure::usage("--command and --to go with rows")
            .hint("name a .jsonl file, or `-` for rows on standard input"));
    }
    let with = match request.with.as_str() {
        "" => None,
        with => canonical(&[with.to_owned()])?.pop(),
    };
    let mut sources = Vec::new();
    for path in paths {
        let mut one = SourceToRead::again(state, path);
        if nero_format::is_table(&one.path) {
            one.with = with.clone().or(one.with);
            one.offset = request.offset.unwrap_or(one.offset);
        }
        if typed && nero_format::is_rows(&one.path) {
            one.rows = options_of(request);
        }
        sources.push(one);
    }
    Ok(sources)
}

/// How rows are read, as it was typed.
pub(crate) fn options_of(request: &v1::AddRequest) -> RowsOptions {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    RowsOptions {
        command: given(&request.command),
        block: given(&request.block),
    }
}

/// The paths as they are stored.
///
/// # Errors
/// When one does not exist.
pub(crate) fn canonical(paths: &[String]) -> Result<Vec<PathBuf>, Failure> {
    paths
        .iter()
        .map(|given| {
            let path = Path::new(given);
            let found = path.canonicalize().map_err(|error| {
                Failure::usage(format!("cannot read {given}")).caused_by(&error)
            })?;
            // The file of a folder stands for the folder, whichever was named.
            let of_folder = found
                .file_name()
                .is_some_and(|name| name == "neronet.yaml" || name == "config.yaml");
            Ok(match found.parent() {
                Some(folder) if of_folder && found.is_file() && first_of(folder) == found => {
                    folder.to_path_buf()
                }
                _ => found,
            })
        })
        .collect()
}

/// The file that a folder stands for.
fn first_of(folder: &Path) -> PathBuf {
    let native = folder.join("neronet.yaml");
    if native.exists() {
        native
    } else {
        folder.join("config.yaml")
    }
}

/// What the sources and their comparison with what is known draw attention to.
pub(crate) fn notes(reads: &[StampedSource], merged: &MergeOutcome) -> Vec<String> {
    let of_files = reads.iter().flat_map(|read| &read.loaded.notes);
    let of_files = of_files.map(|note| match &note.place {
        Some(place) => format!("{place}: {}", note.text),
        None => note.text.clone(),
    });
    of_files.chain(merged.notes.iter().cloned()).collect()
}

pub(crate) fn reply(
    reads: &[StampedSource],
    merged: &MergeOutcome,
    folders: &[v1::FolderTaken],
) -> v1::AddReply {
    v1::AddReply {
        experiments: merged.seen.iter().map(reply_entry).collect(),
        notes: notes(reads, merged),
        range: merged.range(),
        folders: folders.to_vec(),
        rows: Vec::new(),
    }
}

fn reply_entry(seen: &ExperimentDiff) -> One {
    let what = match seen.what {
        DiffKind::Added => WireWhat::Added,
        DiffKind::Changed => WireWhat::Changed,
        DiffKind::Same => WireWhat::Same,
        DiffKind::Gone => WireWhat::Gone,
        DiffKind::Hidden => WireWhat::Hidden,
    };
    One {
        experiment: seen.id.0,
        name: seen.name.clone(),
        collection: seen.collection.clone(),
        what: what.into(),
        changes: seen.changes.clone(),
        notes: seen.notes.clone(),
    }
}
