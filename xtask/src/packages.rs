//! Packages that the tests need from the system: installed when we are root on
//! Debian, else named.

use std::path::Path;
use std::process::Command;

use crate::steps::execute;

/// (program that shows it is there, Debian package that brings it).
const NEEDED: &[(&str, &str)] = &[
    ("python3", "python3"),
    ("pip3", "python3-pip"),
    ("git", "git"),
    ("cc", "gcc"),
    ("stdbuf", "coreutils"),
    ("mount", "mount"),
    ("strace", "strace"),
    ("unshare", "util-linux"),
    ("tcsh", "tcsh"),
    ("fish", "fish"),
    ("soffice", "libreoffice-calc"),
    ("openssl", "openssl"),
    ("aiosmtpd", "python3-aiosmtpd"),
];

/// Makes sure that everything is there.
///
/// # Errors
/// The missing packages, by name, when they cannot be installed from here.
pub fn ensure(root: &Path) -> Result<(), String> {
    ensure_listed()?;
    // The rigs themselves know the needs of their hosts and clusters, and how to
    // install servers that do not start. Clusters need root in any case; without it
    // their tests name what is missing.
    let rigs: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["sshd.sh", "slurm.sh", "gridengine.sh"],
        false => &["sshd.sh"],
    };
    for rig in rigs {
        let mut install = Command::new("bash");
        install.arg(root.join("tests/rig").join(rig)).arg("install");
        execute(install)?;
    }
    Ok(())
}

fn ensure_listed() -> Result<(), String> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !on_path(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("missing: {0}\nhint: apt-get install {0}", missing.join(" "));
    if !rustix::process::geteuid().is_root() || !on_path("apt-get") {
        return Err(by_hand);
    }
    for arguments in [
        vec!["update"],
        [vec!["install", "-y", "--no-install-recommends"], missing].concat(),
    ] {
        let status = Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .map_err(|error| format!("cannot run apt-get: {error}\n{by_hand}"))?;
        if !status.success() {
            return Err(by_hand);
        }
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
