//! The kernel's means to supervise processes, and its actions when memory runs
//! out.

use std::path::Path;

use super::Findings;
use crate::service::{kernel, libc, shown};

pub fn judge(findings: &mut Findings) {
    system(findings);
    memory(findings);
    temporary(findings);
}

fn system(findings: &mut Findings) {
    const WHAT: &str = "system";
    let words = format!(
        "linux {} on {}, {}",
        kernel(),
        std::env::consts::ARCH,
        libc()
    );
    let own = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).is_ok();
    if pidfd {
        findings.good(WHAT, format!("{words}; pidfd: yes"));
    } else {
        findings.warning(
            WHAT,
            format!("{words}; pidfd: no"),
            "a run whose supervisors were all killed can be stopped less surely; kernels from 5.3 \
             on have it",
        );
    }
}

fn memory(findings: &mut Findings) {
    let number = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<i64>().ok()
    };
    if number("/proc/sys/vm/panic_on_oom").is_some_and(|value| value > 0) {
        findings.bad(
            "memory",
            "the machine stops altogether when memory runs out (vm.panic_on_oom)",
            "state memory for every experiment, and give the node less than there is",
        );
    }
    if number("/proc/self/oom_score_adj").is_some_and(|value| value > 0) {
        findings.warning(
            "memory",
            "what a login starts is killed first when memory runs out (oom_score_adj)",
            "state memory for every experiment",
        );
    }
    let swap = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| meminfo(&text, "SwapTotal"));
    let strict = number("/proc/sys/vm/overcommit_memory") == Some(2);
    let swap = match swap {
        Some(0) | None => "no swap".to_owned(),
        Some(bytes) => format!("{} of swap", shown(bytes)),
    };
    if strict {
        findings.warning(
            "memory",
            format!("{swap}; memory is promised only when it is there (vm.overcommit_memory=2)"),
            "programs that reserve much more than they use fail there",
        );
    } else {
        findings.good("memory", swap);
    }
}

fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn temporary(findings: &mut Findings) {
    const WHAT: &str = "temporary files";
    const HINT: &str = "set TMPDIR in your login files, or in env: of the experiments";
    let given = std::env::var_os("TMPDIR").filter(|value| !value.is_empty());
    let folder = given.unwrap_or_else(|| "/tmp".into());
    let folder = Path::new(&folder);
    let name = format!(
        ".neronet-{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>())
    );
    let probe = folder.join(name);
    match std::fs::File::create_new(&probe) {
        Ok(_) => {
            // Ours, and empty.
            let _ = std::fs::remove_file(&probe);
            let free = rustix::fs::statvfs(folder)
                .map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
            findings.good(WHAT, format!("{}: {} free", folder.display(), shown(free)));
        }
        Err(error) => findings.warning(
            WHAT,
            format!("{} cannot be written: {error}", folder.display()),
            HINT,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_meminfo_is_read() {
        let text = "MemTotal:  100 kB\nSwapTotal:       8 kB\n";
        assert_eq!(meminfo(text, "SwapTotal"), Some(8192));
        assert_eq!(meminfo(text, "Swap"), None);
    }
}
