//! The words by which a node gives its runs what they ask of its scheduler where they ask nothing
//! else. Experiments have the same words.

use crate::settings::Kind;

/// A word of a node for its scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWord {
    Partition,
    Account,
    Qos,
    Constraint,
    Queue,
    ParallelEnv,
    GpuType,
    Launcher,
    Exclusive,
    Setup,
    Container,
    SbatchArgs,
    QsubArgs,
}

impl NodeWord {
    /// Every word, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Partition,
        Self::Account,
        Self::Qos,
        Self::Constraint,
        Self::Queue,
        Self::ParallelEnv,
        Self::GpuType,
        Self::Launcher,
        Self::Exclusive,
        Self::Setup,
        Self::Container,
        Self::SbatchArgs,
        Self::QsubArgs,
    ];

    /// The word as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Account => "account",
            Self::Qos => "qos",
            Self::Constraint => "constraint",
            Self::Queue => "queue",
            Self::ParallelEnv => "parallel_env",
            Self::GpuType => "gpu_type",
            Self::Launcher => "launcher",
            Self::Exclusive => "exclusive",
            Self::Setup => "setup",
            Self::Container => "container",
            Self::SbatchArgs => "sbatch_args",
            Self::QsubArgs => "qsub_args",
        }
    }

    /// The word that is written so.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// Whether a node without a scheduler has the word, too.
    pub fn is_for_any_node(self) -> bool {
        matches!(self, Self::Setup | Self::Container)
    }

    /// Refuses a scheduler that does not have the word.
    ///
    /// # Errors
    /// What that scheduler has in its place; may be empty.
    pub fn check(self, kind: Kind) -> Result<(), &'static str> {
        match (self, kind) {
            (Self::SbatchArgs | Self::QsubArgs, Kind::Generic) => {
                Err("a line in `header:` of `scheduler:` gives it to every job")
            }
            (Self::Partition, Kind::Oge) => Err("Grid Engine has queues: `queue:`"),
            (Self::Qos | Self::Constraint, Kind::Oge) => Err(""),
            (Self::SbatchArgs, Kind::Oge) => Err("options of Grid Engine stand in `qsub_args:`"),
            (Self::Queue, Kind::Slurm) => Err("SLURM has partitions: `partition:`"),
            (Self::ParallelEnv, Kind::Slurm) => Err("SLURM gives CPUs without it"),
            (Self::QsubArgs, Kind::Slurm) => Err("options of SLURM stand in `sbatch_args:`"),
            (_, Kind::None | Kind::Slurm | Kind::Oge | Kind::Generic) => Ok(()),
        }
    }
}
