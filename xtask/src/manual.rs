//! `cargo xtask manual`: starts the generator, a program of its own, since it links the product.

use std::process::Command;

use crate::steps::{Steps, execute};

/// Builds the generator with the programs, and writes `docs/reference`, or compares it.
pub fn run(steps: &Steps, check: bool) -> Result<(), String> {
    // As in a build of the workspace, so that no library is built anew.
    execute(steps.cargo(&["build", "--locked", "--workspace", "--bins"]))?;
    let mut generator = Command::new(steps.target().join("debug/nero-manual"));
    generator.arg(steps.root());
    if check {
        generator.arg("--check");
    }
    execute(generator)
}
