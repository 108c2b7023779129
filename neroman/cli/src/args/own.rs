//! What a person says and sets of experiments, beside their sources, and what is hidden.

use clap::Args;

use super::Trial;
use super::complete::{param_name, param_to_set, picked, picked_or_removed};

/// `set`.
#[derive(Debug, Args)]
pub struct Set {
    /// Experiments, as `neroman help selectors` explains
    #[arg(value_name = "SEL", add = picked())]
    pub picked: String,
    /// A parameter (lr=0.1) or a field (node=local, resources.memory=8G, env.SEED=3); it
    /// stays until the source itself changes that value
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset", add = param_to_set())]
    pub values: Vec<String>,
    /// Take the source's value again
    #[arg(long, value_name = "KEY", add = param_name())]
    pub unset: Vec<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `copy`.
#[derive(Debug, Args)]
pub struct Copy {
    /// The experiment; its copy follows the same source
    #[arg(value_name = "ID", add = picked())]
    pub picked: String,
    /// The name of the copy
    pub name: String,
    /// A value of the copy, as for `set`
    #[arg(long, value_name = "KEY=VALUE", add = param_to_set())]
    pub set: Vec<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `note`.
#[derive(Debug, Args)]
pub struct Note {
    /// Experiments, as `neroman help selectors` explains
    #[arg(value_name = "SEL", add = picked())]
    pub picked: String,
    /// The remark, in place of the one before; '' removes it
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `tag`.
#[derive(Debug, Args)]
pub struct Tag {
    /// Experiments, as `neroman help selectors` explains
    #[arg(value_name = "SEL", add = picked())]
    pub picked: String,
    /// `+NAME` adds a tag, `-NAME` takes it away; letters, digits and `_ - . /`
    #[arg(
        value_name = "+NAME|-NAME",
        required = true,
        allow_hyphen_values = true
    )]
    pub tags: Vec<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `rm`.
#[derive(Debug, Args)]
pub struct Remove {
    /// Experiments; one with a live run stays. Their results stay, and no other
    /// experiment ever gets their numbers
    #[arg(required = true, value_name = "SEL", add = picked_or_removed())]
    pub picked: Vec<String>,
    /// Bring back what was removed
    #[arg(long)]
    pub undo: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub trial: Trial,
}
