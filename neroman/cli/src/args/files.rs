//! What the verbs about files and commands on nodes accept.

use clap::Args;

use super::{Json, Trial, node_name, node_or_run, picked};

/// `fetch`.
#[derive(Debug, Args)]
pub struct Fetch {
    /// Experiments (all unless given)
    #[arg(value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// These files of the working folder instead of `outputs:`
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `clean`.
#[derive(Debug, Args)]
pub struct Clean {
    /// Experiments (all that have ended and are home, unless given)
    #[arg(value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// Only on this node
    #[arg(long, value_name = "NAME", add = node_name())]
    pub node: Option<String>,
    /// Also runs whose files were never fetched
    #[arg(long)]
    pub unfetched: bool,
    /// Also images of containers that were brought and that no live or waiting run names
    #[arg(long)]
    pub images: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub trial: Trial,
}

/// `du`.
#[derive(Debug, Args)]
pub struct Du {
    /// Only this node
    #[arg(value_name = "NODE", add = node_name())]
    pub node: Option<String>,
    /// Show each run, too
    #[arg(long)]
    pub runs: bool,
    #[command(flatten)]
    pub json: Json,
}

/// `shell`.
#[derive(Debug, Args)]
pub struct Shell {
    /// A node, or a run or experiment, whose folder is entered
    #[arg(value_name = "NODE|RUN", add = node_or_run())]
    pub what: String,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// A node, or a run or experiment, whose folder is entered
    #[arg(value_name = "RUN|NODE", add = node_or_run())]
    pub what: String,
    /// The program and its arguments, after `--`; no shell reads them
    #[arg(value_name = "CMD", required = true, last = true)]
    pub command: Vec<String>,
}

/// `path`.
#[derive(Debug, Args)]
pub struct Paths {
    /// Experiments, as `neroman help selectors` explains
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// The working folder on the node instead of the results
    #[arg(long, alias = "remote")]
    pub work: bool,
    #[command(flatten)]
    pub json: Json,
}
