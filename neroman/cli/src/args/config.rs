//! What `config` accepts.

use clap::Subcommand;

use super::{Json, config_key, config_value};

/// `config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// What is in force
    #[command(after_help = "Examples:\n  neroman config show\n  neroman config show --origin")]
    Show {
        /// Also where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Change one value of config.yaml; comments and order stay
    #[command(
        after_help = "Examples:\n  neroman config set nodes.alpha.cpus 8\n  neroman config set groups.boxes alpha,beta"
    )]
    Set {
        /// default_node, results_max, results_min_free, groups.NAME, groups.NAME.balance, nodes.NAME.FIELD, or a word of user, mail or notify, as user.email
        #[arg(value_name = "KEY", add = config_key())]
        key: String,
        /// What it shall be; of a group its nodes, as a,b; '' takes it away
        #[arg(value_name = "VALUE", allow_hyphen_values = true, add = config_value())]
        value: String,
        #[command(flatten)]
        json: Json,
    },
}
