//! The runs that follow the end of one by themselves.

use super::is_zero;
use serde::{Deserialize, Serialize};

/// The runs that neroman makes by itself after the end of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FollowUp {
    /// `retry`, or the first item of its list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The other items of the list, which count where no earlier one does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Retry>,
    /// `on_timeout: requeue`: a run that our own time limit ended goes on from its
    /// newest checkpoint, as a new run.
    pub requeues_timeout: bool,
    /// `on_error`: what is printed on standard error is an error, too, and the first handler
    /// that fits an error decides. `None`: the exit code alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Vec<ErrorHandler>>,
}

/// What is made of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorHandler {
    /// Exit codes of which it needs one; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit: Vec<i32>,
    /// A regular expression for the last line on standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Lines for `sh` that are run once on the node of the run, before `then`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    pub then: AfterError,
}

/// What follows an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterError {
    /// It is none: the run finished.
    Continue,
    /// The run crashed, and is made again.
    Retry,
    /// The run crashed.
    Abort,
}

impl FollowUp {
    /// Whether no run follows.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a command may run after the end of a run.
    pub fn responds(&self) -> bool {
        let mut handlers = self.on_error.iter().flatten();
        handlers.any(|handler| !handler.run.is_empty())
    }

    /// The items of `retry`, in their order.
    pub fn retries(&self) -> impl Iterator<Item = &Retry> {
        self.retry.iter().chain(&self.more)
    }
}

/// When a run is made again, and with how much more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// The ends that count.
    pub on: Vec<RetryOn>,
    /// Exit codes of which it needs one; empty: any end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit: Vec<i32>,
    /// A regular expression for the last line on standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Most runs that follow one.
    pub max: u32,
    /// Factor of the memory, after an end by too little of it.
    pub memory: f64,
    /// Factor of the time limit, after an end by it.
    pub time: f64,
    /// Pause between the end of a run and the next one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_ms: u64,
    /// Whether it is a handler of `on_error`: it counts ends by an exit code alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_handler: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            on: RetryOn::ALL.to_vec(),
            exit: Vec::new(),
            stderr: None,
            max: 1,
            memory: 1.0,
            time: 1.0,
            after_ms: 0,
            is_handler: false,
        }
    }
}

/// An end after which a run is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// Its machine was started anew, or failed by its scheduler's word.
    NodeFailure,
    /// It used more memory than there was, or than it had asked for.
    OutOfMemory,
    /// A time limit, ours or its scheduler's.
    Timeout,
    /// Its scheduler gave its place to other jobs.
    Preempted,
    /// Any other failure by itself: an exit code, a signal, a full disk.
    Crashed,
}

impl RetryOn {
    /// Every such end.
    pub const ALL: [Self; 5] = [
        Self::NodeFailure,
        Self::OutOfMemory,
        Self::Timeout,
        Self::Preempted,
        Self::Crashed,
    ];

    /// The word in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeFailure => "node_failure",
            Self::OutOfMemory => "out_of_memory",
            Self::Timeout => "timeout",
            Self::Preempted => "preempted",
            Self::Crashed => "crashed",
        }
    }
}

impl std::fmt::Display for RetryOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NodeFailure => "a node failure",
            Self::OutOfMemory => "out of memory",
            Self::Timeout => "its time limit",
            Self::Preempted => "a preemption",
            Self::Crashed => "a crash",
        })
    }
}
