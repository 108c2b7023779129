//! Nodes that cannot take a run for now. Said for long enough, the run goes to
//! another node that can have it, and is not given back for a while.

use serde::{Deserialize, Serialize};

use super::run::Desk;

/// How long a node is passed over that a run left so, in milliseconds: what
/// fills a disk seldom goes within minutes, and each try sends files.
pub(crate) const PASSED_OVER_MS: i64 = 10 * 60 * 1000;

/// A node's word that it cannot take a run for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Later {
    pub node: String,
    /// In its own words, bounded.
    pub why: String,
    /// Since when it says so.
    pub since_ms: i64,
    /// When the run left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<i64>,
}

/// Takes down that a node cannot take the run for now.
pub(crate) fn said(desk: &mut Desk, node: &str, why: &str, now_ms: i64) {
    if let Some(known) = desk.put_off_by(node) {
        why.clone_into(&mut known.why);
        return;
    }
    taken(desk, node);
    desk.later.push(Later {
        node: node.to_owned(),
        why: why.to_owned(),
        since_ms: now_ms,
        left_ms: None,
    });
}

/// The node took it.
pub(crate) fn taken(desk: &mut Desk, node: &str) {
    desk.later.retain(|one| one.node != node);
}

/// The run leaves the node, which it may come back to.
pub(crate) fn left(desk: &mut Desk, node: &str, now_ms: i64) {
    let known = desk.later.iter_mut().find(|one| one.node == node);
    if let Some(later) = known {
        later.left_ms = Some(now_ms);
    }
}

/// Whether the run left the node lately. A clock that was set back passes
/// nobody over.
pub(crate) fn passed_over(desk: &Desk, node: &str, now_ms: i64) -> bool {
    let lately = |at: i64| (0..PASSED_OVER_MS).contains(&now_ms.saturating_sub(at));
    let mut left = desk.later.iter().filter(|one| one.node == node);
    left.any(|one| one.left_ms.is_some_and(lately))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_passed_over_for_a_while_after_the_run_left() {
        let mut desk = Desk::default();
        said(&mut desk, "a", "disk full", 1000);
        said(&mut desk, "a", "disk fuller", 5000);
        let known = &desk.later[0];
        assert_eq!((known.since_ms, &*known.why), (1000, "disk fuller"));
        assert!(!passed_over(&desk, "a", 6000), "it is still there");
        left(&mut desk, "a", 7000);
        assert!(passed_over(&desk, "a", 7000) && !passed_over(&desk, "b", 7000));
        assert!(passed_over(&desk, "a", 7000 + PASSED_OVER_MS - 1));
        assert!(!passed_over(&desk, "a", 7000 + PASSED_OVER_MS));
        assert!(!passed_over(&desk, "a", 6999), "the clock was set back");
        // There again, it begins anew.
        said(&mut desk, "a", "disk full", 9000);
        assert_eq!(desk.later.len(), 1);
        assert_eq!(
            (desk.later[0].since_ms, desk.later[0].left_ms),
            (9000, None)
        );
        taken(&mut desk, "a");
        assert!(desk.later.is_empty());
    }
}
