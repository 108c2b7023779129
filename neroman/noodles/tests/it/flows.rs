//! Flows take the course that they take with the original.

use nero_noodles::{
    CommandsEnd, Flow, FlowResult, FlowStep, Interval, Metric, NoodlesSpec, STAGES, read,
};
use serde_json::{Value, json};

use crate::generate::Chance;
use crate::oracle::Oracle;

/// Rounds of a stage after which both are stopped.
const ROUNDS: usize = 9;
/// From this round on everything is satisfied and succeeds.
const CALM: usize = 6;

#[test]
fn flows_take_the_course_that_they_take_there() {
    let mut oracle = Oracle::start();
    let (mut finished, mut deployments) = (0, 0);
    for seed in 0..300 {
        let text = flow_spec(seed);
        // A third of the flows may be aborted.
        let third = if seed % 3 == 0 { "abort" } else { "success" };
        let theirs = oracle.ask(&json!({
            "ask": "flow", "text": text, "seed": seed, "rounds": ROUNDS, "calm": CALM, "third": third,
        }));
        let theirs = theirs
            .get("is")
            .unwrap_or_else(|| panic!("seed {seed}:\n{text}\n{theirs}"));
        let spec = read(&text, "run", None).expect("the spec is read");
        let (events, end) = driven(&spec, seed, third);
        let told = format!("seed {seed}:\n{text}\n{end:?}");
        let theirs_events = theirs["events"].as_array().expect("a list").clone();
        assert_eq!(trimmed(events.clone()), trimmed(theirs_events), "{told}");
        let theirs_finished = !theirs["finished"].as_array().expect("a list").is_empty();
        assert_eq!(end == FlowStep::Finished, theirs_finished, "{told}");
        finished += u64::from(theirs_finished);
        deployments += events.len();
    }
    assert!(
        finished > 50 && deployments > 1000,
        "{finished}, {deployments}"
    );
}

/// Pauses at the end mean nothing: the original goes on for ever where nothing can be done.
fn trimmed(mut events: Vec<Value>) -> Vec<Value> {
    while events.last().is_some_and(|last| last[0] == "sleep") {
        events.pop();
    }
    events
}

/// What happens here, and the last step.
fn driven(spec: &NoodlesSpec, seed: u64, third: &str) -> (Vec<Value>, FlowStep) {
    let mut flow = Flow::new(spec);
    let mut events = Vec::new();
    loop {
        // A flow that is stored and read again between any two effects goes on as before.
        flow = flow.clone();
        let step = flow.step();
        let (stage, round) = (flow.stage(), flow.round());
        let experiment = |at: usize| &spec.stages[stage][at];
        let roll = |what: &str, server: usize, most: u64| {
            let server = &spec.servers[server].name;
            fnv(&format!("{seed}/{stage}/{round}/{what}/{server}")) % most
        };
        let result = match &step {
            // There the stage begins with its first round.
            FlowStep::Begin { .. } => FlowResult::Begun,
            FlowStep::Wait { interval, .. } if *interval == Interval::Round && round >= ROUNDS => {
                return (events, step);
            }
            FlowStep::Wait { seconds, .. } => {
                events.push(json!(["sleep", seconds]));
                FlowResult::Waited
            }
            _ if round >= ROUNDS => return (events, step),
            FlowStep::Probe {
                experiment: at,
                requirement,
                servers,
            } => {
                let id = &experiment(*at).requirements[*requirement].id;
                let result = |server: usize| {
                    if round < CALM {
                        roll(&format!("probe {id}"), server, 3) as f64
                    } else {
                        1.0
                    }
                };
                let results = servers.iter();
                FlowResult::Probed(
                    results
                        .map(|at| (*at, Metric::Number(result(*at))))
                        .collect(),
                )
            }
            FlowStep::Deploy {
                experiment: at,
                server,
            } => {
                let name = &experiment(*at).name;
                let number = if round < CALM {
                    roll(name, *server, 9)
                } else {
                    9
                };
                let outcome = match number {
                    0 | 1 => CommandsEnd::Retry,
                    2 => CommandsEnd::Continue,
                    3 if third == "abort" => CommandsEnd::Abort,
                    _ => CommandsEnd::Success,
                };
                let word = format!("{outcome:?}").to_lowercase();
                let server = &spec.servers[*server].name;
                events.push(json!(["deploy", stage, round, name, server, word]));
                FlowResult::Deployed(outcome)
            }
            FlowStep::Finished | FlowStep::Aborted | FlowStep::Stuck => return (events, step),
        };
        flow.done(result).expect("the result is that of the step");
    }
}

fn flow_spec(seed: u64) -> String {
    let mut chance = Chance::new(seed + 1000);
    let mut text = String::from("requirements: {p: probe p, q: probe q}\n");
    text.push_str(&format!("round_interval: {}\n", chance.of(&[0, 3])));
    text.push_str(&format!("deployment_interval: {}\n", chance.of(&[0, 2])));
    let servers = if chance.one_in(12) {
        0
    } else {
        1 + chance.below(3)
    };
    let servers: Vec<String> = (0..servers).map(|at| format!("{{name: s{at}}}")).collect();
    text.push_str(&format!("servers: [{}]\n", servers.join(", ")));
    for (stage, key) in STAGES.iter().enumerate() {
        let count = chance.below(if stage == 1 { 8 } else { 3 });
        text.push_str(&format!("{key}:{}\n", if count == 0 { " []" } else { "" }));
        for at in 0..count {
            // Names may be shared; the dependencies of the other stages are the original's defect.
            let name = if chance.one_in(8) { 0 } else { at };
            text.push_str(&format!("- name: e{name}\n"));
            if !chance.one_in(6) {
                text.push_str("  commands: {run: 'true'}\n");
            }
            if stage == 1 && chance.one_in(2) {
                let near = if chance.one_in(10) { 8 } else { at.max(1) };
                let needs: Vec<String> = (0..=chance.below(2))
                    .map(|_| format!("e{}", chance.below(near)))
                    .collect();
                text.push_str(&format!("  depends_on: {{run: [{}]}}\n", needs.join(", ")));
            }
            if chance.one_in(2) {
                let one = |chance: &mut Chance| {
                    format!(
                        "{{{}: '{}'}}",
                        chance.of(&["p", "q"]),
                        chance.of(&["==1", "<2", "!=0"])
                    )
                };
                let all: Vec<String> = (0..=chance.below(2)).map(|_| one(&mut chance)).collect();
                text.push_str(&format!("  requirements: {{run: [{}]}}\n", all.join(", ")));
            }
        }
    }
    text
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |value, byte| {
        (value ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn a_result_of_another_effect_is_refused() {
    let text = "servers: [{name: s}]\nexperiments: [{name: a, commands: {run: 'true'}}]";
    let spec = read(text, "run", None).expect("the spec is read");
    let mut flow = Flow::new(&spec);
    let refused = flow.done(FlowResult::Waited).expect_err("nothing waits");
    assert_eq!(
        refused.to_string(),
        "Waited is no result of Begin { stage: 0 }"
    );
    assert_eq!(flow.step(), FlowStep::Begin { stage: 0 });
}

#[test]
fn a_static_probe_is_asked_once_for_each_server_and_round() {
    let text = "
servers: [{name: s}, {name: t}]
requirements: {p: probe}
commands_interval: 1
experiments:
- {name: a, commands: {run: x}, requirements: {run: [{'static:p': ==1}]}}
- {name: b, commands: {run: x}, requirements: {run: [{'static:p': ==1}, {'p': '!=5'}]}}
";
    let spec = read(text, "run", None).expect("the spec is read");
    let mut flow = Flow::new(&spec);
    let mut told = Vec::new();
    for _ in 0..100 {
        let result = match flow.step() {
            FlowStep::Begin { .. } => FlowResult::Begun,
            FlowStep::Wait { interval, .. } => {
                told.push(format!("{interval:?}"));
                FlowResult::Waited
            }
            FlowStep::Probe {
                experiment,
                servers,
                ..
            } => {
                told.push(format!("probe for {experiment} on {servers:?}"));
                FlowResult::Probed(
                    servers
                        .into_iter()
                        .map(|at| (at, Metric::Number(1.0)))
                        .collect(),
                )
            }
            FlowStep::Deploy { experiment, server } => {
                told.push(format!("deploy {experiment} on {server}"));
                FlowResult::Deployed(CommandsEnd::Success)
            }
            FlowStep::Finished => break,
            other => panic!("{other:?}"),
        };
        flow.done(result).expect("the result is that of the step");
    }
    let expected = [
        "Commands",
        "probe for 0 on [0, 1]",
        "Commands",
        "deploy 0 on 0",
        "Commands",
        "probe for 1 on [1]",
        "Commands",
        "deploy 1 on 1",
    ];
    assert_eq!(told, expected);
}
