//! The records of a run's earlier watchers, folded to the state that the next one
//! needs: it neither reports a point twice, nor fires a rule twice, nor forgets
//! one.

use std::collections::BTreeMap;

use nero_journal::{Content, ObservationRecord, Payload, Record, RuleRecord, WatchRecord, v1};
use nero_metrics::progress::OuterSteps;

use super::intake::{Position, TableAt};
use super::log::{FILES_MAX, Log};
use super::progress::{self, Climb};
use super::rows::RowCounts;
use super::scope;
use super::series::{AllSeries, SeriesId};

/// Firings of a rule so far.
#[derive(Clone, Debug, PartialEq)]
pub struct FiringHistory {
    /// Number of firings.
    pub times: u32,
    /// Time of the last firing, in ms since the machine was started.
    pub last_ms: u64,
    /// Record of the last firing.
    pub record: v1::RuleFired,
}

/// The folded past.
#[derive(Debug, Default)]
pub struct History {
    /// Positions up to which the logs are evaluated.
    pub positions: [Position; 2 + FILES_MAX],
    /// Series with their steps and latest values.
    pub series: AllSeries,
    /// Number of points written.
    pub kept: u64,
    /// Bindings of loosely written names.
    pub bound: Vec<v1::RuleBound>,
    /// By id of the rule: since which run time, in seconds, the condition of each `for`
    /// holds.
    pub held: BTreeMap<u64, Vec<Option<f64>>>,
    /// Rules that fired, by id.
    pub fired: BTreeMap<u64, FiringHistory>,
    /// By id of the rule: its newest firing whose command came to its end.
    pub ran: BTreeMap<u64, u32>,
    /// The rule set last applied.
    pub rules_applied: u64,
    /// Highest version refused.
    pub rules_refused: u64,
    /// The progress and its pace.
    pub climb: Climb,
    /// The last sample and when it was taken, in ms since the machine's start.
    pub sample: Option<(u64, v1::Sample)>,
    /// Whether a watcher read all output and recorded the run's end.
    pub complete: bool,
    /// Series of the segment being folded, by their index there.
    here: Vec<Option<SeriesId>>,
    /// Whether only rules count: logs and metrics of earlier incarnations do not.
    rules_only: bool,
}

impl History {
    /// Begins a segment. Of other incarnations of the run, only the records of
    /// rules count.
    pub fn begin_segment(&mut self, rules_only: bool) {
        self.here.clear();
        self.rules_only = rules_only;
    }

    /// Takes the next record. A record that cannot be decoded, or has a kind that
    /// this build does not know, changes nothing.
    pub fn fold(&mut self, record: &Record<'_>) {
        let now_ms = record.mono_ns / 1_000_000;
        match record.content() {
            Content::Rule(rule) => self.rule(&rule, now_ms),
            Content::Observation(_) | Content::Watch(_) if self.rules_only => {}
            Content::Observation(observation) => self.observation(&observation, now_ms),
            Content::Watch(WatchRecord::WatchEnded(ended)) => {
                if let Ok(ended) = ended.decode() {
                    self.read_to(&ended.read_to);
                    self.complete |= ended.complete;
                }
            }
            // A watcher begins with the facts above alone.
            Content::Watch(WatchRecord::WatchStarted(_))
            | Content::Job(_)
            | Content::Ledger(_)
            | Content::Unknown(_) => {}
        }
    }

    fn rule(&mut self, record: &RuleRecord<'_>, now_ms: u64) {
        match record {
            RuleRecord::RuleBound(bound) => self.bound.extend(bound.decode()),
            RuleRecord::RuleFired(fired) => {
                if let Ok(fired) = fired.decode() {
                    self.fired(fired, now_ms);
                }
            }
            RuleRecord::RuleRan(ran) => {
                if let Ok(ran) = ran.decode() {
                    let newest = self.ran.entry(ran.rule).or_default();
                    *newest = ran.times.max(*newest);
                }
            }
            // Of other incarnations only the three above count.
            RuleRecord::RuleHeld(_) | RuleRecord::RulesApplied(_) | RuleRecord::RulesRefused(_)
                if self.rules_only => {}
            RuleRecord::RuleHeld(held) => {
                if let Ok(held) = held.decode() {
                    let since = held.since_s.into_iter();
                    let since = since.map(|since_s| Some(since_s).filter(|one| !one.is_nan()));
                    self.held.insert(held.rule, since.collect());
                }
            }
            RuleRecord::RulesApplied(applied) => {
                if let Ok(applied) = applied.decode() {
                    self.rules_applied = applied.version;
                }
            }
            RuleRecord::RulesRefused(refused) => {
                if let Ok(refused) = refused.decode() {
                    self.rules_refused = self.rules_refused.max(refused.version);
                }
            }
        }
    }

    fn observation(&mut self, record: &ObservationRecord<'_>, now_ms: u64) {
        match record {
            ObservationRecord::Metrics(metrics) => {
                if let Ok(metrics) = metrics.decode() {
                    self.metrics(&metrics);
                }
            }
            ObservationRecord::Progress(progress) => {
                if let Ok(progress) = progress.decode()
                    && let Some(source) = progress::ProgressSource::from_number(progress.source)
                {
                    self.climb.take(source, progress.done, progress.ran_ms);
                }
            }
            ObservationRecord::Sample(sample) => {
                if let Ok(sample) = sample.decode() {
                    self.sample = Some((now_ms, sample));
                }
            }
            ObservationRecord::LogTruncated(truncated) => self.truncated(truncated),
            ObservationRecord::MetricsFolded(_)
            | ObservationRecord::StepAsked(_)
            | ObservationRecord::Notice(_) => {}
        }
    }

    /// Moves the position in a log to the beginning of its next part.
    fn truncated(&mut self, truncated: &Payload<'_, v1::LogTruncated>) {
        if let Ok(truncated) = truncated.decode()
            && let Some(log) = Log::of_stream(truncated.stream)
        {
            let position = &mut self.positions[log.index()];
            *position = Position {
                part: truncated.part,
                lines: position.lines,
                rows: RowCounts {
                    at: 0,
                    ..position.rows
                },
                ..Position::default()
            };
        }
    }

    fn fired(&mut self, record: v1::RuleFired, now_ms: u64) {
        let times = self.fired.get(&record.rule).map_or(0, |fired| fired.times);
        self.fired.insert(
            record.rule,
            FiringHistory {
                times: record.times.max(times + 1),
                last_ms: now_ms,
                record,
            },
        );
    }

    fn metrics(&mut self, metrics: &v1::Metrics) {
        for name in &metrics.names {
            self.here.push(self.series.of(name));
        }
        for (at, index) in metrics.series.iter().enumerate() {
            let series = self.here.get(*index as usize).copied().flatten();
            let (Some(series), Some(step), Some(value)) =
                (series, metrics.steps.get(at), metrics.values.get(at))
            else {
                continue;
            };
            let generation = metrics.generation.get(at).copied().unwrap_or(0);
            // A batch without points of files may lack this column.
            let stream = metrics.line_streams.get(at);
            let log = stream.and_then(|stream| Log::of_stream(*stream));
            let log = log.unwrap_or(Log::Stdout);
            self.series
                .add_recorded(series, log, *step, *value, generation);
            self.kept += 1;
        }
        self.read_to(&metrics.read_to);
    }

    fn read_to(&mut self, positions: &[v1::LogPosition]) {
        for position in positions {
            if let Some(log) = Log::of_stream(position.stream) {
                self.positions[log.index()] = Position {
                    part: position.part,
                    offset: position.offset,
                    lines: position.lines,
                    step: position.step,
                    table: position.header.map(|header| TableAt {
                        header,
                        columns: (position.columns > 0).then_some(position.columns),
                    }),
                    former: position.former.map(|table| TableAt {
                        header: table.header,
                        columns: (table.columns > 0).then_some(table.columns),
                    }),
                    outer: position.count.and_then(outer),
                    rows: position.rows.map_or_else(RowCounts::default, rows),
                    scope: position.scope.as_ref().map(scope::read).unwrap_or_default(),
                };
            }
        }
    }
}

fn rows(rows: v1::FileRows) -> RowCounts {
    RowCounts {
        known: rows.known,
        at: rows.at,
        first: rows.first,
    }
}

fn outer(count: v1::StepCount) -> Option<OuterSteps> {
    Some(OuterSteps {
        rank: u8::try_from(count.rank).ok()?,
        done: count.done,
        total: count.total,
        within: count.within,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::kinds_read;

    #[test]
    fn a_watcher_begins_with_these_kinds_of_records() {
        let read_of = |rules_only: bool, payload: &[u8]| {
            let known = || History {
                positions: [Position {
                    part: 3,
                    ..Position::default()
                }; 2 + FILES_MAX],
                sample: Some((0, v1::Sample::default())),
                rules_applied: 3,
                rules_only,
                ..History::default()
            };
            kinds_read(payload, known, History::fold)
        };
        let all = [
            "SAMPLE",
            "RULES_APPLIED",
            "RULE_BOUND",
            "RULE_FIRED",
            "RULE_HELD",
            "RULE_RAN",
        ];
        assert_eq!(read_of(false, &[]), all);
        assert_eq!(read_of(false, &[0]), [""; 0]);
        assert_eq!(read_of(true, &[]), ["RULE_BOUND", "RULE_FIRED", "RULE_RAN"]);
        assert_eq!(read_of(true, &[0]), [""; 0]);
        // Fields 1 and 2 as numbers: a refused version, a stream and its part.
        assert!(read_of(false, &[8, 1, 16, 1]).contains(&"LOG_TRUNCATED"));
        assert!(read_of(false, &[8, 9]).contains(&"RULES_REFUSED"));
    }
}
