//! Facts that a machine reported of itself.

use std::collections::HashMap;

use nero_model::builds::is_name;

use crate::fault::{self, NodeFault};
use crate::libc::Libc;

/// Longest text that a machine may report of itself: a path.
const VALUE_CHARS: usize = 4096;
/// Limit of the other builds that are tried.
const OTHERS_MAX: usize = 8;
/// Limit in seconds from 1970, either way, of a clock that we believe.
const CLOCK_SECONDS_MAX: u64 = 1 << 40;

/// Facts that a machine reported of itself. Its texts are hostile: show them
/// through [`nero_model::safe::Safe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// "Linux".
    pub os: String,
    /// "x86_64".
    pub arch: String,
    /// The kernel's version.
    pub kernel: String,
    /// The C library.
    pub libc: Libc,
    /// The machine's own name.
    pub host: String,
    /// The user's name there.
    pub user: String,
    /// The login shell.
    pub shell: String,
    /// The home folder.
    pub home: String,
    /// The node's root, absolute.
    pub root: String,
    /// The kind of file system that holds the root, as "ext2/ext3", "nfs".
    pub file_system: String,
    /// Boot id: it identifies the present start of the machine.
    pub boot_id: String,
    /// Free space for this user.
    pub free_bytes: Option<u64>,
    /// The machine's clock minus ours, as far as the answer proves it: see
    /// [`clock_offset_ms`].
    pub clock_offset_ms: Option<i64>,
    /// Time that the probe took.
    pub took_ms: u64,
    /// Whether the machine has `gzip`.
    pub has_gzip: bool,
    /// Complete builds in the root, among those asked for.
    pub builds: Vec<String>,
    /// The newest other builds in the root, newest first.
    pub other_builds: Vec<String>,
    /// Nothing can be written to its root now.
    pub full: Option<NodeFault>,
}

/// Reads the output of the probe.
///
/// # Errors
/// The first fault that the probe found. `needed_bytes` is for the message when
/// there is no space.
pub fn read(printed: &[u8], errors: &[u8], needed_bytes: u64) -> Result<Facts, NodeFault> {
    let text = String::from_utf8_lossy(printed);
    let mut said: HashMap<&str, &str> = HashMap::new();
    let (mut builds, mut others) = (Vec::new(), Vec::new());
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "build" if is_name(value) => builds.push(value.to_owned()),
            "other" if is_name(value) => others.push(value.to_owned()),
            // The first fault counts.
            _ => {
                said.entry(name).or_insert(value);
            }
        }
    }
    let unable = || NodeFault::Shell {
        said: match errors.trim_ascii() {
            [] => text.trim().to_owned(),
            errors => String::from_utf8_lossy(errors).into_owned(),
        },
    };
    if !said.contains_key("end") || said.get("os").is_none_or(|os| os.trim().is_empty()) {
        return Err(unable());
    }
    let value = |name: &str| said.get(name).copied().unwrap_or_default().trim();
    let get = |name: &str| value(name).chars().take(VALUE_CHARS).collect::<String>();
    if get("os") != "Linux" {
        return Err(NodeFault::NotLinux { os: get("os") });
    }
    let full = match said.get("fault") {
        None => None,
        Some(kind) => match fault::named(kind, get("why"), get("root"), needed_bytes) {
            // Builds that are there already may do without space.
            full @ NodeFault::NoSpace { .. } => Some(full),
            fault => return Err(fault),
        },
    };
    // The probe found no fault: then a program that it needs is missing.
    if !get("root").starts_with('/') {
        return Err(unable());
    }
    let others = others.into_iter().filter(|one| !builds.contains(one));
    let free_kb = get("free_kb").parse::<u64>().ok();
    Ok(Facts {
        os: get("os"),
        arch: match &*get("arch") {
            "amd64" => "x86_64".to_owned(),
            "arm64" => "aarch64".to_owned(),
            other => other.to_owned(),
        },
        kernel: get("kernel"),
        libc: Libc::parse(&get("libc")),
        host: get("host"),
        user: get("user"),
        shell: get("shell"),
        home: get("home"),
        root: get("root"),
        file_system: get("fs"),
        boot_id: get("boot"),
        free_bytes: free_kb.map(|kb| kb.saturating_mul(1024)),
        clock_offset_ms: None,
        took_ms: 0,
        has_gzip: said.contains_key("gzip"),
        other_builds: others.take(OTHERS_MAX).collect(),
        builds,
        full,
    })
}

/// Lower limit of a clock's offset in milliseconds; positive when the clock is
/// ahead. The machine read `there_ms` at some moment between `asked_ms`, by our
/// clock, and `took_ms` later. The exact moment is unknown (a login file may have
/// slept first), so only a difference beyond that span is an offset.
pub fn clock_offset_ms(there_ms: i64, asked_ms: i64, took_ms: u64) -> i64 {
    let took_ms = i64::try_from(took_ms).unwrap_or(i64::MAX);
    let answered_ms = asked_ms.saturating_add(took_ms);
    there_ms.saturating_sub(there_ms.clamp(asked_ms, answered_ms))
}

/// The node's clock in milliseconds, from the output of `date +%s.%3N`; a `date`
/// without fractions prints something else behind the seconds.
pub fn clock_ms(printed: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(printed);
    let said = text.lines().find_map(|line| line.strip_prefix("clock="))?;
    let (seconds, fraction) = said.split_once('.')?;
    let seconds: i64 = seconds.parse().ok()?;
    let ms = match fraction.len() {
        3 => fraction.parse::<u16>().unwrap_or(0),
        _ => 0,
    };
    (seconds.unsigned_abs() < CLOCK_SECONDS_MAX).then(|| seconds * 1000 + i64::from(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(lines: &str) -> Result<Facts, NodeFault> {
        read(
            format!("os=Linux\n{lines}\nend=yes\n").as_bytes(),
            b"",
            5_200_000,
        )
    }

    #[test]
    fn only_a_clock_outside_of_the_whole_conversation_is_off() {
        // A login file slept for ten seconds before the clock was read.
        assert_eq!(clock_offset_ms(109_900, 100_000, 10_000), 0);
        assert_eq!(clock_offset_ms(100_100, 100_000, 10_000), 0);
        assert_eq!(clock_offset_ms(116_000, 100_000, 1_000), 15_000);
        assert_eq!(clock_offset_ms(85_000, 100_000, 1_000), -15_000);
        assert_eq!(clock_offset_ms(i64::MIN, 100_000, u64::MAX), i64::MIN);
        assert_eq!(clock_offset_ms(i64::MAX, 5, 0), i64::MAX - 5);
    }

    #[test]
    fn the_facts_of_a_node_are_read_whatever_is_missing() {
        let facts =
            printed("arch=arm64\nroot=/h/.neronet\nfree_kb=12\nbuild=a234567890123456\nbuild=../x")
                .unwrap();
        assert_eq!(facts.arch, "aarch64");
        assert_eq!(facts.free_bytes, Some(12 * 1024));
        assert!(!facts.has_gzip);
        assert_eq!(facts.builds, ["a234567890123456"]);
        for (said, ms) in [
            ("1700000000.123", Some(1_700_000_000_123)),
            ("1700000000.%3N", Some(1_700_000_000_000)),
            // Before it was set after a cold start.
            ("7.045", Some(7_045)),
            ("-5.000", Some(-5_000)),
            ("99999999999999999.000", None),
            ("", None),
        ] {
            let printed = format!("x=1\nclock={said}\n");
            assert_eq!(clock_ms(printed.as_bytes()), ms, "{said}");
        }
    }

    #[test]
    fn an_endless_answer_of_a_node_is_cut() {
        let mut lines = format!("root=/r\nuser={}\n", "u".repeat(100_000));
        for number in 0..1000 {
            lines.push_str(&format!("other={number:016}\n"));
        }
        let facts = printed(&lines).unwrap();
        assert_eq!(facts.user.len(), VALUE_CHARS);
        assert_eq!(facts.other_builds.len(), OTHERS_MAX);
        assert_eq!(facts.other_builds[0], "0000000000000000");
    }

    #[test]
    fn every_fault_says_what_to_do() {
        let fault = |lines: &str| printed(lines).unwrap_err();
        let full =
            printed("root=/r\nfault=make\nwhy=mkdir: No space left on device\nother=../x").unwrap();
        assert_eq!(full.other_builds, [] as [&str; 0]);
        let full = full.full.unwrap();
        assert!(matches!(&full, NodeFault::NoSpace { .. }), "{full}");
        assert!(
            full.hint().starts_with("6 MB are needed"),
            "{}",
            full.hint()
        );
        let refused = fault("root=/r\nfault=make\nwhy=mkdir: Permission denied");
        assert!(
            refused
                .to_string()
                .ends_with("/r: mkdir: Permission denied")
        );
        assert!(refused.hint().contains("`root:`"));
        let noexec = fault("root=/r\nfault=exec\nwhy=sh: Permission denied");
        assert!(noexec.hint().contains("noexec"));
        let link = fault("root=/r\nfault=link\nwhy=/scratch/me");
        assert!(link.hint().ends_with("/scratch/me"));
        let foreign = fault("root=/r\nfault=owner\nwhy=root");
        assert!(foreign.to_string().contains("belongs to the user root"));
        let unset = fault("fault=unset\nwhy=WORK");
        assert!(unset.hint().contains("WORK"));
        let hostile = fault("fault=unset\nwhy=WORK\x1b[2J");
        for told in [hostile.to_string(), hostile.hint()] {
            assert!(told.contains("WORK\\u{1b}[2J"), "{told}");
        }
        let other = read(b"os=Darwin\nend=yes\n", b"", 0).unwrap_err();
        assert!(other.to_string().contains("Darwin"));
        for missing in ["os=\nroot=/r\nend=yes\n", "os=Linux\nroot=\nend=yes\n"] {
            let broken = read(missing.as_bytes(), b"sh: tr: not found", 0).unwrap_err();
            assert!(broken.to_string().contains("tr: not found"), "{broken}");
        }
        let broken = read(b"os=Linux\n", b"sh: awk: not found\x1b[2J", 0).unwrap_err();
        assert!(
            broken.to_string().contains("awk: not found\\u{1b}"),
            "{broken}"
        );
    }
}
