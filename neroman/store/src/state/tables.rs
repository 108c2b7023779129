//! The tables of `state.db` with all columns, since a checksum covers them, and the names
//! of what `meta` holds. `rule_state` and `node` are empty, but are verified.

use crate::table::Table;

pub(crate) static META: Table = Table::new("meta", 1, &["key", "value"]);
pub(crate) static SOURCE: Table = Table::new(
    "source",
    1,
    &[
        "id", "path", "kind", "file", "folder", "digest", "mtime_ns", "kept",
    ],
);
pub(crate) static EXPERIMENT: Table = Table::new(
    "experiment",
    1,
    &[
        "id",
        "collection",
        "name",
        "definition",
        "fingerprint",
        "source",
        "path",
        "created_ms",
        "modified_ms",
        "hidden_ms",
        "gone",
        "kept",
    ],
);
pub(crate) static RUN: Table = Table::new(
    "run",
    1,
    &[
        "key",
        "experiment",
        "number",
        "token",
        "node",
        "tree",
        "created_ms",
        "made",
    ],
);
pub(crate) static RUN_SPEC: Table = Table::new("run_spec", 1, &["run", "spec"]);
pub(crate) static RUN_DESK: Table = Table::new("run_desk", 1, &["run", "wish_ms", "desk"]);
pub(crate) static RUN_FACTS: Table = Table::new(
    "run_facts",
    1,
    &[
        "run",
        "phase",
        "submitted_ms",
        "started_ms",
        "ended_ms",
        "facts",
    ],
);
pub(crate) static SEGMENT: Table = Table::new(
    "segment",
    2,
    &["run", "id", "incarnation", "offset", "chain"],
);
pub(crate) static RULE: Table = Table::new(
    "rule",
    1,
    &[
        "id",
        "version",
        "experiment",
        "action",
        "text",
        "author",
        "origin",
        "repeat_ms",
        "active",
        "created_ms",
    ],
);
pub(crate) static RULE_STATE: Table = Table::new(
    "rule_state",
    2,
    &[
        "run",
        "rule",
        "fired",
        "last_fired_ms",
        "last_values",
        "bound",
        "problem",
    ],
);
pub(crate) static REQUEST: Table = Table::new("request", 1, &["id", "at_ms", "reply"]);
pub(crate) static EVENT: Table =
    Table::new("event", 1, &["id", "experiment", "run", "at_ms", "text"]);
pub(crate) static NODE: Table = Table::new("node", 1, &["name", "contact_ms", "description"]);
pub(crate) static CELL: Table =
    Table::new("cell", 3, &["experiment", "heading", "part", "content"]);
pub(crate) static NOTICE: Table = Table::new("notice", 1, &["id", "content"]);
pub(crate) static DELIVERY: Table = Table::new("delivery", 1, &["id", "content"]);
pub(crate) static LETTER: Table = Table::new("letter", 1, &["delivery", "bytes"]);

/// Every table of the file.
pub(crate) static ALL: [&Table; 17] = [
    &META,
    &SOURCE,
    &EXPERIMENT,
    &RUN,
    &RUN_SPEC,
    &RUN_DESK,
    &RUN_FACTS,
    &SEGMENT,
    &RULE,
    &RULE_STATE,
    &REQUEST,
    &EVENT,
    &NODE,
    &CELL,
    &NOTICE,
    &DELIVERY,
    &LETTER,
];

/// Names of rows of `meta`.
pub(crate) mod meta {
    /// The deployment's id; the same in both files.
    pub(crate) const DEPLOYMENT: &str = "deployment";
    /// The next experiment's number.
    pub(crate) const NEXT_EXPERIMENT: &str = "next experiment";
    /// The next run's key.
    pub(crate) const NEXT_RUN: &str = "next run";
    /// The next rule's number.
    pub(crate) const NEXT_RULE: &str = "next rule";
    /// The next source's number.
    pub(crate) const NEXT_SOURCE: &str = "next source";
    /// Experiments that the selector `last` picks: numbers, 8 bytes each.
    pub(crate) const LAST: &str = "last";
    /// Prefix of the names of the caller's own rows.
    pub(crate) const OWN: &str = "own ";
}
