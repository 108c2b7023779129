//! What local commands have of the shell that typed the flow, as lines of a shell: its mask of file
//! modes, its limits, its niceness, its variables. A group runs below the daemon, which has its own.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getpriority_process, getrlimit};

use super::shell;

/// Limits that `ulimit` of every shell has: what people call them, options, and the size of a unit.
const LIMITS: [(&str, Resource, &[&str], u64); 9] = [
    ("CPU time", Resource::Cpu, &["-t"], 1),
    ("file size", Resource::Fsize, &["-f"], 512),
    ("data", Resource::Data, &["-d"], 1024),
    ("stack", Resource::Stack, &["-s"], 1024),
    ("core files", Resource::Core, &["-c"], 512),
    ("locked memory", Resource::Memlock, &["-l"], 1024),
    ("open files", Resource::Nofile, &["-n"], 1),
    ("address space", Resource::As, &["-v"], 1024),
    // Bash has `-u` for the number of processes, and dash has `-p`.
    ("processes", Resource::Nproc, &["-u", "-p"], 1),
];

/// The lines. What cannot be set as it is here, because the daemon has less, is named in the file
/// `refused`.
pub fn lines(refused: &Path) -> Vec<u8> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mut lines = match mask {
        Some(mask) => format!("umask {}\n", mask.trim()).into_bytes(),
        None => Vec::new(),
    };
    let mut line = |attempts: &[String], what: &str| {
        let each = attempts
            .iter()
            .map(|attempt| format!("{attempt} 2>/dev/null ||"));
        let each: Vec<String> = each.collect();
        lines.extend(format!("{} echo {what} >> ", each.join(" ")).as_bytes());
        lines.extend(shell::quote_word(refused.as_os_str().as_encoded_bytes()));
        lines.push(b'\n');
    };
    for (what, resource, options, unit) in LIMITS {
        let limit = match getrlimit(resource).current {
            Some(limit) => (limit / unit).to_string(),
            None => "unlimited".to_owned(),
        };
        let attempts = options.iter();
        let attempts = attempts.map(|option| format!("ulimit -S {option} {limit}"));
        line(&attempts.collect::<Vec<_>>(), what);
    }
    let nice = getpriority_process(None).unwrap_or(0);
    if nice > 0 {
        line(&[format!("renice {nice} -p $$ >/dev/null")], "niceness");
    }
    lines.extend(shell::exports(std::env::vars_os()));
    lines
}
