//! Nodes that go out of reach while runs live there, and come back.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_life::notices::{FoundNotice, NoticeKind};
use nero_life::state::State;

use nero_link::node::{NodeNow, NodeStates};

/// A shorter silence is nobody's business.
const AWAY: Duration = Duration::from_secs(600);

/// What is new of the nodes.
#[derive(Debug, Default)]
pub(super) struct ReachNews {
    pub(super) found: Vec<FoundNotice>,
    /// The nodes that are known to be away, if that changed.
    pub(super) nodes_away: Option<BTreeMap<String, i64>>,
    /// When to look again.
    pub(super) again: Option<Duration>,
}

/// Compares the nodes with what was noticed of them.
pub(super) fn news(state: &State, known: &NodeStates, boot_ms: i64) -> ReachNews {
    let mut news = ReachNews::default();
    let mut away = state.post.nodes_away.clone();
    for (node, since_ms) in &state.post.nodes_away {
        let now = known.of(node);
        if now.is_some_and(|now| now.out_of_reach() || now.unheard()) {
            continue;
        }
        away.remove(node);
        if let Some(now) = now {
            let at_ms = now.contact_ms.unwrap_or(*since_ms);
            let (node, since_ms) = (node.clone(), *since_ms);
            let key = format!("{node}/{since_ms}/back");
            let kind = NoticeKind::NodeBack { node, since_ms };
            news.found.push((key, at_ms, kind));
        }
    }
    let carrying = state.nodes.iter().filter(|(_, count)| count.live > 0);
    for (node, _) in carrying.filter(|(node, _)| !state.post.nodes_away.contains_key(*node)) {
        let Some(now) = known.of(node).filter(|now| now.out_of_reach()) else {
            continue;
        };
        let left = AWAY.saturating_sub(now.away(boot_ms));
        if !left.is_zero() {
            news.again = Some(news.again.map_or(left, |sooner| sooner.min(left)));
            continue;
        }
        let since_ms = now.since_ms.unwrap_or(0);
        away.insert(node.clone(), since_ms);
        news.found.push(gone(node, since_ms, now));
    }
    news.nodes_away = (away != state.post.nodes_away).then_some(away);
    news
}

fn gone(node: &str, since_ms: i64, now: &NodeNow) -> FoundNotice {
    let kind = NoticeKind::NodeAway {
        node: node.to_owned(),
        since_ms,
        why: now.why_not(),
    };
    (format!("{node}/{since_ms}/away"), since_ms, kind)
}
