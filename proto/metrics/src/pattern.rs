//! The spec's own patterns for metrics: regular expressions with named groups.
//!
//! Each named group is a metric, the group `step` gives the step; a pattern with that
//! group alone gives it to the following lines. Where there are
//! groups `name` and `value`, what `name` matched is the metric's name. Patterns are
//! over bytes (`\w`, `\d` and `.` mean ASCII), and may match several times in a
//! line. A line that any pattern matches is read by the patterns alone.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use crate::found::LinePairs;
use crate::tokens::number;

/// Memory for one compiled pattern; larger ones are refused.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Compiles a pattern over bytes, without Unicode classes.
///
/// # Errors
/// When it is no regular expression, or too large.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|source| PatternError::Syntax {
            pattern: pattern.to_owned(),
            source: Box::new(source),
        })
}

/// Reason why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The pattern is no regular expression, or too large.
    #[error("the metric pattern `{pattern}` is not used: {source}")]
    Syntax {
        /// As written.
        pattern: String,
        /// Fault of the regular expression.
        source: Box<regex::Error>,
    },
    /// The pattern has no group that names a metric or the step.
    #[error("the metric pattern `{pattern}` is not used: it has no named group")]
    NoName {
        /// As written.
        pattern: String,
    },
}

impl PatternError {
    /// The pattern.
    pub fn pattern(&self) -> &str {
        match self {
            Self::Syntax { pattern, .. } | Self::NoName { pattern } => pattern,
        }
    }

    /// What is wrong with it, in a few words.
    pub fn reason(&self) -> String {
        match self {
            // The library draws the pattern over several lines; its last one holds
            // the reason.
            Self::Syntax { source, .. } => {
                let text = source.to_string();
                let last = text.lines().last().unwrap_or("").trim();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
            Self::NoName { .. } => "it has no named group".to_owned(),
        }
    }
}

/// One compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    places: CaptureLocations,
    names: Vec<(usize, String)>,
    /// The groups `name` and `value`.
    pair: Option<(usize, usize)>,
    step: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let regex = compile(pattern)?;
        let named = || {
            let groups = regex.capture_names().enumerate();
            groups.filter_map(|(group, name)| Some((group, name?.to_owned())))
        };
        let group = |wanted: &str| {
            let found = named().find(|(_, name)| name == wanted);
            found.map(|(group, _)| group)
        };
        let step = group("step");
        let pair = group("name").zip(group("value"));
        let has_meaning = |at: usize| {
            step == Some(at) || pair.is_some_and(|(name, value)| at == name || at == value)
        };
        let names: Vec<_> = named().filter(|(at, _)| !has_meaning(*at)).collect();
        if names.is_empty() && pair.is_none() && step.is_none() {
            return Err(PatternError::NoName {
                pattern: pattern.to_owned(),
            });
        }
        Ok(Self {
            places: regex.capture_locations(),
            regex,
            names,
            pair,
            step,
        })
    }

    /// Adds the pairs of a line; returns whether the pattern matched.
    pub fn find(&mut self, line: &[u8], found: &mut LinePairs) -> bool {
        let mut at = 0;
        let mut matched = false;
        while at <= line.len() {
            let Some(whole) = self.regex.captures_read_at(&mut self.places, line, at) else {
                break;
            };
            // After an empty match, go on one byte later.
            at = whole.end().max(at + 1);
            matched = true;
            let text = |group| self.places.get(group).map(|(from, to)| &line[from..to]);
            for (group, name) in &self.names {
                if let Some(value) = text(*group).and_then(lenient) {
                    found.push(name.as_bytes(), value);
                }
            }
            if let Some((name, value)) = self.pair
                && let (Some(name), Some(value)) = (text(name), text(value).and_then(lenient))
            {
                found.push(name.trim_ascii(), value);
            }
            let step = self.step.and_then(text).and_then(lenient);
            if let Some(step) = step.filter(|step| step.is_finite()) {
                // A pattern of the step alone is for headings.
                found.give_step(step, self.names.is_empty() && self.pair.is_none());
            }
        }
        matched
    }
}

/// Reads a number, perhaps with a character that `\S+` matched, too: `0.3,`.
fn lenient(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let number = number::value(text)?;
    let rest = &text[number.length..];
    rest.iter()
        .all(|byte| b",;:.)]}|".contains(byte))
        .then_some(number.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, line: &str) -> (Vec<(String, f64)>, Option<f64>) {
        let mut found = LinePairs::default();
        Pattern::new(pattern)
            .unwrap()
            .find(line.as_bytes(), &mut found);
        let pairs = found.pairs().map(|(name, value)| (name.to_owned(), value));
        (pairs.collect(), found.step)
    }

    #[test]
    fn named_groups_are_metrics_and_step_is_the_step() {
        let pattern = r"epoch\s+(?<step>\d+): train loss = (?<train_loss>\S+)";
        let (pairs, step) = find(pattern, "epoch  8: train loss = 0.35, x");
        assert_eq!(pairs, [("train_loss".to_owned(), 0.35)]);
        assert_eq!(step, Some(8.0));
    }

    #[test]
    fn a_pattern_may_match_again_and_groups_may_be_absent() {
        let (pairs, step) = find(r"a(?<a>\d)|b(?<b>\d)", "a1 b2 a3 ax");
        let want = [("a", 1.0), ("b", 2.0), ("a", 3.0)];
        assert_eq!(pairs, want.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(step, None);
    }

    #[test]
    fn the_group_called_name_names_the_series() {
        let pattern = r"Solving for (?<name>\w+), Initial residual = (?<value>\S+),";
        let (pairs, _) = find(pattern, "Solving for Ux, Initial residual = 0.5, Final");
        assert_eq!(pairs, [("Ux".to_owned(), 0.5)]);
        let (pairs, _) = find(r"(?<name>\d+)", "7");
        assert_eq!(pairs, [("name".to_owned(), 7.0)], "alone it is a metric");
    }

    #[test]
    fn unusable_patterns_say_why() {
        let error = Pattern::new("(?<a>").unwrap_err().to_string();
        assert!(error.contains("`(?<a>` is not used"), "{error}");
        assert!(
            Pattern::new(r"loss (\d+)")
                .unwrap_err()
                .to_string()
                .contains("no named group")
        );
        assert!(Pattern::new(r"(?<a>\w{1000}{1000})").is_err());
    }

    #[test]
    fn an_empty_match_ends() {
        assert_eq!(find("(?<a>)", "xyz").0, []);
    }
}
