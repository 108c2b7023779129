//! Facts about the build of this program, which `main` knows.

/// A fact about the build of this program.
#[derive(Clone, Debug)]
pub struct BuildFact {
    /// Its name. Several facts may share one, as sets of agents do.
    pub name: &'static str,
    /// Its value, for people.
    pub value: String,
}

/// Returns the facts about the build. Blocks: it reads programs.
pub type FactsFunction = fn() -> Vec<BuildFact>;
