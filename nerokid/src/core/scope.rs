//! What the lines of a log tell of sets, as a record.

use nero_journal::v1::LogScope;
use nero_metrics::labels::label::{Label, Labels};
use nero_metrics::labels::scope::{Scope, SetEnd};

/// The record of a scope; none where it tells nothing.
pub fn record(scope: &Scope) -> Option<LogScope> {
    if *scope == Scope::default() {
        return None;
    }
    let (end, above) = match scope.end {
        SetEnd::Open => (0, 0.0),
        SetEnd::AtStep => (1, 0.0),
        SetEnd::Above(step) => (2, step),
        SetEnd::Never => (3, 0.0),
    };
    let text = |label: &Label| label.as_str().to_owned();
    Some(LogScope {
        group: text(&scope.labels.group),
        set: text(&scope.labels.set),
        home: text(&scope.home),
        end,
        above,
        rank: scope.counted.map_or(0, |(rank, _)| rank.into()),
        count: scope.counted.map(|(_, step)| step),
        behind_parts: scope.is_behind_parts,
        ranks_in_front: scope.has_ranks_in_front,
    })
}

/// The scope of a record.
pub fn read(record: &LogScope) -> Scope {
    let label = |text: &str| Label::new(text.as_bytes());
    Scope {
        labels: Labels {
            group: label(&record.group),
            set: label(&record.set),
        },
        home: label(&record.home),
        end: match record.end {
            0 => SetEnd::Open,
            1 => SetEnd::AtStep,
            2 => SetEnd::Above(record.above),
            _ => SetEnd::Never,
        },
        counted: u8::try_from(record.rank).ok().zip(record.count),
        is_behind_parts: record.behind_parts,
        has_ranks_in_front: record.ranks_in_front,
    }
}
