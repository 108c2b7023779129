//! Schedulers of clusters ("wardens"): the commands that they are asked with, and
//! the meaning of their answers. This crate executes nothing and knows no clock; the
//! runner of neromum executes a [`Call`] and passes its [`CallOutput`] back.
//!
//! Texts of schedulers contain what other people chose: names of jobs, comments,
//! paths. Facts are read only from fields whose alphabet is the scheduler's or
//! ours; a row with another number of fields counts as unreadable.

use std::borrow::Cow;

pub mod adopted;
pub mod call;
pub mod generic;
pub mod group;
pub mod hosts;
pub mod job;
pub mod limit;
pub mod oge;
pub mod options;
pub mod order;
pub mod settings;
pub mod site;
pub mod slurm;
pub mod submit;
pub mod word;
mod words;

pub use adopted::{AdoptedJobRef, AdoptedJobState, FoundJob, JobRef, NotFound};
pub use call::{Call, CallOutput, End, Unreadable};
pub use job::{
    JobId, JobKey, JobName, Queue, QueueRow, Reason, Record, SchedulerEnd, State, Tasks,
};
pub use options::OptionError;
pub use order::{Fields, Job, Order, OrderError, Resources, SETUP_ENDED, Share};
pub use settings::{Kind, Settings};
pub use site::{AccountingAccess, Gpus, GpusPer, Partition, Site};
pub use submit::SubmissionResult;
pub use word::Word;
pub use words::NodeWord;

/// A scheduler: how it is asked, and how its answers read.
pub trait Warden: std::fmt::Debug + Send + Sync {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// Its name for people.
    fn name(&self) -> Cow<'static, str>;

    /// The program that submits; others mostly lie beside it.
    fn program(&self) -> Cow<'static, str>;

    /// Programs that may lie in another folder than [`program`](Self::program).
    fn programs_elsewhere(&self) -> Vec<Cow<'static, str>> {
        Vec::new()
    }

    /// Index of the first task of an array.
    fn first_index(&self) -> u32;

    /// A task of an array, as its commands take it and people read it.
    fn task_name(&self, job: JobId, task: u32) -> String {
        format!("{job}_{task}")
    }

    /// Asks for the version, the limits, and the partitions or queues of the site.
    fn site_calls(&self) -> Vec<Call>;

    /// Reads the answers to [`site_calls`](Self::site_calls), in their order.
    ///
    /// # Errors
    /// The first answer that a site cannot be described without.
    fn read_site(&self, said: &[CallOutput]) -> Result<Site, Unreadable>;

    /// Asks how long the controller has been up; none: this scheduler does not tell.
    fn uptime_calls(&self) -> Vec<Call> {
        Vec::new()
    }

    /// Reads the answers to [`uptime_calls`](Self::uptime_calls), in seconds; `None`: they
    /// do not tell.
    ///
    /// # Errors
    /// When the scheduler did not answer.
    fn read_uptime(&self, said: &[CallOutput]) -> Result<Option<u64>, Unreadable> {
        let _ = said;
        Ok(None)
    }

    /// The same scheduler, as it is asked at this site; `None`: sites do not differ.
    fn knowing(&self, site: &Site) -> Option<std::sync::Arc<dyn Warden>> {
        let _ = site;
        None
    }

    /// The batch script of a submission.
    ///
    /// # Errors
    /// When a field or option cannot be honoured; nothing was asked of the
    /// scheduler.
    fn script(&self, order: &Order) -> Result<String, OrderError>;

    /// Submits. The order must have passed [`script`](Self::script).
    fn submit_call(&self, order: &Order, script: &str) -> Call;

    /// Reads the answer to [`submit_call`](Self::submit_call).
    fn read_submit(&self, said: &CallOutput) -> SubmissionResult;

    /// Asks for the jobs of this user, whatever their number: those of the named
    /// submissions, and how many others there are.
    fn queue_calls(&self, names: &[&JobName]) -> Vec<Call>;

    /// Reads the answers to [`queue_calls`](Self::queue_calls), which were asked for
    /// these submissions. One that is missing proves nothing.
    ///
    /// # Errors
    /// When the scheduler did not answer, or only in part.
    fn read_queue(&self, said: &[CallOutput], known: &[JobKey<'_>]) -> Result<Queue, Unreadable>;

    /// Lines of these answers to [`queue_calls`](Self::queue_calls) that are read as no
    /// job, where a person configured how they read.
    fn unread_lines(&self, said: &[CallOutput]) -> Vec<String> {
        let _ = said;
        Vec::new()
    }

    /// Whether listings show the names of jobs. Without them they cannot tell whether
    /// a submission arrived whose answer was lost.
    fn shows_names(&self) -> bool {
        true
    }

    /// Whether a submission can tell how many tasks of an array run at once.
    fn limits_arrays(&self) -> bool {
        true
    }

    /// Asks for the number of jobs of all users that the scheduler keeps, ended ones
    /// and each task of an array included; none: its limits do not count them.
    fn count_calls(&self) -> Vec<Call> {
        Vec::new()
    }

    /// Reads the answers to [`count_calls`](Self::count_calls).
    ///
    /// # Errors
    /// When the scheduler did not answer.
    fn read_count(&self, said: &[CallOutput]) -> Result<u64, Unreadable> {
        let _ = said;
        Ok(0)
    }

    /// The same scheduler, asked in another way, when these answers to
    /// [`queue_calls`](Self::queue_calls) show that it is built without JSON.
    fn without_json(&self, said: &[CallOutput]) -> Option<std::sync::Arc<dyn Warden>> {
        let _ = said;
        None
    }

    /// Asks the accounting for these submissions, from `since_s` seconds ago on.
    fn ends_calls(&self, names: &[&JobName], since_s: u64) -> Vec<Call>;

    /// Reads the answers to [`ends_calls`](Self::ends_calls).
    ///
    /// # Errors
    /// When there is no accounting, or it did not answer.
    fn read_ends(&self, said: &[CallOutput], names: &[&JobName])
    -> Result<Vec<Record>, Unreadable>;

    /// Users who cancelled jobs, by these answers to [`ends_calls`](Self::ends_calls).
    fn cancellers(&self, said: &[CallOutput]) -> Vec<u32> {
        let _ = said;
        Vec::new()
    }

    /// Cancels a job, or the task `task` of an array, whose row a listing has just
    /// shown. Its answer proves nothing.
    fn cancel_call(&self, seen: &QueueRow, task: Option<u32>) -> Call;

    /// Cancels jobs that a listing showed as waiting: a copy of a submission that began
    /// since is spared where the scheduler can tell, since its runs may be its own.
    fn cancel_waiting_calls(&self, seen: &[&QueueRow]) -> Vec<Call> {
        let whole: Vec<_> = seen.iter().map(|row| (*row, None)).collect();
        self.cancel_calls(&whole)
    }

    /// Cancels all of these, as [`cancel_call`](Self::cancel_call) each, in as few
    /// commands as possible.
    fn cancel_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let call = |(row, task): &(&QueueRow, Option<u32>)| self.cancel_call(row, *task);
        seen.iter().map(call).collect()
    }

    /// Keeps waiting jobs, or tasks of arrays, from being started; their rows have just
    /// been listed. None where the scheduler cannot do that.
    fn hold_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let _ = seen;
        Vec::new()
    }

    /// Ends what [`hold_calls`](Self::hold_calls) did.
    fn release_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let _ = seen;
        Vec::new()
    }

    /// Tells the batch tasks of these running jobs, whose rows a listing has just
    /// shown, that something lies on the disk for them. `None`: the scheduler cannot
    /// do that without harm, and they look themselves.
    fn ring_call(&self, seen: &[(&QueueRow, Option<u32>)]) -> Option<Call>;

    /// Asks for a job that a person names.
    fn find_calls(&self, job: JobRef) -> Vec<Call> {
        let _ = job;
        Vec::new()
    }

    /// Reads the answers to [`find_calls`](Self::find_calls).
    ///
    /// # Errors
    /// When there is no such job, or the answer names none.
    fn read_found(&self, said: &[CallOutput], job: JobRef) -> Result<FoundJob, NotFound> {
        let _ = (said, job);
        Err(NotFound::Unsupported)
    }

    /// What is asked beside [`queue_calls`](Self::queue_calls) where these jobs were
    /// adopted.
    fn adopted_calls(&self, adopted: &[AdoptedJobRef<'_>]) -> Vec<Call> {
        let _ = adopted;
        Vec::new()
    }

    /// Reads where adopted jobs stand: from the answers to
    /// [`queue_calls`](Self::queue_calls), and from those to
    /// [`adopted_calls`](Self::adopted_calls) after them.
    ///
    /// # Errors
    /// When the scheduler did not answer, or only in part.
    fn read_adopted(
        &self,
        said: &[CallOutput],
        more: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        let _ = (said, more, adopted);
        Ok(Vec::new())
    }

    /// Asks the accounting for adopted jobs, from `since_s` seconds ago on.
    fn adopted_ends_calls(&self, adopted: &[AdoptedJobRef<'_>], since_s: u64) -> Vec<Call> {
        let _ = (adopted, since_s);
        Vec::new()
    }

    /// Reads the answers to [`adopted_ends_calls`](Self::adopted_ends_calls).
    ///
    /// # Errors
    /// When there is no accounting, or it did not answer.
    fn read_adopted_ends(
        &self,
        said: &[CallOutput],
        adopted: &[AdoptedJobRef<'_>],
    ) -> Result<Vec<AdoptedJobState>, Unreadable> {
        let _ = (said, adopted);
        Ok(Vec::new())
    }

    /// Cancels adopted jobs whose rows have just been listed with their times of
    /// submission. They have names of their own.
    fn cancel_adopted_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        let _ = seen;
        Vec::new()
    }
}
