//! `kill -9` of every part of a flow, at any step: each group runs once, each verdict is kept, each
//! byte of an output is there once.

use std::fs;
use std::path::Path;
use std::process::Child;

use nero_tests::chaos::random::Random;
use nero_tests::{Home, Part, tracer, until};
use serde_json::Value;

use super::noodles::{folder, read};

/// Flows that are killed unless this variable has their number, or the first and the last: `4-60`.
const KILLED: &str = "NERO_NOODLES_KILLED";
/// Deaths of the one that follows a flow; then it is left alone.
const DEATHS: usize = 20;
/// Calls with which it changes something, or asks for it.
const CALLS: &str = "openat,write,fdatasync,ftruncate,unlink,rmdir,connect,sendto,sendmsg,writev";
/// More of them than a life has that goes on with a flow and runs some groups.
const STEPS: u64 = 140;

const SPEC: &str = r#"
servers: [{name: one}, {name: two}]
round_interval: 0
write_status_to: {run: $PLACE/status}
experiment_default: {envs: {PLACE: .}}
requirements: {tried: 'test -e tried && echo Yes || echo No'}
error_handlers:
- {return_code: 3, stderr_pattern: 'again\n', commands: [echo answered >> order], action: retry}
- {return_code: 0, stderr_pattern: 'odd\n', commands: ['local:echo odd >> order', echo more >> order], action: continue}
before_all_experiments:
- {name: init, commands: {run: [echo init >> order, 'local:echo here >> order']}}
experiments:
- name: a
  commands: {run: ['echo a1 >> order; seq 1 9', 'local:echo a2 >> order; seq 10 19', 'echo a3 >> order; seq 20 29']}
  write_outputs: {run: {stdout_to: out}}
- {name: b, commands: {run: 'echo b >> order; test -e tried || { touch tried; echo again >&2; exit 3; }'}}
- {name: c, requirements: {run: [tried: ==Yes]}, commands: {run: echo c >> order; echo odd >&2}}
- {name: d, depends_on: {run: b}, commands: {run: echo d >> order}}
after_all_experiments:
- {name: end, commands: {run: echo end >> order}}
"#;
const ORDER: &str = "init here a1 a2 a3 b answered c odd more b d end";

#[test]
fn a_flow_whose_parts_are_killed_at_any_step_runs_each_group_once() {
    for seed in super::noodles_beside::seeds(KILLED, (1, 1)) {
        killed_at_random(seed);
    }
}

fn killed_at_random(seed: u64) {
    let mut random = Random::new(seed);
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let folder = folder(&home, SPEC);
    let order = || read(&folder, "order").replace('\n', " ");
    let mut deaths = 0;
    let mut told = String::new();
    loop {
        let step = random.between(1, STEPS);
        let words = match flow(&home) {
            Some(flow) => vec!["noodles".to_owned(), "--resume".to_owned(), flow],
            None => ["noodles", "run", "spec.yml"].map(str::to_owned).to_vec(),
        };
        let mut command = if deaths < DEATHS {
            let mut command = home.in_environment("strace");
            command.args(tracer::dies_before(CALLS, step));
            command.arg(home.neroman()).args(&words);
            command
        } else {
            home.command(&words)
        };
        command.stderr(std::process::Stdio::piped());
        let mut life = command.current_dir(&folder).spawn().unwrap();
        if random.percent(30) {
            // A group has just run, or runs.
            let before = order();
            until("a group, or the end of its flow", || {
                let is_over = life.try_wait().unwrap().is_some();
                (is_over || order() != before).then_some(()).ok_or(order())
            });
            kill_some(&home, &mut random);
        }
        let (code, err) = ended(life);
        told.push_str(&format!(
            "seed {seed}, death {deaths} at {step}: {code:?}\n{err}"
        ));
        match code {
            Some(0) => break,
            None => deaths += 1,
            Some(_) => panic!("{told}\n{}", home.logs()),
        }
        if random.percent(20) {
            kill_some(&home, &mut random);
        }
    }
    assert_eq!(order().trim(), ORDER, "{told}");
    let lines: Vec<String> = (1..30).map(|line| format!("{line}\n")).collect();
    assert_eq!(read(&folder, "out"), lines.concat(), "{told}");
    let status = read(&folder, "status");
    assert!(status.contains("Undeployed experiments: []\n"), "{status}");
    let groups = ORDER.split(' ').count();
    let seen = home.experiment_json(1);
    assert_eq!(seen["run"], format!("1.{groups}"), "{seen:#}\n{told}");
}

/// The flow that has begun.
fn flow(home: &Home) -> Option<String> {
    let flows = fs::read_dir(home.base().join("data/flows")).ok()?.flatten();
    // What it is written in is there before its first group.
    let has_begun = |path: &Path| {
        let text = fs::read_to_string(path.join("flow.json")).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok()
    };
    let mut begun = flows.filter(|flow| has_begun(&flow.path()));
    begun.next()?.file_name().into_string().ok()
}

fn kill_some(home: &Home, random: &mut Random) {
    let choices = [
        (2, &[Part::Daemon][..]),
        (2, &[Part::Mum]),
        (1, &[Part::Daemon, Part::Mum]),
        (1, &[Part::Daemon, Part::Mum, Part::Watcher]),
    ];
    home.kill_all(random.weighted(&choices));
}

fn ended(life: Child) -> (Option<i32>, String) {
    let ran = life.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ran.stderr).into_owned();
    (ran.status.code(), err)
}
