//! Makes the folders of runs, and refuses runs that cannot be accepted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nero_cluster::request::{self, TaskRequest};
use nero_journal::frame::{self, FrameError, FrameKind};
use nero_model::paths::{make_private, run as names};
use nero_model::{DeploymentId, RunId, RunToken};
use nero_node_core::capacity::{Capacity, Needs};
use nero_warden::Warden;
use nero_wire::v1::RunSpec;

use super::check::{Flaw, check, check_tree, earlier, find_data, identify};
use super::placement::{Folder, PlacedRun, PlacementResult};
use super::program::Programs;
use super::{DISK, Rejection, disk, lacks, no, recalled, unknown};
use crate::agent::recover::{request_of, turn_of};
use crate::cards::{Cards, CardsKnown};
use crate::containers::ImagesKnown;
use crate::launch::orders::grace_ms;
use crate::runs::control::newest_cancel;
use crate::runs::segments::{self, claimed_by, exists};
use crate::runs::tombstone;
use crate::staging::environment::Base;
use crate::staging::store::Store;
use crate::staging::work_folder;

/// The hint where a scheduler cannot honour a run, or is missing.
const SCHEDULER: &str = "correct the field of the experiment, give it per node (`{NODE: VALUE}`), or choose another node";

/// The hint where a node has too few GPUs.
const GPUS: &str = "lower resources.gpus, or choose a node with more GPUs";

/// Runs for which a thread makes folders at a time. A file system of a cluster takes a millisecond for
/// each name, and takes many names at a time.
const THREAD_RUNS: usize = 64;

/// Limit of the threads that make folders for one request.
const THREADS_MAX: usize = 8;

/// Facts about all runs of a request.
struct RequestFacts<'a> {
    store: &'a Store,
    /// Tokens of the runs whose spec alone is sent again.
    sent_again: HashSet<&'a [u8]>,
    gpus: Option<CardsKnown>,
    images: ImagesKnown,
    /// Each tree is checked once.
    trees: Mutex<HashMap<Vec<u8>, Result<(), Flaw>>>,
}

/// Facts that are found once for the runs of a thread.
#[derive(Default)]
struct ThreadFacts {
    programs: Programs,
    experiment_made: Option<u64>,
}

/// Whether a run was handed over before.
#[derive(Debug)]
enum EarlierHandOver {
    /// It was accepted: whatever is missing now, it is not refused any more.
    Here,
    /// It was recalled, or given to another node that has this folder.
    Recalled,
    /// An earlier generation left its spec, and nothing of it was started.
    Leftover,
    Nowhere,
    /// Its spec is damaged.
    Unclear,
    /// Its spec cannot be read just now.
    Unread(io::Error),
}

/// Makes folders for runs; called by the service, beside the agent.
#[derive(Clone, Debug)]
pub struct Placer {
    /// Folders of the node.
    pub paths: nero_model::paths::NodePaths,
    /// Deployment that the runs must belong to.
    pub deployment: DeploymentId,
    /// Resources of the node.
    pub capacity: Capacity,
    /// Environment that jobs begin with.
    pub base: Base,
    /// Boot id of the machine.
    pub boot_id: [u8; 16],
    /// The node's scheduler.
    pub warden: Option<Arc<dyn Warden>>,
}

impl Placer {
    /// Checks every run and makes its folder, in several threads where there are many.
    /// `sent_again`: tokens of the runs whose spec alone is sent again. `gpus`: what is known of
    /// the node's own, where a run asks for some. `images`: those that the runs ask for.
    pub fn place(
        &self,
        store: &Store,
        runs: Vec<RunSpec>,
        sent_again: &[Vec<u8>],
        gpus: Option<CardsKnown>,
        images: ImagesKnown,
    ) -> PlacementResult {
        let request = RequestFacts {
            store,
            sent_again: sent_again.iter().map(Vec::as_slice).collect(),
            gpus,
            images,
            trees: Mutex::default(),
        };
        let mut parts = Vec::new();
        let mut runs = runs.into_iter();
        while runs.len() > 0 {
            let part: Vec<RunSpec> = runs.by_ref().take(THREAD_RUNS).collect();
            parts.push((parts.len(), part));
        }
        let threads = parts.len().min(THREADS_MAX);
        let parts = Mutex::new(parts);
        let placed = Mutex::new(BTreeMap::new());
        let work = || {
            while let Some((number, runs)) = lock(&parts).pop() {
                let some = self.place_some(runs, &request);
                lock(&placed).insert(number, some);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // If this user may have no more threads, the others do its part, too.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let mut placing = PlacementResult::default();
        for some in std::mem::take(&mut *lock(&placed)).into_values() {
            placing.append(some);
        }
        placing
    }

    fn place_some(&self, runs: Vec<RunSpec>, request: &RequestFacts<'_>) -> PlacementResult {
        let mut placing = PlacementResult::default();
        let mut found = ThreadFacts::default();
        for spec in runs {
            let (token, generation) = (spec.token.clone(), spec.generation);
            match self.place_one(spec, request, &mut found) {
                Ok(placed) => placing.placed.push(placed),
                Err(no) if no.unknown => {
                    let token = RunToken::from_slice(&token);
                    placing
                        .unknown
                        .extend(token.map(|token| (token, generation)));
                }
                Err(no) => placing.refused.push(no.about(token)),
            }
        }
        placing
    }

    fn place_one(
        &self,
        spec: RunSpec,
        request: &RequestFacts<'_>,
        found: &mut ThreadFacts,
    ) -> Result<PlacedRun, Rejection> {
        let sent_again = request.sent_again.contains(&*spec.token);
        let (token, id) = identify(&spec)?;
        // Without a command it only asks whether the run is here.
        let question = sent_again && spec.argv.is_empty() && spec.adopted.is_none();
        if !question {
            check(&spec, self.deployment)?;
        }
        if self.was_cleaned(token, id)? {
            return Ok(PlacedRun::known(token, id, spec.generation, Folder::Old));
        }
        let run_dir = self.paths.run(id);
        let unread = |error: io::Error| Rejection {
            later: true,
            ..disk(format!("cannot read {}: {error}", run_dir.display()), None)
        };
        let generation = spec.generation;
        let gone = || {
            if question {
                has_claim_of(&run_dir, &spec.token).map(|claimed| !claimed)
            } else {
                exists(&run_dir).map(|there| !there)
            }
        };
        match lies(&run_dir, &spec).map_err(unread)? {
            EarlierHandOver::Here => Ok(PlacedRun::known(token, id, generation, Folder::Old)),
            EarlierHandOver::Leftover => {
                Ok(PlacedRun::known(token, id, generation, Folder::Leftover))
            }
            EarlierHandOver::Recalled => Err(recalled(&run_dir)),
            EarlierHandOver::Nowhere if sent_again && gone().map_err(unread)? => Err(unknown()),
            EarlierHandOver::Nowhere | EarlierHandOver::Unclear if question => {
                let path = self.paths.run(id).join(names::SPEC);
                Err(Rejection {
                    later: true,
                    ..no(format!("{} is missing or damaged", path.display()), DISK)
                })
            }
            EarlierHandOver::Nowhere => self.take(spec, (token, id), request, found),
            // The run may live, so it must not be refused for good.
            EarlierHandOver::Unread(error) => {
                let path = run_dir.join(names::SPEC);
                Err(Rejection {
                    later: true,
                    ..disk(format!("cannot read {}: {error}", path.display()), None)
                })
            }
            // The run may have been started, so no other node is to get it.
            EarlierHandOver::Unclear => self
                .take(spec, (token, id), request, found)
                .map_err(|no| Rejection { here: false, ..no }),
        }
    }

    fn take(
        &self,
        mut spec: RunSpec,
        (token, id): (RunToken, RunId),
        request: &RequestFacts<'_>,
        found: &mut ThreadFacts,
    ) -> Result<PlacedRun, Rejection> {
        let resources = spec.resources.unwrap_or_default();
        let needs = Needs::of(resources.cpus, resources.memory_bytes);
        self.capacity
            .could_ever(needs)
            .map_err(|never| no(never.to_string(), never.hint()).here())?;
        let asks = match &self.warden {
            Some(warden) => TaskRequest::of(&spec, grace_ms(&spec), &**warden).map(drop),
            None => request::bare(&spec),
        };
        asks.map_err(|error| no(error.to_string(), SCHEDULER).here())?;
        let gpus = request.gpus.as_ref();
        if let Some(why) = gpus.and_then(|told| Cards::lacks(told, &request_of(&spec))) {
            return Err(no(why, GPUS).here());
        }
        if spec.adopted.is_some() && self.warden.is_none() {
            let why = format!("{} has no scheduler whose job it could be", spec.node);
            return Err(no(why, SCHEDULER).here());
        }
        let earlier = earlier(&self.paths, &spec)?;
        for hash in [&spec.tree, &spec.overlay] {
            if hash.is_empty() {
                continue;
            }
            let mut trees = lock(&request.trees);
            let checked = trees.entry(hash.clone());
            let checked = checked.or_insert_with(|| check_tree(request.store, hash));
            checked.as_ref().map_err(Flaw::refusal)?;
        }
        let data = find_data(
            &mut spec,
            Some(&self.base).filter(|_| self.warden.is_none()),
        )?;
        settle_image(&mut spec, &request.images)?;
        spec.boot_id = self.boot_id.to_vec();
        let run_dir = self.paths.run(id);
        if spec.movable {
            let programs = &mut found.programs;
            programs.find((&spec, &data), &self.base, id, &run_dir, request.store)?;
        }
        let is_new = self
            .make_folder(&run_dir, id, &spec, &mut found.experiment_made)
            .map_err(|error| {
                let why = format!("cannot make {}: {error}", run_dir.display());
                disk(why, Some(&error)).here()
            })??;
        Ok(PlacedRun {
            token,
            id,
            needs,
            request: request_of(&spec),
            turn: turn_of(&spec),
            rules: spec.rules.is_some_and(|rules| !rules.rules.is_empty()),
            folder: if is_new { Folder::New } else { Folder::Old },
            earlier,
            generation: spec.generation,
            sent_again: request.sent_again.contains(&*spec.token),
            adopted: spec.adopted.is_some(),
        })
    }

    /// Whether the run was here, ended, and was cleaned. Then its end can be
    /// reported again.
    fn was_cleaned(&self, token: RunToken, id: RunId) -> Result<bool, Rejection> {
        let path = tombstone::path(&self.paths, id);
        let unusable = |why: &str, kernel: Option<&io::Error>| {
            disk(format!("cannot use {}: {why}", path.display()), kernel)
        };
        match tombstone::read(&self.paths, id, token) {
            Ok(None) => Ok(false),
            Ok(Some(gone)) => tombstone::raise(&self.paths, self.deployment, id, token, gone)
                .map(|()| true)
                .map_err(|error| unusable(&error.to_string(), Some(&error))),
            Err(FrameError::Io(error)) => Err(unusable(&error.to_string(), Some(&error))),
            Err(error) => Err(unusable(&error.to_string(), None)),
        }
    }

    /// Makes the run's folder and its spec; returns true when it is new.
    fn make_folder(
        &self,
        run_dir: &Path,
        id: RunId,
        spec: &RunSpec,
        experiment_made: &mut Option<u64>,
    ) -> io::Result<Result<bool, Rejection>> {
        if *experiment_made != Some(id.experiment.0) {
            make_private(run_dir.parent().unwrap_or(run_dir))?;
            *experiment_made = Some(id.experiment.0);
        }
        let is_new = |folder: &Path| match crate::staging::private_folder(folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        };
        let new_folder = is_new(run_dir)?;
        is_new(&run_dir.join(names::CONTROL))?;
        let path = run_dir.join(names::SPEC);
        match write_spec(&path, spec) {
            Ok(()) => {
                frame::make_spare(run_dir);
                // The spec of a started run may have been removed.
                let fresh = new_folder || !has_claim_of(run_dir, &spec.token)?;
                return Ok(Ok(fresh));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match frame::read::<RunSpec>(FrameKind::Spec, &path) {
            Ok(found) if found.token == spec.token => Ok(Ok(false)),
            Ok(_) => Ok(Err(no(
                format!("another run lies at {}", run_dir.display()),
                "a run of another home of yours lies there, and may be alive: it comes here by `neroman node take-over NODE`",
            )
            .here())),
            Err(FrameError::Io(error)) => Err(error),
            Err(error) => self.replace_torn(&path, run_dir, spec, &error),
        }
    }

    /// Writes a spec anew that a power cut left without content, or a disk
    /// damaged, unless another run was started there. Beside a start without a
    /// claim of its own the spec names no boot, since nothing tells in which one
    /// that start was made; see `Agent::left_by_a_cut`.
    fn replace_torn(
        &self,
        path: &Path,
        run_dir: &Path,
        spec: &RunSpec,
        error: &FrameError,
    ) -> io::Result<Result<bool, Rejection>> {
        let was_started = segments::newest(run_dir)? > 0;
        let mut spec = spec.clone();
        match claimed_by(run_dir) {
            Err(error) => {
                let why = format!("cannot read the claim in {}: {error}", run_dir.display());
                let no = disk(why, None);
                return Ok(Err(Rejection { later: true, ..no }));
            }
            Ok(Some(token)) if token == *spec.token => {}
            Ok(Some(_)) => {
                let (folder, spec) = (run_dir.display(), path.display());
                let why = format!("another run was started in {folder}; of {spec}, {error}");
                return Ok(Err(no(why, "look at that folder")));
            }
            Ok(None) if was_started => spec.boot_id.clear(),
            Ok(None) => {}
        }
        std::fs::remove_file(path)?;
        write_spec(path, &spec)?;
        Ok(Ok(false))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes into the spec how the run's container is started.
fn settle_image(spec: &mut RunSpec, images: &ImagesKnown) -> Result<(), Rejection> {
    images.settle(spec).map_err(|lack| Rejection {
        later: lack.may_pass,
        here: true,
        ..lacks(&spec.node, lack.why, lack.hint)
    })
}

/// Whether the claim of this run's first start exists.
fn has_claim_of(run_dir: &Path, token: &[u8]) -> io::Result<bool> {
    Ok(claimed_by(run_dir)?.is_some_and(|claimed| claimed == *token))
}

/// Finds out from its folder whether this run was handed over before.
fn lies(run_dir: &Path, asked: &RunSpec) -> io::Result<EarlierHandOver> {
    Ok(
        match frame::read::<RunSpec>(FrameKind::Spec, &run_dir.join(names::SPEC)) {
            // An earlier neroman counted no generations.
            Ok(found) if found.token == asked.token => {
                if found.generation.max(1) < asked.generation {
                    of_earlier(run_dir, found.node == asked.node)?
                } else {
                    EarlierHandOver::Here
                }
            }
            // The spec is another run's, so this run was never accepted.
            Ok(_) => EarlierHandOver::Nowhere,
            Err(FrameError::Io(error)) => match error.kind() {
                io::ErrorKind::NotFound if exists(&run_dir.join(names::RECALLED))? => {
                    EarlierHandOver::Recalled
                }
                io::ErrorKind::NotFound => EarlierHandOver::Nowhere,
                io::ErrorKind::NotADirectory => EarlierHandOver::Unclear,
                _ => EarlierHandOver::Unread(error),
            },
            Err(_) => EarlierHandOver::Unclear,
        },
    )
}

/// The meaning of a spec of an earlier generation. `ours`: it was handed to this node,
/// and not to another one of the same folder.
fn of_earlier(run_dir: &Path, ours: bool) -> io::Result<EarlierHandOver> {
    if segments::is_claimed(run_dir)? {
        return Ok(EarlierHandOver::Here);
    }
    let prepared = exists(&work_folder(run_dir, 1))? || segments::newest(run_dir)? > 0;
    let may_start = prepared || newest_cancel(run_dir) > 0;
    Ok(if ours && !may_start {
        EarlierHandOver::Leftover
    } else {
        EarlierHandOver::Recalled
    })
}

/// Writes the spec under its own name. If it is cut short, its checksum shows
/// that, and the next hand-over replaces it: nothing was started from it.
fn write_spec(path: &Path, spec: &RunSpec) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = io::Write::write_all(&mut file, &frame::encode(FrameKind::Spec, spec));
    if written.is_err() {
        // Half a spec is useless; a leftover is replaced.
        let _ = std::fs::remove_file(path);
    }
    written
}
