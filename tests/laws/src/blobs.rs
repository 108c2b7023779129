//! Packs: a content is as it was written, or refused; nothing beside the file is read.

use std::fs;

use nero_blobs::{Pack, Packs, Writer};
use nero_model::ids::hex;

use crate::Choices;

/// Offset of the index, number of contents, name, eight letters.
const END_BYTES: usize = 8 + 4 + 32 + 8;

pub fn law(bytes: &[u8]) {
    let store = tempfile::tempdir_in(crate::MEMORY_FOLDER).expect("memory has a folder");
    let store = store.path();
    let (contents, choices) = crate::parts(bytes);
    let (mut contents, mut choices) = (Choices(contents), Choices(choices));
    let mut writer = Writer::begin(store).expect("a pack begins");
    for _ in 0..contents.below(5) {
        let content = contents.bytes(200);
        let hash = blake3::hash(content).into();
        writer.add(hash, content).expect("a content is added");
    }
    let path = writer.finish(false).expect("the pack is written");
    let whole = fs::read(&path).expect("the pack is read");
    let mut file = whole.clone();
    let name = forge(&mut choices, &mut file).unwrap_or_default();
    fs::remove_file(&path).expect("the pack goes");
    let path = path.with_file_name(hex(&name));
    fs::write(&path, &file).expect("the pack is forged");
    let pack = Pack::open(&path);
    assert!(pack.is_ok() || file != whole, "a sound pack is refused");
    let packs = Packs::open(store).expect("the folder is read");
    for (hash, length) in pack.iter().flat_map(Pack::contents) {
        assert!(length <= file.len() as u64, "a content leads out of the file");
        match packs.find(hash).map(|entry| entry.read()) {
            Some(Ok(content)) => assert!(blake3::hash(&content) == *hash, "it is invented"),
            Some(Err(_)) | None => assert!(file != whole, "a sound content is refused"),
        }
    }
}

/// Changes a pack, and half of the time makes its index right again, as an attacker would. Returns
/// the name that its end asks for.
fn forge(choices: &mut Choices<'_>, file: &mut Vec<u8>) -> Option<[u8; 32]> {
    for _ in 0..choices.below(5) {
        // Most of what is looked at stands at the end.
        let at = file.len().checked_sub(1 + choices.below(file.len().min(256)))?;
        match choices.below(4) {
            0 => file[at] = choices.byte(),
            1 => file[at] ^= 1 << choices.below(8),
            2 => drop(file.drain(at..file.len().min(at + 1 + choices.below(60)))),
            _ => file.truncate(at),
        }
    }
    let end = file.len().checked_sub(END_BYTES)?;
    let begin = u64::from_le_bytes(*file[end..].first_chunk()?);
    let index = file[..end].get(begin as usize..).unwrap_or_default();
    let id = *blake3::hash(index).as_bytes();
    let name = &mut file[end + 12..end + 44];
    if choices.byte() & 1 == 1 {
        name.copy_from_slice(&id);
    }
    name.try_into().ok()
}
