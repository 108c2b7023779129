//! `completions`: answered without a daemon.

use crate::args::Shell;
use crate::completion;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;

/// `completions SHELL`.
pub fn run(out: &VerbOutput, shell: Shell) -> Result<u8, Stop> {
    let script = completion::script(shell)
        .map_err(|error| Fault::new(code::BUG, "cannot write the script").because(&error))?;
    out.bytes(&script)?;
    Ok(code::OK)
}
