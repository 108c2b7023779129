//! What the verbs accept that compare runs and hand them to others.

use clap::Args;

use super::{Json, picked};

/// `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// An experiment (144) or a run (144.2)
    #[arg(value_name = "ID|RUN", add = picked())]
    pub one: String,
    /// The other one
    #[arg(value_name = "ID|RUN", add = picked())]
    pub other: String,
    #[command(flatten)]
    pub json: Json,
}

/// `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Experiments or runs, as `neroman help selectors` explains
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// The file to write: NAME.zip
    #[arg(long, short, value_name = "FILE")]
    pub output: String,
    #[command(flatten)]
    pub json: Json,
}

/// `open`.
#[derive(Debug, Args)]
pub struct OpenResults {
    /// Experiments or runs, as `neroman help selectors` explains
    #[arg(required = true, value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    #[command(flatten)]
    pub json: Json,
}

/// `backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file; an older backup of that name is replaced
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: String,
    /// Fill this home, which must be empty, from the file
    #[arg(long)]
    pub restore: bool,
    #[command(flatten)]
    pub json: Json,
}
