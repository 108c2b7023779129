//! The programs that are measured: release builds, and the floor in C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{Steps, execute};

/// Where the measured programs lie.
#[derive(Clone)]
pub struct Programs {
    folder: PathBuf,
    scratch: PathBuf,
    tools: PathBuf,
    root: PathBuf,
}

impl Programs {
    /// The project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of all programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of a tool that stays for later benches.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.tools.join(name)
    }

    /// A fresh folder below which a home may be made.
    pub fn scratch(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.scratch.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// The same programs, with homes in the memory of this machine; `None` where it has no such
    /// file system.
    pub fn on_tmpfs(&self) -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let scratch = memory.join(format!("neronet-bench-{}", std::process::id()));
        memory.is_dir().then(|| Self {
            scratch,
            ..self.clone()
        })
    }

    /// Removes every home, at the very end.
    pub fn clear(&self) {
        // A leftover does no harm: it lies in the build folder.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// The programs in `folder`; without one, builds everything as it would be
/// shipped.
pub fn find(steps: &mut Steps, folder: Option<PathBuf>) -> Result<Programs, String> {
    let target = steps.target();
    let folder = match folder {
        // Jobs of the bench begin in folders of their own.
        Some(folder) => {
            fs::canonicalize(&folder).map_err(|error| format!("{}: {error}", folder.display()))?
        }
        None => build(steps, &target)?,
    };
    // Homes of this run lie beside those of earlier ones: a file system that is
    // still busy with deletions would distort the measurement.
    let scratch = target.join(format!("bench/homes-{}", std::process::id()));
    Ok(Programs {
        folder,
        scratch,
        tools: target.join("bench/tools"),
        root: steps.root().to_path_buf(),
    })
}

fn build(steps: &mut Steps, target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("bench/bin");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;

    // All of them, as the README builds them: with other features the libraries would be built again.
    execute(steps.build(&["--release"]))?;
    execute(steps.cargo(&["build", "--profile", "kid", "--locked", "-p", "nerokid"]))?;
    let shim = shim(steps, target)?;
    for (from, name) in [
        (target.join("release/neroman"), "neroman"),
        (target.join("release/neroman-office"), "neroman-office"),
        (target.join("release/neromum"), "neromum"),
        (target.join("kid/nerokid"), "nerokid"),
        (shim, "nerokid-shim"),
    ] {
        // Removed first: a running one cannot be written to.
        let to = folder.join(name);
        let _ = fs::remove_file(&to);
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"])
        .arg(folder.join("floor"))
        .arg(steps.root().join("xtask/bench/floor.c"));
    execute(cc)?;
    Ok(folder)
}

/// The shim: musl where that target is installed, else static for the host.
fn shim(steps: &Steps, target: &Path) -> Result<PathBuf, String> {
    let host = host()?;
    let musl = host.replace("-gnu", "-musl");
    let triple = if installed(&musl) { musl } else { host };
    let mut build = steps.cargo(&[
        "build",
        "--profile",
        "kid",
        "--locked",
        "-p",
        "nerokid-shim",
        "--target",
        &triple,
    ]);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    execute(build)?;
    Ok(target.join(&triple).join("kid/nerokid-shim"))
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .map_err(|error| error.to_string())?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn installed(triple: &str) -> bool {
    Command::new("rustc")
        .args(["--print", "target-libdir", "--target", triple])
        .output()
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
