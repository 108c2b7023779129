//! One run's way home: which folder, which files, which logs; and what is
//! written down when they are there.

use std::path::PathBuf;
use std::sync::Arc;

use nero_model::paths::run::{STDERR, STDOUT};
use nero_model::{Home, Phase, RunId};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use super::fetch::{self, Outcome, Way};
use super::logs::{self, Log};
use super::queue::Pace;
use super::trouble::Trouble;
use super::wanted::{Ask, Glob, Whose};
use super::{Kind, missed, place};
use crate::core::run::{Results, Run};
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::node::{Hearer, desk_change};

/// Larger files stay on the node unless `max:` says otherwise.
const FILE_BYTES: u64 = 1 << 30;

/// Where results go on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Results of experiments whose folder cannot be written.
    pub(crate) fallback: PathBuf,
    /// What is known of transfers that are not over.
    pub(crate) known: PathBuf,
    pub(crate) pace: Pace,
}

impl Places {
    /// Of this neroman.
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            fallback: home.data.join("results"),
            known: home.data.join("fetching"),
            pace: Pace::default(),
        }
    }
}

/// What a person asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Globs; none: the outputs, whatever their size, and the whole logs.
    pub include: Vec<String>,
}

/// A run whose files can be brought home.
pub(crate) struct Job {
    id: RunId,
    way: Way,
    ended: bool,
    /// It ended, and all of it came home.
    done: bool,
    outputs: Vec<v1::Output>,
    checkpoint: Vec<String>,
    /// Sizes of stdout and stderr, as far as they are known.
    logs: [Option<u64>; 2],
}

impl Job {
    /// Prepares it; none when there is no such run. The folder is there and
    /// written down afterwards, unless it is only looked what would come.
    pub(crate) async fn prepare(
        places: &Places,
        ledger: &Ledger,
        client: MumClient<Channel>,
        hearer: Hearer,
        id: RunId,
        only_look: bool,
    ) -> Result<Option<Self>, Trouble> {
        let state = ledger.state();
        let Some((experiment, run)) = state
            .experiment(id.experiment)
            .and_then(|experiment| Some((experiment, experiment.run(id.number)?)))
        else {
            return Ok(None);
        };
        let folder = match run.desk.results.folder() {
            known if only_look => PathBuf::from(known),
            "" => {
                let plan = place::plan(experiment, run, &places.fallback);
                let folder = fetch::blocking(move || place::make(&plan)).await??;
                begun(ledger, id, folder.clone()).await?;
                folder
            }
            known => {
                let folder = PathBuf::from(known);
                // Somebody may have moved it away meanwhile.
                let made = folder.clone();
                fetch::blocking(move || {
                    std::fs::create_dir_all(&made)
                        .map_err(|error| Trouble::unwritten(&made, &error))
                })
                .await??;
                folder
            }
        };
        let (outputs, checkpoint) = spec(ledger, id).await?;
        let gone = run.journal.newest().and_then(|(_, one)| one.gone.as_ref());
        Ok(Some(Self {
            id,
            way: Way {
                client,
                run: v1::RunRef {
                    token: run.made.token.to_vec(),
                    experiment: id.experiment.0,
                    number: id.number,
                },
                whose: Whose {
                    run: id,
                    node: run.node_word().to_owned(),
                },
                folder,
                known: places.known.join(id.to_string()),
                hearer,
            },
            ended: run.phase().is_end(),
            done: matches!(run.desk.results, Results::Done { .. }),
            outputs,
            checkpoint,
            logs: [
                gone.map(|gone| gone.stdout_bytes),
                gone.map(|gone| gone.stderr_bytes),
            ],
        }))
    }

    /// Where the files go.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.way.folder
    }

    /// What a live run made so far.
    pub(super) async fn live(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let ask = Ask {
            globs: self.globs(Kind::Live),
            live: true,
            named: false,
        };
        fetch::files(&self.way, &ask, false).await?;
        self.latest(ledger).await
    }

    /// Everything of a run that ended; written down when it is home.
    pub(super) async fn end(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let mut outcome = Outcome::default();
        let refused = self.bring_logs(false, &mut outcome).await?;
        for log in self.wanted_logs(false) {
            if let Some(bytes) = log
                .bytes
                .filter(|bytes| !log.whole && *bytes > logs::LOG_BYTES)
            {
                let (name, stream) = names(log.stderr);
                outcome.notes.add(format!(
                    "{name} holds the last {} of {bytes} bytes; `outputs: [{stream}]` brings it whole",
                    logs::LOG_BYTES
                ));
            }
        }
        let globs = self.globs(Kind::End);
        if !globs.is_empty() {
            let ask = Ask {
                globs,
                live: false,
                named: false,
            };
            outcome.add(fetch::files(&self.way, &ask, refused.is_none()).await?);
        } else if self.wanted_logs(false).iter().any(|log| log.whole) {
            fetch::forget(&self.way).await?;
        }
        self.latest(ledger).await?;
        if let Some(trouble) = refused {
            return Err(trouble);
        }
        self.done(ledger, outcome.notes.into_lines(), outcome.left)
            .await
    }

    /// Brings the logs. One that is refused keeps nothing else from coming
    /// home; it is handed back.
    async fn bring_logs(
        &self,
        all: bool,
        outcome: &mut Outcome,
    ) -> Result<Option<Trouble>, Trouble> {
        let mut refused = None;
        for log in self.wanted_logs(all) {
            if self.done && logs::is_home(&self.way, log).await? {
                outcome.unchanged += 1;
                continue;
            }
            match logs::fetch(&self.way, log).await {
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

    /// What a person asked for, now.
    pub(crate) async fn asked(&self, ledger: &Ledger, asked: &Asked) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::default();
        let mut refused = None;
        if asked.include.is_empty() {
            refused = self.bring_logs(true, &mut outcome).await?;
        }
        let ask = self.ask(asked);
        if !ask.globs.is_empty() {
            let last = self.ended && refused.is_none();
            outcome.add(fetch::files(&self.way, &ask, last).await?);
        } else if self.ended {
            fetch::forget(&self.way).await?;
        }
        self.latest(ledger).await?;
        if let Some(trouble) = refused {
            return Err(trouble);
        }
        if self.ended && asked.include.is_empty() {
            let lines = outcome.notes.clone().into_lines();
            self.done(ledger, lines, outcome.left).await?;
        }
        Ok(outcome)
    }

    /// What that would bring.
    pub(crate) async fn would(&self, asked: &Asked) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::default();
        if asked.include.is_empty() {
            for log in self.wanted_logs(true) {
                if self.done && logs::is_home(&self.way, log).await? {
                    outcome.unchanged += 1;
                    continue;
                }
                outcome.bytes = outcome.bytes.saturating_add(log.bytes.unwrap_or(0));
                outcome.files += 1;
            }
        }
        let ask = self.ask(asked);
        if !ask.globs.is_empty() {
            outcome.add(fetch::look(&self.way, &ask).await?);
        }
        Ok(outcome)
    }

    /// Which of the node's files are not here as they are there.
    pub(crate) async fn differ(&self, asked: &Asked) -> Result<Outcome, Trouble> {
        let ask = self.ask(asked);
        if ask.globs.is_empty() {
            return Ok(Outcome::default());
        }
        fetch::look(&self.way, &ask).await
    }

    fn ask(&self, asked: &Asked) -> Ask {
        let any = |path: &String| Glob {
            path: path.clone(),
            most: u64::MAX,
        };
        let globs = match asked.include.as_slice() {
            [] => {
                let files = self.globs(Kind::End);
                files.iter().map(|glob| any(&glob.path)).collect()
            }
            include => include.iter().map(any).collect(),
        };
        Ask {
            globs,
            live: !self.ended,
            named: !asked.include.is_empty(),
        }
    }

    fn globs(&self, kind: Kind) -> Vec<Glob> {
        let files = self
            .outputs
            .iter()
            .filter(|output| !is_log(output) && (kind == Kind::End || is_live(output)));
        let mut globs: Vec<Glob> = files
            .map(|output| Glob {
                path: output.path.clone(),
                most: match output.max_bytes {
                    0 => FILE_BYTES,
                    most => most,
                },
            })
            .collect();
        if kind == Kind::End {
            globs.extend(self.checkpoint.iter().map(|path| Glob {
                path: path.clone(),
                most: FILE_BYTES,
            }));
        }
        globs
    }

    /// The logs that come; `all`: whole.
    fn wanted_logs(&self, all: bool) -> Vec<Log> {
        [false, true]
            .into_iter()
            .zip(self.logs)
            .filter_map(|(stderr, bytes)| {
                let (_, stream) = names(stderr);
                let named = self.outputs.iter().any(|output| output.path == stream);
                let log = Log {
                    stderr,
                    bytes,
                    whole: named || all,
                    ended: self.ended,
                };
                // A run that was lost does not say how much it printed.
                (named || bytes != Some(0)).then_some(log)
            })
            .collect()
    }

    /// Makes `latest` point here, unless a later run of the experiment has
    /// results, too.
    async fn latest(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let state = ledger.state();
        let is_later = |run: &Run| {
            run.made.id.number > self.id.number && !run.desk.results.folder().is_empty()
        };
        let experiment = state.experiment(self.id.experiment);
        if experiment.is_some_and(|one| one.runs.iter().any(is_later)) {
            return Ok(());
        }
        let folder = self.way.folder.clone();
        fetch::blocking(move || place::latest(&folder)).await
    }

    async fn done(&self, ledger: &Ledger, notes: Vec<String>, left: u64) -> Result<(), Trouble> {
        let done = Results::Done {
            folder: self.way.folder.display().to_string(),
            notes,
            left,
        };
        let id = self.id;
        let hints = self.hints(ledger).await?;
        ledger
            .note(false, move |state, _| {
                let change = desk_change(state, id, |desk| {
                    desk.results = done.clone();
                    desk.hints.clone_from(&hints);
                });
                change.into_iter().collect()
            })
            .await?;
        Ok(())
    }

    /// What may be behind the end of a run that failed.
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
        fetch::blocking(move || {
            // A run that printed nothing has no log.
            let Ok(stderr) = missed::tail(&log) else {
                return Vec::new();
            };
            missed::hints(&stderr, id, &crate::service::files(&definition))
        })
        .await
    }
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unchanged += other.unchanged;
        self.left += other.left;
        self.unkept += other.unkept;
        self.notes.append(other.notes);
    }
}

/// Whether anything of a run comes home before it ends.
pub(super) async fn has_live(ledger: &Ledger, id: RunId) -> Result<bool, Trouble> {
    let (outputs, _) = spec(ledger, id).await?;
    Ok(outputs
        .iter()
        .any(|output| !is_log(output) && is_live(output)))
}

fn is_log(output: &v1::Output) -> bool {
    matches!(output.path.as_str(), "stdout" | "stderr")
}

fn is_live(output: &v1::Output) -> bool {
    output.fetch.is_empty()
}

/// A log's file, and the word for it.
fn names(stderr: bool) -> (&'static str, &'static str) {
    if stderr {
        (STDERR, "stderr")
    } else {
        (STDOUT, "stdout")
    }
}

/// Whoever finds this after a crash goes on in the same folder.
async fn begun(ledger: &Ledger, id: RunId, folder: PathBuf) -> Result<(), Failure> {
    ledger
        .note(false, move |state, _| {
            desk_change(state, id, |desk| {
                desk.results = Results::Fetching {
                    folder: folder.display().to_string(),
                };
            })
            .into_iter()
            .collect()
        })
        .await
}

/// What the run was made to bring home, whatever its experiment says now.
async fn spec(ledger: &Ledger, id: RunId) -> Result<(Vec<v1::Output>, Vec<String>), Trouble> {
    let spec = ledger.spec(id).await?.map_err(Trouble::Refused)?;
    Ok((spec.outputs, spec.checkpoint))
}
