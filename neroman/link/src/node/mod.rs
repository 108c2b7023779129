//! The connections to nodes. Each node has one task that connects when it has
//! work, delivers cancel requests, replicates records, and disconnects when it
//! is idle; the placer chooses nodes for runs that name none.

mod abandoned;
mod backoff;
mod contacts;
mod deliver;
mod description;
mod driver;
mod follow;
mod hand_over;
mod handle;
mod inbox;
mod now;
mod placer;
mod registry;
mod resume;
mod settings;
mod stage;
mod task;
mod wake;
mod way;

pub use description::{BYTES_MAX, checked_usage};
pub use handle::NodeHandle;
pub use inbox::{Inboxes, RetryCause};
pub use now::{NodeNow, NodeStates, ReceivedDescription};
pub use registry::{Nodes, Setup, not_configured};
pub use settings::{Settings, open_runs};
