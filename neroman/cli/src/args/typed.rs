//! `add`, `run`, which adds what is typed, and `template`.

use clap::Args;

use super::Trial;
use super::complete::target_name;

/// `add`.
#[derive(Debug, Args)]
pub struct Add {
    /// Folders (neronet.yaml, else config.yaml), YAML files, tables (.xlsx, .ods, .csv), rows of
    /// parameters as JSON lines (.jsonl; `-` is standard input)
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// YAML file with the fields for all rows of a table (else the one of its name)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub with: Option<String>,
    /// Add N to the numbers of a table's rows
    #[arg(long, value_name = "N")]
    pub offset: Option<u64>,
    /// The command of rows of parameters, as 'python3 main.py {lr}'
    #[arg(long, value_name = "CMD", conflicts_with = "to")]
    pub command: Option<String>,
    /// The +block of the folder's neronet.yaml that rows of parameters are experiments of
    #[arg(long, value_name = "BLOCK")]
    pub to: Option<String>,
    #[command(flatten)]
    pub trial: Trial,
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunCommand {
    /// Values of a parameter, `lr=0.1,0.01`, or a half-open range, `n=1:5` or `x=0:1:0.25`. Each
    /// combination is an experiment
    #[arg(long = "param", short, value_name = "NAME=VALUES")]
    pub params: Vec<String>,
    /// The node or group to run on, or any
    #[arg(long, value_name = "NODE|GROUP|any", env = "NERONET_NODE", add = target_name())]
    pub node: Option<String>,
    /// Return when they are started
    #[arg(long)]
    pub detach: bool,
    /// Take a large snapshot of the code without asking
    #[arg(long)]
    pub big: bool,
    #[command(flatten)]
    pub trial: Trial,
    /// The command; `{lr}` is the place of the parameter lr
    #[arg(
        required = true,
        value_name = "CMD",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<String>,
}

/// `template`.
#[derive(Debug, Args)]
pub struct Template {
    /// The name of the experiment
    #[arg(required_unless_present = "schema")]
    pub name: Option<String>,
    /// The command; `{x}` is a place for the parameter x. Options go behind `--`
    #[arg(value_name = "CMD", required_unless_present = "schema")]
    pub command: Vec<String>,
    /// Print the JSON schema of neronet.yaml, for editors
    #[arg(long, conflicts_with_all = ["name", "command", "dry_run"])]
    pub schema: bool,
    /// Print the file instead of writing it
    #[arg(long)]
    pub dry_run: bool,
}
