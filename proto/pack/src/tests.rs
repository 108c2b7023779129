use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::*;

fn hash(content: &[u8]) -> Hash {
    *blake3::hash(content).as_bytes()
}

fn contents(from: u32, to: u32) -> Vec<Vec<u8>> {
    (from..to)
        .map(|number| {
            format!("content {number}")
                .repeat(number as usize % 7)
                .into_bytes()
        })
        .collect()
}

fn write(store: &Path, contents: &[Vec<u8>]) -> PathBuf {
    let mut writer = Writer::begin(store).unwrap();
    for content in contents {
        writer.add(hash(content), content).unwrap();
    }
    writer.finish(true).unwrap()
}

fn read(packs: &Packs, content: &[u8]) -> Option<io::Result<Vec<u8>>> {
    packs.find(&hash(content)).map(|place| place.read())
}

fn rewrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_put_in_is_found_and_nothing_else() {
    let store = tempfile::tempdir().unwrap();
    let (first, second) = (contents(0, 500), contents(500, 520));
    write(store.path(), &first);
    write(store.path(), &second);
    let packs = Packs::open(store.path()).unwrap();
    assert_eq!(packs.iter().count(), 2);
    for content in first.iter().chain(&second) {
        let found = hash(content);
        assert_eq!(packs.find(&found).unwrap().size(), content.len() as u64);
        assert_eq!(read(&packs, content).unwrap().unwrap(), *content);
    }
    assert!(read(&packs, b"another").is_none());
    let held: usize = packs.iter().map(|pack| pack.hashes().count()).sum();
    let different: std::collections::HashSet<_> = first.iter().chain(&second).collect();
    // The empty one is in both.
    assert_eq!(held, different.len() + 1);
}

#[test]
fn a_store_without_packs_has_none() {
    let store = tempfile::tempdir().unwrap();
    assert!(Packs::open(store.path()).unwrap().is_empty());
    assert!(Packs::open(&store.path().join("none")).unwrap().is_empty());
}

#[test]
fn one_that_was_given_up_leaves_nothing() {
    let store = tempfile::tempdir().unwrap();
    let mut writer = Writer::begin(store.path()).unwrap();
    writer.add(hash(b"a"), b"a").unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
}

#[test]
fn cut_anywhere_it_is_passed_over() {
    let store = tempfile::tempdir().unwrap();
    let path = write(store.path(), &contents(0, 8));
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        rewrite(&path, &whole[..length]);
        let packs = Packs::open(store.path()).unwrap();
        assert!(packs.is_empty(), "cut at {length} of {}", whole.len());
    }
    rewrite(&path, &whole);
    assert!(!Packs::open(store.path()).unwrap().is_empty());
}

#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    let store = tempfile::tempdir().unwrap();
    let contents = contents(1, 6);
    let path = write(store.path(), &contents);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        rewrite(&path, &changed);
        let packs = Packs::open(store.path()).unwrap();
        let noticed = contents.iter().any(|content| match read(&packs, content) {
            None => true,
            Some(Err(error)) => error.kind() == io::ErrorKind::InvalidData,
            Some(Ok(found)) => {
                assert_eq!(found, *content);
                false
            }
        });
        assert!(noticed, "byte {at} of {}", whole.len());
    }
}

#[test]
fn an_index_that_leads_out_of_its_pack_is_refused() {
    let store = tempfile::tempdir().unwrap();
    let path = write(store.path(), &[b"abc".to_vec()]);
    let mut bytes = fs::read(&path).unwrap();
    let begin = 3;
    bytes[begin + 32..begin + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    let id = hash(&bytes[begin..begin + ENTRY_BYTES]);
    let end = begin + ENTRY_BYTES;
    bytes[end + 12..end + 44].copy_from_slice(&id);
    let to = path.with_file_name(nero_model::ids::hex(&id));
    fs::write(&to, bytes).unwrap();
    fs::remove_file(path).unwrap();
    let refused = Pack::open(&to).unwrap_err();
    assert_eq!(refused.to_string(), "its index leads out of it");
}

#[test]
fn neither_a_folder_nor_a_fifo_is_waited_for() {
    let store = tempfile::tempdir().unwrap();
    write(store.path(), &contents(0, 3));
    let folder = store.path().join(FOLDER);
    fs::create_dir(folder.join("folder")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("fifo"))
        .status();
    assert!(made.unwrap().success());
    assert_eq!(Packs::open(store.path()).unwrap().iter().count(), 1);
}
