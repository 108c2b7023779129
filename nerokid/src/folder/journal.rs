//! The watcher's segment, and the copy of its bytes for neromum.
//!
//! A record is in the file before it is sent. A record that the disk refuses
//! stays here, in order, and is tried again; the caller reads no further output
//! while one waits, so that nothing is lost and memory is bounded. Bytes that
//! neromum cannot take at once are not sent: it reads the disk.

use std::collections::VecDeque;

use nero_journal::{Clocks, Segment, SegmentId, WriteError};
use nero_wire::v1::watcher_message::Message;
use nero_wire::v1::{Appended, WatcherMessage};
use tokio::sync::mpsc;

use crate::core::record::Record;

/// Limit of bytes in one message, except for a single longer record.
const SEND_BYTES: usize = 256 * 1024;

/// The segment, and the sender of its copy.
#[derive(Debug)]
pub struct Journal {
    segment: Segment,
    waiting: VecDeque<(Clocks, Record)>,
    neromum: Option<mpsc::Sender<WatcherMessage>>,
    unsent: UnsentBytes,
}

/// Bytes written and not yet sent, with their position.
#[derive(Debug, Default)]
struct UnsentBytes {
    offset: u64,
    chain: u32,
    data: Vec<u8>,
}

impl Journal {
    /// Over a new segment.
    pub fn new(segment: Segment) -> Self {
        Self {
            segment,
            waiting: VecDeque::new(),
            neromum: None,
            unsent: UnsentBytes::default(),
        }
    }

    /// The segment's id.
    pub fn id(&self) -> SegmentId {
        self.segment.id()
    }

    /// Sends later records to neromum as well; `None` writes them to disk only.
    pub fn send_to(&mut self, neromum: Option<mpsc::Sender<WatcherMessage>>) {
        self.neromum = neromum;
        self.unsent.data.clear();
    }

    /// Whether neromum gets a copy.
    pub fn is_sent(&self) -> bool {
        self.neromum.is_some()
    }

    /// Appends records in order, as far as the disk takes them.
    ///
    /// # Errors
    /// When a record can never be written, which is a bug of ours.
    pub fn write(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), WriteError> {
        let clocks = Clocks::now();
        for record in records {
            self.waiting.push_back((clocks, record));
        }
        while let Some((clocks, record)) = self.waiting.front() {
            let (offset, chain) = (self.segment.offset(), self.segment.chain());
            match record.append(&mut self.segment, *clocks) {
                Ok(bytes) => {
                    if self.neromum.is_some() {
                        if self.unsent.data.is_empty() {
                            (self.unsent.offset, self.unsent.chain) = (offset, chain);
                        }
                        self.unsent.data.extend_from_slice(bytes);
                    }
                    self.waiting.pop_front();
                }
                Err(WriteError::Io(_)) => break,
                Err(error @ WriteError::TooLong(_)) => return Err(error),
            }
            if self.unsent.data.len() >= SEND_BYTES {
                self.send();
            }
        }
        Ok(())
    }

    /// Whether a record waits for the disk.
    pub fn is_stuck(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends the written bytes, if neromum can take them now.
    pub fn send(&mut self) {
        if self.unsent.data.is_empty() {
            return;
        }
        let unsent = std::mem::take(&mut self.unsent);
        let Some(neromum) = &self.neromum else {
            return;
        };
        let message = WatcherMessage {
            message: Some(Message::Appended(Appended {
                offset: unsent.offset,
                data: unsent.data,
                chain: unsent.chain,
            })),
        };
        if let Err(mpsc::error::TrySendError::Closed(_)) = neromum.try_send(message) {
            self.neromum = None;
        }
    }
}
