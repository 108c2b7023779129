//! Projects of mlframework: the commands of `tasks.py` and the matrix of `parameters.yml`.
//!
//! A text goes in, and what it means or all its mistakes come out; from that, the project in the
//! words of `neronet.yaml`. Python is read, never executed:
//! a command is a literal, or it is refused with its place. Called by neroman's command line; its
//! hosts (`config.sh`, `infra.csv`) are read by `nero-config`.

mod import;
mod parameters;
mod python;
mod tasks;

pub use import::{imported, yaml_text};
pub use parameters::{Parameter, ParameterValue, Values, parameters};
pub use tasks::{Task, TaskCommand, Tasks, tasks};
