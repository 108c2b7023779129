//! Where neroman keeps its things on the researcher's machine. The command
//! line and the daemon must agree on it.

use std::env;
use std::path::{Path, PathBuf};

use crate::holder::Holder;
use crate::paths::{earlier_socket_folder, session_runtime, short_socket_folder, socket_folder};

/// Name of the daemon's socket.
pub const SOCKET: &str = "neroman.sock";

/// The folders of one neroman.
///
/// `NERONET_HOME=DIR` puts everything, and the root of the `local` node, below
/// `DIR`; else the XDG folders are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// `config.yaml`.
    pub config: PathBuf,
    /// Databases, frozen code, results that have no better place.
    pub data: PathBuf,
    /// The daemon's log.
    pub state: PathBuf,
    /// Private folder of the daemon's socket: the same in every session of the
    /// user, whatever its environment.
    pub sockets: PathBuf,
    /// Private folder for the socket of a daemon of an earlier version that was
    /// started in a session like this one. Such a daemon did not write its
    /// socket into `daemon.lock`.
    pub earlier_sockets: Option<PathBuf>,
    /// Root of the `local` node.
    pub local_root: PathBuf,
}

/// Neither `NERONET_HOME` nor `HOME` names a folder to keep things in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoHome {
    /// Both are unset or empty.
    #[error("neither NERONET_HOME nor HOME is set")]
    Unset,
    /// A folder was named by a relative path.
    #[error("{name} is not an absolute path: {value}")]
    Relative {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable.
        value: String,
    },
}

impl Home {
    /// Finds the folders from the environment. Makes none of them.
    ///
    /// # Errors
    /// When a variable holds a relative path, or none is set.
    pub fn find() -> Result<Self, NoHome> {
        if let Some(base) = folder("NERONET_HOME")? {
            return Ok(Self::below(&base));
        }
        let home = folder("HOME")?.ok_or(NoHome::Unset)?;
        let xdg = |name, fallback: &str| -> Result<PathBuf, NoHome> {
            Ok(folder(name)?
                .unwrap_or_else(|| home.join(fallback))
                .join("neronet"))
        };
        let state = xdg("XDG_STATE_HOME", ".local/state")?;
        let earlier = folder("XDG_RUNTIME_DIR")?.map(|runtime| {
            let runtime = runtime.join("neronet");
            earlier_socket_folder(&runtime).unwrap_or(runtime)
        });
        Ok(Self {
            config: xdg("XDG_CONFIG_HOME", ".config")?.join("config.yaml"),
            data: xdg("XDG_DATA_HOME", ".local/share")?,
            sockets: socket_folder(&state),
            earlier_sockets: earlier,
            state,
            local_root: home.join(".neronet"),
        })
    }

    /// Everything below one folder.
    pub fn below(base: &Path) -> Self {
        Self {
            config: base.join("config.yaml"),
            data: base.join("data"),
            state: base.join("state"),
            sockets: socket_folder(&base.join("run")),
            earlier_sockets: earlier_socket_folder(&base.join("run")),
            local_root: base.join("node"),
        }
    }

    /// The usual path of the daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.sockets.join(SOCKET)
    }

    /// Folders in which the daemon may have its socket, in the order in which it
    /// tries them: the usual one, and others for when that is on a file system
    /// without sockets, cannot be written, or belongs to another user.
    pub fn socket_folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.sockets.clone(), short_socket_folder(&self.data)];
        folders.extend(session_runtime().map(|session| {
            let short = short_socket_folder(&self.data);
            session.join(short.file_name().unwrap_or_default())
        }));
        folders.dedup();
        folders
    }

    /// Sockets at which a client tries to reach the daemon: the path in
    /// `daemon.lock`, the usual path, and the path of an earlier version, which
    /// wrote nothing into `daemon.lock`.
    pub fn sockets_to_try(&self) -> Vec<PathBuf> {
        let named = Holder::read(&self.daemon_lock()).map(|holder| holder.socket);
        let earlier = self.earlier_sockets.as_ref();
        let mut sockets: Vec<PathBuf> = Vec::new();
        for socket in named
            .into_iter()
            .chain([self.socket()])
            .chain(earlier.map(|folder| folder.join(SOCKET)))
        {
            if !sockets.contains(&socket) {
                sockets.push(socket);
            }
        }
        sockets
    }

    /// Locked by the daemon as long as it lives.
    pub fn daemon_lock(&self) -> PathBuf {
        self.data.join("daemon.lock")
    }

    /// Locked by a client while it starts a daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.data.join("start.lock")
    }

    /// The daemon's log.
    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// The database of facts.
    pub fn state_db(&self) -> PathBuf {
        self.data.join("state.db")
    }

    /// The database of metrics, which can be folded again.
    pub fn series_db(&self) -> PathBuf {
        self.data.join("series.db")
    }

    /// File with the time of the last contact with each node.
    pub fn contacts(&self) -> PathBuf {
        self.data.join("nodes.json")
    }

    /// Files that the command line wrote where it was told to.
    pub fn written_files(&self) -> PathBuf {
        self.data.join("written")
    }

    /// Folders of the commands that rules and steps have this machine run.
    pub fn acts(&self) -> PathBuf {
        self.data.join("acts")
    }

    /// The note of the backup from which this home was restored, until the daemon has taken it.
    pub fn restored(&self) -> PathBuf {
        self.data.join("restored")
    }

    /// There from the first write of a restore until its last one. Without a database beside it,
    /// the home is not whole.
    pub fn restoring(&self) -> PathBuf {
        self.data.join("restoring")
    }

    /// Frozen code and inputs, by content.
    pub fn store(&self) -> PathBuf {
        self.data.join("store")
    }
}

fn folder(name: &'static str) -> Result<Option<PathBuf>, NoHome> {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(Some(path))
    } else {
        Err(NoHome::Relative {
            name,
            value: path.display().to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_folder_holds_everything() {
        let home = Home::below(Path::new("/h"));
        for path in [
            &home.config,
            &home.data,
            &home.state,
            &home.local_root,
            &home.sockets,
        ] {
            assert!(path.starts_with("/h"), "{}", path.display());
        }
        assert_eq!(home.socket(), Path::new("/h/run/neroman.sock"));
    }

    #[test]
    fn a_client_looks_where_the_daemon_said_first() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        assert_eq!(home.sockets_to_try()[0], home.socket());
        std::fs::create_dir(&home.data).unwrap();
        let lock = std::fs::File::create(home.daemon_lock()).unwrap();
        let holder = Holder::own(Path::new("/elsewhere/neroman.sock")).unwrap();
        holder.write(&lock).unwrap();
        let tried = home.sockets_to_try();
        assert_eq!(tried[..2], [holder.socket, home.socket()]);
    }

    #[test]
    fn a_long_folder_gets_a_short_socket() {
        let home = Home::below(Path::new(&format!("/{}", "x".repeat(200))));
        assert!(home.socket().as_os_str().len() <= crate::paths::SOCKET_PATH_MAX);
    }
}
