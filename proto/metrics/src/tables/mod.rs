//! Tables: those in printed text, and files that are one.

mod cells;
pub(crate) mod columns;
pub mod table;
