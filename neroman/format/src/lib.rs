//! Reads experiment descriptions into definitions.
//!
//! The original Neronet `config.yaml` and the native `neronet.yaml` are one format:
//! blocks named `+name` that inherit, parameters whose lists multiply, and fields
//! that say how to run, what to watch and what to bring home. [`read_source`] reads a
//! folder or a YAML file completely and answers with every experiment in it, or with
//! every mistake in it; nothing is half read. Called by neroman only.
//!
//! A table is read by [`read_table`]: each row becomes a block of the same tree (`table`).
//!
//! Its rooms, each of which imports only those before it: `definition` has the types, `read` makes
//! definitions of a tree of blocks, `edit` puts what a person typed in place of a source's values,
//! and `sources` finds files and makes trees of them. Two stand alone, for the readers of other
//! systems: [`python`] has values as Python has them, and `text` what a `neronet.yaml` is made of.
//!
//! The steps, each in its module: `file` finds and decodes the file, `parse` has
//! a tree of positioned nodes made, `walk` goes through the blocks, `block` applies inheritance,
//! `define` reads the fields, `expand` multiplies and `command` fills in.
//!
//! Never done here: running anything, expanding `$NAME`, looking at a node.

mod definition;
mod edit;
pub mod python;
mod read;
mod sources;
mod text;
mod typed;

pub use definition::problem::{FormatErrors, Problem};
pub use definition::{
    AfterError, AppliedEdit, BoundColumn, BoundTable, Container, DataDef, DataPath, Definition,
    Dependency, DependsUntil, Edit, EditMistake, Edits, Effective, ErrorHandler, Fetch, FollowUp,
    InStage, MetricReading, Monitor, NodeChoice, NodeProbe, NodeResources, NotBuilt, Note, OnNode,
    OnNodes, Output, OutputBuffering, OutputPlot, OutputProcessing, Override, Param, ParentFile,
    Place, Precedence, ProcessedOutput, ProcessedUnit, PythonCall, RenderDef, Resources, Retry,
    RetryOn, RowsOptions, RuleAction, RuleDef, RunLock, SchedulerOptions, SharedPart, ShownValue,
    Source, SourceKind, SourceText, Strays, Stream, TableOptions, Value, float_text,
};
pub use nero_expr::ACTIONS;
pub use nero_table::CellValue;
pub use nero_yaml::MISTAKES_MAX as PROBLEMS_MAX;
pub use read::command::steps::{PLACES as STEP_PLACES, local as local_step, shown_steps};
pub use read::command::words::split_command;
pub use read::groups::outputs::glob_mistake;
pub use read::groups::placing::PROBE_BYTES_MAX;
pub use read::groups::precedence::{is_named, number as experiment_number};
pub use read::groups::scheduling::values::{
    node_word as node_scheduling, shown_word as shown_scheduling,
};
pub use read::params::range::{Range, RangeError};
pub use read::schema::schema;
pub use sources::beneath::{Defaults, check_defaults};
pub use sources::jsonl::{ROWS_FOLDER, is_rows, read_rows};
pub use sources::loaded::LoadedSource;
pub use sources::original::{read_source, read_source_edited, read_source_in};
pub use sources::table::{
    NUMBER_MAX, NUMBERS_HEADER, NumberColumn, ReadSheet, companion, is_table, read_table,
    read_table_edited,
};
pub use text::{ImportedText, put_block, scalar};
pub use typed::template::{shell_word, template, with_places};
pub use typed::values::{
    COMBINATIONS_MAX, ParameterValues, ValuesError, parameter_rows, parameter_values,
};

/// The most experiments that one source may make.
pub const EXPERIMENTS_MAX: u64 = read::expand::EXPERIMENTS_MAX;
