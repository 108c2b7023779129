//! The variables that a daemon inherits from the shell, and those that are
//! recorded with experiments. No others are passed on.

use std::ffi::OsString;

use nero_model::names::OF_RUNTIMES;
use nero_model::safe::looks_secret;
use nero_wire::v1::EnvVar;

/// Variables that a daemon needs from the shell that starts it.
const FOR_DAEMON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "VIRTUAL_ENV",
    "DBUS_SESSION_BUS_ADDRESS",
    "KRB5CCNAME",
    // How the commands of a scheduler find the cluster, where this machine is one of
    // its login nodes.
    "SLURM_CONF",
    "SGE_ROOT",
    "SGE_CELL",
    "SGE_ARCH",
    "SGE_CLUSTER_NAME",
    "SGE_QMASTER_PORT",
    "SGE_EXECD_PORT",
    "RUST_BACKTRACE",
];

/// Beginnings of names that a daemon needs.
const FOR_DAEMON_BEGINNINGS: &[&str] = &["LC_", "XDG_", "NERONET_"];

/// Variables of the shell that a job on this machine gets.
const FOR_JOBS: &[&str] = &["PATH", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"];

/// Beginnings of names that such a job gets.
const FOR_JOBS_BEGINNINGS: &[&str] = &["CONDA_"];

/// The daemon's environment.
pub fn for_daemon() -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                let is_runtimes = OF_RUNTIMES.contains(&&*name.to_uppercase());
                is_runtimes || listed(name, FOR_DAEMON, FOR_DAEMON_BEGINNINGS)
            })
        })
        .collect()
}

/// The socket of the shell's ssh agent; empty when it has none.
pub fn ssh_auth_sock() -> String {
    std::env::var("SSH_AUTH_SOCK").unwrap_or_default()
}

/// Variables that `add`, `start` and `restart` send along. Names that look
/// secret and values that are no text are left out.
pub fn for_jobs() -> Vec<EnvVar> {
    let mut picked: Vec<EnvVar> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| listed(name, FOR_JOBS, FOR_JOBS_BEGINNINGS) && !looks_secret(name))
        .map(|(name, value)| EnvVar {
            name,
            value,
            unset: false,
            expand: false,
        })
        .collect();
    picked.sort_by(|one, other| one.name.cmp(&other.name));
    picked
}

fn listed(name: &str, names: &[&str], beginnings: &[&str]) -> bool {
    names.contains(&name) || beginnings.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_without_secrets_are_passed_on() {
        let passes = |name| listed(name, FOR_JOBS, FOR_JOBS_BEGINNINGS) && !looks_secret(name);
        assert!(passes("PATH") && passes("CONDA_PREFIX"));
        assert!(!passes("HOME") && !passes("CONDA_TOKEN") && !passes("AWS_SECRET_ACCESS_KEY"));
        assert!(listed("NERONET_HOME", FOR_DAEMON, FOR_DAEMON_BEGINNINGS));
        assert!(!listed("LD_PRELOAD", FOR_DAEMON, FOR_DAEMON_BEGINNINGS));
    }
}
