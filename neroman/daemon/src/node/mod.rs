//! The connections to nodes. Each node has one task that connects when it has
//! work, delivers cancel requests, replicates records, and disconnects when it
//! is idle; the placer chooses nodes for runs that name none.

mod abandoned;
mod backoff;
mod contacts;
mod deliver;
mod described;
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

pub(crate) use described::{BYTES_MAX, checked_usage};
pub(crate) use handle::NodeHandle;
pub(crate) use inbox::{Inboxes, RetryCause};
pub(crate) use now::{Described, NodeNow, NodeStates};
pub(crate) use registry::{Nodes, Setup, not_configured};
pub(crate) use settings::{Settings, open_runs};
