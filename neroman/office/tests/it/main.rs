//! The program as neroman calls it.

mod modules;
mod words;
