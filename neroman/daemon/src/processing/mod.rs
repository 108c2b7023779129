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

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nero_format::{OutputPlot, ProcessedOutput, ProcessedUnit, Processing, PythonCall};
use nero_model::ids::{hex, random};
use nero_model::safe::Safe;
use nero_model::{Home, RunId};
use nero_python::{
    CalledFunction, FunctionProblem, ModulesAnswer, ModulesLimits, ModulesRequest, OutputToRead,
    PlotToDraw, RunToProcess,
};

use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::service::blocking;
use nero_life::experiment::Experiment;
use nero_life::processed::{self, Processed};
use nero_life::run::Run;
use nero_life::state::State;

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
}

/// A run and what is made of it.
pub(crate) struct ProcessedRun {
    id: RunId,
    processing: Processing,
    folder: PathBuf,
    /// The folder of the experiment.
    source: PathBuf,
    /// The frozen tree, in hexadecimal.
    tree: String,
    ended_ms: i64,
    before: Processed,
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
            source: experiment.definition.folder.clone(),
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

/// Makes what is to be made of runs whose outputs came home, until the daemon stops.
pub(crate) async fn run(modules: Modules) {
    // Folders of calls of an earlier daemon.
    let folder = calls(&modules.home);
    let _ = tokio::fs::remove_dir_all(folder).await;
    let mut states = modules.ledger.watch();
    states.mark_changed();
    loop {
        if states.changed().await.is_err() {
            return;
        }
        let mut state = Arc::clone(&states.borrow_and_update());
        while let Some(id) = state.unprocessed.first().copied() {
            if let Err(failure) = modules.process(&state, id, Code::Frozen).await {
                tracing::error!(run = %id, %failure, "outputs not processed");
                break;
            }
            state = Arc::clone(&states.borrow_and_update());
            if state.unprocessed.first() == Some(&id) {
                // Its outputs changed meanwhile; that is a change of the state, too.
                break;
            }
        }
    }
}

impl Modules {
    /// Makes everything of one run anew, and records it. `None`: there is nothing to make it of.
    pub(crate) async fn process(
        &self,
        state: &State,
        id: RunId,
        code: Code,
    ) -> Result<Option<Processed>, Failure> {
        let experiment = state.experiment(id.experiment);
        let run = experiment
            .and_then(|experiment| ProcessedRun::of(experiment, experiment.run(id.number)?, code));
        let Some(run) = run else {
            return Ok(None);
        };
        let call = ModulesCall::begin(&self.home)?;
        let plots = run.processing.plots.iter().map(plot).collect();
        let (run, answer) = self.ask(&call, vec![run], plots, code).await?;
        let home = self.home.clone();
        let made = blocking(move || {
            let [run] = &run[..] else {
                return Processed::default();
            };
            made(&home, &call, run, answer)
        })
        .await?;
        tracing::info!(run = %id, series = made.metrics.len(), problems = made.problems.len(), "outputs processed");
        let record = made.clone();
        self.ledger
            .note(false, move |state, _| {
                processed::record(state, id, &record).into_iter().collect()
            })
            .await?;
        Ok(Some(made))
    }

    /// Makes pictures of several runs together, with the modules as they are now. All runs have
    /// these plots. The texts are what failed.
    pub(crate) async fn combine(
        &self,
        runs: Vec<ProcessedRun>,
        plots: &[OutputPlot],
    ) -> Result<(Vec<CombinedPicture>, Vec<String>), Failure> {
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
        let answer = nero_python::ask(
            Path::new("/proc/self/exe"),
            &call.folder,
            &request,
            ModulesLimits::default(),
        )
        .await;
        Ok((runs, answer))
    }
}

/// The record of what was made of a run; the numbers are in our home when this returns.
fn made(
    home: &Home,
    call: &ModulesCall,
    run: &ProcessedRun,
    answer: Result<ModulesAnswer, String>,
) -> Processed {
    let mut made = Processed {
        stale: false,
        version: run.before.version,
        pictures: run.before.pictures.clone(),
        notes: run.cut_logs(),
        ..Processed::default()
    };
    match answer {
        Err(why) => made.problems.push(why),
        Ok(answer) => {
            match series::keep(home, &call.folder, run, &answer.series) {
                Ok(metrics) => made.metrics = metrics,
                Err(error) => made
                    .problems
                    .push(format!("their numbers cannot be kept: {error}")),
            }
            let runs = std::slice::from_ref(run);
            let problems = answer.problems.iter();
            made.problems
                .extend(problems.map(|problem| in_words(problem, call, runs)));
            let problems = pictures::save(&call.folder, &run.folder, &answer, &mut made.pictures);
            made.problems.extend(problems);
            made.notes
                .extend(answer.notes.iter().map(|note| Safe::line(note).to_string()));
        }
    }
    made.problems.truncate(PROBLEMS_MAX);
    made.notes.truncate(PROBLEMS_MAX);
    made
}

/// Problems of a run that are kept.
const PROBLEMS_MAX: usize = 20;

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
