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

fn rewrite_file(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn stored_blobs_are_found_and_no_others() {
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
fn an_abandoned_pack_leaves_no_file() {
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
        rewrite_file(&path, &whole[..length]);
        let packs = Packs::open(store.path()).unwrap();
        assert!(packs.is_empty(), "cut at {length} of {}", whole.len());
    }
    rewrite_file(&path, &whole);
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
        rewrite_file(&path, &changed);
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
fn a_folder_or_a_fifo_is_never_waited_for() {
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

#[test]
fn a_file_that_cannot_be_opened_hides_no_pack() {
    let store = tempfile::tempdir().unwrap();
    write(store.path(), &contents(0, 3));
    let folder = store.path().join(FOLDER);
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("dangling")).unwrap();
    assert_eq!(Packs::open(store.path()).unwrap().iter().count(), 1);
}

/// Files of a store that this process holds open.
fn held_open(store: &Path) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let to = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    to.filter(|path| path.starts_with(store)).count()
}

#[test]
fn however_many_there_are_few_stay_open() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path().canonicalize().unwrap();
    let all = contents(1, 401);
    for content in &all {
        write(&store, std::slice::from_ref(content));
    }
    let packs = Packs::open(&store).unwrap();
    assert_eq!(held_open(&store), 0);
    for _ in 0..2 {
        for content in &all {
            assert_eq!(read(&packs, content).unwrap().unwrap(), *content);
        }
        assert!((1..=read::OPEN_MAX).contains(&held_open(&store)));
    }
}

#[test]
fn small_ones_that_became_many_are_put_together() {
    let store = tempfile::tempdir().unwrap();
    let all = contents(1, 90);
    let mut parts = all.chunks(2);
    for part in parts.by_ref().take(anew::SMALL_MAX - 1) {
        write(store.path(), part);
    }
    merge(store.path(), |_| true).unwrap();
    let before = Packs::open(store.path()).unwrap();
    assert_eq!(before.iter().count(), anew::SMALL_MAX - 1);
    for part in parts {
        write(store.path(), part);
    }
    merge(store.path(), |_| true).unwrap();
    let after = Packs::open(store.path()).unwrap();
    assert_eq!(after.iter().count(), 1);
    for content in &all {
        assert_eq!(read(&after, content).unwrap().unwrap(), *content);
    }
    // A reader with an old list reads on.
    let found = all.iter().filter_map(|content| read(&before, content));
    let found: Vec<_> = found.map(Result::unwrap).collect();
    assert!(found.len() > anew::SMALL_MAX, "{}", found.len());
    let left = fs::read_dir(store.path()).unwrap().count();
    assert_eq!(left, 1, "private names are gone");
}

#[test]
fn without_room_for_a_new_one_small_ones_stay_many() {
    let store = tempfile::tempdir().unwrap();
    let all = contents(1, 80);
    for part in all.chunks(2) {
        write(store.path(), part);
    }
    let bytes: usize = all.iter().map(Vec::len).sum();
    let mut asked = None;
    let full = |needed| {
        asked = Some(needed);
        false
    };
    merge(store.path(), full).unwrap();
    assert_eq!(asked, Some(bytes as u64));
    assert_eq!(Packs::open(store.path()).unwrap().iter().count(), 40);
}

#[test]
fn made_anew_of_all_that_it_held_a_pack_stays() {
    let store = tempfile::tempdir().unwrap();
    let all = contents(1, 10);
    let path = write(store.path(), &all);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(&path).unwrap().set_modified(old).unwrap();
    let packs = [Pack::open(&path).unwrap()];
    let new = rewrite(store.path(), &packs, |_, _| true).unwrap();
    remove(&packs, &new).unwrap();
    let packs = Packs::open(store.path()).unwrap();
    for content in &all {
        assert_eq!(read(&packs, content).unwrap().unwrap(), *content);
    }
    // It has its old time.
    assert_eq!(packs.iter().next().unwrap().modified(), old);
}

#[test]
fn made_anew_it_holds_what_was_to_stay_and_nothing_damaged() {
    let store = tempfile::tempdir().unwrap();
    let all: Vec<Vec<u8>> = (0..9).map(|number| vec![number; 10]).collect();
    let path = write(store.path(), &all);
    let mut bytes = fs::read(&path).unwrap();
    bytes[45] ^= 1;
    rewrite_file(&path, &bytes);
    let packs = [Pack::open(&path).unwrap()];
    let goes = hash(&all[2]);
    let new = rewrite(store.path(), &packs, |_, hash| *hash != goes).unwrap();
    remove(&packs, &new).unwrap();
    let packs = Packs::open(store.path()).unwrap();
    let there = |content: &&Vec<u8>| read(&packs, content).is_some_and(|read| read.is_ok());
    let left: Vec<u8> = all.iter().filter(there).map(|content| content[0]).collect();
    assert_eq!(left, [0, 1, 3, 5, 6, 7, 8]);
    assert_eq!(packs.iter().count(), 1);
    // Without contents no pack is made.
    let packs: Vec<Pack> = new.iter().map(|path| Pack::open(path).unwrap()).collect();
    let new = rewrite(store.path(), &packs, |_, _| false).unwrap();
    assert!(new.is_empty());
    remove(&packs, &new).unwrap();
    assert!(Packs::open(store.path()).unwrap().is_empty());
}

#[test]
fn a_pack_made_of_very_many_is_no_larger_than_others() {
    let store = tempfile::tempdir().unwrap();
    let all = |from: u32| (from..from + 40_000).map(|number| number.to_le_bytes().to_vec());
    let paths = [0, 40_000].map(|from| write(store.path(), &all(from).collect::<Vec<_>>()));
    let packs = paths.map(|path| Pack::open(&path).unwrap());
    let new = rewrite(store.path(), &packs, |_, _| true).unwrap();
    remove(&packs, &new).unwrap();
    let packs = Packs::open(store.path()).unwrap();
    let mut held: Vec<usize> = packs.iter().map(|pack| pack.hashes().count()).collect();
    held.sort_unstable();
    assert_eq!(held, [80_000 - FULL_CONTENTS, FULL_CONTENTS]);
}

/// A hollow file that claims to be a pack of so many contents.
fn hollow(store: &Path, count: u32) -> PathBuf {
    let path = write(store, &[b"abc".to_vec()]);
    let index = u64::from(count) * ENTRY_BYTES as u64;
    let mut end = Vec::new();
    end.extend_from_slice(&0u64.to_le_bytes());
    end.extend_from_slice(&count.to_le_bytes());
    end.extend_from_slice(&[0; 32]);
    end.extend_from_slice(MAGIC);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(index).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &end, index).unwrap();
    path
}

#[test]
fn a_count_beyond_all_bounds_fills_no_memory() {
    let store = tempfile::tempdir().unwrap();
    let path = hollow(store.path(), u32::MAX);
    let refused = Pack::open(&path).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    assert!(refused.to_string().contains("more than a pack"));
    assert!(Packs::open(store.path()).unwrap().is_empty());
}

#[test]
fn stored_blobs_are_found_while_packs_are_made_anew() {
    const COUNT: u32 = 400;
    let store = tempfile::tempdir().unwrap();
    let number = |number: u32| number.to_le_bytes().to_vec();
    let written = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for one in 0..COUNT {
                write(store.path(), &[number(one)]);
                written.store(one + 1, std::sync::atomic::Ordering::Release);
                let entries = fs::read_dir(store.path().join(FOLDER)).unwrap();
                let packs = entries.map(|entry| Pack::open(&entry.unwrap().path()).unwrap());
                let packs: Vec<Pack> = packs.collect();
                let new = rewrite(store.path(), &packs, |_, _| true).unwrap();
                remove(&packs, &new).unwrap();
            }
        });
        let mut known = 0;
        while known < COUNT {
            known = written.load(std::sync::atomic::Ordering::Acquire);
            let packs = Packs::open(store.path()).unwrap();
            for one in known.saturating_sub(20)..known {
                let found = read(&packs, &number(one)).map(Result::unwrap);
                assert_eq!(found, Some(number(one)), "of {known}");
            }
        }
    });
}
