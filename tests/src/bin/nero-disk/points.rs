//! Points: calls that change a file, each by its program, its kind and its place, and what happens
//! at one of them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuser::Request;
use nero_tests::Part;
use nero_tests::processes::among;
use rustix::process::{Pid, Signal, kill_process};

/// Records each call, and lets one fail.
#[derive(Debug)]
pub(super) struct Points {
    /// Paths are told from here.
    behind: PathBuf,
    record: File,
    /// How often each point was passed.
    times: HashMap<String, u32>,
    fault: Option<Fault>,
}

/// What happens at a point.
#[derive(Debug)]
struct Fault {
    point: String,
    /// The time at which it begins: 1 is the first.
    time: u32,
    /// The error; 0 kills the program.
    error: i32,
    /// All calls at the place of this point fail for so long.
    lasting: Duration,
    began: Option<Instant>,
}

impl Fault {
    fn is_at(&self, place: &str) -> bool {
        self.point.splitn(3, ' ').nth(2) == Some(place)
    }
}

impl Points {
    /// `record` is written; `fault` is empty or has a time, an error, how many milliseconds it
    /// lasts, and a point.
    pub(super) fn of(behind: &Path, record: &str, fault: &str) -> io::Result<Self> {
        let words: Vec<&str> = fault.splitn(4, ' ').collect();
        let number = |text: &str| text.parse::<u32>().map_err(io::Error::other);
        let fault = match words[..] {
            [time, error, lasting_ms, point] => Some(Fault {
                point: point.to_owned(),
                time: number(time)?,
                error: number(error)?.cast_signed(),
                lasting: Duration::from_millis(number(lasting_ms)?.into()),
                began: None,
            }),
            _ => None,
        };
        Ok(Self {
            behind: behind.canonicalize()?,
            record: File::create(record)?,
            times: HashMap::new(),
            fault,
        })
    }

    /// A program is about to do this to the file at `path`.
    ///
    /// # Errors
    /// The error of the fault that lies here; where it kills, that the call was interrupted.
    pub(super) fn pass(&mut self, by: &Request, call: &str, path: &Path) -> io::Result<()> {
        // The kernel itself writes pages back, and jobs are not ours.
        let pid = i32::try_from(by.pid()).unwrap_or(0);
        let Some((part, _)) = among(std::iter::once(pid).filter(|pid| *pid > 0)).pop() else {
            return Ok(());
        };
        if part == Part::Job {
            return Ok(());
        }
        let place = place(path.strip_prefix(&self.behind).unwrap_or(path));
        let point = format!("{part:?} {call} {place}");
        writeln!(self.record, "{point}")?;
        let times = self.times.entry(point.clone()).or_default();
        *times += 1;
        let Some(fault) = &mut self.fault else {
            return Ok(());
        };
        match fault.began {
            None if *times == fault.time && fault.point == point => {
                fault.began = Some(Instant::now());
            }
            // A place that is broken is so for every program and call.
            Some(began) if began.elapsed() < fault.lasting && fault.is_at(&place) => {}
            _ => return Ok(()),
        }
        writeln!(self.record, "! {point}")?;
        if fault.error != 0 {
            return Err(io::Error::from_raw_os_error(fault.error));
        }
        if let Some(pid) = process_of(pid) {
            kill_process(pid, Signal::KILL)?;
        }
        Err(io::Error::from_raw_os_error(libc::EINTR))
    }
}

/// The process of a thread.
pub(super) fn process_of(thread: i32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(pid.trim().parse().ok()?)
}

/// A path as each round has it: below the folder of the round, without numbers, hashes and what
/// names of a moment are made of.
fn place(path: &Path) -> String {
    let parts = path.components().skip(1);
    let parts = parts.map(|part| same_each_round(&part.as_os_str().to_string_lossy()));
    parts.collect::<Vec<_>>().join("/")
}

fn same_each_round(name: &str) -> String {
    let mut all = String::new();
    let mut rest = name;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        all += &word_each_round(word);
        let sign = behind.chars().next().map_or(0, char::len_utf8);
        all += &behind[..sign];
        rest = &behind[sign..];
    }
    all
}

fn word_each_round(word: &str) -> String {
    let has = |what: fn(&char) -> bool| word.chars().any(|letter| what(&letter));
    let is_mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    let is_hash = word.len() >= 8 && word.chars().all(|letter| letter.is_ascii_hexdigit());
    if word.starts_with("tmp") && word.len() == 9 {
        return "tmp#".to_owned();
    }
    if is_hash || (is_mixed && word.len() >= 6) {
        return "#".to_owned();
    }
    let mut all = String::new();
    for letter in word.chars() {
        match letter {
            '0'..='9' if all.ends_with('#') => {}
            '0'..='9' => all.push('#'),
            _ => all.push(letter),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_in_each_round() {
        let shown = |path: &str| place(Path::new(path));
        assert_eq!(shown("hAb12/home/runs/12.1/claim"), "home/runs/#.#/claim");
        assert_eq!(
            shown("h/node/store/0a1b2c3d4e5f60718293/x"),
            "node/store/#/x"
        );
        assert_eq!(shown("h/data/state.db-wal"), "data/state.db-wal");
        assert_eq!(shown("h/x/.tmpAbCdEf"), "x/.tmp#");
        assert_eq!(
            shown("h/results/short-2026-11-29-1.1"),
            "results/short-#-#-#-#.#"
        );
    }
}
