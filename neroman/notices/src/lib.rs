//! Messages, and the ways by which they leave this machine.
//!
//! [`Letter::compose`] turns a letter into bytes: the same letter gives the same bytes, so that
//! a message that is sent again after a crash is known by its id. [`send()`] hands the bytes to a
//! mail server or to `sendmail`, [`post`] an event to a webhook, [`hand_to`] an event to a
//! program. Each ends by itself: every step has a deadline.

pub mod letter;
mod message;
mod plan;
mod send;

pub use message::{ComposeError, ComposedMessage, Letter, MailThread, Sender};
pub use plan::{HOUR_MS, MailPlan, MailSettings, NoticeContext, PlanTime, PlannedLetter, plan};
pub use send::{Envelope, SendOutcome, hand_to, post, send};
