//! Finds files that a job missed although they lie in its experiment's folder,
//! or beside it, by the names in its standard error.

use std::path::{Component, Path, PathBuf};

use nero_model::RunId;

use crate::outside::FolderToFreeze;
use crate::snapshot::{self, LeftOut};

/// How much of the end of standard error is looked at.
pub(super) const TAIL_BYTES: u64 = 64 * 1024;
/// More hints would not help.
const HINTS_MAX: usize = 3;
/// Texts of programs about a missing file, in lower case.
const SAYS: [&str; 6] = [
    "no such file",
    "not found",
    "does not exist",
    "doesn't exist",
    "cannot open",
    "can't open",
];

/// Hints for a failed run. Looks at the folder only if the end of standard
/// error names a missing file. Blocks.
pub(super) fn hints(stderr: &[u8], id: RunId, wanted: &FolderToFreeze) -> Vec<String> {
    let folder = &wanted.folder;
    let named = named(&String::from_utf8_lossy(stderr), id);
    if named.is_empty() {
        return Vec::new();
    }
    let Ok(survey) = snapshot::survey(folder, &wanted.what) else {
        return Vec::new(); // The folder is not there any more.
    };
    let mut hints: Vec<String> = Vec::new();
    for path in named {
        let hint = hint(&path, folder, &survey.left_out);
        if let Some(hint) = hint.filter(|hint| !hints.contains(hint)) {
            hints.push(hint);
        }
    }
    hints.truncate(HINTS_MAX);
    hints
}

fn hint(path: &Path, folder: &Path, left_out: &[LeftOut]) -> Option<String> {
    let shown = path.display();
    if path.starts_with("..") {
        let there = plainly(&folder.join(path))?.symlink_metadata().is_ok();
        return there.then(|| {
            format!(
                "`{shown}` lies outside of the folder and does not travel; `data:` names files that stay where they are"
            )
        });
    }
    let text = path.to_str()?;
    let one = left_out
        .iter()
        .find(|one| match one.path.strip_suffix('/') {
            Some(above) => path.starts_with(above),
            None => one.path == text,
        })?;
    folder.join(path).symlink_metadata().ok()?;
    let LeftOut { path: all, by } = one;
    Some(format!(
        "`{shown}` lies in the folder and was left out by {by}; `required_files: ['{}']` takes it along",
        all.trim_end_matches('/')
    ))
}

/// The paths in lines about a missing file, relative to the folder.
fn named(stderr: &str, id: RunId) -> Vec<PathBuf> {
    let mut named = Vec::new();
    let speaks = |line: &&str| {
        let line = line.to_lowercase();
        SAYS.iter().any(|says| line.contains(says))
    };
    for line in stderr.lines().rev().filter(speaks) {
        let quoted = line.split(['\'', '"', '`', '‘', '’']).skip(1).step_by(2);
        let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’()[]<>,;".contains(c));
        let words = words.map(|word| word.trim_matches(':'));
        for path in quoted.chain(words).filter_map(|text| relative(text, id)) {
            if !named.contains(&path) {
                named.push(path);
            }
        }
    }
    named
}

/// A path of the job's text, relative to the experiment's folder; `None` if it
/// cannot lie there.
fn relative(text: &str, id: RunId) -> Option<PathBuf> {
    if text.is_empty() || text.len() > 4096 || text.contains("://") {
        return None;
    }
    if !text.starts_with('/') {
        return plainly(Path::new(text)).filter(|path| !path.as_os_str().is_empty());
    }
    // The job's folder is `…/runs/EXPERIMENT/RUN/work`, or `work.2`.
    let mark = format!("/runs/{}/{}/", id.experiment, id.number);
    let (_, rest) = text.split_once(&mark)?;
    let (first, below) = rest.split_once('/')?;
    if first == "work" || first.starts_with("work.") {
        plainly(Path::new(below))
    } else {
        plainly(&Path::new("..").join(rest))
    }
}

/// A path without `.` and inner `..`, which need not exist; `None` if it leads
/// above the root.
fn plainly(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain == Path::new("/") => return None,
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::ExperimentId;
    use std::fs;

    const ID: RunId = RunId {
        experiment: ExperimentId(7),
        number: 2,
    };

    #[test]
    fn a_missed_file_that_was_left_out_is_named_with_what_left_it_out() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("exp");
        fs::create_dir_all(folder.join("data2")).unwrap();
        fs::create_dir_all(base.path().join("data")).unwrap();
        for file in [
            "exp/data2/y.csv",
            "exp/model.pt",
            "exp/main.py",
            "data/x.csv",
        ] {
            fs::write(base.path().join(file), "x").unwrap();
        }
        fs::write(folder.join(".gitignore"), "data2/\n*.pt\n").unwrap();
        let wanted = FolderToFreeze {
            folder: folder.clone(),
            what: snapshot::FileSelection::default(),
        };
        let hints = |stderr: &str| hints(stderr.as_bytes(), ID, &wanted);
        let ignored = "`data2/y.csv` lies in the folder and was left out by .gitignore; `required_files: ['data2']` takes it along";
        let outside = "`../data/x.csv` lies outside of the folder and does not travel; `data:` names files that stay where they are";
        for (stderr, hint) in [
            (
                "FileNotFoundError: [Errno 2] No such file or directory: 'data2/y.csv'\n",
                ignored,
            ),
            ("cat: ./data2/y.csv: No such file or directory\n", ignored),
            (
                "x\n/home/a/.neronet/ab/runs/7/2/work/data2/y.csv does not exist\n",
                ignored,
            ),
            ("cannot open file '../data/x.csv': No such file\n", outside),
            (
                "No such file: /home/a/.neronet/ab/runs/7/2/data/x.csv\n",
                outside,
            ),
        ] {
            assert_eq!(hints(stderr), [hint], "{stderr}");
        }
        let both = "No such file: 'model.pt'\nNo such file: 'data2/y.csv'\n";
        assert_eq!(hints(both).len(), 2);
        for stderr in [
            "ModuleNotFoundError: No module named 'data2'\n",
            "No such file or directory: 'data3/y.csv'\n",
            "No such file or directory: 'main.py'\n",
            "No such file or directory: '../data/z.csv'\n",
            "data2/y.csv was read\n",
            "No such file or directory: '../../../../../../../../../..'\n",
            "not found: /runs/7/2/\n",
        ] {
            assert_eq!(hints(stderr), [""; 0], "{stderr}");
        }
    }
}
