//! Limits that the kernel sets to this user's processes, and to the control
//! group of the login.

use std::path::{Path, PathBuf};

use nero_model::units::short_bytes as shown;
use rustix::process::{Resource, Rlimit, getrlimit};

use super::Findings;

/// Free processes below which a warning is given.
const PROCESSES_FEW: u64 = 256;
/// Free open files below which a warning is given.
const FILES_FEW: u64 = 256;

pub fn judge(findings: &mut Findings) {
    processes(findings);
    files(findings);
    time_and_memory(findings);
    group(findings);
}

fn processes(findings: &mut Findings) {
    const WHAT: &str = "process limit";
    let used = tasks_of_own();
    match getrlimit(Resource::Nproc).current {
        Some(limit) if limit < used + PROCESSES_FEW => findings.warning(
            WHAT,
            format!("{limit} processes and threads are allowed, {used} are there"),
            "run few at a time (cpus: of the node), or ask for a higher limit (ulimit -u)",
        ),
        Some(limit) => findings.good(WHAT, format!("{limit} allowed, {used} there")),
        None => findings.good(WHAT, "none"),
    }
}

/// Number of this user's threads.
fn tasks_of_own() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == own))
        .map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(1, Iterator::count) as u64)
        .sum()
}

fn files(findings: &mut Findings) {
    const WHAT: &str = "open files";
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match current {
        Some(limit) if limit < FILES_FEW => findings.warning(
            WHAT,
            format!("a process may hold {limit} files open"),
            "raise it in the experiment's setup (ulimit -n), or ask for a higher limit",
        ),
        Some(limit) => {
            let most = maximum.map_or_else(|| "any".to_owned(), |most| most.to_string());
            findings.good(WHAT, format!("{limit} per process, {most} when raised"));
        }
        None => findings.good(WHAT, "no limit"),
    }
}

fn time_and_memory(findings: &mut Findings) {
    if let Some(seconds) = getrlimit(Resource::Cpu).current {
        findings.bad(
            "CPU time",
            format!("each process is ended after {seconds} s of CPU time"),
            "this is a machine for logging in: choose another one for runs",
        );
    }
    for (resource, name) in [
        (Resource::As, "address space (ulimit -v)"),
        (Resource::Data, "data (ulimit -d)"),
        (Resource::Fsize, "file size (ulimit -f)"),
    ] {
        if let Some(bytes) = getrlimit(resource).current {
            findings.warning(
                "limits",
                format!("{name}: {} per process", shown(bytes)),
                "runs that need more fail; ask for a higher limit",
            );
        }
    }
}

/// Limits of our control group and those above it; the lowest counts.
#[derive(Debug, Default, PartialEq)]
struct CgroupLimits {
    processes: Option<u64>,
    memory_bytes: Option<u64>,
    cpus: Option<f64>,
}

fn group(findings: &mut Findings) {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = CgroupLimits::read(Path::new("/sys/fs/cgroup"), &text);
    if group == CgroupLimits::default() {
        return findings.good("control group", "no limits");
    }
    let mut parts = Vec::new();
    parts.extend(group.cpus.map(|cpus| format!("{cpus} CPUs")));
    let memory = group.memory_bytes.map(shown);
    parts.extend(memory.map(|memory| format!("{memory} of memory")));
    let processes = group.processes.map(|count| format!("{count} processes"));
    parts.extend(processes);
    findings.warning(
        "control group",
        format!("your login may have {} in all", parts.join(", ")),
        "give the node no more than that (cpus: and memory: of the node)",
    );
}

impl CgroupLimits {
    fn read(root: &Path, cgroup: &str) -> Self {
        let mut group = Self::default();
        for line in cgroup.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(kinds), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            if kinds.is_empty() {
                group.climb(root, path);
            }
            for kind in kinds.split(',').filter(|kind| !kind.is_empty()) {
                group.climb(&root.join(kind), path);
            }
        }
        group
    }

    fn climb(&mut self, root: &Path, path: &str) {
        let own = root.join(path.trim_start_matches('/'));
        let up = own
            .ancestors()
            .take_while(|folder| folder.starts_with(root));
        for folder in up.map(Path::to_path_buf).collect::<Vec<PathBuf>>() {
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
            let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
            lower(&mut self.processes, number("pids.max"));
            lower(&mut self.memory_bytes, number("memory.max"));
            // Control groups of version 1 express "no limit" by a number near
            // the largest.
            let old = number("memory.limit_in_bytes").filter(|bytes| *bytes < 1 << 60);
            lower(&mut self.memory_bytes, old);
            let cpus = read("cpu.max").as_deref().and_then(share);
            if let Some(cpus) = cpus {
                self.cpus = Some(self.cpus.map_or(cpus, |known| known.min(cpus)));
            }
        }
    }
}

fn lower(known: &mut Option<u64>, found: Option<u64>) {
    if let Some(found) = found {
        *known = Some(known.map_or(found, |known| known.min(found)));
    }
}

/// `200000 100000`: two CPUs; `max …`: no limit.
fn share(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let given: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then(|| given / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("user.slice/session-1.scope");
        std::fs::create_dir_all(&own).unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.path().join(path), text).unwrap();
        write("user.slice/pids.max", "100\n");
        write("user.slice/session-1.scope/pids.max", "max\n");
        write("user.slice/session-1.scope/memory.max", "2000000\n");
        write("user.slice/memory.max", "9000000\n");
        write("user.slice/cpu.max", "150000 100000\n");
        let group = CgroupLimits::read(root.path(), "0::/user.slice/session-1.scope\n");
        let expected = CgroupLimits {
            processes: Some(100),
            memory_bytes: Some(2_000_000),
            cpus: Some(1.5),
        };
        assert_eq!(group, expected);
        assert_eq!(
            CgroupLimits::read(root.path(), "0::/\n"),
            CgroupLimits::default()
        );
        assert_eq!(share("max 100000"), None);
    }
}
