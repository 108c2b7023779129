//! Moments on machines' boot clocks, which no step of a wall clock changes.
//!
//! A journal's record contains the boot clock of its machine. Its age is the
//! difference to the present value of that clock, whatever happened to any wall
//! clock since, here or there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::series::Pasts;

/// A moment on one machine's boot clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// The kernel's id of that boot, in hexadecimal.
    pub boot: String,
    /// Milliseconds since that boot, sleep included.
    pub ms: i64,
}

impl Tick {
    /// Milliseconds from an earlier moment to this one, at least. For a moment of
    /// an earlier boot, or an unknown one, only the time since this boot is
    /// certain.
    pub fn since(&self, earlier: Option<&Self>) -> i64 {
        let same = earlier.filter(|earlier| earlier.boot == self.boot);
        let from_ms = same.map_or(0, |earlier| earlier.ms);
        self.ms.saturating_sub(from_ms).max(0)
    }
}

/// A moment on both clocks of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, for people: milliseconds since 1970.
    pub ms: i64,
    /// The boot clock, for all decisions.
    pub tick: Tick,
}

/// This moment.
#[derive(Clone, Debug, Default)]
pub struct PresentTime {
    /// Our wall clock: milliseconds since 1970.
    pub ms: i64,
    /// The present values of the known boot clocks, by boot id.
    pub boots: Arc<BTreeMap<String, i64>>,
    /// The past of metrics until now, as far as an expression asks for it.
    pub pasts: Arc<Pasts>,
}

impl PresentTime {
    /// By both clocks of this machine.
    pub fn at(moment: &Moment) -> Self {
        Self {
            ms: moment.ms,
            boots: Arc::new(BTreeMap::from([(moment.tick.boot.clone(), moment.tick.ms)])),
            ..Self::default()
        }
    }

    /// By the wall clock alone.
    #[cfg(test)]
    pub fn wall(ms: i64) -> Self {
        Self {
            ms,
            ..Self::default()
        }
    }

    /// Whether the tick's boot clock is known.
    pub fn knows(&self, tick: &Tick) -> bool {
        self.boots.contains_key(&tick.boot)
    }

    /// Milliseconds since a moment that a wall clock showed as `wall_ms`; by its
    /// tick if that boot clock is known.
    pub fn since(&self, tick: Option<&Tick>, wall_ms: i64) -> i64 {
        let shown = |tick: &Tick| Some(self.boots.get(&tick.boot)?.saturating_sub(tick.ms));
        tick.and_then(shown)
            .unwrap_or_else(|| self.ms.saturating_sub(wall_ms))
            .max(0)
    }

    /// The value that our present wall clock would have shown at that moment.
    pub fn wall_of(&self, tick: Option<&Tick>, wall_ms: i64) -> i64 {
        match tick {
            Some(tick) if self.knows(tick) => {
                self.ms.saturating_sub(self.since(Some(tick), wall_ms))
            }
            Some(_) | None => wall_ms,
        }
    }

    /// The same moment so many milliseconds earlier.
    pub fn earlier(&self, ms: i64) -> Self {
        let boots = self.boots.iter();
        Self {
            ms: self.ms.saturating_sub(ms),
            boots: Arc::new(
                boots
                    .map(|(boot, at)| (boot.clone(), at.saturating_sub(ms)))
                    .collect(),
            ),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_moves_no_moment_of_a_known_boot() {
        const DAY: i64 = 24 * 3600 * 1000;
        let tick = Tick {
            boot: "b".to_owned(),
            ms: 1000,
        };
        for step in [0, DAY, -DAY] {
            let now = PresentTime {
                ms: 500_000 + step,
                boots: Arc::new(BTreeMap::from([("b".to_owned(), 7000)])),
                ..PresentTime::default()
            };
            assert_eq!(now.since(Some(&tick), 494_000), 6000);
            assert_eq!(now.wall_of(Some(&tick), 494_000), 494_000 + step);
            assert_eq!(now.earlier(2000).since(Some(&tick), 494_000), 4000);
        }
        // For an unknown boot only the wall clocks remain.
        let now = PresentTime::wall(500_000);
        assert_eq!(now.since(Some(&tick), 494_000), 6000);
        assert_eq!(now.since(None, 600_000), 0);
    }
}
