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
//! The steps, each in its module: `source` finds and decodes the file, `parse` has
//! a tree of positioned nodes made, `walk` goes through the blocks, `block` applies inheritance,
//! `define` reads the fields, `expand` multiplies and `command` fills in.
//!
//! Never done here: running anything, expanding `$NAME`, looking at a node.

mod again;
mod batch;
mod beneath;
mod block;
mod combine;
mod command;
mod conditions;
mod define;
mod definition;
mod doubts;
mod edit;
mod expand;
mod expression;
mod fields;
mod fill;
mod jsonl;
mod loaded;
mod names;
mod original;
mod outputs;
mod params;
mod parse;
mod placing;
mod precedence;
mod problem;
mod processing;
mod pyformat;
mod range;
mod reader;
mod render;
mod rules;
mod scalar;
mod scheduling;
mod schema;
mod script;
mod series;
mod settings;
mod source;
mod spec;
mod steps;
mod style;
mod table;
mod text;
mod walk;
mod words;

pub use beneath::{Defaults, check_defaults};
pub use definition::{
    AfterError, Again, BoundColumn, BoundTable, Buffering, DataDef, DataPath, Definition,
    Dependency, DependsUntil, Edit, EditMistake, Edited, Edits, Effective, ErrorHandler, Fetch,
    InStage, MetricReading, Monitor, NodeChoice, NodeProbe, NodeResources, NotBuilt, Note, OnNode,
    OnNodes, Output, OutputPlot, Override, Param, ParentFile, Place, Placed, Precedence,
    ProcessedOutput, ProcessedUnit, Processing, PythonCall, RenderDef, Resources, Retry, RetryOn,
    RowsOptions, RuleAction, RuleDef, RunLock, Scheduling, ShownValue, Source, SourceKind, Strays,
    Stream, TableOptions, Value,
};
pub use jsonl::{ROWS_FOLDER, is_rows, read_rows};
pub use loaded::Loaded;
pub use nero_expr::ACTIONS;
pub use nero_table::CellValue;
pub use nero_yaml::MISTAKES_MAX as PROBLEMS_MAX;
pub use original::{read_source, read_source_edited, read_source_in};
pub use outputs::glob_mistake;
pub use params::tree::of_text as bracketed_json;
pub use precedence::{is_named, number as experiment_number};
pub use problem::{FormatErrors, Problem};
pub use scheduling::values::{NODE_WORDS as NODE_SCHEDULING, node_word as node_scheduling};
pub use schema::schema;
pub use steps::{PLACES as STEP_PLACES, local as local_step, shown as shown_steps};
pub use table::{
    NUMBER_MAX, NUMBERS_HEADER, NumberColumn, ReadSheet, companion, is_table, read_table,
    read_table_edited,
};
pub use words::split_command;

/// The most experiments that one source may make.
pub const EXPERIMENTS_MAX: u64 = expand::EXPERIMENTS_MAX;
