//! How much the scheduler still takes, by counts of jobs that are not older than
//! [`COUNT_FRESH`].

use nero_warden::group::Room;
use tokio::time::Instant;

use super::{COUNT_FRESH, Cluster, Submission};

/// A submission counts as big from this part of the site's limit of jobs on.
const BIG_PARTS: u64 = 100;

impl Cluster {
    /// Whether the number of this user's jobs is known well enough to submit more.
    pub(super) fn is_counted(&self, now: Instant) -> bool {
        let counted = self.counted.map(|(at, _)| now.duration_since(at));
        counted.is_some_and(|age| age < COUNT_FRESH)
    }

    /// Whether jobs of all users are to be counted before a submission of so many
    /// waiting runs: one that is big beside the site's limit could fill it up, where
    /// our own jobs leave room.
    pub(super) fn wants_all(&self, waiting: usize, now: Instant) -> bool {
        let Some(max) = self.site.as_ref().and_then(|(_, site)| site.jobs_max) else {
            return false;
        };
        let is_big = waiting as u64 > max / BIG_PARTS;
        is_big && self.is_counted(now) && !self.is_counted_all(now) && !self.is_full
    }

    /// Whether the number of all users' jobs is known well enough.
    fn is_counted_all(&self, now: Instant) -> bool {
        let counted = self.counted_all.map(|(at, _)| now.duration_since(at));
        counted.is_some_and(|age| age < COUNT_FRESH)
    }

    /// How many tasks may run beside those that are at the scheduler, each array of which
    /// has a limit of its own; `None`: the node has no limit.
    pub(super) fn running_left(&self) -> Option<u32> {
        let max = self.setup.front.settings().max_running?;
        let may_run = |one: &Submission| {
            let open = one.tasks.iter().filter(|task| !one.is_finished(task));
            u32::try_from(open.count()).map_or(one.at_once, |open| open.min(one.at_once))
        };
        // Adopted jobs are not of our making.
        let ours = self
            .submissions
            .values()
            .filter(|one| one.adoption.is_none());
        let all = ours.map(may_run);
        Some(max.saturating_sub(all.fold(0, u32::saturating_add)))
    }

    /// How many tasks the scheduler still takes, and why it takes no more; `None`: it
    /// has to be counted first.
    pub(super) fn room(&self, now: Instant) -> Option<(Room, String)> {
        let (Some((_, site)), Some((_, own))) = (&self.site, self.counted) else {
            return None;
        };
        if !self.is_counted(now) {
            return None;
        }
        let all = self.counted_all.filter(|_| self.is_counted_all(now));
        let all = all.map_or(0, |(_, all)| all).max(own.kept);
        let max_queued = self.setup.front.settings().max_queued;
        let mut room = Room::left(site, max_queued, own.queued, all);
        room.tasks = room.tasks.min(self.at_most.unwrap_or(u64::MAX));
        let name = self.warden.name();
        if self.running_left() == Some(0) {
            room.tasks = 0;
            let max = self.setup.front.settings().max_running.unwrap_or(0);
            let why = format!(
                "waits for the end of a task: {max} of yours run or may run in {name} \
                 (`max_running:` of the node)"
            );
            return Some((room, why));
        }
        let queued = own.queued;
        let own_max = [max_queued, site.own_jobs_max].into_iter().flatten().min();
        let why = match own_max.filter(|max| queued >= *max) {
            Some(max) => format!(
                "waits for room in {name}'s queue: {queued} jobs of yours are in it, of at most {max}"
            ),
            None => {
                let max = site.jobs_max.unwrap_or(all);
                format!(
                    "waits for room in {name}'s queue: it keeps {all} jobs of all users, of at most {max}"
                )
            }
        };
        Some((room, why))
    }
}
