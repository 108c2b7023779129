//! The removal of all files of a node, when its agent has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_model::paths::NodePaths;
use nero_node::clean::remove;

/// The file by which it is ordered.
fn order_file(paths: &NodePaths) -> PathBuf {
    paths.mum().join("purge")
}

/// Orders the removal for the end of this agent.
///
/// # Errors
/// When the file cannot be made.
pub fn order(paths: &NodePaths) -> io::Result<()> {
    fs::write(order_file(paths), "")
}

/// Takes an order of an earlier agent back: it was killed.
pub fn withdraw(paths: &NodePaths) {
    let _ = fs::remove_file(order_file(paths));
}

/// Removes the files, if that was ordered: with the last node of a deployment its folder, and with
/// the last deployment the programs and the root. The node's own folder goes last: as long as it
/// is there, something may be left.
///
/// # Errors
/// When something cannot be removed.
pub fn obey(paths: &NodePaths) -> io::Result<()> {
    if !order_file(paths).exists() {
        return Ok(());
    }
    let own = paths.mum();
    let nodes = paths.deployment().join("mum");
    let going = own.join("going");
    fs::create_dir_all(&going)?;
    // An earlier agent may have died here. Its folders would be in the way of those that move now.
    remove::empty(&going)?;
    if others(&nodes, &[&own])?.is_empty() {
        for path in others(paths.deployment(), &[&nodes])? {
            fs::rename(&path, going.join(path.file_name().unwrap_or_default()))?;
        }
        let is_last = others(paths.root(), &[paths.deployment(), &paths.bin()])?.is_empty();
        if is_last && paths.bin().exists() {
            fs::rename(paths.bin(), going.join("programs"))?;
        }
    }
    remove::empty(&own)?;
    fs::remove_dir(&own)?;
    // A folder with something of others stays, and so do those around it.
    let around = [&nodes, paths.deployment(), paths.root()];
    let _ = around.iter().try_for_each(fs::remove_dir);
    Ok(())
}

/// What is in a folder beside these.
fn others(folder: &Path, known: &[&Path]) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: io::Result<Vec<PathBuf>> = paths.collect();
    let is_other = |path: &PathBuf| !known.contains(&path.as_path());
    Ok(paths?.into_iter().filter(is_other).collect())
}

#[cfg(test)]
mod tests {
    use nero_model::DeploymentId;

    use super::*;

    #[test]
    fn files_of_others_below_the_same_root_stay() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let ids = [DeploymentId::random(), DeploymentId::random()];
        let of = |id: usize, node: &str| NodePaths::new(&root, &ids[id], node);
        let nodes = [of(0, "a"), of(0, "b"), of(1, "a")];
        for paths in &nodes {
            fs::create_dir_all(paths.mum().join("images")).unwrap();
            fs::create_dir_all(paths.store()).unwrap();
            // What an agent has left that was killed while it removed its files.
            for moved in ["programs/build", "store/pack"] {
                fs::create_dir_all(paths.mum().join("going").join(moved)).unwrap();
            }
        }
        fs::create_dir_all(nodes[0].bin().join("build")).unwrap();
        obey(&nodes[0]).unwrap();
        assert!(nodes[0].mum().exists(), "nobody ordered it");
        for (paths, wanted) in [
            (&nodes[0], [false, true, true]),
            (&nodes[1], [false, false, true]),
            (&nodes[2], [false, false, false]),
        ] {
            order(paths).unwrap();
            obey(paths).unwrap();
            let there = [&nodes[0], &nodes[1], &nodes[2]].map(|paths| paths.mum().exists());
            assert_eq!(there, wanted);
            let has_store = [&nodes[1], &nodes[2]].map(|paths| paths.store().exists());
            assert_eq!(has_store, [wanted[1], wanted[2]]);
        }
        assert!(!root.exists());
    }
}
