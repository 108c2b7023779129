//! The life of a submission: what is known of it, and what follows from a scheduler's answers.
//! Pure: no clock, file or command. The driver in the program asks, reads, and carries out what is
//! decided here.

mod standing;

pub use standing::{APART_MS, Doubt, Ms, Standing};
