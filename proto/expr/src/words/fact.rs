//! The facts of a run that an expression may name, with kind, unit and origin.
//!
//! The words are a promise to users; a new one is added to [`Fact`], a planned
//! one stands in [`NOT_BUILT`] until then.

use nero_model::state::SIGNALS;

use super::known::KnowledgeHolder;

/// A fact of a run or its experiment.
///
/// The words are those that users type ([`Fact::as_str`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fact {
    /// Number of the experiment.
    Id,
    /// Name of the experiment.
    Name,
    /// Collection of the experiment.
    Collection,
    /// Folder of the experiment.
    Path,
    /// Node of the newest run.
    Node,
    /// State of the experiment: one of the words of its column.
    State,
    /// Number of the run in its experiment: 1, 2 ….
    Attempt,
    /// Seconds in `running`, pauses left out.
    Runtime,
    /// Seconds from being queued to the start, or till now.
    Waittime,
    /// Seconds until the time limit.
    Timeleft,
    /// How much of its work is done, from 0 to 1.
    Progress,
    /// Seconds until its end, by its progress.
    Eta,
    /// Exit code.
    Exit,
    /// Number of the signal that ended the job.
    Signal,
    /// Reason of the run's end.
    Reason,
    /// Seconds since the job last printed or wrote something watched.
    Silent,
    /// Command line.
    Command,
    /// All parameters as the job gets them, in one text.
    Params,
    /// Time of the last change of the experiment or its source.
    Tmod,
    /// Time of the newest run's submission.
    Tsub,
    /// Time of its start.
    Tstart,
    /// Time of its end.
    Tend,
    /// Cores in use now: 1 is one busy core, `40%` is 0.4 of one.
    Cpu,
    /// Bytes of memory in use now.
    Mem,
    /// Bytes on disk in the run's folder.
    Disk,
    /// Mean utilisation of the run's GPUs, from 0 to 1.
    Gpu,
    /// Bytes of memory that the run's processes hold on its GPUs.
    Gpumem,
    /// A person's remark on the experiment.
    Note,
    /// The tags of the experiment.
    Tag,
}

/// The kind of a fact's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// A plain number.
    Number,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Text; a bare word beside it is text too.
    Text,
    /// A moment.
    Time,
    /// Numbers between points, compared one by one: `2.17`.
    Version,
    /// Several words. A comparison with one of them is a comparison with all.
    Words,
}

/// The cause of a fact's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactSource {
    /// Given with the run.
    Given,
    /// Changes when the run's state does.
    Event,
    /// Changes as time goes by.
    Clock,
    /// Measured of the job.
    Sample,
}

/// Facts that are part of the language and not of this version.
pub const NOT_BUILT: [&str; 1] = ["user"];
/// Why there is no `user`.
pub(crate) const NOT_BUILT_WHY: &str = "a home answers its owner alone: all its runs are of one user, \
    and `tag`, `collection` and `node` tell them apart";

impl Fact {
    /// All facts of this version.
    pub const ALL: [Fact; 29] = [
        Fact::Id,
        Fact::Name,
        Fact::Collection,
        Fact::Path,
        Fact::Node,
        Fact::State,
        Fact::Attempt,
        Fact::Runtime,
        Fact::Waittime,
        Fact::Timeleft,
        Fact::Progress,
        Fact::Eta,
        Fact::Exit,
        Fact::Signal,
        Fact::Reason,
        Fact::Silent,
        Fact::Command,
        Fact::Params,
        Fact::Tmod,
        Fact::Tsub,
        Fact::Tstart,
        Fact::Tend,
        Fact::Cpu,
        Fact::Mem,
        Fact::Disk,
        Fact::Gpu,
        Fact::Gpumem,
        Fact::Note,
        Fact::Tag,
    ];

    /// The word that users type.
    pub fn as_str(self) -> &'static str {
        match self {
            Fact::Id => "id",
            Fact::Name => "name",
            Fact::Collection => "collection",
            Fact::Path => "path",
            Fact::Node => "node",
            Fact::State => "state",
            Fact::Attempt => "attempt",
            Fact::Runtime => "runtime",
            Fact::Waittime => "waittime",
            Fact::Timeleft => "timeleft",
            Fact::Progress => "progress",
            Fact::Eta => "eta",
            Fact::Exit => "exit",
            Fact::Signal => "signal",
            Fact::Reason => "reason",
            Fact::Silent => "silent",
            Fact::Command => "command",
            Fact::Params => "params",
            Fact::Tmod => "tmod",
            Fact::Tsub => "tsub",
            Fact::Tstart => "tstart",
            Fact::Tend => "tend",
            Fact::Cpu => "cpu",
            Fact::Mem => "mem",
            Fact::Disk => "disk",
            Fact::Gpu => "gpu",
            Fact::Gpumem => "gpumem",
            Fact::Note => "note",
            Fact::Tag => "tag",
        }
    }

    /// The fact of exactly this word.
    pub fn from_word(word: &str) -> Option<Fact> {
        Fact::ALL.into_iter().find(|fact| fact.as_str() == word)
    }

    /// The kind of the fact's value.
    pub fn kind(self) -> FactKind {
        match self {
            Fact::Id
            | Fact::Attempt
            | Fact::Progress
            | Fact::Exit
            | Fact::Signal
            | Fact::Cpu
            | Fact::Gpu => FactKind::Number,
            Fact::Runtime | Fact::Waittime | Fact::Timeleft | Fact::Eta | Fact::Silent => {
                FactKind::Seconds
            }
            Fact::Mem | Fact::Disk | Fact::Gpumem => FactKind::Bytes,
            Fact::Name
            | Fact::Collection
            | Fact::Path
            | Fact::Node
            | Fact::State
            | Fact::Reason
            | Fact::Command
            | Fact::Params
            | Fact::Note => FactKind::Text,
            Fact::Tag => FactKind::Words,
            Fact::Tmod | Fact::Tsub | Fact::Tstart | Fact::Tend => FactKind::Time,
        }
    }

    /// The cause of the fact's changes.
    pub fn source(self) -> FactSource {
        match self {
            Fact::Id
            | Fact::Name
            | Fact::Collection
            | Fact::Path
            | Fact::Command
            | Fact::Params
            | Fact::Attempt => FactSource::Given,
            Fact::Node
            | Fact::State
            | Fact::Exit
            | Fact::Signal
            | Fact::Reason
            | Fact::Tmod
            | Fact::Tsub
            | Fact::Tstart
            | Fact::Tend
            | Fact::Note
            | Fact::Tag => FactSource::Event,
            Fact::Runtime | Fact::Waittime | Fact::Timeleft | Fact::Eta | Fact::Silent => {
                FactSource::Clock
            }
            Fact::Progress | Fact::Cpu | Fact::Mem | Fact::Disk | Fact::Gpu | Fact::Gpumem => {
                FactSource::Sample
            }
        }
    }

    /// Who knows the fact while a rule over it stands.
    pub fn known_to(self) -> KnowledgeHolder {
        match self {
            Fact::Id
            | Fact::Name
            | Fact::Collection
            | Fact::Node
            | Fact::State
            | Fact::Attempt
            | Fact::Exit
            | Fact::Signal
            | Fact::Command
            | Fact::Params
            | Fact::Tstart => KnowledgeHolder::Both,
            Fact::Runtime
            | Fact::Timeleft
            | Fact::Progress
            | Fact::Eta
            | Fact::Silent
            | Fact::Cpu
            | Fact::Mem
            | Fact::Disk
            | Fact::Gpu
            | Fact::Gpumem => KnowledgeHolder::Watcher,
            Fact::Path
            | Fact::Waittime
            | Fact::Reason
            | Fact::Tmod
            | Fact::Tsub
            | Fact::Tend
            | Fact::Note
            | Fact::Tag => KnowledgeHolder::Daemon,
        }
    }
}

/// A set of facts in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FactSet(u32);

impl FactSet {
    /// Adds `fact`; adding twice is adding once.
    pub fn insert(&mut self, fact: Fact) {
        self.0 |= 1 << fact as u8;
    }

    /// Whether `fact` is in the set.
    pub fn contains(self, fact: Fact) -> bool {
        self.0 & (1 << fact as u8) != 0
    }

    /// The facts of the set, in the order of [`Fact::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Fact> {
        Fact::ALL
            .into_iter()
            .filter(move |&fact| self.contains(fact))
    }

    /// Whether no fact is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The number of a signal by its name, with or without `SIG`, in any case.
pub fn signal_number(word: &str) -> Option<u8> {
    let upper = word.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_it = |name: &&str| name.strip_prefix("SIG") == Some(bare);
    (1..)
        .zip(SIGNALS.iter())
        .find_map(|(number, name)| is_it(name).then_some(number))
}

/// The number of a signal that can be sent, by its number or its name; real-time signals
/// are none.
pub fn sendable_signal(word: &str) -> Option<u8> {
    match word.parse() {
        Ok(number) => Some(number).filter(|number| (1..=31).contains(number)),
        Err(_) => signal_number(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_found_by_its_word() {
        for fact in Fact::ALL {
            assert_eq!(Fact::from_word(fact.as_str()), Some(fact));
            assert!(!NOT_BUILT.contains(&fact.as_str()));
        }
    }

    #[test]
    fn a_signal_is_typed_as_it_is_shown() {
        for number in 1..=31 {
            let shown = nero_model::state::signal_name(number.into());
            assert_eq!(signal_number(&shown), Some(number));
            assert_eq!(signal_number(&shown[3..].to_lowercase()), Some(number));
        }
        assert_eq!(signal_number("signal 40"), None);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = FactSet::default();
        assert!(set.is_empty());
        set.insert(Fact::Disk);
        set.insert(Fact::Id);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Fact::Id, Fact::Disk]);
    }

    #[test]
    fn signals_are_known_with_and_without_sig() {
        for word in ["SIGKILL", "KILL", "kill", "sigkill"] {
            assert_eq!(signal_number(word), Some(9));
        }
        assert_eq!(signal_number("SIGNOPE"), None);
        assert_eq!(sendable_signal("10"), sendable_signal("sigusr1"));
        for word in ["0", "32", "256", "-1", "", "USR3"] {
            assert_eq!(sendable_signal(word), None, "{word}");
        }
    }
}
