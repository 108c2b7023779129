//! `cargo xtask pictures`: the pictures of the views, made anew. It needs `chromium` and `tmux`.

use std::process::Command;

use crate::steps::{Steps, execute};

/// Builds everything, runs a sweep on a home of its own, and writes `docs/pictures`.
pub fn run(steps: &Steps) -> Result<(), String> {
    execute(steps.build(&["-p", "nero-tests", "--bins"]))?;
    let mut program = Command::new(steps.target().join("debug/nero-pictures"));
    program.arg(steps.root().join("docs/pictures"));
    execute(program)
}
