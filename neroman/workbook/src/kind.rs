//! What a file is, by its bytes.

use std::io::{Cursor, Read as _};

use nero_table::UnreadableTable;
use zip::ZipArchive;

use crate::limits;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Text,
    Ods,
    Xlsx,
    Xlsb,
    Xls,
}

const ZIP: &[u8] = b"PK\x03\x04";
const OLE: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const MIMETYPE: &str = "application/vnd.oasis.opendocument.spreadsheet";

/// The format of a file.
pub(crate) fn of(bytes: &[u8], ending: &str) -> Result<FileFormat, UnreadableTable> {
    let is_text = matches!(ending, "csv" | "tsv");
    if bytes.is_empty() {
        return Err(UnreadableTable::file("is empty", "save it again"));
    }
    if bytes.starts_with(ZIP) {
        let kind = in_package(bytes)?;
        return if is_text {
            Err(UnreadableTable::file(
                format!("is a workbook that is called .{ending}"),
                "rename it, or save it as CSV",
            ))
        } else {
            Ok(kind)
        };
    }
    if bytes.starts_with(OLE) {
        let utf16 = |text: &str| {
            text.encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>()
        };
        if holds(bytes, &utf16("EncryptedPackage")) {
            return Err(encrypted());
        }
        if ending == "xls" {
            return Ok(FileFormat::Xls);
        }
        return Err(UnreadableTable::file(
            format!("is an old workbook (.xls) that is called .{ending}"),
            "open it in a spreadsheet program and save it as .xlsx",
        ));
    }
    if is_text {
        return Ok(FileFormat::Text);
    }
    Err(if is_html(bytes) {
        UnreadableTable::file(
            format!("is a web page (HTML) that is called .{ending}"),
            "open it in a spreadsheet program and save it as .xlsx",
        )
    } else {
        UnreadableTable::file(
            format!("is no workbook, although it is called .{ending}"),
            "open it in a spreadsheet program and save it as .xlsx; a text with commas is called .csv",
        )
    })
}

fn in_package(bytes: &[u8]) -> Result<FileFormat, UnreadableTable> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| limits::damaged(&error))?;
    let mut mimetype = String::new();
    if let Ok(part) = zip.by_name("mimetype") {
        // What is no text is not the type that is asked for.
        let _ = part.take(100).read_to_string(&mut mimetype);
    }
    if mimetype.trim() == MIMETYPE {
        let manifest = limits::text(&mut zip, "META-INF/manifest.xml")?;
        return if manifest.is_some_and(|text| text.contains("encryption-data")) {
            Err(encrypted())
        } else {
            Ok(FileFormat::Ods)
        };
    }
    let has = |name: &str| {
        zip.file_names()
            .flatten()
            .any(|one| one.eq_ignore_ascii_case(name))
    };
    if !has("[Content_Types].xml") {
        return Err(UnreadableTable::file(
            "is an archive, and no workbook is in it",
            "name a workbook (.xlsx, .ods) or a table (.csv)",
        ));
    }
    Ok(if has("xl/workbook.bin") {
        FileFormat::Xlsb
    } else {
        FileFormat::Xlsx
    })
}

fn encrypted() -> UnreadableTable {
    UnreadableTable::file(
        "is encrypted with a password",
        "save a copy without a password (for reading, not only for changing)",
    )
}

fn is_html(bytes: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).to_ascii_lowercase();
    let begin = begin.trim_start_matches('\u{feff}').trim_start();
    [
        "<!doctype html",
        "<html",
        "<table",
        "<meta",
        "<head",
        "<body",
    ]
    .iter()
    .any(|tag| begin.starts_with(tag))
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
