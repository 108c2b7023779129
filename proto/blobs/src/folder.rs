//! The files of a store, and their names.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nero_model::ids::{hex, random};

use crate::Hash;

/// Where a content lies that is a file of its own.
pub fn path(store: &Path, hash: &[u8]) -> PathBuf {
    let name = hex(hash);
    store.join(name.get(..2).unwrap_or("")).join(name)
}

/// A name in the store that no other process has, on the same file system.
pub fn private(store: &Path) -> PathBuf {
    store.join(format!(".{}", hex(&random::<12>())))
}

/// All contents that are files of their own.
pub fn alone(store: &Path) -> impl Iterator<Item = (Hash, PathBuf)> {
    let folders: Vec<PathBuf> = (0..=255u8).map(|byte| store.join(hex(&[byte]))).collect();
    folders.into_iter().flat_map(|folder| hashed(&folder))
}

/// Entries of a folder that are named by a hash; none of a folder that cannot be
/// read.
pub fn hashed(folder: &Path) -> Vec<(Hash, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((parse(entry.file_name().to_str()?)?, entry.path())))
        .collect()
}

/// Reads a name of a content: 64 hexadecimal digits, small letters.
pub fn parse(name: &str) -> Option<Hash> {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let digits = name.as_bytes();
    if digits.len() != 64 || !digits.iter().all(is_digit) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// Private files that were not written to for longer than `age`: a dead process
/// left them.
pub fn leftovers(store: &Path, age: Duration) -> Vec<(PathBuf, Metadata)> {
    let now = SystemTime::now();
    let is_old = |found: &Metadata| {
        let modified = found.modified().ok();
        let since = modified.and_then(|at| now.duration_since(at).ok());
        found.is_file() && since.is_some_and(|since| since > age)
    };
    let entries = fs::read_dir(store).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."))
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .filter(|(_, found)| is_old(found))
        .collect()
}
