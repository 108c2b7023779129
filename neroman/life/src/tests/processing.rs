//! What is made of a run's outputs, and when it is made anew.

use nero_format::{Definition, OutputProcessing, ProcessedOutput, ProcessedUnit, PythonCall};

use nero_expr::{Expr, ParseContext};

use super::*;
use crate::after::processed;
use crate::facts::journal::{Key, Metric};
use crate::facts::now::PresentTime;
use crate::facts::processed::ProcessedOutputs;
use crate::fold::scope::Sight;

const RUN: RunId = RunId {
    experiment: ExperimentId(1),
    number: 1,
};

/// A lab whose only run has ended.
fn ended_run() -> Lab {
    let mut lab = Lab::default();
    let output = ProcessedOutput {
        file: "stdout.log".to_owned(),
        unit: ProcessedUnit::Line,
        call: PythonCall {
            module: "mine".to_owned(),
            function: "read".to_owned(),
            arguments: Vec::new(),
        },
    };
    let definition = Definition {
        processing: OutputProcessing {
            outputs: vec![output],
            plots: Vec::new(),
        }
        .into(),
        ..definition("a", "1")
    };
    lab.add("/lab", vec![definition]);
    lab.start(&[1], StartOptions::default());
    lab.say(RUN, running());
    lab.say(RUN, ended(0));
    lab
}

fn home(lab: &mut Lab) {
    lab.happens(RUN, &lab::results_done("/lab/results/a"));
}

fn made(version: u32) -> ProcessedOutputs {
    let metric = Metric {
        key: (0, Key::default()),
        last: 0.5,
        step: 3.0,
        min: 0.5,
        max: 2.0,
        count: 3,
        at_ms: 7,
    };
    ProcessedOutputs {
        metrics: [("err".to_owned(), metric)].into(),
        pictures: vec!["err.svg".to_owned()],
        version,
        ..ProcessedOutputs::default()
    }
}

fn record(lab: &mut Lab, version: u32) {
    let changes = processed::record(&lab.state, RUN, &made(version));
    lab.take(changes.into_iter().collect());
}

fn err(lab: &Lab) -> Option<f64> {
    Some(lab.state.run(RUN)?.metric("err")?.last)
}

#[test]
fn outputs_that_are_home_are_processed_once_and_anew_when_they_come_again() {
    let mut lab = ended_run();
    assert!(lab.state.unprocessed.is_empty());
    home(&mut lab);
    assert!(lab.state.unprocessed.contains(&RUN));
    record(&mut lab, 1);
    assert!(lab.state.unprocessed.is_empty());
    assert_eq!(err(&lab), Some(0.5));
    home(&mut lab);
    // Its numbers are those of other outputs; its pictures are still ours.
    assert_eq!(err(&lab), None);
    assert!(lab.state.unprocessed.contains(&RUN));
    let run = lab.state.run(RUN).unwrap();
    assert_eq!(run.processed().unwrap().pictures, ["err.svg"]);
    // An answer that was made of the outputs before is none.
    record(&mut lab, 1);
    assert_eq!(err(&lab), None);
    record(&mut lab, 2);
    assert_eq!(err(&lab), Some(0.5));
    assert!(lab.state.unprocessed.is_empty());
}

#[test]
fn a_run_that_is_folded_anew_has_its_series_once() {
    let mut lab = ended_run();
    home(&mut lab);
    record(&mut lab, 1);
    let anew = processed::outdate(&lab.state, RUN);
    lab.take(anew.into_iter().collect());
    assert_eq!(lab.state.run(RUN).unwrap().metrics().count(), 0);
    assert!(lab.state.unprocessed.contains(&RUN));
    record(&mut lab, 2);
    assert_eq!(lab.state.run(RUN).unwrap().metrics().count(), 1);
}

#[test]
fn outputs_that_come_again_while_they_are_first_processed_outdate_the_answer() {
    let mut lab = ended_run();
    home(&mut lab);
    let read = lab.state.run(RUN).unwrap().processed().unwrap().version;
    home(&mut lab);
    record(&mut lab, read);
    assert_eq!(err(&lab), None);
    assert!(lab.state.unprocessed.contains(&RUN));
}

#[test]
fn a_name_of_a_picture_is_ours_before_the_picture_is_there() {
    let mut lab = ended_run();
    home(&mut lab);
    let claim = |lab: &mut Lab| {
        let names = ["err.svg".to_owned()];
        let change = processed::claim(&lab.state, RUN, &names);
        lab.take(change.into_iter().collect());
    };
    claim(&mut lab);
    claim(&mut lab);
    let made = lab.state.run(RUN).unwrap().processed().unwrap();
    assert_eq!(made.pictures, ["err.svg"]);
    assert!(lab.state.unprocessed.contains(&RUN));
    record(&mut lab, 1);
    assert_eq!(err(&lab), Some(0.5));
}

#[test]
fn aggregates_see_series_that_were_made_of_outputs() {
    let mut lab = ended_run();
    home(&mut lab);
    record(&mut lab, 1);
    let now = PresentTime::default();
    let holds = |text: &str| {
        let expr = Expr::parse(text, &ParseContext::utc(0)).unwrap();
        let experiment = lab.state.experiment(RUN.experiment).unwrap();
        let sight = Sight::current(experiment, &now);
        expr.eval(&expr.bind(&sight).unwrap(), &sight).is_true()
    };
    assert!(holds("count(err) == 3 && min(err) < 1"));
    assert!(!holds("count(err) == 0"));
    // The points of the others are read.
    let expr = Expr::parse("mean(err) < 1", &ParseContext::utc(0)).unwrap();
    let wanted = crate::fold::pasts::wanted(expr.named_pasts(), lab.state.run(RUN).into_iter());
    assert!(wanted.has(RUN, "err"));
}
