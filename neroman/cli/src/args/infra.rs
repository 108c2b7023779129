//! What `infra` accepts.

use clap::{Args, Subcommand};

use super::{Json, Warden, group_name};

/// `infra`.
#[derive(Debug, Subcommand)]
pub enum InfraVerb {
    /// Make hosts ready, all at once; again to go on with what is missing
    #[command(
        after_help = "Examples:\n  neroman infra up lab -a ada@h1,ada@h2,h3\n  neroman infra up lab -a h1,h2 -w local,1,2 --image python:3.12\n  neroman infra up lab -f config.sh"
    )]
    Up(Box<InfraUp>),
    /// The hosts, their images, and the experiments there
    #[command(after_help = "Examples:\n  neroman infra status lab\n  neroman infra status --json")]
    Status {
        /// The set of hosts
        #[arg(value_name = "NAME", default_value = "infra", add = group_name())]
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Replace agents, and images where nothing runs
    #[command(
        after_help = "Examples:\n  neroman infra update lab\n  neroman infra update lab --now"
    )]
    Update {
        /// The set of hosts
        #[arg(value_name = "NAME", default_value = "infra", add = group_name())]
        name: String,
        /// Replace images also where runs are live; these keep the one that they have
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        json: Json,
    },
    /// End the runs there, remove what was brought for them, and forget the hosts
    #[command(
        after_help = "Examples:\n  neroman infra down lab\n  neroman infra down lab --purge --yes"
    )]
    Down {
        /// The set of hosts
        #[arg(value_name = "NAME", default_value = "infra", add = group_name())]
        name: String,
        /// Remove our files there, too
        #[arg(long)]
        purge: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        json: Json,
    },
}

/// `infra up`.
#[derive(Debug, Args)]
pub struct InfraUp {
    /// What the set is to be called; its nodes are NAME-1, NAME-2, …
    #[arg(value_name = "NAME", default_value = "infra", add = group_name())]
    pub name: String,
    /// The hosts, as `ssh` takes them (those that the set has)
    #[arg(short = 'a', long, value_name = "[USER@]HOST,…")]
    pub hosts: Option<String>,
    /// A private key that `ssh` tries for all of them, too
    #[arg(short = 'i', long, value_name = "KEY", value_hint = clap::ValueHint::FilePath)]
    pub key: Option<String>,
    /// Folder for our files there; below the home, unless it begins with `/`, `~` or `$` (~/.neronet)
    #[arg(short = 'r', long, value_name = "DIR")]
    pub root: Option<String>,
    /// Which of them, by their numbers from 1; 0 or `local` is this machine (all of them)
    #[arg(short = 'w', long, value_name = "local,1,2")]
    pub workers: Option<String>,
    /// Read all of this from the config.sh or infra.csv of mlframework
    #[arg(short = 'f', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["hosts", "key", "root", "workers"])]
    pub file: Option<String>,
    /// Image in which runs there are executed, as `container:` takes it; brought now
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// CPUs that runs may use of each host (all)
    #[arg(long, value_name = "N")]
    pub cpus: Option<f64>,
    /// What schedules there (the one that is found)
    #[arg(long, value_name = "W")]
    pub warden: Option<Warden>,
    /// Taken and not needed: a project travels with its runs
    #[arg(short = 'd', value_name = "DIR", hide = true)]
    pub folder: Option<String>,
    /// Taken and not needed: there is no master
    #[arg(short = 'm', value_name = "HOST", hide = true)]
    pub master: Option<String>,
    /// Taken and not needed: there is no broker
    #[arg(short = 'b', value_name = "ADDRESS", hide = true)]
    pub broker: Option<String>,
    #[command(flatten)]
    pub json: Json,
}
