//! Aggregates over peers: who is a peer, when a number goes to a run, and that the folds
//! which look at changed runs alone are those of a look at all of them.

use proptest::prelude::*;

use super::*;
use crate::after::cohort::{Cohorts, EVERY_MS};
use crate::after::rules;
use crate::facts::journal::Metric;
use crate::facts::peers::PeersNumber;
use nero_expr::PastPoint;

fn abort(text: &str) -> crate::fold::change::Rule {
    crate::fold::change::Rule {
        id: 0,
        action: "abort".to_owned(),
        argument: String::new(),
        text: text.to_owned(),
        repeat_ms: 0,
        author: "me".to_owned(),
        origin: "rule add".to_owned(),
    }
}

impl Lab {
    /// These blocks with their rows, all running.
    fn cohorts(rows: &[(&str, Option<&str>)]) -> Self {
        let mut lab = Self::default();
        let named = rows
            .iter()
            .enumerate()
            .map(|(at, (block, cohort))| Definition {
                block: (*block).to_owned().into(),
                cohort: cohort.map(str::to_owned).into(),
                ..definition(&format!("{block}-{at}"), "1")
            });
        lab.add("/lab", named.collect());
        let ids: Vec<u64> = (1..=rows.len() as u64).collect();
        lab.start(&ids, StartOptions::default());
        for id in ids {
            lab.say(run(id, 1), running());
        }
        lab
    }

    fn rule(&mut self, ids: &[u64], text: &str) {
        let ids: Vec<ExperimentId> = ids.iter().map(|id| ExperimentId(*id)).collect();
        let (_, changes) = rules::add(&self.state, &ids, abort(text), 1);
        self.take(changes);
    }

    /// The run printed this loss at this step.
    fn prints(&mut self, id: RunId, step: f64, loss: f64) {
        let mut journal = (*self.state.run(id).unwrap().journal).clone();
        let first = Metric {
            key: (1, Key::default()),
            last: loss,
            step,
            min: loss,
            max: loss,
            count: 0,
            at_ms: 5,
        };
        if !journal.metrics.contains_key("loss") {
            journal.metrics.insert("loss".to_owned(), first);
        }
        let known = journal.metrics.get_mut("loss").unwrap();
        known.last = loss;
        known.step = step;
        known.min = known.min.min(loss);
        known.count += 1;
        self.take(vec![Change::Journal {
            run: id,
            journal: Arc::new(journal),
        }]);
    }

    /// Looks once, with these points in the database; takes what comes of it. Returns the
    /// numbers by experiment.
    fn look(
        &mut self,
        cohorts: &mut Cohorts,
        now_ms: i64,
        points: &[(RunId, f64, f64)],
    ) -> Vec<(u64, Vec<PeersNumber>)> {
        let mut pasts = cohorts.wanted(&self.state);
        for &(id, step, value) in points {
            let point = PastPoint {
                value,
                step,
                generation: 0,
                at_ms: 0,
            };
            pasts.add(self.state.run(id).unwrap(), "loss", point, 5);
        }
        let mut now = PresentTime::wall(now_ms);
        now.pasts = Arc::new(pasts);
        let folded = cohorts.fold(&self.state, &now);
        let mut told = Vec::new();
        for (id, input) in folded.inputs {
            let Input::Peers { numbers } = &input else {
                panic!("{input:?}");
            };
            told.push((id.experiment.0, numbers.to_vec()));
            self.happens(id, &input);
        }
        told.sort_by_key(|(id, _)| *id);
        told
    }
}

fn values(told: &[(u64, Vec<PeersNumber>)]) -> Vec<(u64, Option<f64>, u64)> {
    let first = |(id, numbers): &(u64, Vec<PeersNumber>)| (*id, numbers[0].value, numbers[0].peers);
    told.iter().map(first).collect()
}

#[test]
fn peers_are_the_other_experiments_of_the_block_or_of_the_named_cohort() {
    let mut lab = Lab::cohorts(&[
        ("a", None),
        ("a", None),
        ("a", None),
        ("b", Some("wide")),
        ("c", Some("wide")),
        ("a", Some("wide")),
    ]);
    for id in 1..=6 {
        lab.prints(run(id, 1), 1.0, id as f64);
    }
    lab.rule(&[1, 4], "loss > max(peers.loss)");
    let mut cohorts = Cohorts::default();
    let told = lab.look(&mut cohorts, 100, &[]);
    assert_eq!(values(&told), [(1, Some(3.0), 2), (4, Some(6.0), 2)]);
    let version = lab.state.run(run(1, 1)).unwrap().rules_version();
    assert!(
        needs::of(lab.state.run(run(1, 1)).unwrap()).rules,
        "it is sent"
    );
    assert_eq!(lab.look(&mut cohorts, 200, &[]), [], "nothing new");
    // One that has ended counts, too.
    lab.say(run(3, 1), ended(1));
    assert_eq!(lab.look(&mut cohorts, 20_000, &[]), []);
    assert_eq!(lab.state.run(run(1, 1)).unwrap().rules_version(), version);
}

#[test]
fn a_run_gets_new_numbers_every_ten_seconds_at_most_and_none_after_its_end() {
    let mut lab = Lab::cohorts(&[("a", None), ("a", None)]);
    lab.rule(&[1], "loss > mean(peers.loss) && count(peers.loss) > 0");
    let mut cohorts = Cohorts::default();
    let told = lab.look(&mut cohorts, 1_000, &[]);
    assert_eq!(values(&told), [(1, None, 0)], "none has a value");
    assert_eq!(told[0].1[1].value, Some(0.0), "which is known");
    lab.prints(run(2, 1), 1.0, 4.0);
    assert_eq!(lab.look(&mut cohorts, 1_500, &[]), []);
    let now = PresentTime::wall(1_500);
    assert_eq!(
        cohorts.fold(&lab.state, &now).due_ms,
        Some(1_000 + EVERY_MS)
    );
    let told = lab.look(&mut cohorts, 1_000 + EVERY_MS, &[]);
    assert_eq!(values(&told), [(1, Some(4.0), 1)]);
    lab.prints(run(2, 1), 2.0, f64::NAN);
    let told = lab.look(&mut cohorts, 1_000 + 2 * EVERY_MS, &[]);
    assert_eq!(values(&told), [(1, None, 0)], "NaN is no value");
    // A daemon that begins anew knows what was sent.
    assert_eq!(lab.look(&mut Cohorts::default(), 99_000, &[]), []);
    lab.say(run(1, 1), ended(0));
    lab.prints(run(2, 1), 3.0, 3.0);
    assert_eq!(lab.look(&mut cohorts, 200_000, &[]), []);
}

#[test]
fn a_value_at_a_step_is_read_once_when_its_run_has_passed_it() {
    let mut lab = Lab::cohorts(&[("a", None), ("a", None)]);
    lab.rule(&[1], "loss@9 > min(peers.loss@9)");
    let mut cohorts = Cohorts::default();
    lab.prints(run(2, 1), 8.0, 4.0);
    assert!(cohorts.wanted(&lab.state).is_empty(), "not there yet");
    lab.look(&mut cohorts, 0, &[]);
    lab.prints(run(2, 1), 10.0, 3.0);
    let points = [(run(2, 1), 8.0, 4.0), (run(2, 1), 10.0, 3.0)];
    let told = lab.look(&mut cohorts, 60_000, &points);
    assert_eq!(values(&told), [(1, Some(4.0), 1)], "in force at step 9");
    lab.prints(run(2, 1), 11.0, 1.0);
    assert!(cohorts.wanted(&lab.state).is_empty(), "known for good");
    assert_eq!(lab.look(&mut cohorts, 90_000, &[]), []);
}

#[test]
fn numbers_are_stored_as_they_are() {
    for value in [
        None,
        Some(0.1),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
    ] {
        let number = PeersNumber {
            text: "min(peers.loss)".to_owned(),
            value,
            peers: 3,
            at_ms: 7,
        };
        let text = serde_json::to_string(&number).unwrap();
        assert_eq!(serde_json::from_str::<PeersNumber>(&text).unwrap(), number);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_look_at_changed_runs_is_a_look_at_all(
        prints in proptest::collection::vec((1u64..6, -3i8..4, any::<bool>()), 0..40),
    ) {
        let rows = [("a", None), ("a", None), ("a", Some("x")), ("b", Some("x")), ("a", None)];
        let mut lab = Lab::cohorts(&rows);
        lab.rule(&[1, 2, 3, 4, 5], "loss > quantile(peers.loss, 1/3) && loss > mean(min(peers.loss))");
        let mut kept = Cohorts::default();
        for (at, (id, loss, looks)) in prints.into_iter().enumerate() {
            lab.prints(run(id, 1), at as f64, f64::from(loss));
            if !looks {
                continue;
            }
            let now = PresentTime::wall(at as i64 * 60_000);
            let fresh = {
                let mut all = Cohorts::default();
                all.wanted(&lab.state);
                format!("{:?}", sorted(all.fold(&lab.state, &now).inputs))
            };
            kept.wanted(&lab.state);
            let inputs = sorted(kept.fold(&lab.state, &now).inputs);
            prop_assert_eq!(format!("{inputs:?}"), fresh);
            for (id, input) in inputs {
                lab.happens(id, &input);
            }
        }
    }
}

fn sorted(mut inputs: Vec<(RunId, Input)>) -> Vec<(RunId, Input)> {
    inputs.sort_by_key(|(id, _)| *id);
    inputs
}
