//! What a machine said of itself, and what of it stands in our way.

use std::collections::HashMap;
use std::fmt;

use nero_model::safe::Safe;

use crate::elf::Glibc;

/// The C library of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libc {
    /// GNU's.
    Glibc(Glibc),
    /// musl.
    Musl,
    /// What it said, which we do not know.
    Unknown(String),
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glibc(version) => write!(f, "glibc {version}"),
            Self::Musl => f.write_str("musl"),
            Self::Unknown(said) if said.is_empty() => f.write_str("unknown"),
            Self::Unknown(said) => write!(f, "{}", Safe::line(said)),
        }
    }
}

impl Libc {
    /// Reads what `getconf GNU_LIBC_VERSION` or the first line of
    /// `ldd --version` says.
    fn parse(said: &str) -> Self {
        let lower = said.to_ascii_lowercase();
        if lower.contains("musl") {
            return Self::Musl;
        }
        // "glibc 2.36", "ldd (Debian GLIBC 2.36-9+deb12u4) 2.36", "ldd (GNU libc) 2.17"
        let last = said.split_whitespace().next_back().and_then(Glibc::parse);
        match last {
            Some(version) if lower.contains("glibc") || lower.contains("gnu") => {
                Self::Glibc(version)
            }
            _ => Self::Unknown(said.to_owned()),
        }
    }
}

/// What a machine said of itself. Its texts are hostile: show them through
/// [`Safe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// "Linux".
    pub os: String,
    /// "x86_64".
    pub arch: String,
    /// The kernel's version.
    pub kernel: String,
    /// Its C library.
    pub libc: Libc,
    /// Its own name.
    pub host: String,
    /// The user's name there.
    pub user: String,
    /// The login shell.
    pub shell: String,
    /// The home folder.
    pub home: String,
    /// The node's root, absolute.
    pub root: String,
    /// The kind of file system that it lies on, as "ext2/ext3", "nfs".
    pub file_system: String,
    /// Which start of the machine this is.
    pub boot_id: String,
    /// Free space for this user.
    pub free_bytes: Option<u64>,
    /// Free inodes; none where the file system does not count them.
    pub free_inodes: Option<u64>,
    /// Its clock less ours, known to about half of [`Facts::took_ms`].
    pub clock_offset_ms: Option<i64>,
    /// How long asking took.
    pub took_ms: u64,
    /// Whether it can decompress.
    pub has_gzip: bool,
    /// Builds that lie there whole, of those asked for.
    pub builds: Vec<String>,
}

/// What stands in the way of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// Another operating system.
    #[error("it runs {}, and nodes run Linux", Safe::line(os))]
    NotLinux {
        /// Which.
        os: String,
    },
    /// Its shell did not get through our script.
    #[error("its /bin/sh cannot run what nodes need: {}", short(said))]
    Shell {
        /// What it said.
        said: String,
    },
    /// A variable in `root` is not set there.
    #[error("the variable {name} is not set there")]
    Unset {
        /// Its name.
        name: String,
    },
    /// What `root` names is not absolute there.
    #[error("its root is not an absolute path there: {}", short(root))]
    Relative {
        /// What it names.
        root: String,
    },
    /// The root is a symbolic link.
    #[error("its root {} is a link to {}", short(root), short(target))]
    Link {
        /// The root.
        root: String,
        /// Where it leads.
        target: String,
    },
    /// The root is a file.
    #[error("its root {} is no folder", short(root))]
    NotFolder {
        /// The root.
        root: String,
    },
    /// The root is somebody else's.
    #[error("its root {} belongs to the user {}", short(root), short(owner))]
    Foreign {
        /// The root.
        root: String,
        /// Whose.
        owner: String,
    },
    /// The folder cannot be made or written to.
    #[error("cannot write to its root {}: {}", short(root), short(why))]
    Write {
        /// The root.
        root: String,
        /// What the machine said.
        why: String,
    },
    /// No space, quota or inodes.
    #[error("no space for the agents in {}: {}", short(root), short(why))]
    NoSpace {
        /// The root.
        root: String,
        /// What is free, or what the machine said.
        why: String,
        /// What is needed.
        needed_bytes: u64,
    },
    /// Programs in the root cannot be run.
    #[error("programs in its root {} cannot be run: {}", short(root), short(why))]
    NoExec {
        /// The root.
        root: String,
        /// What the machine said.
        why: String,
    },
    /// There are no agents for it.
    #[error("there are no agents for {} here, only for {}", short(arch), have.join(", "))]
    Arch {
        /// What it is.
        arch: String,
        /// What there is.
        have: Vec<String>,
    },
    /// Its C library is too old for the agents that there are.
    #[error("its C library ({libc}) is older than what the agents need (glibc {needed})")]
    OldLibc {
        /// What it has.
        libc: Libc,
        /// What the oldest agents need.
        needed: Glibc,
    },
    /// It has another C library.
    #[error("its C library is {libc}, and the agents need glibc {needed} or later")]
    OtherLibc {
        /// What it has.
        libc: Libc,
        /// What the oldest agents need.
        needed: Glibc,
    },
}

/// One line of bounded length of what a machine said.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let text = text.trim();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{} …", Safe::line(&text[..end])),
        None => Safe::line(text).to_string(),
    }
}

impl NodeFault {
    /// What to do next.
    pub fn hint(&self) -> String {
        const ELSEWHERE: &str = "set the node's `root:` to a folder of your own";
        match self {
            Self::NotLinux { .. } => "use a machine with Linux".to_owned(),
            Self::Shell { .. } => {
                "it must have a POSIX sh with the usual programs (mkdir, cat, df, awk, sed)"
                    .to_owned()
            }
            Self::Unset { name } => format!(
                "set {name} in a start-up file there that login shells read, or write the folder itself as the node's `root:`"
            ),
            Self::Relative { .. } => {
                "begin the node's `root:` with / or ~, or with a variable that holds an absolute path"
                    .to_owned()
            }
            Self::Link { target, .. } => format!(
                "set the node's `root:` to the folder itself: {}",
                short(target)
            ),
            Self::NotFolder { .. } => format!("remove it there, or {ELSEWHERE}"),
            Self::Foreign { .. } => format!("{ELSEWHERE}, which nobody else can write to"),
            Self::Write { .. } => {
                format!("{ELSEWHERE} that you can write to there, as on a work file system")
            }
            Self::NoSpace { needed_bytes, .. } => format!(
                "{:.0} MB are needed: free space (and look at your quota) there, or {ELSEWHERE} on another file system",
                (*needed_bytes as f64 / 1e6).ceil()
            ),
            Self::NoExec { .. } => format!(
                "{ELSEWHERE} on a file system that is not mounted with noexec, as a work file system"
            ),
            Self::Arch { .. } | Self::OldLibc { .. } => {
                "build agents for older and other systems with `cargo xtask portable`".to_owned()
            }
            Self::OtherLibc { .. } => {
                "use a machine with glibc, as Debian, Ubuntu, Red Hat or SUSE have it".to_owned()
            }
        }
    }

    /// Whether trying again is useless before somebody has changed something;
    /// space may come back by itself.
    pub fn needs_user(&self) -> bool {
        !matches!(
            self,
            Self::NoSpace { .. } | Self::Shell { .. } | Self::Write { .. }
        )
    }
}

/// Whether what a machine says means that there is no room.
pub(crate) fn is_full(said: &str) -> bool {
    [
        "No space left",
        "Disk quota exceeded",
        "File too large",
        "File size limit",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Reads what the probe printed.
///
/// # Errors
/// The first thing that stands in the way. `needed_bytes` is told where there
/// is no space.
pub(crate) fn read(printed: &[u8], errors: &[u8], needed_bytes: u64) -> Result<Facts, NodeFault> {
    let text = String::from_utf8_lossy(printed);
    let mut said: HashMap<&str, &str> = HashMap::new();
    let mut builds = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "build" => builds.push(value.to_owned()),
            // The first fault is the one that counts.
            _ => {
                said.entry(name).or_insert(value);
            }
        }
    }
    if !said.contains_key("end") {
        let said = match errors.trim_ascii() {
            [] => text.trim().to_owned(),
            errors => String::from_utf8_lossy(errors).into_owned(),
        };
        return Err(NodeFault::Shell { said });
    }
    let get = |name: &str| {
        said.get(name)
            .copied()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    if get("os") != "Linux" {
        return Err(NodeFault::NotLinux { os: get("os") });
    }
    if let Some(kind) = said.get("fault") {
        return Err(fault(kind, get("why"), get("root"), needed_bytes));
    }
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
        free_bytes: get("free_kb")
            .parse::<u64>()
            .ok()
            .map(|kb| kb.saturating_mul(1024)),
        // A file system that does not count them says 0 of 0, or a dash.
        free_inodes: get("free_inodes").parse().ok().filter(|free| *free > 0),
        clock_offset_ms: None,
        took_ms: 0,
        has_gzip: said.contains_key("gzip"),
        builds,
    })
}

/// The node's clock in milliseconds, from what `date +%s%3N` printed; a `date`
/// that knows no fractions prints seconds and something else.
pub(crate) fn clock_ms(printed: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(printed);
    let said = text.lines().find_map(|line| line.strip_prefix("clock="))?;
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    let number: i64 = digits.parse().ok()?;
    match digits.len() {
        13 => Some(number),
        10 => Some(number * 1000),
        _ => None,
    }
}

fn fault(kind: &str, why: String, root: String, needed_bytes: u64) -> NodeFault {
    match kind {
        "unset" => NodeFault::Unset { name: why },
        "relative" => NodeFault::Relative { root: why },
        "link" => NodeFault::Link { root, target: why },
        "file" => NodeFault::NotFolder { root },
        "owner" => NodeFault::Foreign { root, owner: why },
        "bin" => NodeFault::Write {
            root,
            why: "the folder `bin` in it is a link, or somebody else's".to_owned(),
        },
        "exec" => NodeFault::NoExec { root, why },
        _ if is_full(&why) => NodeFault::NoSpace {
            root,
            why,
            needed_bytes,
        },
        _ => NodeFault::Write { root, why },
    }
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
    fn libraries_are_told_apart() {
        for (said, libc) in [
            ("glibc 2.36", Libc::Glibc(Glibc(2, 36))),
            ("ldd (GNU libc) 2.17", Libc::Glibc(Glibc(2, 17))),
            (
                "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35",
                Libc::Glibc(Glibc(2, 35)),
            ),
            ("musl libc (x86_64)", Libc::Musl),
            ("uClibc", Libc::Unknown("uClibc".to_owned())),
            ("", Libc::Unknown(String::new())),
        ] {
            assert_eq!(Libc::parse(said), libc, "{said}");
        }
    }

    #[test]
    fn what_a_node_says_is_read_whatever_is_missing() {
        let facts =
            printed("arch=arm64\nroot=/h/.neronet\nfree_kb=12\nfree_inodes=-\nbuild=a\nbuild=b")
                .unwrap();
        assert_eq!(facts.arch, "aarch64");
        assert_eq!(facts.free_bytes, Some(12 * 1024));
        assert_eq!((facts.free_inodes, facts.has_gzip), (None, false));
        assert_eq!(facts.builds, ["a", "b"]);
        assert_eq!(
            clock_ms(b"x=1\nclock=1700000000123\n"),
            Some(1_700_000_000_123)
        );
        assert_eq!(clock_ms(b"clock=1700000000%3N\n"), Some(1_700_000_000_000));
        assert_eq!(clock_ms(b"clock=\n"), None);
    }

    #[test]
    fn every_fault_says_what_to_do() {
        let fault = |lines: &str| printed(lines).unwrap_err();
        let full = fault("root=/r\nfault=make\nwhy=mkdir: No space left on device");
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
        let other = read(b"os=Darwin\nend=yes\n", b"", 0).unwrap_err();
        assert!(other.to_string().contains("Darwin"));
        let broken = read(b"os=Linux\n", b"sh: awk: not found\x1b[2J", 0).unwrap_err();
        assert!(
            broken.to_string().contains("awk: not found\\u{1b}"),
            "{broken}"
        );
    }
}
