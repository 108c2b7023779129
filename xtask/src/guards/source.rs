//! Source files of the product, without comments, texts and tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the product's crates.
const CRATES: &[&str] = &["neroman", "neromum", "nerokid", "proto"];

/// Folders within a crate that are no product: tests, and code that is generated.
const SKIPPED: &[&str] = &["tests", "it", "gen", "benches", "examples", "target"];

/// A crate of the product.
pub struct Crate {
    /// Its folder, relative to the project's: `neroman/life`.
    pub folder: String,
    pub files: Vec<File>,
}

impl Crate {
    /// Lines of its product.
    pub fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }
}

/// A file of the product.
pub struct File {
    /// Its path, relative to the project's folder.
    pub path: String,
    /// The module, from the crate's root on.
    pub module: Vec<String>,
    /// The code without comments, texts and tests; its lines are those of the file.
    pub code: String,
    /// Number of lines without inline tests.
    pub lines: usize,
}

/// Reads every crate of the product below `root`.
pub fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let mut crates = Vec::new();
    for folder in CRATES {
        find_crates(root, &root.join(folder), &mut crates)?;
    }
    crates.sort_by(|a: &Crate, b| a.folder.cmp(&b.folder));
    Ok(crates)
}

fn find_crates(root: &Path, folder: &Path, crates: &mut Vec<Crate>) -> Result<(), String> {
    if folder.join("Cargo.toml").is_file() && folder.join("src").is_dir() {
        let src = folder.join("src");
        let mut paths = Vec::new();
        find_files(&src, &mut paths)?;
        let mut files = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            files.push(read(root, &src, &path, &text));
        }
        remove_test_modules(&mut files);
        crates.push(Crate {
            folder: relative(root, folder),
            files,
        });
    }
    for path in entries(folder)? {
        let is_crate = path.is_dir() && !path.ends_with("src");
        if is_crate && !SKIPPED.iter().any(|name| path.ends_with(name)) {
            find_crates(root, &path, crates)?;
        }
    }
    Ok(())
}

fn find_files(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        if path.is_dir() {
            if !SKIPPED.iter().any(|name| path.ends_with(name)) {
                find_files(&path, paths)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.map_err(|error| failed(folder, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.display().to_string()
}

fn read(root: &Path, src: &Path, path: &Path, text: &str) -> File {
    let mut module: Vec<String> = relative(src, path)
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    let (code, tests) = product(text);
    File {
        path: relative(root, path),
        module,
        code,
        lines: text.lines().count() - tests,
    }
}

/// The code of the product in a text, and the number of lines that inline tests take.
pub fn product(text: &str) -> (String, usize) {
    without_tests(&without_texts(text))
}

/// The code with blanks in place of comments, and without the contents of texts.
fn without_texts(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = match rest[0] {
            b'/' if rest.starts_with(b"//") => find(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => find(&rest[2..], b"*/") + 4,
            b'"' => text_end(rest),
            b'r' if !is_word(bytes, at) => raw_text_end(rest).unwrap_or(0),
            b'\'' => char_end(rest),
            _ => 0,
        };
        let end = end.min(rest.len());
        if end == 0 {
            code.push(rest[0]);
            at += 1;
            continue;
        }
        if rest[0] == b'/' {
            code.push(b' ');
        } else {
            code.extend(b"\"\"");
        }
        // Lines keep their numbers.
        code.extend(rest[..end].iter().filter(|byte| **byte == b'\n'));
        at += end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Whether a byte continues a word.
fn is_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    let mut windows = bytes.windows(what.len());
    windows.position(|part| part == what).unwrap_or(bytes.len())
}

fn text_end(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_text_end(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    Some(2 + hashes + find(&rest[2 + hashes..], &close) + close.len())
}

/// The end of a character, or 0 where a lifetime begins.
fn char_end(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => 4 + find(&rest[3..], b"'"),
        _ => {
            let mut text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
            if let Err(error) = text {
                text = std::str::from_utf8(&rest[1..=error.valid_up_to()]);
            }
            let first = text.ok().and_then(|text| text.chars().next());
            let end = 1 + first.map_or(0, char::len_utf8);
            if rest.get(end) == Some(&b'\'') {
                end + 1
            } else {
                0
            }
        }
    }
}

/// Blanks what is compiled for tests alone, except the declaration of a module with a file of its
/// own. Returns the number of lines that inline tests take, too.
fn without_tests(code: &str) -> (String, usize) {
    let mut lines: Vec<&str> = code.lines().collect();
    let mut tests = 0;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let indent = &line[..line.len() - line.trim_start().len()];
        if !line.trim_start().starts_with("#[cfg(test)]") {
            at += 1;
            continue;
        }
        let first = at;
        at += 1;
        while at < lines.len() && lines[at].trim_start().starts_with("#[") {
            at += 1;
        }
        if at < lines.len() && is_module_of_a_file(lines[at]) {
            continue;
        }
        while at < lines.len() && !ends_item(lines[at], indent) {
            at += 1;
        }
        at = (at + 1).min(lines.len());
        tests += at - first;
        lines[first..at].fill("");
    }
    (lines.join("\n"), tests)
}

fn is_module_of_a_file(line: &str) -> bool {
    module_name(line).is_some()
}

/// The name in `mod name;`.
fn module_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// Whether an item of formatted code that begins at `indent` ends in this line.
fn ends_item(line: &str, indent: &str) -> bool {
    let own = line
        .strip_prefix(indent)
        .filter(|own| !own.starts_with(' '));
    own.is_some_and(|own| {
        own.starts_with('}') || own.ends_with(';') || own.ends_with('}') || own.ends_with(',')
    })
}

/// Removes the files of modules that are declared for tests alone.
fn remove_test_modules(files: &mut Vec<File>) {
    let mut tests: BTreeSet<Vec<String>> = BTreeSet::new();
    for file in files.iter() {
        let lines: Vec<&str> = file.code.lines().collect();
        for pair in lines.windows(2) {
            if pair[0].trim() == "#[cfg(test)]"
                && let Some(name) = module_name(pair[1])
            {
                let mut module = file.module.clone();
                module.push(name.to_owned());
                tests.insert(module);
            }
        }
    }
    files.retain(|file| !(1..=file.module.len()).any(|end| tests.contains(&file.module[..end])));
}
