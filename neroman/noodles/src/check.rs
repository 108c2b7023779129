//! What a person should know before a flow is started: what can never be, what is probably meant
//! otherwise, and in which order experiments are deployed.

use std::collections::{BTreeSet, HashMap};

use nero_format::python::Literal;
use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::Mark;

use crate::builtin;
use crate::difference::INTENDED;
use crate::flow::{CommandsEnd, Flow, FlowResult, FlowStep};
use crate::handler::{Action, ReturnCode};
use crate::metric::{Comparison, Metric, Operator};
use crate::spec::{Experiment, MAIN_STAGE, NoodlesSpec, STAGES};

/// Unknown names for which the nearest one is looked for.
const SUGGESTED_MAX: usize = 20;

/// Something about a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// Where; nowhere for what the file lacks.
    pub mark: Option<Mark>,
    /// What.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The flow can never finish.
    Never,
    /// It is probably not what is meant.
    Warning,
    /// The original does something else.
    Differs,
}

/// Looks for everything that a person should know, the gravest first.
pub fn check(spec: &NoodlesSpec, command_type: &str) -> Vec<Diagnostic> {
    let mut findings = Findings(Vec::new());
    findings.types(spec, command_type);
    findings.filter(spec);
    findings.servers(spec);
    for stage in 0..STAGES.len() {
        findings.dependencies(spec, stage);
    }
    findings.probes(spec);
    findings.handlers(spec);
    findings.outputs(spec);
    findings.keys(spec);
    findings.departures(spec);
    let mut found = findings.0;
    found.sort_by_key(|finding| (finding.severity, finding.mark));
    found.dedup();
    found
}

/// Deployments in their order, if every server satisfies every requirement and nothing fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Stage, round from one, experiment, and the server unless the experiment is empty.
    pub deployments: Vec<(usize, usize, usize, Option<usize>)>,
    /// Whether everything is deployed.
    pub complete: bool,
}

/// The order of deployments.
pub fn course(spec: &NoodlesSpec) -> Course {
    let mut flow = Flow::new(spec);
    let mut deployments = Vec::new();
    for (stage, experiments) in spec.stages.iter().enumerate() {
        for (at, experiment) in experiments.iter().enumerate() {
            if experiment.commands.is_empty() {
                deployments.push((stage, 1, at, None));
            }
        }
    }
    let complete = loop {
        let result = match flow.step() {
            FlowStep::Begin { .. } => FlowResult::Begun,
            FlowStep::Wait { .. } => FlowResult::Waited,
            FlowStep::Probe {
                experiment,
                requirement,
                servers,
            } => {
                let asked = &spec.stages[flow.stage()][experiment].requirements[requirement];
                let Some(metric) = fitting(&asked.comparison) else {
                    break false;
                };
                FlowResult::Probed(servers.into_iter().map(|at| (at, metric.clone())).collect())
            }
            FlowStep::Deploy { experiment, server } => {
                let round = flow.round() + 1;
                deployments.push((flow.stage(), round, experiment, Some(server)));
                FlowResult::Deployed(CommandsEnd::Success)
            }
            FlowStep::Finished => break true,
            FlowStep::Aborted | FlowStep::Stuck => break false,
        };
        flow.done(result).expect("the result is that of the step");
    };
    deployments.sort_by_key(|(stage, round, ..)| (*stage, *round));
    Course {
        deployments,
        complete,
    }
}

/// A metric that satisfies a comparison; `None` where nothing does, as with `<[1]`.
fn fitting(comparison: &Comparison) -> Option<Metric> {
    let tried = match comparison.value.number() {
        Some(number) => vec![number, number - 1.0, number + 1.0, f64::MIN, f64::MAX],
        None => Vec::new(),
    };
    let mut tried: Vec<Metric> = tried.into_iter().map(Metric::Number).collect();
    if let Literal::Text(text) = &comparison.value {
        tried.push(Metric::Text(text.clone()));
        tried.push(Metric::Text(format!("{text} ")));
        tried.push(Metric::Text(String::new()));
    }
    tried.push(Metric::Null);
    let fits = |metric: &Metric| comparison.compare(metric) == crate::Satisfaction::Satisfied;
    tried.into_iter().find(fits)
}

struct Findings(Vec<Diagnostic>);

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        mark: impl Into<Option<Mark>>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.0.push(Diagnostic {
            severity,
            mark: mark.into(),
            message: message.into(),
            hint: hint.into(),
        });
    }

    fn types(&mut self, spec: &NoodlesSpec, command_type: &str) {
        let types = &spec.remarks.types;
        if types.iter().any(|known| known == command_type) {
            return;
        }
        let message = format!(
            "no experiment has commands for {}: all count as deployed",
            quoted(command_type)
        );
        self.add(Severity::Warning, None, message, meant(command_type, types));
    }

    fn filter(&mut self, spec: &NoodlesSpec) {
        for (name, near) in &spec.remarks.unknown_names {
            let message = format!("no experiment is called {}", quoted(name));
            let hint = match near {
                Some(near) if near == name.trim() => {
                    "names are separated by commas alone, without blanks".to_owned()
                }
                Some(near) => format!("did you mean {}?", quoted(near)),
                None => String::new(),
            };
            self.add(Severity::Warning, None, message, hint);
        }
    }

    fn servers(&mut self, spec: &NoodlesSpec) {
        let needed = spec.stages.iter().flatten();
        let needed = needed
            .filter(|experiment| !experiment.commands.is_empty())
            .count();
        if spec.servers.is_empty() && needed > 0 {
            let hint = "write `servers: [{name: here}]` for this machine";
            self.add(Severity::Never, None, "the spec has no servers", hint);
        }
    }

    fn dependencies(&mut self, spec: &NoodlesSpec, stage: usize) {
        let experiments = &spec.stages[stage];
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, experiment) in experiments.iter().enumerate() {
            let same = named.entry(&experiment.name).or_default();
            same.push(at);
            if same.len() == 2 {
                let message = format!(
                    "several experiments are called {}",
                    quoted(&experiment.name)
                );
                let hint = "what depends on the name waits for all of them";
                self.add(Severity::Warning, experiment.mark, message, hint);
            }
        }
        let mut suggested = 0;
        for experiment in experiments {
            for needed in &experiment.depends_on {
                if named.contains_key(needed.name.as_str()) {
                    continue;
                }
                let left_out = stage == MAIN_STAGE && spec.remarks.left_out.contains(&needed.name);
                let (message, hint) = if left_out {
                    (
                        format!(
                            "{} is left out, and counts as deployed",
                            quoted(&needed.name)
                        ),
                        String::new(),
                    )
                } else {
                    (
                        format!(
                            "there is no experiment {} in `{}`: it counts as deployed",
                            quoted(&needed.name),
                            STAGES[stage]
                        ),
                        // A comparison with all names of a large spec takes its time.
                        if suggested < SUGGESTED_MAX {
                            meant(&needed.name, named.keys())
                        } else {
                            String::new()
                        },
                    )
                };
                suggested += 1;
                self.add(Severity::Warning, needed.mark, message, hint);
            }
        }
        self.cycles(experiments, &named);
    }

    /// Finds experiments that need each other, and those that need these.
    fn cycles(&mut self, experiments: &[Experiment], named: &HashMap<&str, Vec<usize>>) {
        let needs = |at: usize| {
            let names = experiments[at].depends_on.iter();
            let indices = names.filter_map(|one| named.get(one.name.as_str()));
            indices.flatten().copied().collect::<BTreeSet<usize>>()
        };
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); experiments.len()];
        let mut missing: Vec<usize> = Vec::with_capacity(experiments.len());
        for at in 0..experiments.len() {
            let needs = needs(at);
            for needed in &needs {
                needed_by[*needed].push(at);
            }
            missing.push(needs.len());
        }
        let free = (0..experiments.len()).filter(|at| missing[*at] == 0);
        let mut free: Vec<usize> = free.collect();
        let mut stuck: BTreeSet<usize> = (0..experiments.len()).collect();
        while let Some(at) = free.pop() {
            stuck.remove(&at);
            for needing in &needed_by[at] {
                missing[*needing] -= 1;
                if missing[*needing] == 0 {
                    free.push(*needing);
                }
            }
        }
        // From any of them the way of first needs ends in a circle.
        let name = |at: usize| quoted(&experiments[at].name);
        let needed = |at: usize| {
            let needed = needs(at).into_iter().find(|at| stuck.contains(at));
            needed.expect("what is stuck needs something that is")
        };
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut circled: BTreeSet<usize> = BTreeSet::new();
        for start in stuck.iter().copied() {
            let mut way = Vec::new();
            let mut next = start;
            while seen.insert(next) {
                way.push(next);
                next = needed(next);
            }
            if let Some(begin) = way.iter().position(|at| *at == next) {
                let circle = &way[begin..];
                circled.extend(circle);
                let first = *circle.iter().min().expect("a circle has members");
                let chain: Vec<String> = circle.iter().map(|at| name(*at)).collect();
                let message = match circle.len() {
                    1 => format!("{} needs itself", chain[0]),
                    _ => format!(
                        "experiments need each other: {} needs {}",
                        chain.join(" needs "),
                        chain[0]
                    ),
                };
                self.add(Severity::Never, experiments[first].mark, message, "");
            }
        }
        for at in stuck.difference(&circled).copied() {
            let message = format!("{} is never deployed", name(at));
            let hint = format!("it needs {}", name(needed(at)));
            self.add(Severity::Never, experiments[at].mark, message, hint);
        }
    }

    fn probes(&mut self, spec: &NoodlesSpec) {
        for experiment in spec.stages.iter().flatten() {
            for requirement in &experiment.requirements {
                if !spec.probes.contains_key(&requirement.id) {
                    let message = format!("there is no requirement {}", quoted(&requirement.id));
                    let known = builtin::PROBES.iter().map(|(id, _)| (*id).to_owned());
                    let known: Vec<String> = known.chain(spec.remarks.probes.clone()).collect();
                    let hint = meant(&requirement.id, &known);
                    self.add(Severity::Never, requirement.mark, message, hint);
                }
                let comparison = &requirement.comparison;
                let ordered = !matches!(comparison.operator, Operator::Equal | Operator::Unequal);
                if (ordered || comparison.operator == Operator::Equal)
                    && fitting(comparison).is_none()
                {
                    let message =
                        format!("no result satisfies {}", quoted(&requirement.expression));
                    self.add(Severity::Never, requirement.mark, message, "");
                }
            }
        }
    }

    fn handlers(&mut self, spec: &NoodlesSpec) {
        for handler in &spec.error_handlers {
            if matches!(handler.return_code, ReturnCode::Never) {
                let message = "an error handler without `return_code` is for no error";
                let hint = "`return_code: '.*'` is for all";
                self.add(Severity::Warning, handler.mark, message, hint);
            }
            if let Action::Unknown(action) = &handler.action {
                let message = format!("{} is no action: the flow ends", quoted(action));
                let hint = meant(action, ["abort", "retry", "continue"]);
                self.add(Severity::Warning, handler.mark, message, hint);
            }
        }
    }

    fn outputs(&mut self, spec: &NoodlesSpec) {
        let mut paths = BTreeSet::new();
        for experiment in spec.stages.iter().flatten() {
            for path in [&experiment.stdout_to, &experiment.stderr_to]
                .into_iter()
                .flatten()
            {
                // A variable may make it another path each time.
                if !path.contains('$') && !paths.insert(path) {
                    let message = format!("{} is written to twice", quoted(path));
                    let hint = "the later one replaces what the earlier one wrote";
                    self.add(Severity::Warning, experiment.mark, message, hint);
                }
            }
        }
    }

    fn keys(&mut self, spec: &NoodlesSpec) {
        for unknown in &spec.remarks.unknown_keys {
            let message = format!("the key {} means nothing", quoted(&unknown.key));
            let near = unknown.near.map(|near| format!("did you mean `{near}`?"));
            let hint = near.unwrap_or_default();
            self.add(Severity::Warning, unknown.mark, message, hint);
        }
    }

    fn departures(&mut self, spec: &NoodlesSpec) {
        for departure in &spec.remarks.departures {
            let row = INTENDED
                .iter()
                .find(|row| row.difference == departure.difference);
            let row = row.expect("each difference has a row");
            let message = format!("{}: {} there, here {}", row.case, row.original, row.here);
            self.add(Severity::Differs, departure.mark, message, "");
        }
    }
}

fn meant<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> String {
    let near = suggest(word, known);
    near.map_or_else(String::new, |near| {
        format!("did you mean {}?", quoted(near.as_ref()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn found(text: &str, severity: Severity) -> Vec<String> {
        let spec = read(text, "run", None).expect("the spec is read");
        let findings = check(&spec, "run").into_iter();
        let fitting = findings.filter(|finding| finding.severity == severity);
        fitting
            .map(|finding| {
                format!("{} {}", finding.message, finding.hint)
                    .trim()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn the_check_names_each_reason_why_an_experiment_is_never_deployed() {
        let text = "
servers: [{name: s}]
experiments:
- {name: a, commands: {run: 'true'}, depends_on: {run: b}}
- {name: b, commands: {run: 'true'}, depends_on: {run: [a]}}
- {name: c, commands: {run: 'true'}, depends_on: {run: [b]}}
- {name: d, commands: {run: 'true'}, depends_on: {run: d}}
- {name: e, commands: {run: 'true'}, requirements: {run: [{cpu_lod: <1}, {cpu_load: '<[1]'}]}}
";
        assert_eq!(
            found(text, Severity::Never),
            [
                "experiments need each other: `a` needs `b` needs `a`",
                "`c` is never deployed it needs `b`",
                "`d` needs itself",
                "there is no requirement `cpu_lod` did you mean `cpu_load`?",
                "no result satisfies `<[1]`",
            ]
        );
        let none = "experiments: [{name: a, commands: {run: 'true'}}]";
        let told = found(none, Severity::Never);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("the spec has no servers"));
    }

    #[test]
    fn the_check_warns_of_keys_names_and_actions_that_look_mistyped() {
        let text = "
servers: [{name: s, user: me}]
error_handlers: [{stderr_pattern: '.*', action: retyr}]
experiments:
- {name: init, comands: {run: 'true'}, commands: {run: 'true'}, write_outputs: {run: {stdout_to: log}}}
- {name: b, commands: {run: 'true'}, depends_on: {run: int}, write_outputs: {run: {stdout_to: log}}}
";
        let told = found(text, Severity::Warning).join("\n");
        for part in [
            "the key `user` means nothing did you mean `username`?",
            "without `return_code` is for no error",
            "`retyr` is no action: the flow ends did you mean `retry`?",
            "the key `comands` means nothing did you mean `commands`?",
            "`log` is written to twice",
            "there is no experiment `int` in `experiments`: it counts as deployed did you mean `init`?",
        ] {
            assert!(told.contains(part), "{part:?} is not in\n{told}");
        }
    }

    #[test]
    fn the_course_of_a_flow_is_that_of_its_rounds() {
        let text = "
servers: [{name: s}, {name: t}]
before_all_experiments: [{name: p, commands: {run: 'true'}}]
experiments:
- {name: a, commands: {run: 'true'}}
- {name: b, commands: {run: 'true'}, depends_on: {run: a}, requirements: {run: [{cpu_load: <0}]}}
- {name: c, commands: {run: 'true'}}
- {name: e}
";
        let spec = read(text, "run", None).expect("the spec is read");
        let course = course(&spec);
        assert!(course.complete);
        let deployments = [
            (0, 1, 0, Some(0)),
            (1, 1, 3, None),
            (1, 1, 0, Some(0)),
            (1, 1, 1, Some(1)),
            (1, 2, 2, Some(0)),
        ];
        assert_eq!(course.deployments, deployments);
    }
}
