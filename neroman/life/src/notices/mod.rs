//! What people are told of.
//!
//! A [`Notice`] is decided in the transaction of the fold or decision that causes it
//! ([`decide()`]). The crate `nero-notices` plans, composes and sends deliveries of them.

mod decide;

pub use crate::facts::mail::delivery::{Delivery, DeliveryState, DeliveryWay, SendResult};
pub use crate::facts::mail::notice::{FoundNotice, Notice, NoticeFacts, NoticeKind};
pub use crate::facts::mail::post::{Post, PostChange};
pub use decide::{decide, notices, relayed};

#[cfg(test)]
mod tests;
