//! Being written.

/// Runs the command line with the process's own arguments.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
