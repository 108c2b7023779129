//! `neroman`: the command line, and with `daemon run` the daemon itself.

fn main() -> std::process::ExitCode {
    nero_cli::main()
}
