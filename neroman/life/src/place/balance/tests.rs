//! The decision alone, on nodes that are described and on nodes that are simulated.

use std::collections::BTreeSet;

use nero_model::ExperimentId;
use proptest::prelude::*;

use super::*;

fn id(number: u64) -> RunId {
    RunId {
        experiment: ExperimentId(number),
        number: 1,
    }
}

fn job(number: u64, at: At) -> Job {
    Job {
        id: id(number),
        cores: 1.0,
        memory_bytes: 0,
        at,
        usual_ms: None,
    }
}

const WAITS: At = At::Waits { free: true };

/// A node with so many processors, and jobs with these numbers.
fn node(name: &str, cpus: f64, begun: &[u64], waits: &[u64]) -> Member {
    let begun = begun.iter().map(|number| job(*number, At::Begun));
    let waits = waits.iter().map(|number| job(*number, WAITS));
    Member {
        name: name.to_owned(),
        cpus,
        memory_bytes: 8 << 30,
        starts: Starts::Yes,
        quiet_ms: 0,
        jobs: begun.chain(waits).collect(),
    }
}

fn moved(nodes: &[Member]) -> Vec<(u64, String, String)> {
    let moves = decide(nodes, &|_, _| true);
    let parts = |one: Move| (one.run.experiment.0, one.from, one.to);
    moves.into_iter().map(parts).collect()
}

fn to(number: u64, from: &str, to: &str) -> (u64, String, String) {
    (number, from.to_owned(), to.to_owned())
}

#[test]
fn the_last_of_a_queue_go_to_a_node_that_starts_them_at_once() {
    let nodes = [node("a", 1.0, &[1], &[2, 3, 4]), node("b", 2.0, &[], &[])];
    assert_eq!(moved(&nodes), [to(4, "a", "b"), to(3, "a", "b")]);
}

#[test]
fn a_few_go_at_a_time_and_the_next_ones_when_these_have_begun() {
    let waits: Vec<u64> = (1..100).collect();
    let mut nodes = [node("a", 1.0, &[], &waits), node("b", 64.0, &[], &[])];
    assert_eq!(moved(&nodes).len(), AT_A_TIME);
    nodes[0].jobs[50].at = At::Leaves {
        to: Some("b".to_owned()),
    };
    assert_eq!(moved(&nodes), [], "one is on its way to b");
    nodes[0].jobs.remove(50);
    nodes[1].jobs.push(job(200, WAITS));
    assert_eq!(moved(&nodes), [], "one has not begun on b");
    nodes[1].jobs[0].at = At::Begun;
    assert_eq!(moved(&nodes).len(), AT_A_TIME);
}

#[test]
fn runs_come_from_the_node_with_the_longest_wait_for_its_size() {
    let free = node("c", 1.0, &[], &[]);
    let nodes = [
        node("a", 4.0, &[1, 2, 3, 4], &[5, 6, 7]),
        node("b", 1.0, &[11], &[12, 13]),
        free.clone(),
    ];
    assert_eq!(moved(&nodes), [to(13, "b", "c")]);
    let mut nodes = [
        node("a", 1.0, &[1], &[2]),
        node("b", 1.0, &[11], &[12, 13]),
        free.clone(),
    ];
    let run_of = |usual_ms, job: &mut Job| job.usual_ms = Some(usual_ms);
    nodes[0].jobs.iter_mut().for_each(|job| run_of(90_000, job));
    nodes[1].jobs.iter_mut().for_each(|job| run_of(20_000, job));
    assert_eq!(moved(&nodes), [to(2, "a", "c")], "90 s against 40 s");
    // A node that starts nothing makes its runs wait longest.
    nodes[1].starts = Starts::Held;
    assert_eq!(moved(&nodes), [to(13, "b", "c")]);
}

#[test]
fn a_run_that_its_node_starts_soon_stays() {
    let free = node("b", 4.0, &[], &[]);
    let nodes = [node("a", 2.0, &[1], &[2]), free.clone()];
    assert_eq!(moved(&nodes), [], "a has room for it itself");
    let mut nodes = [node("a", 1.0, &[1], &[2, 3]), free];
    for job in &mut nodes[0].jobs {
        job.usual_ms = Some(1000);
    }
    nodes[0].quiet_ms = 900;
    assert_eq!(moved(&nodes), [], "two seconds are not worth it");
    nodes[0].quiet_ms = 60_000;
    let both = [to(3, "a", "b"), to(2, "a", "b")];
    assert_eq!(
        moved(&nodes),
        both,
        "the job before them takes longer than usual"
    );
}

#[test]
fn a_run_is_moved_only_where_it_may_go_and_fits() {
    let mut nodes = [node("a", 1.0, &[1], &[2, 3]), node("b", 1.0, &[], &[])];
    let moves = decide(&nodes, &|run, _| run != id(3));
    assert_eq!(moves[0].run, id(2));
    nodes[0].jobs[2].memory_bytes = 9 << 30;
    assert_eq!(moved(&nodes), [to(2, "a", "b")]);
    nodes[0].jobs[1].at = At::Waits { free: false };
    assert_eq!(moved(&nodes), []);
}

#[test]
fn no_run_goes_to_or_from_a_node_that_does_not_answer() {
    let nodes = [node("a", 1.0, &[1], &[2, 3]), node("b", 1.0, &[], &[])];
    for silent in 0..2 {
        let mut nodes = nodes.clone();
        nodes[silent].starts = Starts::Silent;
        assert_eq!(moved(&nodes), []);
    }
    let mut nodes = nodes;
    nodes[1].starts = Starts::Held;
    assert_eq!(moved(&nodes), []);
}

#[test]
fn a_node_that_died_during_a_recall_keeps_no_run_from_the_node_with_room() {
    let mut nodes = [
        node("a", 1.0, &[1], &[2]),
        node("b", 1.0, &[], &[]),
        node("c", 1.0, &[11], &[12]),
    ];
    nodes[0].jobs[1].at = At::Leaves {
        to: Some("b".to_owned()),
    };
    assert_eq!(moved(&nodes), [], "one is on its way to b");
    nodes[0].starts = Starts::Silent;
    assert_eq!(moved(&nodes), [to(12, "c", "b")]);
}

/// A job of the simulation.
#[derive(Clone, Debug)]
struct Sim {
    cores: f64,
    lasts_ms: u64,
    /// The nodes where it was.
    been: Vec<usize>,
    /// The time of its last move.
    moved_ms: Option<u64>,
    /// The time at which it arrives at its node.
    arrives_ms: u64,
    begun_ms: Option<u64>,
    /// The moves that a node which answered no more made vain.
    going: Option<usize>,
}

/// Nodes that start their jobs in order, and a daemon that balances them.
struct World {
    cpus: Vec<f64>,
    now_ms: u64,
    jobs: Vec<Sim>,
    /// Whether a node starts jobs, drawn anew at each step.
    starts: Vec<Starts>,
    moves: usize,
}

/// Between two steps of the simulation.
const STEP_MS: u64 = 2000;

impl World {
    fn over(&self, job: &Sim) -> bool {
        let end = job.begun_ms.map(|begun| begun + job.lasts_ms);
        end.is_some_and(|end| end <= self.now_ms)
    }

    fn on(&self, node: usize) -> Vec<usize> {
        let here = |job: &&Sim| job.been.last() == Some(&node) && !self.over(job);
        let all = self.jobs.iter().enumerate();
        all.filter(|(_, job)| here(job))
            .map(|(index, _)| index)
            .collect()
    }

    /// The jobs of a node in the order of their arrival.
    fn in_order(&self, node: usize) -> Vec<usize> {
        let mut here = self.on(node);
        here.sort_by_key(|index| self.jobs[*index].arrives_ms);
        here
    }

    fn start_jobs(&mut self) {
        for node in 0..self.cpus.len() {
            if self.starts[node] == Starts::Held {
                continue;
            }
            let here = self.in_order(node);
            let begun = here
                .iter()
                .filter(|index| self.jobs[**index].begun_ms.is_some());
            let mut free =
                self.cpus[node] - begun.map(|index| self.jobs[*index].cores).sum::<f64>();
            for index in here {
                let job = &self.jobs[index];
                if job.begun_ms.is_some() {
                    continue;
                }
                if job.arrives_ms > self.now_ms || job.cores > free {
                    break;
                }
                free -= job.cores;
                self.jobs[index].begun_ms = Some(self.now_ms);
                self.jobs[index].going = None;
            }
        }
    }

    fn members(&self) -> Vec<Member> {
        let member = |node: usize| {
            let jobs = self.in_order(node).into_iter().map(|index| {
                let job = &self.jobs[index];
                let lately = |at: u64| self.now_ms - at < STAYS_MS.unsigned_abs();
                let at = match (job.begun_ms, job.going) {
                    (Some(_), _) => At::Begun,
                    (None, Some(to)) => At::Leaves {
                        to: Some(to.to_string()),
                    },
                    (None, None) => At::Waits {
                        free: !job.moved_ms.is_some_and(lately),
                    },
                };
                Job {
                    id: id(index as u64),
                    cores: job.cores,
                    memory_bytes: 0,
                    at,
                    usual_ms: (index % 3 > 0).then_some(job.lasts_ms),
                }
            });
            let was_here = self
                .jobs
                .iter()
                .filter(|job| job.been.last() == Some(&node));
            let newest_ms = was_here.filter_map(|job| job.begun_ms).max();
            Member {
                name: node.to_string(),
                cpus: self.cpus[node],
                memory_bytes: 0,
                starts: self.starts[node],
                quiet_ms: newest_ms.map_or(0, |newest_ms| self.now_ms - newest_ms),
                jobs: jobs.collect(),
            }
        };
        (0..self.cpus.len()).map(member).collect()
    }

    /// Lets what was recalled arrive, unless its node started it meanwhile, or does not
    /// answer.
    fn recall(&mut self) {
        for job in &mut self.jobs {
            let here = job.been.last();
            if here.is_some_and(|here| self.starts[*here] == Starts::Silent) {
                continue;
            }
            let Some(to) = job.going.take() else { continue };
            job.been.push(to);
            job.moved_ms = Some(self.now_ms);
            job.arrives_ms = self.now_ms + STEP_MS / 2;
            self.moves += 1;
        }
    }

    fn balance(&mut self) {
        let been = |run: RunId, to: &str| {
            let job = &self.jobs[run.experiment.0 as usize];
            job.been.contains(&to.parse().unwrap())
        };
        let members = self.members();
        let moves = decide(&members, &|run, to| !been(run, to));
        let mut seen = BTreeSet::new();
        for one in moves {
            let (from, to): (usize, usize) = (one.from.parse().unwrap(), one.to.parse().unwrap());
            let index = one.run.experiment.0 as usize;
            assert!(seen.insert(index), "{index} goes to two nodes");
            let job = &self.jobs[index];
            assert_eq!(job.been.last(), Some(&from));
            assert!(job.begun_ms.is_none() && job.going.is_none());
            assert_eq!(
                (members[to].starts, members[from].starts != Starts::Silent),
                (Starts::Yes, true)
            );
            self.jobs[index].going = Some(to);
        }
    }

    fn step(&mut self, balanced: bool) {
        self.now_ms += STEP_MS;
        self.start_jobs();
        if balanced {
            self.recall();
            self.balance();
        }
    }
}

fn world(cpus: &[u32], jobs: &[(usize, u32, u64)]) -> World {
    let nodes = cpus.len();
    let jobs = jobs
        .iter()
        .enumerate()
        .map(|(index, (node, cores, lasts_s))| Sim {
            cores: f64::from(*cores),
            lasts_ms: lasts_s * 1000,
            been: vec![node % nodes],
            moved_ms: None,
            arrives_ms: index as u64 % 100,
            begun_ms: None,
            going: None,
        });
    World {
        cpus: cpus.iter().map(|cpus| f64::from(*cpus)).collect(),
        now_ms: 100,
        jobs: jobs.collect(),
        starts: vec![Starts::Yes; nodes],
        moves: 0,
    }
}

/// The time at which all jobs are over; the last of `starts` holds from then on.
fn ends_ms(world: &mut World, balanced: bool, starts: &[Vec<Starts>]) -> u64 {
    for step in 0..1_000_000 {
        if world.jobs.iter().all(|job| world.over(job)) {
            return world.now_ms;
        }
        match starts.get(step) {
            Some(starts) => world.starts.copy_from_slice(&starts[..world.cpus.len()]),
            None => world.starts.fill(Starts::Yes),
        }
        world.step(balanced);
    }
    panic!("jobs that never end");
}

fn starts() -> impl Strategy<Value = Starts> {
    prop_oneof![
        6 => Just(Starts::Yes),
        1 => Just(Starts::Held),
        1 => Just(Starts::Silent),
    ]
}

proptest! {
    // Each case simulates hours.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever jobs, sizes and disturbances are, no job returns to a node where it
    /// was, and a job that was moved is left alone for a while.
    #[test]
    fn no_run_goes_back_and_forth(
        cpus in proptest::collection::vec(4u32..9, 2..5),
        jobs in proptest::collection::vec((0usize..4, 1u32..4, 1u64..4000), 1..60),
        disturbed in proptest::collection::vec(proptest::collection::vec(starts(), 4), 0..300),
    ) {
        let mut world = world(&cpus, &jobs);
        ends_ms(&mut world, true, &disturbed);
        for job in &world.jobs {
            let nodes: BTreeSet<_> = job.been.iter().collect();
            prop_assert_eq!(nodes.len(), job.been.len(), "{:?}", job);
        }
        prop_assert!(world.moves <= world.jobs.len() * (cpus.len() - 1));
    }

    /// Jobs that all lie on one of several equal nodes are over about as early as if
    /// they had been spread from the start.
    #[test]
    fn no_node_is_idle_for_long_while_runs_wait_on_another(
        cpus in 1u32..8,
        nodes in 2usize..5,
        lasts_s in proptest::collection::vec(30u64..900, 20..80),
    ) {
        let jobs: Vec<_> = lasts_s.iter().map(|lasts_s| (0, 1, *lasts_s)).collect();
        let cpus = vec![cpus; nodes];
        let ends = ends_ms(&mut world(&cpus, &jobs), true, &[]);
        let work: u64 = lasts_s.iter().sum::<u64>() * 1000;
        let longest = lasts_s.iter().max().unwrap() * 1000;
        let slots = u64::from(cpus[0]) * nodes as u64;
        // Each move costs its slot a few steps.
        let moved = 4 * STEP_MS * (jobs.len() as u64).div_ceil(slots) + 8 * STEP_MS;
        prop_assert!(ends <= work / slots + longest + moved, "{ends} of {work} on {slots}");
        let alone = ends_ms(&mut world(&cpus, &jobs), false, &[]);
        prop_assert!(ends <= alone + longest, "{ends} instead of {alone}");
    }
}
