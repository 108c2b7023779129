//! `cargo xtask dist --check`: the release is installed and used on other systems than this one.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::at;
use crate::steps::{Steps, execute};

/// Systems of Debian; the oldest has glibc 2.31.
const SUITES: [&str; 3] = ["bullseye", "bookworm", "trixie"];
/// What they have besides the base.
const PACKAGES: &str = "openssh-server,openssh-client,python3-minimal";
const SCRIPT: &str = "xtask/src/dist/check.sh";

/// Plays the release in `out` on each of them. What was fetched once is kept in `target/roots`.
pub fn run(steps: &mut Steps, out: &Path) -> Result<(), String> {
    if !rustix::process::getuid().is_root() {
        return Err("root file systems need root: sudo cargo xtask dist --check".to_owned());
    }
    for suite in SUITES {
        let root = steps.target().join("roots").join(suite);
        if !root.is_dir() {
            steps.run(&format!("the base of {suite}"), |_| fetch(suite, &root))?;
        }
        copy_release(out, &root.join("dist"))?;
        let mut play = Command::new("unshare");
        play.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]);
        play.arg(steps.root().join(SCRIPT)).arg(&root);
        steps.command(&format!("the release on {suite}"), play)?;
    }
    Ok(())
}

fn fetch(suite: &str, root: &Path) -> Result<(), String> {
    // What is there is whole.
    let begun = root.with_extension("new");
    let _ = fs::remove_dir_all(&begun);
    fs::create_dir_all(&begun).map_err(at(&begun))?;
    let mut fetch = Command::new("mmdebstrap");
    fetch.args(["--quiet", "--variant=minbase"]);
    fetch.arg(format!("--include={PACKAGES}")).arg(suite);
    fetch.arg(&begun);
    execute(fetch).map_err(|why| format!("{why}\nhint: apt-get install mmdebstrap"))?;
    fs::rename(&begun, root).map_err(at(root))
}

fn copy_release(out: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(out).map_err(at(out))? {
        let entry = entry.map_err(at(out))?;
        if entry.path().is_file() {
            let place = to.join(entry.file_name());
            fs::copy(entry.path(), &place).map_err(at(&place))?;
        }
    }
    Ok(())
}
