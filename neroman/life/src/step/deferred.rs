//! Nodes that cannot take a run for now. After some time, the run goes to
//! another node that can have it, and does not come back for a while.

use crate::facts::dispatch::Dispatch;
pub use crate::facts::leaving::Deferral;
use crate::facts::now::{Moment, Tick};
use crate::fold::run::Run;

/// How long a run's node is passed over after the run left it for another node,
/// in milliseconds: a full disk seldom empties within minutes, and each try
/// sends files.
pub const PASSED_OVER_MS: i64 = 10 * 60 * 1000;

/// Records that a node cannot take the run for now.
pub(crate) fn said(dispatch: &mut Dispatch, node: &str, why: &str, now: &Moment) {
    if let Some(known) = dispatch.deferred_by(node) {
        why.clone_into(&mut known.why);
        return;
    }
    dispatch.deferred.retain(|one| one.node != node);
    dispatch.deferred.push(Deferral {
        node: node.to_owned(),
        why: why.to_owned(),
        since_ms: now.ms,
        since: Some(now.tick.clone()),
        left_ms: None,
        left: None,
    });
}

/// Records that the node took the run.
pub(crate) fn taken(dispatch: &mut Dispatch, node: &str) {
    let waits = |one: &Deferral| one.node == node && one.left_ms.is_none();
    dispatch.deferred.retain(|one| !waits(one));
}

/// Records that the run leaves the node, to which it may come back.
pub(crate) fn left(dispatch: &mut Dispatch, node: &str, why: &str, now: &Moment) {
    said(dispatch, node, why, now);
    if let Some(deferred) = dispatch.deferred_by(node) {
        deferred.left_ms = Some(now.ms);
        deferred.left = Some(now.tick.clone());
    }
}

/// Whether the run left any node within the last so many milliseconds.
pub(crate) fn left_within(dispatch: &Dispatch, ms: i64, now: &Tick) -> bool {
    let mut left = dispatch.deferred.iter().filter(|one| one.left_ms.is_some());
    left.any(|one| now.since(one.left.as_ref()) < ms)
}

/// Whether the run left the node lately.
fn passed_over(dispatch: &Dispatch, node: &str, now: &Tick) -> bool {
    let lately = |one: &Deferral| now.since(one.left.as_ref()) < PASSED_OVER_MS;
    let mut left = dispatch.deferred.iter().filter(|one| one.node == node);
    left.any(|one| one.left_ms.is_some() && lately(one))
}

impl Run {
    /// Whether it left the node lately, which could not take it for now.
    pub fn passes_over(&self, node: &str, now: &Tick) -> bool {
        passed_over(&self.dispatch, node, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn at(ms: i64, boot: &str, tick_ms: i64) -> Moment {
        Moment {
            ms,
            tick: Tick {
                boot: boot.to_owned(),
                ms: tick_ms,
            },
        }
    }

    #[test]
    fn a_node_is_passed_over_for_a_while_after_the_run_left() {
        let mut dispatch = Dispatch::default();
        said(&mut dispatch, "a", "disk full", &at(0, "b", 1000));
        said(&mut dispatch, "a", "disk fuller", &at(0, "b", 5000));
        let known = &dispatch.deferred[0];
        assert_eq!(known.since, Some(at(0, "b", 1000).tick));
        assert_eq!(known.why, "disk fuller");
        assert!(
            !passed_over(&dispatch, "a", &at(0, "b", 6000).tick),
            "still there"
        );
        left(&mut dispatch, "a", "b has room", &at(0, "b", 7000));
        let passed = |node, tick_ms| passed_over(&dispatch, node, &at(0, "b", tick_ms).tick);
        assert!(passed("a", 7000) && !passed("b", 7000));
        assert!(passed("a", 7000 + PASSED_OVER_MS - 1));
        assert!(!passed("a", 7000 + PASSED_OVER_MS));
        assert_eq!(dispatch.deferred[0].why, "b has room");
        // After a new hand-over the deferral begins anew.
        said(&mut dispatch, "a", "disk full", &at(9, "b", 9000));
        assert_eq!(dispatch.deferred.len(), 1);
        let known = &dispatch.deferred[0];
        assert_eq!((known.since_ms, known.left_ms), (9, None));
        taken(&mut dispatch, "a");
        assert!(dispatch.deferred.is_empty());
    }

    #[test]
    fn no_step_of_the_wall_clock_changes_how_long_a_node_is_passed_over() {
        for step_ms in [-DAY_MS, 0, DAY_MS] {
            let mut dispatch = Dispatch::default();
            said(&mut dispatch, "a", "disk full", &at(DAY_MS, "b", 1000));
            left(
                &mut dispatch,
                "a",
                "disk full",
                &at(DAY_MS + step_ms, "b", 40_000),
            );
            let known = &dispatch.deferred[0];
            let deferred = at(DAY_MS - step_ms, "b", 100_000).tick;
            assert_eq!(deferred.since(known.since.as_ref()), 99_000);
            assert!(passed_over(&dispatch, "a", &deferred), "{step_ms}");
        }
    }

    #[test]
    fn after_a_restart_of_the_machine_and_of_an_older_build_time_counts_from_its_boot() {
        let mut dispatch = Dispatch::default();
        said(&mut dispatch, "a", "disk full", &at(0, "b", 1_000_000_000));
        left(&mut dispatch, "a", "disk full", &at(0, "b", 1_000_000_000));
        let soon = at(0, "c", 5000).tick;
        assert_eq!(soon.since(dispatch.deferred[0].since.as_ref()), 5000);
        assert!(passed_over(&dispatch, "a", &soon));
        assert!(!passed_over(
            &dispatch,
            "a",
            &at(0, "c", PASSED_OVER_MS).tick
        ));
        let old = r#"{"node":"a","why":"disk full","since_ms":5,"left_ms":6}"#;
        dispatch.deferred = vec![serde_json::from_str(old).unwrap()];
        assert!(passed_over(&dispatch, "a", &soon));
    }
}
