//! `cargo xtask skew`: builds of an earlier revision beside those of this one,
//! in any mix.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::{Steps, execute, has_cargo_command};
use crate::test::bare;

/// Variable with the folder of the earlier programs; `nero_tests::previous`
/// reads it.
const PREVIOUS: &str = "NERONET_PREVIOUS";

/// Builds the programs of `revision` and runs the scenarios that mix builds.
pub fn run(steps: &mut Steps, revision: &str) -> Result<(), String> {
    let commit = commit_of(steps.root(), revision)?;
    let folder = steps.target().join("skew").join(&commit[..12]);
    steps.run(&format!("programs of {revision}"), |steps| {
        older(steps.root(), &commit, &folder)
    })?;
    let build = steps.build(&["-p", "nero-tests", "--bins"]);
    steps.command("programs of this revision", build)?;
    let mut words = if has_cargo_command(steps.root(), "nextest") {
        vec!["nextest", "run"]
    } else {
        vec!["test", "--no-fail-fast"]
    };
    // The last word selects the tests, for both runners.
    words.extend(["--locked", "-p", "nero-tests"]);
    words.extend(["--test", "it", "skew::"]);
    let mut command = steps.cargo(&words);
    bare(&mut command, 0o077);
    command.env(PREVIOUS, folder.join("bin"));
    steps.command(&format!("builds of {revision} and of this one"), command)
}

fn commit_of(root: &Path, revision: &str) -> Result<String, String> {
    let asked = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(format!("{revision}^{{commit}}"))
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    let text = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    if asked.status.success() && text.len() >= 40 {
        Ok(text)
    } else {
        Err(format!("`{revision}` is no revision of this repository"))
    }
}

/// The programs of a commit in `folder/bin`; built once.
fn older(root: &Path, commit: &str, folder: &Path) -> Result<(), String> {
    let bin = folder.join("bin");
    if bin.exists() {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| format!("{path}: {error}")
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let tree = folder.join("tree");
    forget(root, &tree)?;
    let mut checkout = Command::new("git");
    checkout
        .args(["worktree", "add", "--detach", "--force"])
        .arg(&tree)
        .arg(commit)
        .current_dir(root);
    execute(checkout)?;
    let target = folder.join("target");
    let earlier = Steps::new(&tree);
    let programs: Vec<&str> = earlier.programs().collect();
    let mut build = earlier.build(&[]);
    build.env("CARGO_TARGET_DIR", &target);
    let built = execute(build);
    forget(root, &tree)?;
    built?;
    // All of them appear at once, or none.
    let new = folder.join("bin.new");
    fs::create_dir_all(&new).map_err(failed(&new))?;
    for name in programs {
        let from = target.join("debug").join(name);
        fs::copy(&from, new.join(name)).map_err(failed(&from))?;
    }
    fs::rename(&new, &bin).map_err(failed(&bin))?;
    fs::remove_dir_all(&target).map_err(failed(&target))
}

/// Removes a checkout, even one that an interrupted run left.
fn forget(root: &Path, tree: &Path) -> Result<(), String> {
    if tree.exists() {
        let mut command = Command::new("git");
        command
            .args(["worktree", "remove", "--force"])
            .arg(tree)
            .current_dir(root);
        if execute(command).is_err() {
            fs::remove_dir_all(tree).map_err(|error| format!("{}: {error}", tree.display()))?;
        }
    }
    let mut command = Command::new("git");
    command.args(["worktree", "prune"]).current_dir(root);
    execute(command)
}
