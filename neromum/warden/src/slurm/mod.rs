//! SLURM; seen in use: 22.05. Older ones than 20.02 have no `squeue --me`.

mod accounting;
mod adopted;
mod queue;
mod site;
mod state;
mod submit;
pub mod time;

use std::borrow::Cow;

use crate::adopted::{AdoptedJobRef, AdoptedJobState, FoundJob, JobRef, NotFound};
use crate::job::{JobKey, JobName, Queue, QueueRow, Record};
use crate::order::{Order, OrderError};
use crate::{Call, CallOutput, Kind, Site, SubmissionResult, Unreadable, Warden};

pub use state::{never_passes, state};
pub use submit::check_options;

/// Its name for people.
pub const NAME: &str = "SLURM";
/// Jobs and tasks of one command.
const IDS_MAX: usize = 500;

/// SLURM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slurm {
    /// Whether its `squeue` has no `--json`.
    pub is_plain: bool,
}

impl Warden for Slurm {
    fn kind(&self) -> Kind {
        Kind::Slurm
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn program(&self) -> Cow<'static, str> {
        "sbatch".into()
    }

    /// The names of users may be in a directory of the site.
    fn programs_elsewhere(&self) -> Vec<Cow<'static, str>> {
        vec!["getent".into()]
    }

    fn first_index(&self) -> u32 {
        0
    }

    fn site_calls(&self) -> Vec<Call> {
        site::calls()
    }

    fn read_site(&self, said: &[CallOutput]) -> Result<Site, Unreadable> {
        site::read(said)
    }

    fn uptime_calls(&self) -> Vec<Call> {
        vec![site::config_call()]
    }

    fn read_uptime(&self, said: &[CallOutput]) -> Result<Option<u64>, Unreadable> {
        match said {
            [said] => site::read_uptime(said),
            _ => Err(Unreadable::odd("scontrol", "an answer is missing")),
        }
    }

    fn script(&self, order: &Order) -> Result<String, OrderError> {
        submit::script(order)
    }

    fn submit_call(&self, order: &Order, script: &str) -> Call {
        submit::call(order, script)
    }

    fn read_submit(&self, said: &CallOutput) -> SubmissionResult {
        submit::read(said)
    }

    fn queue_calls(&self, names: &[&JobName]) -> Vec<Call> {
        if self.is_plain {
            queue::plain_calls(names)
        } else {
            vec![queue::call()]
        }
    }

    fn read_queue(&self, said: &[CallOutput], known: &[JobKey<'_>]) -> Result<Queue, Unreadable> {
        match (self.is_plain, said) {
            (true, said) => {
                let names: Vec<&JobName> = known.iter().map(|one| one.name).collect();
                queue::read_plain(said, &names)
            }
            (false, [said]) => queue::read(said),
            (false, _) => Err(Unreadable::odd("squeue", "an answer is missing")),
        }
    }

    fn count_calls(&self) -> Vec<Call> {
        vec![queue::count_call()]
    }

    fn read_count(&self, said: &[CallOutput]) -> Result<u64, Unreadable> {
        match said {
            [said] => queue::read_count(said),
            _ => Err(Unreadable::odd("squeue", "an answer is missing")),
        }
    }

    fn without_json(&self, said: &[CallOutput]) -> Option<std::sync::Arc<dyn Warden>> {
        let lacks_it = |said: &CallOutput| {
            let refused = matches!(said.end, crate::End::Code(code) if code != 0);
            refused && said.complaint().to_lowercase().contains("json")
        };
        let plainer = !self.is_plain && said.iter().any(lacks_it);
        plainer.then(|| std::sync::Arc::new(Self { is_plain: true }) as _)
    }

    fn ends_calls(&self, names: &[&JobName], since_s: u64) -> Vec<Call> {
        vec![accounting::call(names, since_s)]
    }

    fn read_ends(
        &self,
        said: &[CallOutput],
        names: &[&JobName],
    ) -> Result<Vec<Record>, Unreadable> {
        match said {
            [said] => accounting::read(said, names),
            _ => Err(Unreadable::odd("sacct", "an answer is missing")),
        }
    }

    fn cancellers(&self, said: &[CallOutput]) -> Vec<u32> {
        said.iter().flat_map(accounting::cancellers).collect()
    }

    fn cancel_call(&self, seen: &QueueRow, task: Option<u32>) -> Call {
        submit::cancel(seen, task)
    }

    fn cancel_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        match seen {
            [(row, task)] => vec![submit::cancel(row, *task)],
            all => all.chunks(IDS_MAX).map(submit::cancel_all).collect(),
        }
    }

    fn cancel_waiting_calls(&self, seen: &[&QueueRow]) -> Vec<Call> {
        let whole: Vec<_> = seen.iter().map(|row| (*row, None)).collect();
        let chunks = whole.chunks(IDS_MAX).map(submit::cancel_all);
        chunks
            .map(|mut call| {
                call.words.insert(0, "--state=PENDING".into());
                call
            })
            .collect()
    }

    fn hold_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let chunks = seen.chunks(IDS_MAX);
        chunks.map(|seen| submit::control("uhold", seen)).collect()
    }

    fn release_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let chunks = seen.chunks(IDS_MAX);
        chunks
            .map(|seen| submit::control("release", seen))
            .collect()
    }

    fn ring_call(&self, seen: &[(&QueueRow, Option<u32>)]) -> Option<Call> {
        (!seen.is_empty()).then(|| submit::ring(seen))
    }

    fn find_calls(&self, job: JobRef) -> Vec<Call> {
        adopted::find_calls(job, self.is_plain)
    }

    fn read_found(&self, said: &[CallOutput], job: JobRef) -> Result<FoundJob, NotFound> {
        if self.is_plain {
            adopted::read_found_plain(said, job)
        } else {
            adopted::read_found(said, job)
        }
    }

    fn adopted_calls(&self, adopted: &[AdoptedJobRef<'_>]) -> Vec<Call> {
        if self.is_plain {
            vec![adopted::plain_call(adopted)]
        } else {
            Vec::new()
        }
    }

    fn read_adopted(
        &self,
        said: &[CallOutput],
        more: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        if self.is_plain {
            adopted::read_plain(more, adopted)
        } else {
            adopted::read(said, adopted)
        }
    }

    fn adopted_ends_calls(&self, adopted: &[AdoptedJobRef<'_>], since_s: u64) -> Vec<Call> {
        vec![adopted::ends_call(adopted, since_s)]
    }

    fn read_adopted_ends(
        &self,
        said: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        adopted::read_ends(said, adopted)
    }

    fn cancel_adopted_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        seen.chunks(IDS_MAX).map(submit::cancel_all).collect()
    }
}
