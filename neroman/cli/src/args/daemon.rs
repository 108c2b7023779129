//! What the verbs about the daemon accept.

use clap::Subcommand;

use super::Json;

/// `daemon`.
#[derive(Debug, Subcommand)]
pub enum Daemon {
    /// Be the daemon, in the foreground
    #[command(hide = true)]
    Run {
        /// Leave the terminal that started it
        #[arg(long, hide = true)]
        own_session: bool,
    },
    /// Start it; every other command does so too
    #[command(after_help = "Examples:\n  neroman daemon start\n  neroman daemon start --json")]
    Start(Json),
    /// End it; jobs go on
    #[command(after_help = "Examples:\n  neroman daemon stop\n  neroman daemon stop --json")]
    Stop(Json),
    /// Whether it runs and what it has
    #[command(after_help = "Examples:\n  neroman daemon status\n  neroman daemon status --json")]
    Status(Json),
    /// What it wrote to its log
    #[command(after_help = "Examples:\n  neroman daemon logs\n  neroman daemon logs -n 200")]
    Logs {
        /// Only the last lines
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
        lines: usize,
    },
    /// A systemd unit that keeps it running
    #[command(
        after_help = "Examples:\n  neroman daemon unit\n  neroman daemon unit > ~/.config/systemd/user/neronet.service"
    )]
    Unit,
}
