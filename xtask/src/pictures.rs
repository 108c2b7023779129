//! `cargo xtask pictures`: the pictures of the views, made anew.

use std::process::Command;

use crate::packages;
use crate::steps::{Steps, execute};
use crate::test::Ring;

/// Builds everything, runs a sweep on a home of its own, and writes `docs/pictures`.
pub fn run(steps: &Steps) -> Result<(), String> {
    packages::ensure(steps.root(), Ring::All)?;
    execute(steps.build(&["-p", "nero-tests", "--bins"]))?;
    let mut program = Command::new(steps.target().join("debug/nero-pictures"));
    program.arg(steps.root().join("docs/pictures"));
    execute(program)
}
