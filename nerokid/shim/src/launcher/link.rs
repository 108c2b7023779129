//! Connections from neromum: frames in, frames out, never waiting.
//!
//! Owned by the launcher's loop. A connection that breaks, speaks nonsense or
//! does not read what it is sent is forgotten; runs go on.

use std::os::fd::OwnedFd;

use nero_journal::v1::{FromLauncher, ToLauncher, from_launcher, to_launcher};
use nero_model::MESSAGE_BYTES_MAX;
use prost::Message as _;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Limit of one read.
const READ_BYTES: usize = 16 * 1024;
/// Limit of the bytes that wait for a peer that does not read: news of tens of
/// thousands of runs.
const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Buffers above this are given back when empty: shims inherit our memory.
const KEPT_BYTES: usize = 64 * 1024;

/// The connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenLink;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket, not blocking.
    pub fd: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The peer sent its first message, and now gets news.
    pub greeted: bool,
    /// Whether the loop waits until the socket can be written.
    pub waits_for_room: bool,
}

impl Connection {
    /// Over an accepted socket.
    pub fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            input: Vec::new(),
            output: Vec::new(),
            greeted: false,
            waits_for_room: false,
        }
    }

    /// Reads the bytes that have arrived.
    ///
    /// # Errors
    /// When the peer is gone.
    pub fn receive(&mut self) -> Result<(), BrokenLink> {
        let before = self.input.len();
        self.input.reserve(READ_BYTES);
        let room = rustix::buffer::spare_capacity(&mut self.input);
        let got = rustix::net::recv(&self.fd, room, RecvFlags::DONTWAIT);
        match got {
            Ok(_) if self.input.len() == before => Err(BrokenLink),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(BrokenLink),
        }
    }

    /// The next whole message.
    ///
    /// # Errors
    /// When the bytes are no message of this protocol.
    pub fn next(&mut self) -> Result<Option<to_launcher::Message>, BrokenLink> {
        let Some((head, rest)) = self.input.split_first_chunk::<4>() else {
            self.shrink();
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(BrokenLink);
        }
        let Some(bytes) = rest.get(..length) else {
            return Ok(None);
        };
        let message = ToLauncher::decode(bytes).map_err(|_| BrokenLink)?;
        self.input.drain(..4 + length);
        match message.message {
            Some(message) => Ok(Some(message)),
            // A message of a later build; skip it.
            None => self.next(),
        }
    }

    fn shrink(&mut self) {
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = Vec::new();
        }
    }

    /// Adds a message to the output.
    pub fn push(&mut self, message: &from_launcher::Message) {
        let frame = FromLauncher {
            message: Some(message.clone()),
        };
        let length = frame.encoded_len() as u32;
        self.output.extend_from_slice(&length.to_le_bytes());
        frame.encode(&mut self.output).expect("a vector grows");
    }

    /// Whether output waits to be sent.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends as much as the peer takes now.
    ///
    /// # Errors
    /// When the peer is gone, or has not read for too long.
    pub fn send(&mut self) -> Result<(), BrokenLink> {
        let mut sent = 0;
        while sent < self.output.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.fd, &self.output[sent..], flags) {
                Ok(more) => sent += more,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(BrokenLink),
            }
        }
        self.output.drain(..sent);
        if self.output.is_empty() && self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new();
        }
        (self.output.len() <= UNREAD_BYTES_MAX)
            .then_some(())
            .ok_or(BrokenLink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_journal::v1::{Doorbell, Listed};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn frame(token: u8, length: usize) -> Vec<u8> {
        let message = ToLauncher {
            message: Some(to_launcher::Message::Doorbell(Doorbell {
                token: vec![token; length],
            })),
        };
        let mut bytes = (message.encoded_len() as u32).to_le_bytes().to_vec();
        message.encode(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn frames_come_in_any_pieces() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut link = Connection::new(ours.into());
        let bytes: Vec<u8> = (1..4).flat_map(|token| frame(token, 16)).collect();
        let mut got = Vec::new();
        for byte in bytes {
            theirs.write_all(&[byte]).unwrap();
            link.receive().unwrap();
            while let Some(to_launcher::Message::Doorbell(ring)) = link.next().unwrap() {
                got.push(ring.token[0]);
            }
        }
        assert_eq!(got, [1, 2, 3]);
        drop(theirs);
        assert_eq!(link.receive(), Err(BrokenLink));
    }

    #[test]
    fn nonsense_breaks_the_connection() {
        for bytes in [&[0xff; 8][..], &[2, 0, 0, 0, 0xff, 0xff]] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut link = Connection::new(ours.into());
            theirs.write_all(bytes).unwrap();
            link.receive().unwrap();
            assert_eq!(link.next(), Err(BrokenLink));
        }
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut link = Connection::new(ours.into());
        let listed = from_launcher::Message::Listed(Listed {});
        let gone = (0..20 * 1024 * 1024).find_map(|_| {
            link.push(&listed);
            (link.output.len() > UNREAD_BYTES_MAX).then(|| link.send().err())?
        });
        assert_eq!(gone, Some(BrokenLink));
        drop(link);
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).unwrap();
        assert!(!rest.is_empty());
    }
}
