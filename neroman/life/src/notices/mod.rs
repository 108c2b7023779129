//! What people are told of, and when.
//!
//! A [`Notice`] is decided in the transaction of the fold or decision that causes it
//! ([`decide()`]). [`plan()`] turns notices, settings and time into deliveries; the daemon
//! composes and sends them.

mod decide;
mod plan;

pub use crate::facts::mail::delivery::{Delivery, DeliveryState, DeliveryWay, SendResult};
pub use crate::facts::mail::notice::{FoundNotice, Notice, NoticeFacts, NoticeKind};
pub use crate::facts::mail::post::{Post, PostChange};
pub use decide::{decide, notices, relayed};
pub use plan::{
    HOUR_MS, MailPlan, MailSettings, NoticeContext, PlanTime, PlannedLetter, READY_WAIT_MS, plan,
};

#[cfg(test)]
mod tests;
