//! Masters: connections of `ssh` that commands share, known by the path of
//! their control socket.
//!
//! Ours lie in our private folder as `<node>-<destination>-<random>`, all three hashed or random
//! and short: a socket's path holds 107 bytes, and `ssh` adds 17 while it makes one. A `+` before
//! the random part marks a master that a person opened in a terminal; we keep it, since it holds
//! typed secrets. Each start has a name of its own, so that two starts at once (the daemon and
//! `node connect`) never take each other's path; `ssh` would answer that by a connection that no
//! client can reach or end.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nero_model::ids::{base32, random};
use nero_model::paths::{SOCKET_PATH_MAX, short_socket_folder};
use tokio::time::timeout;

use crate::error::Trouble;
use crate::settings::Settings;

/// Length of the name of a control socket.
const NAME_BYTES: usize = STEM_BYTES + 6;
/// Length of the part with node and destination.
const STEM_BYTES: usize = 17;
/// Length of the part with the node and the dash behind it.
const NODE_BYTES: usize = 9;
/// Bytes that `ssh` appends while it makes a socket.
const SSH_ADDS_BYTES: usize = 17;
/// A living master answers at once; a stopped one never does.
const CHECK: Duration = Duration::from_secs(5);

/// A connection that commands go over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    /// Path of its control socket.
    pub(crate) path: PathBuf,
}

/// The starter of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starter {
    /// A daemon: no person is there to answer a question.
    Daemon,
    /// A person in a terminal.
    Person,
}

/// Whether a master answers at a control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Lives,
    /// No process listens; the socket file may still exist.
    Dead,
    /// A process listens and does not answer.
    Silent,
}

impl Master {
    pub(crate) fn session(&self) -> Arc<openssh::Session> {
        Arc::new(openssh::Session::resume_mux(self.path.clone().into(), None))
    }

    /// The result of `ssh -O check`.
    pub(crate) async fn life(&self) -> Life {
        match timeout(CHECK, self.session().check()).await {
            Ok(Ok(())) => Life::Lives,
            Ok(Err(openssh::Error::Disconnected)) => Life::Dead,
            Ok(Err(_)) | Err(_) => Life::Silent,
        }
    }

    /// Whether a person opened this master, by [`Ssh::login`](crate::Ssh::login).
    pub(crate) fn is_persons(&self) -> bool {
        let name = self.path.file_name().map(OsStrExt::as_bytes);
        name.is_some_and(|name| name.get(STEM_BYTES) == Some(&b'+'))
    }

    /// The path as `ssh -S` takes it.
    pub(crate) fn escaped_path(&self) -> OsString {
        let bytes = self.path.as_os_str().as_bytes();
        let mut word = Vec::with_capacity(bytes.len());
        for byte in bytes {
            word.push(*byte);
            if *byte == b'%' {
                word.push(b'%');
            }
        }
        std::os::unix::ffi::OsStringExt::from_vec(word)
    }
}

/// The user's own master of this destination, if there may be one: a socket of this user. A socket
/// of another user is not trusted with commands.
pub(crate) fn users(settings: &Settings) -> Option<Master> {
    let path = settings.control_path()?;
    let own = fs::metadata(&path).is_ok_and(|found| found.uid() == own_uid());
    own.then_some(Master { path })
}

/// Our folder for `wanted`: itself, or a shorter one named by hash where the
/// sockets of `ssh` would not fit.
pub(crate) fn folder_for(wanted: &Path) -> PathBuf {
    if wanted.as_os_str().len() + 1 + NAME_BYTES + SSH_ADDS_BYTES <= SOCKET_PATH_MAX {
        return wanted.to_path_buf();
    }
    short_socket_folder(wanted)
}

/// A new path for a master of this node and destination.
pub(crate) fn fresh(
    folder: &Path,
    node: &str,
    destination: &str,
    starter: Starter,
) -> Result<Master, Trouble> {
    let mut name = stem(node, destination);
    name.push(match starter {
        Starter::Daemon => '-',
        Starter::Person => '+',
    });
    name.push_str(&base32(&random::<3>()));
    let path = folder.join(name);
    // `${NAME}` in the path would be replaced by ssh, with no way to escape it.
    if path.as_os_str().len() + SSH_ADDS_BYTES > SOCKET_PATH_MAX
        || path.as_os_str().as_bytes().contains(&b'$')
    {
        return Err(Trouble::PathTooLong { path });
    }
    Ok(Master { path })
}

/// Our sockets of a node: first those of this destination, then those of other destinations, to
/// which the node's address led before.
pub(crate) fn ours(
    folder: &Path,
    node: &str,
    destination: &str,
) -> Result<(Vec<Master>, Vec<Master>), Trouble> {
    let stem = stem(node, destination);
    let of_node = &stem[..NODE_BYTES];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| folder_fault(folder, source))? {
        let entry = entry.map_err(|source| folder_fault(folder, source))?;
        let name = entry.file_name();
        // A socket that `ssh` is just making has a longer name.
        if name.len() == NAME_BYTES && name.as_bytes().starts_with(of_node.as_bytes()) {
            found.push(Master { path: entry.path() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found.into_iter().partition(|master| {
        master
            .path
            .file_name()
            .is_some_and(|name| name.as_bytes().starts_with(stem.as_bytes()))
    }))
}

/// Our sockets of all nodes but these.
pub(crate) fn strangers<'a>(
    folder: &Path,
    nodes: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Master>, Trouble> {
    let known: Vec<String> = nodes.into_iter().map(|node| stem(node, "")).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| folder_fault(folder, source))? {
        let entry = entry.map_err(|source| folder_fault(folder, source))?;
        let name = entry.file_name();
        let is_known = |stem: &String| name.as_bytes().starts_with(&stem.as_bytes()[..NODE_BYTES]);
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if name.len() == NAME_BYTES && is_socket && !known.iter().any(is_known) {
            found.push(Master { path: entry.path() });
        }
    }
    Ok(found)
}

pub(crate) fn folder_fault(folder: &Path, source: std::io::Error) -> Trouble {
    Trouble::Folder {
        folder: folder.to_path_buf(),
        source,
    }
}

/// `<node>-<destination>`.
fn stem(node: &str, destination: &str) -> String {
    let part = |text: &str| base32(&blake3::hash(text.as_bytes()).as_bytes()[..5]);
    format!("{}-{}", part(node), part(destination))
}

/// Options of a master.
pub(crate) fn options(settings: &Settings, starter: Starter) -> Vec<String> {
    let alone = starter == Starter::Daemon;
    let (interval, count) = settings.alive();
    let mut options = vec![
        "ForwardAgent=no".to_owned(),
        "ForwardX11=no".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "Tunnel=no".to_owned(),
        "ControlPersist=no".to_owned(),
        format!("ServerAliveInterval={interval}"),
        format!("ServerAliveCountMax={count}"),
        format!("ConnectTimeout={}", settings.connect_seconds()),
    ];
    options.push(format!("BatchMode={}", if alone { "yes" } else { "no" }));
    if alone {
        // `ssh` prints the tried keys and the shown host key at this level.
        options.push("LogLevel=DEBUG1".to_owned());
    }
    options
}

fn own_uid() -> u32 {
    // The owner of our own entry in `/proc`, without an extra system call.
    fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_fits_whatever_the_folder() {
        for length in [3, 40, 66, 67, 200] {
            let wanted = PathBuf::from(format!("/{}", "x".repeat(length)));
            let folder = folder_for(&wanted);
            let master = fresh(&folder, "a node", "me\nh\n22", Starter::Daemon).expect("it fits");
            let name = master.path.file_name().expect("a name");
            assert_eq!(name.len(), NAME_BYTES);
            assert!(master.path.as_os_str().len() + SSH_ADDS_BYTES <= SOCKET_PATH_MAX);
        }
    }

    #[test]
    fn sockets_are_told_apart_by_node_and_destination() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |node, destination| {
            let starter = Starter::Daemon;
            let master = fresh(folder.path(), node, destination, starter).expect("it fits");
            fs::write(&master.path, b"").expect("a file");
            master
        };
        let first = make("n", "here");
        let second = make("n", "here");
        let old = make("n", "there");
        make("m", "here");
        fs::write(folder.path().join("neroman.sock"), b"").expect("a file");
        let unfinished = format!("{}.abcdefghijklmnop", first.path.display());
        fs::write(unfinished, b"").expect("a file");
        let (mut now, before) = ours(folder.path(), "n", "here").expect("it can be read");
        now.sort_by_key(|master| master.path == second.path);
        assert_eq!(now, [first, second]);
        assert_eq!(before, [old]);
    }

    #[test]
    fn a_connection_of_a_person_is_told_from_ours() {
        for (starter, persons) in [(Starter::Daemon, false), (Starter::Person, true)] {
            let master = fresh(Path::new("/s"), "n", "here", starter).expect("it fits");
            assert_eq!(master.is_persons(), persons, "{master:?}");
        }
    }

    #[test]
    fn a_percent_sign_is_no_token_of_ssh() {
        let master = Master {
            path: PathBuf::from("/a%h/b"),
        };
        assert_eq!(master.escaped_path(), "/a%%h/b");
    }
}
