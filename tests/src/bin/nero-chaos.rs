//! Random runs and faults from a seed, and a check of every promise. `cargo
//! xtask chaos` builds everything and runs this program, where possible as the
//! first process of a name space, so that all processes end with it.

use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;
use std::{env, process};

use nero_tests::chaos::{Chaos, Options, Outcome};
use nero_tests::cluster::Scheduler;
use nero_tests::damage;

fn main() -> ExitCode {
    if process::id() == 1 {
        return first_process();
    }
    let (options, damage) = match read(env::args().skip(1)) {
        Ok(read) => read,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let (seed, seconds) = (options.seed, options.duration.as_secs());
    let repeat = if damage {
        format!("cargo xtask chaos --damage --seed {seed} --seconds {seconds}")
    } else {
        format!(
            "cargo xtask chaos --seed {seed} --seconds {seconds} --hosts {}{}{}",
            options.hosts,
            if options.harsh { " --harsh" } else { "" },
            match (options.scheduler, options.containers.as_str()) {
                (Some(_), _) => " --warden slurm".to_owned(),
                (None, "") => String::new(),
                (None, runtime) => format!(" --containers {runtime}"),
            },
        )
    };
    println!("{repeat}");
    let ended = if damage {
        damaged(options)
    } else {
        Chaos::begin(options).map(|chaos| chaos.run())
    };
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("error: the chaos cannot begin: {error}");
            return ExitCode::from(2);
        }
    };
    println!("seed {seed}: {}", outcome.summary);
    let Some(kept) = outcome.kept else {
        println!("every promise was kept");
        return ExitCode::SUCCESS;
    };
    for broken in outcome.broken.iter().take(20) {
        println!("BROKEN: {broken}");
    }
    println!("{} promises were broken", outcome.broken.len());
    println!(
        "everything lies in {} (begin with `history`)",
        kept.display()
    );
    println!("to repeat it: {repeat}");
    ExitCode::FAILURE
}

/// Damages files instead of killing processes.
fn damaged(options: Options) -> std::io::Result<Outcome> {
    let outcome = damage::run(damage::Options {
        seed: options.seed,
        duration: options.duration,
    })?;
    Ok(Outcome {
        summary: format!("damaged files, one at a time\n{}", outcome.table),
        broken: outcome.broken,
        kept: outcome.kept,
    })
}

/// Runs as process 1 of a name space: starts itself once more and reaps
/// orphans. All processes of the name space end with it.
fn first_process() -> ExitCode {
    let own = env::current_exe().expect("a running program has a path");
    let child = match Command::new(own).args(env::args_os().skip(1)).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("error: it cannot be started again: {error}");
            return ExitCode::from(2);
        }
    };
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child.id() => {
                use std::os::unix::process::ExitStatusExt as _;
                let status = ExitStatus::from_raw(status.as_raw());
                return ExitCode::from(status.code().unwrap_or(2) as u8);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                eprintln!("error: it cannot be waited for: {error}");
                return ExitCode::from(2);
            }
        }
    }
}

fn read(words: impl Iterator<Item = String>) -> Result<(Options, bool), String> {
    let mut options = Options {
        seed: 1,
        duration: Duration::from_secs(60),
        hosts: 0,
        harsh: false,
        scheduler: None,
        containers: String::new(),
    };
    let mut damage = false;
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--damage" => damage = true,
            "--harsh" => options.harsh = true,
            "--containers" => options.containers = words.next().unwrap_or_default(),
            "--warden" => options.scheduler = Some(scheduler(words.next().as_deref())?),
            _ => number(&mut options, &word, &words.next().unwrap_or_default())?,
        }
    }
    Ok((options, damage))
}

fn scheduler(name: Option<&str>) -> Result<Scheduler, String> {
    match name {
        Some("slurm") => Ok(Scheduler::Slurm),
        _ => Err("--warden needs slurm".to_owned()),
    }
}

fn number(options: &mut Options, word: &str, value: &str) -> Result<(), String> {
    let number: u64 = value
        .parse()
        .map_err(|_| format!("{word} needs a number, not `{value}`"))?;
    match word {
        "--seed" => options.seed = number,
        "--seconds" => options.duration = Duration::from_secs(number),
        "--hosts" => options.hosts = number as usize,
        _ => return Err(format!("no such option: {word}")),
    }
    Ok(())
}
