//! What users were promised of selectors.

mod crowd;
mod errors;
mod lab;
mod picking;
mod properties;
mod wrong;
