//! The files by which spreadsheet programs tell each other that a workbook is open.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of a lock file that are read.
const LOCK_BYTES_MAX: u64 = 4 << 10;

/// A program that holds workbooks open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockProgram {
    /// LibreOffice, and its relatives with the same lock files.
    LibreOffice,
    /// Excel.
    Excel,
}

impl fmt::Display for LockProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LibreOffice => "LibreOffice",
            Self::Excel => "Excel",
        })
    }
}

/// Who has a workbook open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Whose kind of lock it is.
    pub program: LockProgram,
    /// The lock file. To go on after a crash of the program, delete it.
    pub path: PathBuf,
    /// The name of the person, as the program knows it.
    pub owner: Option<String>,
    /// The machine where it is open.
    pub host: Option<String>,
    /// When the lock was made.
    pub since: Option<SystemTime>,
    /// Whether no such program runs on its machine any more; `None` when that is another
    /// machine or unknown.
    pub is_left_behind: Option<bool>,
}

/// The lock that stands beside a workbook.
pub fn lock_of(path: &Path) -> Option<Lock> {
    let name = path.file_name()?.to_str()?;
    let libre = path.with_file_name(format!(".~lock.{name}#"));
    if let Some((content, since)) = read(&libre) {
        return Some(libre_office(libre, &content, since));
    }
    // Excel leaves out the beginning of long names.
    let cut: String = name.chars().skip(2).collect();
    for name in [format!("~${name}"), format!("~${cut}")] {
        let path = path.with_file_name(name);
        if let Some((content, since)) = read(&path) {
            return Some(Lock {
                program: LockProgram::Excel,
                path,
                owner: excel_owner(&content),
                host: None,
                since,
                is_left_behind: None,
            });
        }
    }
    None
}

/// The content of a lock that is there, as far as it can be read, and its age.
fn read(path: &Path) -> Option<(Vec<u8>, Option<SystemTime>)> {
    let since = fs::symlink_metadata(path).ok()?.modified().ok();
    let mut content = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        // A lock that cannot be read is a lock.
        let _ = file.take(LOCK_BYTES_MAX).read_to_end(&mut content);
    }
    Some((content, since))
}

/// `,user,host,date,profile;`, where a comma within a part has a backslash before it.
fn libre_office(path: PathBuf, content: &[u8], since: Option<SystemTime>) -> Lock {
    let text = String::from_utf8_lossy(content);
    let mut parts = vec![String::new()];
    let mut chars = text.trim().trim_end_matches(';').chars();
    while let Some(c) = chars.next() {
        let last = parts.last_mut().expect("there is one part at least");
        match c {
            '\\' => last.extend(chars.next()),
            ',' => parts.push(String::new()),
            c => last.push(c),
        }
    }
    let part = |index: usize| parts.get(index).filter(|part| !part.is_empty()).cloned();
    let host = part(2);
    let is_here = host.as_deref() == Some(&*this_host());
    Lock {
        program: LockProgram::LibreOffice,
        path,
        owner: part(0).or_else(|| part(1)),
        host,
        since,
        is_left_behind: is_here
            .then(|| !runs("soffice"))
            .filter(|_| has_processes()),
    }
}

/// The name stands as its length and its bytes.
fn excel_owner(content: &[u8]) -> Option<String> {
    let length = usize::from(*content.first()?);
    let name = content.get(1..=length)?;
    let name = String::from_utf8_lossy(name).trim().to_owned();
    (!name.is_empty()).then_some(name)
}

fn this_host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

fn has_processes() -> bool {
    Path::new("/proc/self/cmdline").exists()
}

/// Whether a program whose name begins so runs on this machine. What ended and still waits for
/// its parent has no command line.
fn runs(name: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let program = String::from_utf8_lossy(program).into_owned();
        program
            .rsplit('/')
            .next()
            .is_some_and(|program| program.starts_with(name))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{LockProgram, lock_of};

    #[test]
    fn the_locks_of_both_programs_name_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let book = folder.path().join("plan.xlsx");
        assert_eq!(lock_of(&book), None);
        let libre = folder.path().join(".~lock.plan.xlsx#");
        let text = "Ada \\, Countess,ada,far.example.org,24.11.2026 06:00,file:///home/ada;";
        fs::write(&libre, text).unwrap();
        let lock = lock_of(&book).unwrap();
        assert_eq!(lock.program, LockProgram::LibreOffice);
        assert_eq!(lock.owner.as_deref(), Some("Ada , Countess"));
        assert_eq!(lock.host.as_deref(), Some("far.example.org"));
        assert_eq!(lock.is_left_behind, None);
        let text = format!(
            ",ada,{},24.11.2026 06:00,file:///home/ada;",
            super::this_host()
        );
        fs::write(&libre, text).unwrap();
        let lock = lock_of(&book).unwrap();
        assert_eq!(lock.owner.as_deref(), Some("ada"));
        assert!(lock.is_left_behind.is_some());
        let this = std::env::current_exe().unwrap();
        assert!(super::runs(this.file_name().unwrap().to_str().unwrap()));
        assert!(!super::runs("no such program"));
        fs::remove_file(&libre).unwrap();
        let mut content = vec![b' '; 165];
        content[0] = 3;
        content[1..4].copy_from_slice(b"Ada");
        fs::write(folder.path().join("~$plan.xlsx"), content).unwrap();
        let lock = lock_of(&book).unwrap();
        assert_eq!(lock.program, LockProgram::Excel);
        assert_eq!(lock.owner.as_deref(), Some("Ada"));
    }
}
