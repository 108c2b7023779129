//! A disk that is full: a typed refusal, nothing lost, and writing again when
//! there is room.

use std::fs;
use std::path::Path;
use std::process::Command;

use nero_store::{Durability, Store, StoreError};

use crate::rig::{at, filled, fold, home, one};

/// A small file system of our own; unmounted when dropped.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(folder: &'a Path, mebibytes: u32) -> Option<Self> {
        let size = format!("size={mebibytes}m");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(folder)
            .output()
            .is_ok_and(|output| output.status.success());
        done.then_some(Self(folder))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(folder.path(), 4) else {
        eprintln!("skipped: this user may not mount a small file system");
        return;
    };
    let home = home(small.0);
    let mut store = filled(&home, 5);
    let before = store.read_all().unwrap();
    let run = before.runs[0].run.key;
    // So many that `series.db` has to grow before its log can be used again.
    store
        .fold_series(&[fold(run, at(200), at(300), 2000)])
        .unwrap();
    let filler = small.0.join("filler");
    let mut size = 4 << 20;
    while size > 0 {
        // What fits is kept; the rest is tried in smaller pieces.
        let mut all = fs::read(&filler).unwrap_or_default();
        all.resize(all.len() + size, 1);
        if fs::write(&filler, &all).is_err() {
            size /= 2;
        }
    }

    let mut told = 5;
    let error = loop {
        let written = store.write(Durability::Synced, |tx| {
            tx.attempt(|tx| one(tx, &format!("more {told}")))
        });
        match written {
            Ok(_) => told += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(!store.is_broken());
    assert!(!store.has_room().unwrap());
    let folded = store.fold_series(&[fold(run, at(300), at(400), 100_000)]);
    assert!(matches!(folded, Err(StoreError::Full { .. })), "{folded:?}");
    assert_eq!(store.read_all().unwrap().experiments.len(), told);

    fs::remove_file(&filler).unwrap();
    store
        .write(Durability::Synced, |tx| one(tx, "room again"))
        .unwrap();
    store
        .fold_series(&[fold(run, at(300), at(400), 100)])
        .unwrap();
    assert_eq!(store.read_all().unwrap().experiments.len(), told + 1);
    nero_store::scrub(&home).unwrap();
    drop(store);
}

#[test]
fn the_logs_room_is_used_again_and_a_store_is_opened_without_any() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(folder.path(), 32) else {
        eprintln!("skipped: this user may not mount a small file system");
        return;
    };
    let home = home(small.0);
    drop(filled(&home, 5));
    let mut store = Store::open(&home).unwrap();
    // One value, written again and again, needs nothing but the log's place.
    let mut count = 0_u32;
    let mut put = |store: &mut Store| {
        count += 1;
        let value = count.to_le_bytes();
        store.write(Durability::Synced, |tx| tx.set_meta("count", &value))
    };
    (0..10).for_each(|_| put(&mut store).unwrap());
    let filler = small.0.join("filler");
    let file = fs::File::create(&filler).unwrap();
    let free = rustix::fs::statvfs(small.0).unwrap();
    let all = free.f_bavail * free.f_frsize;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, all).unwrap();
    drop(file);
    let error = loop {
        if let Err(error) = put(&mut store) {
            break error;
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    // The look moves the log of one file; that of the other has no place.
    assert!(!store.has_room().unwrap());
    put(&mut store).unwrap();
    // As `kill -9` leaves it: nothing is closed.
    std::mem::forget(store);
    let mut store = Store::open(&home).unwrap();
    assert!(store.opened().unclean);
    assert_eq!(store.read_all().unwrap().experiments.len(), 5);
    fs::remove_file(&filler).unwrap();
    assert!(store.has_room().unwrap());
    store
        .write(Durability::Synced, |tx| one(tx, "room again"))
        .unwrap();
    drop(store);
    nero_store::scrub(&home).unwrap();
}
