//! Grid Engine and its descendants; seen in use: 8.1.9.

mod accounting;
mod adopted;
mod queue;
mod site;
mod state;
mod submit;
mod xml;

use std::borrow::Cow;
use std::sync::Arc;

use crate::adopted::{AdoptedJobRef, AdoptedJobState, FoundJob, JobRef, NotFound};
use crate::job::{JobId, JobKey, JobName, Queue, QueueRow, Record};
use crate::order::{Order, OrderError};
use crate::{Call, CallOutput, GpusPer, Kind, Site, SubmissionResult, Unreadable, Warden};

pub use state::state;
pub use submit::check_options;

/// Its name for people.
pub const NAME: &str = "Grid Engine";
/// Jobs and tasks of one command.
const IDS_MAX: usize = 500;

/// Grid Engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oge {
    /// For what a request for GPUs counts; `None`: the site was not asked yet.
    pub gpus_per: Option<GpusPer>,
}

impl Warden for Oge {
    fn kind(&self) -> Kind {
        Kind::Oge
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn program(&self) -> Cow<'static, str> {
        "qstat".into()
    }

    fn first_index(&self) -> u32 {
        1
    }

    fn task_name(&self, job: JobId, task: u32) -> String {
        format!("{job}.{task}")
    }

    fn site_calls(&self) -> Vec<Call> {
        site::calls()
    }

    fn read_site(&self, said: &[CallOutput]) -> Result<Site, Unreadable> {
        site::read(said)
    }

    fn knowing(&self, site: &Site) -> Option<Arc<dyn Warden>> {
        let gpus_per = Some(site.gpus_per);
        Some(Arc::new(Self { gpus_per }))
    }

    fn script(&self, order: &Order) -> Result<String, OrderError> {
        submit::script(order, self.gpus_per)
    }

    fn submit_call(&self, order: &Order, script: &str) -> Call {
        submit::call(order, script, self.gpus_per.unwrap_or_default())
    }

    fn read_submit(&self, said: &CallOutput) -> SubmissionResult {
        submit::read(said)
    }

    fn queue_calls(&self, _: &[&JobName]) -> Vec<Call> {
        vec![queue::call()]
    }

    fn read_queue(&self, said: &[CallOutput], _: &[JobKey<'_>]) -> Result<Queue, Unreadable> {
        match said {
            [said] => queue::read(said),
            _ => Err(Unreadable::odd("qstat", "an answer is missing")),
        }
    }

    fn ends_calls(&self, names: &[&JobName], _: u64) -> Vec<Call> {
        names.iter().map(|name| accounting::call(name)).collect()
    }

    fn read_ends(
        &self,
        said: &[CallOutput],
        names: &[&JobName],
    ) -> Result<Vec<Record>, Unreadable> {
        let each = said.iter().zip(names);
        let each = each.map(|(said, name)| accounting::read(said, name));
        // What one question could not tell, another may.
        let (told, failed): (Vec<_>, Vec<_>) = each.partition(Result::is_ok);
        match failed.into_iter().find_map(Result::err) {
            Some(error) if told.is_empty() => Err(error),
            Some(_) | None => Ok(told.into_iter().flatten().flatten().collect()),
        }
    }

    fn cancel_call(&self, seen: &QueueRow, task: Option<u32>) -> Call {
        submit::cancel(seen, task)
    }

    fn cancel_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        {
            let chunks = seen.chunks(IDS_MAX);
            chunks.map(|seen| submit::of_jobs("qdel", seen)).collect()
        }
    }

    fn hold_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let chunks = seen.chunks(IDS_MAX);
        chunks.map(|seen| submit::of_jobs("qhold", seen)).collect()
    }

    fn release_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let chunks = seen.chunks(IDS_MAX);
        chunks.map(|seen| submit::of_jobs("qrls", seen)).collect()
    }

    fn ring_call(&self, _: &[(&QueueRow, Option<u32>)]) -> Option<Call> {
        None
    }

    fn find_calls(&self, job: JobRef) -> Vec<Call> {
        vec![adopted::details_call([job.job])]
    }

    fn read_found(&self, said: &[CallOutput], job: JobRef) -> Result<FoundJob, NotFound> {
        adopted::read_found(said, job)
    }

    fn adopted_calls(&self, adopted: &[AdoptedJobRef<'_>]) -> Vec<Call> {
        vec![adopted::details_call(adopted.iter().map(|one| one.job.job))]
    }

    fn read_adopted(
        &self,
        said: &[CallOutput],
        more: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        adopted::read(said, more, adopted)
    }

    fn adopted_ends_calls(&self, adopted: &[AdoptedJobRef<'_>], _: u64) -> Vec<Call> {
        adopted.iter().map(adopted::ends_call).collect()
    }

    fn read_adopted_ends(
        &self,
        said: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        adopted::read_ends(said, adopted)
    }

    fn cancel_adopted_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        self.cancel_calls(seen)
    }
}
