//! A fact's value with its type, and its three forms.

use std::borrow::Cow;

use nero_wire::v1::{ExperimentView, Follows, Param};

use crate::{csv, json, text};

/// The value of a fact of one experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Not known, or there is none.
    Unknown,
    /// Text from any source, not yet safe.
    Text(Cow<'a, str>),
    /// The state of an experiment, whose word has a colour: programs get the word alone, people
    /// also that the definition was edited since the run.
    State(&'a ExperimentView),
    /// Why this experiment is in its state: programs get the reason alone, people
    /// the last line on standard error too.
    Reason(&'a ExperimentView),
    /// A whole number that the experiment keeps.
    Whole(i64),
    /// The number of a signal.
    Signal(i32),
    /// A measured number.
    Number(f64),
    /// A measured share of a whole, from 0 to 1.
    Share(f64),
    /// A measured time span.
    Seconds(f64),
    /// A measured size.
    Bytes(u64),
    /// A moment, in milliseconds since 1970.
    Time(i64),
    /// A parameter, with the type that its file gave it.
    Param(&'a Param),
    /// The earlier run of this experiment after which neroman made its run by itself.
    Follows(u64, &'a Follows),
    /// Several sentences.
    Lines(&'a [String]),
    /// Several names without blanks.
    Names(&'a [String]),
    /// What has a form for programs only.
    Json(serde_json::Value),
}

impl<'a> Value<'a> {
    /// Text, or nothing.
    pub fn text_of(text: &'a str) -> Self {
        match text {
            "" => Self::Unknown,
            text => Self::Text(text.into()),
        }
    }

    /// A moment; 0 is none.
    pub fn time_of(ms: i64) -> Self {
        match ms {
            0 => Self::Unknown,
            ms => Self::Time(ms),
        }
    }

    /// For people, not yet safe.
    pub fn text(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(text) => text.clone().into_owned(),
            Self::State(view) if view.edited_since_run => text::edited_since(&view.state),
            Self::State(view) => view.state.clone(),
            // A finished run needs no reason.
            Self::Reason(view) if view.state == "finished" => String::new(),
            Self::Reason(view) => text::why(&view.state, &view.reason, &view.stderr_line),
            Self::Whole(number) => number.to_string(),
            Self::Signal(number) => nero_model::state::signal_name(*number),
            Self::Number(number) => text::number(*number),
            Self::Share(share) => text::percent(*share),
            Self::Seconds(seconds) => text::duration(*seconds),
            Self::Bytes(count) => text::bytes(*count),
            Self::Time(ms) => text::local_time(*ms),
            Self::Param(param) => param.text.clone(),
            Self::Follows(_, one) => one.text.clone(),
            Self::Lines(lines) => lines.join("; "),
            Self::Names(names) => names.join(" "),
            Self::Json(value) => json::print(value),
        }
    }

    /// For a spreadsheet.
    pub fn csv(&self) -> csv::Cell {
        match self {
            Self::Reason(view) => csv::Cell::text(&view.reason),
            Self::State(view) => csv::Cell::text(&view.state),
            Self::Whole(number) => csv::Cell::whole(number),
            Self::Signal(number) => csv::Cell::whole(number),
            Self::Number(number) | Self::Share(number) | Self::Seconds(number) => {
                csv::Cell::number(*number)
            }
            Self::Bytes(count) => csv::Cell::whole(count),
            Self::Time(ms) => {
                text::iso_time(*ms).map_or(csv::Cell::Empty, |text| csv::Cell::text(&text))
            }
            Self::Param(param) if self.is_number() => csv::Cell::Number(param.text.clone()),
            Self::Unknown
            | Self::Text(_)
            | Self::Param(_)
            | Self::Follows(..)
            | Self::Lines(_)
            | Self::Names(_)
            | Self::Json(_) => csv::Cell::text(&self.text()),
        }
    }

    /// For a program; null where nothing is known.
    pub fn json(self) -> serde_json::Value {
        match self {
            Self::Unknown => serde_json::Value::Null,
            Self::Text(text) => text.into(),
            Self::State(view) => view.state.as_str().into(),
            Self::Reason(view) => json::some(&view.reason).into(),
            Self::Whole(number) => number.into(),
            Self::Signal(number) => number.into(),
            Self::Number(number) | Self::Share(number) | Self::Seconds(number) => {
                json::number(number)
            }
            Self::Bytes(count) => count.into(),
            Self::Time(ms) => text::iso_time(ms).into(),
            Self::Param(param) => json::parameter(param),
            Self::Follows(id, one) => json::follows(id, one),
            Self::Lines(lines) | Self::Names(lines) => lines.into(),
            Self::Json(value) => value,
        }
    }

    /// Whether its text is aligned at its last digit.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Param(param) => json::is_number(param),
            Self::Whole(_) => true,
            Self::Unknown
            | Self::Text(_)
            | Self::State(_)
            | Self::Reason(_)
            | Self::Signal(_)
            | Self::Number(_)
            | Self::Share(_)
            | Self::Seconds(_)
            | Self::Bytes(_)
            | Self::Time(_)
            | Self::Follows(..)
            | Self::Lines(_)
            | Self::Names(_)
            | Self::Json(_) => self.is_measured(),
        }
    }

    /// Whether it goes on changing while the job runs: old ones are marked.
    pub fn is_measured(&self) -> bool {
        match self {
            Self::Number(_) | Self::Share(_) | Self::Seconds(_) | Self::Bytes(_) => true,
            Self::Unknown
            | Self::Text(_)
            | Self::State(_)
            | Self::Reason(_)
            | Self::Whole(_)
            | Self::Signal(_)
            | Self::Time(_)
            | Self::Param(_)
            | Self::Follows(..)
            | Self::Lines(_)
            | Self::Names(_)
            | Self::Json(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_value_decides_its_forms() {
        let forms = |value: Value<'_>| (value.text(), value.csv(), value.json().to_string());
        let number = |text: &str| csv::Cell::Number(text.to_owned());
        let text = |text: &str| csv::Cell::Text(text.to_owned());
        let lost = ExperimentView {
            state: "lost".to_owned(),
            ..ExperimentView::default()
        };
        let edited = ExperimentView {
            edited_since_run: true,
            ..lost.clone()
        };
        let table = [
            (Value::Unknown, "", csv::Cell::Empty, "null"),
            (Value::Seconds(75.0), "1m15s", number("75"), "75.0"),
            (Value::Share(0.999), "99%", number("0.999"), "0.999"),
            (Value::Bytes(1536), "1.5K", number("1536"), "1536"),
            (
                Value::Number(f64::INFINITY),
                "inf",
                number("inf"),
                "\"Infinity\"",
            ),
            (Value::Signal(9), "SIGKILL", number("9"), "9"),
            (Value::State(&lost), "lost", text("lost"), "\"lost\""),
            (
                Value::State(&edited),
                "lost, edited since",
                text("lost"),
                "\"lost\"",
            ),
        ];
        for (value, shown, cell, json) in table {
            let want = (shown.to_owned(), cell, json.to_owned());
            assert_eq!(forms(value), want);
        }
        let (_, cell, _) = forms(Value::Time(1_700_000_000_123));
        assert_eq!(cell, text("2023-11-14T22:13:20.123Z"));
    }

    #[test]
    fn a_reason_has_the_last_line_for_people_alone() {
        let view = ExperimentView {
            state: "crashed".into(),
            reason: "exit code 1".into(),
            stderr_line: "no such file".into(),
            ..ExperimentView::default()
        };
        let value = Value::Reason(&view);
        assert_eq!(value.text(), "exit code 1: no such file");
        assert_eq!(value.csv(), csv::Cell::text("exit code 1"));
        assert_eq!(value.json(), "exit code 1");
    }
}
