//! What `noodles` and `import` accept.

use std::time::Duration;

use clap::Args;

use super::live::duration;

/// `noodles`.
#[derive(Debug, Args)]
pub struct Noodles {
    /// The command type: run, stop, or any other that the spec has commands for
    #[arg(value_name = "TYPE", required_unless_present = "resume")]
    pub command_type: Option<String>,
    /// The spec; behind a colon the names of the experiments that are meant
    #[arg(value_name = "SPEC[:NAME,…]", value_hint = clap::ValueHint::FilePath, required_unless_present = "resume")]
    pub spec: Option<String>,
    /// Show what would be done in which order, what can never be, and what is probably
    /// meant otherwise; nothing is run, and no server is asked
    #[arg(long)]
    pub check: bool,
    /// Print rounds, checks and servers, too
    #[arg(short, long)]
    pub verbose: bool,
    /// Print scripts and shell lines, too
    #[arg(short, long)]
    pub debug: bool,
    /// Print no log at all
    #[arg(short, long)]
    pub silent: bool,
    /// Place nothing more after this time; --resume goes on
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// Longest time of one probe of a server
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub probe_limit: Duration,
    /// Connect anew for each group, as the original does, in place of keeping connections
    #[arg(long, conflicts_with = "check")]
    pub own_connections: bool,
    /// Return at once; the flow goes on without the terminal
    #[arg(long, conflicts_with = "check")]
    pub detach: bool,
    /// Go on with a flow that was interrupted or ended with an error; without FLOW: which ones
    /// there are
    #[arg(long, value_name = "FLOW", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["command_type", "spec", "check"])]
    pub resume: Option<String>,
    /// In a session of its own, so that the end of a terminal does not end it
    #[arg(long, hide = true, requires = "resume")]
    pub own_session: bool,
}

/// `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// A spec of Training Noodles, behind a colon the names of the experiments that are meant; or
    /// the folder of a project of mlframework
    #[arg(value_name = "SPEC[:NAME,…]|FOLDER", value_hint = clap::ValueHint::AnyPath)]
    pub source: String,
    /// Of a spec the command type whose commands are imported [default: run]
    #[arg(long = "type", value_name = "TYPE")]
    pub command_type: Option<String>,
    /// The file to write; - prints it [default: neronet.yaml, for a project beside its folder]
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<String>,
}
