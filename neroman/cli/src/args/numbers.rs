//! Verbs that show what runs measured.

use clap::{Args, ValueEnum};

use super::Json;
use super::complete::{metric_name, param_name, picked, value_name};

/// `metrics`.
#[derive(Debug, Args)]
pub struct Metrics {
    /// Experiments, as `neroman help selectors` explains
    #[arg(value_name = "SEL", add = picked(), required_unless_present = "attempt")]
    pub picked: Option<String>,
    /// Names of metrics; all unless given
    #[arg(value_name = "NAME", add = metric_name())]
    pub names: Vec<String>,
    /// Show what would be found in a file (`-` is standard input) or in the logs of a run
    #[arg(long = "try", value_name = "FILE|RUN", conflicts_with_all = ["picked", "csv", "parquet"])]
    pub attempt: Option<String>,
    /// With --try: read by this pattern or recipe too, as `metrics:` of a file has it
    #[arg(long = "match", value_name = "PATTERN", requires = "attempt")]
    pub patterns: Vec<String>,
    #[command(flatten)]
    pub json: Json,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a Parquet file; send it into one: `> points.parquet`
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub parquet: bool,
}

/// `plot`.
#[derive(Debug, Args)]
pub struct Curves {
    /// Experiments or runs, as `neroman help selectors` explains
    #[arg(default_value = "last", value_name = "SEL", add = picked())]
    pub picked: String,
    /// Metrics and expressions over them, each a panel; all metrics unless given
    #[arg(value_name = "METRIC", add = value_name())]
    pub names: Vec<String>,
    /// What is across
    #[arg(long, value_enum, default_value_t = PlotAxis::Step)]
    pub x: PlotAxis,
    /// One curve for all runs that share these parameters: their mean, with a band
    #[arg(long, value_name = "PARAM", value_delimiter = ',', num_args = 1, add = param_name())]
    pub by: Vec<String>,
    /// The band: mean ± sample deviation, or from the smallest to the largest value
    #[arg(long, value_enum, default_value_t = Band::Deviation, requires = "by")]
    pub band: Band,
    /// A logarithmic y axis
    #[arg(long)]
    pub log: bool,
    /// Write to a file; the format follows the extension: png, svg
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<String>,
    /// Light on dark, for a file
    #[arg(long, requires = "output")]
    pub dark: bool,
}

/// The x axis of `plot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotAxis {
    /// The step that the job printed
    Step,
    /// The time since the start of the run
    Time,
    /// Date and time of day
    Clock,
}

/// The band of `plot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Band {
    /// Mean ± sample deviation
    Deviation,
    /// From the smallest to the largest value
    Range,
}

/// `results`.
#[derive(Debug, Args)]
pub struct Results {
    /// Experiments, as `neroman help selectors` explains
    #[arg(default_value = "last", value_name = "SEL", add = picked())]
    pub picked: Vec<String>,
    /// One row for all runs that share these parameters
    #[arg(long, value_name = "PARAM", value_delimiter = ',', num_args = 1, add = param_name())]
    pub by: Vec<String>,
    /// Best first by this metric; lower is better with `min:NAME`, higher with `max:NAME`
    #[arg(long, value_name = "METRIC", add = metric_name())]
    pub best: Option<String>,
    /// A row for every run, not for the newest of each experiment alone
    #[arg(long)]
    pub all_runs: bool,
    /// These columns: names of facts, parameters and metrics, and expressions
    #[arg(long, value_name = "A,B,…", conflicts_with_all = ["by", "json"], add = value_name())]
    pub columns: Vec<String>,
    /// Write to a file; the format follows the extension: xlsx, ods, csv, parquet, json, jsonl,
    /// tex, md
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<String>,
    /// The lines that another system writes: each run with its parameters, then all that the runs
    /// printed, each line behind its run
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["by", "best", "columns", "json", "csv"])]
    pub like: Option<OtherSystem>,
    #[command(flatten)]
    pub json: Json,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// A system whose results `results --like` writes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OtherSystem {
    /// The `output.csv` of mlframework
    Mlframework,
}
