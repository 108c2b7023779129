//! The course of a flow: stages, rounds, which experiment goes to which server.
//!
//! A state machine without clock and effects: [`Flow::step`] names the next effect, the same one
//! until its result is handed in. So a caller that stores the state before each effect asks for
//! none twice. Every rule is the original's ([`Difference::StageDependencies`] apart); the only
//! freedom that is taken: a probe is asked of the servers that satisfy the requirements before it,
//! and of all of them at once.
//!
//! [`Difference::StageDependencies`]: crate::Difference::StageDependencies

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::metric::{Metric, Satisfaction};
use crate::spec::{Experiment, Freshness, MAIN_STAGE, NoodlesSpec, Requirement, STAGES};

/// The next effect.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowStep {
    /// A stage begins: tell it, and write the status file in the main stage.
    Begin {
        /// Its index in [`STAGES`].
        stage: usize,
    },
    /// Let time pass.
    Wait {
        /// Why.
        interval: Interval,
        /// How long.
        seconds: f64,
    },
    /// Ask a probe.
    Probe {
        /// The index of the experiment in its stage.
        experiment: usize,
        /// The index of its requirement.
        requirement: usize,
        /// Indices of servers.
        servers: Vec<usize>,
    },
    /// Run the experiment's commands.
    Deploy {
        /// The index of the experiment in its stage.
        experiment: usize,
        /// The index of the server.
        server: usize,
    },
    /// All stages have ended.
    Finished,
    /// An error handler, or none, ended the flow.
    Aborted,
    /// Nothing can ever be deployed any more: there are no servers, or experiments need each other.
    /// The original goes on for ever.
    Stuck,
}

/// Why time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Before every round of a stage but the first.
    Round,
    /// Before a deployment, if something was deployed earlier in its round.
    Deployment,
    /// Before each batch of commands.
    Commands,
}

/// How the commands of an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandsEnd {
    /// Without an error.
    Success,
    /// With an error that is passed over: deployed all the same.
    Continue,
    /// With an error after which the next round tries again.
    Retry,
    /// With an error that ends the flow.
    Abort,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowResult {
    /// The stage has begun.
    Begun,
    /// The time has passed.
    Waited,
    /// What a probe found, for each server that was asked.
    Probed(Vec<(usize, Metric)>),
    /// How the commands ended.
    Deployed(CommandsEnd),
}

/// A result that does not belong to the effect that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultMismatch {
    /// The effect.
    pub step: FlowStep,
    /// The result.
    pub result: FlowResult,
}

impl fmt::Display for ResultMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no result of {:?}", self.result, self.step)
    }
}

impl std::error::Error for ResultMismatch {}

/// Why an experiment waits for the next round.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitReason {
    /// Experiments that it needs are not deployed yet: their indices.
    Needs(Vec<usize>),
    /// No server satisfies its requirements. Of each that was asked: the requirement that it does
    /// not satisfy, and the result.
    Unsatisfied(Vec<(usize, usize, Metric, Satisfaction)>),
    /// Its last try ended so that it is tried again.
    Retried,
}

/// What happened between two effects, for the log. Experiments and servers are indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowNote {
    /// A round begins, with these undeployed.
    Round(usize, Vec<usize>),
    /// The round is over.
    RoundEnd,
    /// It is the turn of an experiment.
    Try(usize),
    /// It has no commands.
    Empty(usize),
    /// It needs these.
    Needs(usize, Vec<usize>),
    /// Servers are looked for.
    Search,
    /// These servers satisfy all its requirements.
    Satisfied(Vec<usize>),
    /// All servers are taken.
    NoServers,
}

/// The course of a flow.
#[derive(Debug, Clone)]
pub struct Flow {
    plan: FlowPlan,
    state: FlowState,
    /// With the stage of each.
    notes: Vec<(usize, FlowNote)>,
}

/// What the course depends on; never changes.
#[derive(Debug, Clone)]
struct FlowPlan {
    stages: [Vec<ExperimentPlan>; 3],
    servers: usize,
    round_interval: f64,
    deployment_interval: f64,
    commands_interval: f64,
}

#[derive(Debug, Clone)]
struct ExperimentPlan {
    empty: bool,
    /// Indices in the same stage.
    depends_on: Vec<usize>,
    requirements: Vec<Requirement>,
}

/// Where the flow stands.
#[derive(Debug, Clone, PartialEq)]
struct FlowState {
    stage: usize,
    /// From zero.
    round: usize,
    undeployed: BTreeSet<usize>,
    blocked: BTreeMap<usize, WaitReason>,
    successes: [usize; 3],
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// The stage was not begun.
    Before,
    /// The pause before a round.
    RoundPause,
    /// In a round.
    Round(Round),
    Finished,
    Aborted,
    Stuck,
}

#[derive(Debug, Clone, PartialEq)]
struct Round {
    /// Whether anything was asked or run.
    acted: bool,
    /// The turn is that of the first undeployed experiment from here on.
    next: usize,
    deployed: BTreeSet<usize>,
    used: BTreeSet<usize>,
    /// Results of `static:` probes of this round.
    static_results: StaticResults,
    turn: FlowTurn,
}

#[derive(Debug, Clone, PartialEq)]
enum FlowTurn {
    /// Nothing was looked at.
    New,
    /// Requirements up to this one are done.
    Probing {
        requirement: usize,
        satisfied: BTreeSet<usize>,
        unsatisfied: Vec<(usize, usize, Metric, Satisfaction)>,
        paused: bool,
    },
    /// A server is chosen.
    Placing {
        server: usize,
        deployment_paused: bool,
        commands_paused: bool,
    },
}

impl Flow {
    /// The start of a spec's flow.
    pub fn new(spec: &NoodlesSpec) -> Self {
        let planned = |stage: &Vec<Experiment>| {
            let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
            for (at, experiment) in stage.iter().enumerate() {
                named.entry(&experiment.name).or_default().push(at);
            }
            let depends_on = |experiment: &Experiment| {
                let names = experiment.depends_on.iter();
                let indices = names.filter_map(|one| named.get(one.name.as_str()));
                let indices: BTreeSet<usize> = indices.flatten().copied().collect();
                indices.into_iter().collect()
            };
            let one = |experiment: &Experiment| ExperimentPlan {
                empty: experiment.commands.is_empty(),
                depends_on: depends_on(experiment),
                requirements: experiment.requirements.clone(),
            };
            stage.iter().map(one).collect()
        };
        let plan = FlowPlan {
            stages: spec.stages.each_ref().map(planned),
            servers: spec.servers.len(),
            round_interval: spec.round_interval,
            deployment_interval: spec.deployment_interval,
            commands_interval: spec.commands_interval,
        };
        let mut flow = Self {
            state: FlowState {
                stage: 0,
                round: 0,
                undeployed: BTreeSet::new(),
                blocked: BTreeMap::new(),
                successes: [0; 3],
                phase: Phase::Before,
            },
            plan,
            notes: Vec::new(),
        };
        flow.open_stage(0);
        flow
    }

    /// The index of the stage in [`STAGES`].
    pub fn stage(&self) -> usize {
        self.state.stage
    }

    /// The round of the stage, from zero.
    pub fn round(&self) -> usize {
        self.state.round
    }

    /// Experiments of the stage that are not deployed yet, as of now.
    pub fn undeployed(&self) -> Vec<usize> {
        let now = match &self.state.phase {
            Phase::Round(round) => Some(&round.deployed),
            _ => None,
        };
        let undeployed = self.state.undeployed.iter().copied();
        let left = undeployed.filter(|at| now.is_none_or(|deployed| !deployed.contains(at)));
        left.collect()
    }

    /// Why experiments of the stage wait, as of their last turn. Others have had no turn yet: all
    /// servers were taken.
    pub fn blocked(&self) -> &BTreeMap<usize, WaitReason> {
        &self.state.blocked
    }

    /// Experiments of the main stage that were deployed, and how many there are.
    pub fn deployed(&self) -> (usize, usize) {
        let all = self.plan.stages[MAIN_STAGE].len();
        (self.state.successes[MAIN_STAGE], all)
    }

    /// What happened since the last time, each with the index of its stage.
    pub fn take_notes(&mut self) -> Vec<(usize, FlowNote)> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, note: FlowNote) {
        self.notes.push((self.state.stage, note));
    }

    fn note_round(&mut self) {
        let undeployed = self.state.undeployed.iter().copied().collect();
        self.note(FlowNote::Round(self.state.round, undeployed));
    }

    /// The next effect; the same one until its result is handed in.
    pub fn step(&self) -> FlowStep {
        let commands_wait = |paused: bool| {
            let seconds = self.plan.commands_interval;
            let interval = Interval::Commands;
            (!paused && seconds > 0.0).then_some(FlowStep::Wait { interval, seconds })
        };
        match &self.state.phase {
            Phase::Before => FlowStep::Begin {
                stage: self.state.stage,
            },
            Phase::RoundPause => FlowStep::Wait {
                interval: Interval::Round,
                seconds: self.plan.round_interval,
            },
            Phase::Finished => FlowStep::Finished,
            Phase::Aborted => FlowStep::Aborted,
            Phase::Stuck => FlowStep::Stuck,
            Phase::Round(round) => {
                let experiment = self.at_turn(round).expect("`settle` ends a round in time");
                match &round.turn {
                    FlowTurn::New => unreachable!("`settle` goes on from here"),
                    FlowTurn::Probing {
                        requirement,
                        satisfied,
                        paused,
                        ..
                    } => commands_wait(*paused).unwrap_or_else(|| FlowStep::Probe {
                        experiment,
                        requirement: *requirement,
                        servers: to_ask(
                            &self.plan.stages[self.state.stage][experiment].requirements
                                [*requirement],
                            &round.static_results,
                            satisfied,
                        ),
                    }),
                    FlowTurn::Placing {
                        deployment_paused: false,
                        ..
                    } => FlowStep::Wait {
                        interval: Interval::Deployment,
                        seconds: self.plan.deployment_interval,
                    },
                    FlowTurn::Placing {
                        server,
                        commands_paused,
                        ..
                    } => commands_wait(*commands_paused).unwrap_or(FlowStep::Deploy {
                        experiment,
                        server: *server,
                    }),
                }
            }
        }
    }

    /// Hands in the result of the effect.
    ///
    /// # Errors
    /// It belongs to another effect; nothing has changed.
    pub fn done(&mut self, result: FlowResult) -> Result<(), ResultMismatch> {
        let step = self.step();
        match (&step, result) {
            (FlowStep::Begin { .. }, FlowResult::Begun) => {
                if !self.state.undeployed.is_empty() {
                    self.note_round();
                }
                self.begin_round();
            }
            (FlowStep::Wait { interval, .. }, FlowResult::Waited) => self.waited(*interval),
            (
                FlowStep::Probe {
                    requirement,
                    servers,
                    ..
                },
                FlowResult::Probed(results),
            ) if results.iter().map(|(server, _)| server).eq(servers) => {
                self.probed(*requirement, results);
            }
            (FlowStep::Deploy { experiment, server }, FlowResult::Deployed(outcome)) => {
                self.ended(*experiment, *server, outcome);
            }
            (_, result) => return Err(ResultMismatch { step, result }),
        }
        self.settle();
        Ok(())
    }

    fn open_stage(&mut self, stage: usize) {
        self.state.stage = stage;
        self.state.round = 0;
        self.state.blocked.clear();
        self.state.undeployed = (0..self.plan.stages[stage].len()).collect();
        self.state.phase = Phase::Before;
    }

    /// Begins a round, or the next stage when everything is deployed.
    fn begin_round(&mut self) {
        if self.state.undeployed.is_empty() {
            match self.state.stage + 1 {
                next if next < STAGES.len() => self.open_stage(next),
                _ => self.state.phase = Phase::Finished,
            }
            return;
        }
        self.state.phase = Phase::Round(Round {
            acted: false,
            next: 0,
            deployed: BTreeSet::new(),
            used: BTreeSet::new(),
            static_results: BTreeMap::new(),
            turn: FlowTurn::New,
        });
    }

    fn waited(&mut self, interval: Interval) {
        if interval == Interval::Round {
            self.begin_round();
            return;
        }
        let Phase::Round(round) = &mut self.state.phase else {
            unreachable!("the other intervals are in rounds");
        };
        match (&mut round.turn, interval) {
            (FlowTurn::Probing { paused, .. }, _) => *paused = true,
            (
                FlowTurn::Placing {
                    deployment_paused, ..
                },
                Interval::Deployment,
            ) => *deployment_paused = true,
            (
                FlowTurn::Placing {
                    commands_paused, ..
                },
                _,
            ) => *commands_paused = true,
            (FlowTurn::New, _) => unreachable!("nothing waits here"),
        }
    }

    fn probed(&mut self, at: usize, results: Vec<(usize, Metric)>) {
        let Phase::Round(round) = &mut self.state.phase else {
            unreachable!("probes are asked in rounds");
        };
        let experiment = self.state.undeployed.range(round.next..).next();
        let experiment = *experiment.expect("a probe is for an experiment");
        let asked = &self.plan.stages[self.state.stage][experiment].requirements[at];
        round.acted |= !results.is_empty();
        let mut results: BTreeMap<usize, Metric> = results.into_iter().collect();
        if asked.freshness == Freshness::Static {
            for (server, metric) in &results {
                let key = (asked.id.clone(), *server);
                round.static_results.insert(key, metric.clone());
            }
        }
        let FlowTurn::Probing {
            requirement,
            satisfied,
            unsatisfied,
            paused,
        } = &mut round.turn
        else {
            unreachable!("probes are asked while probing");
        };
        for server in satisfied.clone() {
            let known = round.static_results.get(&(asked.id.clone(), server));
            let metric = results.remove(&server).or_else(|| known.cloned());
            let metric = metric.expect("each server was asked, now or before");
            let answer = asked.comparison.compare(&metric);
            if answer != Satisfaction::Satisfied {
                satisfied.remove(&server);
                unsatisfied.push((server, *requirement, metric, answer));
            }
        }
        *requirement += 1;
        *paused = false;
    }

    fn ended(&mut self, experiment: usize, server: usize, outcome: CommandsEnd) {
        let Phase::Round(round) = &mut self.state.phase else {
            unreachable!("commands run in rounds");
        };
        round.acted = true;
        match outcome {
            CommandsEnd::Success | CommandsEnd::Continue => {
                round.deployed.insert(experiment);
                round.used.insert(server);
                self.state.blocked.remove(&experiment);
                self.state.successes[self.state.stage] += 1;
            }
            CommandsEnd::Retry => {
                self.state.blocked.insert(experiment, WaitReason::Retried);
            }
            CommandsEnd::Abort => {
                self.state.phase = Phase::Aborted;
                return;
            }
        }
        self.end_turn(experiment);
    }

    /// Ends the turn of an experiment that was probed or deployed.
    fn end_turn(&mut self, experiment: usize) {
        let Phase::Round(round) = &mut self.state.phase else {
            return;
        };
        round.turn = FlowTurn::New;
        let is_full = round.used.len() >= self.plan.servers;
        round.next = if is_full { usize::MAX } else { experiment + 1 };
        if is_full {
            self.note(FlowNote::NoServers);
        }
    }

    /// The experiment whose turn it is.
    fn at_turn(&self, round: &Round) -> Option<usize> {
        self.state.undeployed.range(round.next..).next().copied()
    }

    /// Goes on to the next effect.
    fn settle(&mut self) {
        loop {
            let Phase::Round(round) = &mut self.state.phase else {
                return;
            };
            let notes = &mut self.notes;
            let mut note = |note| notes.push((self.state.stage, note));
            let stage = &self.plan.stages[self.state.stage];
            let turn = self.state.undeployed.range(round.next..).next();
            let Some(experiment) = turn.copied() else {
                self.end_round();
                continue;
            };
            let planned = &stage[experiment];
            match &round.turn {
                FlowTurn::New if planned.empty => {
                    note(FlowNote::Try(experiment));
                    note(FlowNote::Empty(experiment));
                    round.deployed.insert(experiment);
                    round.next = experiment + 1;
                    self.state.successes[self.state.stage] += 1;
                }
                FlowTurn::New => {
                    note(FlowNote::Try(experiment));
                    let undeployed = &self.state.undeployed;
                    let is_missing =
                        |at: &usize| undeployed.contains(at) && !round.deployed.contains(at);
                    let needs = planned.depends_on.iter().copied().filter(is_missing);
                    let needs: Vec<usize> = needs.collect();
                    if !needs.is_empty() {
                        note(FlowNote::Needs(experiment, needs.clone()));
                        let blocked = WaitReason::Needs(needs);
                        self.state.blocked.insert(experiment, blocked);
                        round.next = experiment + 1;
                        continue;
                    }
                    note(FlowNote::Search);
                    let all = 0..self.plan.servers;
                    round.turn = FlowTurn::Probing {
                        requirement: 0,
                        satisfied: all.filter(|at| !round.used.contains(at)).collect(),
                        unsatisfied: Vec::new(),
                        paused: false,
                    };
                }
                FlowTurn::Probing {
                    requirement,
                    satisfied,
                    unsatisfied,
                    ..
                } => {
                    let Some(server) = satisfied.first().copied() else {
                        note(FlowNote::Satisfied(Vec::new()));
                        let blocked = WaitReason::Unsatisfied(unsatisfied.clone());
                        self.state.blocked.insert(experiment, blocked);
                        self.end_turn(experiment);
                        continue;
                    };
                    if *requirement < planned.requirements.len() {
                        let at = *requirement;
                        let asked = &planned.requirements[at];
                        // What is known from this round is not asked again.
                        if to_ask(asked, &round.static_results, satisfied).is_empty() {
                            self.probed(at, Vec::new());
                            continue;
                        }
                        return;
                    }
                    note(FlowNote::Satisfied(satisfied.iter().copied().collect()));
                    let first = round.deployed.is_empty();
                    round.turn = FlowTurn::Placing {
                        server,
                        deployment_paused: first || self.plan.deployment_interval <= 0.0,
                        commands_paused: false,
                    };
                    return;
                }
                FlowTurn::Placing { .. } => return,
            }
        }
    }

    fn end_round(&mut self) {
        if let Phase::Round(round) = &self.state.phase {
            let deployed = &round.deployed;
            // The next round would be the same.
            if deployed.is_empty() && !round.acted {
                self.state.phase = Phase::Stuck;
                return;
            }
            for at in deployed {
                self.state.undeployed.remove(at);
            }
        }
        self.note(FlowNote::RoundEnd);
        if self.state.undeployed.is_empty() {
            self.begin_round();
            return;
        }
        self.state.round += 1;
        self.note_round();
        if self.plan.round_interval > 0.0 {
            self.state.phase = Phase::RoundPause
        } else {
            self.begin_round()
        }
    }
}

type StaticResults = BTreeMap<(String, usize), Metric>;

/// The servers whose answer is not known from this round.
fn to_ask(asked: &Requirement, known: &StaticResults, satisfied: &BTreeSet<usize>) -> Vec<usize> {
    let is_known = |server: &usize| {
        let key = (asked.id.clone(), *server);
        asked.freshness == Freshness::Static && known.contains_key(&key)
    };
    let unknown = satisfied.iter().copied();
    unknown.filter(|server| !is_known(server)).collect()
}
