//! Pairs of a name and a number in a line of text, with a sign between them and without.

pub mod pairs;
mod unsigned;
