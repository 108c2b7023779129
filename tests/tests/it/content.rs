//! Jobs read the frozen content, even if the original files have changed or
//! vanished.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nero_tests::Home;

use crate::story::added;

/// The files of the node's store that hold this content.
fn stored(home: &Home, content: &[u8]) -> Vec<PathBuf> {
    let mut folders = vec![home.base()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if is_of_node(&path) && fs::read(&path).is_ok_and(|bytes| bytes == content) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a file is in the node's store and not in neroman's own.
fn is_of_node(path: &Path) -> bool {
    let path = path.display().to_string();
    path.contains("/store/") && path.contains("/node")
}

#[test]
fn no_job_reads_a_stored_file_that_was_changed_and_the_run_gets_the_right_one() {
    let home = Home::new();
    let folder = home.experiment("e", "collection: e\n+a: {command: cat in.txt}\n");
    fs::write(folder.join("in.txt"), "loss 0.5\n").unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    // `None`: a folder is put in its place.
    for changed in [Some("loqs 0.5\n"), Some(""), None] {
        let stored = stored(&home, b"loss 0.5\n");
        assert_eq!(stored.len(), 1, "{stored:?}");
        fs::set_permissions(&stored[0], fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(changed) = changed {
            fs::write(&stored[0], changed).unwrap();
        } else {
            fs::remove_file(&stored[0]).unwrap();
            fs::create_dir(&stored[0]).unwrap();
        }
        home.ok(&["restart", "1"]);
        home.ok(&["wait", "1"]);
        assert_eq!(home.ok(&["logs", "1"]), "loss 0.5\n", "after {changed:?}");
    }
    let history = home.ok(&["show", "1"]);
    assert!(
        history.contains("1.2: given back by local")
            && history.contains("the stored content of in.txt is damaged"),
        "{history}"
    );
}

#[test]
fn no_run_can_write_into_the_files_of_another() {
    let home = Home::new();
    let yaml = "collection: e
+a: {command: [sh, -c, 'head -c 4 data.bin; printf EVIL | dd of=data.bin conv=notrunc 2>/dev/null']}
";
    let folder = home.experiment("e", yaml);
    let mut content = b"good".to_vec();
    content.resize(20_000_000, 0);
    fs::write(folder.join("data.bin"), content).unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    for _ in 0..2 {
        home.ok(&["restart", "1"]);
        home.ok(&["wait", "1"]);
        assert_eq!(home.ok(&["logs", "1"]), "good");
    }
}

#[test]
fn mode_link_shares_one_read_only_file_among_runs() {
    let home = Home::new();
    let yaml = "
collection: e
files: ['*', {path: '*.bin', mode: link}]
+a: {command: [sh, -c, 'readlink data.bin; readlink own.txt; cat data.bin own.txt']}
";
    let folder = added(&home, "e", yaml);
    fs::write(Path::new(&folder).join("data.bin"), "shared\n").unwrap();
    fs::write(Path::new(&folder).join("own.txt"), "own\n").unwrap();
    let logs = [1, 2].map(|_| {
        home.ok(&["restart", "1"]);
        home.ok(&["wait", "1"]);
        home.ok(&["logs", "1"])
    });
    assert_eq!(logs[0], logs[1]);
    let lines: Vec<&str> = logs[0].lines().collect();
    let [link, "shared", "own"] = lines[..] else {
        panic!("{lines:?}");
    };
    let mode = fs::metadata(link).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o400);
}
