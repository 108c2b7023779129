//! Tells the programs which revision and which target they are built of. A released program has the
//! revision that git names, or the packager in `SOURCE_REVISION`; a tarball without either is
//! "unknown". A program of development has none, so that a commit builds nothing anew.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The packager's name of the sources.
const GIVEN: &str = "SOURCE_REVISION";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={GIVEN}");
    let is_release = variable("PROFILE").as_deref() == Some("release");
    let revision = match variable(GIVEN) {
        Some(given) => given,
        None if is_release => of_git().unwrap_or_else(|| "unknown".to_owned()),
        None => "unknown, a build of development".to_owned(),
    };
    println!("cargo:rustc-env=NERONET_REVISION={revision}");
    let target = variable("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=NERONET_TARGET={target}");
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The commit of the project's own repository. One around an unpacked tarball is another project's.
fn of_git() -> Option<String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../..");
    if !root.join(".git").exists() {
        return None;
    }
    let branch = git(&root, &["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", "packed-refs", &branch] {
        let path = git(&root, &["rev-parse", "--git-path", name]).unwrap_or_default();
        let path = root.join(path);
        if path.is_file() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(&root, &["rev-parse", "HEAD"])
}

/// What git prints; `None` where it fails or is missing.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).current_dir(root).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
