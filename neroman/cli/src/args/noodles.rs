//! What `noodles` accepts.

use clap::Args;

/// `noodles`.
#[derive(Debug, Args)]
pub struct Noodles {
    /// The command type: run, stop, or any other that the spec has commands for
    #[arg(value_name = "TYPE")]
    pub command_type: String,
    /// The spec; behind a colon the names of the experiments that are meant
    #[arg(value_name = "SPEC[:NAME,…]", value_hint = clap::ValueHint::FilePath)]
    pub spec: String,
    /// Show what would be done in which order, what can never be, and what is probably
    /// meant otherwise; nothing is run, and no server is asked
    #[arg(long)]
    pub check: bool,
}
