//! Finds the file of a source, reads it and knows its lines.
//!
//! The only module that looks at the disk, apart from the checks that named files
//! exist. It refuses what is no text before YAML sees it, with the place.

use crate::batch;
use crate::definition::{Place, Source, SourceKind};
use crate::problem::{FormatErrors, Problem, printable, window};
use nero_yaml::{Fields, Mark, Node};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No honest description is larger; a bigger file is some other thing by mistake.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Names of the file that describes a folder, in the order in which they are looked for.
const DESCRIPTIONS: [&str; 2] = ["neronet.yaml", "config.yaml"];

/// The text of a file and where its lines begin.
#[derive(Debug)]
pub(crate) struct Text {
    /// The file's name as it is shown.
    pub(crate) file: String,
    /// The text without a byte order mark.
    pub(crate) text: String,
    line_starts: Vec<usize>,
    /// The table that is read with this text, and its sheet.
    table: Option<(String, String)>,
    /// Texts whose fields hold below those of this one.
    beneath: Vec<Text>,
}

/// Set in the line of a mark that is a cell of the table, not a place in the text.
const CELL: u32 = 1 << 31;

/// The lowest bit in the line of a mark that numbers the text beneath, from one; no file of
/// [`FILE_BYTES_MAX`] has as many lines.
const BENEATH_SHIFT: u32 = 26;
/// Most texts beneath one.
pub(crate) const BENEATH_MAX: usize = 31;

/// The mark of a cell.
pub(crate) fn cell_mark(row: u32, column: u32) -> Mark {
    Mark {
        line: row | CELL,
        column,
    }
}

impl Text {
    pub(crate) fn new(file: String, text: String) -> Self {
        let line_starts = line_starts(&text);
        Self {
            file,
            text,
            line_starts,
            table: None,
            beneath: Vec::new(),
        }
    }

    /// Lays a text beneath this one. Returns the lines to move its marks by (`Node::below`).
    pub(crate) fn lay_beneath(&mut self, text: Text) -> u32 {
        self.beneath.push(text);
        let number = self.beneath.len().min(BENEATH_MAX);
        u32::try_from(number).unwrap_or(0) << BENEATH_SHIFT
    }

    /// The text that a mark is in, and the mark there.
    fn of(&self, mark: Mark) -> (&Self, Mark) {
        let number = (mark.line & !CELL) >> BENEATH_SHIFT;
        let is_cell = self.table.is_some() && mark.line & CELL != 0;
        let beneath = (number as usize).checked_sub(1);
        match beneath.and_then(|index| self.beneath.get(index)) {
            Some(text) if !is_cell => {
                let line = mark.line - (number << BENEATH_SHIFT);
                (text, Mark { line, ..mark })
            }
            Some(_) | None => (self, mark),
        }
    }

    /// The mark of a byte inside the scalar's text.
    pub(crate) fn mark_inside(&self, node: &Node, offset: usize) -> Mark {
        node.mark_inside(&self.of(node.mark).0.text, offset)
    }

    /// The same text, read with a table.
    pub(crate) fn with_table(self, file: String, sheet: String) -> Self {
        Self {
            table: Some((file, sheet)),
            ..self
        }
    }

    /// A value as it is written.
    pub(crate) fn written(&self, node: &Node) -> &str {
        node.written(&self.of(node.mark).0.text)
    }

    /// The place of a mark, for storing.
    pub(crate) fn place(&self, mark: Mark) -> Place {
        if let (Some((file, sheet)), true) = (&self.table, mark.line & CELL != 0) {
            return Place {
                file: file.clone(),
                line: mark.line & !CELL,
                column: mark.column,
                sheet: Some(sheet.as_str().into()),
            };
        }
        let (text, mark) = self.of(mark);
        Place {
            file: text.file.clone(),
            line: mark.line,
            column: mark.column,
            sheet: None,
        }
    }

    /// The place of a mark in words, for a mistake of the same source: `line 7`.
    pub(crate) fn beside(&self, mark: Mark) -> String {
        match (&self.table, mark.line & CELL != 0) {
            (Some((_, sheet)), true) => {
                nero_table::cell_name(sheet, mark.line & !CELL, mark.column).to_string()
            }
            _ => match self.of(mark) {
                (text, Mark { line, .. }) if text.file == self.file => format!("line {line}"),
                (text, Mark { line, .. }) => format!("line {line} of {}", text.file),
            },
        }
    }

    /// A mistake at a mark, with its line.
    pub(crate) fn problem(
        &self,
        mark: Mark,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let hint = hint.into();
        let place = self.place(mark);
        let snippet = match place.sheet {
            Some(_) => None,
            None => {
                let (text, mark) = self.of(mark);
                let (line, pad) = window(text.line(mark.line), mark.column as usize);
                Some((line.into(), pad))
            }
        };
        Problem {
            place: Some(place),
            message: message.into(),
            hint: (!hint.is_empty()).then_some(hint),
            snippet,
        }
    }

    /// Nothing, or all mistakes that were found, each with its line.
    pub(crate) fn checked(&self, fields: Fields) -> Result<(), FormatErrors> {
        fields.finish().map_err(|mistakes| FormatErrors {
            problems: mistakes
                .list
                .into_iter()
                .map(|one| self.problem(one.place, one.message, one.hint))
                .collect(),
            truncated: mistakes.truncated,
        })
    }

    /// A line without its end; the one behind the last is empty.
    pub(crate) fn line(&self, number: u32) -> &str {
        let index = number.saturating_sub(1) as usize;
        let Some(&start) = self.line_starts.get(index) else {
            return "";
        };
        let end = self
            .line_starts
            .get(index + 1)
            .map_or(self.text.len(), |&next| next);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

/// Lines end as YAML ends them: with LF, CR LF or CR.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (index, byte) in bytes.iter().enumerate() {
        let ends = match byte {
            b'\n' => true,
            b'\r' => bytes.get(index + 1) != Some(&b'\n'),
            _ => false,
        };
        if ends {
            starts.push(index + 1);
        }
    }
    starts
}

/// Finds and reads the file that a path stands for.
pub(crate) fn open(path: &Path) -> Result<(Source, Text), Problem> {
    let (file, kind) = locate(path)?;
    let bytes = read(&file)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let shown = shown(&file);
    let text = decode(&shown, bytes)?;
    let file = absolute(&file)?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    if folder.to_str().is_none() {
        return Err(Problem::of_file(
            format!("the name of {shown} is not UTF-8"),
            "rename the folder: its name becomes part of commands and records",
        ));
    }
    let source = Source {
        path: match kind {
            SourceKind::Folder => folder.clone(),
            SourceKind::File => file.clone(),
        },
        kind,
        file,
        folder,
        digest,
        table: None,
        bound: None,
        rows: None,
        defaults: String::new(),
        parents: Vec::new(),
    };
    Ok((source, Text::new(shown, text)))
}

/// Reads a YAML file that is read with another one.
pub(crate) fn text(file: &Path) -> Result<(Text, String), Problem> {
    let bytes = read(file)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let shown = shown(file);
    let text = decode(&shown, bytes)?;
    Ok((Text::new(shown, text), digest))
}

pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// The file itself, or the description inside a folder.
fn locate(path: &Path) -> Result<(PathBuf, SourceKind), Problem> {
    let meta = fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if meta.is_file() {
        return match path.extension().and_then(|e| e.to_str()) {
            Some("yaml" | "yml") | None => Ok((path.to_path_buf(), SourceKind::File)),
            Some(_) if batch::is_script(path) => Ok((path.to_path_buf(), SourceKind::File)),
            Some("json") => Err(Problem::of_file(
                format!(
                    "{}: not built yet: experiments from .json files",
                    shown(path)
                ),
                "name the folder with neronet.yaml or config.yaml, or a .yaml file",
            )),
            Some(_) => Err(Problem::of_file(
                format!("{} is neither a YAML file nor a table", shown(path)),
                "name the folder with neronet.yaml or config.yaml, a .yaml file, or a table (.xlsx, .ods, .csv)",
            )),
        };
    }
    if !meta.is_dir() {
        return Err(Problem::of_file(
            format!("{} is neither a folder nor a file", shown(path)),
            "name an experiment folder or a .yaml file",
        ));
    }
    for name in DESCRIPTIONS {
        let file = path.join(name);
        match fs::metadata(&file) {
            Ok(_) => return Ok((file, SourceKind::Folder)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(unreadable(&file, &e)),
        }
    }
    let near = ["neronet.yml", "config.yml"]
        .into_iter()
        .find(|name| path.join(name).exists());
    let hint = match near {
        Some(name) => format!("rename {name} to {}.yaml", name.trim_end_matches(".yml")),
        None => {
            "a neronet.yaml of one line will do: `+name: {command: python3 main.py}`".to_owned()
        }
    };
    Err(Problem::of_file(
        format!("{} has neither neronet.yaml nor config.yaml", shown(path)),
        hint,
    ))
}

/// The description in a folder, if there is one.
pub(crate) fn described(folder: &Path) -> Option<PathBuf> {
    let files = DESCRIPTIONS.map(|name| folder.join(name));
    files.into_iter().find(|file| file.is_file())
}

fn read(file: &Path) -> Result<Vec<u8>, Problem> {
    let meta = fs::metadata(file).map_err(|e| unreadable(file, &e))?;
    if !meta.is_file() {
        // Opening a pipe would wait for its writer.
        return Err(Problem::of_file(
            format!("{} is not a plain file", shown(file)),
            "name an experiment folder or a .yaml file",
        ));
    }
    let mut bytes = Vec::new();
    fs::File::open(file)
        .and_then(|f| f.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| unreadable(file, &e))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Problem::of_file(
            format!(
                "{} is larger than {} MiB",
                shown(file),
                FILE_BYTES_MAX >> 20
            ),
            "write ranges and lists instead of single experiments, or several files",
        ));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let name = shown(path);
    match error.kind() {
        io::ErrorKind::NotFound => Problem::of_file(
            format!("{name} does not exist"),
            "name an experiment folder or a .yaml file",
        ),
        io::ErrorKind::PermissionDenied => Problem::of_file(
            format!("{name} may not be read"),
            "ask its owner for the right to read, or copy it",
        ),
        _ => Problem::of_file(format!("cannot read {name}: {error}"), "try again"),
    }
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Problem> {
    let has_parent = path
        .components()
        .any(|c| matches!(c, std::path::Component::ParentDir));
    // Links stay as the user named them, except where `..` depends on them.
    let result = if has_parent {
        fs::canonicalize(path)
    } else {
        std::path::absolute(path)
    };
    result.map_err(|e| unreadable(path, &e))
}

fn decode(shown: &str, bytes: Vec<u8>) -> Result<String, Problem> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Problem::of_file(
            format!("{shown} is UTF-16"),
            "save it as UTF-8",
        ));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Err(not_utf8(shown, &error.utf8_error(), error.as_bytes())),
    };
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    if let Some(offset) = text.find('\0') {
        let text = Text::new(shown.to_owned(), text);
        return Err(text.problem(
            mark_of(&text.text[..offset]),
            "a NUL character stands in the file",
            "save it as UTF-8 text; UTF-16 and binary files are not read",
        ));
    }
    Ok(text)
}

fn not_utf8(shown: &str, error: &std::str::Utf8Error, bytes: &[u8]) -> Problem {
    let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
    let mark = mark_of(good.trim_start_matches('\u{feff}'));
    let byte = bytes[error.valid_up_to()];
    let text = Text::new(
        shown.to_owned(),
        String::from_utf8_lossy(bytes).into_owned(),
    );
    text.problem(
        mark,
        format!("the byte 0x{byte:02x} is not UTF-8"),
        "save the file as UTF-8",
    )
}

/// The mark of what follows a text.
fn mark_of(before: &str) -> Mark {
    let starts = line_starts(before);
    let start = starts.last().copied().unwrap_or(0);
    Mark {
        line: u32::try_from(starts.len()).unwrap_or(u32::MAX),
        column: u32::try_from(before[start..].chars().count() + 1).unwrap_or(u32::MAX),
    }
}
