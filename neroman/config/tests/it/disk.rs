//! The file on the disk: rights, links, other writers.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nero_config::{Config, ConfigFile, Edit, EditError, WriteError};

fn add(name: &str) -> Edit {
    Edit::AddNode {
        name: name.to_owned(),
        fields: vec![("address".to_owned(), "x".to_owned())],
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_missing_file_is_made_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/config.yaml");
    add("box").apply(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert!(Config::read(&path).unwrap().node("box").is_some());
}

#[test]
fn rights_and_links_stay() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("dotfiles.yaml");
    fs::write(&real, "# mine\n").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    let path = folder.path().join("etc/config.yaml");
    symlink("link.yaml", &path).unwrap();
    symlink("../dotfiles.yaml", folder.path().join("etc/link.yaml")).unwrap();
    add("box").apply(&path).unwrap();
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("link.yaml"));
    assert_eq!(mode(&real), 0o644);
    let text = fs::read_to_string(&real).unwrap();
    assert_eq!(text, "# mine\nnodes:\n  box:\n    address: x\n");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing temporary stays: {left:?}");
}

#[test]
fn a_change_by_another_process_meanwhile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    for (first, second) in [(None, "nodes:\n"), (Some("# a\n"), "# b\n")] {
        if let Some(first) = first {
            fs::write(&path, first).unwrap();
        }
        let file = ConfigFile::open(&path).unwrap();
        fs::write(&path, second).unwrap();
        let error = file.write("# ours\n").unwrap_err();
        assert!(matches!(error, WriteError::Changed { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), second);
    }
}

#[test]
fn a_refused_change_leaves_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, "nodes: {box: {address: y}}\n").unwrap();
    let before = fs::metadata(&path).unwrap();
    let error = add("box").apply(&path).unwrap_err();
    assert!(matches!(error, EditError::Exists { .. }), "{error}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());

    let circle = folder.path().join("circle.yaml");
    symlink("circle.yaml", &circle).unwrap();
    assert!(matches!(
        add("box").apply(&circle),
        Err(EditError::Config(_))
    ));
}

#[test]
fn concurrent_edits_of_the_configuration_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for round in 0..8 {
                    let edit = add(&format!("n{writer}-{round}"));
                    while let Err(error) = edit.apply(path) {
                        let again = matches!(error, EditError::Write(WriteError::Changed { .. }));
                        assert!(again, "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(Config::read(&path).unwrap().nodes.len(), 1 + 4 * 8);
}
