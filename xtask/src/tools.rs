//! Tools that pip brings, each set into a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::execute;

/// What links for old systems. Both packages contain programs.
const PACKAGES: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// zig and cargo-zigbuild.
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds the tools in `folder`, or has pip install them there.
    pub fn ensure(folder: &Path) -> Result<Self, String> {
        let folder = nero_pip::packages(folder, &PACKAGES)?;
        Ok(Self { folder })
    }

    /// Adds the tools to a command's `PATH`.
    pub fn lend(&self, command: &mut Command) {
        let mut folders = vec![self.folder.join("bin")];
        if let Some(path) = std::env::var_os("PATH") {
            folders.extend(std::env::split_paths(&path));
        }
        // Only a folder with a colon in its name cannot be joined; cargo would
        // not have come this far from there.
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command.env("PYTHONPATH", &self.folder);
    }
}

/// Makes sure that the standard library of a target is installed.
pub fn need_std(triple: &str) -> Result<(), String> {
    if has_std(triple) {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    add.args(["target", "add", triple]);
    execute(add).map_err(|error| {
        format!(
            "the standard library for {triple} is not installed: {error}\nhint: rustup target add {triple}"
        )
    })
}

fn has_std(triple: &str) -> bool {
    Command::new("rustc")
        .args(["--print", "target-libdir", "--target", triple])
        .output()
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
