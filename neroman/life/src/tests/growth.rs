//! What one experiment costs does not grow with the others: counts of walked rows, not times.

use std::sync::atomic::Ordering;

use nero_expr::ParseContext;
use nero_selector::Selector;

use super::*;
use crate::fold::shelf::WALKED;
use crate::place::outlook::Outlook;
use crate::source::edits::{self, PendingEdits};
use crate::source::pick::Rows;

/// The rows that this walks over.
fn walked(work: impl FnOnce()) -> usize {
    let before = WALKED.load(Ordering::Relaxed);
    work();
    WALKED.load(Ordering::Relaxed) - before
}

#[test]
fn requests_about_one_experiment_walk_over_no_others() {
    // Other tests of one process walk, too.
    if std::env::var_os("NEXTEST").is_none() {
        return;
    }
    let mut lab = Lab::default();
    let names = (1..=500).map(|n| definition(&format!("e{n}"), "1"));
    lab.add("/lab", names.collect());
    lab.start_batch(&[7, 8], false);
    lab.say(run(8, 1), ended(0));
    let (state, now) = (&lab.state, PresentTime::at(&moment(1000)));
    let pick = |text: &str| {
        let selector = Selector::parse(text, &ParseContext::utc(0)).unwrap();
        selector.pick(&Rows::of(state, &now)).unwrap().ids
    };
    for (text, ids) in [("7", [7]), ("e9", [9]), ("`e10`", [10])] {
        assert_eq!(walked(|| assert_eq!(pick(text), ids)), 0, "{text}");
    }
    let live = || assert_eq!(state.live_runs().count(), 1);
    let outlook = || assert_eq!(Outlook::of(state, run(7, 1), &now).ended, 1);
    let unfinished = || assert_eq!(Outlook::unfinished(state, &now).len(), 1);
    let edited = || assert!(!edits::any(state, &PendingEdits::default()));
    let all = walked(live) + walked(outlook) + walked(unfinished) + walked(edited);
    assert_eq!(all, 0);
    // The list of what is not hidden is made anew when that changes, not when a run does.
    lab.say(run(7, 1), running());
    let state = &lab.state;
    assert_eq!(walked(|| assert_eq!(state.listed().len(), 500)), 0);
}
