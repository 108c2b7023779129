//! The starters of jobs on a node. Beside the bare node's launcher, batch
//! systems find their place here: each sends the agent news and takes its
//! orders.

pub mod bare;
pub mod orders;
