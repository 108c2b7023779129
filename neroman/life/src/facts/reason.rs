//! Why a run waits, or gets no node: data by which code decides and groups. Their texts
//! stand in `Display` alone.

use std::fmt;

use nero_expr::{NodeFact, UnmetRequirement};
use nero_model::RunId;
use nero_model::units::print_less_bytes;
use serde::{Deserialize, Serialize};

use super::partition::NoPartition;
use super::text::bounded;

/// Why a node cannot take a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfit {
    /// The data of this name has no path there.
    NoData(String),
    Cpus {
        has: f64,
        asks: f64,
    },
    Memory {
        has_bytes: u64,
        asks_bytes: u64,
    },
    Disk {
        free_bytes: u64,
        asks_bytes: u64,
    },
    /// No partition of its cluster can ever take the run.
    Cluster(NoPartition),
    /// The parts of `requires` that it does not meet.
    Unmet(Vec<UnmetRequirement>),
    /// `requires` is of a later version.
    Unreadable {
        requires: String,
        error: String,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoData(name) => write!(f, "`data` has no place of `{name}` there"),
            Self::Cpus { has, asks } => write!(f, "cpus {has} < {asks}"),
            Self::Memory {
                has_bytes,
                asks_bytes,
            } => write!(f, "memory {}", print_less_bytes(*has_bytes, *asks_bytes)),
            Self::Disk {
                free_bytes,
                asks_bytes,
            } => write!(
                f,
                "free disk {}",
                print_less_bytes(*free_bytes, *asks_bytes)
            ),
            Self::Cluster(why) => why.fmt(f),
            Self::Unmet(parts) => {
                let texts: Vec<&str> = parts.iter().map(|part| &*part.text).collect();
                f.write_str(&texts.join(", "))
            }
            Self::Unreadable { requires, error } => {
                write!(f, "`{requires}` cannot be read: {error}")
            }
        }
    }
}

/// Why one of a run's nodes does not take it.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    Misfit(Misfit),
    /// The node refused the run, in its words.
    Refused(String),
    /// The node cannot be asked, as in "no contact since 14:02 (why)".
    Away(String),
    /// Another run holds its lock there.
    Locked {
        lock: String,
        /// `None`: whichever it is, see [`Obstacle::lasting`].
        by: Option<RunId>,
        /// Whether that run is lost, and may still run.
        is_lost: bool,
    },
    /// Another run started there just now, or is to, and has to settle.
    Settling {
        after: Option<RunId>,
        has_started: bool,
    },
    /// The run has to be on the node of another one, which is elsewhere.
    SameAs {
        of: RunId,
        /// `None`: it has no node yet.
        there: Option<String>,
    },
    /// A run is there beside which it must not be.
    ApartFrom {
        beside: Option<RunId>,
        /// Whether that run is lost, and may still run.
        is_lost: bool,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misfit(misfit) => misfit.fmt(f),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Away(why) => f.write_str(why),
            Self::Locked { lock, by, is_lost } => {
                write!(f, "{} holds the lock {lock}", NamedRun(*by))?;
                lost_remedy(f, *by, *is_lost)
            }
            Self::SameAs { of, there } => match there {
                Some(there) => write!(f, "it has to be where {of} is: on {there}"),
                None => write!(f, "it has to be where {of} will be, which has no node yet"),
            },
            Self::ApartFrom { beside, is_lost } => {
                let beside_it = NamedRun(*beside);
                write!(f, "{beside_it} is there, from which it is kept apart")?;
                lost_remedy(f, *beside, *is_lost)
            }
            Self::Settling { after, has_started } => match after {
                Some(after) if *has_started => write!(f, "{after} has just started, and settles"),
                Some(after) => write!(f, "{after} has not started yet, and settles first"),
                None => f.write_str("another run starts there, and settles first"),
            },
        }
    }
}

/// A run, if it is named.
struct NamedRun(Option<RunId>);

impl fmt::Display for NamedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(run) => run.fmt(f),
            None => f.write_str("another run"),
        }
    }
}

impl Obstacle {
    /// Whether the run that is the obstacle gives way to another one by itself.
    pub fn passes(&self) -> bool {
        match self {
            Self::Locked { is_lost, .. } | Self::ApartFrom { is_lost, .. } => !is_lost,
            Self::Settling { .. } => true,
            Self::Misfit(_) | Self::Refused(_) | Self::Away(_) | Self::SameAs { .. } => false,
        }
    }

    /// The obstacle as it is stored: without the run, where that is another one after each
    /// start. Thousands of runs may wait for one lock, and none of their records changes
    /// with its holder.
    pub fn lasting(self) -> Self {
        if !self.passes() {
            return self;
        }
        match self {
            Self::Locked { lock, .. } => Self::Locked {
                lock,
                by: None,
                is_lost: false,
            },
            Self::ApartFrom { .. } => Self::ApartFrom {
                beside: None,
                is_lost: false,
            },
            Self::Settling { .. } => Self::Settling {
                after: None,
                has_started: false,
            },
            other => other,
        }
    }
}

/// What to do about a lost run that may still run.
fn lost_remedy(f: &mut fmt::Formatter<'_>, run: Option<RunId>, is_lost: bool) -> fmt::Result {
    match run.filter(|_| is_lost) {
        Some(run) => write!(
            f,
            " and is lost: end it, then `neroman restart {} --abandon`",
            run.experiment
        ),
        None => Ok(()),
    }
}

/// Why a run has no node.
#[derive(Clone, Debug, PartialEq)]
pub enum NoNode {
    /// The word that was asked for stands for no node.
    NoneConfigured,
    /// Every node of the word is excluded.
    NoneLeft,
    /// What keeps each node from it, by the node's name.
    Each(Vec<(String, Obstacle)>),
}

impl NoNode {
    /// Whether the run has to be on the node of another one, which is none of its own nodes.
    pub fn is_elsewhere(&self) -> bool {
        let elsewhere =
            |(_, why): &(String, Obstacle)| matches!(why, Obstacle::SameAs { there: Some(_), .. });
        match self {
            Self::Each(nodes) => nodes.iter().all(elsewhere),
            Self::NoneConfigured | Self::NoneLeft => false,
        }
    }
}

impl fmt::Display for NoNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneConfigured => f.write_str("no node is configured for it"),
            Self::NoneLeft => f.write_str("no node is left for it"),
            Self::Each(nodes) => {
                // Nodes with the same obstacle share it.
                let mut each: Vec<(String, String)> = Vec::new();
                for (node, why) in nodes {
                    let why = why.to_string();
                    match each.iter_mut().find(|(_, known)| *known == why) {
                        Some((names, _)) => {
                            names.push_str(", ");
                            names.push_str(node);
                        }
                        None => each.push((node.clone(), why)),
                    }
                }
                let each = each.iter().map(|(names, why)| format!("{names}: {why}"));
                f.write_str(&each.collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// What a run waits for. It is stored as its text: earlier builds know no other form. A
/// text that was stored is read as [`WaitReason::Said`], until the run is looked at again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum WaitReason {
    /// Nothing is known.
    #[default]
    Unknown,
    /// No node takes it now.
    NoNode(NoNode),
    /// Its node refused it, in the node's words.
    RefusedBy { node: String, why: String },
    /// Its node is asked to give it up because another node has room.
    GoesTo { to: String, from: String },
    /// The words of its node, or of a step that cannot be taken now.
    Said(String),
    /// The words of its node for what does not pass until a person acts.
    NeedsPerson(String),
}

impl WaitReason {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::NoNode(why) => f.write_str(&bounded(&why.to_string())),
            Self::RefusedBy { node, why } => {
                write!(f, "refused by {node}: {why}; another node may get it")
            }
            Self::GoesTo { to, from } => write!(
                f,
                "it goes to {to}, which has room, if {from} has not started it yet"
            ),
            Self::Said(text) | Self::NeedsPerson(text) => f.write_str(text),
        }
    }
}

impl From<String> for WaitReason {
    fn from(text: String) -> Self {
        if text.is_empty() {
            Self::Unknown
        } else {
            Self::Said(text)
        }
    }
}

impl From<WaitReason> for String {
    fn from(why: WaitReason) -> Self {
        why.to_string()
    }
}

/// A reason without its figures: runs with equal ones are reported together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Unknown,
    NoneConfigured,
    NoneLeft,
    Each(Vec<(String, NodeKind)>),
    RefusedBy(String),
    GoesTo { to: String, from: String },
    Said(String),
}

/// What keeps a node from a run, without figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    NoData(String),
    Cpus,
    Memory,
    Disk,
    /// What its partitions lack, or that it has no such one.
    Cluster(String),
    /// The facts that the unmet parts of `requires` name.
    Unmet(Vec<NodeFact>),
    Unreadable,
    Refused(String),
    Away,
    Locked(String),
    Settling,
    SameAs,
    ApartFrom,
}

impl WaitReason {
    /// The reason without its figures.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unknown => Kind::Unknown,
            Self::NoNode(NoNode::NoneConfigured) => Kind::NoneConfigured,
            Self::NoNode(NoNode::NoneLeft) => Kind::NoneLeft,
            Self::NoNode(NoNode::Each(nodes)) => {
                let each = nodes.iter().map(|(node, why)| (node.clone(), why.kind()));
                Kind::Each(each.collect())
            }
            Self::RefusedBy { node, .. } => Kind::RefusedBy(node.clone()),
            Self::GoesTo { to, from } => Kind::GoesTo {
                to: to.clone(),
                from: from.clone(),
            },
            Self::Said(text) | Self::NeedsPerson(text) => Kind::Said(text.clone()),
        }
    }
}

impl Obstacle {
    fn kind(&self) -> NodeKind {
        match self {
            Self::Misfit(Misfit::NoData(name)) => NodeKind::NoData(name.clone()),
            Self::Misfit(Misfit::Cpus { .. }) => NodeKind::Cpus,
            Self::Misfit(Misfit::Memory { .. }) => NodeKind::Memory,
            Self::Misfit(Misfit::Disk { .. }) => NodeKind::Disk,
            Self::Misfit(Misfit::Cluster(why)) => NodeKind::Cluster(why.kind()),
            Self::Misfit(Misfit::Unmet(parts)) => {
                let facts = parts.iter().flat_map(|part| part.facts.iter().copied());
                NodeKind::Unmet(facts.collect())
            }
            Self::Misfit(Misfit::Unreadable { .. }) => NodeKind::Unreadable,
            Self::Refused(why) => NodeKind::Refused(why.clone()),
            Self::Away(_) => NodeKind::Away,
            Self::Locked { lock, .. } => NodeKind::Locked(lock.clone()),
            Self::Settling { .. } => NodeKind::Settling,
            Self::SameAs { .. } => NodeKind::SameAs,
            Self::ApartFrom { .. } => NodeKind::ApartFrom,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_stored_as_its_text_and_what_was_stored_is_shown_as_it_is() {
        let misfit = |asks| {
            let why = Obstacle::Misfit(Misfit::Cpus { has: 1.0, asks });
            WaitReason::NoNode(NoNode::Each(vec![("a".to_owned(), why)]))
        };
        let stored = serde_json::to_string(&misfit(2.0)).unwrap();
        assert_eq!(stored, r#""a: cpus 1 < 2""#);
        let read: WaitReason = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, WaitReason::Said("a: cpus 1 < 2".to_owned()));
        assert_eq!(read.to_string(), misfit(2.0).to_string());
        assert_eq!(
            serde_json::from_str::<WaitReason>(r#""""#).unwrap(),
            WaitReason::Unknown
        );
        assert_eq!(misfit(2.0).kind(), misfit(16.5).kind());
        assert_ne!(misfit(2.0).kind(), read.kind());
    }
}
