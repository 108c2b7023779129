//! Parts of a zip archive, bounded by the bytes that come out of them: the sizes that an
//! archive states may be lies.

use std::io::{Cursor, Read};

use nero_table::UnreadableTable;
use zip::ZipArchive;
use zip::result::ZipError;

/// The archive of a file.
pub(crate) type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// The largest part that is read as a whole: texts that cells share, formats.
const PART_BYTES_MAX: u64 = 48 << 20;
/// The largest sheet; it is read piece by piece.
const SHEET_BYTES_MAX: u64 = 1 << 30;
/// The longest text between two tags.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// A part that is read as a whole, or `None` if there is none.
pub(crate) fn text(zip: &mut Archive<'_>, name: &str) -> Result<Option<String>, UnreadableTable> {
    let part = match zip.by_name(name) {
        Ok(part) => part,
        Err(ZipError::FileNotFound) => return Ok(None),
        Err(error) => return Err(damaged(&error)),
    };
    let mut text = Vec::new();
    let read = part.take(PART_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| damaged(&error))?;
    if text.len() as u64 > PART_BYTES_MAX {
        return Err(unfolds(name));
    }
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// Reads every part with text once and keeps nothing, so that what is read after it
/// is known to be bounded.
pub(crate) fn check(zip: &mut Archive<'_>) -> Result<(), UnreadableTable> {
    let mut buffer = vec![0; 64 << 10];
    for index in 0..zip.len() {
        let mut part = zip.by_index(index).map_err(|error| damaged(&error))?;
        let name = part.name().map_err(|error| damaged(&error))?;
        let name = name.to_ascii_lowercase();
        if !name.ends_with(".xml") && !name.ends_with(".rels") && !name.ends_with(".bin") {
            continue;
        }
        let is_sheet = name.contains("sheets/") || name == "content.xml";
        let most = match is_sheet {
            true => SHEET_BYTES_MAX,
            // Read by nobody here.
            false if name.contains("pivotcache") || name.contains("vbaproject") => continue,
            false => PART_BYTES_MAX,
        };
        let (mut bytes, mut text) = (0, 0);
        loop {
            let count = part.read(&mut buffer).map_err(|error| damaged(&error))?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            let read = &buffer[..count];
            text = match read.iter().rposition(|byte| *byte == b'<') {
                Some(at) => count - at,
                None => text + count,
            };
            if bytes > most || (text > TEXT_BYTES_MAX && !name.ends_with(".bin")) {
                return Err(unfolds(&name));
            }
        }
    }
    Ok(())
}

fn unfolds(name: &str) -> UnreadableTable {
    UnreadableTable::file(
        format!("unfolds into more than any plan of experiments: its part {name}"),
        "if the file is yours, copy the sheet with the plan into a new workbook",
    )
}

/// An archive that cannot be read.
pub(crate) fn damaged(error: &dyn std::error::Error) -> UnreadableTable {
    UnreadableTable::file(
        format!("is cut short or damaged ({error})"),
        "if it is being copied, wait until it is whole; else open it in a spreadsheet program and save it anew",
    )
}
