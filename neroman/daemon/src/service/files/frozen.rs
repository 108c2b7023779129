//! `Code`: the frozen files of runs, out of the store.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nero_blobs::{Hash, Packs};
use nero_wire::v1::{self, Tree, TreeEntry};
use prost::Message as _;

use crate::service::select;
use crate::service::{Man, Sink, blocking};
use nero_home::failure::Failure;

/// Bytes of one part of a file.
const PART_BYTES: usize = 256 * 1024;

/// Most runs of one call: each holds its list of files.
const RUNS_MAX: usize = 2;

/// The files of a run by path.
type Files = BTreeMap<String, TreeEntry>;

impl Man {
    /// Sends the frozen files of runs.
    pub(crate) async fn code(
        &self,
        request: v1::CodeRequest,
        sink: Sink<v1::CodePart>,
    ) -> Result<(), Failure> {
        if request.runs.len() > RUNS_MAX {
            return Err(Failure::usage(
                "the code of two runs at most is sent at a time",
            ));
        }
        let state = self.ledger.state();
        let mut trees = Vec::new();
        for what in &request.runs {
            let chosen = select::choose_single(&state, what, self.now())?;
            let run = chosen.run_in(&state);
            trees.push(run.map(|run| run.made.tree.clone()).unwrap_or_default());
        }
        let store = self.home.store();
        blocking(move || send(&store, &trees, &request, &sink)).await?
    }
}

/// Sends the files of these trees. Blocks. Ends early when the client has left.
fn send(
    store: &Path,
    trees: &[String],
    request: &v1::CodeRequest,
    sink: &Sink<v1::CodePart>,
) -> Result<(), Failure> {
    let cannot = |error: &io::Error| {
        Failure::failed("cannot read the store of frozen files").caused_by(error)
    };
    let mut all: Vec<Files> = Vec::new();
    for tree in trees {
        all.push(files(store, tree)?);
    }
    if let (true, [one, other]) = (request.differing, all.as_mut_slice()) {
        one.retain(|path, entry| match other.get(path) {
            Some(same) if is_same(entry, same) => {
                other.remove(path);
                false
            }
            Some(_) | None => true,
        });
    }
    let packs = Packs::open(store).map_err(|error| cannot(&error))?;
    for (of, files) in (0..).zip(all) {
        for entry in files.into_values() {
            let max = request.file_bytes_max;
            let mut first = v1::CodePart {
                of,
                too_long: max > 0 && entry.size > max,
                file: Some(entry.clone()),
                ..v1::CodePart::default()
            };
            let wanted = !first.too_long && entry.link.is_empty();
            let mut content = match wanted.then(|| FrozenContent::open(store, &packs, &entry)) {
                Some(Ok(content)) => Some(content),
                Some(Err(error)) => {
                    first.problem = error.to_string();
                    None
                }
                None => None,
            };
            let mut part = first;
            loop {
                let mut goes_on = false;
                if let Some(content) = &mut content {
                    match content.part() {
                        Ok(data) => {
                            goes_on = !data.is_empty();
                            part.data = data;
                        }
                        Err(error) => part.problem = error.to_string(),
                    }
                }
                let is_news =
                    part.file.is_some() || !part.data.is_empty() || !part.problem.is_empty();
                if is_news && sink.blocking_send(Ok(part)).is_err() {
                    return Ok(());
                }
                if !goes_on {
                    break;
                }
                part = v1::CodePart {
                    of,
                    ..v1::CodePart::default()
                };
            }
        }
    }
    Ok(())
}

fn is_same(one: &TreeEntry, other: &TreeEntry) -> bool {
    let facts = |entry: &TreeEntry| (entry.hash.clone(), entry.link.clone(), entry.executable);
    facts(one) == facts(other)
}

/// The files of a tree; a run without code has none.
fn files(store: &Path, tree: &str) -> Result<Files, Failure> {
    let Some(hash) = nero_blobs::parse(tree) else {
        return Ok(Files::new());
    };
    let path = nero_blobs::path(store, &hash);
    let gone = Failure::failed(format!(
        "the list of the frozen files {tree} cannot be read"
    ));
    let bytes = fs::read(&path).map_err(|error| gone.clone().caused_by(&error))?;
    if *blake3::hash(&bytes).as_bytes() != hash {
        return Err(gone.because("it is damaged"));
    }
    let tree = Tree::decode(bytes.as_slice()).map_err(|error| gone.caused_by(&error))?;
    let entries = tree.entries.into_iter();
    Ok(entries.map(|entry| (entry.path.clone(), entry)).collect())
}

/// The content of one frozen file.
struct FrozenContent {
    source: Box<dyn io::Read>,
    hasher: blake3::Hasher,
    hash: Hash,
    is_over: bool,
}

impl FrozenContent {
    fn open(store: &Path, packs: &Packs, entry: &TreeEntry) -> io::Result<Self> {
        let unsound = || io::Error::other("its entry names no content");
        let hash = Hash::try_from(&*entry.hash).map_err(|_| unsound())?;
        let source: Box<dyn io::Read> = match packs.find(&hash) {
            Some(packed) => Box::new(io::Cursor::new(packed.read()?)),
            None => {
                let path: PathBuf = nero_blobs::path(store, &hash);
                Box::new(File::open(path)?.take(entry.size))
            }
        };
        Ok(Self {
            source,
            hasher: blake3::Hasher::new(),
            hash,
            is_over: false,
        })
    }

    /// The next bytes; none at the end.
    fn part(&mut self) -> io::Result<Vec<u8>> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let mut data = Vec::new();
        let limit = PART_BYTES as u64;
        self.source.by_ref().take(limit).read_to_end(&mut data)?;
        self.hasher.update(&data);
        if data.len() < PART_BYTES {
            self.is_over = true;
            if *self.hasher.finalize().as_bytes() != self.hash {
                return Err(io::Error::other("the frozen file is damaged"));
            }
        }
        Ok(data)
    }
}
