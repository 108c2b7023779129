//! What is noticed, and when it is told.

mod noticing;
mod planning;
