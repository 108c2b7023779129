//! Packages of Python for tests and tools, each set in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File in the folder that marks it as complete, and names the packages.
const WHOLE: &str = "whole";

/// Finds packages in their folder, or has pip install them there; returns the folder, which
/// belongs into `PYTHONPATH`. Several processes may install at once: the first that is done wins.
///
/// # Errors
/// When pip cannot install them, with what to do.
pub fn packages(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let wanted = packages.join(" ");
    let is_whole = || fs::read_to_string(folder.join(WHOLE)).is_ok_and(|found| found == wanted);
    if is_whole() {
        return Ok(folder.to_path_buf());
    }
    let making = folder.with_extension(std::process::id().to_string());
    install(&making, packages, &wanted)?;
    let refused = |error| format!("{}: {error}", folder.display());
    fs::write(making.join(WHOLE), &wanted).map_err(refused)?;
    if fs::rename(&making, folder).is_err() {
        if is_whole() {
            fs::remove_dir_all(&making).map_err(refused)?;
        } else {
            // What lies there is incomplete, or of another version.
            fs::remove_dir_all(folder).map_err(refused)?;
            fs::rename(&making, folder).map_err(refused)?;
        }
    }
    Ok(folder.to_path_buf())
}

fn install(folder: &Path, packages: &[&str], wanted: &str) -> Result<(), String> {
    let hint = "install python3 with pip, and let it reach its registry";
    let installed = Command::new("python3")
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(["--quiet", "--target"])
        .arg(folder)
        .args(packages)
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .status();
    match installed {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "pip cannot install {wanted}: {status}\nhint: {hint}"
        )),
        Err(error) => Err(format!("cannot start python3: {error}\nhint: {hint}")),
    }
}
