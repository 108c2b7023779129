use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nero_wire::v1::Tree;
use prost::Message as _;

use super::*;

struct SourceFolder {
    _temp: tempfile::TempDir,
    folder: PathBuf,
    store: PathBuf,
    cache: Cache,
}

impl SourceFolder {
    fn new(files: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let place = Self {
            folder: temp.path().join("work"),
            store: temp.path().join("data/store"),
            _temp: temp,
            cache: Cache::default(),
        };
        fs::create_dir(&place.folder).unwrap();
        for (path, content) in files {
            place.write(path, content);
        }
        place
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }

    fn freeze(&mut self, wanted: &FileSelection) -> FolderSnapshot {
        self.try_freeze(wanted, false).unwrap()
    }

    fn try_freeze(
        &mut self,
        wanted: &FileSelection,
        big: bool,
    ) -> Result<FolderSnapshot, SnapshotError> {
        freeze(&self.folder, wanted, &self.store, &mut self.cache, big)
    }

    fn paths(&mut self, wanted: &FileSelection) -> Vec<String> {
        paths(&self.freeze(wanted))
    }

    fn blob(&self, hash: &[u8]) -> PathBuf {
        nero_blobs::path(&self.store, hash)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(&self.folder)
            .args(["-c", "user.name=ann", "-c", "user.email=ann@example.org"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn paths(frozen: &FolderSnapshot) -> Vec<String> {
    frozen
        .tree
        .entries
        .iter()
        .map(|entry| entry.path.clone())
        .collect()
}

fn globs(files: &[&str]) -> FileSelection {
    FileSelection {
        files: Some(files.iter().map(|glob| (*glob).to_owned()).collect()),
        ..FileSelection::default()
    }
}

#[test]
fn content_lies_in_the_store_and_the_tree_beside_it() {
    let mut place = SourceFolder::new(&[
        ("train.py", "print(1)"),
        ("lib/a.py", "a"),
        (".hidden", "h"),
    ]);
    fs::set_permissions(
        place.folder.join("train.py"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let frozen = place.freeze(&FileSelection::default());
    assert_eq!(paths(&frozen), [".hidden", "lib/a.py", "train.py"]);
    assert_eq!((frozen.files, frozen.bytes), (3, 10));
    assert!(frozen.tree.entries[2].executable && !frozen.tree.entries[1].executable);
    for entry in &frozen.tree.entries {
        let blob = place.blob(&entry.hash);
        let content = fs::read(&blob).unwrap();
        assert_eq!(blake3::hash(&content).as_bytes().as_slice(), entry.hash);
        assert_eq!(content, fs::read(place.folder.join(&entry.path)).unwrap());
        assert_eq!(blob.metadata().unwrap().permissions().mode() & 0o777, 0o400);
    }
    let tree = fs::read(place.blob(&frozen.tree_hash)).unwrap();
    assert_eq!(Tree::decode(tree.as_slice()).unwrap(), frozen.tree);
    assert_eq!(frozen.git, None);
    let left: Vec<_> = fs::read_dir(&place.store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().len())
        .collect();
    assert!(
        left.iter().all(|length| *length == 2),
        "private names were left"
    );
}

#[test]
fn the_same_content_is_the_same_tree_and_a_change_another() {
    let mut place = SourceFolder::new(&[("a", "1"), ("b", "1")]);
    let first = place.freeze(&FileSelection::default());
    assert_eq!(place.freeze(&FileSelection::default()), first);
    place.write("a", "2");
    let second = place.freeze(&FileSelection::default());
    assert_ne!(second.tree_hash, first.tree_hash);
    assert_eq!(second.tree.entries[1], first.tree.entries[1]);
}

#[test]
fn ignored_files_stay_behind() {
    let mut place = SourceFolder::new(&[
        (".gitignore", "*.log\n/build/\n"),
        (".neroignore", "big/\n"),
        ("a.py", ""),
        ("x.log", ""),
        ("build/out", ""),
        ("big/data", ""),
        ("sub/.gitignore", "!keep.log\n"),
        ("sub/keep.log", ""),
        ("results/old/stdout.log", ""),
        ("elsewhere/r", ""),
        (".git/config", ""),
        ("sub/.neronet/x", ""),
        ("deep/results/kept", ""),
    ]);
    let wanted = FileSelection {
        left_out: vec![PathBuf::from("elsewhere")],
        ..FileSelection::default()
    };
    assert_eq!(
        place.paths(&wanted),
        [
            ".gitignore",
            ".neroignore",
            "a.py",
            "deep/results/kept",
            "sub/.gitignore",
            "sub/keep.log"
        ]
    );
    // Named files travel, ignored or not.
    let wanted = FileSelection {
        required: vec!["big".to_owned(), "./x.log".to_owned()],
        main: Some("build/out".to_owned()),
        ..globs(&["*.py"])
    };
    assert_eq!(
        place.paths(&wanted),
        ["a.py", "big/data", "build/out", "x.log"]
    );
    let missing = FileSelection {
        required: vec!["nowhere".to_owned()],
        ..FileSelection::default()
    };
    let error = place.try_freeze(&missing, false).unwrap_err();
    assert!(matches!(error, SnapshotError::Missing { .. }), "{error}");
}

#[test]
fn ignore_files_above_a_folder_without_git_say_nothing() {
    let mut place = SourceFolder::new(&[("a.py", "")]);
    fs::write(place.folder.parent().unwrap().join(".gitignore"), "*\n").unwrap();
    assert_eq!(place.paths(&FileSelection::default()), ["a.py"]);
}

#[test]
fn globs_pick_what_is_not_ignored() {
    let mut place = SourceFolder::new(&[
        (".gitignore", "venv/\ndata/\n"),
        ("a.py", ""),
        ("lib/b.py", ""),
        ("venv/c.py", ""),
        ("data/x/y", ""),
        ("notes.txt", ""),
    ]);
    assert_eq!(
        place.paths(&globs(&["*.py", "data/"])),
        ["a.py", "data/x/y", "lib/b.py"]
    );
    assert_eq!(place.paths(&globs(&["/lib/**"])), ["lib/b.py"]);
    assert_eq!(place.paths(&globs(&[])), [] as [&str; 0]);
}

#[test]
fn links_stay_links_and_special_files_stay_behind() {
    let mut place = SourceFolder::new(&[("lib/a.py", "")]);
    let folder = place.folder.clone();
    symlink("/etc/passwd", folder.join("out")).unwrap();
    symlink("lib/a.py", folder.join("in")).unwrap();
    symlink(folder.join("lib/a.py"), folder.join("lib/absolute")).unwrap();
    symlink("../../elsewhere", folder.join("lib/up")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("sock")).unwrap();
    let frozen = place.freeze(&FileSelection::default());
    let links: Vec<_> = frozen
        .tree
        .entries
        .iter()
        .map(|entry| (entry.path.as_str(), entry.link.as_str()))
        .collect();
    assert_eq!(
        links,
        [
            ("in", "lib/a.py"),
            ("lib/a.py", ""),
            ("lib/absolute", "../lib/a.py"),
            ("lib/up", "../../elsewhere"),
            ("out", "/etc/passwd"),
        ]
    );
    assert_eq!(frozen.notes.len(), 4, "{:?}", frozen.notes);
}

#[test]
fn too_much_is_refused_with_the_line_to_add() {
    let mut place = SourceFolder::new(&[("train.py", "x"), ("data/small", "y")]);
    let large = fs::File::create(place.folder.join("data/large.bin")).unwrap();
    large.set_len(BYTES_MAX + 1).unwrap();
    let error = place
        .try_freeze(&FileSelection::default(), false)
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("data/ (200 MB in 2 files)"), "{text}");
    assert!(error.hint().unwrap().contains("`/data/`"));
    place.write(".neroignore", "/data/\n");
    assert_eq!(
        place.paths(&FileSelection::default()),
        [".neroignore", "train.py"]
    );
    fs::remove_file(place.folder.join(".neroignore")).unwrap();
    let big = place.try_freeze(&FileSelection::default(), true).unwrap();
    assert_eq!(big.bytes, BYTES_MAX + 3);
}

#[test]
fn unchanged_files_are_not_read_again() {
    let mut place = SourceFolder::new(&[("a", "1"), ("b", "2")]);
    place.freeze(&FileSelection::default());
    // A file this new could change with the same stamp.
    let stamp = nero_blobs::Stamp::of(&place.folder.join("a").metadata().unwrap());
    assert_eq!(place.cache.hash(&place.folder.join("a"), &stamp), None);
    // The change time cannot be set back; the test tells the cache that it is
    // old.
    let stamp = nero_blobs::Stamp::of(&place.folder.join("a").metadata().unwrap());
    place.cache.believe(&place.folder.join("a"), stamp, [5; 32]);
    let wrong = place.blob(&[5; 32]);
    fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    fs::write(&wrong, "1").unwrap();
    let frozen = place.freeze(&FileSelection::default());
    assert_eq!(frozen.tree.entries[0].hash, [5; 32], "it was read");
    // A file that is gone from the store is read again.
    fs::remove_file(&wrong).unwrap();
    let frozen = place.freeze(&FileSelection::default());
    assert_eq!(frozen.tree.entries[0].hash, blake3::hash(b"1").as_bytes());
}

/// The time when the store's own folder last got or lost a name.
fn store_changed(place: &SourceFolder) -> SystemTime {
    place.store.metadata().unwrap().modified().unwrap()
}

#[test]
fn a_long_file_that_is_only_newer_is_not_copied_again() {
    let mut place = SourceFolder::new(&[]);
    let path = place.folder.join("long");
    fs::write(&path, vec![7; 3 << 20]).unwrap();
    let first = place.freeze(&FileSelection::default());
    let before = store_changed(&place);
    // Frozen when it was new, and touched since.
    fs::File::open(&path)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let again = place.freeze(&FileSelection::default());
    assert_eq!(again.tree_hash, first.tree_hash);
    assert_eq!(store_changed(&place), before, "it was copied");
    // A file with other content of the same size is copied.
    fs::write(&path, vec![8; 3 << 20]).unwrap();
    let other = place.freeze(&FileSelection::default());
    let hash = blake3::hash(&vec![8; 3 << 20]);
    assert_eq!(other.tree.entries[0].hash, hash.as_bytes());
    assert!(place.blob(hash.as_bytes()).is_file());
}

fn many(place: &SourceFolder, count: usize, word: &str) {
    for number in 0..count {
        place.write(&format!("d/f{number}"), &format!("{word} {number}"));
    }
}

/// Contents of packs, and files of their own.
fn kept(place: &SourceFolder) -> (usize, usize) {
    let packs = nero_blobs::Packs::open(&place.store).unwrap();
    let packed = packs.iter().flat_map(nero_blobs::Pack::hashes).count();
    let folders = fs::read_dir(&place.store).unwrap().flatten();
    let folders = folders.filter(|entry| entry.file_name().len() == 2);
    let alone = folders.map(|folder| fs::read_dir(folder.path()).unwrap().count());
    (packed, alone.sum())
}

#[test]
fn many_small_files_are_kept_in_one() {
    let mut place = SourceFolder::new(&[]);
    many(&place, 200, "first");
    place.write("large", &"x".repeat(100_000));
    let frozen = place.freeze(&FileSelection::default());
    // The large file and the tree lie beside it.
    assert_eq!(kept(&place), (200, 2));
    let packs = nero_blobs::Packs::open(&place.store).unwrap();
    for entry in &frozen.tree.entries {
        if entry.path != "large" {
            let hash = entry.hash.as_slice().try_into().unwrap();
            let content = packs.find(hash).unwrap().read().unwrap();
            assert_eq!(content, fs::read(place.folder.join(&entry.path)).unwrap());
        }
    }
    // Unchanged, it adds nothing; a few changes are files of their own.
    assert_eq!(place.freeze(&FileSelection::default()), frozen);
    place.write("d/f7", "changed");
    place.freeze(&FileSelection::default());
    assert_eq!(kept(&place), (200, 4));
    let left = fs::read_dir(&place.store).unwrap().flatten();
    let private = left.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
    assert_eq!(private.count(), 0);
}

#[test]
fn a_pack_is_swept_when_nothing_of_it_has_been_named_for_long() {
    let mut place = SourceFolder::new(&[]);
    many(&place, 100, "first");
    let frozen = place.freeze(&FileSelection::default());
    let packs = place.store.join(nero_blobs::FOLDER);
    let [pack] = fs::read_dir(&packs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let age = |path: &std::path::Path| {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 24 * 3600);
        let file = fs::File::open(path).unwrap();
        file.set_modified(old).unwrap();
    };
    let nothing = std::collections::HashSet::new();
    sweep(&place.store, &nothing, false);
    assert!(pack.exists(), "it is new");
    age(&pack);
    // Most of it is named: it stays as it is.
    let most = frozen.tree.entries[..60].iter();
    let most = most
        .map(|entry| nero_blobs::Hash::try_from(&*entry.hash).unwrap())
        .collect();
    assert_eq!(sweep(&place.store, &most, false).files, 0);
    assert!(pack.exists());
    // A pack of which any content is kept again is new.
    fs::remove_dir_all(&place.folder).unwrap();
    many(&place, 1, "first");
    place.freeze(&FileSelection::default());
    sweep(&place.store, &nothing, false);
    assert!(pack.exists(), "it was taken again");
    age(&pack);
    sweep(&place.store, &nothing, true);
    assert!(pack.exists(), "that was a rehearsal");
    assert!(sweep(&place.store, &nothing, false).files >= 1);
    assert!(!pack.exists());
    // Contents that are gone are kept anew.
    many(&place, 100, "first");
    assert_eq!(place.freeze(&FileSelection::default()).tree, frozen.tree);
    assert_eq!(kept(&place).0, 100);
}

#[test]
fn a_list_of_files_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let mut place = SourceFolder::new(&[("a", "first")]);
    let frozen = place.freeze(&FileSelection::default());
    let tree = nero_model::ids::hex(&frozen.tree_hash);
    let names = || super::named(&place.store, [tree.clone()].into_iter());
    assert_eq!(names().unwrap().len(), 2, "the tree and its file");
    let path = nero_blobs::path(&place.store, &frozen.tree_hash);
    let aside = place.store.join("aside");
    fs::rename(&path, &aside).unwrap();
    assert_eq!(
        names().unwrap().len(),
        1,
        "a tree that is gone names no file"
    );
    // No mode keeps root from reading; a folder in the file's place does.
    fs::create_dir(&path).unwrap();
    let unread = names().unwrap_err();
    assert!(unread.to_string().contains(&tree), "{unread}");
}

#[test]
fn files_of_an_old_pack_that_no_run_names_are_removed() {
    let mut place = SourceFolder::new(&[]);
    many(&place, 100, "first");
    let frozen = place.freeze(&FileSelection::default());
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 24 * 3600);
    let packs = nero_blobs::Packs::open(&place.store).unwrap();
    let path = packs.iter().next().unwrap().path();
    let file = fs::File::open(path).unwrap();
    file.set_modified(old).unwrap();
    let named = [0, 40, 99].map(|at: usize| frozen.tree.entries[at].hash.clone());
    let names = named
        .iter()
        .map(|hash| nero_blobs::Hash::try_from(&**hash).unwrap())
        .collect();
    let rehearsed = sweep(&place.store, &names, true);
    assert_eq!(kept(&place).0, 100, "that was a rehearsal");
    assert_eq!(rehearsed.files, 97);
    assert_eq!(sweep(&place.store, &names, false), rehearsed);
    assert_eq!(kept(&place).0, 3);
    let packs = nero_blobs::Packs::open(&place.store).unwrap();
    for hash in &named {
        let place = packs.find(hash.as_slice().try_into().unwrap()).unwrap();
        assert!(place.read().is_ok());
    }
    // A content that lost its name is no younger for that.
    sweep(&place.store, &std::collections::HashSet::new(), false);
    assert_eq!(kept(&place).0, 0);
}

#[test]
fn freezes_of_many_changes_do_not_leave_ever_more_packs() {
    let mut place = SourceFolder::new(&[]);
    for turn in 0..40 {
        many(&place, nero_blobs::CONTENTS_MIN, &format!("turn {turn}"));
        place.freeze(&globs(&["d/*"]));
    }
    let packs = nero_blobs::Packs::open(&place.store).unwrap();
    let count = packs.iter().count();
    assert!(count < 32, "{count} packs");
    assert_eq!(kept(&place).0, 40 * nero_blobs::CONTENTS_MIN);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let mut place = SourceFolder::new(&[]);
    let path = place.folder.join("growing");
    fs::write(&path, vec![b'a'; 4 << 20]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let frozen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // Each content is of one letter; a mixture was torn.
                for letter in [b'b', b'c'] {
                    let private = path.with_extension("new");
                    fs::write(&private, vec![letter; 4 << 20]).unwrap();
                    fs::rename(&private, &path).unwrap();
                }
            }
        });
        let frozen: Vec<_> = (0..10)
            .filter_map(|_| place.try_freeze(&globs(&["growing"]), false).ok())
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        frozen
    });
    for frozen in frozen {
        let content = fs::read(place.blob(&frozen.tree.entries[0].hash)).unwrap();
        assert_eq!(content.len(), 4 << 20);
        assert!(content.iter().all(|byte| *byte == content[0]), "torn");
    }
}

#[test]
fn git_tells_the_commit_and_what_differs() {
    let mut place = SourceFolder::new(&[("a.py", "one\n")]);
    place.git(&["init", "-q"]);
    assert_eq!(place.freeze(&FileSelection::default()).git, None);
    place.git(&["add", "a.py"]);
    place.git(&["commit", "-qm", "first"]);
    let commit = place.git(&["rev-parse", "HEAD"]);
    assert_eq!(
        place.freeze(&FileSelection::default()).git,
        Some(commit.clone())
    );
    place.write("a.py", "two\n");
    let git = place.freeze(&FileSelection::default()).git.unwrap();
    let (found, diff) = git.split_once('+').unwrap();
    assert_eq!(found, commit);
    let diff = fs::read_to_string(place.store.join(&diff[..2]).join(diff)).unwrap();
    assert!(diff.contains("-one\n+two\n"), "{diff}");
    place.git(&["commit", "-qam", "second"]);
    let second = place.git(&["rev-parse", "HEAD"]);
    assert_eq!(place.freeze(&FileSelection::default()).git, Some(second));
}

#[test]
fn only_files_with_mode_link_are_shared_among_runs() {
    let mut place = SourceFolder::new(&[("train.py", "print(1)"), ("data/big.bin", "b")]);
    let wanted = FileSelection {
        files: Some(vec!["*.py".to_owned(), "data/".to_owned()]),
        linked: vec!["data/".to_owned()],
        ..FileSelection::default()
    };
    let frozen = place.freeze(&wanted);
    let shared = frozen
        .tree
        .entries
        .iter()
        .map(|entry| (&*entry.path, entry.shared));
    let shared: Vec<_> = shared.collect();
    assert_eq!(shared, [("data/big.bin", true), ("train.py", false)]);
}
