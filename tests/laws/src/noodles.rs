//! Specs of Training Noodles: read, or all mistakes; a flow of any results stays within its spec.

use nero_format::python::{literal, resolve};
use nero_noodles::{
    CommandsEnd, Flow, FlowResult, FlowStep, FullPattern, Metric, NoodlesSpec, check, course,
    read, target,
};

use crate::Choices;

pub fn law(bytes: &[u8]) {
    let (text, choices) = crate::parts(bytes);
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().unwrap_or_default();
    let _ = (
        literal(line),
        resolve(line),
        target(line),
        Metric::read(line),
    );
    if let Ok(pattern) = FullPattern::new(line) {
        let _ = pattern.matches(&text);
    }
    let Ok(spec) = read(&text, "run", None) else {
        return;
    };
    let _ = (check(&spec, "run"), course(&spec));
    drive(&spec, &mut Choices(choices));
}

fn drive(spec: &NoodlesSpec, choices: &mut Choices<'_>) {
    let mut flow = Flow::new(spec);
    for _ in 0..50 {
        let experiments = &spec.stages[flow.stage()];
        let result = match flow.step() {
            FlowStep::Begin { .. } => FlowResult::Begun,
            FlowStep::Wait { seconds, .. } => {
                assert!(seconds > 0.0, "it waits for {seconds} s");
                FlowResult::Waited
            }
            FlowStep::Probe { servers, .. } => {
                let metric =
                    |server| (server, Metric::read(["1", "", "x\n", "nan"][choices.below(4)]));
                FlowResult::Probed(servers.into_iter().map(metric).collect())
            }
            FlowStep::Deploy { experiment, server } => {
                assert!(experiment < experiments.len() && server < spec.servers.len());
                let ends = [CommandsEnd::Success, CommandsEnd::Retry, CommandsEnd::Abort];
                FlowResult::Deployed(ends[choices.below(3)])
            }
            FlowStep::Finished | FlowStep::Aborted | FlowStep::Stuck => return,
        };
        flow.done(result).expect("the result is that of the step");
    }
}
