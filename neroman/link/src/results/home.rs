//! Compares a run's files and logs on its node with the copies here, byte for
//! byte. Both sides hash their files at the time of the question; no record
//! counts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nero_model::paths::run as names;
use nero_model::safe::Safe;
use nero_wire::v1;
use tokio::sync::mpsc;

use super::choice::{UnfetchedFile, unlisted};
use super::fetch;
use super::folder::{Folder, distinct, earlier_path, safe_path};
use super::logs::LogToFetch;
use super::request::FileRequest;
use super::trouble::Trouble;
use super::way::{Way, blocking, ended_early};

/// The files of a run that are not home.
#[derive(Clone, Debug, Default)]
pub struct MissingResults {
    /// The largest first.
    pub files: Vec<UnfetchedFile>,
    /// One line for each other thing that is not home.
    pub others: Vec<String>,
}

impl MissingResults {
    /// Whether all files are home.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.others.is_empty()
    }

    /// Adds what is not home of an earlier start.
    pub(super) fn add(&mut self, other: Self, start: u32) {
        let of_start = |name: String| format!("{}/{name}", names::start_results(start));
        let files = other.files.into_iter();
        self.files.extend(files.map(|one| UnfetchedFile {
            name: of_start(one.name),
            ..one
        }));
        self.others.extend(other.others.into_iter().map(of_start));
    }

    /// Bytes that would be lost, as far as known.
    pub fn bytes(&self) -> u64 {
        let files = self.files.iter();
        files.fold(0, |sum, one| sum.saturating_add(one.bytes))
    }
}

/// A file to compare.
struct FileComparison {
    want: v1::read_files_request::Want,
    /// The paths where it may lie here, by preference.
    places: Vec<PathBuf>,
    bytes: u64,
}

/// Compares a run's files and logs on its node with what is here.
pub(super) async fn not_home(
    way: &Way,
    ask: &FileRequest,
    logs: Vec<LogToFetch>,
) -> Result<MissingResults, Trouble> {
    let list = match fetch::list(way, ask).await {
        Ok(list) => list,
        // The work folder is gone; its files are lost.
        Err(Trouble::Refused(_)) if !ask.globs.is_empty() => {
            let ask = FileRequest {
                globs: Vec::new(),
                ..ask.clone()
            };
            fetch::list(way, &ask).await?
        }
        Err(trouble) => return Err(trouble),
    };
    let mut not_home = MissingResults::default();
    let mut compared: Vec<FileComparison> = logs.into_iter().map(log).collect();
    if let Some(list) = list {
        if !list.made_told {
            let node = &way.whose.node;
            let line = format!("what its job made: {node} runs an agent that does not tell it");
            not_home.others.push(line);
        }
        if list.made_cut {
            not_home
                .others
                .push("more files than can be listed".to_owned());
        }
        if unlisted(&list) > 0 {
            let shown = list.left_out.iter();
            let shown = shown.map(|line| Safe::line(line).to_string());
            not_home.others.extend(shown);
        }
        // The newest start went on from the checkpoints of those before it.
        let is_passed_on = |entry: &v1::FileEntry| {
            let of = |index: &u32| ask.globs.get(usize::try_from(*index).ok()?);
            let mut globs = entry.globs.iter().filter_map(of);
            way.start > 0 && !entry.globs.is_empty() && globs.all(|glob| !glob.is_output)
        };
        let made = list.files.iter().filter(|entry| !is_passed_on(entry));
        compared.extend(made.filter(|entry| entry.made || !list.made_told).map(file));
    }
    let folder = way.folder.clone();
    let (candidates, missing) = blocking(move || by_size(&folder, compared)).await?;
    not_home.files.extend(missing);
    for part in candidates.chunks(fetch::STREAM_FILES_MAX / 10) {
        not_home.files.extend(by_hash(way, part).await?);
    }
    not_home
        .files
        .sort_by(|one, other| (other.bytes, &one.name).cmp(&(one.bytes, &other.name)));
    Ok(not_home)
}

fn log(log: LogToFetch) -> FileComparison {
    FileComparison {
        want: v1::read_files_request::Want {
            path: log.name().to_owned(),
            offset: 0,
            max_bytes: log.bytes.unwrap_or(0),
            log: true,
        },
        places: vec![PathBuf::from(log.name())],
        bytes: log.bytes.unwrap_or(0),
    }
}

fn file(entry: &v1::FileEntry) -> FileComparison {
    let path = safe_path(&entry.path);
    let distinct = path.as_ref().and_then(|path| {
        let name = path.file_name()?.to_str()?;
        Some(path.with_file_name(distinct(name)))
    });
    let places = [path, distinct, earlier_path(&entry.path)];
    FileComparison {
        want: v1::read_files_request::Want {
            path: entry.path.clone(),
            ..v1::read_files_request::Want::default()
        },
        places: places.into_iter().flatten().collect(),
        bytes: entry.size,
    }
}

fn stays(want: &v1::read_files_request::Want, bytes: u64) -> UnfetchedFile {
    UnfetchedFile {
        name: Safe::line(&want.path).to_string(),
        bytes,
    }
}

/// The files with a copy of the same size here, and those without. Blocks.
fn by_size(
    folder: &Path,
    compared: Vec<FileComparison>,
) -> (Vec<FileComparison>, Vec<UnfetchedFile>) {
    let mut folder = Folder::open(folder).ok();
    let (mut candidates, mut missing) = (Vec::new(), Vec::new());
    for mut one in compared {
        // Only the node knows the length of a lost run's log.
        let unknown = one.want.log && one.bytes == 0;
        let bytes = one.bytes;
        if let Some(folder) = &mut folder {
            one.places.retain(|place| {
                folder
                    .there(place)
                    .is_some_and(|(size, _)| unknown || size == bytes)
            });
        }
        if (folder.is_some() && !one.places.is_empty()) || unknown {
            candidates.push(one)
        } else {
            missing.push(stays(&one.want, one.bytes))
        }
    }
    (candidates, missing)
}

/// The files whose content differs between here and there.
async fn by_hash(way: &Way, compared: &[FileComparison]) -> Result<Vec<UnfetchedFile>, Trouble> {
    let request = v1::ReadFilesRequest {
        run: Some(way.run.clone()),
        incarnation: way.start,
        files: compared.iter().map(|one| one.want.clone()).collect(),
        hash_only: true,
    };
    let folder = way.folder.clone();
    let wanted = compared
        .iter()
        .map(|one| (one.places.clone(), one.want.clone(), one.bytes));
    let wanted: Vec<_> = wanted.collect();
    let (tx, mut rx) = mpsc::channel::<v1::FilePart>(4);
    let comparing = tokio::task::spawn_blocking(move || {
        let mut folder = Folder::open(&folder).ok();
        let mut told: HashMap<usize, v1::FilePart> = HashMap::new();
        let (mut at, mut differ) = (0, Vec::new());
        while at < wanted.len() {
            let Some(part) = rx.blocking_recv() else {
                break;
            };
            if part.last || !part.problem.is_empty() {
                told.insert(at, part);
                at += 1;
            }
        }
        for (at, (places, want, bytes)) in wanted.into_iter().enumerate() {
            let Some(part) = told.get(&at) else {
                differ.push(stays(&want, bytes));
                continue;
            };
            let is_whole = part.problem.is_empty() && !part.changed;
            // An empty log contains nothing that could be lost.
            let none = want.log && bytes == 0 && is_whole && part.offset == 0;
            let mut same = |place: &PathBuf| {
                let found = folder.as_mut().map(|folder| hash_of(folder, place));
                matches!(found, Some(Ok(hash)) if hash.as_bytes().as_slice() == part.hash)
            };
            let is_home = none || (is_whole && places.iter().any(&mut same));
            if !is_home {
                differ.push(stays(&want, bytes.max(part.offset)));
            }
        }
        differ
    });
    let pumped = fetch::pump(way.client.clone(), request, tx).await;
    let differ = comparing.await.map_err(ended_early)?;
    pumped?;
    Ok(differ)
}

fn hash_of(folder: &mut Folder, place: &Path) -> io::Result<blake3::Hash> {
    const BUFFER_BYTES: usize = 256 * 1024;
    let mut file: File = folder.open_file(place)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => {
                hasher.update(&buffer[..length]);
            }
        }
    }
}
