//! What is noticed.

mod noticing;
