//! What users and other crates were promised of the expression language.

mod binding;
mod canonical;
mod cohort;
mod meaning;
mod naive;
mod past;
mod properties;
mod refusals;
mod requirements;
mod run;
mod wrong;
