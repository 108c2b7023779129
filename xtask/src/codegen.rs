//! `cargo xtask codegen`: starts the generator, a program of its own, since its libraries take
//! longer to build than all tasks together.

use crate::steps::{Steps, execute};

/// Writes the generated files, or compares them.
pub fn run(steps: &Steps, check: bool) -> Result<(), String> {
    let mut generator = steps.cargo(&["run", "--quiet", "--locked", "-p", "nero-codegen", "--"]);
    generator.arg(steps.root());
    if check {
        generator.arg("--check");
    }
    execute(generator)
}
