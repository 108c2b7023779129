//! What the verbs about nodes accept.

use clap::{Args, Subcommand, ValueEnum};

use super::{Json, Trial, node_name};

/// `node`.
#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// Connect to a machine, report what was found, and keep it
    #[command(
        after_help = "Examples:\n  neroman node add alpha ada@alpha.example.org\n  neroman node add beta beta --cpus 16 --memory 64G --dry-run"
    )]
    Add(NodeAdd),
    /// Make this machine, which no ssh reaches, a node of the neroman on another one
    #[command(
        after_help = "Examples:\n  neroman node join ada@head.example.org\n  neroman node join head --name desk --gpus 1"
    )]
    Join(NodeJoin),
    /// The end of `node join` at the head; the machine that joins starts it
    #[command(hide = true)]
    Welcome(NodeWelcome),
    /// Forget a node; its files stay there
    #[command(after_help = "Examples:\n  neroman node rm alpha\n  neroman node rm alpha --dry-run")]
    Rm(NodeEnd),
    /// The nodes and their state
    #[command(after_help = "Examples:\n  neroman node list\n  neroman node list --json")]
    List(Json),
    /// A node, what its scheduler has and how often that was asked, and the experiments there
    #[command(
        after_help = "Examples:\n  neroman node status alpha\n  neroman node status alpha --json"
    )]
    Status {
        /// Its name
        #[arg(value_name = "NAME", add = node_name())]
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Examine a node: its programs, limits and disks
    #[command(
        after_help = "Examples:\n  neroman node doctor alpha\n  neroman node doctor alpha --short"
    )]
    Doctor {
        /// Its name
        #[arg(value_name = "NAME", add = node_name())]
        name: String,
        /// Only the versions of the NVIDIA driver, CUDA and cuDNN; x: it is not there
        #[arg(long, conflicts_with = "json")]
        short: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Open the way to a node in this terminal: passwords and codes are asked here
    #[command(
        after_help = "Examples:\n  neroman node connect alpha\n  neroman node connect alpha --json"
    )]
    Connect {
        /// Its name
        #[arg(value_name = "NAME", add = node_name())]
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Give up a node that will never answer again: its runs are over
    #[command(
        after_help = "Examples:\n  neroman node gone alpha --dry-run\n  neroman node gone alpha --yes"
    )]
    Gone(NodeEnd),
    /// Move here what a lost machine's neroman ran on a node
    #[command(
        after_help = "Examples:\n  neroman node take-over alpha --dry-run\n  neroman node take-over alpha --deployment 3f9c21ab"
    )]
    TakeOver(NodeTakeOver),
}

/// `node rm` and `node gone`.
#[derive(Debug, Args)]
pub struct NodeEnd {
    /// Its name
    #[arg(value_name = "NAME", add = node_name())]
    pub name: String,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub trial: Trial,
}

/// `node take-over`.
#[derive(Debug, Args)]
pub struct NodeTakeOver {
    /// Its name
    #[arg(value_name = "NAME", add = node_name())]
    pub name: String,
    /// The 8 characters of the deployment, when several lie there
    #[arg(long, value_name = "ID")]
    pub deployment: Option<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `node join`.
#[derive(Debug, Args)]
pub struct NodeJoin {
    /// The machine of the neroman, the head: whatever `ssh` accepts
    #[arg(value_name = "HEAD")]
    pub head: String,
    /// What this machine is to be called there (its host name)
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Folder for our files here (~/.neronet)
    #[arg(long, value_name = "DIR")]
    pub root: Option<String>,
    /// CPUs that runs may use (all)
    #[arg(long, value_name = "N")]
    pub cpus: Option<f64>,
    /// How many GPUs runs may use (all)
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// The program neroman there
    #[arg(long, value_name = "PATH", default_value = "neroman")]
    pub program: String,
}

/// `node welcome`.
#[derive(Debug, Args)]
pub struct NodeWelcome {
    /// Only connect standard input and output to this socket
    #[arg(long, value_name = "PATH")]
    pub pipe: Option<String>,
}

/// `node add`.
#[derive(Debug, Args)]
pub struct NodeAdd {
    /// What it is to be called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Whatever `ssh` accepts: a host, user@host, or a name of ~/.ssh/config
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Folder for our files there, e.g. '$WRKDIR/neronet' (~/.neronet)
    #[arg(long, value_name = "DIR")]
    pub root: Option<String>,
    /// CPUs that runs may use (all)
    #[arg(long, value_name = "N")]
    pub cpus: Option<f64>,
    /// Memory that runs may use, as 64G (not counted)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Whether other machines share its home (told by its file system)
    #[arg(long, value_name = "yes|no")]
    pub shared: Option<YesNo>,
    /// What schedules there (the one that is found)
    #[arg(long, value_name = "W")]
    pub warden: Option<Warden>,
    /// Keep it although it does not answer now
    #[arg(long)]
    pub without_test: bool,
    /// Connect and say what is found; keep nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub json: Json,
}

/// yes or no.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum YesNo {
    /// The home is shared.
    Yes,
    /// The home is not shared.
    No,
}

/// Schedulers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Warden {
    /// No scheduler: runs start as fast as CPUs are free.
    None,
    /// SLURM.
    Slurm,
    /// Grid Engine.
    Oge,
    /// Commands from the configuration.
    Generic,
}

impl Warden {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Slurm => "slurm",
            Self::Oge => "oge",
            Self::Generic => "generic",
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    nero_model::units::parse_bytes(text).map_err(|error| error.to_string())
}
