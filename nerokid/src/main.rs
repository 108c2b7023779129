//! The program `nerokid`.

use std::io;
use std::process::ExitCode;

use nerokid::args::{self, Command, USAGE};
use nerokid::folder::place::WatchedStart;
use nerokid::{act, chain, gpus, helper, settle, watch};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("nerokid: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Version => {
            println!("nerokid {}", nero_model::VERSION);
            Ok(())
        }
        Command::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Command::Watch {
            run_dir,
            incarnation,
            socket,
            cards,
        } => block_on(async {
            let place = WatchedStart::open(&run_dir, incarnation).map_err(|error| chain(&error))?;
            let watched = watch::watch(place, socket, cards).await;
            watched.map(|_| ()).map_err(|error| chain(&error))
        }),
        Command::Host {
            run_dir,
            incarnation,
            name,
        } => helper::help(&run_dir, incarnation, name),
        Command::Act(wanted) => act::act(&wanted),
        Command::Gpus { folder, sys } => gpus::serve(&gpus::GpuHelper { folder, sys }),
        Command::Settle => block_on(async {
            let settled = settle::settle(io::stdin().lock(), io::stdout().lock()).await;
            settled.map_err(|error| chain(&error))
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("nerokid: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs on this one thread; there is no other.
fn block_on(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(work)
}
