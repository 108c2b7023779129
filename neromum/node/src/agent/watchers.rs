//! Connected watchers: records that they send are passed on without reading the
//! disk, where they continue the known segment.

use nero_model::RunToken;

use super::calls::{AppendedRecords, WatcherNews};
use super::entry::AttachedWatcher;
use super::{Agent, Driver};
use crate::runs::segments;

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
                    self.read_segments(token, incarnation);
                }
            }
            WatcherNews::Appended(records) => self.appended(records),
            WatcherNews::Gone { id, token } => self.watcher_gone(id, token),
        }
    }

    fn appended(&mut self, records: AppendedRecords) {
        let (token, incarnation) = (records.token, records.incarnation);
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let watcher = entry.watcher.as_ref().map(|watcher| watcher.id);
        if watcher != Some(records.id) || incarnation != entry.incarnation {
            return;
        }
        let known = entry
            .segments
            .iter_mut()
            .find(|seg| seg.id == records.segment && seg.incarnation == incarnation);
        let taken = known.is_some_and(|seg| {
            let taken = segments::received(seg, records.offset, records.data, &mut entry.facts);
            if taken {
                seg.visible = seg.len;
            }
            taken
        });
        if taken {
            self.mark(token);
        } else {
            self.read_segments(token, incarnation);
        }
        if self.entries[&token].facts.watch_complete {
            self.see_to_output(token);
        }
    }

    fn watcher_gone(&mut self, id: u64, token: RunToken) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if entry.watcher.as_ref().map(|watcher| watcher.id) == Some(id) {
            entry.watcher = None;
            let incarnation = entry.incarnation;
            self.read_segments(token, incarnation);
            self.see_to_output(token);
        }
    }
}
