//! `neroman web`: a page that shows a window of the experiments and types command lines.
//!
//! [`serve`] answers a browser over HTTP/1: static pages, documents, pictures, logs, and one stream
//! of a window for each tab. It knows neither the daemon nor how a line is executed: each request
//! becomes a [`ViewCall`], which the caller answers. `guard` decides who is answered.

mod accept;
mod call;
mod curves;
mod files;
mod guard;
mod lines;
mod mcp;
mod pages;
mod peer;
mod query;
mod reply;
mod server;
mod window;

pub use accept::{Door, DoorError, serve};
pub use call::{CallAnswer, LineRequest, LineResult, Refusal, RowsMessage, ViewCall};
pub use mcp::AgentTools;
pub use query::encoded;
pub use server::{Caller, Site, ViewSettings};

#[cfg(test)]
mod tests;
