//! What is submitted: a job or an array, its resources, and the script of its tasks.

use std::path::{Path, PathBuf};

use nero_model::setup::{TRAP, UNTRAP};

use crate::{JobName, Word};

/// One submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Its name.
    pub name: JobName,
    /// Tasks `0` to `tasks - 1` of an array; `None`: a plain job.
    pub tasks: Option<u32>,
    /// Tasks of the array that may run at once.
    pub at_once: Option<u32>,
    /// What each task is given.
    pub resources: Resources,
    /// Where it goes, and for whom it counts.
    pub fields: Fields,
    /// Lines of the user's shell before our program, such as `module load`.
    pub setup: Vec<String>,
    /// What each task executes.
    pub job: Job,
}

/// Resources of each task, on all of its hosts together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// CPUs, at least 1.
    pub cpus: u32,
    /// Hosts; 0 means 1.
    pub hosts: u32,
    /// Processes that a launcher such as `srun` starts, as many on each host; 0: one
    /// on each host.
    pub processes: u32,
    /// Memory in bytes; `None`: what the site gives.
    pub memory_bytes: Option<u64>,
    /// Time limit in seconds; `None`: what the site gives.
    pub time_s: Option<u64>,
    /// GPUs.
    pub gpus: u32,
    /// Their type.
    pub gpu_type: Option<Word>,
    /// No other job on its hosts.
    pub exclusive: bool,
}

/// What one host of a task gives, all of them the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Processes of a launcher.
    pub processes: u32,
    /// CPUs of one process.
    pub cpus_each: u32,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// GPUs.
    pub gpus: u32,
}

impl Resources {
    /// Hosts, at least 1.
    pub fn hosts(&self) -> u32 {
        self.hosts.max(1)
    }

    /// Processes of a launcher, at least one on each host.
    pub fn processes(&self) -> u32 {
        match self.processes {
            0 => self.hosts(),
            given => given,
        }
    }

    /// CPUs of all hosts, at least one for each process.
    pub fn cpus_in_all(&self) -> u32 {
        let processes = self.processes();
        self.cpus
            .max(1)
            .div_ceil(processes)
            .saturating_mul(processes)
    }

    /// Whether it is more than one process on one host.
    pub fn is_spread(&self) -> bool {
        self.processes() > 1
    }

    /// What each host gives. CPUs and memory are rounded up.
    ///
    /// # Errors
    /// When processes or GPUs cannot be spread evenly.
    pub fn share(&self) -> Result<Share, OrderError> {
        let hosts = self.hosts();
        let even = |field, count: u32| match count % hosts {
            0 => Ok(count / hosts),
            _ => Err(OrderError::Uneven {
                field,
                count,
                hosts,
            }),
        };
        Ok(Share {
            processes: even("processes", self.processes())?,
            cpus_each: self.cpus.max(1).div_ceil(self.processes()),
            memory_bytes: self.memory_bytes.map(|bytes| bytes.div_ceil(hosts.into())),
            gpus: even("gpus", self.gpus)?,
        })
    }
}

/// Fields of a submission that the scheduler's site defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Partition (SLURM).
    pub partition: Option<Word>,
    /// Account (SLURM), project (Grid Engine).
    pub account: Option<Word>,
    /// Quality of service (SLURM).
    pub qos: Option<Word>,
    /// Features of the host, for example `ib&avx2` (SLURM).
    pub constraint: Option<String>,
    /// Queue (Grid Engine).
    pub queue: Option<Word>,
    /// Parallel environment that gives several CPUs (Grid Engine).
    pub parallel_env: Option<Word>,
    /// The user's own options of the scheduler, in the script, as
    /// [`options`](crate::options) allows them.
    pub options: Vec<String>,
}

impl Fields {
    /// Checks the characters of `constraint`, which is no [`Word`].
    pub(crate) fn check_constraint(&self) -> Result<(), OrderError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-&|*[]()".contains(c);
        match &self.constraint {
            Some(text) if text.is_empty() || !text.chars().all(fits) => {
                Err(OrderError::Constraint(text.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// `neromum job FOLDER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The program.
    pub program: PathBuf,
    /// The submission's folder.
    pub folder: PathBuf,
    /// Bytes of its disk that stay free.
    pub min_free: u64,
}

/// Reason why a submission cannot be written as a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A path that no script can hold safely.
    #[error(
        "a batch script takes an absolute path in UTF-8 without line breaks, and {0:?} is none: \
         give the node another `root:`"
    )]
    Path(PathBuf),
    /// A line of `setup` that is more than one line.
    #[error("a line of setup: holds a line break or a zero byte: {0:?}")]
    Setup(String),
    /// A line of `setup` that a scheduler reads as an option.
    #[error(
        "{0:?} in `setup` is an option of the scheduler: write it into `sbatch_args` or `qsub_args`"
    )]
    SetupOption(String),
    /// Features with other characters than names, `&`, `|`, `*`, `[`, `]`, `(`, `)`.
    #[error("{0:?} is no constraint of SLURM: it has names, & | * [ ] ( ) and numbers")]
    Constraint(String),
    /// An option that is refused.
    #[error(transparent)]
    Option(#[from] crate::options::OptionError),
    /// Grid Engine gives several CPUs of a host through a parallel environment only.
    #[error("{0} CPUs need a parallel environment of this site: `parallel_env: NAME`")]
    ParallelEnv(u32),
    /// Several hosts of Grid Engine come from a parallel environment only.
    #[error("{0} hosts need a parallel environment of this site: `parallel_env: NAME`")]
    HostsEnv(u32),
    /// A scheduler of the configuration.
    #[error("`nodes`: runs over several hosts are for SLURM and Grid Engine, and not for {0}")]
    OneHost(String),
    /// Hosts that would get different amounts.
    #[error("`{field}: {count}` cannot be spread evenly over `nodes: {hosts}`")]
    Uneven {
        /// The field.
        field: &'static str,
        /// Its value.
        count: u32,
        /// Hosts.
        hosts: u32,
    },
    /// GPUs that the slots of Grid Engine do not share evenly.
    #[error(
        "`gpus: {gpus}` over {slots} slots: Grid Engine counts `-l gpu` for each slot, so it would get \
         {} GPUs; ask for a number that the slots share evenly",
        gpus.div_ceil(*slots) * slots
    )]
    UnevenSlots {
        /// GPUs of the run.
        gpus: u32,
        /// Its slots.
        slots: u32,
    },
    /// GPUs of Grid Engine on several hosts, where a request takes those of the first.
    #[error(
        "`gpus` cannot be spread over {0} hosts: this Grid Engine counts the complex `gpu` once per job \
         (`JOB` in `qconf -sc`), so only the first host would give GPUs; ask for `nodes: 1`"
    )]
    GpusOfJob(u32),
    /// An option that asks for the same as a field does.
    #[error("`{option}` asks for what `{field}` asks for: one of them is enough")]
    Twice {
        /// The option.
        option: String,
        /// The field.
        field: &'static str,
    },
    /// A field that the description of a scheduler does not pass on.
    #[error("`{field}` is not passed on to {here}: no line of its `header` contains {{{name}}}")]
    NotPassed {
        /// The field.
        field: &'static str,
        /// The name that stands for it in a line.
        name: &'static str,
        /// The node's scheduler.
        here: String,
    },
    /// A field of another scheduler.
    #[error("`{field}` is a field of {of}; this node's scheduler is {here}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its scheduler.
        of: &'static str,
        /// The node's scheduler.
        here: &'static str,
    },
}

/// A path between single quotes.
pub(crate) fn quoted(path: &Path) -> Result<String, OrderError> {
    let odd = || OrderError::Path(path.to_path_buf());
    let text = path.to_str().ok_or_else(odd)?;
    if path.is_absolute() && !text.contains(['\n', '\r', '\0']) {
        Ok(format!("'{}'", text.replace('\'', r"'\''")))
    } else {
        Err(odd())
    }
}

/// Beginning of the line about lines of `setup` that ended the script.
pub const SETUP_ENDED: &str = "setup: ended the job with exit code ";

/// What the lines of `setup` print is a file of the submission: `neromum job` puts it into the
/// output of its runs. A script that ends among them shows it to the scheduler.
const BEFORE_SETUP: &str = r#"exec 8>&1 9>&2 > "$nero_setup" 2>&1
trap 'nero_code=$?; cat "$nero_setup" >&9; echo "setup: ended the job with exit code $nero_code"' EXIT
"#;
const AFTER_SETUP: &str = "trap - EXIT\nexec >&8 2>&9 8>&- 9>&-\n";

impl Order {
    /// The lines of the user, and `exec` of our program with words that the shell
    /// expands: `task` and `id` are expressions of the scheduler's variables.
    pub(crate) fn lines(&self, task: &str, id: &str) -> Result<String, OrderError> {
        let program = quoted(&self.job.program)?;
        let folder = quoted(&self.job.folder)?;
        let mut lines = String::new();
        if !self.setup.is_empty() {
            lines.push_str(&format!(
                "nero_setup={folder}/\"{task}\".setup\n{BEFORE_SETUP}{TRAP}"
            ));
        }
        for line in &self.setup {
            if line.contains(['\n', '\r', '\0']) {
                return Err(OrderError::Setup(line.clone()));
            }
            let is_option = |sign: &&str| line.starts_with(*sign);
            if ["#$", "#SBATCH", "#PBS", "#BSUB"].iter().any(is_option) {
                return Err(OrderError::SetupOption(line.clone()));
            }
            lines.push_str(line);
            lines.push('\n');
        }
        if !self.setup.is_empty() {
            lines.push_str(UNTRAP);
            lines.push_str(AFTER_SETUP);
        }
        lines.push_str(&format!("exec {program} job {folder} --task \"{task}\""));
        lines.push_str(&format!(" --cpus {}", self.resources.cpus_in_all()));
        if self.resources.gpus > 0 {
            lines.push_str(&format!(" --gpus {}", self.resources.gpus));
        }
        if let Some(bytes) = self.resources.memory_bytes {
            lines.push_str(&format!(" --memory {bytes}"));
        }
        lines.push_str(&format!(" --min-free {}", self.job.min_free));
        if !self.setup.is_empty() {
            lines.push_str(" --setup \"$nero_setup\"");
        }
        lines.push_str(&format!(" --job \"{id}\"\n"));
        Ok(lines)
    }

    /// Where the scheduler's own remarks about a task go, when the path may stand in
    /// a command; the scheduler replaces `index`.
    pub(crate) fn remarks(&self, index: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/_.+-@".contains(c);
        match self.job.folder.to_str() {
            Some(folder) if folder.chars().all(plain) => format!("{folder}/{index}.scheduler"),
            _ => "/dev/null".to_owned(),
        }
    }
}
