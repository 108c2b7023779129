//! Why no partition or queue of a cluster can ever take a run.

use std::fmt;

use nero_model::units::{print_duration_ms, print_less_bytes};

/// Why no partition of a cluster can ever take a run.
#[derive(Clone, Debug, PartialEq)]
pub enum NoPartition {
    /// The cluster has none of this name.
    Unknown {
        /// The word of the experiment: `partition`, `queue`, `parallel_env`.
        word: &'static str,
        name: String,
        known: Vec<String>,
    },
    /// The run names none, and the cluster has no default.
    NoneNamed { known: Vec<String> },
    /// Each that may be meant lacks something.
    Each(Vec<(String, Shortage)>),
}

/// What a partition lacks for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Shortage {
    Hosts {
        has: u64,
        asks: u32,
    },
    Cpus {
        has: u64,
        asks: f64,
    },
    Memory {
        has_bytes: u64,
        asks_bytes: u64,
    },
    Time {
        most_s: u64,
        asks_s: u64,
        /// Runs in one pack.
        runs: u32,
    },
    /// `has`: the most GPUs of the type on one host.
    Gpus {
        kind: String,
        has: u64,
        asks: u64,
    },
}

impl NoPartition {
    /// The reason without its figures.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Unknown { word, name, .. } => format!("{word} {name}"),
            Self::NoneNamed { .. } => "none named".to_owned(),
            Self::Each(partitions) => {
                let each = partitions.iter();
                let each = each.map(|(name, lacks)| format!("{name} {}", lacks.resource()));
                each.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

impl Shortage {
    fn resource(&self) -> &'static str {
        match self {
            Self::Hosts { .. } => "nodes",
            Self::Cpus { .. } => "cpus",
            Self::Memory { .. } => "memory",
            Self::Time { .. } => "time",
            Self::Gpus { .. } => "gpus",
        }
    }
}

/// Most names that a sentence lists.
const NAMED_MAX: usize = 8;

fn listed(names: &[String]) -> String {
    let mut text = names[..names.len().min(NAMED_MAX)].join(", ");
    if names.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMED_MAX));
    }
    text
}

impl fmt::Display for NoPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { word, name, known } => {
                write!(f, "it has no `{word}: {name}`, but {}", listed(known))
            }
            Self::NoneNamed { known } => write!(
                f,
                "it has no default partition: `partition:` names one of {}",
                listed(known)
            ),
            Self::Each(partitions) => {
                let each = partitions[..partitions.len().min(NAMED_MAX)].iter();
                let each = each.map(|(name, lacks)| format!("{name}: {lacks}"));
                f.write_str(&each.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts { has, asks } => write!(f, "nodes {has} < {asks}"),
            Self::Cpus { has, asks } => write!(f, "cpus {has} < {asks}"),
            Self::Memory {
                has_bytes,
                asks_bytes,
            } => write!(f, "memory {}", print_less_bytes(*has_bytes, *asks_bytes)),
            Self::Time {
                most_s,
                asks_s,
                runs,
            } => {
                let print = |seconds: u64| print_duration_ms(seconds.saturating_mul(1000));
                let (most, asks) = (print(*most_s), print(*asks_s));
                let of = match runs {
                    0 | 1 => String::new(),
                    runs => format!(" of a pack of {runs} runs"),
                };
                write!(f, "time {most} < {asks}{of} (grace and a margin included)")
            }
            Self::Gpus { kind, has, asks } => {
                let kind = match kind.as_str() {
                    "" => String::new(),
                    kind => format!(" {kind}"),
                };
                write!(f, "gpus{kind} {has} < {asks}")
            }
        }
    }
}
