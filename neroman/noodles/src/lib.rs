//! Specs of Training Noodles, read as the original reads them.
//!
//! Owns what a spec means: values of YAML 1.1, defaults and merges, groups of commands and their
//! scripts, results of probes, error handlers; the course of its flow; where that differs from the original on
//! purpose ([`INTENDED`]); and the spec in the words of `neronet.yaml`. Called by neroman's command line. No I/O, no clock: a text goes in, and
//! a [`NoodlesSpec`] or all its mistakes come out.

mod builtin;
mod check;
mod command;
mod difference;
mod flow;
mod handler;
mod import;
mod metric;
mod pattern;
mod read;
mod report;
mod server;
mod spec;
mod status;
mod yaml;

pub use check::{Course, Diagnostic, Severity, check, course};
pub use command::{CommandGroup, UnknownScheme, group, script, whole_script};
pub use difference::{Departure, Difference, INTENDED, IntendedDifference, markdown};
pub use flow::{
    CommandsEnd, Flow, FlowNote, FlowResult, FlowStep, Interval, ResultMismatch, WaitReason,
};
pub use handler::{Action, Handler, ReturnCode};
pub use import::imported;
pub use metric::{Comparison, Metric, Operator, Satisfaction};
pub use pattern::{FullPattern, NoPattern, StepLimitError};
pub use read::read;
pub use report::{place, spec_text};
pub use server::Server;
pub use spec::{
    Experiment, Freshness, MAIN_STAGE, MarkedName, NoodlesSpec, Remarks, Requirement, STAGES,
    TwoColonsError, UnknownKey, target,
};
pub use status::StatusFile;
