//! The removal of all files of a node, when its agent has ended.

use std::fs;
use std::io;
use std::path::PathBuf;

use nero_model::paths::NodePaths;

use super::remove;

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
/// the last deployment the programs and the root.
///
/// # Errors
/// When something cannot be removed.
pub fn obey(paths: &NodePaths) -> io::Result<()> {
    if !order_file(paths).exists() {
        return Ok(());
    }
    let take = |folder: PathBuf| {
        remove::empty(&folder)?;
        fs::remove_dir(&folder)
    };
    take(paths.mum())?;
    let has_others = fs::remove_dir(paths.deployment().join("mum")).is_err();
    if has_others {
        return Ok(());
    }
    take(paths.deployment().to_path_buf())?;
    let mut entries = fs::read_dir(paths.root())?.flatten();
    if entries.all(|entry| paths.root().join(entry.file_name()) == paths.bin()) {
        take(paths.bin())?;
        fs::remove_dir(paths.root())?;
    }
    Ok(())
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
