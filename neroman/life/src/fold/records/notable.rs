//! Records that people may be told of one by one: the facts of a run keep only the newest firing of
//! a rule.

use nero_journal::{Record, SegmentId, v1};

use crate::fold::records::Part;
use crate::fold::records::text::text;

/// A record that may concern people, with its place as evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Notable {
    pub incarnation: u32,
    pub segment: SegmentId,
    pub offset: u64,
    pub at_ms: i64,
    pub kind: NotableKind,
}

/// What the record tells.
#[derive(Clone, Debug, PartialEq)]
pub enum NotableKind {
    /// A rule fired that lets the run live.
    Fired {
        rule: String,
        values: String,
        /// Its action is to tell people.
        is_asked: bool,
    },
    /// A watcher remarked something.
    Remark(String),
}

/// What a record tells people, if anything.
pub(super) fn of(part: &Part<'_>, record: &Record<'_>) -> Option<Notable> {
    let kind = if let Some(fired) = record.message::<v1::RuleFired>() {
        if matches!(fired.action.as_str(), "abort" | "restart" | "requeue") {
            // The end of the run tells it.
            return None;
        }
        NotableKind::Fired {
            is_asked: fired.action == "notify",
            rule: text(fired.text),
            values: text(fired.values),
        }
    } else if let Some(notice) = record.message::<v1::Notice>() {
        NotableKind::Remark(text(notice.text))
    } else {
        return None;
    };
    Some(Notable {
        incarnation: part.incarnation,
        segment: part.segment,
        offset: record.offset,
        at_ms: record.wall_ns / 1_000_000,
        kind,
    })
}
