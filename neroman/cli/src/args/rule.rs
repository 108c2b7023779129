//! What the verbs about rules accept.

use clap::{Args, Subcommand};

use super::Json;
use super::complete::{metric_name, picked, rule_text};

/// `rule backtest`.
#[derive(Debug, Args)]
pub struct BacktestArgs {
    /// Whose runs
    #[arg(value_name = "SEL", add = picked())]
    pub picked: String,
    /// As 'abort: loss > 5'
    #[arg(value_name = "ACTION: EXPRESSION", allow_hyphen_values = true, add = rule_text())]
    pub rule: String,
    /// Metric by which runs are good; max:NAME or min:NAME where the name does not tell
    #[arg(long, value_name = "METRIC", add = metric_name())]
    pub best: Option<String>,
    #[command(flatten)]
    pub json: Json,
}

/// `rule`.
#[derive(Debug, Subcommand)]
pub enum Rule {
    /// The rules and how often they fired
    #[command(after_help = "Examples:\n  neroman rule list\n  neroman rule list 124-186")]
    List {
        /// Which experiments; all unless given
        #[arg(value_name = "SEL", add = picked())]
        picked: Vec<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Every part of the rules of runs: does it hold, its values and their age
    #[command(after_help = "Examples:\n  neroman rule why 144\n  neroman rule why live --json")]
    Why {
        /// Which experiments or runs; what lives unless given
        #[arg(value_name = "SEL", add = picked())]
        picked: Vec<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Add a rule, at once also to live runs
    #[command(
        after_help = "Examples:\n  neroman rule add 124-186 'abort: loss > 5'\n  neroman rule add live 'run_local ./tell.sh: crashed'"
    )]
    Add {
        /// Which experiments
        #[arg(value_name = "SEL", add = picked())]
        picked: String,
        /// As 'abort: loss > 5'; abort, warn, notify, pause, restart, requeue, signal NAME, run CMD or run_local CMD
        #[arg(value_name = "ACTION: EXPRESSION", allow_hyphen_values = true, add = rule_text())]
        rule: String,
        #[command(flatten)]
        json: Json,
    },
    /// What a rule would have done to past runs
    #[command(
        after_help = "Examples:\n  neroman rule backtest done 'abort: loss@10 > 2'\n  neroman rule backtest all 'abort: loss@9 > quantile(peers.loss@9, 1/3)' --best acc"
    )]
    Backtest(BacktestArgs),
    /// Remove a rule
    #[command(
        after_help = "Examples:\n  neroman rule rm 124-186 3\n  neroman rule rm all 1 --json"
    )]
    Rm {
        /// Which experiments
        #[arg(value_name = "SEL", add = picked())]
        picked: String,
        /// Its number in `rule list`
        #[arg(value_name = "RULE")]
        rule: u64,
        #[command(flatten)]
        json: Json,
    },
}
