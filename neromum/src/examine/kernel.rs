//! The kernel's means to supervise processes, and its actions when memory runs
//! out.

use std::path::Path;
use std::sync::OnceLock;

use nero_model::units::short_bytes as shown;

use super::Findings;

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

/// The kernel's release.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// The C library that the node's programs use; ours may be another. Read once,
/// from the library's file.
pub fn libc() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let arch = std::env::consts::ARCH;
        let folders = [
            "/lib64".to_owned(),
            format!("/lib/{arch}-linux-gnu"),
            "/lib".to_owned(),
            format!("/usr/lib/{arch}-linux-gnu"),
            "/usr/lib64".to_owned(),
            "/usr/lib".to_owned(),
        ];
        let glibc = folders
            .iter()
            .find_map(|folder| std::fs::read(format!("{folder}/libc.so.6")).ok());
        if let Some(library) = glibc {
            return glibc_version(&library).unwrap_or_else(|| "glibc".to_owned());
        }
        if Path::new(&format!("/lib/ld-musl-{arch}.so.1")).exists() {
            return "musl".to_owned();
        }
        String::new()
    })
}

/// Reads the version from a text in the library: `GNU C Library (…) stable
/// release version 2.36.`
fn glibc_version(library: &[u8]) -> Option<String> {
    let after = |text: &[u8], word: &[u8]| {
        let at = text.windows(word.len()).position(|window| window == word)?;
        Some(at + word.len())
    };
    let named = &library[after(library, b"GNU C Library")?..];
    let named = &named[..named.len().min(200)];
    let version = &named[after(named, b"version ")?..];
    let length = version
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let version = std::str::from_utf8(&version[..length]).ok()?;
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| format!("glibc {version}"))
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

    #[test]
    fn the_version_is_read_out_of_the_library() {
        let library = b"\0\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(glibc_version(library).as_deref(), Some("glibc 2.36"));
        let old = b"GNU C Library stable release version 2.17, by Roland McGrath";
        assert_eq!(glibc_version(old).as_deref(), Some("glibc 2.17"));
        assert_eq!(glibc_version(b"GNU C Library"), None);
        assert_eq!(glibc_version(b""), None);
    }
}
