//! One delivery: something composed for one recipient, and how far it has come.

use serde::{Deserialize, Serialize};

const MINUTE_MS: i64 = 60_000;
/// The longest pause between two tries.
const PAUSE_MAX_MS: i64 = 6 * 60 * MINUTE_MS;
/// A delivery is given up after this long and so many tries: it may have waited for a person, or
/// this machine may have slept.
const PATIENCE_MS: i64 = 3 * 24 * 60 * MINUTE_MS;
const TRIES_MIN: u32 = 12;

/// How something leaves this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryWay {
    Mail,
    Webhook,
    Command,
}

/// A delivery. Its bytes never change once it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    #[serde(skip)]
    pub id: u64,
    /// From the keys of its notices.
    pub key: String,
    pub way: DeliveryWay,
    /// The address of a mail; empty for webhook and command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// The sender's address of a mail.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    pub subject: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_id: String,
    /// The collection of its thread; none: several, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_digest: bool,
    /// Of a digest: the hash of its text. The next one is left out while it would tell the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    pub made_ms: i64,
    #[serde(default)]
    pub tries: u32,
    pub state: DeliveryState,
}

/// How far a delivery has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is tried at this time. `why`: what the last try met.
    Waiting {
        next_ms: i64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// The login was refused: everything of its way waits until a person acts.
    Blocked { since_ms: i64, why: String },
    /// It was accepted, with these words.
    Sent { at_ms: i64, words: String },
    /// It is refused for good.
    Refused { at_ms: i64, why: String },
    /// It was tried for too long.
    GivenUp { at_ms: i64, why: String },
}

/// What came of sending a delivery. Each variant has the words to show: those of the server, made
/// safe, or what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// It was taken.
    Accepted(String),
    /// It may get through later: the network, a busy server, a certificate, a program for the
    /// password. After a timeout it may even have been taken.
    Later(String),
    /// It never gets through: the recipient is unknown, or the message itself is refused.
    Refused(String),
    /// Nothing gets through until the configuration changes: the login or the sender is refused.
    LoginRefused(String),
}

impl SendResult {
    /// The words to show.
    pub fn words(&self) -> &str {
        match self {
            Self::Accepted(words)
            | Self::Later(words)
            | Self::Refused(words)
            | Self::LoginRefused(words) => words,
        }
    }
}

impl Delivery {
    /// What becomes of it by a try that ended at this time.
    #[must_use]
    pub fn after(&self, result: SendResult, now_ms: i64) -> Self {
        let tries = self.tries.saturating_add(1);
        let state = match result {
            SendResult::Accepted(words) => DeliveryState::Sent {
                at_ms: now_ms,
                words,
            },
            SendResult::Refused(why) => DeliveryState::Refused { at_ms: now_ms, why },
            SendResult::LoginRefused(why) => DeliveryState::Blocked {
                since_ms: now_ms,
                why,
            },
            SendResult::Later(why) => {
                let next_ms = now_ms.saturating_add(pause_ms(tries));
                if tries >= TRIES_MIN && next_ms > self.until_ms() {
                    DeliveryState::GivenUp { at_ms: now_ms, why }
                } else {
                    DeliveryState::Waiting { next_ms, why }
                }
            }
        };
        Self {
            tries,
            state,
            ..self.clone()
        }
    }

    /// The same, to be tried now, if it waits.
    pub fn again(&self, now_ms: i64) -> Option<Self> {
        let (DeliveryState::Waiting { why, .. } | DeliveryState::Blocked { why, .. }) = &self.state
        else {
            return None;
        };
        Some(Self {
            state: DeliveryState::Waiting {
                next_ms: now_ms,
                why: why.clone(),
            },
            ..self.clone()
        })
    }

    /// Until when it is tried.
    pub fn until_ms(&self) -> i64 {
        self.made_ms.saturating_add(PATIENCE_MS)
    }
}

impl DeliveryState {
    /// Whether nothing more is tried.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Blocked { .. } => false,
            Self::Sent { .. } | Self::Refused { .. } | Self::GivenUp { .. } => true,
        }
    }
}

/// The pause after so many tries: 1 min, twice as long each time.
fn pause_ms(tries: u32) -> i64 {
    let doubled = MINUTE_MS.checked_shl(tries.saturating_sub(1).min(16));
    doubled.unwrap_or(PAUSE_MAX_MS).min(PAUSE_MAX_MS)
}
