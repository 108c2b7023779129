//! Notices in `Wait` about nodes: that a node with awaited runs went out of
//! reach, and that it is back. Each is sent once.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_wire::v1;

use nero_link::node::{NodeNow, NodeStates};

/// A shorter silence is not reported.
const QUIET: Duration = Duration::from_secs(3);

/// The nodes that were reported as out of reach, and since when they were.
#[derive(Debug, Default)]
pub(crate) struct SilentNodes {
    told: BTreeMap<String, i64>,
}

impl SilentNodes {
    /// The notices to send now, and the latest time to look again. `carried`
    /// counts the awaited runs of each node.
    pub(crate) fn news(
        &mut self,
        carried: &BTreeMap<&str, u32>,
        known: &NodeStates,
        boot_ms: i64,
    ) -> (Vec<v1::NodeNotice>, Option<Duration>) {
        let mut notices = self.back(carried, known);
        let mut again = None;
        for (name, runs) in carried {
            if self.told.contains_key(*name) {
                continue;
            }
            let notice = match known.of(name) {
                Some(node) => match quiet_ms(node, boot_ms) {
                    None => continue,
                    Some(0) => away(name, *runs, node),
                    Some(left_ms) => {
                        let left = Duration::from_millis(left_ms);
                        again = Some(again.map_or(left, |sooner: Duration| sooner.min(left)));
                        continue;
                    }
                },
                None => v1::NodeNotice {
                    node: (*name).to_owned(),
                    why: "it is not configured any more".to_owned(),
                    runs: *runs,
                    ..v1::NodeNotice::default()
                },
            };
            self.told.insert(notice.node.clone(), notice.since_ms);
            notices.push(notice);
        }
        (notices, again)
    }

    /// The nodes that are back. A node without awaited runs is forgotten.
    /// forgotten.
    fn back(&mut self, carried: &BTreeMap<&str, u32>, known: &NodeStates) -> Vec<v1::NodeNotice> {
        let mut notices = Vec::new();
        self.told.retain(|name, since_ms| {
            let runs = carried.get(name.as_str()).copied();
            if known.of(name).is_some_and(NodeNow::connected) {
                notices.push(v1::NodeNotice {
                    node: name.clone(),
                    back: true,
                    since_ms: *since_ms,
                    runs: runs.unwrap_or(0),
                    ..v1::NodeNotice::default()
                });
                return false;
            }
            runs.is_some()
        });
        notices
    }
}

/// The time before a node's silence is reported; `None` if it is in reach.
pub(crate) fn quiet_ms(node: &NodeNow, boot_ms: i64) -> Option<u64> {
    let left = || QUIET.saturating_sub(node.away(boot_ms));
    let left = node.out_of_reach().then(left)?;
    Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

fn away(name: &str, runs: u32, node: &NodeNow) -> v1::NodeNotice {
    v1::NodeNotice {
        node: name.to_owned(),
        back: false,
        since_ms: node.since_ms.unwrap_or(0),
        why: node.why_not(),
        runs,
    }
}
