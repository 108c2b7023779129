//! The folders in which the modules of a run are looked for.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use nero_blobs::{Hash, Packs};
use nero_wire::v1::Tree;
use prost::Message as _;

use super::{Code, ProcessedRun};

/// Bytes of frozen modules that are laid out.
const BYTES_MAX: u64 = 64 << 20;

/// The folder that gets the frozen modules of a run of a call. `at`: its place in the call.
pub(super) fn frozen(call: &Path, at: usize) -> PathBuf {
    call.join(format!("modules-{at}"))
}

/// The folders of modules, best first. A module that was not frozen, because `files` leaves it
/// out, is taken from the experiment's folder; so is everything when a person asks. Blocks.
pub(super) fn folders(
    call: &Path,
    store: &Path,
    run: &ProcessedRun,
    code: Code,
) -> io::Result<Vec<PathBuf>> {
    if code == Code::Present && run.source.is_dir() {
        return Ok(vec![run.source.clone()]);
    }
    let mut at = 0;
    let mut folder = frozen(call, at);
    while folder.exists() {
        at += 1;
        folder = frozen(call, at);
    }
    fs::create_dir(&folder)?;
    lay_out(store, &run.tree, &folder)?;
    Ok(vec![folder, run.source.clone()])
}

/// Writes the modules of a frozen tree into a folder.
fn lay_out(store: &Path, tree: &str, folder: &Path) -> io::Result<()> {
    let Some(hash) = nero_blobs::parse(tree) else {
        return Ok(());
    };
    let bytes = fs::read(nero_blobs::path(store, &hash))?;
    let tree = Tree::decode(bytes.as_slice()).map_err(io::Error::other)?;
    let packs = Packs::open(store)?;
    let mut left = BYTES_MAX;
    for entry in &tree.entries {
        let path = Path::new(&entry.path);
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let is_module = path.extension().is_some_and(|ending| ending == "py");
        let Ok(hash) = Hash::try_from(&*entry.hash) else {
            continue;
        };
        if !is_below || !is_module || entry.size > left {
            continue;
        }
        left -= entry.size;
        let content = match packs.find(&hash) {
            Some(packed) => packed.read()?,
            None => {
                let mut content = Vec::new();
                let file = fs::File::open(nero_blobs::path(store, &hash))?;
                file.take(entry.size).read_to_end(&mut content)?;
                content
            }
        };
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}
