//! Mail: what people are told of, and when.
//!
//! A [`Notice`] is decided in the transaction of the fold or decision that causes it
//! ([`notice::decide`]). [`plan`] turns notices, settings and time into deliveries; the daemon
//! composes and sends them.

mod delivery;
pub mod notice;
mod plan;
mod post;

pub use crate::facts::notice::{FoundNotice, Notice, NoticeKind, Noticed};
pub use delivery::{Delivery, DeliveryState, DeliveryWay, SendResult};
pub use plan::{
    HOUR_MS, MailPlan, MailSettings, NoticeContext, PlanTime, PlannedLetter, READY_WAIT_MS, plan,
};
pub use post::{Post, PostChange};

#[cfg(test)]
mod tests;
