//! Verbs that show experiments as they are, and logs.

use clap::Args;

use super::Json;
use super::complete::{picked, status_word, value_name};

/// `status`.
#[derive(Debug, Default, Args)]
pub struct Status {
    /// Experiments (all unless given); `nodes`, or the name of a node or group
    #[arg(value_name = "SEL|nodes|NODE", add = status_word())]
    pub picked: Vec<String>,
    #[command(flatten)]
    pub json: Json,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Show these columns: names of facts, parameters and metrics, and expressions
    #[arg(long, value_name = "A,B,…", add = value_name())]
    pub columns: Vec<String>,
    /// Sort by a column; `-COLUMN` from the end
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true, add = value_name())]
    pub sort: Option<String>,
    /// Go on showing changes until nothing is live
    #[arg(long)]
    pub watch: bool,
}

/// `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Experiments (all unless given)
    #[arg(value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
}

/// `web`.
#[derive(Debug, Args)]
pub struct Web {
    /// Experiments (all unless given)
    #[arg(value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Open the page in the browser of this desktop
    #[arg(long)]
    pub open: bool,
    /// The port of this machine (a free one unless given)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Listen on a Unix socket that is yours alone, for ssh to forward, and on no port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "open"])]
    pub socket: Option<String>,
    /// Change nothing from the page
    #[arg(long)]
    pub read_only: bool,
}

/// `mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Experiments that a tool is about which is called without a selector (all unless given)
    #[arg(value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Change nothing
    #[arg(long)]
    pub read_only: bool,
}

/// `show`.
#[derive(Debug, Args)]
pub struct Show {
    /// An experiment (144) or a run (144.2)
    #[arg(value_name = "ID|RUN", add = picked())]
    pub picked: String,
    #[command(flatten)]
    pub json: Json,
}

/// `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// Experiments or runs; of several, the last lines of each (10 without --lines)
    #[arg(default_value = "last", value_name = "SEL|RUN", add = picked())]
    pub picked: Vec<String>,
    /// Print further output as it comes, until the run has ended
    #[arg(long, short)]
    pub follow: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    pub stderr: bool,
    /// Of a run that its scheduler or a restart of its machine began anew: this start, not the newest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub start: Option<u32>,
    /// Only the last lines
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub lines: Option<u64>,
}
