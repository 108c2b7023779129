//! Runs the programs that the owner names: a mailer, a command that gets the notices, and a command
//! that prints a password.

use std::ffi::OsStr;
use std::time::Duration;

use nero_child::{ChildLimits, EndedChild, KeptOutput};
use nero_model::safe::quoted;
use tokio::process::Command;

/// What is kept of an output.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Runs a program to its end. The error is for people: which program failed and how.
pub(crate) async fn run(
    program: &OsStr,
    arguments: &[impl AsRef<OsStr>],
    input: &[u8],
    deadline: Duration,
) -> Result<EndedChild, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let limits = ChildLimits {
        out: KeptOutput::End(OUTPUT_BYTES_MAX),
        err: OUTPUT_BYTES_MAX,
        patience: deadline,
        is_killed: true,
    };
    let name = quoted(&program.to_string_lossy());
    let ended = nero_child::run(&name, command, [Ok(input.to_vec())], limits).await;
    ended.map_err(|error| error.to_string())
}

/// The password or key that a program prints: its first line. The error is for people.
pub(crate) async fn secret(command: &[String], deadline: Duration) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let name = quoted(program);
    let ended = run(program.as_ref(), arguments, b"", deadline).await?;
    if !ended.status.success() {
        // Never its standard output: that may be a secret.
        let last = String::from_utf8_lossy(&ended.err).into_owned();
        let last = last.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or_else(|| ended.status.to_string(), str::to_owned);
        return Err(format!("{name} failed: {said}"));
    }
    let text = String::from_utf8(ended.out);
    let text = text.map_err(|_| format!("{name} printed something that is no text"))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(format!("{name} printed nothing")),
    }
}
