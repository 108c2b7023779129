//! The line by which bash reports a command of `setup` that failed, on nodes with and without a
//! scheduler.

/// From here on bash reports each failing command on standard error.
pub const TRAP: &str = r#"trap 'nero_code=$?; echo "setup: exit code $nero_code: $BASH_COMMAND" >&2; (exit $nero_code)' ERR
"#;
/// Ends the reports of [`TRAP`].
pub const UNTRAP: &str = "trap - ERR\nunset nero_code\n";

const FAILED: &str = "setup: exit code ";

/// What people are told of such a line; `None` for any other line.
pub fn failure(line: &str) -> Option<String> {
    let failed = line.strip_prefix(FAILED)?;
    Some(format!("a line of `setup` failed: exit code {failed}"))
}
