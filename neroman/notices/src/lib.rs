//! What people are told of notices: which go together and when, the texts of letters, and the ways
//! by which these leave this machine.
//!
//! [`plan()`] turns notices, settings and time into letters and calls, [`compose()`] these into
//! deliveries with their bytes: the same letter gives the same bytes, so that a message that is
//! sent again after a crash is known by its id. All of it is pure. [`send()`] hands the bytes to a
//! mail server or to `sendmail`, [`post()`] an event to a webhook, [`hand_to`] an event to a
//! program. Each ends by itself: every step has a deadline.
//!
//! Never done here: what is a notice (`nero_life::notices`), and what is kept on disk (the daemon).

mod account;
mod compose;
pub mod letter;
mod message;
mod plan;
mod post;
mod send;
mod settings;

pub use account::{longest, metric_names};
pub use compose::{ComposedDelivery, DrawnCurves, LetterSources, compose, with_output};
pub use message::{ComposeError, ComposedMessage, Letter, MailThread};
pub use nero_life::notices::SendResult;
pub use plan::{MailPlan, MailSettings, NoticeContext, PlanTime, PlannedLetter, plan};
pub use post::{delivery_changes, outcome_changes, retry_changes};
pub use send::{Envelope, hand_to, post, send};
pub use settings::{is_notified, is_wanted, settings, wanted};
