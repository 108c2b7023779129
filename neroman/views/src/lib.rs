//! What people and programs see of experiments. [`Fact`] is the one table of facts;
//! each has a name and a [`Value`] with a type, and its text, CSV and JSON follow
//! from the type.
//!
//! The command line prints with it. It owns no terminal, no connection and no
//! file: it takes messages of the wire and returns text or documents.

pub mod book;
pub mod columns;
pub mod csv;
pub mod curves;
pub mod diff;
pub mod export;
mod fact;
pub mod json;
mod object;
pub mod results;
pub mod series;
pub mod text;
pub mod totals;
pub mod typed;
mod value;
pub mod workbooks;

pub use columns::{Column, NoColumn};
pub use fact::{Fact, of_run};
pub use value::Value;
