//! What a site allows: its limits and its partitions or queues.

use crate::Word;

/// A cluster as its scheduler describes it. `None`: not limited, or not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Version of the scheduler, as it prints it.
    pub version: String,
    /// Name of the cluster.
    pub cluster: Option<Word>,
    /// Indexes of an array are below this number.
    pub array_index_end: Option<u64>,
    /// Tasks of one array that run at once.
    pub array_running_max: Option<u64>,
    /// Jobs of all users, waiting and running, that the scheduler keeps.
    pub jobs_max: Option<u64>,
    /// Jobs of one user.
    pub own_jobs_max: Option<u64>,
    /// Where ended jobs are found.
    pub accounting: AccountingAccess,
    /// Seconds since the controller was started last, by its own clock: it may have
    /// rolled back then, and lost what it had accepted before.
    pub up_s: Option<u64>,
    /// Seconds for which the queue still lists a job that ended.
    pub ended_kept_s: Option<u64>,
    /// Partitions (SLURM) or queues (Grid Engine), in the scheduler's order.
    pub partitions: Vec<Partition>,
    /// Parallel environments (Grid Engine).
    pub environments: Vec<Word>,
    /// For what a job's request for GPUs counts (Grid Engine).
    pub gpus_per: GpusPer,
    /// Names that cannot stand in a command of ours, and are left out above.
    pub odd_names: usize,
}

/// For what a request of Grid Engine for GPUs counts, once each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpusPer {
    /// Each slot of the job.
    #[default]
    Slot,
    /// Each host of the job.
    Host,
    /// The whole job, on its first host.
    Job,
}

/// Where ended jobs are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountingAccess {
    /// The scheduler did not tell.
    #[default]
    Unknown,
    /// Nowhere.
    Absent,
    /// `sacct` or `qacct` answers.
    Present,
}

/// A partition or queue. `None`: not limited, or not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: Word,
    /// Whether jobs that name none go there.
    pub is_default: bool,
    /// Whether it starts jobs now.
    pub is_open: bool,
    /// Longest time of a job, in seconds.
    pub time_max_s: Option<u64>,
    /// Number of hosts.
    pub hosts: Option<u64>,
    /// Most CPUs that a job can have on one host.
    pub cpus: Option<u64>,
    /// Most memory that a job can have on one host, in bytes.
    pub memory_bytes: Option<u64>,
    /// GPUs of one host, for each kind of host that has some.
    pub gpus: Vec<Gpus>,
}

/// GPUs of one type in one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// Their type, where the site has types.
    pub kind: Option<Word>,
    /// Their number.
    pub count: u64,
}
