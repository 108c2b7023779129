//! The daemon's socket: it lies at the first of its places that can be used. The locked
//! file contains its path for clients of every session. The socket is made again when
//! its file was deleted (logind, a cleaner of `/tmp`, a person).

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nero_model::home::SOCKET;
use nero_model::paths::make_socket_folder;
use nero_model::{Holder, Home};
use nero_wire::listen::{OwnerOnly, Rebind};

use crate::error::DaemonError;

/// A bound socket, and the lock that makes it the only one of its home.
#[derive(Debug)]
pub(crate) struct Door {
    home: Home,
    lock: File,
    socket: PathBuf,
    rebind: Rebind,
}

impl Door {
    /// Binds the socket and records its path.
    pub(crate) fn open(home: &Home, lock: File) -> Result<(OwnerOnly, Self), DaemonError> {
        let (socket, (incoming, rebind)) = at_first_usable(home, OwnerOnly::bind_again)?;
        let door = Self {
            home: home.clone(),
            lock,
            socket,
            rebind,
        };
        door.write_down();
        Ok((incoming, door))
    }

    /// Binds again if the socket's file is gone; a client that missed it asked.
    pub(crate) fn open_again(&mut self) {
        if self.socket.symlink_metadata().is_ok() {
            return;
        }
        match at_first_usable(&self.home, |socket| self.rebind.rebind_at(socket)) {
            Ok((socket, ())) => {
                tracing::warn!(was = %self.socket.display(), now = %socket.display(), "the socket was gone and is bound again");
                self.socket = socket;
                self.write_down();
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, cause, "the socket is gone and cannot be bound again");
            }
        }
    }

    /// Removes the socket; the lock goes with the process.
    pub(crate) fn close(&self) {
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "socket not removed");
        }
    }

    fn write_down(&self) {
        let written = Holder::own(&self.socket).and_then(|own| own.write(&self.lock));
        if let Err(error) = written {
            // Clients that look at the usual place still find it.
            tracing::warn!(%error, "cannot write down where the daemon answers");
        }
    }
}

/// Opens the socket at the first place that can be used; returns the error of the usual
/// place.
fn at_first_usable<T>(
    home: &Home,
    mut open: impl FnMut(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T), DaemonError> {
    let mut first = None;
    for folder in home.socket_folders() {
        let socket = folder.join(SOCKET);
        let opened = make_socket_folder(&folder)
            .and_then(|()| free(&socket))
            .and_then(|()| open(&socket));
        match opened {
            Ok(opened) => return Ok((socket, opened)),
            Err(error) => first = first.or(Some((socket, error))),
        }
    }
    let (path, source) = first.expect("a home has a folder for sockets");
    Err(DaemonError::Io {
        what: "listen at",
        path,
        source,
    })
}

/// Refuses a place where the daemon of another home answers: it cannot be one of ours,
/// since we hold our home's lock.
fn free(socket: &Path) -> io::Result<()> {
    match UnixStream::connect(socket) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "the daemon of another home answers there",
        )),
        Err(_) => Ok(()),
    }
}
