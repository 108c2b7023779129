//! Connected watchers: records that they send are passed on without reading the
//! disk, where they continue the known segment.

use bytes::Bytes;
use nero_model::RunToken;
use nero_wire::v1::WatcherCommand;
use tokio::sync::{mpsc, oneshot};

use super::{Agent, Driver};
use crate::runs::segments;

/// An event of a watcher's connection, for the agent.
#[derive(Debug)]
pub enum WatcherNews {
    /// The watcher began; the reply is whether its run is known.
    Attached {
        /// Names the connection.
        id: u64,
        /// Token of the run.
        token: RunToken,
        /// Number of the start.
        incarnation: u32,
        /// Sends commands to the watcher.
        commands: mpsc::Sender<WatcherCommand>,
        /// Gets whether the run is known.
        answer: oneshot::Sender<bool>,
    },
    /// The watcher appended to its segment.
    Appended {
        /// Names the connection.
        id: u64,
        /// Token of the run.
        token: RunToken,
        /// Number of the start.
        incarnation: u32,
        /// Id of the watcher's segment.
        segment: [u8; 8],
        /// Offset of the first byte in the segment.
        offset: u64,
        /// Whole records.
        data: Bytes,
    },
    /// The connection ended.
    Gone {
        /// Names the connection.
        id: u64,
        /// Token of the run.
        token: RunToken,
    },
}

/// An attached watcher.
#[derive(Debug)]
pub struct AttachedWatcher {
    pub(super) id: u64,
    pub(super) commands: mpsc::Sender<WatcherCommand>,
}

impl<D: Driver> Agent<D> {
    pub(super) fn watcher(&mut self, news: WatcherNews) {
        match news {
            WatcherNews::Attached {
                id,
                token,
                incarnation,
                commands,
                answer,
            } => {
                let known = match self.entries.get_mut(&token) {
                    Some(entry) if incarnation >= entry.incarnation => {
                        entry.watcher = Some(AttachedWatcher { id, commands });
                        true
                    }
                    _ => false,
                };
                // If the watcher has left meanwhile, `Gone` reports that.
                let _ = answer.send(known);
                if known {
                    self.look(token, incarnation);
                }
            }
            WatcherNews::Appended {
                id,
                token,
                incarnation,
                segment,
                offset,
                data,
            } => self.appended(id, token, incarnation, segment, offset, data),
            WatcherNews::Gone { id, token } => self.watcher_gone(id, token),
        }
    }

    fn appended(
        &mut self,
        id: u64,
        token: RunToken,
        incarnation: u32,
        segment: [u8; 8],
        offset: u64,
        data: Bytes,
    ) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if entry
            .watcher
            .as_ref()
            .is_none_or(|watcher| watcher.id != id)
            || incarnation != entry.incarnation
        {
            return;
        }
        let known = entry
            .segments
            .iter_mut()
            .find(|seg| seg.id == segment && seg.incarnation == incarnation);
        let taken = known.is_some_and(|seg| {
            let taken = segments::received(seg, offset, data, &mut entry.facts);
            if taken {
                seg.visible = seg.len;
            }
            taken
        });
        if taken {
            self.mark(token);
        } else {
            self.look(token, incarnation);
        }
        if self.entries[&token].facts.watch_complete {
            self.see_to_output(token);
        }
    }

    fn watcher_gone(&mut self, id: u64, token: RunToken) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if entry
            .watcher
            .as_ref()
            .is_some_and(|watcher| watcher.id == id)
        {
            entry.watcher = None;
            let incarnation = entry.incarnation;
            self.look(token, incarnation);
            self.see_to_output(token);
        }
    }
}
