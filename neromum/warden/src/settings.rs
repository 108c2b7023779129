//! Which scheduler a node has, as its owner configured it: read from the
//! configuration by neroman, and from its command line by neromum.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Warden;
use crate::generic::{Generic, Recipe};
use crate::oge::Oge;
use crate::slurm::Slurm;

/// The scheduler of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// None: neromum itself starts runs.
    #[default]
    None,
    /// SLURM.
    Slurm,
    /// Grid Engine.
    Oge,
    /// Another one, by the commands of the configuration.
    Generic,
}

/// The words of `warden:`.
pub const KINDS: &[(&str, Kind)] = &[
    ("none", Kind::None),
    ("slurm", Kind::Slurm),
    ("oge", Kind::Oge),
    ("generic", Kind::Generic),
];

impl Kind {
    /// The word of `warden:`, and of neromum's command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Slurm => "slurm",
            Self::Oge => "oge",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scheduler is none, slurm, oge or generic")]
pub struct UnknownScheduler;

impl FromStr for Kind {
    type Err = UnknownScheduler;

    fn from_str(text: &str) -> Result<Self, UnknownScheduler> {
        let known = KINDS.iter().find(|(word, _)| *word == text);
        known.map(|(_, kind)| *kind).ok_or(UnknownScheduler)
    }
}

/// The scheduler of a node, and how much it may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The scheduler.
    pub kind: Kind,
    /// Most jobs and tasks of this user in its queue, running ones included; `None`:
    /// the limits of the site alone.
    pub max_queued: Option<u64>,
    /// Most tasks of this neromum that run at once; `None`: as many as the site
    /// allows.
    pub max_running: Option<u32>,
    /// How a generic one is asked.
    pub recipe: Option<Recipe>,
}

impl Settings {
    /// How the scheduler is asked; `None`: there is none.
    pub fn warden(&self) -> Option<Arc<dyn Warden>> {
        match self.kind {
            Kind::None => None,
            Kind::Slurm => Some(Arc::new(Slurm::default())),
            Kind::Oge => Some(Arc::new(Oge::default())),
            Kind::Generic => {
                let generic = Generic::new(self.recipe.as_ref()?).ok()?;
                Some(Arc::new(generic))
            }
        }
    }

    /// As words of neromum's command line; none without a scheduler.
    pub fn words(&self) -> Vec<String> {
        if self.kind == Kind::None {
            return Vec::new();
        }
        let mut words = vec!["--warden".to_owned(), self.kind.to_string()];
        let mut give = |option: &str, value: Option<String>| {
            words.extend(
                value
                    .into_iter()
                    .flat_map(|value| [option.to_owned(), value]),
            );
        };
        give("--max-queued", self.max_queued.map(|max| max.to_string()));
        give("--max-running", self.max_running.map(|max| max.to_string()));
        give("--recipe", self.recipe.as_ref().map(Recipe::text));
        words
    }

    /// Reads an option of [`words`](Self::words) with its value; `None`: the option
    /// is another one, or its value is not valid.
    pub fn take(&mut self, option: &str, value: &str) -> Option<()> {
        match option {
            "--warden" => self.kind = value.parse().ok()?,
            "--max-queued" => self.max_queued = Some(value.parse().ok()?),
            "--max-running" => self.max_running = Some(value.parse().ok()?),
            "--recipe" => self.recipe = Some(usable(value)?),
            _ => return None,
        }
        Some(())
    }
}

/// A recipe of which a scheduler can be made.
fn usable(text: &str) -> Option<Recipe> {
    let recipe = Recipe::read(text).ok()?;
    Generic::new(&recipe).is_ok().then_some(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_travel_as_words_of_a_command_line() {
        let given = Settings {
            kind: Kind::Generic,
            max_queued: Some(400),
            max_running: Some(20),
            recipe: Recipe::named("pbs"),
        };
        let words = given.words();
        let mut read = Settings::default();
        for pair in words.chunks(2) {
            read.take(&pair[0], &pair[1]).unwrap();
        }
        assert_eq!(read, given);
        assert!(Settings::default().words().is_empty());
        assert_eq!(read.take("--warden", "pbs"), None);
        assert_eq!(read.take("--recipe", "{}"), None);
        assert!(read.warden().is_some());
        assert_eq!(read.take("--cpus", "1"), None);
    }
}
