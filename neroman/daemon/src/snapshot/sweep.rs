//! Removes frozen files that no run has named for a while: marked from the runs,
//! swept from the store. A freeze renews the time of the files that it takes, so
//! that no file is swept between a freeze and its run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nero_model::ids::hex;
use nero_pack::Pack;
use nero_wire::v1::Tree;
use prost::Message as _;

/// How long a file must be unnamed before it is removed.
pub(crate) const UNNAMED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a private file of a killed freeze stays.
const PRIVATE: Duration = Duration::from_secs(24 * 3600);

/// The files that were removed, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// The names of all files in these trees, the trees included. A tree that is
/// missing or damaged has no usable files.
pub(crate) fn named(store: &Path, trees: impl Iterator<Item = String>) -> HashSet<String> {
    let mut names = HashSet::new();
    for tree in trees {
        let path = store.join(tree.get(..2).unwrap_or("")).join(&tree);
        if let Ok(bytes) = fs::read(path)
            && let Ok(decoded) = Tree::decode(bytes.as_slice())
        {
            names.extend(decoded.entries.iter().map(|entry| hex(&entry.hash)));
        }
        names.insert(tree);
    }
    names
}

/// Sweeps the store. Blocks. Files that cannot be looked at stay.
pub(crate) fn sweep(store: &Path, named: &HashSet<String>, dry_run: bool) -> Swept {
    let mut swept = Swept::default();
    let now = SystemTime::now();
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && name.len() == 2 {
            for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if !named.contains(&name) {
                    swept.take(&file, now, UNNAMED, dry_run);
                }
            }
        } else if kind.is_dir() && name == nero_pack::FOLDER {
            for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                match Pack::open(&file.path()) {
                    Ok(pack) => swept.pack(store, pack, now, named, dry_run),
                    // A pack that is incomplete has no contents.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        swept.take(&file, now, UNNAMED, dry_run);
                    }
                    // The pack cannot be read now.
                    Err(_) => {}
                }
            }
        } else if kind.is_file() && name.starts_with('.') {
            swept.take(&entry, now, PRIVATE, dry_run);
        }
    }
    swept
}

impl Swept {
    /// Removes the unnamed contents of an old pack, if they are all or at least
    /// half of it: the rest is written anew.
    fn pack(
        &mut self,
        store: &Path,
        pack: Pack,
        now: SystemTime,
        named: &HashSet<String>,
        dry_run: bool,
    ) {
        let age = now.duration_since(pack.modified());
        if age.map_or(true, |age| age < UNNAMED) {
            return;
        }
        let all: u64 = pack.contents().map(|(_, length)| length).sum();
        let goes = pack
            .contents()
            .filter(|(hash, _)| !named.contains(&hex(*hash)));
        let goes: HashMap<[u8; 32], u64> = goes.map(|(hash, length)| (*hash, length)).collect();
        let whole = goes.len() == pack.hashes().count();
        let (files, bytes) = match whole {
            true => (1, pack.bytes()),
            false => (goes.len() as u64, goes.values().sum()),
        };
        if !whole && (goes.is_empty() || bytes < all / 2) {
            return;
        }
        let stays = |_: &Pack, hash: &_| !goes.contains_key(hash);
        let pack = [pack];
        let done = dry_run
            || nero_pack::rewrite(store, &pack, stays)
                .and_then(|new| nero_pack::remove(&pack, &new))
                .is_ok();
        if done {
            self.files += files;
            self.bytes += bytes;
        }
    }

    fn take(&mut self, file: &fs::DirEntry, now: SystemTime, after: Duration, dry_run: bool) {
        let Ok(found) = file.metadata() else { return };
        let age = found
            .modified()
            .ok()
            .and_then(|at| now.duration_since(at).ok());
        if !found.is_file() || age.is_none_or(|age| age < after) {
            return;
        }
        if dry_run || fs::remove_file(file.path()).is_ok() {
            self.files += 1;
            self.bytes += found.len();
        }
    }
}
