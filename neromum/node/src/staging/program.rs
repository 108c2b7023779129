//! The file that a command names. A name that is not found stays as typed, so
//! that the shim's `execve` reports its fault.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};

/// The arguments with a resolved program, and the first argument for the job
/// (empty: the same).
pub fn resolve(
    argv: &[String],
    line_buffered: bool,
    path: &[u8],
    work: &Path,
) -> (Vec<Vec<u8>>, Vec<u8>) {
    let typed = argv.first().map(String::as_bytes).unwrap_or_default();
    let program = locate(typed, path, work);
    let rest = argv.iter().skip(1).map(|argument| argument.clone().into());
    let stdbuf = line_buffered
        .then(|| locate(b"stdbuf", path, work))
        .filter(|found| found.contains(&b'/'));
    match stdbuf {
        Some(stdbuf) => {
            let front = [stdbuf, b"-oL".to_vec(), program];
            (front.into_iter().chain(rest).collect(), Vec::new())
        }
        None => (
            std::iter::once(program).chain(rest).collect(),
            typed.to_vec(),
        ),
    }
}

/// Finds a program as a shell does, with relative paths counted from `work`.
fn locate(typed: &[u8], path: &[u8], work: &Path) -> Vec<u8> {
    let name = Path::new(OsStr::from_bytes(typed));
    if typed.contains(&b'/') {
        return bytes(work.join(name));
    }
    if typed.is_empty() {
        return Vec::new();
    }
    let folders = path.split(|byte| *byte == b':');
    first_of(
        folders.map(|folder| work.join(OsStr::from_bytes(folder))),
        name,
    )
    .map_or_else(|| typed.to_vec(), bytes)
}

/// The program of this name in the first of the folders that has one.
fn first_of(mut folders: impl Iterator<Item = PathBuf>, name: &Path) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| is_program(path)))
}

fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_encoded_bytes()
}

/// Bytes of a program that are read to find its interpreter.
pub const HEAD_BYTES: u64 = 256;

/// The part that is missing for starting `typed` with this `PATH`, in words;
/// `None` when nothing is missing, or when only the work folder can show it.
/// `frozen` returns the first bytes of a file that the work folder will have.
pub fn lacking(
    typed: &[u8],
    path: &[u8],
    frozen: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Option<String> {
    let shown = String::from_utf8_lossy(typed);
    let head = if !typed.contains(&b'/') {
        let found = on_path(typed, path).ok()?;
        let Some(found) = found else {
            return Some(format!("no program `{shown}` is on its PATH"));
        };
        head(&found)?
    } else if typed.starts_with(b"/") {
        let program = Path::new(OsStr::from_bytes(typed));
        if let Some(why) = cannot_execute(program) {
            return Some(format!("the program {shown} {why}"));
        }
        head(program)?
    } else {
        frozen(&inside(&shown)?)?
    };
    let lacks = interpreter_lacking(&head, path)?;
    Some(format!("{shown} is run by {lacks}"))
}

/// A path below the work folder as trees name it; `None` when it leaves it.
fn inside(typed: &str) -> Option<String> {
    let parts: Option<Vec<&str>> = Path::new(typed)
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    Some(parts?.join("/"))
}

/// The interpreter in a script's first line that the kernel would not find, in
/// words.
fn interpreter_lacking(head: &[u8], path: &[u8]) -> Option<String> {
    let line = head.strip_prefix(b"#!")?;
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let line = line[..end].trim_ascii();
    let at = line.iter().position(u8::is_ascii_whitespace);
    let (name, rest) = line.split_at(at.unwrap_or(line.len()));
    let program = Path::new(OsStr::from_bytes(name));
    if !program.is_absolute() {
        return None;
    }
    if let Some(why) = cannot_execute(program) {
        return Some(format!("{}, which {why}", program.display()));
    }
    let word = rest.trim_ascii();
    let plain = |byte: &u8| !byte.is_ascii_whitespace() && !b"=/".contains(byte);
    let by_env = program.file_name() == Some(OsStr::new("env"))
        && !word.is_empty()
        && !word.starts_with(b"-")
        && word.iter().all(plain);
    if by_env && on_path(word, path).ok()?.is_none() {
        let word = String::from_utf8_lossy(word);
        return Some(format!("`{word}`, which is not on its PATH"));
    }
    None
}

/// Reason why a file certainly cannot be executed.
fn cannot_execute(program: &Path) -> Option<&'static str> {
    use rustix::io::Errno;
    match access(program, Access::EXEC_OK) {
        Err(Errno::NOENT | Errno::NOTDIR) => Some("is not there"),
        Err(Errno::ACCESS) => Some("may not be executed"),
        Err(_) | Ok(()) => None,
    }
}

/// Path of a program; `Err` when the search includes a folder of the work
/// folder, which may have it.
fn on_path(name: &[u8], path: &[u8]) -> Result<Option<PathBuf>, ()> {
    let folders = || path.split(|byte| *byte == b':');
    let known = folders().take_while(|folder| folder.starts_with(b"/"));
    let name = Path::new(OsStr::from_bytes(name));
    let found = first_of(known.map(|folder| OsStr::from_bytes(folder).into()), name);
    match found {
        None if folders().any(|folder| !folder.starts_with(b"/")) => Err(()),
        found => Ok(found),
    }
}

fn head(program: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let file = File::open(program).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(typed: &str, path: &str) -> Option<String> {
        let frozen = |name: &str| match name {
            "bin/new.py" => Some(b"#!/usr/bin/env no-such-python\nprint()\n".to_vec()),
            "old.sh" => Some(b"#! /bin/sh -e\ntrue\n".to_vec()),
            "far.py" => Some(b"#!/opt/nowhere/python3\n".to_vec()),
            "split.py" => Some(b"#!/usr/bin/env -S python3 -u\n".to_vec()),
            _ => None,
        };
        lacking(typed.as_bytes(), path.as_bytes(), &frozen)
    }

    #[test]
    fn a_missing_program_is_reported_before_any_start() {
        const PATH: &str = "/nope:/usr/bin:/bin";
        let said = |typed: &str| lacks(typed, PATH).unwrap_or_default();
        assert_eq!(said("no-such"), "no program `no-such` is on its PATH");
        assert_eq!(said("/no/such"), "the program /no/such is not there");
        assert_eq!(
            said("./bin/new.py"),
            "./bin/new.py is run by `no-such-python`, which is not on its PATH"
        );
        assert_eq!(
            said("./far.py"),
            "./far.py is run by /opt/nowhere/python3, which is not there"
        );
        for there in ["sh", "/bin/sh", "./old.sh", "./split.py"] {
            assert_eq!(lacks(there, PATH), None, "{there}");
        }
    }

    #[test]
    fn programs_of_the_work_folder_are_checked_at_the_start() {
        for unclear in ["./made-later", "../outside", "a/../old.sh"] {
            assert_eq!(lacks(unclear, "/bin"), None, "{unclear}");
        }
        assert_eq!(lacks("no-such", "bin:/bin"), None);
        assert_eq!(lacks("no-such", ""), None);
    }

    fn resolved(argv: &[&str], path: &str, line_buffered: bool) -> Vec<String> {
        let argv: Vec<String> = argv.iter().map(|&text| text.to_owned()).collect();
        let (argv, _) = resolve(&argv, line_buffered, path.as_bytes(), Path::new("/w"));
        argv.into_iter()
            .map(|argument| String::from_utf8(argument).unwrap())
            .collect()
    }

    #[test]
    fn names_are_searched_and_paths_count_from_the_work_folder() {
        assert_eq!(
            resolved(&["sh", "-c", "x"], "/nope:/bin", false),
            ["/bin/sh", "-c", "x"]
        );
        assert_eq!(resolved(&["./a b"], "/bin", false), ["/w/./a b"]);
        assert_eq!(resolved(&["/x/y"], "/bin", false), ["/x/y"]);
        assert_eq!(
            resolved(&["no-such-thing"], "/bin", false),
            ["no-such-thing"]
        );
        // A folder is no program, although it can be entered.
        assert_eq!(resolved(&["etc"], "/", false), ["etc"]);
    }

    #[test]
    fn line_buffering_is_put_in_front_where_it_can_be_had() {
        let with = resolved(&["sh", "-c"], "/usr/bin:/bin", true);
        assert_eq!(with[1..2], ["-oL"]);
        assert!(with[0].ends_with("/stdbuf") && with[2].ends_with("/sh"));
        assert_eq!(resolved(&["x"], "/nope", true), ["x"]);
    }
}
