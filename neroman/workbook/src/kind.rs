//! What a file is, by its bytes.

use nero_table::UnreadableTable;

use crate::error::WorkbookError;
use crate::package::Package;

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
            return Err(WorkbookError::Encrypted.into());
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
    let mut package = Package::open(bytes)?;
    // What is no text is not the type that is asked for.
    let mimetype = package.text("mimetype").ok().flatten();
    if mimetype.is_some_and(|text| text.trim() == MIMETYPE) {
        let manifest = package.text("META-INF/manifest.xml")?;
        return if manifest.is_some_and(|text| text.contains("encryption-data")) {
            Err(WorkbookError::Encrypted.into())
        } else {
            Ok(FileFormat::Ods)
        };
    }
    let has = |name| package.find(name).is_some();
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
