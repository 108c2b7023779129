//! Faults of a machine that keep us from using it, with what to do about each.

use nero_model::safe::Safe;

use crate::elf::Glibc;
use crate::libc::Libc;

/// A fault of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// Another operating system.
    #[error("it runs {}, and nodes run Linux", Safe::line(os))]
    NotLinux {
        /// Its operating system.
        os: String,
    },
    /// Its shell failed in our script.
    #[error("its /bin/sh cannot run what nodes need: {}", short(said))]
    Shell {
        /// Output of the shell.
        said: String,
    },
    /// A variable in `root` is not set there.
    #[error("the variable {} is not set there", short(name))]
    Unset {
        /// Name of the variable.
        name: String,
    },
    /// The root as expanded there is not an absolute path.
    #[error("its root is not an absolute path there: {}", short(root))]
    Relative {
        /// The expanded root.
        root: String,
    },
    /// The root is a symbolic link.
    #[error("its root {} is a link to {}", short(root), short(target))]
    Link {
        /// The root.
        root: String,
        /// Target of the link.
        target: String,
    },
    /// The root is a file.
    #[error("its root {} is no folder", short(root))]
    NotFolder {
        /// The root.
        root: String,
    },
    /// The root belongs to another user.
    #[error("its root {} belongs to the user {}", short(root), short(owner))]
    Foreign {
        /// The root.
        root: String,
        /// Name of that user.
        owner: String,
    },
    /// Every user there can put other programs into the root.
    #[error("every user there can write to its root {}", short(root))]
    Open {
        /// The root.
        root: String,
    },
    /// The folder cannot be made or written to.
    #[error("cannot write to its root {}: {}", short(root), short(why))]
    Write {
        /// The root.
        root: String,
        /// Error message of the machine.
        why: String,
    },
    /// No space, quota or inodes.
    #[error("no space for the agents in {}: {}", short(root), short(why))]
    NoSpace {
        /// The root.
        root: String,
        /// The free space, or the error message of the machine.
        why: String,
        /// Bytes that a push needs.
        needed_bytes: u64,
    },
    /// Programs in the root cannot be run.
    #[error("programs in its root {} cannot be run: {}", short(root), short(why))]
    NoExec {
        /// The root.
        root: String,
        /// Error message of the machine.
        why: String,
    },
    /// There are no agents for it.
    #[error("there are no agents for {} here, only for {}", short(arch), have.join(", "))]
    Arch {
        /// Machine of the node, as `uname -m` prints it.
        arch: String,
        /// Machines for which there are agents.
        have: Vec<String>,
    },
    /// Its C library is too old for every agent that we have.
    #[error("its C library ({libc}) is older than what the agents need (glibc {needed})")]
    OldLibc {
        /// C library of the machine.
        libc: Libc,
        /// Version that the least demanding agents need.
        needed: Glibc,
    },
    /// It has another C library.
    #[error("its C library is {libc}, and the agents need glibc {needed} or later")]
    OtherLibc {
        /// C library of the machine.
        libc: Libc,
        /// Version that the least demanding agents need.
        needed: Glibc,
    },
}

/// One line of bounded length from a machine's text.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let text = text.trim();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{} …", Safe::line(&text[..end])),
        None => Safe::line(text).to_string(),
    }
}

impl NodeFault {
    /// The next step for the user.
    pub fn hint(&self) -> String {
        const ELSEWHERE: &str = "set the node's `root:` to a folder of your own";
        match self {
            Self::NotLinux { .. } => "use a machine with Linux".to_owned(),
            Self::Shell { .. } => {
                "it must have a POSIX sh with the usual programs (mkdir, cat, df, awk, sed)"
                    .to_owned()
            }
            Self::Unset { name } => format!(
                "set {} in a start-up file there that login shells read, or write the folder itself as the node's `root:`",
                short(name)
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
            Self::Open { .. } => format!("`chmod o-w` it there, or {ELSEWHERE}"),
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

    /// Whether a retry is useless before a person has changed something. Space
    /// may come back by itself.
    pub fn needs_user(&self) -> bool {
        !matches!(
            self,
            Self::NoSpace { .. } | Self::Shell { .. } | Self::Write { .. }
        )
    }
}

/// Whether a machine's error message means that there is no room.
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

/// The fault with the name that the probe printed.
pub(crate) fn named(kind: &str, why: String, root: String, needed_bytes: u64) -> NodeFault {
    match kind {
        "unset" => NodeFault::Unset { name: why },
        "relative" => NodeFault::Relative { root: why },
        "link" => NodeFault::Link { root, target: why },
        "file" => NodeFault::NotFolder { root },
        "owner" => NodeFault::Foreign { root, owner: why },
        "open" => NodeFault::Open { root },
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
