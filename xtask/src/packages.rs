//! What the tests need from the system: installed when we are root on Debian,
//! else named.

use std::path::PathBuf;
use std::process::Command;

/// (program that shows it is there, Debian package that brings it).
const NEEDED: &[(&str, &str)] = &[
    ("python3", "python3"),
    ("git", "git"),
    ("cc", "gcc"),
    ("stdbuf", "coreutils"),
    ("mount", "mount"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("tcsh", "tcsh"),
    ("fish", "fish"),
];

/// Makes sure that everything is there.
///
/// # Errors
/// Names what is missing when it cannot be installed from here.
pub fn ensure() -> Result<(), String> {
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
    // Servers lie where an ordinary user's path does not lead.
    let servers = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(servers)
        .any(|folder| folder.join(program).is_file())
}
