//! What the program answers to its first words, and what its callers make of that.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nero_child::{BUILD, ChildError, OFFICE, Office};

const PROGRAM: &str = env!("CARGO_BIN_EXE_neroman-office");

/// A copy of the program with another content.
fn copy(folder: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> PathBuf {
    let path = folder.join(OFFICE);
    let _ = fs::remove_file(&path);
    fs::write(&path, change(fs::read(PROGRAM).unwrap())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What becomes of a picture.
fn drawn(office: &Office) -> Result<Vec<u8>, ChildError> {
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='4' height='4'/>";
    let mut call = office.call(nero_plot::child::VERB);
    call.arg("1");
    nero_child::blocking(office.ask(call, [Ok(svg.into())]))
}

#[test]
fn the_program_that_was_opened_is_used_when_another_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let office = Office::open(&copy(folder.path(), |bytes| bytes)).unwrap();
    copy(folder.path(), |_| b"another program".to_vec());
    let other = Office::open(&folder.path().join(OFFICE)).unwrap();
    assert!(drawn(&office).unwrap().starts_with(b"\x89PNG"));
    let why = drawn(&other).unwrap_err().to_string();
    assert!(why.contains("cannot start neroman-office"), "{why}");
}

#[test]
fn a_program_of_another_build_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy(folder.path(), |mut bytes| {
        let places: Vec<usize> = bytes
            .windows(BUILD.len())
            .enumerate()
            .filter(|(_, part)| *part == BUILD.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at] = b'7');
        bytes
    });
    let why = drawn(&Office::open(&path).unwrap()).unwrap_err();
    assert!(matches!(why, ChildError::OtherBuild(_)), "{why}");
    assert!(why.to_string().contains("install both"), "{why}");
}

#[test]
fn an_absent_program_is_named_with_its_place_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let why = Office::open(&folder.path().join(OFFICE)).unwrap_err();
    let place = format!("neroman-office is not in {}", folder.path().display());
    assert!(why.to_string().starts_with(&place), "{why}");
    assert!(why.to_string().contains("cargo xtask install"), "{why}");
}

#[test]
fn a_picture_that_is_none_has_the_reason_of_the_library() {
    let office = Office::open(Path::new(PROGRAM)).unwrap();
    let mut call = office.call(nero_plot::child::VERB);
    call.arg("1");
    let why = nero_child::blocking(office.ask(call, [Ok("<svg".into())])).unwrap_err();
    assert!(matches!(why, ChildError::Failed(_)), "{why:?}");
}

#[test]
fn people_see_which_build_it_is() {
    let said = Command::new(PROGRAM).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said, format!("neroman-office {BUILD}\n"));
    let bare = Command::new(PROGRAM).output().unwrap();
    assert_eq!(bare.status.code(), Some(2));
}
