//! The project's own tasks. Run `cargo xtask help`.

mod bench;
mod binaries;
mod chaos;
mod codegen;
mod demo;
mod deps;
mod dist;
#[path = "../../neroman/agents/src/elf.rs"]
mod elf;
mod fuzz;
mod guards;
mod junit;
mod manual;
mod names;
mod packages;
mod pictures;
mod portable;
mod rings;
mod sheet;
mod skew;
mod steps;
mod sweep;
mod test;
mod tools;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::steps::Steps;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build, run the examples on a home of their own, and show everything
    Demo,
    /// Install what the tests need and run those that need nothing but this machine
    Test {
        /// Every test: also with schedulers, ssh hosts, office suites
        #[arg(long, conflicts_with = "ci")]
        all: bool,
        /// What a change must pass: every test, format, lints, docs, chaos
        #[arg(long)]
        ci: bool,
        /// Exchange the halves of the scenarios that have umask 022 and 077
        #[arg(long)]
        swap_umask: bool,
    },
    /// Measure release builds; prints a table
    Bench {
        /// How often each thing is measured
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Runs of the tiny job in a round
        #[arg(long, default_value_t = 1000)]
        runs: usize,
        /// Only what has this in its name, as `ssh`
        #[arg(long, default_value = "")]
        only: String,
        /// Measure the programs in this folder (`target/bench/bin` of an earlier
        /// revision) instead of building
        #[arg(long)]
        programs: Option<PathBuf>,
        /// Measure pools of Python instead, ours beside others
        #[arg(long)]
        python: bool,
    },
    /// Measure release builds at the sizes of a large group; takes an hour and more
    Scale {
        /// How long runs come and go, and connections break
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Only what has this in its name: `experiments`, `finished`, `queue`, `nodes`, `printing`, `points`,
        /// `hour`
        #[arg(long, default_value = "")]
        only: String,
        /// Measure the programs in this folder instead of building
        #[arg(long)]
        programs: Option<PathBuf>,
    },
    /// Build the agents for older systems (glibc 2.17) into target/agents
    Portable {
        /// Machines to build for; all when none is named
        arch: Vec<portable::Arch>,
    },
    /// Build the packages of Python, with the programs inside, into target/wheel
    Wheel {
        /// The machine that they are for; this one unless given
        #[arg(long)]
        arch: Option<portable::Arch>,
        /// Take the programs in this folder instead of compiling for old systems
        #[arg(long)]
        programs: Option<PathBuf>,
        /// Where the wheels go
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Pack a release into target/dist: tarballs, packages of Debian, wheels, install.sh
    Dist {
        /// Machines to build for; all when none is named
        #[arg(conflicts_with = "programs")]
        arch: Vec<portable::Arch>,
        /// Pack the programs in this folder instead of compiling for old systems
        #[arg(long)]
        programs: Option<PathBuf>,
        /// Where the release goes
        #[arg(long)]
        out: Option<PathBuf>,
        /// Build nothing: install the release that is there on Debian 11, 12 and 13, and use it
        #[arg(long, conflicts_with_all = ["arch", "programs"])]
        check: bool,
    },
    /// Build neroman and its agents and install them for this user
    Install {
        /// Where they go [default: ~/.local]
        #[arg(long)]
        prefix: Option<PathBuf>,
    },
    /// Runs and faults at random from a seed; checks every promise at the end
    Chaos {
        /// Every kind for a minute, and every seed that once failed
        #[arg(long, exclusive = true)]
        all: bool,
        /// What everything random comes from; another one each time unless given
        #[arg(long)]
        seed: Option<u64>,
        /// How long things go wrong
        #[arg(long, conflicts_with = "seconds")]
        minutes: Option<u64>,
        /// The same in seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// How many hosts are nodes beside `local`
        #[arg(long, default_value_t = 2)]
        hosts: u64,
        /// Also set clocks, hold system calls, stop shims for good, kill supervisors together, take all inodes
        #[arg(long, conflicts_with = "damage")]
        harsh: bool,
        /// Damage stored files instead, one at a time
        #[arg(long)]
        damage: bool,
        /// A scheduler starts all runs on this machine, and is broken, too
        #[arg(long, conflicts_with_all = ["harsh", "damage"], value_parser = ["slurm"])]
        warden: Option<String>,
        /// All runs are in containers of this runtime, and what belongs to these dies, too
        #[arg(long, conflicts_with_all = ["harsh", "damage", "warden"], value_parser = chaos::RUNTIMES)]
        containers: Option<String>,
        /// Release builds instead of those of the tests
        #[arg(long)]
        release: bool,
    },
    /// Play stories on a disk on which, once each, a program dies at a call or the call fails; or
    /// cut their power
    Steps {
        /// One story
        #[arg(default_value = "all")]
        story: String,
        /// At most so many points of each story
        #[arg(long, default_value_t = 60)]
        points: u64,
        /// What chooses them; another one each time unless given
        #[arg(long)]
        seed: Option<u64>,
        /// Only points whose text holds this: `Mum write home/node`
        #[arg(long)]
        at: Option<String>,
        /// Cut the power at so many moments of each story instead
        #[arg(long, value_name = "N", conflicts_with_all = ["points", "at"])]
        cuts: Option<u64>,
    },
    /// Play the readers of bytes that others wrote with bytes that libFuzzer chooses by the code that
    /// they reach; needs a C++ compiler
    Fuzz {
        /// One reader, as `journal`; each when none is named
        target: Option<String>,
        /// How long each of them is played
        #[arg(long, default_value_t = 1)]
        minutes: u64,
    },
    /// Mix the programs of an earlier revision with those of this one: at each
    /// release, those of the release before
    Skew {
        /// A tag, branch or commit
        revision: String,
    },
    /// Make the pictures of docs/views.md anew, of a real sweep
    Pictures,
    /// Count what docs/design/rooms.md bounds: circles of imports, lines, long functions and sentences
    Guards,
    /// Write docs/reference from the code (--check only compares)
    Manual {
        #[arg(long)]
        check: bool,
    },
    /// Generate the Rust of proto/*.proto (--check only compares)
    Codegen {
        #[arg(long)]
        check: bool,
    },
}

/// Forgets what cargo told this program about its own package. Build scripts of dependencies ask for
/// these variables, so a command started with them would build what one without them has built.
fn forget_own_package() {
    let is_own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_own(name)) {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::remove_var(name) };
    }
}

fn main() -> ExitCode {
    forget_own_package();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
        .to_path_buf();
    let mut steps = Steps::new(&root);
    let outcome = match Cli::parse().task {
        Task::Demo => demo::run(&mut steps),
        Task::Test {
            all,
            ci,
            swap_umask,
        } => {
            let ring = match (all, ci) {
                (_, true) => test::Ring::Ci,
                (true, false) => test::Ring::All,
                (false, false) => test::Ring::First,
            };
            test::run(&mut steps, ring, swap_umask)
        }
        Task::Bench {
            rounds,
            runs,
            only,
            programs,
            python,
        } => bench::programs::find(&mut steps, programs).and_then(|programs| {
            if python {
                bench::pools::run(&programs, rounds)
            } else {
                bench::run(&programs, rounds, runs, &only)
            }
        }),
        Task::Scale {
            minutes,
            only,
            programs,
        } => bench::programs::find(&mut steps, programs)
            .and_then(|programs| bench::scale(&programs, Duration::from_secs(minutes * 60), &only)),
        Task::Portable { arch } => portable::run(&mut steps, &arch),
        Task::Wheel {
            arch,
            programs,
            out,
        } => wheel::run(&mut steps, arch, programs.as_deref(), out),
        Task::Dist {
            arch,
            programs,
            out,
            check: false,
        } => {
            let source = programs
                .as_deref()
                .map_or(dist::ProgramSource::Sources, dist::ProgramSource::Folder);
            dist::run(&mut steps, &arch, &source, out)
        }
        Task::Dist {
            out, check: true, ..
        } => {
            let out = out.unwrap_or_else(|| steps.target().join("dist"));
            dist::check::run(&mut steps, &out)
        }
        Task::Install { prefix } => dist::install(&mut steps, prefix.as_deref()),
        Task::Chaos { all: true, .. } => chaos::all(&mut steps),
        Task::Chaos {
            all: false,
            seed,
            minutes,
            seconds,
            hosts,
            harsh,
            damage,
            warden,
            containers,
            release,
        } => {
            let runtime = chaos::RUNTIMES
                .into_iter()
                .find(|one| containers.as_deref() == Some(*one));
            let is_alone = warden.is_some() || runtime.is_some();
            let hosts = if is_alone { 0 } else { hosts };
            let seconds = minutes.map_or(seconds, |minutes| minutes * 60);
            let seed = seed.unwrap_or_else(chaos::new_seed);
            chaos::run(
                &steps,
                release,
                chaos::Chaos {
                    seed,
                    seconds,
                    hosts,
                    kind: match (harsh, damage, warden, runtime) {
                        (_, _, Some(_), _) => chaos::FaultKind::Slurm,
                        (_, _, None, Some(runtime)) => chaos::FaultKind::Containers(runtime),
                        (_, true, None, None) => chaos::FaultKind::Damage,
                        (true, false, None, None) => chaos::FaultKind::Harsh,
                        (false, false, None, None) => chaos::FaultKind::Plain,
                    },
                },
            )
        }
        Task::Steps {
            story,
            points,
            seed,
            at,
            cuts,
        } => {
            let seed = seed.unwrap_or_else(chaos::new_seed).to_string();
            match cuts {
                Some(cuts) => chaos::cuts(&steps, [&story, &cuts.to_string(), &seed]),
                None => chaos::steps(&steps, [&story, &points.to_string(), &seed], at),
            }
        }
        Task::Fuzz { target, minutes } => fuzz::run(&mut steps, target.as_deref(), minutes),
        Task::Skew { revision } => skew::run(&mut steps, &revision),
        Task::Pictures => pictures::run(&steps),
        Task::Guards => guards::check(&root),
        Task::Manual { check } => manual::run(&steps, check),
        Task::Codegen { check } => codegen::run(&steps, check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
