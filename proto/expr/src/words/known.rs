//! Where a standing rule is evaluated, and who knows what it is over.

/// Where a standing rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// Beside the job, by the watcher of the run.
    Job,
    /// In neroman's daemon, when it learns of a change or its time has come.
    Daemon,
}

impl RulePlace {
    /// The word in `rule list`.
    pub fn as_str(self) -> &'static str {
        match self {
            RulePlace::Job => "job",
            RulePlace::Daemon => "daemon",
        }
    }
}

/// Who knows something while a rule over it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnowledgeHolder {
    Both,
    Watcher,
    Daemon,
}

impl KnowledgeHolder {
    /// Whether a rule that is evaluated at `place` can use it.
    pub fn is_known_at(self, place: RulePlace) -> bool {
        match self {
            KnowledgeHolder::Both => true,
            KnowledgeHolder::Watcher => place == RulePlace::Job,
            KnowledgeHolder::Daemon => place == RulePlace::Daemon,
        }
    }
}
