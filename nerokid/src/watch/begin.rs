//! The beginning of a watcher: the lock, the earlier records, the segment, the
//! rules.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nero_journal::Segment;
use nero_journal::v1::{Environment, WatchStarted};
use nero_model::paths::run;
use nero_model::{DeploymentId, ProcessId};
use nero_wire::v1::RunSpec;

use super::acts::Acts;
use super::files::MetricFile;
use super::{Watch, WatchEnd, WatchError, now};
use crate::core::facts::{Moment, Param, RunFacts, Sight};
use crate::core::history::History;
use crate::core::intake::{Begin, BegunLog, Intake, LogForm, Position, TableAt};
use crate::core::log::{FILES_MAX, Log};
use crate::core::progress::{Climb, Tracker};
use crate::core::record::Record;
use crate::core::rules::Rules;
use crate::core::series::AllSeries;
use crate::events::alarm::Alarm;
use crate::events::link::{Caller, Link};
use crate::events::pace::Pace;
use crate::events::wake::Waker;
use crate::folder::journal::Journal;
use crate::folder::life::{Contact, Life};
use crate::folder::place::WatchedStart;
use crate::folder::segments;
use crate::gpus::own::OwnCards;
use crate::helper::Hosts;
use crate::host;
use crate::output::readers::OutputReader;
use crate::output::tail::Tail;
use crate::processes::sample::{Procfs, Sampler};
use nero_metrics::finder::{Context, Finder, FinderOptions};

/// Bytes read from a log at once.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// The first sample is taken soon, so that short runs have one.
const FIRST_SAMPLE_MS: u64 = 1_000;

/// A start that this process alone watches, by its lock, and what earlier watchers recorded of it.
struct LockedStart {
    lock: File,
    life: Life,
    history: History,
    segment: Segment,
}

impl Watch {
    /// Takes the lock, reads the earlier records, begins the segment. The inner
    /// error is the result when there is nothing to do.
    pub(super) fn begin(
        place: WatchedStart,
        cards: Option<OwnCards>,
        settling: bool,
    ) -> Result<Result<Self, WatchEnd>, WatchError> {
        let Some(lock) = place.lock()? else {
            return Ok(Err(WatchEnd::ByAnother));
        };
        let read = |source| WatchError::Read {
            folder: place.folder.clone(),
            source,
        };
        let life = Life::read(&place.folder).map_err(read)?;
        if settling && life.contact() == Contact::Alive {
            return Err(WatchError::Alive {
                folder: place.folder,
            });
        }
        let history = history(&place).map_err(read)?;
        if history.complete {
            return Ok(Err(WatchEnd::Already));
        }
        let segment = place
            .begin_segment()
            .map_err(|source| WatchError::Segment {
                folder: place.folder.clone(),
                source,
            })?;
        let rules_applied = history.rules_applied;
        let start = LockedStart {
            lock,
            life,
            history,
            segment,
        };
        let mut watch = Self::of_start(place, start, cards, settling);
        watch.facts_of_life();
        watch.facts.progress = watch.progress.now();
        watch.facts.sample = watch.sampler.last().copied();
        watch.facts.output_ms = last_output_ms(&watch.tails, watch.now);
        watch.begin_rules(rules_applied);
        Ok(Ok(watch))
    }

    fn of_start(
        place: WatchedStart,
        start: LockedStart,
        cards: Option<OwnCards>,
        settling: bool,
    ) -> Self {
        let (life, history, now) = (start.life, start.history, now());
        let sources = Sources::begin(&place, &history.positions);
        let mut out = vec![started(&place, cards.as_ref(), settling)];
        out.extend(sources.notices);
        let facts = facts(&place.spec);
        let (progress, problem) = progress(&place, history.climb, &facts, &history.series, now);
        out.extend(problem.map(Record::notice));
        let begin = Begin {
            logs: sources.logs,
            series: history.series,
            kept: history.kept,
        };
        Self {
            facts,
            intake: Intake::new(begin, sources.finder, life.run_ms(now), now.mono_ms),
            progress,
            rules: Rules::new(history.bound, history.fired, history.ran, history.held),
            asked: Vec::new(),
            acts: Acts::new(settling),
            rules_refused: history.rules_refused,
            sampler: Sampler::new(history.sample),
            journal: Journal::new(start.segment),
            procfs: Procfs::default(),
            hosts: Hosts::default(),
            of_daemon: place.of_daemon(),
            cards,
            waker: if settling {
                Waker::blind()
            } else {
                Waker::new(&place, &life)
            },
            pace: Pace::new(now.mono_ms),
            alarm: Alarm::new(),
            link: None,
            tails: sources.tails,
            files: sources.files,
            life,
            place,
            out,
            block: vec![0; BLOCK_BYTES],
            now,
            sample_due_ms: now.mono_ms + FIRST_SAMPLE_MS,
            silent_since_ms: None,
            look_at_life: true,
            // The folder may have a cancel request whose writer did not ring.
            look_at_rules: !settling,
            control_due_ms: now.mono_ms,
            passed_on: [0; 2],
            // Told again by each watcher, which changes nothing.
            unheard: None,
            step_asked: 0,
            _lock: start.lock,
        }
    }

    /// Begins to dial neromum.
    pub(super) fn dial(&mut self, socket: Option<PathBuf>) {
        self.link = socket.map(|socket| {
            Link::start(Caller {
                socket,
                deployment: DeploymentId::from_slice(&self.place.spec.deployment),
                token: self.place.spec.token.clone(),
                incarnation: self.place.incarnation,
                segment: self.journal.id().0.to_vec(),
            })
        });
    }
}

/// The record that begins the watcher's segment.
fn started(place: &WatchedStart, cards: Option<&OwnCards>, settling: bool) -> Record {
    Record::Started(WatchStarted {
        watcher: ProcessId::own().ok().map(Into::into),
        build: nero_model::VERSION.to_owned(),
        // An adopted job runs on another host than its watcher.
        environment: (place.spec.adopted.is_none()).then(|| Environment {
            given_gpus: cards.map(OwnCards::named).unwrap_or_default(),
            image: place.image(),
            ..host::environment(&place.folder)
        }),
        settling,
    })
}

/// What the watcher reads, and how.
struct Sources {
    /// Of both logs.
    tails: Vec<Tail>,
    files: Vec<MetricFile>,
    /// All of them, as earlier watchers left them.
    logs: Vec<BegunLog>,
    finder: Finder,
    notices: Vec<Record>,
}

impl Sources {
    fn begin(place: &WatchedStart, positions: &[Position]) -> Self {
        let reading = reading(&place.spec);
        let (mut finder, pattern_errors) = Finder::new(&reading);
        let notices = pattern_errors.iter().map(|error| error.to_string());
        let mut notices: Vec<Record> = notices.map(Record::notice).collect();
        let tails = [(Log::Stdout, run::STDOUT), (Log::Stderr, run::STDERR)].map(|(log, name)| {
            let offset = positions[log.index()].offset;
            Tail::new(log, place.folder.join(name), offset)
        });
        let mut of_output = |tail: &Tail| {
            let position = positions[tail.log.index()];
            BegunLog {
                position,
                size: std::fs::metadata(tail.path()).map_or(0, |found| found.len()),
                context: context(&mut finder, &position, tail.path()),
                form: LogForm::default(),
                rows: None,
            }
        };
        let mut logs: Vec<BegunLog> = tails.iter().map(&mut of_output).collect();
        let logged = (run::LOGGED, place.logged());
        let files = place.metric_files().chain([logged]);
        let files = files.zip(Log::all(FILES_MAX).skip(2));
        let files = files.map(|((name, path), log)| {
            let position = positions[log.index()];
            let (file, begun) =
                MetricFile::begin(log, name, &path, (&mut finder, &reading), position);
            logs.push(begun);
            file
        });
        let mut files: Vec<MetricFile> = files.collect();
        let next = Log::all(FILES_MAX).skip(logs.len());
        // A new reader prints nothing of what is lost, and lines are passed over by their number.
        let output = &logs[Log::Stdout.index()];
        let was_truncated = output.position.part > 0 || output.size < output.position.offset;
        for ((number, argv), log) in place.readers().enumerate().zip(next) {
            let position = positions[log.index()];
            let reader = OutputReader::start(place, number, argv);
            if was_truncated && position.rows.known > 0 {
                notices.push(Record::notice(format!(
                    "{} began anew, and the job had truncated its log: metrics of what it printed \
                     since may be missing",
                    reader.title()
                )));
            }
            let (file, begun) = MetricFile::of_reader(log, reader, position);
            logs.push(begun);
            files.push(file);
        }
        Self {
            tails: Vec::from(tails),
            files,
            logs,
            finder,
            notices,
        }
    }
}

/// How the run's output is read.
fn reading(spec: &RunSpec) -> FinderOptions {
    let more = spec.metric_reading.clone().unwrap_or_default();
    FinderOptions {
        patterns: spec.metric_patterns.clone(),
        only: more.only,
        skip: more.skip,
        decimal_comma: more.decimal_comma,
        no_tables: more.no_tables,
    }
}

/// What the lines before a position mean for the next one. Of each table the line of names and
/// those up to its first row are read once more; where that fails, its further rows give nothing.
pub(super) fn context(finder: &mut Finder, position: &Position, log: &Path) -> Context {
    let text = |table: Option<TableAt>| {
        let file = File::open(log).ok()?;
        let header = table?.header;
        let before = position.offset.checked_sub(header)?;
        let length = usize::try_from(before).unwrap_or(usize::MAX);
        let mut block = vec![0; length.min(BLOCK_BYTES)];
        let length = file.read_at(&mut block, header).ok()?;
        let end = block[..length]
            .iter()
            .rposition(|byte| matches!(byte, b'\n' | b'\r'))?;
        block.truncate(end);
        Some(block)
    };
    let texts = [position.former, position.table].map(text);
    position.context(finder, texts.each_ref().map(Option::as_deref))
}

/// The facts of the run in its spec.
fn facts(spec: &RunSpec) -> RunFacts {
    let params = spec.params.iter();
    RunFacts {
        id: spec.experiment,
        name: spec.name.clone(),
        collection: spec.collection.clone(),
        node: spec.node.clone(),
        attempt: spec.number,
        command: spec.argv.join(" "),
        params_text: spec.argv.get(1..).unwrap_or_default().join(" "),
        params: params
            .map(|param| Param::new(&param.name, &param.text, &param.json))
            .collect(),
        time_limit_ms: spec.resources.as_ref().map_or(0, |wanted| wanted.time_ms),
        ..RunFacts::default()
    }
}

/// The progress so far, and why the expression of the spec cannot be used.
fn progress(
    place: &WatchedStart,
    mut climb: Climb,
    facts: &RunFacts,
    series: &AllSeries,
    now: Moment,
) -> (Tracker, Option<String>) {
    let spec = &place.spec;
    let has_checkpoints = spec.resume.is_some() || !spec.overlay.is_empty();
    climb.resumed = has_checkpoints || place.incarnation > 1;
    Tracker::new(climb, &spec.progress, &Sight { facts, series, now })
}

/// Time of the job's last output, from its files; 0 when there was none.
fn last_output_ms(tails: &[Tail], now: Moment) -> u64 {
    let age_ms = |path: &Path| {
        let found = std::fs::metadata(path)
            .ok()
            .filter(|found| found.len() > 0)?;
        let age = found.modified().ok()?.elapsed().unwrap_or_default();
        u64::try_from(age.as_millis()).ok()
    };
    let ages = tails.iter().filter_map(|tail| age_ms(tail.path()));
    ages.min().map_or(0, |age| now.mono_ms.saturating_sub(age))
}

/// The records of the run's earlier watchers. Of earlier incarnations only the
/// records of rules count.
fn history(place: &WatchedStart) -> io::Result<History> {
    let mut history = History::default();
    for incarnation in 1..=place.incarnation {
        let earlier = incarnation < place.incarnation;
        let folder = place.run.join(incarnation.to_string());
        if earlier && !folder.is_dir() {
            continue;
        }
        for path in segments::list(&folder, "watch-")? {
            history.begin_segment(earlier);
            segments::for_each(&path, |record| history.fold(record))?;
        }
    }
    if place.incarnation > 1 {
        history.series = history.series.with_earlier();
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_gone_on_with_whichever_byte_ends_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("stdout.log");
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("step loss{end}1 0.5{end}");
            std::fs::write(&log, &text).unwrap();
            let position = Position {
                offset: text.len() as u64,
                table: Some(TableAt {
                    header: 0,
                    columns: Some(2),
                }),
                ..Position::default()
            };
            let mut finder = Finder::new(&FinderOptions::default()).0;
            let mut context = context(&mut finder, &position, &log);
            let found = finder.find(b"2 0.25", &mut context);
            assert_eq!(found.step, Some(2.0), "{end:?}");
        }
    }
}
