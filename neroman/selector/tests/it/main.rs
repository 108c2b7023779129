//! What users were promised of selectors.

mod errors;
mod lab;
mod picking;
mod properties;
