//! A job that behaves or misbehaves by command: the program that scenarios run.
//!
//! `nero-job ACTION [ARGUMENT…] [-- ACTION …]`: actions one after another.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs, io, process, thread};

use nero_tests::chaos::random::Random;
use nero_tests::chaos::script::{End, Script, TOO_HIGH, WRITE_FAILED};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    for action in words.split(|word| word == "--") {
        let (name, arguments) = action.split_first().expect("an action");
        if let Some(code) = act(name, arguments) {
            return ExitCode::from(code);
        }
    }
    ExitCode::SUCCESS
}

/// Does one action; a returned code ends the job.
fn act(name: &str, arguments: &[String]) -> Option<u8> {
    let text = |index: usize| arguments.get(index).map_or("", String::as_str);
    let number = |index: usize| text(index).parse::<u64>().expect("a number");
    match name {
        "exit" => return Some(number(0) as u8),
        "print" => println!("{}", arguments.join(" ")),
        "complain" => eprintln!("{}", arguments.join(" ")),
        // Appends a line to a file in one write: "NAME run pid".
        "note" => note(text(0), text(1)),
        // Blocks until a process opens the named pipe for writing.
        "hold" => drop(fs::read(text(0)).expect("the pipe is there")),
        // Waits until a file exists.
        "await" => {
            while !Path::new(text(0)).exists() {
                thread::sleep(Duration::from_millis(20));
            }
        }
        "touch" => fs::write(text(0), "here\n").expect("writable"),
        "metrics" => metrics(number(0)),
        "long-line" => long_line(number(0)),
        "bytes" => io::stdout()
            .write_all(b"\xff\xfe\x00\x1b]52;c;aGk=\x07 loss 1\r\x9b31m\n")
            .expect("stdout"),
        "truncate" => truncate(),
        "ignore-term" => ignore_term(),
        "signal" => signal_self(number(0) as i32),
        // A process that leaves the session and outlives its parent.
        "daemon" => daemon(&arguments[0..]),
        "child" => drop(again(arguments).spawn().expect("a child")),
        "environment" => {
            let mut all: Vec<_> = env::vars().collect();
            all.sort();
            for (name, value) in all {
                println!("{name}={value}");
            }
        }
        "fill" => return Some(fill(text(0))),
        "rest" => rest(),
        "chaos" => return Some(chaos(text(0), text(1))),
        other => panic!("no such action: {other}"),
    }
    None
}

fn note(path: &str, what: &str) {
    let run = env::var("NERO_RUN").unwrap_or_default();
    let line = format!("{what} {run} {}\n", process::id());
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("a file");
    file.write_all(line.as_bytes()).expect("writable");
}

fn metrics(count: u64) {
    let mut out = io::BufWriter::new(io::stdout());
    for step in 0..count {
        writeln!(out, "step {step} loss {}", step as f64 / 2.0).expect("stdout");
    }
    out.flush().expect("stdout");
}

fn long_line(bytes: u64) {
    let block = vec![b'x'; 1 << 16];
    let mut left = bytes as usize;
    let mut out = io::stdout().lock();
    while left > 0 {
        let part = left.min(block.len());
        out.write_all(&block[..part]).expect("stdout");
        left -= part;
    }
    out.write_all(b"\n").expect("stdout");
}

/// Truncates its own standard output and writes from the start again.
fn truncate() {
    let own = OpenOptions::new()
        .write(true)
        .open("/proc/self/fd/1")
        .expect("a file");
    own.set_len(0).expect("own file");
}

fn ignore_term() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for each of these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn signal_self(signal: i32) {
    // SAFETY: sends a signal to this process; the default action is wanted.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn again(arguments: &[String]) -> Command {
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args(
        arguments
            .iter()
            .map(|word| if word == "+" { "--" } else { word }),
    );
    command
}

/// Starts itself with the given actions (`+` between them), as a grandchild.
fn daemon(arguments: &[String]) {
    use std::os::unix::process::CommandExt as _;
    let mut command = again(arguments);
    // SAFETY: setsid and fork are allowed between fork and exec, and the
    // parent half leaves at once without running anything of its own.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            if libc::fork() > 0 {
                libc::_exit(0);
            }
            Ok(())
        });
    }
    // The middle process leaves before it executes anything; that is no error.
    if let Ok(mut middle) = command.spawn() {
        let _ = middle.wait();
    }
}

/// Writes until the disk is full; the exit code tells a full disk from another
/// failure.
fn fill(path: &str) -> u8 {
    let mut file = fs::File::create(path).expect("a file");
    let block = vec![0x55u8; 1 << 16];
    loop {
        if let Err(error) = file.write_all(&block) {
            // The log may be on the same full disk, so this message may be lost.
            let _ = writeln!(io::stderr(), "cannot write: {error}");
            return if error.kind() == io::ErrorKind::StorageFull {
                28
            } else {
                1
            };
        }
    }
}

/// Follows the script, and notes its begin and its end.
fn chaos(notes: &str, script: &str) -> u8 {
    let script: Script = script.parse().expect("a script");
    let _alone = alone(notes);
    let _cards = own_cards(notes);
    note(notes, "start");
    if script.stubborn {
        ignore_term();
    }
    if script.stray {
        daemon(&["rest".to_owned()]);
    }
    if let Err(error) = play(&script) {
        note(notes, "failed");
        let _ = writeln!(io::stderr(), "cannot write: {error}");
        return WRITE_FAILED as u8;
    }
    match script.end {
        End::Exit(code) => {
            note(notes, "end");
            code
        }
        End::Signal(number) => {
            note(notes, "end");
            signal_self(number.into());
            unreachable!("the signal ends it")
        }
        End::Hold => rest(),
    }
}

/// Locks the byte of the notes that stands for this run, as long as this process lives;
/// a second living job of the run is noted.
fn alone(notes: &str) -> fs::File {
    let run = env::var("NERO_RUN").expect("a job of ours");
    let (experiment, number_of) = run.split_once('.').expect("EXPERIMENT.NUMBER");
    let number = |text: &str| text.parse::<libc::off_t>().expect("a number");
    let byte = (number(experiment) << 20) + number(number_of);
    lock(notes, byte, "overlap")
}

/// The same for each card that this job sees: no living job sees one of them.
fn own_cards(notes: &str) -> Vec<fs::File> {
    let list = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let cards = list.split(',').filter_map(|card| card.parse().ok());
    let byte = |card: libc::off_t| (1 << 60) + card;
    cards.map(|card| lock(notes, byte(card), "clash")).collect()
}

/// Locks a byte of the notes as long as this process lives; else `what` is noted.
fn lock(notes: &str, byte: libc::off_t, what: &str) -> fs::File {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(notes)
        .expect("the notes");
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` lives as long as the call.
    if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } != 0 {
        note(notes, what);
    }
    file
}

fn play(script: &Script) -> io::Result<()> {
    let run = env::var("NERO_RUN").expect("a job of ours");
    let mut random = Random::of_text(script.seed, &run);
    // Without a buffer, so that printed lines are in the file at once.
    let mut out = fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut block = Vec::new();
    for number in 0..script.lines {
        block.extend(script.line(number, &mut random).into_bytes());
        // With pauses line by line, else in large pieces that end anywhere.
        if script.pause_ms > 0 {
            out.write_all(&block)?;
            block.clear();
            thread::sleep(Duration::from_millis(script.pause_ms));
        } else if block.len() > 4000 {
            out.write_all(&block[..4000])?;
            block.drain(..4000);
        }
    }
    out.write_all(&block)?;
    if script.end == End::Hold {
        let last = format!("step {} loss {}\n", script.lines, TOO_HIGH + 1);
        out.write_all(last.as_bytes())?;
    }
    if script.file_bytes > 0 {
        fs::write("out.bin", script.file(&run))?;
    }
    Ok(())
}

/// Waits for the signal that ends it.
fn rest() -> ! {
    loop {
        thread::park();
    }
}
