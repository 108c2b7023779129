//! The user's own `ssh`: connections that many commands share, commands and
//! streams over them, and every failure in words with what to do next.
//!
//! The program `ssh` does all of it, so that the user's configuration, keys,
//! agent, certificates, tickets, jump hosts and known hosts hold as they are.
//! Commands travel over a *master* (a multiplexed connection): the user's own
//! where one answers, else one of ours. Used by the daemon and, for `shell`,
//! `exec` and `node connect`, by the command line. Nothing in here knows
//! neromum, or what the commands are for.
//!
//! What holds, whatever the network does:
//! * Every call has a deadline; a frozen or cut line ends in [`Fault::Timeout`]
//!   or [`Fault::MasterGone`], never in a hanging call.
//! * Nothing prompts, but the words of [`Ssh::login`] in the user's terminal.
//! * No agent, display or port is forwarded, whatever the configuration has.
//! * Text that a node sends is bounded and made safe before it is shown.
//! * The user's own master is never closed, changed or slowed by us.

mod address;
mod catch;
mod classify;
mod error;
mod host;
mod local;
mod master;
mod pipe;
mod quote;
mod run;
mod settings;
mod ssh;

pub use catch::{OutputSection, Overrun};
pub use classify::classify;
pub use error::{Asks, Fault, SshError, Trouble};
pub use host::Host;
pub use pipe::Pipe;
pub use quote::quoted;
pub use run::CommandOutput;
pub use settings::Settings;
pub use ssh::{SSH_VARIABLE, Ssh};
