//! The line by which bash reports a command of `setup` that failed, on nodes with and without a
//! scheduler.

/// From here on bash reports each failing command on standard error, as it stands in the lines and
/// not within a function such as `module`.
///
/// `BASH_COMMAND` is the last command within a function that failed. So each command of the lines is
/// noted with its place (`DEBUG` is not inherited by functions) before it is executed, and once more
/// before the trap for `ERR`: the failed one is then in `nero_was`, if it is of the same place.
pub const TRAP: &str = r#"nero_was= nero_at=
nero_failed() { case $nero_was in "$2"*) set -- "$1" '' "${nero_was#"$2"}" ;; esac; echo "setup: exit code $1: $3" >&2; return "$1"; }
trap 'nero_was=$nero_at nero_at=${#BASH_SOURCE[@]}:$LINENO:$BASH_COMMAND' DEBUG
trap 'nero_failed $? "${#BASH_SOURCE[@]}:$LINENO:" "$BASH_COMMAND"' ERR
"#;
/// Ends the reports of [`TRAP`].
pub const UNTRAP: &str = "trap - DEBUG ERR\nunset -f nero_failed\nunset nero_was nero_at\n";

const FAILED: &str = "setup: exit code ";

/// What people are told of such a line; `None` for any other line.
pub fn failure(line: &str) -> Option<String> {
    let failed = line.strip_prefix(FAILED)?;
    Some(format!("a line of `setup` failed: exit code {failed}"))
}
