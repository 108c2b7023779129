//! What each verb accepts, and its help.

mod complete;
mod config;
mod daemon;
mod export;
mod files;
mod infra;
mod live;
mod mail;
mod node;
mod noodles;
mod numbers;
mod own;
mod rule;
mod typed;
mod views;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use complete::fitting;
#[cfg(test)]
pub use complete::keys as config_keys;
pub use config::Config;
pub use daemon::Daemon;
pub use export::{Backup, Diff, Export, OpenResults};
pub use files::{Clean, Du, Exec, Fetch, Paths, Shell as ShellOn};
pub use infra::{InfraUp, InfraVerb};
pub use live::{Abort, Adopt, Launch, Pause, Restart, Start, Wait};
pub use mail::MailVerb;
pub use node::{NodeAdd, NodeEnd, NodeJoin, NodeTakeOver, NodeVerb, NodeWelcome, Warden, YesNo};
pub use noodles::{Import, Noodles};
pub use numbers::{Band, Curves, Metrics, OtherSystem, PlotAxis, Results};
pub use own::{Copy, Note, Remove, Set, Tag};
pub use rule::{BacktestArgs, Rule};
pub use typed::{Add, RunCommand, Template};
pub use views::{Logs, Mcp, Show, Status, Top, Web};

use complete::{config_key, config_value, group_name, node_name, node_or_run, picked};

/// One step, read.
#[derive(Debug, Parser)]
#[command(
    name = "neroman",
    disable_help_subcommand = true,
    disable_version_flag = true,
    color = clap::ColorChoice::Never,
    about = "Runs, watches and steers computational experiments"
)]
pub struct Line {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// A verb with its options and operands. clap learns the options of a verb when
/// it reads that verb: all of them would take longer than the rest of a command.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Verb {
    /// Register the experiments of folders and files; again to update them
    #[command(
        after_help = "Examples:\n  neroman add .\n  neroman add sweep/ old/config.yaml --dry-run\n  neroman add plan.xlsx --offset 1000\n  echo '{\"lr\": 0.1}' | neroman add - --command 'python3 train.py {lr}'"
    )]
    #[command(alias = "addexp")]
    Add(Add),
    /// Run a command here, once for each combination of parameters, and follow it
    #[command(
        after_help = "Examples:\n  neroman run -- python3 train.py --fast\n  neroman run -p lr=0.1,0.01 -p n=1:5 --detach -- python3 train.py {lr} {n}"
    )]
    Run(RunCommand),
    /// Write a neronet.yaml with comments for a command
    #[command(
        after_help = "Examples:\n  neroman template fit python3 main.py {lr} {layers}\n  neroman template fit --dry-run -- ./solve --tolerance {tol}\n  neroman template --schema"
    )]
    Template(Template),
    /// Overview of experiments, or of nodes (also: ls)
    #[command(
        after_help = "Examples:\n  neroman status 'runtime > 2h && loss > 1' --sort -loss\n  neroman status nodes"
    )]
    #[command(alias = "ls")]
    Status(Status),
    /// Everything about one experiment or run
    #[command(after_help = "Examples:\n  neroman show 144\n  neroman show 144.1 --json")]
    Show(Show),
    /// A live view of experiments: look, mark, act
    #[command(after_help = "Examples:\n  neroman top\n  neroman top 'running,crashed'")]
    Top(Top),
    /// The same as a page in the browser
    #[command(
        after_help = "Examples:\n  neroman web --open\n  neroman web 'running,crashed' --read-only\n  neroman web --socket ~/neroman.sock"
    )]
    Web(Web),
    /// The same as tools for a coding agent
    #[command(after_help = "Examples:\n  neroman mcp\n  neroman mcp 'tag:paper' --read-only")]
    Mcp(Mcp),
    /// Start experiments that are defined, crashed, timed out or aborted
    #[command(
        after_help = "Examples:\n  neroman start 124-186 --node alpha\n  neroman start 'tmod<1h' --wait\n  neroman start all --order lr --at-most 4 --priority 10"
    )]
    Start(Start),
    /// Start new runs of experiments, with present parameters and code
    #[command(
        after_help = "Examples:\n  neroman restart 'crashed,144-149'\n  neroman restart 144 --resume"
    )]
    Restart(Restart),
    /// End live runs; queued ones never start
    #[command(
        after_help = "Examples:\n  neroman abort 'runtime > 2h && error_rate > 0.40'\n  neroman abort 144 --grace 5m --signal INT"
    )]
    #[command(alias = "terminate")]
    Abort(Abort),
    /// Stop live runs for a while; their memory and GPUs stay taken
    #[command(
        after_help = "Examples:\n  neroman pause 144\n  neroman pause 'running && node==desk' --yes"
    )]
    Pause(Pause),
    /// Let paused runs go on
    #[command(after_help = "Examples:\n  neroman resume 144\n  neroman resume paused")]
    Resume(Pause),
    /// Take over jobs that you submitted to a scheduler by hand
    #[command(
        after_help = "Examples:\n  neroman adopt cluster 48213\n  neroman adopt cluster 48213_7 --log logs/train.7.out"
    )]
    Adopt(Adopt),
    /// Values of parameters and fields in place of the source's
    #[command(
        after_help = "Examples:\n  neroman set 144 lr=0.1 resources.memory=8G\n  neroman set crashed time=4h\n  neroman set 144 --unset lr"
    )]
    Set(Set),
    /// A copy of an experiment under another name, with other values
    #[command(
        after_help = "Examples:\n  neroman copy 144 slow --set lr=0.001\n  neroman copy 144 again"
    )]
    #[command(alias = "copyexp")]
    Copy(Copy),
    /// A remark on experiments, shown by `show` and kept for ever
    #[command(
        after_help = "Examples:\n  neroman note 144 diverged after the warmup\n  neroman note 124-186 'first try, wrong data'"
    )]
    Note(Note),
    /// Tags of experiments, which `tag:NAME` selects
    #[command(
        after_help = "Examples:\n  neroman tag 124-186 +baseline\n  neroman tag 144 -baseline +paper"
    )]
    Tag(Tag),
    /// Hide experiments; --undo brings them back for 30 days
    #[command(after_help = "Examples:\n  neroman rm 'lr_*' --dry-run\n  neroman rm --undo 3")]
    #[command(alias = "delexp")]
    Rm(Remove),
    /// Wait until experiments have ended; exit code 0 when all finished
    #[command(
        after_help = "Examples:\n  neroman wait all\n  neroman wait live --timeout 2h\n  neroman wait --any live"
    )]
    Wait(Wait),
    /// What a run printed
    #[command(after_help = "Examples:\n  neroman logs 144 -f\n  neroman logs failed --stderr -n 3")]
    Logs(Logs),
    /// Values of metrics over time
    #[command(
        after_help = "Examples:\n  neroman metrics 144 loss\n  neroman metrics 'lr_*' loss 'val loss' --csv\n  neroman metrics all --parquet > points.parquet\n  neroman metrics --try train.log --match 'acc is (?<acc>\\S+)'"
    )]
    Metrics(Metrics),
    /// Curves of metrics, in the terminal or a file
    #[command(
        after_help = "Examples:\n  neroman plot 144-150 loss\n  neroman plot all loss 'acc * 100' --by lr --log\n  neroman plot 'running' loss --x time -o loss.png"
    )]
    Plot(Curves),
    /// One row per run, or per group with mean and deviation
    #[command(
        after_help = "Examples:\n  neroman results all --best max:acc\n  neroman results all --by lr,layers -o means.csv\n  neroman results all -o runs.parquet"
    )]
    Results(Results),
    /// What differs between two runs: parameters, code, environment, metrics
    #[command(after_help = "Examples:\n  neroman diff 144 145\n  neroman diff 144.1 144.2 --json")]
    Diff(Diff),
    /// A zip with all that a reader of results needs; no secrets, no home paths
    #[command(
        after_help = "Examples:\n  neroman export 124-186 -o sweep.zip\n  neroman export 'best(loss) < 0.1' -o good.zip --json"
    )]
    Export(Export),
    /// Open folders of results on the desktop
    #[command(after_help = "Examples:\n  neroman open 144\n  neroman open 144.2")]
    Open(OpenResults),
    /// Folders of results
    #[command(after_help = "Examples:\n  neroman path 144\n  neroman path 144.2 --work")]
    Path(Paths),
    /// Fetch files of runs to this machine now
    #[command(
        after_help = "Examples:\n  neroman fetch live\n  neroman fetch 144 --include 'ckpt/**'"
    )]
    Fetch(Fetch),
    /// Machines that runs go to
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  neroman node add alpha ada@alpha.example.org\n  neroman node doctor alpha"
    )]
    Node(NodeVerb),
    /// A set of hosts: made ready with one line, looked at, renewed and put away
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  neroman infra up lab -a ada@h1,ada@h2,h3\n  neroman infra down lab"
    )]
    Infra(InfraVerb),
    /// A shell on a node, in a run's folder where a run is named
    #[command(after_help = "Examples:\n  neroman shell alpha\n  neroman shell 144")]
    Shell(ShellOn),
    /// A command on a node, in a run's folder where a run is named
    #[command(
        after_help = "Examples:\n  neroman exec alpha -- nvidia-smi\n  neroman exec 144 -- ls -l ckpt"
    )]
    Exec(Exec),
    /// Free space on nodes: ended runs whose files are here, and unused code
    #[command(
        after_help = "Examples:\n  neroman clean --dry-run\n  neroman clean 1-40 --node alpha --yes"
    )]
    Clean(Clean),
    /// Disk usage here and on nodes
    #[command(after_help = "Examples:\n  neroman du\n  neroman du alpha --runs")]
    Du(Du),
    /// Copy the whole home into a file while it works; --restore into an empty one
    #[command(
        after_help = "Examples:\n  neroman backup /mnt/stick/neronet.backup\n  neroman backup --restore /mnt/stick/neronet.backup"
    )]
    Backup(Backup),
    /// Rules that end a run or warn while it lives
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  neroman rule add 124-186 'abort: loss > 5'\n  neroman rule list live"
    )]
    Rule(Rule),
    /// What is in force and where it comes from; change one value
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  neroman config show --origin\n  neroman config set nodes.alpha.cpus 8"
    )]
    Config(Config),
    /// Specs of Training Noodles: run one
    #[command(
        after_help = "Examples:\n  neroman noodles run spec.yml\n  neroman noodles stop 'spec.yml:Exp 1,Exp 2' --check"
    )]
    Noodles(Noodles),
    /// Write a spec of Training Noodles or a project of mlframework in the words of neronet.yaml
    #[command(
        after_help = "Examples:\n  neroman import spec.yml -o neronet.yaml\n  neroman import chainer\n  neroman import 'spec.yml:Exp 1,Exp 2' --type stop -o -"
    )]
    Import(Import),
    /// Mail about what happens: whether it works
    #[command(subcommand)]
    #[command(
        after_help = "Examples:\n  neroman mail test\n  neroman mail test --to ada@example.org"
    )]
    Mail(MailVerb),
    /// The background process that does the work
    #[command(subcommand)]
    #[command(after_help = "Examples:\n  neroman daemon status\n  neroman daemon logs -n 200")]
    Daemon(Daemon),
    /// A script that completes words in a shell
    #[command(
        after_help = "Examples:\n  neroman completions bash > ~/.local/share/bash-completion/completions/neroman\n  neroman completions fish > ~/.config/fish/completions/neroman.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Help for a verb, or on selectors, expressions, rules, states, format, metrics, infra, gpus, config
    #[command(
        after_help = "Examples:\n  neroman help start\n  neroman help selectors\n  neroman help --man share/man/man1"
    )]
    Help {
        /// A verb or a topic
        topic: Option<String>,
        /// Write the pages for `man` into this folder
        #[arg(long, value_name = "DIR", conflicts_with = "topic")]
        man: Option<String>,
    },
    /// The version of this program; --verbose: what a report of a bug needs
    #[command(after_help = "Examples:\n  neroman version\n  neroman --version --verbose")]
    Version(Version),
}

/// Machine-readable output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of a verb that can be tried out.
#[derive(Clone, Copy, Debug, Args)]
pub struct Trial {
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub json: Json,
}

/// `version`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Version {
    /// Also print revision, target, C library, protocol, stored formats, agents
    #[arg(long)]
    pub verbose: bool,
    #[command(flatten)]
    pub json: Json,
}

/// Shells with completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}
