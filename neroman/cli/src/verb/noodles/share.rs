//! One connection to each server for the lines of a flow: ssh's own sharing.
//!
//! The original makes a connection for each group, which takes longer than most groups. A server
//! that is used for the second time gets a master, which ends a minute after its last use; a line
//! names its socket while that is there, and connects by itself otherwise. Probes always do: a host
//! has a limit of sessions on one connection. Where the caller's configuration shares connections,
//! or opens ports or runs commands with each, nothing is done.

use std::collections::HashMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nero_noodles::NoodlesSpec;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Before a master that could not be made is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// Of the names of such folders, before the process that made one.
const PREFIX: &str = "nero";
/// Longest path of the folder: with the name of a socket it has to fit into 108 bytes.
const FOLDER_MAX: usize = 40;

/// Words of ssh's configuration with which a connection is not shared.
const OWN: &str = "controlpath|localforward|remoteforward|dynamicforward|localcommand";

/// The connections of this process.
#[derive(Debug, Default)]
pub struct Connections {
    /// Whether nothing is shared.
    pub is_off: bool,
    folder: Option<TempDir>,
    servers: HashMap<String, SharedConnections>,
}

#[derive(Debug)]
struct SharedConnections {
    sockets: PathBuf,
    tried: Option<(Instant, Child)>,
}

impl Connections {
    /// An endpoint, with the options that let it use a connection that is there.
    pub fn shared(&mut self, spec: &NoodlesSpec, endpoint: String) -> String {
        let words = endpoint.strip_prefix("ssh ").filter(|_| !self.is_off);
        let Some(words) = words else {
            return endpoint;
        };
        let Some(sharing) = self.servers.get_mut(&endpoint) else {
            if let Some(sockets) = self.sockets() {
                let tried = None;
                let sharing = SharedConnections { sockets, tried };
                self.servers.insert(endpoint.clone(), sharing);
            }
            return endpoint;
        };
        // The name is made of host, port and user, in which the caller's variables may stand.
        let path = format!("-o ControlPath={}/%C", sharing.sockets.display());
        if sharing.is_there() {
            return format!("ssh -o ControlMaster=no {path} {words}");
        }
        let is_late = match &mut sharing.tried {
            None => true,
            Some((at, child)) => at.elapsed() > TRY_AGAIN && !matches!(child.try_wait(), Ok(None)),
        };
        if is_late {
            let own = format!("ssh -G {words} | grep -qiE '^({OWN})'");
            let master = format!(
                "ssh -o ControlMaster=yes -o ControlPersist=60 -o BatchMode=yes \
                 -o ServerAliveInterval=15 -o ServerAliveCountMax=2 {path} {words} true"
            );
            let line = format!("{} \"{own} || {master}\"", spec.shell_string);
            let child = Command::new("/bin/sh")
                .args(["-c", &line])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Ctrl-C is not for it: a group that runs may use it.
                .process_group(0)
                .spawn();
            // Without a master, each line connects by itself.
            sharing.tried = child.ok().map(|child| (Instant::now(), child));
        }
        endpoint
    }

    /// A folder for the sockets of one more server.
    fn sockets(&mut self) -> Option<PathBuf> {
        if self.folder.is_none() {
            sweep(&std::env::temp_dir());
            let prefix = format!("{PREFIX}{}.", std::process::id());
            self.folder = tempfile::Builder::new().prefix(&prefix).tempdir().ok();
        }
        let path = self.folder.as_ref()?.path();
        let path = path.join(self.servers.len().to_string());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let text = path.to_str()?;
        let fits = text.len() <= FOLDER_MAX && text.chars().all(is_plain);
        (fits && fs::create_dir(&path).is_ok()).then_some(path)
    }
}

/// Takes away the folders of processes that were killed. A master ends a minute after its last use.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let own = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = own.and_then(|own| own.split_once('.')).map(|(pid, _)| pid);
        let is_number = |pid: &&str| pid.parse::<u32>().is_ok();
        let is_gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        if pid.filter(is_number).is_some_and(is_gone) {
            // It may be another user's.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl SharedConnections {
    fn is_there(&self) -> bool {
        let mut is_there = false;
        for socket in names(&self.sockets) {
            match UnixStream::connect(&socket) {
                Ok(_) => is_there = true,
                // Its master was killed, and ssh would print that as an error of the group.
                Err(_) => drop(fs::remove_file(&socket)),
            }
        }
        is_there
    }
}

impl Drop for Connections {
    /// The masters end when the groups that use them have ended.
    fn drop(&mut self) {
        for socket in self.servers.values().flat_map(|one| names(&one.sockets)) {
            let mut stop = std::process::Command::new("ssh");
            stop.args(["-O", "stop", "-S"]).arg(socket).arg("x");
            stop.stdin(Stdio::null()).stdout(Stdio::null());
            // One that hears nothing ends a minute after its last use.
            let _ = stop.stderr(Stdio::null()).status();
        }
    }
}

/// The sockets in a folder. While ssh makes one, its name has a dot.
fn names(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    paths.filter(|path| path.extension().is_none()).collect()
}
