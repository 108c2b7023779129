//! Runs that neroman makes by itself after the end of one.

use nero_format::{
    AfterError, ErrorHandler, FollowUp, NodeResources, OnNode, OnNodes, Resources, Retry, RetryOn,
};
use nero_journal::v1::{StopCause, lost};

use super::*;
use crate::after::acts::{self, CommandOf};
use crate::after::retry::{self, Next};
use crate::facts::journal::{CommandEnd, Lost, Stop};
use crate::facts::now::Tick;
use crate::facts::reason::NoNode;
use crate::facts::stage::Stage;
use crate::fold::change::Rule;
use crate::fold::run::Run;
use crate::place::choose::choose;
use crate::step::placement;
use crate::step::placement::Choice;

impl Lab {
    /// An experiment whose runs have this policy, one gigabyte and an hour; its first run.
    fn with_again(again: &FollowUp) -> (Self, RunId) {
        let mut lab = Self::default();
        let resources = Resources {
            memory_bytes: Some(1 << 30),
            time_ms: Some(3_600_000),
            ..Resources::default()
        };
        let again = again.clone();
        let definition = Definition {
            again: again.into(),
            resources: resources.into(),
            ..definition("a", "1")
        };
        lab.add("/lab", vec![definition]);
        lab.start(&[1], StartOptions::default());
        (lab, run(1, 1))
    }

    /// What the writer does after each change of a run.
    pub(crate) fn follow(&mut self, id: RunId) -> Option<RunId> {
        match retry::next(&self.state, id, RunToken::random, &moment(9))? {
            Next::Run { new, event } => {
                let next = new.made.id;
                self.take(vec![Change::Run(Arc::new(*new)), event]);
                Some(next)
            }
            Next::None(changes) => {
                self.take(changes);
                None
            }
        }
    }

    /// The placer chose a node.
    pub(crate) fn place(&mut self, id: RunId) {
        let node = "local".to_owned();
        let sending = false;
        self.dispatch(id, |dispatch| {
            dispatch.stage = Stage::Chosen { node, sending };
        });
    }

    fn last(&self) -> &Run {
        self.state
            .experiment(ExperimentId(1))
            .unwrap()
            .newest()
            .unwrap()
    }

    fn words(&self) -> String {
        let follows = self.last().made.follows.as_ref();
        follows.map_or_else(String::new, ToString::to_string)
    }
}

pub(crate) fn retrying(on: &[RetryOn], max: u32) -> FollowUp {
    FollowUp {
        retry: Some(Retry {
            on: on.to_vec(),
            max,
            memory: 2.0,
            time: 1.5,
            ..Retry::default()
        }),
        ..FollowUp::default()
    }
}

pub(crate) fn out_of_memory() -> Incarnation {
    let mut one = ended(137);
    one.exit.as_mut().unwrap().oom_kills = 1;
    one
}

fn stopped(cause: StopCause, rule: u64) -> Incarnation {
    let mut one = ended(143);
    let mut key = one.exit.as_ref().unwrap().key;
    key.offset -= 1;
    one.stop = Some(Box::new(Stop {
        key,
        cause: cause as i32,
        rule,
        at_ms: 5,
    }));
    one
}

#[test]
fn out_of_memory_is_run_again_with_more_until_max() {
    let (mut lab, first) = Lab::with_again(&retrying(&[RetryOn::OutOfMemory], 2));
    lab.say(first, out_of_memory());
    let second = lab.follow(first).unwrap();
    assert_eq!(
        (second, lab.words().as_str()),
        (run(1, 2), "retry 1 of 2 after out of memory")
    );
    let made = &lab.last().made;
    assert_eq!(
        (made.takes.memory_bytes, made.time_ms),
        (2 << 30, 3_600_000)
    );
    assert!(made.takes.grown && lab.last().unplaced());
    assert_ne!(made.token, lab.state.run(first).unwrap().made.token);
    assert_eq!(lab.follow(first), None, "a run is followed once");
    lab.say(second, out_of_memory());
    let third = lab.follow(second).unwrap();
    assert_eq!(lab.words(), "retry 2 of 2 after out of memory");
    assert_eq!(lab.last().made.takes.memory_bytes, 4 << 30);
    lab.say(third, out_of_memory());
    assert_eq!((lab.follow(third), lab.last().made.id), (None, third));
    let why = lab.last().why_not_again();
    assert_eq!(why, Some("not run again: 2 of 2 retries failed"));
    assert_eq!(lab.phase(third), Phase::Crashed);
}

#[test]
fn a_retry_has_more_of_what_its_node_alone_gives() {
    let there = OnNode {
        node: Some("local".to_owned()),
        value: 3 << 30,
    };
    let resources = Resources {
        memory_bytes: Some(1 << 30),
        on_nodes: NodeResources {
            memory_bytes: OnNodes(vec![there]),
            ..NodeResources::default()
        },
        ..Resources::default()
    };
    let definition = Definition {
        again: retrying(&[RetryOn::OutOfMemory], 2).into(),
        resources: resources.into(),
        ..definition("a", "1")
    };
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition]);
    lab.start(&[1], StartOptions::default());
    lab.say(run(1, 1), out_of_memory());
    lab.follow(run(1, 1)).unwrap();
    let takes = &lab.last().made.takes;
    assert_eq!(takes.on("local").memory_bytes, 6 << 30);
    assert_eq!(takes.on("box").memory_bytes, 2 << 30);
}

#[test]
fn a_retry_waits_for_its_pause_by_the_boot_clock_and_tells_so() {
    let mut again = retrying(&[RetryOn::Crashed], 2);
    again.retry.as_mut().unwrap().after_ms = 60_000;
    let (mut lab, first) = Lab::with_again(&again);
    let chosen = |run: &Run, boot: &str, ms| {
        let boot = boot.to_owned();
        choose(run, &mut [], &Tick { boot, ms })
    };
    let nowhere = Choice::Nowhere(NoNode::NoneConfigured);
    assert_eq!(chosen(lab.last(), "boot", 9), nowhere, "no retry");
    lab.say(first, ended(1));
    lab.follow(first).unwrap();
    let later = chosen(lab.last(), "boot", 1009);
    assert_eq!(later, Choice::Later { left_ms: 59_000 });
    let changes = placement::decided(lab.last(), &later, 1009).unwrap();
    lab.take(changes);
    assert_eq!(
        lab.last().dispatch.why.to_string(),
        "retried 1m after 1.1 ended (`retry.after`)"
    );
    assert_eq!(chosen(lab.last(), "boot", 60_009), nowhere);
    // The machine was started anew: only the time since then is certain.
    let later = chosen(lab.last(), "another", 5000);
    assert_eq!(later, Choice::Later { left_ms: 55_000 });
    assert_eq!(chosen(lab.last(), "another", 60_000), nowhere);
}

#[test]
fn a_retry_after_the_time_limit_has_more_time_and_the_same_margin() {
    let (mut lab, first) = Lab::with_again(&retrying(&[RetryOn::Timeout], 1));
    lab.say(first, stopped(StopCause::TimeLimit, 0));
    lab.follow(first).unwrap();
    let made = &lab.last().made;
    let before = lab.state.run(first).unwrap().made.takes.limit_s;
    assert_eq!(
        (made.time_ms, made.takes.limit_s),
        (5_400_000, before + 1800)
    );
    assert_eq!(
        (made.takes.memory_bytes, lab.words().as_str()),
        (1 << 30, "retry 1 of 1 after its time limit")
    );
}

#[test]
fn a_known_exit_code_stands_when_nothing_more_can_be_known_of_the_tree() {
    let lost_after = |code_unknown: bool, reason: lost::Reason| {
        let (mut lab, id) = Lab::with_again(&FollowUp::default());
        let mut one = ended(0);
        one.gone = None;
        one.exit.as_mut().unwrap().code_unknown = code_unknown;
        one.lost = Some(Box::new(Lost {
            key: Key::default(),
            reason: reason as i32,
            detail: String::new(),
            at_ms: 7,
        }));
        lab.say(id, one);
        lab.phase(id)
    };
    for reason in [lost::Reason::Rebooted, lost::Reason::TaskOver] {
        assert_eq!(lost_after(false, reason), Phase::Finished, "{reason:?}");
        assert_eq!(lost_after(true, reason), Phase::Lost, "{reason:?}");
    }
}

#[test]
fn what_is_not_named_and_what_people_and_rules_ended_is_not_run_again() {
    let every = retrying(&RetryOn::ALL, 3);
    let lost = |reason: lost::Reason| {
        let mut one = running();
        one.lost = Some(Box::new(Lost {
            key: Key::default(),
            reason: reason as i32,
            detail: String::new(),
            at_ms: 7,
        }));
        one
    };
    let ends = [
        (&every, ended(0), false),
        (&every, ended(1), true),
        (&every, out_of_memory(), true),
        (&every, lost(lost::Reason::Rebooted), true),
        (&every, lost(lost::Reason::CodeUnknown), false),
        (&every, lost(lost::Reason::FolderGone), false),
        (&every, stopped(StopCause::Person, 0), false),
        (&every, stopped(StopCause::Rule, 7), false),
        (&every, stopped(StopCause::Warden, 0), false),
        (&retrying(&[RetryOn::Crashed], 1), out_of_memory(), true),
        (&retrying(&[RetryOn::NodeFailure], 1), ended(1), false),
        (&FollowUp::default(), ended(1), false),
    ];
    for (again, end, follows) in ends {
        let (mut lab, id) = Lab::with_again(again);
        lab.say(id, end.clone());
        assert_eq!(lab.follow(id).is_some(), follows, "{again:?} {end:?}");
    }
}

#[test]
fn an_abort_before_the_end_and_a_newer_run_win_over_a_retry() {
    let every = retrying(&RetryOn::ALL, 3);
    let (mut lab, id) = Lab::with_again(&every);
    lab.say(id, running());
    lab.cancel(id);
    lab.say(id, ended(1));
    assert_eq!(lab.follow(id), None);
    let (mut lab, id) = Lab::with_again(&every);
    lab.say(id, running());
    lab.start(&[1], RESTART);
    lab.say(id, ended(1));
    assert_eq!((lab.follow(id), lab.last().made.id), (None, run(1, 2)));
}

#[test]
fn a_time_limit_is_requeued_while_new_checkpoints_are_left() {
    let again = FollowUp {
        requeues_timeout: true,
        ..FollowUp::default()
    };
    let report = |made_checkpoint| Input::Reported {
        node: "local".to_owned(),
        report: Report {
            standing: ReportedStage::Ended,
            made_checkpoint,
            ..Report::unknown()
        },
    };
    let (mut lab, first) = Lab::with_again(&again);
    lab.say(first, stopped(StopCause::TimeLimit, 0));
    // Its node has not told of checkpoints yet.
    assert_eq!((lab.phase(first), lab.follow(first)), (Phase::Ending, None));
    lab.happens(first, &report(Some(true)));
    assert_eq!(lab.phase(first), Phase::Timeout);
    let second = lab.follow(first).unwrap();
    assert_eq!(
        (lab.words().as_str(), lab.last().made.resume),
        ("requeued after its time limit", Some(1))
    );
    assert_eq!(lab.last().made.takes.prefer, "local");
    for (made, why) in [
        (
            Some(false),
            "not requeued: it left no new checkpoint in its time",
        ),
        (None, "not requeued: its node tells of no checkpoint"),
    ] {
        let mut lab = lab.clone();
        lab.place(second);
        lab.say(second, stopped(StopCause::TimeLimit, 0));
        lab.happens(second, &report(made));
        assert_eq!(
            (lab.follow(second), lab.last().why_not_again()),
            (None, Some(why))
        );
    }
    // An abort that comes while the end is still open ends it for good.
    let (mut lab, first) = Lab::with_again(&again);
    lab.say(first, stopped(StopCause::TimeLimit, 0));
    lab.cancel(first);
    assert_eq!(lab.phase(first), Phase::Timeout);
    lab.happens(first, &report(Some(true)));
    assert_eq!(lab.follow(first), None);
}

#[test]
fn rules_restart_there_and_requeue_anywhere_three_times_in_a_row() {
    for (action, unplaced) in [("restart", false), ("requeue", true)] {
        let (mut lab, mut id) = Lab::with_again(&FollowUp::default());
        lab.take(vec![Change::Rule(Arc::new(Rule {
            id: 7,
            action: action.to_owned(),
            argument: String::new(),
            text: "loss > 5".to_owned(),
            repeat_ms: 0,
            author: String::new(),
            origin: String::new(),
        }))]);
        for turn in 1..=3 {
            lab.say(id, stopped(StopCause::Rule, 7));
            id = lab.follow(id).unwrap();
            assert_eq!(lab.last().unplaced(), unplaced);
            // Its watcher's record of the rule is not home yet.
            let end = format!("by the rule `loss > 5`, {turn} of 3");
            assert!(lab.words().ends_with(&end), "{}", lab.words());
            lab.place(id);
        }
        lab.say(id, stopped(StopCause::Rule, 7));
        assert_eq!((lab.follow(id), lab.phase(id)), (None, Phase::Aborted));
        assert!(lab.last().why_not_again().unwrap().contains("3 times"));
    }
}

#[test]
fn a_run_that_a_rule_restarted_on_its_node_goes_anywhere_at_its_next_retry() {
    let again = retrying(&[RetryOn::NodeFailure], 2);
    let (mut lab, first) = Lab::with_again(&again);
    let asked = lab.last().made.node.clone();
    lab.take(vec![Change::Rule(Arc::new(Rule {
        id: 7,
        action: "restart".to_owned(),
        argument: String::new(),
        text: "loss > 5".to_owned(),
        repeat_ms: 0,
        author: String::new(),
        origin: String::new(),
    }))]);
    lab.dispatch(first, |dispatch| {
        dispatch.stage = Stage::Accepted {
            node: "box".to_owned(),
            queued: true,
        };
    });
    let mut id = first;
    for _ in 0..2 {
        lab.say(id, stopped(StopCause::Rule, 7));
        id = lab.follow(id).unwrap();
        let made = &lab.last().made;
        assert_eq!((&*made.node, lab.last().node()), ("box", Some("box")));
    }
    let mut lost = running();
    lost.lost = Some(Box::new(Lost {
        key: Key::default(),
        reason: lost::Reason::Rebooted as i32,
        detail: String::new(),
        at_ms: 7,
    }));
    lab.say(id, lost);
    lab.follow(id).unwrap();
    assert!(lab.last().unplaced());
    assert_eq!(lab.last().made.node, asked);
}

#[test]
fn the_first_item_of_a_list_that_fits_an_end_decides_with_its_own_count() {
    let item = |on, exit: &[i32], stderr: Option<&str>, max| Retry {
        on: vec![on],
        exit: exit.to_vec(),
        stderr: stderr.map(str::to_owned),
        max,
        ..Retry::default()
    };
    let again = FollowUp {
        retry: Some(Retry {
            after_ms: 10_000,
            ..item(RetryOn::Crashed, &[255], Some("^ssh: "), 2)
        }),
        more: vec![
            item(RetryOn::Crashed, &[255], None, 0),
            item(RetryOn::Crashed, &[], None, 1),
        ],
        ..FollowUp::default()
    };
    let crashed = |code, line: &str| {
        let mut one = ended(code);
        line.clone_into(&mut one.exit.as_mut().unwrap().stderr_line);
        one
    };
    let (mut lab, first) = Lab::with_again(&again);
    lab.say(first, crashed(255, "ssh: no route to host"));
    let second = lab.follow(first).unwrap();
    assert_eq!(lab.words(), "retry 1 of 2 after a crash");
    let pause_ms = |lab: &Lab| lab.last().made.pause_left_ms(&moment(9).tick);
    assert_eq!(pause_ms(&lab), 10_000);
    lab.place(second);
    lab.say(second, crashed(1, "ssh: is not why"));
    let third = lab.follow(second).unwrap();
    assert_eq!(
        (lab.words().as_str(), pause_ms(&lab)),
        ("retry 1 of 1 after a crash", 0)
    );
    lab.place(third);
    lab.say(third, crashed(255, "ssh: no route to host"));
    let fourth = lab.follow(third).unwrap();
    assert_eq!(lab.words(), "retry 2 of 2 after a crash");
    lab.place(fourth);
    lab.say(fourth, crashed(255, "lost"));
    // The second item keeps it from the third.
    assert_eq!(lab.follow(fourth), None);
    let made = serde_json::to_value(&*lab.last().made).unwrap();
    let again: RunRecord = serde_json::from_value(made).unwrap();
    assert_eq!(again, *lab.last().made);
}

#[test]
fn on_error_decides_from_the_records_of_an_end_whether_it_is_one() {
    let handler = |exit: &[i32], stderr: Option<&str>, then| ErrorHandler {
        exit: exit.to_vec(),
        stderr: stderr.map(str::to_owned),
        run: Vec::new(),
        then,
    };
    let again = FollowUp {
        on_error: Some(vec![
            handler(&[0], Some("^Cloning "), AfterError::Continue),
            handler(&[], Some("^ssh: "), AfterError::Retry),
            handler(&[3], None, AfterError::Continue),
        ]),
        ..FollowUp::default()
    };
    let phase = |code, line: &str| {
        let mut one = ended(code);
        line.clone_into(&mut one.exit.as_mut().unwrap().stderr_line);
        one.gone.as_mut().unwrap().stderr_bytes = line.len() as u64;
        let (mut lab, first) = Lab::with_again(&again);
        lab.say(first, one);
        let run = lab.state.run(first).unwrap();
        let reason = run.reason().map(ToString::to_string).unwrap_or_default();
        (run.phase(), reason, run.error_verdict().is_some())
    };
    let finished = |is_told| (Phase::Finished, String::new(), is_told);
    let crashed = |code, is_told| (Phase::Crashed, format!("exit code {code}"), is_told);
    assert_eq!(phase(0, ""), finished(false));
    assert_eq!(phase(0, "Cloning into x"), finished(false));
    assert_eq!(phase(0, "fatal: no x"), crashed(0, true));
    assert_eq!(phase(3, "fatal: no x"), finished(true));
    assert_eq!(phase(3, "ssh: no route"), crashed(3, false));
    let of_step = "`git clone`, no. 2 of 3 steps: exit code 3: ssh: no route";
    assert_eq!(phase(3, of_step), crashed(3, false));
    assert_eq!(phase(1, "Cloning into x"), crashed(1, false));
    // Other ends are for `retry` alone.
    let handled = Retry {
        on: vec![RetryOn::Crashed],
        max: 0,
        is_handler: true,
        ..Retry::default()
    };
    let both = FollowUp {
        retry: Some(handled),
        more: retrying(&[RetryOn::OutOfMemory], 1)
            .retry
            .into_iter()
            .collect(),
        on_error: Some(vec![handler(&[], None, AfterError::Abort)]),
        ..FollowUp::default()
    };
    let mut starved = ended(1);
    starved.exit.as_mut().unwrap().oom_kills = 1;
    let (mut lab, first) = Lab::with_again(&both);
    lab.say(first, starved);
    assert!(lab.follow(first).is_some(), "after out of memory");
    let (mut lab, first) = Lab::with_again(&both);
    lab.say(first, ended(1));
    assert_eq!(lab.follow(first), None, "by the handler");
    // A signal is no end by a code.
    let mut killed = ended(0);
    killed.exit.as_mut().unwrap().signal = 9;
    let (mut lab, first) = Lab::with_again(&again);
    lab.say(first, killed);
    assert_eq!(lab.state.run(first).unwrap().phase(), Phase::Crashed);
}

#[test]
fn nothing_follows_an_error_before_its_response_has_ended() {
    let handler = |exit: i32, then| ErrorHandler {
        exit: vec![exit],
        stderr: None,
        run: vec!["date".to_owned(), "./clean.sh".to_owned()],
        then,
    };
    let retry = Retry {
        on: vec![RetryOn::Crashed],
        exit: vec![4],
        is_handler: true,
        ..Retry::default()
    };
    let again = FollowUp {
        retry: Some(retry),
        on_error: Some(vec![
            handler(3, AfterError::Continue),
            handler(4, AfterError::Retry),
        ]),
        ..FollowUp::default()
    };
    let ran = CommandEnd {
        at_ms: 90,
        how: "exit code 1".to_owned(),
        output: "no file\n".to_owned(),
    };
    for (code, then) in [(3, Phase::Finished), (4, Phase::Crashed)] {
        let (mut lab, id) = Lab::with_again(&again);
        lab.say(id, ended(code));
        assert_eq!(lab.phase(id), Phase::Ending);
        assert_eq!(lab.follow(id), None);
        assert_eq!(lab.state.unacted.iter().collect::<Vec<_>>(), [&id]);
        let [command] = acts::commands(&lab.state, id).try_into().unwrap();
        let wanted = CommandOf::Response {
            incarnation: 1,
            command: "date\n./clean.sh".to_owned(),
        };
        assert_eq!(command.of, wanted);
        lab.take(acts::acted(&lab.state, &command, &ran));
        assert_eq!(lab.phase(id), then);
        assert!(lab.state.unacted.is_empty());
        // The rows of an earlier and a later start of the daemon.
        let run = lab.state.run(id).unwrap();
        let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(run)).unwrap();
        let sample = r#""responded":{"incarnation":1,"ran":{"at_ms":90,"how":"exit code 1","output":"no file\n"}}"#;
        assert!(stored.contains(sample), "{stored}");
        let kept: crate::fold::row::DispatchRow = serde_json::from_str(&stored).unwrap();
        let read = kept.run((*run.made).clone(), run.journal.clone(), run.rules.clone());
        assert_eq!(read.phase(), then);
        assert_eq!(lab.follow(id).is_some(), code == 4);
    }
    // Other ends are no errors of it, and an abort does not wait.
    let (mut lab, id) = Lab::with_again(&again);
    lab.say(id, ended(5));
    assert_eq!(lab.phase(id), Phase::Crashed);
    for code in [3, 4] {
        let (mut lab, id) = Lab::with_again(&again);
        lab.say(id, ended(code));
        lab.dispatch(id, |dispatch| {
            dispatch.cancel = Some(Box::new(lab::cancel("ada", 40)));
        });
        assert_eq!(lab.phase(id), Phase::Crashed, "nothing was mended");
        assert!(lab.state.unacted.is_empty() && lab.follow(id).is_none());
    }
}
