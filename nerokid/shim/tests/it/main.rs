//! Real launchers, shims and jobs: started as programs, spoken to over the
//! socket, judged by the segments that they leave.

mod rig;
mod runs;
