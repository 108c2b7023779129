//! The file on the disk, replaced whole or not at all.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nero_workbook::{BookFile, FileError, LockProgram};

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.xlsx"), "old").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn book(&self) -> PathBuf {
        self.path("plan.xlsx")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn mode_and_links_stay_and_what_was_read_is_kept_once() {
    let desk = Desk::new();
    fs::set_permissions(desk.book(), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(desk.path("there")).unwrap();
    let link = desk.path("there/link.xlsx");
    symlink("../plan.xlsx", &link).unwrap();
    let book = BookFile::read(&link).unwrap();
    assert_eq!(book.bytes(), b"old");
    let replaced = book.replace(b"new", true).unwrap();
    assert_eq!(content(&desk.book()), "new");
    assert!(link.is_symlink());
    let mode = fs::metadata(desk.book()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    let backup = replaced.backup.unwrap();
    assert_eq!(backup.file_name().unwrap(), "plan.before-neronet.xlsx");
    assert_eq!(content(&backup), "old");
    // What we wrote ourselves needs no backup; the owner's last state stays there.
    let again = BookFile::read(&link)
        .unwrap()
        .replace(b"newer", false)
        .unwrap();
    assert!(again.backup.is_none());
    assert_eq!(content(&backup), "old");
    assert_eq!(
        desk.names(),
        ["plan.before-neronet.xlsx", "plan.xlsx", "there"]
    );
}

#[test]
fn what_the_owner_saved_meanwhile_is_not_overwritten() {
    let desk = Desk::new();
    let read = BookFile::read(&desk.book()).unwrap();
    // In place, as long as before.
    fs::write(desk.book(), "OLD").unwrap();
    let error = read.replace(b"new", true).unwrap_err();
    assert!(matches!(error, FileError::Changed { .. }), "{error}");
    let read = BookFile::read(&desk.book()).unwrap();
    // A new file in the place of the old one.
    fs::write(desk.path("fresh"), "OLD").unwrap();
    fs::rename(desk.path("fresh"), desk.book()).unwrap();
    let error = read.replace(b"new", true).unwrap_err();
    assert!(matches!(error, FileError::Changed { .. }), "{error}");
    let read = BookFile::read(&desk.book()).unwrap();
    fs::remove_file(desk.book()).unwrap();
    assert!(read.replace(b"new", true).is_err());
    assert!(desk.names().is_empty(), "{:?}", desk.names());
}

#[test]
fn a_book_that_is_open_elsewhere_is_left_and_its_lock_is_named() {
    for (lock, program) in [
        (".~lock.plan.xlsx#", LockProgram::LibreOffice),
        ("~$plan.xlsx", LockProgram::Excel),
    ] {
        let desk = Desk::new();
        let read = BookFile::read(&desk.book()).unwrap();
        fs::write(
            desk.path(lock),
            ",ada,far.example.org,24.11.2026 06:00,file:///x;",
        )
        .unwrap();
        let Err(FileError::Open { lock, .. }) = read.replace(b"new", true) else {
            panic!("it is open")
        };
        assert_eq!(lock.program, program);
        assert_eq!(content(&desk.book()), "old");
        assert_eq!(desk.names().len(), 2, "{:?}", desk.names());
    }
}

#[test]
fn a_file_with_a_second_name_or_no_file_is_left() {
    let desk = Desk::new();
    fs::hard_link(desk.book(), desk.path("also.xlsx")).unwrap();
    let error = BookFile::read(&desk.book()).unwrap().replace(b"new", true);
    assert!(matches!(error, Err(FileError::Unfit { .. })), "{error:?}");
    assert_eq!(desk.names(), ["also.xlsx", "plan.xlsx"]);
    let error = BookFile::read(desk.folder.path());
    assert!(error.is_err());
    let error = BookFile::read(&desk.path("none.xlsx")).unwrap_err();
    assert!(error.to_string().starts_with("cannot find "), "{error}");
}

#[test]
fn two_replacements_at_once_do_not_meet() {
    let desk = Desk::new();
    let book = BookFile::read(&desk.book()).unwrap();
    let folder = File::open(desk.folder.path()).unwrap();
    folder.lock().unwrap();
    let error = book.replace(b"new", false).unwrap_err();
    assert!(matches!(error, FileError::Busy { .. }), "{error}");
    folder.unlock().unwrap();
    book.replace(b"new", false).unwrap();
    assert_eq!(content(&desk.book()), "new");
}

/// Bytes of each content that the child writes.
const BYTES: usize = 300_000;

/// Killed by the test below; writes one content after another.
#[test]
fn child_that_replaces_for_ever() {
    let Some(path) = std::env::var_os("NERO_TEST_BOOK") else {
        return;
    };
    for letter in ["b", "c"].iter().cycle() {
        let book = BookFile::read(path.as_ref()).unwrap();
        book.replace(letter.repeat(BYTES).as_bytes(), true).unwrap();
        println!("replaced");
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_book() {
    let desk = Desk::new();
    fs::write(desk.book(), "a".repeat(BYTES)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "disk::child_that_replaces_for_ever",
                "--nocapture",
            ])
            .env("NERO_TEST_BOOK", desk.book())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let replaced = lines.filter(|line| line.as_ref().unwrap().contains("replaced"));
        // The kill comes at some moment of the next replacement.
        replaced.take(1 + round % 3).for_each(drop);
        child.kill().unwrap();
        child.wait().unwrap();
        for path in [desk.book(), desk.path("plan.before-neronet.xlsx")] {
            let text = content(&path);
            let letter = &text[..1];
            assert!(
                text.len() == BYTES && text == letter.repeat(BYTES),
                "round {round}"
            );
            seen.insert(letter.to_owned());
        }
    }
    assert!(seen.contains("b") && seen.contains("c"), "{seen:?}");
    // What a kill left beside the book goes with the next replacement.
    BookFile::read(&desk.book())
        .unwrap()
        .replace(b"end", true)
        .unwrap();
    assert_eq!(desk.names(), ["plan.before-neronet.xlsx", "plan.xlsx"]);
}
