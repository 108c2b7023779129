//! Files as spreadsheet programs make them, and files that no program makes.

mod bad;
mod golden;
