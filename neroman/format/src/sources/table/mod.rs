//! Tables: each row is an experiment.
//!
//! A row becomes a block of the same tree that a YAML file becomes, below the fields of
//! the YAML file that lies beside the table; its marks are cells. So every field, default
//! and mistake is the one of the format. `layout` reads that file and finds out what each
//! column is, `rows` makes the blocks.
//!
//! The cells come from the caller: files of spreadsheet programs are read in a process of
//! their own.

mod bound;
mod layout;
mod number;
mod places;
mod remarks;
mod row;
mod rows;

use std::path::{Path, PathBuf};

use nero_expr::ParseContext;
use nero_table::{Header, Sheet, UnreadableTable};
use nero_yaml::Fields;

use self::layout::Layout;
pub use self::number::{NUMBERS_HEADER, NumberColumn};
pub use self::rows::NUMBER_MAX;
use crate::definition::problem::{FormatErrors, Problem};
use crate::definition::{Edits, Source, SourceKind, TableOptions};
use crate::read::parse;
use crate::read::reader::Reader;
use crate::read::text::{Text, cell_mark};
use crate::sources::beneath::{self, Defaults};
use crate::sources::file;
use crate::sources::loaded::{self, LoadedSource, SourceContent};

/// Reads a sheet of a file: the one of this name, else the first.
pub type ReadSheet<'a> = &'a dyn Fn(&Path, Option<&str>) -> Result<Sheet, UnreadableTable>;

/// Endings of the files that are read as tables.
const ENDINGS: &[&str] = &["xlsx", "xlsm", "xlsb", "xls", "ods", "csv", "tsv"];

/// Whether a file is read as a table.
pub fn is_table(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.iter().any(|one| one.eq_ignore_ascii_case(ending)))
}

/// The YAML file that is read with a table: the named one, else the one of the same name
/// beside it, if there is one.
pub fn companion(table: &Path, with: Option<&Path>) -> Option<PathBuf> {
    if let Some(with) = with {
        return Some(with.to_path_buf());
    }
    let beside = ["yaml", "yml"].map(|ending| table.with_extension(ending));
    let mut beside = beside.into_iter();
    beside.find(|file| file.is_file())
}

/// Reads a table. Dates in rules are read in the zone of this machine.
///
/// # Errors
/// All mistakes of the table and of the YAML file beside it, each with its place.
pub fn read_table(
    path: &Path,
    options: &TableOptions,
    defaults: &Defaults,
    read: ReadSheet<'_>,
) -> Result<LoadedSource, FormatErrors> {
    read_table_edited(path, options, defaults, read, Edits::new())
}

/// Like [`read_table`], with what people changed of its experiments.
///
/// # Errors
/// All mistakes of the table and of the YAML file beside it, each with its place.
pub fn read_table_edited(
    path: &Path,
    options: &TableOptions,
    defaults: &Defaults,
    read: ReadSheet<'_>,
    edits: Edits,
) -> Result<LoadedSource, FormatErrors> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let context = ParseContext::new(now_ms, jiff::tz::TimeZone::system()).standing();
    let shown = file::display_path(path);
    let file = file::absolute(path)?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let stem = file::stem(&file, &folder, &shown)?;
    let with = companion(&file, options.with.as_deref());
    let (text, digest) = match &with {
        Some(with) => file::text(with)?,
        None => (Text::new(shown.clone(), String::new()), String::new()),
    };
    let mut fields = Fields::default();
    let root = parse::parse(&text, &mut fields)?;
    let (layout, entries) = Layout::read(&mut fields, root.as_deref());
    let mut sheet = match read(path, layout.sheet.as_ref().map(|(name, _)| name.as_str())) {
        Ok(sheet) => sheet,
        Err(unreadable) => {
            let mut errors = text.checked(fields).err().unwrap_or_default();
            let problem = problem(&text, &shown, &layout, unreadable);
            errors.problems.push(problem);
            return Err(errors);
        }
    };
    let mut text = text.with_table(shown, sheet.name.clone().unwrap_or_default());
    let header = header(&sheet, &layout, &text, &mut fields)?;
    sheet.fill_merged(header.rows.last().copied().unwrap_or(0));
    let digests = blake3::hash(format!("{}{digest}", sheet.digest).as_bytes());
    let mut source = Source {
        table: Some(options.clone()),
        ..Source::new(SourceKind::File, file, folder, digests.to_hex().to_string())
    };
    let beneath = beneath::find(&mut text, &mut source, &entries, defaults, &mut fields)?;
    let mut reader = Reader::new(&text, &source.folder, &context, fields);
    reader.beneath = beneath;
    reader.is_table = true;
    reader.edits = edits;
    let beside = with.as_deref().and_then(|with| with.file_name()?.to_str());
    let beside = beside.map_or_else(|| format!("{stem}.yaml"), str::to_owned);
    let table = rows::Table {
        sheet: &sheet,
        header: &header,
        layout: &layout,
        entries: &entries,
        stem: &stem,
        beside: &beside,
        offset: options.offset,
    };
    let read = rows::read(&mut reader, &table);
    let bound = bound::read(&mut reader, &table, &read);
    if bound.is_some() && is_only_read(&source.file) {
        let note = "a workbook of this format is only read: results and states go into a copy of its rows beside it, which `status` names";
        reader.note(None, note.to_owned());
    }
    loaded::check(&mut reader)?;
    let content = SourceContent::of(reader);
    source.bound = bound;
    Ok(LoadedSource {
        numbers: read.to_number,
        ..content.loaded(source)
    })
}

/// Whether neronet writes no workbook of this format.
fn is_only_read(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or("").to_ascii_lowercase();
    matches!(ending.as_str(), "xls" | "xlsb")
}

/// The header of a sheet.
fn header(
    sheet: &Sheet,
    layout: &Layout,
    text: &Text,
    fields: &mut Fields,
) -> Result<Header, FormatErrors> {
    let mistakes = match Header::read(sheet, layout.header, layout.header_rows) {
        Ok(header) => return Ok(header),
        Err(mistakes) => mistakes,
    };
    for one in mistakes {
        fields.wrong(cell_mark(one.row, one.column), one.what, one.hint);
    }
    text.checked(std::mem::take(fields))?;
    Err(Problem::of_file("the table has no header", "").into())
}

/// A file that has no sheet for us.
fn problem(text: &Text, shown: &str, layout: &Layout, unreadable: UnreadableTable) -> Problem {
    match unreadable {
        UnreadableTable::File { why, hint } => Problem::of_file(format!("{shown} {why}"), hint),
        UnreadableTable::At {
            sheet,
            row,
            column,
            why,
            hint,
        } => Problem {
            place: Some(crate::Place {
                file: shown.to_owned(),
                line: row,
                column,
                sheet: Some(sheet.unwrap_or_default().into()),
            }),
            message: why,
            hint: Some(hint),
            snippet: None,
        },
        UnreadableTable::NoSheet { sheets } => {
            let names = sheets.iter().map(|name| nero_model::safe::quoted(name));
            let names: Vec<String> = names.collect();
            let hint = if names.is_empty() {
                "save it again with a sheet of cells".to_owned()
            } else {
                format!("its sheets are {}", names.join(", "))
            };
            match &layout.sheet {
                Some((name, mark)) => {
                    let name = nero_model::safe::quoted(name);
                    text.problem(*mark, format!("{shown} has no sheet {name}"), hint)
                }
                None => Problem::of_file(format!("{shown} has no sheet of cells"), hint),
            }
        }
    }
}
