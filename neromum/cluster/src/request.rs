//! What a run asks of its scheduler: read from its spec, checked, and in the
//! scheduler's own terms.

use std::path::PathBuf;

use nero_warden::{Fields, Job, JobName, Kind, Order, OrderError, Resources, Warden, Word};
use nero_wire::v1::{RunSpec, SchedulerRequest};

use nero_warden::limit::MARGIN_S;

/// What a run asks of its scheduler. Runs that ask the same may share a submission.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRequest {
    /// What its task is given, with the time of this one run.
    pub resources: Resources,
    /// Where it goes, and for whom it counts.
    pub fields: Fields,
    /// Lines of the person's shell.
    pub setup: Vec<String>,
    /// Runs that may share its task, at least 1.
    pub pack: u32,
    /// Most tasks of its submission that run at once; `None`: no limit of the run.
    pub at_once: Option<u32>,
}

/// Number of tasks of a submission, and of their runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tasks of its array; `None`: a plain job.
    pub tasks: Option<u32>,
    /// Runs of its largest task.
    pub runs: u32,
    /// The node's limit of tasks that run at once.
    pub at_once_max: Option<u32>,
}

impl Shape {
    /// So many tasks, of which the largest has so many runs.
    pub fn of(tasks: usize, runs: usize) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            tasks: (tasks > 1).then(|| number(tasks)),
            runs: number(runs).max(1),
            at_once_max: None,
        }
    }

    /// The same with a limit of the node.
    pub fn with_limit(self, at_once_max: Option<u32>) -> Self {
        Self {
            at_once_max,
            ..self
        }
    }
}

/// Reason why a run cannot be submitted with what its spec asks. Nothing was asked
/// of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// A name with characters that no command may contain.
    #[error("`{field}: {}` is no name of a scheduler: {why}", nero_model::safe::Safe::line(.text))]
    Name {
        /// The field.
        field: &'static str,
        /// The name.
        text: String,
        /// What a name is.
        why: nero_warden::word::WordError,
    },
    /// The node has no scheduler.
    #[error("`{0}` needs a scheduler, and this node has none")]
    Bare(&'static str),
    /// What only a node that gives its own GPUs has.
    #[error("`{0}` is for nodes without a scheduler: {1} gives whole GPUs and sees to them")]
    OwnGpus(&'static str, String),
    /// Several hosts, which the runs of a pack would have to share.
    #[error("`pack: {0}` is for runs on one host, and `nodes:` asks for several")]
    PackOfHosts(u32),
    /// The scheduler has no such launcher.
    #[error("`launcher: {launcher}` is for {of}; this node's scheduler is {here}")]
    Launcher {
        /// The launcher.
        launcher: &'static str,
        /// Its scheduler.
        of: &'static str,
        /// The node's scheduler.
        here: String,
    },
    /// Arrays of the scheduler start as many tasks as there is room for.
    #[error("`at_once` is not passed on to {0}: no `array.at_once` describes it")]
    AtOnce(String),
    /// The scheduler has no such thing, or an option is refused.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl TaskRequest {
    /// Reads the spec of a run, and has the scheduler's rules check it. `grace_ms`: time from the
    /// polite signal to the final one, which the run gets on top of its limit.
    ///
    /// # Errors
    /// The first field that cannot be honoured.
    pub fn of(spec: &RunSpec, grace_ms: u32, warden: &dyn Warden) -> Result<Self, AskError> {
        let none = SchedulerRequest::default();
        let asks = spec.scheduler.as_ref().unwrap_or(&none);
        check_request(asks, warden)?;
        let given = spec.resources.unwrap_or_default();
        let time_s = |time_ms: u64| time_ms.saturating_add(grace_ms.into()).div_ceil(1000);
        let asked = Self {
            resources: Resources {
                cpus: given.cpus.clamp(1.0, f64::from(u32::MAX)).ceil() as u32,
                hosts: asks.nodes,
                // `torchrun` starts the processes of a host itself.
                processes: match &*asks.launcher {
                    "torchrun" => 0,
                    _ => asks.processes,
                },
                memory_bytes: Some(given.memory_bytes).filter(|bytes| *bytes > 0),
                time_s: Some(given.time_ms).filter(|ms| *ms > 0).map(time_s),
                gpus: asks.gpus,
                gpu_type: name("gpu_type", &asks.gpu_type)?,
                exclusive: asks.exclusive,
            },
            fields: Fields {
                partition: name("partition", &asks.partition)?,
                account: name("account", &asks.account)?,
                qos: name("qos", &asks.qos)?,
                constraint: Some(asks.constraint.clone()).filter(|text| !text.is_empty()),
                queue: name("queue", &asks.queue)?,
                parallel_env: name("parallel_env", &asks.parallel_env)?,
                options: match warden.kind() {
                    Kind::Slurm => asks.sbatch_args.clone(),
                    Kind::Oge => asks.qsub_args.clone(),
                    // Its options stand in the lines of the configuration.
                    Kind::None | Kind::Generic => Vec::new(),
                },
            },
            setup: asks.setup.clone(),
            pack: asks.pack.max(1),
            at_once: Some(asks.at_once).filter(|most| *most > 0),
        };
        let job = Job {
            program: PathBuf::from("/"),
            folder: PathBuf::from("/"),
            min_free: 0,
        };
        warden.script(&asked.order(example(), Shape::of(1, 1), job))?;
        Ok(asked)
    }

    /// The submission of such runs. A task is given what one run asks for, for the
    /// time of all its runs.
    pub fn order(&self, name: JobName, shape: Shape, job: Job) -> Order {
        let mut resources = self.resources.clone();
        let all = |each: u64| each.saturating_mul(shape.runs.into()) + MARGIN_S;
        resources.time_s = resources.time_s.map(all);
        let limits = [self.at_once, shape.at_once_max].into_iter().flatten();
        Order {
            name,
            tasks: shape.tasks,
            at_once: limits.min().filter(|_| shape.tasks.is_some()),
            resources,
            fields: self.fields.clone(),
            setup: self.setup.clone(),
            job,
        }
    }
}

/// Refuses a request that this scheduler, or any, cannot honour. Names are not read here.
fn check_request(asks: &SchedulerRequest, warden: &dyn Warden) -> Result<(), AskError> {
    let own = [
        ("a part of a GPU", asks.gpu_micro > 0),
        ("gpus: unmanaged", asks.gpus_unmanaged),
        ("gpumem", asks.gpumem_bytes > 0),
    ];
    if let Some((own, _)) = own.into_iter().find(|(_, asked)| *asked) {
        return Err(AskError::OwnGpus(own, warden.name().into_owned()));
    }
    if asks.nodes > 1 && asks.pack > 1 {
        return Err(AskError::PackOfHosts(asks.pack));
    }
    let launcher = match &*asks.launcher {
        "srun" => Some("srun"),
        // Each host starts one, which only `srun` does.
        "torchrun" if asks.nodes > 1 => Some("torchrun over several hosts"),
        _ => None,
    };
    if let Some(launcher) = launcher.filter(|_| warden.kind() == Kind::Oge) {
        return Err(AskError::Launcher {
            launcher,
            of: "SLURM",
            here: warden.name().into_owned(),
        });
    }
    // Of the other launchers the order itself finds that.
    if asks.launcher == "torchrun" && !asks.processes.is_multiple_of(asks.nodes.max(1)) {
        let uneven = OrderError::Uneven {
            field: "processes",
            count: asks.processes,
            hosts: asks.nodes.max(1),
        };
        return Err(uneven.into());
    }
    if asks.at_once > 0 && !warden.limits_arrays() {
        return Err(AskError::AtOnce(warden.name().into_owned()));
    }
    Ok(())
}

/// Finds what only a scheduler can do for a run, on a node without one. Partitions,
/// accounts and options mean nothing there; without its GPUs the run would be
/// another one.
///
/// # Errors
/// The first such field.
pub fn bare(spec: &RunSpec) -> Result<(), AskError> {
    let Some(asks) = &spec.scheduler else {
        return Ok(());
    };
    let needed = [
        ("nodes", asks.nodes > 1),
        ("launcher: srun", asks.launcher == "srun"),
        ("exclusive", asks.exclusive),
    ];
    match needed.into_iter().find(|(_, needed)| *needed) {
        Some((field, _)) => Err(AskError::Bare(field)),
        None => Ok(()),
    }
}

/// The name of a submission that is shown and never made.
pub fn example() -> JobName {
    JobName::of(&"x".repeat(26)).expect("26 letters")
}

fn name(field: &'static str, text: &str) -> Result<Option<Word>, AskError> {
    if text.is_empty() {
        return Ok(None);
    }
    let word = Word::new(text).map_err(|why| AskError::Name {
        field,
        text: text.to_owned(),
        why,
    });
    word.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_warden::oge::Oge;
    use nero_warden::slurm::Slurm;
    use nero_wire::v1;

    const GRACE_MS: u32 = 30_000;

    fn spec(scheduler: SchedulerRequest) -> RunSpec {
        RunSpec {
            resources: Some(v1::Resources {
                cpus: 1.5,
                memory_bytes: 1 << 30,
                time_ms: 3_600_000,
            }),
            scheduler: Some(scheduler),
            ..RunSpec::default()
        }
    }

    #[test]
    fn a_run_asks_for_whole_cpus_and_for_more_time_than_its_own_limit() {
        let asked = TaskRequest::of(
            &spec(SchedulerRequest::default()),
            GRACE_MS,
            &Slurm::default(),
        )
        .unwrap();
        assert_eq!(asked.resources.cpus, 2);
        assert_eq!(asked.resources.memory_bytes, Some(1 << 30));
        let each = u64::from(GRACE_MS) / 1000 + 3600;
        let time_s = |runs| {
            let job = Job {
                program: PathBuf::from("/"),
                folder: PathBuf::from("/"),
                min_free: 0,
            };
            asked
                .order(example(), Shape::of(3, runs), job)
                .resources
                .time_s
        };
        assert_eq!(time_s(1), Some(each + MARGIN_S));
        assert_eq!(time_s(8), Some(8 * each + MARGIN_S), "of a pack");
        let bare = TaskRequest::of(&RunSpec::default(), GRACE_MS, &Slurm::default()).unwrap();
        assert_eq!(bare.resources.time_s, None);
        assert_eq!(bare.resources.cpus, 1);
    }

    #[test]
    fn names_that_a_shell_would_read_otherwise_are_refused_with_their_field() {
        for text in ["a;b", "a\nb", "$(id)", "-p", "a b", "a'"] {
            let request = SchedulerRequest {
                partition: text.to_owned(),
                ..SchedulerRequest::default()
            };
            let refused = TaskRequest::of(&spec(request), GRACE_MS, &Slurm::default()).unwrap_err();
            let text = refused.to_string();
            assert!(text.starts_with("`partition: "), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn a_node_without_a_scheduler_refuses_what_would_change_the_run_and_nothing_else() {
        let of = |request| bare(&spec(request)).map_err(|error| error.to_string());
        let none = SchedulerRequest {
            partition: "gpu".to_owned(),
            sbatch_args: vec!["--reservation=r".to_owned()],
            ..SchedulerRequest::default()
        };
        assert_eq!(of(none.clone()), Ok(()));
        let gpus = SchedulerRequest {
            gpus: 1,
            ..none.clone()
        };
        assert_eq!(of(gpus), Ok(()), "it gives its own");
        let setup = SchedulerRequest {
            setup: vec!["module load cuda".to_owned()],
            ..none
        };
        assert_eq!(of(setup), Ok(()));
        assert_eq!(bare(&RunSpec::default()), Ok(()));
    }

    #[test]
    fn what_a_scheduler_does_not_have_is_refused() {
        let of = |request: SchedulerRequest, warden: &dyn Warden| {
            TaskRequest::of(&spec(request), GRACE_MS, warden)
                .unwrap_err()
                .to_string()
        };
        let half = SchedulerRequest {
            gpu_micro: 500_000,
            ..SchedulerRequest::default()
        };
        assert!(of(half, &Slurm::default()).starts_with("`a part of a GPU` is for nodes without"));
        let memory = SchedulerRequest {
            gpus: 1,
            gpumem_bytes: 20 << 30,
            ..SchedulerRequest::default()
        };
        assert!(of(memory, &Slurm::default()).starts_with("`gpumem` is for nodes without"));
        let hosts = SchedulerRequest {
            nodes: 2,
            pack: 3,
            ..SchedulerRequest::default()
        };
        assert!(of(hosts, &Slurm::default()).contains("`pack: 3` is for runs on one host"));
        let odd = SchedulerRequest {
            nodes: 2,
            processes: 5,
            ..SchedulerRequest::default()
        };
        let expected = "`processes: 5` cannot be spread evenly over `nodes: 2`";
        assert_eq!(of(odd.clone(), &Slurm::default()), expected);
        assert_eq!(of(odd, &Oge::default()), expected);
        let hosts = SchedulerRequest {
            nodes: 2,
            ..SchedulerRequest::default()
        };
        assert!(of(hosts, &Oge::default()).contains("2 hosts need a parallel environment"));
        let torchrun = |processes| SchedulerRequest {
            launcher: "torchrun".to_owned(),
            nodes: 2,
            processes,
            ..SchedulerRequest::default()
        };
        assert_eq!(of(torchrun(5), &Slurm::default()), expected);
        assert!(
            of(torchrun(4), &Oge::default()).contains("`launcher: torchrun over several hosts`")
        );
        let srun = SchedulerRequest {
            launcher: "srun".to_owned(),
            ..SchedulerRequest::default()
        };
        assert!(of(srun, &Oge::default()).contains("`launcher: srun` is for SLURM"));
        let partition = SchedulerRequest {
            partition: "gpu".to_owned(),
            parallel_env: "smp".to_owned(),
            ..SchedulerRequest::default()
        };
        assert!(of(partition, &Oge::default()).contains("a field of SLURM"));
        let option = SchedulerRequest {
            sbatch_args: vec!["--array=1-9".to_owned()],
            ..SchedulerRequest::default()
        };
        assert!(of(option, &Slurm::default()).contains("is set by Neronet"));
    }
}
