//! What the views (`top`, `web`, `mcp`) share: the calls that they make, the lines that they
//! execute, and the rows that they watch. A view is a client that shows a window and types command lines.

pub mod calls;
pub mod line;
pub mod rows;
