//! Which node a run gets, which experiments get a run, and what keeps a run waiting.

pub mod balance;
pub mod batch;
pub mod choose;
pub mod cluster;
pub(crate) mod fit;
pub mod gone;
pub mod held;
pub mod judge;
pub mod ledgers;
pub mod locks;
pub mod outlook;
pub mod precedence;
pub mod restored;
pub mod start;
pub mod waits;

pub use crate::step::placement::Choice;
pub use fit::{Candidate, NodeAvailability, ever_fits, has_data};
pub use judge::{Facts, Figures, GpuFacts, ProbeAnswer};
