//! Which processes belong to a home, and what part each plays.

use std::fs;
use std::path::Path;

use nero_model::process::{ProcessId, Stat};

/// A part that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// neroman's daemon.
    Daemon,
    /// The agent of the node.
    Mum,
    /// The process from which shims are forked.
    Launcher,
    /// The supervisor of one run.
    Shim,
    /// Reads what a run prints.
    Watcher,
    /// Anything else: jobs and what they started.
    Job,
}

/// Every live process that belongs to the home at `base`, by part.
pub fn parts(base: &Path) -> Vec<(Part, ProcessId)> {
    let base = base.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is there").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        if let Some(part) = part_of(pid, base)
            && let Ok(id) = ProcessId::of(pid)
        {
            found.push((part, id));
        }
    }
    found.sort_by_key(|(part, id)| (*part, id.start_ticks, id.pid));
    found
}

fn part_of(pid: i32, base: &[u8]) -> Option<Part> {
    let stat = Stat::read(pid).ok()?;
    if stat.state == b'Z' {
        return None;
    }
    let folder = format!("/proc/{pid}");
    let command = fs::read(format!("{folder}/cmdline")).ok()?;
    let environ = fs::read(format!("{folder}/environ")).unwrap_or_default();
    if !holds(&command, base) && !holds(&environ, base) {
        return None;
    }
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    let program = words
        .first()
        .and_then(|word| word.rsplit(|byte| *byte == b'/').next());
    let has = |word: &[u8]| words.contains(&word);
    Some(match program {
        Some(b"neroman") if has(b"daemon") && has(b"run") => Part::Daemon,
        Some(b"neroman") => return None,
        Some(b"neromum") => Part::Mum,
        Some(b"nerokid-shim") if listens(pid) => Part::Launcher,
        Some(b"nerokid-shim") => Part::Shim,
        Some(b"nerokid") => Part::Watcher,
        _ => Part::Job,
    })
}

/// A shim is forked from the launcher and has the same command line; it has
/// closed every socket.
fn listens(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        })
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
