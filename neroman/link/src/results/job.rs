//! The results of one run: the folder, the files, the logs; and the records of
//! their arrival.

use std::path::PathBuf;
use std::sync::Arc;

use nero_model::paths::run::{self as names, STDERR};
use nero_model::{Home, Phase, RunId};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use super::arrivals::{self, CompleteResults};
use super::choice::{RunOnNode, UnfetchedFile};
use super::fetch::{self, Outcome};
use super::home::{self, MissingResults};
use super::logs::{self, LOG_BYTES, LogToFetch};
use super::queue::Pace;
use super::request::{FileRequest, Glob, UnnamedFiles};
use super::trouble::{MAKE_ROOM, Trouble};
use super::way::{self, Way};
use super::{FetchKind, missing_files, place};
use crate::outside::FolderToFreeze;
use crate::transfer::ProgressCallback;
use nero_home::failure::Failure;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_life::input::Input;
use nero_life::journal::Incarnation;
use nero_life::run::{Results, Run};

/// Larger files stay on the node unless `max:` allows them.
const FILE_BYTES: u64 = 1 << 30;

/// The places of results on this machine.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folder for results of experiments whose folder cannot be written.
    pub fallback: PathBuf,
    /// Folder of the records about transfers that are not over.
    pub known: PathBuf,
    pub pace: Pace,
    /// The configuration, which sets how much stays free.
    pub config: PathBuf,
}

impl Places {
    /// The places in this neroman's home.
    pub fn of(home: &Home) -> Self {
        Self {
            fallback: home.data.join("results"),
            known: home.data.join("fetching"),
            pace: Pace::default(),
            config: home.config.clone(),
        }
    }
}

/// A person's request.
#[derive(Clone, Debug, Default)]
pub struct RequestedFiles {
    /// Globs; if empty, all files that are to come home, whatever their size,
    /// and the whole logs.
    pub include: Vec<String>,
}

/// A run whose files can be fetched.
#[expect(
    missing_debug_implementations,
    reason = "who hears of its transfers shows nothing"
)]
pub struct FetchJob {
    id: RunId,
    way: Way,
    ended: bool,
    /// Whether it ended without finishing: outputs that it did not come to are no news.
    failed: bool,
    /// Whether it ended, and all files came home.
    done: bool,
    outputs: Vec<v1::Output>,
    checkpoint: Vec<String>,
    /// If no outputs are named, the limit in bytes of files that the job made.
    results_max: u64,
    /// Sizes of stdout and stderr, if known.
    logs: [Option<u64>; 2],
    /// Starts of the run before its newest one, whose output and files lie beside it.
    earlier: Vec<EarlierStart>,
}

/// A start of a run that its scheduler, or a restart of its machine, began anew.
struct EarlierStart {
    way: Way,
    logs: [Option<u64>; 2],
}

impl FetchJob {
    /// Prepares the job; `None` if there is no such run. Makes and records the
    /// folder, unless the caller only looks.
    pub async fn prepare(
        places: &Places,
        ledger: &Ledger,
        client: MumClient<Channel>,
        on_progress: ProgressCallback,
        id: RunId,
        only_look: bool,
    ) -> Result<Option<Self>, Trouble> {
        let state = ledger.state();
        let experiment = state.experiment(id.experiment);
        let Some((experiment, run)) = experiment.zip(state.run(id)) else {
            return Ok(None);
        };
        let folder = match run.results().folder() {
            known if only_look => PathBuf::from(known),
            "" => {
                let plan = place::plan(experiment, run, &places.fallback);
                let folder = way::blocking(move || place::make(&plan)).await??;
                begun(ledger, id, folder.clone()).await?;
                folder
            }
            known => {
                let folder = PathBuf::from(known);
                // A person may have moved the folder away meanwhile.
                let made = folder.clone();
                way::blocking(move || {
                    std::fs::create_dir_all(&made)
                        .map_err(|error| Trouble::unwritten(&made, &error))
                })
                .await??;
                folder
            }
        };
        let Spec {
            outputs,
            checkpoint,
            results_max,
        } = spec(ledger, id).await?;
        let config = places.config.clone();
        let min_free = way::blocking(move || min_free(&config)).await?;
        let way = Way {
            client,
            run: v1::RunRef {
                token: run.made.token.to_vec(),
                experiment: id.experiment.0,
                number: id.number,
            },
            start: 0,
            whose: RunOnNode {
                run: id,
                node: run.node_word().to_owned(),
            },
            folder,
            known: places.known.join(id.to_string()),
            on_progress,
            min_free,
        };
        let newest = run.journal.newest();
        Ok(Some(Self {
            id,
            earlier: earlier(run, &way),
            way,
            ended: run.phase().is_end(),
            failed: run.phase().is_end() && run.phase() != Phase::Finished,
            done: matches!(run.results(), Results::Done { .. }),
            outputs,
            checkpoint,
            results_max,
            logs: newest.map_or([None; 2], |(_, newest)| log_sizes(newest)),
        }))
    }

    /// The folder of the results.
    pub fn folder(&self) -> &std::path::Path {
        &self.way.folder
    }

    /// Fetches the files of a live run that exist so far.
    pub(super) async fn live(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let ask = FileRequest {
            globs: self.globs(FetchKind::Live),
            live: true,
            ..FileRequest::default()
        };
        let came = fetch::files(&self.way, &ask, false).await?;
        self.latest(ledger).await?;
        self.all_had_room(&came.no_room)
    }

    /// Fetches all files of an ended run.
    pub(super) async fn end(&self, ledger: &Ledger) -> Result<CompleteResults, Trouble> {
        let mut outcome = Outcome::default();
        let refused = self.bring_logs(false, &mut outcome).await?;
        self.bring_earlier_logs(false, &mut outcome).await?;
        let mut warnings = self.cut_logs();
        let ask = FileRequest {
            globs: self.globs(FetchKind::End),
            unnamed: self.unnamed(self.results_max),
            ..FileRequest::default()
        };
        let came = fetch::files(&self.way, &ask, refused.is_none()).await?;
        let no_room = came.no_room.clone();
        outcome.add(came);
        self.latest(ledger).await?;
        if let Some(trouble) = refused {
            return Err(trouble);
        }
        // The rest is here already; this file comes when there is room.
        self.all_had_room(&no_room)?;
        warnings.extend(self.warnings(&outcome));
        self.arrived(ledger, outcome, warnings).await
    }

    /// Refuses if files were left out for want of room.
    fn all_had_room(&self, left_out: &[UnfetchedFile]) -> Result<(), Trouble> {
        if left_out.is_empty() {
            return Ok(());
        }
        let folder = self.way.folder.display();
        let failure = Failure::failed(format!("there is no room for results in {folder}"));
        Err(Trouble::Full(
            failure
                .because(format!(
                    "{} to come, and {} are to stay free (`results_min_free`)",
                    named(left_out),
                    crate::snapshot::size(self.way.min_free)
                ))
                .hint(MAKE_ROOM),
        ))
    }

    /// The treatment of files that no output names: they come if no outputs are
    /// named at all.
    fn unnamed(&self, most: u64) -> UnnamedFiles {
        if self.outputs.is_empty() && self.results_max > 0 {
            UnnamedFiles::Fetch { most }
        } else {
            UnnamedFiles::Report
        }
    }

    /// The logs whose end alone was fetched.
    fn cut_logs(&self) -> Vec<String> {
        let logs = self.wanted_logs(self.logs, false);
        let cut = logs.into_iter().filter(|log| !log.is_whole());
        cut.map(|log| {
            let bytes = log.bytes.map_or_else(
                || "an unknown number of".to_owned(),
                |bytes| bytes.to_string(),
            );
            format!(
                "{} holds the last {} of {bytes} bytes: neroman fetch {} brings it whole",
                log.name(),
                log.tail_bytes(),
                self.id
            )
        })
        .collect()
    }

    /// Files that stayed on the node, and outputs that matched no file.
    fn warnings(&self, outcome: &Outcome) -> Vec<String> {
        let node = &self.way.whose.node;
        let mut lines = Vec::new();
        for glob in outcome.unfit.iter().filter(|_| !self.failed) {
            lines.push(format!("`{glob}` of `outputs` fits no file of the run"));
        }
        if !outcome.left.is_empty() {
            lines.push(format!(
                "too large to come home, on {node}: {}; neroman fetch {} brings them",
                named(&outcome.left),
                self.id
            ));
        }
        if !outcome.unnamed.is_empty() {
            lines.push(format!(
                "made and not named by `outputs`, on {node}: {}",
                named(&outcome.unnamed)
            ));
        }
        if outcome.unkept > 0 {
            lines.push(format!(
                "{} of its files cannot come home from {node}: neroman show {} names them",
                outcome.unkept, self.id
            ));
        }
        lines
    }

    /// Fetches the logs. A log that is refused does not keep the others from
    /// coming home; its failure is returned.
    async fn bring_logs(
        &self,
        all: bool,
        outcome: &mut Outcome,
    ) -> Result<Option<Trouble>, Trouble> {
        self.bring_logs_of(&self.way, self.wanted_logs(self.logs, all), outcome)
            .await
    }

    /// Fetches the logs of earlier starts. A refused log is a note: the run's own logs are here.
    async fn bring_earlier_logs(&self, all: bool, outcome: &mut Outcome) -> Result<(), Trouble> {
        for start in &self.earlier {
            start.make().await?;
            let logs = self.wanted_logs(start.logs, all);
            if let Some(refused) = self.bring_logs_of(&start.way, logs, outcome).await? {
                let failure = refused.failure();
                outcome
                    .notes
                    .add(format!("start {}: {failure}", start.way.start));
            }
        }
        Ok(())
    }

    async fn bring_logs_of(
        &self,
        way: &Way,
        logs: Vec<LogToFetch>,
        outcome: &mut Outcome,
    ) -> Result<Option<Trouble>, Trouble> {
        let mut refused = None;
        for log in logs {
            if self.done && logs::is_home(way, log).await? {
                outcome.unchanged += 1;
                continue;
            }
            match logs::fetch(way, log).await {
                Ok(bytes) => {
                    outcome.bytes = outcome.bytes.saturating_add(bytes);
                    outcome.files += 1;
                }
                Err(trouble @ Trouble::Refused(_)) => refused = refused.or(Some(trouble)),
                Err(trouble @ (Trouble::Node(_) | Trouble::Full(_))) => return Err(trouble),
            }
        }
        Ok(refused)
    }

    /// Fetches what a person asked for, now.
    pub async fn asked(&self, ledger: &Ledger, asked: &RequestedFiles) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::default();
        let mut refused = None;
        if asked.include.is_empty() {
            refused = self.bring_logs(true, &mut outcome).await?;
            self.bring_earlier_logs(true, &mut outcome).await?;
        }
        let last = self.ended && refused.is_none();
        outcome.add(fetch::files(&self.way, &self.ask(asked), last).await?);
        if asked.include.is_empty() {
            for start in &self.earlier {
                outcome.add(fetch::files(&start.way, &self.ask(asked), last).await?);
            }
        }
        self.latest(ledger).await?;
        if let Some(trouble) = refused {
            return Err(trouble);
        }
        let size = crate::snapshot::size;
        for stays in std::mem::take(&mut outcome.no_room) {
            outcome.notes.add(format!(
                "{} has {}, for which there is no room here",
                stays.name,
                size(stays.bytes)
            ));
            outcome.left.push(stays);
        }
        if self.ended && asked.include.is_empty() {
            let warnings = self.warnings(&outcome);
            let home = self.arrived(ledger, outcome.clone(), warnings).await?;
            arrivals::record(ledger, vec![home]).await?;
        }
        Ok(outcome)
    }

    /// The result that `asked` would have, without fetching.
    pub async fn would(&self, asked: &RequestedFiles) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::default();
        if asked.include.is_empty() {
            let earlier = self.earlier.iter().map(|start| (&start.way, start.logs));
            for (way, sizes) in earlier.chain([(&self.way, self.logs)]) {
                for log in self.wanted_logs(sizes, true) {
                    if self.done && logs::is_home(way, log).await? {
                        outcome.unchanged += 1;
                        continue;
                    }
                    outcome.bytes = outcome.bytes.saturating_add(log.bytes.unwrap_or(0));
                    outcome.files += 1;
                }
                if way.start > 0 {
                    outcome.add(fetch::preview(way, &self.ask(asked)).await?);
                }
            }
        }
        outcome.add(fetch::preview(&self.way, &self.ask(asked)).await?);
        Ok(outcome)
    }

    /// The files of the run that are not here byte for byte.
    pub async fn not_home(&self) -> Result<MissingResults, Trouble> {
        let ask = FileRequest {
            globs: self.globs(FetchKind::End),
            unnamed: UnnamedFiles::Report,
            ..FileRequest::default()
        };
        let logs = self.wanted_logs(self.logs, true);
        let mut all = home::not_home(&self.way, &ask, logs).await?;
        for start in &self.earlier {
            let logs = self.wanted_logs(start.logs, true);
            let not_home = home::not_home(&start.way, &ask, logs).await?;
            all.add(not_home, start.way.start);
        }
        Ok(all)
    }

    fn ask(&self, asked: &RequestedFiles) -> FileRequest {
        let any = |path: &String| Glob {
            path: path.clone(),
            is_output: false,
            most: u64::MAX,
        };
        let globs = match asked.include.as_slice() {
            [] => {
                let most = u64::MAX;
                let files = self.globs(FetchKind::End).into_iter();
                files.map(|glob| Glob { most, ..glob }).collect()
            }
            include => include.iter().map(any).collect(),
        };
        FileRequest {
            globs,
            live: !self.ended,
            named: !asked.include.is_empty(),
            unnamed: if self.ended && asked.include.is_empty() {
                self.unnamed(u64::MAX)
            } else {
                UnnamedFiles::Ignore
            },
        }
    }

    fn globs(&self, kind: FetchKind) -> Vec<Glob> {
        let files = self
            .outputs
            .iter()
            .filter(|output| !is_log(output) && (kind == FetchKind::End || is_live(output)));
        let mut globs: Vec<Glob> = files
            .map(|output| Glob {
                path: output.path.clone(),
                is_output: true,
                most: match output.max_bytes {
                    0 => FILE_BYTES,
                    most => most,
                },
            })
            .collect();
        if kind == FetchKind::End {
            globs.extend(self.checkpoint.iter().map(|path| Glob {
                path: path.clone(),
                is_output: false,
                most: FILE_BYTES,
            }));
        }
        globs
    }

    /// The logs to fetch; with `all`, whole, whatever their length.
    fn wanted_logs(&self, sizes: [Option<u64>; 2], all: bool) -> Vec<LogToFetch> {
        [false, true]
            .into_iter()
            .zip(sizes)
            .filter_map(|(stderr, bytes)| {
                let stream = if stderr { "stderr" } else { "stdout" };
                let named = self.outputs.iter().find(|output| output.path == stream);
                let log = LogToFetch {
                    stderr,
                    bytes,
                    most: match named {
                        _ if all => u64::MAX,
                        Some(output) if output.max_bytes > 0 => output.max_bytes,
                        Some(_) => FILE_BYTES,
                        None => self.results_max.max(LOG_BYTES),
                    },
                    ended: self.ended,
                };
                // The length of a lost run's log is unknown.
                (named.is_some() || bytes != Some(0)).then_some(log)
            })
            .collect()
    }

    /// Makes `latest` point here, unless a later run of the experiment has
    /// results, too.
    async fn latest(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let state = ledger.state();
        let is_later =
            |run: &Run| run.made.id.number > self.id.number && !run.results().folder().is_empty();
        let experiment = state.experiment(self.id.experiment);
        if experiment.is_some_and(|one| one.runs.iter().any(is_later)) {
            return Ok(());
        }
        let folder = self.way.folder.clone();
        way::blocking(move || place::latest(&folder)).await
    }

    async fn arrived(
        &self,
        ledger: &Ledger,
        outcome: Outcome,
        warnings: Vec<String>,
    ) -> Result<CompleteResults, Trouble> {
        let done = Results::Done {
            folder: self.way.folder.display().to_string(),
            notes: outcome.notes.into_lines(),
            left: outcome.left.len() as u64,
            warnings,
        };
        let hints = self.hints(ledger).await?;
        Ok(CompleteResults {
            run: self.id,
            folder: self.way.folder.clone(),
            home: Input::ResultsDone { done, hints },
        })
    }

    /// Hints about the end of a failed run.
    async fn hints(&self, ledger: &Ledger) -> Result<Vec<String>, Trouble> {
        let state = ledger.state();
        let crashed = state
            .run(self.id)
            .is_some_and(|run| run.phase() == Phase::Crashed);
        let Some(experiment) = state.experiment(self.id.experiment).filter(|_| crashed) else {
            return Ok(Vec::new());
        };
        let definition = Arc::clone(&experiment.definition);
        let (log, id) = (self.way.folder.join(STDERR), self.id);
        way::blocking(move || {
            // A run without output has no log.
            let Ok(stderr) = nero_model::tail(&log, missing_files::TAIL_BYTES) else {
                return Vec::new();
            };
            missing_files::hints(&stderr, id, &FolderToFreeze::of(&definition))
        })
        .await
    }
}

impl EarlierStart {
    /// Makes its folder.
    async fn make(&self) -> Result<(), Trouble> {
        let folder = self.way.folder.clone();
        way::blocking(move || match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Trouble::unwritten(&folder, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        })
        .await?
    }
}

/// The starts of a run before its newest one that may have printed or made files. Their logs and files lie in
/// folders of the run's results.
fn earlier(run: &Run, newest: &Way) -> Vec<EarlierStart> {
    let last = run.journal.newest().map_or(0, |(number, _)| number);
    let starts = run.journal.incarnations.iter();
    let starts = starts.map(|(number, one)| (number, &**one));
    let began = starts.filter(|(number, one)| **number != last && one.started_ms.is_some());
    let one = |(number, one): (&u32, &Incarnation)| EarlierStart {
        way: Way {
            start: *number,
            folder: newest.folder.join(names::start_results(*number)),
            known: newest
                .known
                .with_file_name(format!("{}-start-{number}", run.made.id)),
            ..newest.clone()
        },
        logs: log_sizes(one),
    };
    began.map(one).collect()
}

/// Sizes of stdout and stderr of a start, if known.
fn log_sizes(start: &Incarnation) -> [Option<u64>; 2] {
    let gone = start.gone.as_ref();
    [
        gone.map(|gone| gone.stdout_bytes),
        gone.map(|gone| gone.stderr_bytes),
    ]
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unchanged += other.unchanged;
        self.left.extend(other.left);
        self.no_room.extend(other.no_room);
        self.unnamed.extend(other.unnamed);
        self.unfit.extend(other.unfit);
        self.unkept += other.unkept;
        self.notes.append(other.notes);
    }
}

/// Whether any file of a run comes home before it ends.
pub(super) async fn has_live(ledger: &Ledger, id: RunId) -> Result<bool, Trouble> {
    let spec = spec(ledger, id).await?;
    Ok(spec
        .outputs
        .iter()
        .any(|output| !is_log(output) && is_live(output)))
}

fn is_log(output: &v1::Output) -> bool {
    matches!(output.path.as_str(), "stdout" | "stderr")
}

fn is_live(output: &v1::Output) -> bool {
    output.fetch.is_empty()
}

/// Records the folder, so that a fetch after a crash continues in it.
async fn begun(ledger: &Ledger, id: RunId, folder: PathBuf) -> Result<(), Failure> {
    let folder = folder.display().to_string();
    let begun = Input::ResultsBegun { folder };
    ledger
        .happened(false, vec![(id, begun)], LatePolicy::Never)
        .await
}

/// The outputs in the run's spec, whatever its experiment defines now.
struct Spec {
    outputs: Vec<v1::Output>,
    checkpoint: Vec<String>,
    results_max: u64,
}

async fn spec(ledger: &Ledger, id: RunId) -> Result<Spec, Trouble> {
    let spec = ledger.spec(id).await?.map_err(Trouble::Refused)?;
    Ok(Spec {
        outputs: spec.outputs,
        checkpoint: spec.checkpoint,
        results_max: spec.results_max_bytes,
    })
}

/// Space that stays free. Another caller reports a faulty configuration.
fn min_free(config: &std::path::Path) -> u64 {
    let config = nero_config::Config::read(config).unwrap_or_default();
    config.results_min_free_bytes()
}

/// The first files by name, with all of their bytes.
fn named(stays: &[UnfetchedFile]) -> String {
    const NAMED: usize = 3;
    let all = stays.iter();
    let bytes = all
        .clone()
        .fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    let names: Vec<&str> = all.take(NAMED).map(|one| one.name.as_str()).collect();
    let more = match stays.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{}{more} ({})",
        names.join(", "),
        crate::snapshot::size(bytes)
    )
}
