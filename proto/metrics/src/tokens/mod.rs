//! What the parts of a line are: the heading before them, numbers, names, steps, known words.

pub mod heading;
pub mod names;
pub mod number;
pub mod step;
pub mod words;
