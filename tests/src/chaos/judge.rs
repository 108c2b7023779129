//! The end that a run must have, given its job's script and notes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::plan::{Fate, Planned};
use super::script::{End, WRITE_FAILED};

/// Notes of the jobs of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// Number of begins.
    pub starts: usize,
    /// Number of ends.
    pub ends: usize,
    /// Number of failed writes.
    pub failures: usize,
    /// Number of begins while an earlier job of the run was alive.
    pub overlaps: usize,
    /// Number of cards that another living job saw, too.
    pub clashes: usize,
}

impl Noted {
    /// What is known of the last start of a run that started more than once: it ended by
    /// itself if the run did.
    pub(super) fn of_the_last(self, run: &Value) -> Self {
        if self.starts <= 1 {
            return self;
        }
        let state = run["state"].as_str().unwrap_or_default();
        let by_itself = ["finished", "crashed"].contains(&state);
        Self {
            starts: 1,
            ends: usize::from(self.ends > 0 && by_itself),
            ..self
        }
    }
}

/// The notes of all jobs, by run. A note is `WHAT RUN PID`.
pub(super) fn notes(text: &str) -> BTreeMap<String, Noted> {
    let mut all: BTreeMap<String, Noted> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (what, run) = (words.next(), words.next().unwrap_or_default());
        let noted = all.entry(run.to_owned()).or_default();
        match what {
            Some("start") => noted.starts += 1,
            Some("end") => noted.ends += 1,
            Some("overlap") => noted.overlaps += 1,
            Some("clash") => noted.clashes += 1,
            _ => noted.failures += 1,
        }
    }
    all
}

/// Faults of a run's node during the chaos.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeFate {
    /// The host of the node crashed.
    pub crashed: bool,
    /// Shims and their launcher were killed together.
    pub unsupervised: bool,
    /// Its scheduler may have started a run once more.
    pub reruns: bool,
    /// Its scheduler may have ended its job: an agent in an allocation was killed, or the controller
    /// died while the job lived, and came back with a state from before its start.
    pub ended_job: bool,
    /// Its job is in a container, where a signal becomes a code.
    pub contained: bool,
    /// Something that belongs to its container was killed.
    pub hurt: bool,
    /// The daemon of its runtime was killed, and started nothing then.
    pub refused: bool,
}

/// Faults of a run's end.
pub(super) fn state(planned: &Planned, run: &Value, noted: Noted, node: NodeFate) -> Vec<String> {
    let mut wrong = Vec::new();
    if noted.overlaps > 0 {
        wrong.push("two jobs of it lived at once".to_owned());
    }
    if noted.clashes > 0 {
        wrong.push("it got a card that another job had".to_owned());
    }
    if noted.starts > 1 && !node.reruns {
        wrong.push("it ran more than once".to_owned());
    }
    let noted = noted.of_the_last(run);
    let state = run["state"].as_str().unwrap_or_default();
    let natural = natural(planned, noted);
    let code = run["exit_code"].as_i64();
    let signal = run["signal"].as_i64();
    let reason = run["reason"].as_str().unwrap_or_default();
    let right = match state {
        "finished" => natural == Natural::Code(0) && code == Some(0),
        // The client's own code counts where there was no container, and where a daemon that died
        // did not know yet that it had started one.
        "crashed" if node.hurt => code != Some(125) || noted.starts == 0 || node.refused,
        "crashed" if node.refused && noted.starts == 0 => !reason.is_empty(),
        "crashed" if noted.failures > 0 => {
            // A disk without inodes has room: there the job's own last line tells why.
            let last = run["stderr_line"].as_str().unwrap_or_default();
            let told = reason.contains("disk full") || last.contains("No space left on device");
            code == Some(WRITE_FAILED.into()) && told
        }
        "crashed" => match natural {
            Natural::Code(expected) => expected != 0 && code == Some(expected),
            Natural::Signal(expected) if node.contained => code == Some(128 + expected),
            Natural::Signal(expected) => signal == Some(expected),
            Natural::None => false,
        },
        "aborted" => planned.touched || matches!(planned.fate, Fate::Person | Fate::Rule),
        // A container may take longer to begin than its run may last.
        "timeout" => planned.fate == Fate::Limit && (noted.starts == 1 || node.contained),
        "lost" => {
            (node.crashed && reason.contains("restarted"))
                || (node.unsupervised && reason.contains("exit code unknown"))
                || (node.ended_job && reason.contains("SLURM"))
                || ((node.hurt || node.refused) && reason.contains("exit code unknown"))
        }
        _ => false,
    };
    if !right {
        wrong.push(format!(
            "{state} (code {code:?}, signal {signal:?}, {reason}) is wrong"
        ));
    }
    if state == "aborted" && planned.fate == Fate::Rule && !planned.touched && noted.starts != 1 {
        wrong.push("its rule ended it before it ran".to_owned());
    }
    wrong
}

/// How often rules over peers fired in the newest run of an experiment, and their faults: such
/// a rule fires once in a start of a job, and its record has the number that it was decided by,
/// of how many peers, and of when.
pub(super) fn peers_rule(rules: &Value, starts: u64) -> (u64, Vec<String>) {
    let (mut all, mut wrong) = (0, Vec::new());
    for rule in rules["rules"].as_array().into_iter().flatten() {
        let text = rule["text"].as_str().unwrap_or_default();
        let fired = rule["fired"].as_u64().unwrap_or_default();
        if !text.contains("peers.") || fired == 0 {
            continue;
        }
        all += fired;
        if fired > starts.max(1) {
            wrong.push(format!("`{text}` fired {fired} times in {starts} starts"));
        }
        let values = rule["last_values"].as_str().unwrap_or_default();
        let number = values.split_once("median(peers.loss) = ");
        let number = number.and_then(|(_, rest)| rest.split_once(" (of "));
        let whole = number.is_some_and(|(number, rest)| {
            let peers = rest.split_once(' ').and_then(|(count, rest)| {
                let at = rest.split_once(" at ")?.1;
                Some(count.parse::<u64>().is_ok_and(|count| count > 0) && at.starts_with("20"))
            });
            number.parse::<f64>().is_ok() && peers == Some(true)
        });
        if !whole || rule["last_fired_at"].is_null() {
            wrong.push(format!("`{text}` fired without telling by what: {rule}"));
        }
    }
    (all, wrong)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Natural {
    Code(i64),
    Signal(i64),
    None,
}

/// The end of the job by its own notes.
fn natural(planned: &Planned, noted: Noted) -> Natural {
    if noted.ends != 1 {
        return Natural::None;
    }
    match planned.script.end {
        End::Exit(code) => Natural::Code(code.into()),
        End::Signal(number) => Natural::Signal(number.into()),
        End::Hold => Natural::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chaos::script::Script;

    const ONCE: Noted = Noted {
        starts: 1,
        ends: 1,
        failures: 0,
        overlaps: 0,
        clashes: 0,
    };
    const CUT_SHORT: Noted = Noted { ends: 0, ..ONCE };

    fn planned(end: End, fate: Fate) -> Planned {
        Planned {
            name: "n".to_owned(),
            script: Script {
                seed: 1,
                lines: 1,
                metric_every: 1,
                pause_ms: 0,
                file_bytes: 0,
                stray: false,
                stubborn: false,
                end,
            },
            fate,
            touched: false,
            told: Vec::new(),
            unsure: 0,
        }
    }

    fn run(state: &str, code: Option<i64>, reason: &str) -> Value {
        json!({"state": state, "exit_code": code, "signal": null, "reason": reason})
    }

    fn right(planned: &Planned, run: &Value, noted: Noted) -> bool {
        state(planned, run, noted, NodeFate::default()).is_empty()
    }

    #[test]
    fn a_job_that_ends_by_itself_has_its_code_and_ran_once() {
        let seven = planned(End::Exit(7), Fate::Alone);
        assert!(right(&seven, &run("crashed", Some(7), ""), ONCE));
        assert!(!right(&seven, &run("crashed", Some(8), ""), ONCE));
        assert!(!right(&seven, &run("finished", Some(0), ""), ONCE));
        assert!(!right(&seven, &run("aborted", None, ""), CUT_SHORT));
        assert!(!right(&seven, &run("crashed", Some(7), ""), CUT_SHORT));
        let twice = Noted { starts: 2, ..ONCE };
        assert!(!right(&seven, &run("crashed", Some(7), ""), twice));
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        let segv = planned(End::Signal(11), Fate::Alone);
        let mut seen = run("crashed", None, "killed by SIGSEGV");
        assert!(!right(&segv, &seen, ONCE));
        seen["signal"] = json!(11);
        assert!(right(&segv, &seen, ONCE));
    }

    #[test]
    fn a_run_without_an_abort_request_is_never_aborted() {
        let mut held = planned(End::Hold, Fate::Limit);
        assert!(right(&held, &run("timeout", None, ""), CUT_SHORT));
        assert!(!right(&held, &run("aborted", None, ""), CUT_SHORT));
        held.touched = true;
        assert!(right(&held, &run("aborted", None, ""), CUT_SHORT));
    }

    #[test]
    fn lost_is_only_what_its_host_or_both_supervisors_took_along() {
        let job = planned(End::Exit(0), Fate::Alone);
        let lost = run("lost", None, "the machine was restarted");
        let crashed = NodeFate {
            crashed: true,
            ..NodeFate::default()
        };
        let unsupervised = NodeFate {
            unsupervised: true,
            ..NodeFate::default()
        };
        assert!(!right(&job, &lost, CUT_SHORT));
        assert!(state(&job, &lost, CUT_SHORT, crashed).is_empty());
        assert!(!state(&job, &lost, CUT_SHORT, unsupervised).is_empty());
        let unknown = run("lost", None, "ended, exit code unknown");
        assert!(!state(&job, &unknown, CUT_SHORT, crashed).is_empty());
        assert!(state(&job, &unknown, CUT_SHORT, unsupervised).is_empty());
    }

    #[test]
    fn only_a_scheduler_that_was_broken_may_start_a_run_again_and_never_beside_itself() {
        let job = planned(End::Exit(0), Fate::Alone);
        let done = run("finished", Some(0), "");
        let twice = Noted { starts: 2, ..ONCE };
        let broken = NodeFate {
            reruns: true,
            ..NodeFate::default()
        };
        assert!(!right(&job, &done, twice));
        assert!(state(&job, &done, twice, broken).is_empty());
        let beside = Noted {
            overlaps: 1,
            ..twice
        };
        assert!(!state(&job, &done, beside, broken).is_empty());
    }

    #[test]
    fn a_rule_over_peers_fires_once_and_tells_by_what() {
        let fired = |times: u64, values: &str| {
            let rule = json!({"text": "loss > median(peers.loss)", "fired": times,
                "last_values": values, "last_fired_at": "2026-11-26T00:00:00Z"});
            peers_rule(&json!({"rules": [rule]}), 1)
        };
        let told = "loss = 0.9, median(peers.loss) = 0.2 (of 3 peers at 2026-11-26 14:00:00)";
        assert_eq!(fired(1, told), (1, Vec::new()));
        assert_eq!(fired(0, ""), (0, Vec::new()));
        assert_eq!(fired(2, told).1.len(), 1);
        assert_eq!(fired(1, "loss = 0.9, median(peers.loss) = 0.2").1.len(), 1);
    }

    #[test]
    fn notes_are_counted_by_run() {
        let all = notes("start 1.1 7\nstart 2.1 8\nend 1.1 7\nfailed 2.1 8\n");
        assert_eq!(all["1.1"], ONCE);
        assert_eq!(all["2.1"].failures, 1);
    }
}
