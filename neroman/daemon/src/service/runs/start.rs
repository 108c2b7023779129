//! `Start` and restart: makes runs of the picked experiments. They are durable
//! when the call is answered; the call waits for no node.

mod decision;
mod run_record;
mod same_code;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use nero_config::Config;
use nero_model::{DeploymentId, ExperimentId, RunId};
use nero_wire::v1;
use nero_wire::v1::start_reply::One;

use self::decision::decide;
use self::run_record::takes;
use super::cost;
use super::order::{self, InStart, Order};
use super::script::{SOON, mark_refused};
use super::unschedulable::RunDemand;
use crate::service::change::{ChangeHead, ChangeRequest as _};
use crate::service::experiments::add::{canonical, notes as add_notes};
use crate::service::experiments::edit;
use crate::service::experiments::sources::{self, SourceReadings, SourceToRead};
use crate::service::files::code;
use crate::service::nodes::state::resolved;
use crate::service::select::Selection;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_life::add::{self, StampedSource};
use nero_life::change::Change;
use nero_life::experiment::{Experiment, Origin};
use nero_life::now::Moment;
use nero_life::place;
use nero_life::rules;
use nero_life::run::RunDemands;
use nero_life::start::{self, Plan, Skip, StartOptions};
use nero_life::state::State;
use nero_link::outside::{FolderToFreeze, Freezer, FrozenFolder};

/// How often a command is tried again when definitions change meanwhile.
const TRIES: usize = 3;

/// The sources that were read and the code that was frozen before the decision.
struct FrozenSources {
    sources: SourceReadings,
    /// Highest number when the sources were compared: numbers picked below
    /// mean the same as long as it stands.
    highest: u64,
    picked: Vec<ExperimentId>,
    frozen: HashMap<FolderToFreeze, FrozenFolder>,
    folders: Vec<v1::FolderTaken>,
    /// The specs of the newest runs, where new ones are made of them.
    specs: HashMap<RunId, v1::RunSpec>,
    notes: Vec<String>,
}

/// A person's request.
struct RequestedStart {
    selection: Option<Selection>,
    paths: Vec<PathBuf>,
    wanted: StartOptions,
    as_added: bool,
    big: bool,
    /// The first run goes alone, the others when it has finished.
    pilot: bool,
    /// So many of the runs go on at once.
    at_most: Option<u32>,
    /// Instead of that of the experiments.
    priority: Option<i32>,
    /// Instead of the order of their numbers.
    order: Option<Order>,
    /// Overrides that the experiments get before.
    set: Vec<(String, String)>,
    places: Places,
    /// The file of the configuration.
    config: PathBuf,
    /// The environment of the person's shell.
    shell: Vec<v1::EnvVar>,
    deployment: DeploymentId,
    /// The time of the request.
    at: Moment,
}

/// The nodes of runs.
struct Places {
    /// The word in the command; if empty, that of the experiment, else of the
    /// configuration.
    word: String,
    config: Arc<Config>,
}

impl Man {
    /// Makes runs of the picked experiments.
    pub(crate) async fn start(&self, request: v1::StartRequest) -> Result<v1::StartReply, Failure> {
        let head = request.head();
        let answer = self.once(&head, self.make_runs(&head, request)).await?;
        if head.is_rehearsal {
            return Ok(answer);
        }
        Ok(self.with_outlook(answer).await)
    }

    async fn make_runs(
        &self,
        head: &ChangeHead,
        request: v1::StartRequest,
    ) -> Result<v1::StartReply, Failure> {
        let places = self.places(&request)?;
        let selection = match &request.selection {
            None if !request.paths.is_empty() => None,
            Some(given) if given.text.trim().is_empty() && !request.paths.is_empty() => None,
            given => Some(self.selection(given.clone(), "").await?),
        };
        let asked = Arc::new(RequestedStart {
            selection,
            paths: canonical(&request.paths)?,
            wanted: StartOptions {
                restart: request.restart,
                abandon: request.abandon,
                resume: request.resume,
                same_code: request.same_code,
            },
            as_added: request.as_added,
            big: request.big,
            pilot: request.pilot,
            at_most: (request.at_most > 0).then_some(request.at_most),
            priority: request.priority,
            order: self.order(&request.order).await?,
            set: edit::assignments(&request.set),
            places,
            config: self.home.config.clone(),
            shell: request.shell,
            deployment: self.deployment,
            at: self.clock.moment(),
        });
        if head.is_rehearsal {
            return self.rehearsed(&asked, request.show_script).await;
        }
        if request.may_ask
            && let Some(costs) = self.costs_much(&asked).await?
        {
            return Ok(v1::StartReply {
                costs,
                ..v1::StartReply::default()
            });
        }
        let mut outcome = Err(Failure::failed(
            "the selected experiments changed while they were being started",
        ));
        for _ in 0..TRIES {
            let prepared = self.prepared(&asked, true).await?;
            let asked = Arc::clone(&asked);
            let decide = move |state: &State, now_ms| decide(state, &prepared, &asked, now_ms);
            outcome = self.decided(head, decide).await;
            match &outcome {
                Err(failure) if failure.try_again() => {}
                Ok(_) | Err(_) => break,
            }
        }
        outcome
    }

    /// What a start would do. With `show_script` also the scripts that schedulers would get.
    async fn rehearsed(
        &self,
        asked: &Arc<RequestedStart>,
        show_script: bool,
    ) -> Result<v1::StartReply, Failure> {
        let prepared = self.prepared(asked, false).await?;
        let (mut answer, asking) = dry(&self.ledger.state(), &prepared, asked)?;
        answer.notes.extend(self.outlook(&asking).await);
        let (scripts, notes) = if show_script {
            self.scripts(&asking).await?
        } else {
            let soon = tokio::time::timeout(SOON, self.scripts(&asking)).await;
            soon.unwrap_or_else(|_| Ok(Default::default()))?
        };
        mark_refused(&scripts, (&asked.places.config, &asking), &mut answer);
        if show_script {
            answer.scripts = scripts;
            answer.notes.extend(notes);
        }
        Ok(answer)
    }

    /// What the runs would cost, if that is much. Only what clusters are asked for costs.
    async fn costs_much(&self, asked: &Arc<RequestedStart>) -> Result<Option<String>, Failure> {
        let config = Arc::clone(&asked.places.config);
        if !cost::may_cost(&config) {
            return Ok(None);
        }
        let prepared = self.prepared(asked, false).await?;
        let (_, asking) = dry(&self.ledger.state(), &prepared, asked)?;
        Ok(cost::much(&config, &asking))
    }

    async fn prepared(
        &self,
        asked: &Arc<RequestedStart>,
        freeze: bool,
    ) -> Result<FrozenSources, Failure> {
        let state = self.ledger.state();
        let (same, freezer) = (Arc::clone(asked), self.freezer.clone());
        let mut prepared = blocking(move || prepare(&state, &same, &freezer, freeze)).await??;
        if asked.wanted.same_code && freeze {
            prepared.specs = self.newest_specs(&prepared.picked).await?;
        }
        Ok(prepared)
    }

    /// The nodes for runs of this command.
    fn places(&self, request: &v1::StartRequest) -> Result<Places, Failure> {
        if request.as_added && !request.set.is_empty() {
            return Err(
                Failure::usage("--set reads the sources, which --as-added does not")
                    .hint("leave out one of them"),
            );
        }
        if !request.paths.is_empty() && !request.set.is_empty() {
            return Err(
                Failure::usage("--set is for experiments that are picked, not for paths").hint(
                    "`neroman add PATH`, then `neroman restart --set KEY=VALUE` with its number",
                ),
            );
        }
        if request.same_code && (!request.restart || !request.set.is_empty()) {
            return Err(Failure::usage("--same-code takes what the newest run had")
                .hint("leave it out to set values, or to start"));
        }
        let config = self.nodes.config()?;
        if !request.node.is_empty() {
            resolved(&config, &request.node, "")?;
        }
        Ok(Places {
            word: request.node.clone(),
            config,
        })
    }
}

/// The place of one run.
#[derive(Clone, Debug)]
struct RunPlace {
    /// The word that was asked for.
    word: String,
    /// The node, if the word leaves no choice; else the placer finds one.
    node: Option<String>,
    takes: RunDemands,
    /// The number of the run whose checkpoints this one begins with.
    resume: Option<u32>,
}

impl Places {
    /// How many bytes of files that a run made come home.
    fn results_max_bytes(&self, experiment: &Experiment) -> u64 {
        let own = experiment.definition.results_max_bytes;
        own.unwrap_or_else(|| self.config.results_max_bytes())
    }

    fn of(&self, experiment: &Experiment) -> Result<RunPlace, Failure> {
        let definition = &experiment.definition;
        let own = definition.node.as_ref();
        let (word, whose) = match (self.word.as_str(), own) {
            ("", Some(own)) => (own.text.as_str(), format!("{}: ", own.place)),
            ("", None) => (self.config.default_target(), String::new()),
            (word, _) => (word, String::new()),
        };
        self.placed(word, &whose, takes(definition))
    }

    fn placed(&self, word: &str, whose: &str, takes: RunDemands) -> Result<RunPlace, Failure> {
        let nodes = resolved(&self.config, word, whose)?;
        // A scheduler accepts what it can never start: such a node is chosen by what
        // its cluster has.
        let is_guarded = |name: &String| {
            let node = self.config.node(name);
            node.is_some_and(|node| node.warden != nero_config::Warden::None)
        };
        let node = match nodes.as_slice() {
            [only]
                if !takes.on(only).asks()
                    && !is_guarded(only)
                    && place::has_data(&takes, only).is_ok() =>
            {
                Some(only.clone())
            }
            _ => None,
        };
        Ok(RunPlace {
            word: word.to_owned(),
            node,
            takes,
            resume: None,
        })
    }
}

/// Reads sources, picks, and freezes. Blocks.
fn prepare(
    state: &State,
    asked: &RequestedStart,
    freezer: &Freezer,
    freeze: bool,
) -> Result<FrozenSources, Failure> {
    let reads = read_sources(state, asked)?;
    let sources = SourceReadings::of(state, reads, asked.at.clone());
    let (prospect, merged) = sources.prospect(state)?;
    let mut notes = merged.lines();
    notes.extend(add_notes(&sources.reads, &merged));
    let picked = pick(&prospect, asked, freezer, &mut notes)?;
    let plans = start::plan(&prospect, &picked, asked.wanted);
    let going = plans.iter().filter_map(|plan| match plan {
        Plan::Run { id, .. } => prospect.experiment(id.experiment),
        Plan::Skip { .. } => None,
    });
    let mut frozen = HashMap::new();
    let mut folders = Vec::new();
    if freeze {
        let own = going.filter(|_| !asked.wanted.same_code);
        for experiment in own {
            let wanted = FolderToFreeze::of(&experiment.definition);
            if let Entry::Vacant(place) = frozen.entry(wanted) {
                let one = freezer.freeze(place.key(), asked.big)?;
                notes.extend(one.notes.iter().cloned());
                folders.push(code::taken(place.key(), &one.survey));
                place.insert(one);
            }
        }
    } else if !asked.wanted.same_code {
        folders = code::survey(going.map(|one| &*one.definition));
    }
    Ok(FrozenSources {
        highest: state.highest,
        sources,
        picked,
        frozen,
        folders,
        specs: HashMap::new(),
        notes,
    })
}

/// The sources that the command names, and those that may have changed.
fn read_sources(state: &State, asked: &RequestedStart) -> Result<Vec<StampedSource>, Failure> {
    let paths = SourceToRead::all_again(state, &asked.paths);
    let mut reads = sources::read_paths(state, &paths, &asked.config)?;
    let is_read = !asked.as_added && !asked.wanted.same_code;
    if let (Some(selection), true) = (&asked.selection, is_read) {
        let origins = if selection.asks_sources() {
            let missing = sources::missing(state);
            let there = |origin: &&Arc<Origin>| !missing.contains(&origin.id);
            state.origins.values().filter(there).cloned().collect()
        } else {
            sources::origins_of(state, &selection.experiments(state)?.0)
        };
        let pending = edit::pending(&asked.set, selection, state)?;
        reads.extend(sources::read_changed(
            state,
            &origins,
            &asked.config,
            &pending,
        )?);
        if let Some(id) = pending.missed(&reads) {
            return Err(edit::without_source(id));
        }
    }
    Ok(reads)
}

/// The experiments to start. An experiment that has left its source is picked by its number
/// alone, which a note reports.
fn pick(
    state: &State,
    asked: &RequestedStart,
    freezer: &Freezer,
    notes: &mut Vec<String>,
) -> Result<Vec<ExperimentId>, Failure> {
    let mut picked = Vec::new();
    if !asked.paths.is_empty() {
        let there = of_paths(state, &asked.paths);
        let removed = there.iter().filter(|one| one.hidden_ms.is_some());
        let removed = add::ranges(removed.map(|one| one.id));
        if !removed.is_empty() {
            notes.push(format!(
                "{removed}: removed, so left out; `neroman rm --undo {removed}` brings back"
            ));
        }
        let shown = there.iter().filter(|one| one.hidden_ms.is_none());
        picked.extend(shown.map(|one| one.id));
    }
    if let Some(selection) = &asked.selection {
        let other_code = if selection.asks_changed() {
            code::changed(state, freezer)
        } else {
            HashSet::new()
        };
        let (ids, found) = selection.with_code(&other_code).experiments(state)?;
        notes.extend(code::changes(state, &ids, &other_code));
        let is_gone = |id: &ExperimentId| {
            let experiment = state.experiment(*id);
            experiment.is_some_and(|experiment| experiment.is_gone())
        };
        let by_number = |id: &ExperimentId| found.gone.contains(&id.0);
        let left: Vec<ExperimentId> = (ids.iter().copied())
            .filter(|id| is_gone(id) && !by_number(id))
            .collect();
        if !found.gone.is_empty() {
            let those = add::ranges(found.gone.iter().map(|id| ExperimentId(*id)));
            notes.push(format!(
                "{those}: no longer in its source; picked all the same, since it is named"
            ));
        }
        if !left.is_empty() {
            let those = add::ranges(left.iter().copied());
            notes.push(format!(
                "{those}: no longer in its source, so left out; its number starts it"
            ));
        }
        picked.extend(ids.into_iter().filter(|id| !left.contains(id)));
        notes.extend(found.notes);
    }
    picked.sort_unstable();
    picked.dedup();
    Ok(picked)
}

/// The experiments that are in the sources of these paths now.
fn of_paths<'s>(state: &'s State, paths: &[PathBuf]) -> Vec<&'s Experiment> {
    paths
        .iter()
        .filter_map(|path| {
            state.origin_at(path).or_else(|| {
                state
                    .origins
                    .values()
                    .find(|origin| origin.source.file == *path)
            })
        })
        .flat_map(|origin| state.of_origin(origin.id))
        .filter(|experiment| !experiment.gone)
        .map(|experiment| &**experiment)
        .collect()
}

/// The state with what the sources say now, its changes, and what is to be done with the picked
/// experiments.
fn planned(
    state: &State,
    prepared: &FrozenSources,
    asked: &RequestedStart,
) -> Result<(State, Vec<Change>, Vec<Plan>), Failure> {
    let (prospect, merged) = prepared.sources.prospect(state)?;
    let picked = &prepared.picked;
    let plans = order::planned(&prospect, picked, asked.wanted, asked.order.as_ref())?;
    if asked.pilot {
        order::check_pilot(&prospect, &plans)?;
    }
    Ok((prospect, merged.changes, plans))
}

/// What would be done, and the demands of the runs.
fn dry(
    state: &State,
    prepared: &FrozenSources,
    asked: &RequestedStart,
) -> Result<(v1::StartReply, Vec<RunDemand>), Failure> {
    let (prospect, _, plans) = planned(state, prepared, asked)?;
    let mut asking = Vec::new();
    let mut off = rules::InapplicableRules::default();
    for plan in &plans {
        let Plan::Run { id, .. } = plan else { continue };
        if let Some(experiment) = prospect.experiment(id.experiment) {
            look_at_rules(&prospect, experiment, &mut off);
            let RunPlace { word, takes, .. } = asked.places.of(experiment)?;
            asking.push(RunDemand {
                id: *id,
                word,
                takes,
                definition: Arc::clone(&experiment.definition),
                waits: true,
            });
        }
    }
    let experiments = plans
        .iter()
        .filter_map(|plan| reply_entry(&prospect, plan))
        .collect();
    let mut notes = prepared.notes.clone();
    notes.extend(off.notes());
    notes.extend(order::notes(&prospect, asked.pilot, asked.at_most, &plans));
    let answer = v1::StartReply {
        experiments,
        notes,
        folders: prepared.folders.clone(),
        ..v1::StartReply::default()
    };
    Ok((answer, asking))
}

/// Collects the rules that could not apply to the experiment's next run.
fn look_at_rules(state: &State, experiment: &Experiment, off: &mut rules::InapplicableRules) {
    let mut fresh = Vec::new();
    for id in start::rules(state, experiment, &mut fresh) {
        let known = state.rules.get(&id).map(|rule| &**rule);
        if let Some(rule) = known.or_else(|| fresh.iter().find(|rule| rule.id == id)) {
            off.check(id, &rule.text, &rule.origin, experiment);
        }
    }
}

fn reply_entry(state: &State, plan: &Plan) -> Option<One> {
    let (id, run, skipped) = match plan {
        Plan::Run { id, .. } => (id.experiment, id.number, None),
        Plan::Skip { id, why } => (*id, 0, Some(why)),
    };
    Some(One {
        experiment: id.0,
        name: state.experiment(id)?.definition.name.clone(),
        run,
        skipped: skipped.map(Skip::to_string).unwrap_or_default(),
        skipped_as: skipped.map(Skip::label).unwrap_or_default().to_owned(),
    })
}
