//! Finds the file of a source and reads it.
//!
//! The only module that looks at the disk, apart from the checks that named files
//! exist. It refuses what is no text before YAML sees it, with the place.

use super::batch;
use crate::definition::problem::{Problem, printable};
use crate::definition::{Source, SourceKind};
use crate::read::text::{Text, mark_of};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No honest description is larger; a bigger file is some other thing by mistake.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Names of the file that describes a folder, in the order in which they are looked for.
const DESCRIPTIONS: [&str; 2] = ["neronet.yaml", "config.yaml"];

/// Finds and reads the file that a path stands for.
pub(crate) fn open(path: &Path) -> Result<(Source, Text), Problem> {
    let (file, kind) = locate(path)?;
    let bytes = read(&file)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let shown = display_path(&file);
    let text = decode(&shown, bytes)?;
    let file = absolute(&file)?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    if folder.to_str().is_none() {
        return Err(Problem::of_file(
            format!("the name of {shown} is not UTF-8"),
            "rename the folder: its name becomes part of commands and records",
        ));
    }
    let source = Source::new(kind, file, folder, digest);
    Ok((source, Text::new(shown, text)))
}

/// The name of a file without its ending, in a folder whose path is a text.
pub(crate) fn stem(file: &Path, folder: &Path, shown: &str) -> Result<String, Problem> {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.filter(|_| folder.to_str().is_some());
    stem.map(str::to_owned).ok_or_else(|| {
        Problem::of_file(
            format!("the name of {shown} is not UTF-8"),
            "rename it: its name becomes part of names and records",
        )
    })
}

/// Reads a YAML file that is read with another one.
pub(crate) fn text(file: &Path) -> Result<(Text, String), Problem> {
    let bytes = read(file)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let shown = display_path(file);
    let text = decode(&shown, bytes)?;
    Ok((Text::new(shown, text), digest))
}

pub(crate) fn display_path(path: &Path) -> String {
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
                    display_path(path)
                ),
                "name the folder with neronet.yaml or config.yaml, or a .yaml file",
            )),
            Some(_) => Err(Problem::of_file(
                format!("{} is neither a YAML file nor a table", display_path(path)),
                "name the folder with neronet.yaml or config.yaml, a .yaml file, or a table (.xlsx, .ods, .csv)",
            )),
        };
    }
    if !meta.is_dir() {
        return Err(Problem::of_file(
            format!("{} is neither a folder nor a file", display_path(path)),
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
    let mut near = ["neronet.yml", "config.yml"].into_iter();
    let near = near.find(|name| path.join(name).exists());
    let hint = match near {
        Some(name) => format!("rename {name} to {}.yaml", name.trim_end_matches(".yml")),
        None => {
            "a neronet.yaml of one line will do: `+name: {command: python3 main.py}`".to_owned()
        }
    };
    Err(Problem::of_file(
        format!(
            "{} has neither neronet.yaml nor config.yaml",
            display_path(path)
        ),
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
            format!("{} is not a plain file", display_path(file)),
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
                display_path(file),
                FILE_BYTES_MAX >> 20
            ),
            "write ranges and lists instead of single experiments, or several files",
        ));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let name = display_path(path);
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
