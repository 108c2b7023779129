//! What starts jobs: the orders to launchers, the launcher of a bare node, and what a run asks of a
//! scheduler, whose words the crate `nero_warden` has.

pub mod asked;
pub mod bare;
pub mod orders;
