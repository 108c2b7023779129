//! Where experiments are described: YAML files and folders, batch scripts, tables, rows of JSON.
//! Each becomes the same tree of blocks.

mod batch;
pub(crate) mod beneath;
mod file;
pub(crate) mod jsonl;
pub(crate) mod loaded;
pub(crate) mod original;
pub(crate) mod table;
mod walk;
