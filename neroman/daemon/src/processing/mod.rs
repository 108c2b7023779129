//! What the processors and plots of an experiment make of a run's outputs.
//!
//! [`run`] waits for runs whose outputs came home ([`State::unprocessed`]), and has the functions
//! called one run after the other, in a process with limits (`nero_python`). Their series go into
//! a file of our home ([`series`]), the pictures among the results ([`pictures`]), and what failed
//! into the run's record, where every view finds it. By itself it uses the modules and the fields
//! that were frozen with the run ([`code`]); a person who asks for plots gets the present ones.

mod code;
mod pictures;
pub(crate) mod series;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nero_child::Office;
use nero_format::{
    OutputPlot, OutputProcessing, ProcessedOutput, ProcessedUnit, PythonCall, SharedPart,
};
use nero_model::ids::{hex, random};
use nero_model::safe::Safe;
use nero_model::{Home, RunId};
use nero_python::{
    CalledFunction, FunctionProblem, ModulesAnswer, ModulesLimits, ModulesRequest, OutputToRead,
    PlotToDraw, RunToProcess,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::blocking::blocking;
use nero_home::failure::Failure;
use nero_home::ledger::{Audience, Ledger};
use nero_life::experiment::Experiment;
use nero_life::processed::{self, ProcessedOutputs};
use nero_life::run::Run;

/// Whose modules are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Those that were frozen with the run.
    Frozen,
    /// Those of the experiment's folder, as they are now.
    Present,
}

/// Everything that the calls need.
#[derive(Clone, Debug)]
pub(crate) struct Modules {
    pub ledger: Ledger,
    pub home: Home,
    /// Held while functions are called: two answers about one run do not mix, and the limits of
    /// memory are those of one process.
    pub turn: Arc<Mutex<()>>,
}

/// What was made of a run, and the pictures that were made now.
pub(crate) struct MadeNow {
    pub processed: ProcessedOutputs,
    pub pictures: Vec<String>,
}

/// A run and what is made of it.
pub(crate) struct ProcessedRun {
    id: RunId,
    processing: SharedPart<OutputProcessing>,
    folder: PathBuf,
    /// The folder of the experiment.
    source: PathBuf,
    /// The frozen tree, in hexadecimal.
    tree: String,
    ended_ms: i64,
    before: ProcessedOutputs,
    /// Bytes that the job printed, where that is known.
    printed: [Option<u64>; 2],
}

/// A picture that was made of several runs.
pub(crate) struct CombinedPicture {
    pub name: String,
    pub content: Vec<u8>,
}

impl ProcessedRun {
    /// The run, if its outputs are here.
    pub(crate) fn of(experiment: &Experiment, run: &Run, code: Code) -> Option<Self> {
        let processing = match code {
            Code::Frozen => &run.made.processing,
            Code::Present => &experiment.definition.processing,
        };
        let folder = run.results().folder();
        if processing.is_empty() || folder.is_empty() {
            return None;
        }
        let gone = run.journal.newest().and_then(|(_, one)| one.gone.as_ref());
        Some(Self {
            id: run.made.id,
            processing: processing.clone(),
            folder: PathBuf::from(folder),
            source: (*experiment.definition.folder).clone(),
            tree: run.made.tree.clone(),
            ended_ms: run.outcome.ended_ms.unwrap_or(run.made.created_ms),
            before: run.processed().cloned().unwrap_or_default(),
            printed: [
                gone.map(|gone| gone.stdout_bytes),
                gone.map(|gone| gone.stderr_bytes),
            ],
        })
    }

    fn to_process(&self, modules: Vec<PathBuf>) -> RunToProcess {
        RunToProcess {
            id: self.id.to_string(),
            modules,
            folder: self.folder.clone(),
            outputs: self.processing.outputs.iter().map(output).collect(),
        }
    }

    /// A remark for each log of which only the end came home.
    fn cut_logs(&self) -> Vec<String> {
        let logs = ["stdout.log", "stderr.log"].into_iter().zip(self.printed);
        let is_read = |name: &str| self.processing.outputs.iter().any(|one| one.file == name);
        logs.filter_map(|(name, printed)| {
            let printed = printed.filter(|_| is_read(name))?;
            let here = fs::metadata(self.folder.join(name)).ok()?.len();
            (here < printed).then(|| {
                format!(
                    "only the last {} of {} bytes of {name} came home and were read: name it in `outputs`",
                    here, printed
                )
            })
        })
        .collect()
    }
}

/// Removes the folders of calls of an earlier daemon. Called before there are calls. Blocks.
pub(crate) fn remove_calls(home: &Home) {
    let _ = fs::remove_dir_all(calls(home));
}

/// Makes what is to be made of runs whose outputs came home, until the daemon stops.
pub(crate) async fn run(modules: Modules) {
    let mut states = modules.ledger.watch(Audience::Outputs);
    states.mark_changed();
    let mut deferred = DeferredRuns::default();
    modules.sweep().await;
    loop {
        let next = deferred.next();
        let is_due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            () = is_due => {}
        }
        loop {
            let state = states.state();
            let version = |id: RunId| {
                let made = state.run(id).and_then(Run::processed);
                made.map_or(0, |made| made.version)
            };
            let now = Instant::now();
            let Some((id, version)) = deferred.first_due(&state.unprocessed, version, now) else {
                break;
            };
            match modules.process(id, Code::Frozen).await {
                Ok(Some(_)) => deferred.forget(id),
                // There was nothing to make, or `plot` has made it.
                Ok(None) => deferred.defer(id, version, Instant::now()),
                Err(failure) => {
                    tracing::error!(run = %id, %failure, "outputs not processed");
                    deferred.defer(id, version, Instant::now());
                }
            }
        }
    }
}

/// The failures of one version of a run's outputs.
struct Deferral {
    version: u32,
    failures: u32,
    next: Instant,
}

/// Runs whose processing failed.
#[derive(Default)]
struct DeferredRuns(HashMap<RunId, Deferral>);

impl DeferredRuns {
    /// The first of these runs that may be tried now, and the version of its outputs. Others than
    /// these are forgotten, and those whose outputs came home again.
    fn first_due(
        &mut self,
        runs: &BTreeSet<RunId>,
        version: impl Fn(RunId) -> u32,
        now: Instant,
    ) -> Option<(RunId, u32)> {
        self.0
            .retain(|id, one| runs.contains(id) && one.version == version(*id));
        let is_due = |id: &&RunId| self.0.get(id).is_none_or(|one| one.next <= now);
        let id = *runs.iter().find(is_due)?;
        Some((id, version(id)))
    }

    /// Tries a run again after 1, 2, 4 … 60 minutes.
    fn defer(&mut self, id: RunId, version: u32, now: Instant) {
        let fresh = || Deferral {
            version,
            failures: 0,
            next: now,
        };
        let one = self.0.entry(id).or_insert_with(fresh);
        let minutes = (1 << one.failures.min(6)).min(PAUSE_MINUTES_MAX);
        one.failures += 1;
        one.next = now + Duration::from_secs(60 * minutes);
    }

    fn forget(&mut self, id: RunId) {
        self.0.remove(&id);
    }

    fn next(&self) -> Option<Instant> {
        self.0.values().map(|one| one.next).min()
    }
}

/// The longest pause between two tries.
const PAUSE_MINUTES_MAX: u64 = 60;

impl Modules {
    /// Removes numbers that no record names.
    async fn sweep(&self) {
        let _turn = self.turn.lock().await;
        let (home, state) = (self.home.clone(), self.ledger.state());
        if let Err(failure) = blocking(move || series::sweep(&home, &state)).await {
            tracing::warn!(%failure, "old numbers of outputs stay");
        }
    }

    /// Makes everything of one run anew, and records it. `None`: there is nothing to make it of.
    pub(crate) async fn process(&self, id: RunId, code: Code) -> Result<Option<MadeNow>, Failure> {
        let _turn = self.turn.lock().await;
        let state = self.ledger.state();
        let run = || {
            let experiment = state.experiment(id.experiment)?;
            let run = experiment.run(id.number)?;
            // `plot` may have made it while this call waited for its turn.
            let is_wanted = code == Code::Present || run.awaits_processing();
            ProcessedRun::of(experiment, run, code).filter(|_| is_wanted)
        };
        let Some(run) = run() else {
            return Ok(None);
        };
        let call = ModulesCall::begin(&self.home)?;
        let run_folder = run.folder.clone();
        let (before, ours) = (run.before.clone(), run.before.pictures.clone());
        let plots = run.processing.plots.iter().map(plot).collect();
        let (run, answer) = self.ask(&call, vec![run], plots, code).await?;
        let drawn = answer.as_ref().map(|answer| answer.pictures.clone());
        let drawn = drawn.unwrap_or_default();
        let known = ours.clone();
        let claimed = blocking(move || pictures::claimable(&run_folder, drawn, &known)).await?;
        let names = claimed.iter().filter(|name| !ours.contains(name));
        let names: Vec<String> = names.cloned().collect();
        if !names.is_empty() {
            self.ledger
                .note(true, move |state, _| {
                    processed::claim(state, id, &names).into_iter().collect()
                })
                .await?;
        }
        let home = self.home.clone();
        let (made, pictures) = blocking(move || {
            let [run] = &run[..] else {
                return (ProcessedOutputs::default(), Vec::new());
            };
            made(&home, &call, run, &claimed, answer)
        })
        .await?;
        tracing::info!(run = %id, series = made.metrics.len(), problems = made.problems.len(), "outputs processed");
        let record = made.clone();
        self.ledger
            .note(false, move |state, _| {
                processed::record(state, id, &record).into_iter().collect()
            })
            .await?;
        let (home, now) = (self.home.clone(), made.clone());
        blocking(move || series::remove_old(&home, id, &before, &now)).await?;
        Ok(Some(MadeNow {
            processed: made,
            pictures,
        }))
    }

    /// Makes pictures of several runs together, with the modules as they are now. All runs have
    /// these plots. The texts are what failed.
    pub(crate) async fn combine(
        &self,
        runs: Vec<ProcessedRun>,
        plots: &[OutputPlot],
    ) -> Result<(Vec<CombinedPicture>, Vec<String>), Failure> {
        let _turn = self.turn.lock().await;
        let call = ModulesCall::begin(&self.home)?;
        let plots = plots.iter().map(plot).collect();
        let (runs, answer) = self.ask(&call, runs, plots, Code::Present).await?;
        blocking(move || match answer {
            Ok(answer) => pictures::combined(&call.folder, &answer, |problem| {
                in_words(problem, &call, &runs)
            }),
            Err(why) => (Vec::new(), vec![why]),
        })
        .await
    }

    async fn ask(
        &self,
        call: &ModulesCall,
        runs: Vec<ProcessedRun>,
        plots: Vec<PlotToDraw>,
        code: Code,
    ) -> Result<(Vec<ProcessedRun>, Result<ModulesAnswer, String>), Failure> {
        let (folder, store) = (call.folder.clone(), self.home.store());
        let (runs, to_process) = blocking(move || {
            let to_process: io::Result<Vec<RunToProcess>> = runs
                .iter()
                .map(|run| Ok(run.to_process(code::folders(&folder, &store, run, code)?)))
                .collect();
            (runs, to_process)
        })
        .await?;
        let request = match to_process {
            Ok(runs) => ModulesRequest { runs, plots },
            Err(error) => {
                return Ok((
                    runs,
                    Err(format!("the frozen modules cannot be laid out: {error}")),
                ));
            }
        };
        let answer = match Office::own() {
            Ok(office) => {
                nero_python::ask(office, &call.folder, &request, ModulesLimits::default()).await
            }
            Err(error) => Err(error.to_string()),
        };
        Ok((runs, answer))
    }
}

/// The record of what was made of a run, and its pictures of this call; the numbers are in our
/// home when this returns.
fn made(
    home: &Home,
    call: &ModulesCall,
    run: &ProcessedRun,
    claimed: &[String],
    answer: Result<ModulesAnswer, String>,
) -> (ProcessedOutputs, Vec<String>) {
    let mut pictures = Vec::new();
    let mut made = ProcessedOutputs {
        stale: false,
        version: run.before.version,
        pictures: run.before.pictures.clone(),
        notes: run.cut_logs(),
        ..ProcessedOutputs::default()
    };
    match answer {
        Err(why) => made.problems.push(why),
        Ok(answer) => {
            match series::keep(home, &call.folder, run, &answer.series) {
                Ok((metrics, numbers)) => {
                    made.metrics = metrics;
                    made.numbers = numbers;
                }
                Err(error) => made
                    .problems
                    .push(format!("their numbers cannot be kept: {error}")),
            }
            let runs = std::slice::from_ref(run);
            let problems = answer.problems.iter();
            made.problems
                .extend(problems.map(|problem| in_words(problem, call, runs)));
            let (saved, problems) = pictures::save(&call.folder, &run.folder, &answer, claimed);
            made.problems.extend(problems);
            let new = saved
                .iter()
                .filter(|name| !run.before.pictures.contains(name));
            made.pictures.extend(new.cloned());
            pictures = saved;
            made.notes
                .extend(answer.notes.iter().map(|note| Safe::line(note).to_string()));
        }
    }
    made.problems.truncate(PROBLEMS_MAX);
    made.notes.truncate(NOTES_MAX);
    (made, pictures)
}

/// Problems of a run that are kept.
const PROBLEMS_MAX: usize = 20;
/// Notes of a run that are kept: those of the functions, the line about how many more there are,
/// and one for each log.
const NOTES_MAX: usize = 23;

/// A problem with its traceback; frozen modules are shown where they were frozen from.
fn in_words(problem: &FunctionProblem, call: &ModulesCall, runs: &[ProcessedRun]) -> String {
    let lines = std::iter::once(problem.why.as_str()).chain(problem.trace.lines());
    let lines: Vec<String> = lines.map(|line| Safe::line(line).to_string()).collect();
    let mut text = lines.join("\n");
    for (at, run) in runs.iter().enumerate() {
        let frozen = code::frozen(&call.folder, at).display().to_string();
        text = text.replace(&frozen, &run.source.display().to_string());
    }
    text
}

/// A folder of one call, which vanishes with this value.
struct ModulesCall {
    folder: PathBuf,
}

impl ModulesCall {
    fn begin(home: &Home) -> Result<Self, Failure> {
        let folder = calls(home).join(hex(&random::<8>()));
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::failed("the modules could not be run").caused_by(&error))?;
        Ok(Self { folder })
    }
}

impl Drop for ModulesCall {
    fn drop(&mut self) {
        // What stays is removed at the daemon's next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder with the folders of calls.
fn calls(home: &Home) -> PathBuf {
    home.data.join("modules")
}

fn output(output: &ProcessedOutput) -> OutputToRead {
    OutputToRead {
        file: output.file.clone(),
        unit: match output.unit {
            ProcessedUnit::Line => "line",
            ProcessedUnit::File => "file",
        },
        call: called(&output.call),
    }
}

fn plot(plot: &OutputPlot) -> PlotToDraw {
    PlotToDraw {
        name: plot.name.clone(),
        file: plot.file.clone(),
        call: called(&plot.call),
    }
}

fn called(call: &PythonCall) -> CalledFunction {
    CalledFunction {
        module: call.module.clone(),
        function: call.function.clone(),
        arguments: call.arguments.clone(),
    }
}

/// Moves a file to a place where it is complete or absent. Blocks.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let private = to.with_file_name(format!(".{name}-{}.part", hex(&random::<6>())));
    let copied = fs::copy(from, &private)
        .and_then(|_| fs::File::open(&private)?.sync_all())
        .and_then(|()| fs::rename(&private, to));
    if copied.is_err() {
        let _ = fs::remove_file(&private);
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::ExperimentId;

    #[test]
    fn a_run_whose_processing_fails_waits_ever_longer_and_holds_up_no_other() {
        let run = |experiment| RunId {
            experiment: ExperimentId(experiment),
            number: 1,
        };
        let mut runs = BTreeSet::from([run(1), run(2)]);
        let (mut deferred, start) = (DeferredRuns::default(), Instant::now());
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(deferred.first_due(&runs, |_| 0, now), Some((run(1), 0)));
            deferred.defer(run(1), 0, now);
            assert_eq!(deferred.first_due(&runs, |_| 0, now), Some((run(2), 0)));
            let next = deferred.next().unwrap();
            pauses.push((next - now).as_secs() / 60);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        // Outputs that came home again are tried at once.
        assert_eq!(deferred.first_due(&runs, |_| 1, start), Some((run(1), 1)));
        deferred.defer(run(1), 1, start);
        // A run that was made is as new when its outputs come again.
        runs.remove(&run(1));
        assert_eq!(deferred.first_due(&runs, |_| 0, start), Some((run(2), 0)));
        assert_eq!(deferred.next(), None);
    }

    #[test]
    fn a_name_of_a_person_is_not_claimed_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.svg"), "a person's").unwrap();
        fs::write(folder.path().join("old.svg"), "ours").unwrap();
        let names = ["mine.svg", "old.svg", "new.svg", "../up.svg"].map(str::to_owned);
        let ours = ["old.svg".to_owned()];
        let claimed = pictures::claimable(folder.path(), names.to_vec(), &ours);
        assert_eq!(claimed, ["old.svg", "new.svg"]);
        let call = folder.path().join("call");
        fs::create_dir_all(call.join(nero_python::PICTURES)).unwrap();
        for name in ["mine.svg", "old.svg", "new.svg"] {
            fs::write(call.join(nero_python::PICTURES).join(name), "made").unwrap();
        }
        let answer = ModulesAnswer {
            pictures: names[..3].to_vec(),
            ..ModulesAnswer::default()
        };
        let (saved, problems) = pictures::save(&call, folder.path(), &answer, &claimed);
        assert_eq!(saved, ["old.svg", "new.svg"]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let kept = fs::read_to_string(folder.path().join("mine.svg")).unwrap();
        assert_eq!(kept, "a person's");
    }
}
