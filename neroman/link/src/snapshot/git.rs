//! The state of a folder's git repository: the commit, and the diff of the work
//! tree.
//!
//! Best effort: without git, or with a slow or failing one, this state is
//! missing. Programs of the repository are not run, no prompt appears, and no
//! lock is taken that a person's own git would wait for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nero_child::{ChildLimits, KeptOutput, blocking, run};
use tokio::process::Command;

/// How long both calls may take together.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest diff that is kept.
const DIFF_BYTES_MAX: usize = 10 * 1024 * 1024;

/// The output of git.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitState {
    /// Of `HEAD`, in hexadecimal.
    pub(super) commit: String,
    /// The diff from the commit, if any.
    pub(super) diff: Option<Vec<u8>>,
}

/// Size and time of the repository's files that change with every commit,
/// checkout and `git add`.
pub(super) type Marks = Vec<(PathBuf, Option<(u64, std::time::SystemTime)>)>;

/// The marks of the repository that contains a folder; `None` outside of one.
pub(super) fn marks(folder: &Path) -> Option<Marks> {
    let mut git = folder.ancestors().map(|above| above.join(".git"));
    let git = git.find(|git| git.symlink_metadata().is_ok())?;
    // In a linked work tree `.git` is a file that names the real folder.
    let git = match fs::read_to_string(&git) {
        Ok(text) => {
            let named = text.strip_prefix("gitdir: ")?.trim_end();
            git.parent()?.join(named)
        }
        Err(_) => git,
    };
    let marks = ["HEAD", "index", "logs/HEAD"]
        .iter()
        .map(|name| {
            let path = git.join(name);
            let seen = fs::metadata(&path)
                .ok()
                .and_then(|found| Some((found.len(), found.modified().ok()?)));
            (path, seen)
        })
        .collect();
    Some(marks)
}

/// Runs git.
pub(super) fn git_state(folder: &Path) -> Option<GitState> {
    let until = Instant::now() + PATIENCE;
    let commit = ask(folder, &["rev-parse", "--verify", "HEAD"], 1000, until)?;
    let commit = String::from_utf8(commit).ok()?.trim().to_owned();
    let plain = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let arguments = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=all",
        "HEAD",
        "--",
        ".",
    ];
    plain.then(|| GitState {
        commit,
        diff: ask(folder, &arguments, DIFF_BYTES_MAX, until).filter(|diff| !diff.is_empty()),
    })
}

/// The output of one call, if it succeeded in time.
fn ask(folder: &Path, arguments: &[&str], bytes_max: usize, until: Instant) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    // A repository's settings may name programs; none of them may run here.
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.pager=cat",
        "core.untrackedCache=false",
    ] {
        command.args(["-c", setting]);
    }
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_EXTERNAL_DIFF",
        "GIT_TRACE",
    ] {
        command.env_remove(name);
    }
    command
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "false")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C");
    let limits = ChildLimits {
        out: KeptOutput::Whole(bytes_max),
        err: 0,
        patience: until.saturating_duration_since(Instant::now()),
        is_killed: true,
    };
    let ended = blocking(run("git", command, [], limits)).ok()?;
    ended.status.success().then_some(ended.out)
}
