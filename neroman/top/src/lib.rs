//! `neroman top`: one screen that shows a window of the experiments and types command lines.
//!
//! [`Top`] is a pure state: [`Top::update`] takes an [`Event`] and returns what is to be asked
//! ([`Ask`]), [`Top::draw`] makes a frame. It owns no terminal, no connection and no clock. What it
//! does is a line of neroman, which the caller executes.

mod ask;
mod draw;
mod input;
mod keys;
mod mode;
mod pane;
mod style;
mod table;
mod top;

pub use ask::{Ask, Event, LineAnswer, LogRequest, Query};
pub use style::TerminalLook;
pub use top::Top;

#[cfg(test)]
mod tests;
