//! Which runs are submitted together. Runs with equal resources, setup and fields
//! form one submission, an array; several may share a task.

use crate::{Fields, Resources, Site};

/// A run that waits to be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingRun<R> {
    /// The run.
    pub run: R,
    /// What its task is given.
    pub resources: Resources,
    /// Where it goes.
    pub fields: Fields,
    /// Lines of the user's shell.
    pub setup: Vec<String>,
    /// Runs that one task holds, 1 or more.
    pub pack: u32,
    /// Tasks of its group that may run at once.
    pub at_once: Option<u32>,
}

impl<R> WaitingRun<R> {
    /// Whether both fit into one submission.
    fn goes_with(&self, other: &Self) -> bool {
        let Self {
            run: _,
            resources,
            fields,
            setup,
            pack,
            at_once,
        } = self;
        *resources == other.resources
            && *fields == other.fields
            && *setup == other.setup
            && *pack == other.pack
            && *at_once == other.at_once
    }
}

/// Runs of one submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<R> {
    /// The first of its runs, whose resources, fields and setup hold for all.
    pub like: WaitingRun<R>,
    /// Runs of each task, in the order in which they came.
    pub tasks: Vec<Vec<R>>,
}

/// How many tasks may be submitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Tasks that the scheduler still takes from this user; each task counts as a
    /// job.
    pub tasks: u64,
    /// Largest array.
    pub array_max: u32,
}

/// Tasks that no limit of ours or of the site's is ever filled up to: other users,
/// and commands of this user's own, submit in the same moment.
const MARGIN: u64 = 16;
/// Largest array that is submitted: its answer and its plan stay small.
const ARRAY_MAX: u32 = 10_000;

impl Room {
    /// What is left of the limits of the node (`max_queued`) and of the site, with
    /// so many jobs and tasks of this user in the queue, and so many of all users, as
    /// far as they were counted, kept by the scheduler.
    pub fn left(site: &Site, max_queued: Option<u64>, own: u64, all: u64) -> Self {
        let left = |limit: Option<u64>, used: u64| {
            limit.map(|limit| {
                limit
                    .saturating_sub(MARGIN.min(limit / 10))
                    .saturating_sub(used)
            })
        };
        let limits = [
            max_queued.map(|limit| limit.saturating_sub(own)),
            left(site.own_jobs_max, own),
            left(site.jobs_max, all.max(own)),
        ];
        let index_end = site.array_index_end.unwrap_or(1);
        let array_max = u32::try_from(index_end.saturating_sub(1)).unwrap_or(u32::MAX);
        Self {
            tasks: limits.into_iter().flatten().min().unwrap_or(u64::MAX),
            array_max: array_max.clamp(1, ARRAY_MAX),
        }
    }
}

/// Forms submissions of waiting runs, first come, first served, until the room is
/// used up; the others wait on. Each run is in one task of one group at most.
pub fn group<R: Clone>(waiting: Vec<WaitingRun<R>>, room: Room) -> Vec<Group<R>> {
    let mut groups: Vec<Group<R>> = Vec::new();
    let mut left = room.tasks;
    for one in waiting {
        let pack = one.pack.max(1) as usize;
        let array_max = room.array_max as usize;
        let known = groups
            .iter_mut()
            .rev()
            .find(|group| group.like.goes_with(&one));
        if let Some(group) = known {
            if let Some(task) = group.tasks.last_mut().filter(|task| task.len() < pack) {
                task.push(one.run);
                continue;
            }
            if left > 0 && group.tasks.len() < array_max {
                left -= 1;
                group.tasks.push(vec![one.run]);
                continue;
            }
        }
        if left > 0 {
            left -= 1;
            groups.push(Group {
                tasks: vec![vec![one.run.clone()]],
                like: one,
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(run: u32, cpus: u32, pack: u32) -> WaitingRun<u32> {
        WaitingRun {
            run,
            resources: Resources {
                cpus,
                ..Resources::default()
            },
            fields: Fields::default(),
            setup: Vec::new(),
            pack,
            at_once: None,
        }
    }

    fn room(tasks: u64, array_max: u32) -> Room {
        Room { tasks, array_max }
    }

    #[test]
    fn equal_runs_become_one_array_and_a_pack_shares_a_task() {
        let runs = (0..10).map(|run| waiting(run, 1 + run % 2, 3)).collect();
        let groups = group(runs, room(100, 100));
        let tasks: Vec<&[Vec<u32>]> = groups.iter().map(|group| &*group.tasks).collect();
        assert_eq!(
            tasks,
            [[vec![0, 2, 4], vec![6, 8]], [vec![1, 3, 5], vec![7, 9]]]
        );
    }

    #[test]
    fn arrays_keep_to_the_limit_of_the_site_and_the_rest_waits() {
        let runs = (0..10).map(|run| waiting(run, 1, 1)).collect();
        let groups = group(runs, room(7, 3));
        let sizes: Vec<usize> = groups.iter().map(|group| group.tasks.len()).collect();
        assert_eq!(sizes, [3, 3, 1]);
    }

    #[test]
    fn limits_are_counted_with_foreign_jobs_and_never_filled_up() {
        let site = Site {
            jobs_max: Some(20_000),
            array_index_end: Some(1001),
            ..Site::default()
        };
        let left = |max_queued, own, all| Room::left(&site, max_queued, own, all);
        assert_eq!(left(None, 0, 19_000), room(984, 1000));
        assert_eq!(left(None, 0, 20_000), room(0, 1000));
        assert_eq!(left(Some(100), 98, 98).tasks, 2);
        assert_eq!(left(Some(100), 200, 0).tasks, 0);
        let open = Site::default();
        assert_eq!(Room::left(&open, None, 5, 5), room(u64::MAX, 1));
    }

    proptest! {
        #[test]
        fn every_run_is_submitted_once_or_waits(
            kinds in prop::collection::vec((1..3_u32, 1..4_u32), 0..60),
            tasks in 0..40_u64,
            array_max in 1..9_u32,
        ) {
            let runs: Vec<WaitingRun<u32>> = (0..).zip(&kinds)
                .map(|(run, (cpus, pack))| waiting(run, *cpus, *pack))
                .collect();
            let groups = group(runs.clone(), room(tasks, array_max));
            let mut seen: Vec<u32> = groups.iter()
                .flat_map(|group| group.tasks.iter().flatten().copied())
                .collect();
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), count);
            let used: usize = groups.iter().map(|group| group.tasks.len()).sum();
            prop_assert!(used as u64 <= tasks);
            for group in &groups {
                prop_assert!(group.tasks.len() <= array_max as usize);
                for run in group.tasks.iter().flatten() {
                    prop_assert!(runs[*run as usize].goes_with(&group.like));
                }
                for task in &group.tasks {
                    prop_assert!((1..=group.like.pack as usize).contains(&task.len()));
                }
            }
        }
    }
}
