//! The facts of a node that a requirement may name.

use std::borrow::Cow;

use super::fact::FactKind;
use nero_model::names::same_loosely;

/// A fact of a node. The words are those that users type ([`NodeFact::as_str`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NodeFact {
    /// Processors that runs may use.
    Cpus,
    /// Processors that no run has.
    CpusFree,
    /// Bytes of memory that runs may use.
    Memory,
    /// Bytes of that memory that no run has.
    MemoryFree,
    /// Average number of processes that ran or waited, over the last fifteen
    /// minutes.
    Load,
    /// The same over the last minute.
    Load1,
    /// Number of GPUs.
    Gpus,
    /// Bytes of memory of the largest GPU.
    Gpumem,
    /// Bytes of its memory that no process uses.
    GpumemFree,
    /// Bytes of the disk below the node's root.
    Disk,
    /// Bytes of that disk that are free for us.
    DiskFree,
    /// Operating system: `linux`.
    Os,
    /// Machine: `x86_64`, `aarch64`.
    Arch,
    /// Version of the kernel: `5.14.0-362`.
    Kernel,
    /// Version of glibc: `2.34`; unknown where there is none.
    Glibc,
    /// Name that the host gives itself.
    Host,
    /// The node's name in the configuration.
    Name,
    /// The node's groups.
    Group,
    /// Number of our live runs there.
    Live,
    /// Number of our runs that wait there.
    Waiting,
}

impl NodeFact {
    /// All facts.
    pub const ALL: [NodeFact; 20] = [
        NodeFact::Cpus,
        NodeFact::CpusFree,
        NodeFact::Memory,
        NodeFact::MemoryFree,
        NodeFact::Load,
        NodeFact::Load1,
        NodeFact::Gpus,
        NodeFact::Gpumem,
        NodeFact::GpumemFree,
        NodeFact::Disk,
        NodeFact::DiskFree,
        NodeFact::Os,
        NodeFact::Arch,
        NodeFact::Kernel,
        NodeFact::Glibc,
        NodeFact::Host,
        NodeFact::Name,
        NodeFact::Group,
        NodeFact::Live,
        NodeFact::Waiting,
    ];

    /// The word that users type.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeFact::Cpus => "cpus",
            NodeFact::CpusFree => "cpus_free",
            NodeFact::Memory => "memory",
            NodeFact::MemoryFree => "memory_free",
            NodeFact::Load => "load",
            NodeFact::Load1 => "load1",
            NodeFact::Gpus => "gpus",
            NodeFact::Gpumem => "gpumem",
            NodeFact::GpumemFree => "gpumem_free",
            NodeFact::Disk => "disk",
            NodeFact::DiskFree => "disk_free",
            NodeFact::Os => "os",
            NodeFact::Arch => "arch",
            NodeFact::Kernel => "kernel",
            NodeFact::Glibc => "glibc",
            NodeFact::Host => "host",
            NodeFact::Name => "name",
            NodeFact::Group => "group",
            NodeFact::Live => "live",
            NodeFact::Waiting => "waiting",
        }
    }

    /// The fact of exactly this word.
    pub fn named(word: &str) -> Option<NodeFact> {
        NodeFact::ALL.into_iter().find(|fact| fact.as_str() == word)
    }

    /// The fact of this word, written exactly or loosely (`GPU-mem`).
    pub fn from_word(word: &str) -> Option<NodeFact> {
        NodeFact::named(word).or_else(|| {
            NodeFact::ALL
                .into_iter()
                .find(|fact| same_loosely(fact.as_str(), word))
        })
    }

    /// The kind of the fact's value.
    pub fn kind(self) -> FactKind {
        match self {
            NodeFact::Cpus
            | NodeFact::CpusFree
            | NodeFact::Load
            | NodeFact::Load1
            | NodeFact::Gpus
            | NodeFact::Live
            | NodeFact::Waiting => FactKind::Number,
            NodeFact::Memory
            | NodeFact::MemoryFree
            | NodeFact::Gpumem
            | NodeFact::GpumemFree
            | NodeFact::Disk
            | NodeFact::DiskFree => FactKind::Bytes,
            NodeFact::Os | NodeFact::Arch | NodeFact::Host | NodeFact::Name => FactKind::Text,
            NodeFact::Kernel | NodeFact::Glibc => FactKind::Version,
            NodeFact::Group => FactKind::Words,
        }
    }

    /// Whether the fact stays the same until a person changes the machine or its
    /// configuration. A requirement that fails by such a fact is not met by waiting.
    pub fn is_lasting(self) -> bool {
        match self {
            NodeFact::Cpus
            | NodeFact::Memory
            | NodeFact::Gpus
            | NodeFact::Gpumem
            | NodeFact::Disk
            | NodeFact::Os
            | NodeFact::Arch
            | NodeFact::Kernel
            | NodeFact::Glibc
            | NodeFact::Host
            | NodeFact::Name
            | NodeFact::Group => true,
            NodeFact::CpusFree
            | NodeFact::MemoryFree
            | NodeFact::Load
            | NodeFact::Load1
            | NodeFact::GpumemFree
            | NodeFact::DiskFree
            | NodeFact::Live
            | NodeFact::Waiting => false,
        }
    }
}

/// The order of two versions: numbers between points, missing ones as zero. A suffix
/// behind the numbers (`-362.el9`) is not compared. `None` when one has no number.
pub(crate) fn compare_versions(left: &str, right: &str) -> Option<std::cmp::Ordering> {
    let (left, right) = (numbers(left)?, numbers(right)?);
    let longest = left.len().max(right.len());
    let at = |list: &[u64], index: usize| list.get(index).copied().unwrap_or(0);
    (0..longest)
        .map(|index| at(&left, index).cmp(&at(&right, index)))
        .find(|order| order.is_ne())
        .or(Some(std::cmp::Ordering::Equal))
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    version[..end]
        .trim_end_matches('.')
        .split('.')
        .map(|part| part.parse().ok())
        .collect()
}

/// The error for a word that is no fact of a node, and none of these probes.
pub(crate) fn unknown_fact(word: &str, probes: &[String]) -> (String, Cow<'static, str>) {
    let message = match probes {
        [] => format!("no fact of a node is called `{word}`"),
        _ => format!("no fact of a node and no probe is called `{word}`"),
    };
    let words = NodeFact::ALL.map(NodeFact::as_str);
    let own = probes.iter().map(String::as_str);
    let hint = match nero_model::names::suggest(word, own.clone().chain(words)) {
        Some(near) => format!("did you mean `{near}`?").into(),
        None => {
            let probes: String = own.map(|probe| format!(" {probe}")).collect();
            let probes = if probes.is_empty() {
                String::new()
            } else {
                format!("; probes are{probes}")
            };
            format!("facts of a node are {}{probes}", words.join(" ")).into()
        }
    };
    (message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn words_read_back_exactly_and_loosely() {
        for fact in NodeFact::ALL {
            assert_eq!(NodeFact::from_word(fact.as_str()), Some(fact));
            let upper = fact.as_str().to_uppercase().replace('_', "-");
            assert_eq!(NodeFact::from_word(&upper), Some(fact), "{upper}");
        }
        assert_eq!(NodeFact::from_word("runtime"), None);
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        for (left, right, order) in [
            ("2.9", "2.17", Some(Ordering::Less)),
            ("2.17", "2.17.0", Some(Ordering::Equal)),
            ("5.14.0-362.el9", "5.14", Some(Ordering::Equal)),
            ("6.1", "5.14", Some(Ordering::Greater)),
            ("musl", "2.17", None),
            ("", "1", None),
            ("1..2", "1", None),
        ] {
            assert_eq!(compare_versions(left, right), order, "{left} {right}");
        }
    }
}
