//! Packages that the tests need from the system: installed when we are root on
//! Debian, else named.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::execute;
use crate::test::Ring;

/// A program that shows that a package is there, the Debian package that brings it, and the
/// first ring that needs it.
const NEEDED: &[(&str, &str, Ring)] = &[
    ("python3", "python3", Ring::First),
    ("git", "git", Ring::First),
    ("cc", "gcc", Ring::First),
    ("stdbuf", "coreutils", Ring::First),
    ("mount", "mount", Ring::First),
    ("mkfs.ext4", "e2fsprogs", Ring::First),
    ("strace", "strace", Ring::First),
    ("unshare", "util-linux", Ring::First),
    ("script", "bsdutils", Ring::First),
    ("tcsh", "tcsh", Ring::First),
    ("fish", "fish", Ring::First),
    ("openssl", "openssl", Ring::First),
    ("tmux", "tmux", Ring::First),
    ("pgrep", "procps", Ring::All),
    ("modulecmd", "environment-modules", Ring::All),
    ("aiosmtpd", "python3-aiosmtpd", Ring::First),
    ("pip3", "python3-pip", Ring::All),
    ("chromium", "chromium", Ring::All),
    ("soffice", "libreoffice-calc", Ring::All),
];

/// Makes sure that everything is there that a ring needs.
///
/// # Errors
/// The missing packages, by name, when they cannot be installed from here.
pub fn ensure(root: &Path, ring: Ring) -> Result<(), String> {
    ensure_listed(ring)?;
    // The rigs themselves know the needs of their hosts and clusters, and how to
    // install servers that do not start. Clusters need root in any case; without it
    // their tests name what is missing.
    let rigs: &[&str] = if rustix::process::geteuid().is_root() && ring >= Ring::All {
        &["sshd.sh", "slurm.sh", "gridengine.sh", "containers.sh"]
    } else {
        &["sshd.sh"]
    };
    for rig in rigs {
        let mut install = Command::new("bash");
        install.arg(root.join("tests/rig").join(rig)).arg("install");
        execute(install)?;
    }
    Ok(())
}

fn ensure_listed(ring: Ring) -> Result<(), String> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _, first)| *first <= ring && !on_path(program))
        .map(|(_, package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("missing: {0}\nhint: apt-get install {0}", missing.join(" "));
    if !rustix::process::geteuid().is_root() || !on_path("apt-get") {
        return Err(by_hand);
    }
    println!("installing {}", missing.join(" "));
    for arguments in [
        vec!["-qq", "update"],
        [
            vec!["-qq", "install", "-y", "--no-install-recommends"],
            missing,
        ]
        .concat(),
    ] {
        let output = Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .map_err(|error| format!("cannot run apt-get: {error}\n{by_hand}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{said}{by_hand}"));
        }
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .any(|folder| folder.join(program).is_file())
}
