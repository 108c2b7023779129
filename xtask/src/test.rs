//! `cargo xtask test`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::rings::{LEFT_OUT, Selection, of_modes};
use crate::steps::{PROGRAMS, Steps, execute, has_cargo_command};
use crate::{binaries, chaos, codegen, deps, guards, junit, manual, names, packages, sweep};

/// Packages that the first two rings do not build: they generate code and pages.
const GENERATORS: &[&str] = &[
    "--workspace",
    "--exclude",
    "nero-codegen",
    "--exclude",
    "nero-manual",
];

/// How much is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ring {
    /// What needs nothing but this machine.
    First,
    /// Every test.
    All,
    /// What a change must pass: every test, format, lints, docs, chaos.
    Ci,
}

/// Everything of a ring; `swap_umask` exchanges the halves of the scenarios that have 022 and 077.
pub fn run(steps: &mut Steps, ring: Ring, swap_umask: bool) -> Result<(), String> {
    steps.attempt("what the tests need is installed", |steps| {
        packages::ensure(steps.root(), ring)
    });
    steps.attempt("sockets of killed tests are removed", |_| sweep::sockets());
    let workspace = match ring {
        Ring::Ci => &GENERATORS[..1],
        Ring::First | Ring::All => GENERATORS,
    };
    if ring == Ring::Ci {
        steps.attempt_command("format", steps.cargo(&["fmt", "--all", "--check"]));
        steps.attempt("generated code is that of the protos", |steps| {
            codegen::run(steps, true)
        });
    }
    steps.attempt("rules over dependencies", |steps| deps::check(steps.root()));
    steps.attempt("names of types", |steps| names::check(steps.root()));
    steps.attempt("guards of the structure", |steps| {
        guards::check(steps.root())
    });
    if ring == Ring::Ci && has_cargo_command(steps.root(), "deny") {
        steps.attempt_command(
            "cargo deny",
            steps.cargo(&["deny", "check", "bans", "licenses", "sources"]),
        );
    }
    let mut build = steps.cargo(&["build", "--all-targets", "--locked"]);
    build.args(workspace);
    let is_built = steps.attempt_command("build", build);
    if ring == Ring::Ci {
        static_checks(steps);
    }
    if is_built {
        tests(steps, ring, workspace, swap_umask);
    }
    if is_built && ring == Ring::Ci {
        steps.attempt("the reference has the words of the code", |steps| {
            manual::run(steps, true)
        });
        chaos::of_day(steps);
    }
    print_left_out(ring);
    steps.outcome()
}

/// Lints, docs, and each program by itself.
fn static_checks(steps: &mut Steps) {
    let mut lints = steps.cargo(&["clippy", "--workspace", "--all-targets", "--locked"]);
    lints.args(["--", "-D", "warnings"]);
    steps.attempt_command("lints", lints);
    let mut docs = steps.cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    steps.attempt_command("docs", docs);
    for program in PROGRAMS {
        let check = steps.cargo(&["check", "-p", program, "--locked"]);
        steps.attempt_command(&format!("{program} alone"), check);
    }
}

fn tests(steps: &mut Steps, ring: Ring, workspace: &[&str], swap_umask: bool) {
    let selection = match ring {
        Ring::First => Selection::First,
        Ring::All | Ring::Ci => Selection::Every,
    };
    let name = match ring {
        Ring::First => "tests of the first ring",
        Ring::All | Ring::Ci => "tests",
    };
    let mut run = TestRun {
        ring,
        workspace,
        selection,
        umask: 0o077,
        swap_umask,
    };
    steps.attempt(name, |steps| run.execute(steps));
    if ring == Ring::First {
        return;
    }
    steps.attempt("tests with modes, the other umask", |steps| {
        run.selection = Selection::Modules(of_modes(steps.root())?);
        run.umask = 0o022;
        run.swap_umask = !swap_umask;
        run.execute(steps)
    });
}

/// One run of the tests.
struct TestRun<'a> {
    ring: Ring,
    workspace: &'a [&'a str],
    selection: Selection,
    /// The umask of the lower rings; a scenario draws its own.
    umask: u32,
    swap_umask: bool,
}

impl TestRun<'_> {
    fn execute(&self, steps: &Steps) -> Result<(), String> {
        if !has_cargo_command(steps.root(), "nextest") {
            let prepare = |command: &mut Command| self.bare(command);
            return binaries::run(steps, self.workspace, &self.selection, &prepare);
        }
        let profile = match self.ring {
            Ring::Ci => "ci",
            Ring::First | Ring::All => "default",
        };
        let mut command = steps.cargo(&["nextest", "run", "--locked", "--profile", profile]);
        command.args(self.workspace);
        command.args(["-E", &self.selection.filterset()]);
        command.args(["--status-level", "slow", "--final-status-level", "slow"]);
        // The report of an earlier run is none of this one.
        let report = steps
            .target()
            .join("nextest")
            .join(profile)
            .join("junit.xml");
        let _ = fs::remove_file(&report);
        self.bare(&mut command);
        if !steps.incremental() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        let outcome = execute(command);
        let mut tests = match junit::read(&report) {
            Ok(tests) => tests,
            // Without a report the runner itself failed, and its error tells why.
            Err(why) => return outcome.and(Err(why)),
        };
        print_slowest(&mut tests);
        print_flaky(steps, &tests)?;
        outcome
    }

    fn bare(&self, command: &mut Command) {
        bare(command, self.umask);
        if self.swap_umask {
            command.env("NERO_TEST_UMASK", "swapped");
        }
    }
}

fn print_slowest(tests: &mut [junit::Test]) {
    tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let all: f64 = tests.iter().map(|test| test.seconds).sum();
    println!(
        "\nthe ten slowest of {} tests, {all:.0} s in all:",
        tests.len()
    );
    for test in tests.iter().take(10) {
        println!("{:8.1} s  {}", test.seconds, test.name);
    }
}

/// Prints the tests that passed at their second try alone, and appends them to a file.
fn print_flaky(steps: &Steps, tests: &[junit::Test]) -> Result<(), String> {
    let lines: Vec<String> = tests
        .iter()
        .filter_map(|test| {
            let failure = test.first_failure.as_ref()?;
            Some(format!("{}: {}", test.name, failure.replace('\n', " ")))
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    println!("\nflaky: failed, and passed when tried again; each is a bug");
    println!("  {}", lines.join("\n  "));
    let path = steps.target().join("flaky.txt");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{}", lines.join("\n")))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn print_left_out(ring: Ring) {
    match ring {
        Ring::First => {
            println!("\nleft out:");
            for (why, modules) in LEFT_OUT {
                println!("  {} modules of scenarios that {why}", modules.len());
            }
            println!("  two tests that explore for two minutes each");
            println!("  files with modes, with the other umask");
            println!("`cargo xtask test --all` runs these, too; `cargo xtask chaos` is apart");
        }
        Ring::All => println!("\nleft out: format, lints, docs, chaos: cargo xtask test --ci"),
        Ring::Ci => println!("\nleft out: the other kinds of chaos: cargo xtask chaos --all"),
    }
}

/// Clears the environment except the variables that find the toolchain, and sets
/// another time zone and the umask.
pub fn bare(command: &mut Command, umask: u32) {
    command.env_clear().env("TZ", "Pacific/Chatham");
    for name in [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "CARGO_TARGET_DIR",
        "TMPDIR",
        "CI",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // SAFETY: umask is safe between fork and exec: it takes a number and
    // cannot fail.
    unsafe {
        command.pre_exec(move || {
            libc::umask(umask);
            Ok(())
        });
    }
}
