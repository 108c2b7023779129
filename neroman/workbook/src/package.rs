//! The zip file that a workbook is: parts are read with a bound, and changed ones are put in the
//! place of the old ones. Every other part is copied as compressed bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write as _};

use zip::ZipArchive;
use zip::result::{ZipError, ZipResult};
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::error::WorkbookError;

/// Bytes of a sheet when it is unpacked. The sizes that a zip declares may lie.
const SHEET_BYTES_MAX: u64 = 384 << 20;
/// Bytes of any other part: texts that cells share, formats.
const PART_BYTES_MAX: u64 = 48 << 20;
/// Bytes between two tags.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Entries of a package; the directory of a hostile one has millions.
const PARTS_MAX: usize = 50_000;

/// Texts that replace those of the parts of these names, in pieces.
pub(crate) type ChangedParts<'a> = BTreeMap<String, Vec<&'a str>>;

#[derive(Debug)]
pub(crate) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    bytes: usize,
    /// Names of the parts, in their order.
    names: Vec<String>,
}

impl<'a> Package<'a> {
    pub fn open(bytes: &'a [u8]) -> Result<Self, WorkbookError> {
        let damaged = |source| WorkbookError::Damaged { source };
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        if archive.len() > PARTS_MAX {
            return Err(WorkbookError::TooLarge {
                what: "the number of its parts".to_owned(),
            });
        }
        if archive.has_duplicate_names() {
            return Err(damaged(ZipError::InvalidArchive(Cow::Borrowed(
                "two parts have one name",
            ))));
        }
        let mut names = Vec::with_capacity(archive.len());
        for index in 0..archive.len() {
            let part = archive.by_index_raw(index).map_err(damaged)?;
            if part.encrypted() {
                return Err(WorkbookError::Encrypted);
            }
            names.push(part.name().map_err(damaged)?.into_owned());
        }
        let bytes = bytes.len();
        Ok(Self {
            archive,
            bytes,
            names,
        })
    }

    pub fn has(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.names.iter().any(|name| is_wanted(name))
    }

    /// The name of a part as the package writes it: case does not count.
    pub fn find(&self, name: &str) -> Option<&str> {
        let mut names = self.names.iter();
        let found = names.find(|part| part.eq_ignore_ascii_case(name))?;
        Some(found)
    }

    /// The text of a part, `None` when there is no such part.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, WorkbookError> {
        let Some(bytes) = self.bytes(name)? else {
            return Ok(None);
        };
        let too_large = || WorkbookError::TooLarge {
            what: name.to_owned(),
        };
        let mut texts = bytes.split(|byte| *byte == b'<');
        if texts.any(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(too_large());
        }
        let text = String::from_utf8(bytes).map_err(|_| WorkbookError::NotUtf8 {
            part: name.to_owned(),
        })?;
        Ok(Some(text))
    }

    /// Reads every part that calamine reads of an `.xlsb` once and keeps nothing, so that what it
    /// reads is known to be bounded.
    pub fn check(&mut self) -> Result<(), WorkbookError> {
        for name in self.names.clone() {
            let is_read = [".xml", ".rels", ".bin"]
                .iter()
                .any(|end| name.ends_with(end));
            if is_read && !name.contains("pivotCache") && !name.contains("vbaProject") {
                self.bytes(&name)?;
            }
        }
        Ok(())
    }

    fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, WorkbookError> {
        let is_wanted = |part: &String| part.eq_ignore_ascii_case(name);
        let Some(index) = self.names.iter().position(is_wanted) else {
            return Ok(None);
        };
        let damaged = |source| WorkbookError::Damaged { source };
        let part = self.archive.by_index(index).map_err(damaged)?;
        // What a package declares bounds nothing, but a good one needs one allocation.
        let size = usize::try_from(part.size().min(1 << 26)).unwrap_or_default();
        let mut bytes = Vec::with_capacity(size + 1);
        let is_sheet = name.contains("sheets/") || name == "content.xml";
        let most = if is_sheet {
            SHEET_BYTES_MAX
        } else {
            PART_BYTES_MAX
        };
        part.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| damaged(ZipError::Io(error)))?;
        if bytes.len() as u64 > most {
            return Err(WorkbookError::TooLarge {
                what: name.to_owned(),
            });
        }
        Ok(Some(bytes))
    }

    /// The whole package with these parts changed.
    pub fn with(&mut self, changed: &ChangedParts<'_>) -> Result<Vec<u8>, WorkbookError> {
        self.written(changed)
            .map_err(|source| WorkbookError::Damaged { source })
    }

    fn written(&mut self, changed: &ChangedParts<'_>) -> ZipResult<Vec<u8>> {
        let room = self.bytes + self.bytes / 8;
        let mut writer = ZipWriter::new(Cursor::new(Vec::with_capacity(room)));
        writer.set_raw_comment(self.archive.comment().into())?;
        for (index, name) in self.names.iter().enumerate() {
            let part = self.archive.by_index_raw(index)?;
            match changed.get(name) {
                None => writer.raw_copy_file(part)?,
                Some(pieces) => {
                    let options: SimpleFileOptions = part.options();
                    writer.start_file(name, options)?;
                    for piece in pieces {
                        writer.write_all(piece.as_bytes())?;
                    }
                }
            }
        }
        Ok(writer.finish()?.into_inner())
    }
}
