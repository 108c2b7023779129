//! Verbs that change experiments and their runs.

pub mod abort;
pub mod add;
pub mod adopt;
pub mod annotate;
pub mod edit;
pub mod pause;
pub mod rehearsal;
pub mod restart;
pub mod rm;
pub mod run;
pub mod start;
pub mod template;
