//! Which file a command names. What cannot be found stays as typed, so that
//! the shim's `execve` says what is wrong with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The arguments with a resolved program, and the first argument that the job
/// is to see (empty: the same).
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

/// As a shell would find it, with relative places counted from `work`.
fn locate(typed: &[u8], path: &[u8], work: &Path) -> Vec<u8> {
    let name = Path::new(OsStr::from_bytes(typed));
    if typed.contains(&b'/') {
        return bytes(work.join(name));
    }
    if typed.is_empty() {
        return Vec::new();
    }
    path.split(|byte| *byte == b':')
        .map(|folder| work.join(OsStr::from_bytes(folder)).join(name))
        .find(|candidate| is_program(candidate))
        .map_or_else(|| typed.to_vec(), bytes)
}

fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A folder is no program, though it may be entered.
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
