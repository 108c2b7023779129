//! The notices that no letter has yet, and the deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::mail::delivery::{Delivery, DeliveryState, DeliveryWay};
use crate::facts::mail::notice::Notice;

/// Deliveries that came to their end are kept for a list of them, so many for each way.
const KEPT_MAX: usize = 200;

/// Notices and deliveries, by number. Each map is copied only by a change of its own kind.
#[derive(Clone, Debug, Default)]
pub struct Post {
    pub notices: Arc<BTreeMap<u64, Arc<Notice>>>,
    pub deliveries: Arc<BTreeMap<u64, Arc<Delivery>>>,
    /// Nodes that were noticed as out of reach, and since when.
    pub nodes_away: BTreeMap<String, i64>,
    /// Highest numbers given.
    notice: u64,
    delivery: u64,
    /// Grows with every change.
    pub revision: u64,
}

/// A change of notices and deliveries.
#[derive(Clone, Debug, Default)]
pub struct PostChange {
    /// New notices, and those that changed.
    pub notices: Vec<Arc<Notice>>,
    /// Notices that every way has which wants them.
    pub settled: Vec<u64>,
    /// New deliveries, and those that changed.
    pub deliveries: Vec<Arc<Delivery>>,
    /// What new deliveries send: their bytes, by number. In the database alone.
    pub letters: Vec<(u64, Arc<[u8]>)>,
    /// Deliveries that are forgotten.
    pub forgotten: Vec<u64>,
    pub nodes_away: Option<BTreeMap<String, i64>>,
}

impl Post {
    /// The number of the next notice.
    pub fn next_notice(&self) -> u64 {
        self.notice + 1
    }

    /// The number of the next delivery.
    pub fn next_delivery(&self) -> u64 {
        self.delivery + 1
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, change: &PostChange) {
        self.revision += 1;
        if !change.notices.is_empty() || !change.settled.is_empty() {
            let notices = Arc::make_mut(&mut self.notices);
            for notice in &change.notices {
                self.notice = self.notice.max(notice.id);
                notices.insert(notice.id, Arc::clone(notice));
            }
            for id in &change.settled {
                notices.remove(id);
            }
        }
        if !change.deliveries.is_empty() || !change.forgotten.is_empty() {
            let deliveries = Arc::make_mut(&mut self.deliveries);
            for delivery in &change.deliveries {
                self.delivery = self.delivery.max(delivery.id);
                deliveries.insert(delivery.id, Arc::clone(delivery));
            }
            for id in &change.forgotten {
                deliveries.remove(id);
            }
        }
        if let Some(nodes) = &change.nodes_away {
            self.nodes_away.clone_from(nodes);
        }
    }

    /// The delivery whose login was refused, if everything of its way waits for a person.
    pub fn blocked(&self, way: DeliveryWay) -> Option<&Delivery> {
        let of_way = self.deliveries.values().filter(|one| one.way == way);
        let mut blocked = of_way.filter(|one| matches!(one.state, DeliveryState::Blocked { .. }));
        blocked.next().map(|one| &**one)
    }

    /// The newest digest.
    pub fn last_digest(&self) -> Option<&Delivery> {
        let digests = self.deliveries.values().filter(|one| one.is_digest);
        digests.max_by_key(|one| one.made_ms).map(|one| &**one)
    }

    /// The deliveries that came to their end and are not kept any more. Those since `since_ms` are
    /// kept in any case.
    pub fn to_forget(&self, since_ms: i64) -> Vec<u64> {
        let is_over = |one: &&Arc<Delivery>| one.state.is_over();
        let mut seen: BTreeMap<DeliveryWay, usize> = BTreeMap::new();
        let newest = self.deliveries.values().rev().filter(is_over);
        let old = newest.filter(|one| {
            let seen = seen.entry(one.way).or_default();
            *seen += 1;
            *seen > KEPT_MAX && one.made_ms < since_ms
        });
        old.map(|one| one.id).collect()
    }
}
