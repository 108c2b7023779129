//! The contact data of nodes that outlive the daemon: the last contact, the begin
//! of a silence, and the clock's offset. Read once at the start; written by
//! the task of all nodes alone.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use nero_life::now::Tick;

/// The contact data of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contact {
    /// The time of the last contact.
    pub contact_ms: Option<i64>,
    /// The same moment on our boot clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<Tick>,
    /// Since when the node was out of reach; `None` if it was not.
    pub since_ms: Option<i64>,
    /// Whether the node was connected.
    pub connected: bool,
    /// The node's clock minus ours.
    pub clock_offset_ms: Option<i64>,
}

impl Contact {
    /// Since when the node is out of reach, if it is now: the last contact of a
    /// node that was connected when the daemon ended counts.
    pub(super) fn silent_since_ms(&self) -> Option<i64> {
        if self.connected {
            self.contact_ms
        } else {
            self.since_ms
        }
    }
}

/// By the node's name.
pub(crate) type Contacts = BTreeMap<String, Contact>;

/// The stored data; empty if the file cannot be read, which is logged: only times
/// shown to people depend on it.
pub(super) fn read(path: &Path) -> Contacts {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Contacts::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "last contacts with nodes cannot be read");
            return Contacts::new();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "last contacts with nodes cannot be read");
        Contacts::new()
    })
}

/// Replaces the file. It is not synced: after a power cut an older one is as true.
pub(super) fn write(path: &Path, contacts: &Contacts) -> io::Result<()> {
    let text = serde_json::to_vec(contacts).map_err(io::Error::other)?;
    let fresh = path.with_extension("json.new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_and_a_damaged_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.json");
        assert_eq!(read(&path), Contacts::new());
        let contact = Contact {
            contact_ms: Some(5),
            connected: true,
            ..Contact::default()
        };
        assert_eq!(contact.silent_since_ms(), Some(5));
        let contacts = Contacts::from([("h1".to_owned(), contact)]);
        write(&path, &contacts).unwrap();
        assert_eq!(read(&path), contacts);
        // A later version stores more about a node.
        std::fs::write(
            &path,
            r#"{"h1":{"contact_ms":5,"connected":true,"colour":"red"}}"#,
        )
        .unwrap();
        assert_eq!(read(&path), contacts);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(read(&path), Contacts::new());
    }
}
