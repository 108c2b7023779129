//! Where things lie on a node, and folders that belong to us alone.
//!
//! Below a node's root every deployment has a folder of its own; nothing
//! outside it is ever touched but `bin/`, whose names hold their content.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::ids::{DeploymentId, RunId, base32};

/// Longest path that fits a Unix socket address, with its final zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// A deployment's folders on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePaths {
    root: PathBuf,
    own: PathBuf,
    node: String,
}

impl NodePaths {
    /// For a node whose root (`~/.neronet` unless set) is `root`. `node` is
    /// the node's name as the user gave it; it is never used raw.
    pub fn new(root: &Path, deployment: &DeploymentId, node: &str) -> Self {
        Self {
            root: root.to_path_buf(),
            own: root.join(deployment.short()),
            node: file_name(node),
        }
    }

    /// The node's root, shared by deployments.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Programs, by content.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// This deployment's folder.
    pub fn deployment(&self) -> &Path {
        &self.own
    }

    /// Content-addressed files.
    pub fn store(&self) -> PathBuf {
        self.own.join("store")
    }

    /// Read-only trees, one per code version, for large inputs.
    pub fn trees(&self) -> PathBuf {
        self.own.join("trees")
    }

    /// neromum's own folder: lock, ledger, log.
    pub fn mum(&self) -> PathBuf {
        self.own.join("mum").join(&self.node)
    }

    /// Folder of one run.
    pub fn run(&self, run: RunId) -> PathBuf {
        self.own
            .join("runs")
            .join(run.experiment.to_string())
            .join(run.number.to_string())
    }

    /// Folder for the Unix sockets of this deployment's neromum: in
    /// `mum/<node>/` itself where the path is short enough, else a private
    /// folder of the user, named after the path.
    pub fn sockets(&self) -> PathBuf {
        socket_folder(&self.mum())
    }
}

/// Names inside a run's folder.
pub mod run {
    /// The frozen spec, a checksummed `nero.v1.RunSpec`.
    pub const SPEC: &str = "spec";
    /// Wishes and rule sets.
    pub const CONTROL: &str = "control";
    /// The job's working folder.
    pub const WORK: &str = "work";
    /// In an incarnation's folder: the claim, which is the shim's segment.
    pub const CLAIM: &str = "claim";
    /// The job's standard output.
    pub const STDOUT: &str = "stdout.log";
    /// The job's standard error.
    pub const STDERR: &str = "stderr.log";
    /// Locked by the watcher as long as it lives.
    pub const WATCH_LOCK: &str = "watch.lock";
    /// Ending of every other segment's name.
    pub const SEGMENT_SUFFIX: &str = ".seg";
}

/// A folder in which sockets for `wanted` fit: `wanted` itself when a socket
/// name of up to 24 bytes still fits, else a folder of our own named by hash.
pub fn socket_folder(wanted: &Path) -> PathBuf {
    if wanted.as_os_str().len() + 25 <= SOCKET_PATH_MAX {
        return wanted.to_path_buf();
    }
    let hash = blake3::hash(wanted.as_os_str().as_encoded_bytes());
    private_runtime().join(base32(&hash.as_bytes()[..10]))
}

/// `$XDG_RUNTIME_DIR/neronet`, or a folder of the user's own below `/tmp`.
pub fn private_runtime() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.as_os_str().len() < 60);
    match given {
        Some(path) => path.join("neronet"),
        None => PathBuf::from(format!(
            "/tmp/neronet-{}",
            rustix::process::getuid().as_raw()
        )),
    }
}

/// Makes a folder, with its parents, that is ours and closed to others.
///
/// # Errors
/// When it cannot be made, belongs to somebody else, or is a link; the error
/// says which and what to do.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    let refuse = |why: &str| {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} {why}; remove it or choose another place",
                path.display()
            ),
        )
    };
    if !found.is_dir() {
        return Err(refuse("is not a folder"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refuse("belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}

/// A file name for text that people chose: itself when it is plain, else a
/// readable part and a hash. Never empty, hidden, or longer than 80 bytes.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '=');
    let ok = !text.is_empty()
        && text.len() <= 80
        && text.chars().all(plain)
        && !text.starts_with(['.', '-']);
    if ok {
        return text.to_owned();
    }
    let hash = blake3::hash(text.as_bytes());
    let readable: String = text
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .skip_while(|c| matches!(c, '.' | '-'))
        .take(48)
        .collect();
    format!("{readable}~{}", base32(&hash.as_bytes()[..5]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_and_odd_ones_become_safe() {
        assert_eq!(
            file_name("fib_breaktime-0.1_n-10"),
            "fib_breaktime-0.1_n-10"
        );
        for odd in ["", "..", ".", "-rf", "a/b", "a b", "x\ny", "😀", "~"] {
            assert_ne!(file_name(odd), odd, "{odd:?}");
        }
        assert_ne!(file_name("a/b"), file_name("a b"));
    }

    #[test]
    fn long_places_get_a_short_socket_folder() {
        let long = PathBuf::from(format!("/{}", "x".repeat(120)));
        assert!(socket_folder(&long).as_os_str().len() + 25 <= SOCKET_PATH_MAX);
        assert_eq!(socket_folder(Path::new("/a/b")), Path::new("/a/b"));
    }

    proptest! {
        #[test]
        fn any_text_gives_one_safe_name(text in any::<String>()) {
            let name = file_name(&text);
            prop_assert!(!name.is_empty() && name.len() <= 80);
            prop_assert!(!name.starts_with(['.', '-']) && !name.contains(['/', '\0', '\n']));
        }
    }
}
