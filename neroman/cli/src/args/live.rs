//! Verbs that start and end runs, and wait for them.

use std::time::Duration;

use clap::Args;

use super::complete::{node_name, param_to_set, picked, picked_or_path, target_name, value_name};
use super::{Json, Trial};

/// What `start` and `restart` share.
#[derive(Debug, Args)]
pub struct Launch {
    /// The node or group to run on, or any
    #[arg(long, value_name = "NODE|GROUP|any", env = "NERONET_NODE", add = target_name())]
    pub node: Option<String>,
    /// Run at most this many of them at once, over all their nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub at_most: Option<u32>,
    /// Start them before runs of a lower priority (0 is usual) where both wait on a node
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Start first the runs whose value of this expression is smallest: `lr`, or `-loss`
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, add = value_name())]
    pub order: Option<String>,
    /// Run the first one alone, and the others when it has finished
    #[arg(long)]
    pub pilot: bool,
    /// Wait until they have ended, as `wait` does
    #[arg(long)]
    pub wait: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: print the batch scripts that a scheduler would get
    #[arg(long, requires = "dry_run")]
    pub show_script: bool,
    /// Do not read the sources again
    #[arg(long)]
    pub as_added: bool,
    /// Take a large snapshot of the code without asking
    #[arg(long)]
    pub big: bool,
    #[command(flatten)]
    pub json: Json,
}

/// `start`.
#[derive(Debug, Args)]
pub struct Start {
    /// Experiments, or a folder or file, which is added first
    #[arg(required = true, value_name = "SEL|PATH", add = picked_or_path())]
    pub picked: Vec<String>,
    /// Do not ask before a start that costs much
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub launch: Launch,
}

/// `restart`.
#[derive(Debug, Args)]
pub struct Restart {
    /// Experiments, as `neroman help selectors` explains
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Start even if the previous run may still be running (state `lost`)
    #[arg(long)]
    pub abandon: bool,
    /// Copy the `checkpoint:` files of the previous run
    #[arg(long)]
    pub resume: bool,
    /// With the parameters and the code of the newest run, whatever changed since
    #[arg(long, conflicts_with_all = ["set", "as_added"])]
    pub same_code: bool,
    /// Set a parameter or field first, as `neroman set` does
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "as_added", add = param_to_set())]
    pub set: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub launch: Launch,
}

/// `abort`.
#[derive(Debug, Args)]
pub struct Abort {
    /// Experiments or runs: 144 stands for all its live runs, 144.2 for that run
    /// alone. A run that its node has lost is given up
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Time from the polite signal to SIGKILL, as 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = grace)]
    pub grace: Option<u32>,
    /// The polite signal, as TERM, SIGINT or 15
    #[arg(long, value_parser = signal)]
    pub signal: Option<i32>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub trial: Trial,
}

/// `pause` and `resume`.
#[derive(Debug, Args)]
pub struct Pause {
    /// Experiments or runs. At a scheduler a waiting run is held, and a running one
    /// keeps all that it was given
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub trial: Trial,
}

/// `adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Node with the scheduler
    #[arg(add = node_name())]
    pub node: String,
    /// Numbers of the jobs: 48213, or 48213_7 (48213.7) for a task of an array
    #[arg(required = true, value_name = "JOBID")]
    pub jobs: Vec<String>,
    /// What the job prints, as a path there; its scheduler tells it otherwise
    #[arg(long, value_name = "PATH")]
    pub log: Option<String>,
    #[command(flatten)]
    pub json: Json,
}

/// `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// Experiments, as `neroman help selectors` explains
    #[arg(default_value = "last", value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Wait no longer than this (90s, 2h); exit code 1 if some had not ended by then
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Return as soon as one has ended; exit code 0 when it finished
    #[arg(long)]
    pub any: bool,
    #[command(flatten)]
    pub json: Json,
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let ms = nero_model::units::parse_duration_ms(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(ms))
}

fn grace(text: &str) -> Result<u32, String> {
    let ms = nero_model::units::parse_duration_ms(text).map_err(|error| error.to_string())?;
    u32::try_from(ms).map_err(|_| "longer than 49 days".into())
}

fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    (1..=31)
        .find(|number| {
            number.to_string() == name
                || nero_model::state::signal_name(*number).strip_prefix("SIG") == Some(name)
        })
        .ok_or_else(|| format!("`{text}` is no signal"))
}
