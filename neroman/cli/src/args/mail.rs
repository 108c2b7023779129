//! What `mail` accepts.

use clap::Subcommand;

use super::Json;

/// `mail`.
#[derive(Debug, Subcommand)]
pub enum MailVerb {
    /// Show what waits to be sent and why, and what was sent
    #[command(after_help = "Examples:\n  neroman mail list\n  neroman mail list --json")]
    List(Json),
    /// Try at once what could not be sent, after you mended what the server refused
    #[command(after_help = "Examples:\n  neroman mail retry\n  neroman mail retry --json")]
    Retry(Json),
    /// Send a message now, as the daemon would, and print what the server answers
    #[command(
        after_help = "Examples:\n  neroman mail test\n  neroman mail test --to ada@example.org"
    )]
    Test {
        /// To this address alone; else to all that are told
        #[arg(long, value_name = "ADDRESS")]
        to: Option<String>,
        #[command(flatten)]
        json: Json,
    },
}
