//! What starts jobs on this host: the orders to launchers, and the launcher of a bare node.

pub mod bare;
pub mod orders;
