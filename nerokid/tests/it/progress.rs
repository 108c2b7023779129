//! How far a job has come, by what it prints and by the expression of its spec.

use nero_journal::v1::{Progress, RecordKind, RuleFired};
use nero_wire::v1::{Param, RunSpec};

use crate::rig::Rig;
use crate::watching::with_rule;

fn shares(rig: &Rig) -> Vec<f64> {
    let all = rig.all::<Progress>(RecordKind::Progress);
    all.into_iter().map(|one| one.done).collect()
}

#[test]
fn a_bar_within_an_epoch_goes_on_in_the_watcher_after_a_killed_one() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    rig.print("Epoch 1/2 loss: 0.5\n 50%|█████     | 5/10 [00:01<00:01]\r");
    let told = rig.wait_for::<Progress>(RecordKind::Progress, |one| one.done == 0.75);
    assert!(told.left_ms.is_some(), "{told:?}");
    let before = shares(&rig);
    watcher.kill();
    let mut watcher = rig.watcher(None);
    rig.print(" 60%|██████    | 6/10 [00:01<00:01]\r");
    rig.wait_for::<Progress>(RecordKind::Progress, |one| one.done == 0.8);
    // The newest repaint has no end of its line yet.
    rig.print("100%|██████████| 10/10 [00:02<00:00]");
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(shares(&rig)[before.len()..], [0.8, 1.0]);
}

#[test]
fn the_expression_of_the_spec_counts_and_rules_see_it() {
    let spec = RunSpec {
        progress: "epoch / epochs".to_owned(),
        params: vec![Param {
            name: "epochs".to_owned(),
            text: "4".to_owned(),
            json: "4".to_owned(),
        }],
        ..with_rule("notify", "progress > 40% && eta >= 0")
    };
    let mut rig = Rig::new(spec);
    let mut watcher = rig.watcher(None);
    rig.print("99%|█████████ |\nepoch 1\n");
    rig.wait_for::<Progress>(RecordKind::Progress, |one| one.done == 0.25);
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired), []);
    rig.print("epoch 2\n");
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert!(fired.values.starts_with("progress = 0.5"), "{fired:?}");
    rig.end();
    assert!(watcher.ended().success());
    let told = shares(&rig);
    assert_eq!(
        (told.first(), told.last()),
        (Some(&0.25), Some(&0.5)),
        "{told:?}"
    );
}
