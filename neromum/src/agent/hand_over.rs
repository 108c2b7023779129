//! Runs are taken over: their folders are made off the reactor when they are
//! many, then the agent accepts them in order. The same token handed twice is
//! one run.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_model::paths::{make_private, run as names};
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken};
use nero_wire::v1::hand_over_reply::Refusal;
use nero_wire::v1::{HandOverReply, RunSpec};
use tokio::sync::oneshot;

use super::Agent;
use crate::clean::{gone, runs};
use crate::config;
use crate::core::capacity::{Capacity, Needs};
use crate::staging::data::{DataError, Lying};
use crate::staging::store::Store;
use crate::staging::tree;

/// What came of making the folders of one request's runs.
#[derive(Debug, Default)]
pub struct Placing {
    placed: Vec<Placed>,
    refused: Vec<Refusal>,
}

/// A run whose folder and spec are there.
#[derive(Debug)]
pub struct Placed {
    token: RunToken,
    id: RunId,
    needs: Needs,
    rules: bool,
    /// The folder is new: nothing of the run can have been started.
    fresh: bool,
    /// The run whose checkpoints it begins with.
    earlier: Option<RunToken>,
}

impl Placed {
    /// Its folder says that it is over.
    fn ended(token: RunToken, id: RunId) -> Self {
        Self {
            token,
            id,
            needs: Needs::default(),
            rules: false,
            fresh: false,
            earlier: None,
        }
    }
}

/// Makes folders for runs; called by the service, beside the agent.
#[derive(Clone, Debug)]
pub struct Placer {
    /// Where things lie.
    pub paths: nero_model::paths::NodePaths,
    /// Whose runs these must be.
    pub deployment: DeploymentId,
    /// What could ever be met.
    pub capacity: Capacity,
}

struct No {
    why: String,
    hint: &'static str,
    /// The same run may be taken in a while.
    later: bool,
}

impl No {
    fn about(self, token: Vec<u8>) -> Refusal {
        Refusal {
            token,
            why: self.why,
            hint: self.hint.to_owned(),
            later: self.later,
        }
    }
}

fn no(why: impl Into<String>, hint: &'static str) -> No {
    No {
        why: why.into(),
        hint,
        later: false,
    }
}

/// The disk refused. A full one ends no run: there will be space again.
fn disk(why: String, error: Option<&io::Error>) -> No {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    No {
        later: error.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded)),
        ..no(why, DISK)
    }
}

/// What a person does about it.
const DISK: &str = "see to the node's disk, then try again";

impl Placer {
    /// Checks every run and makes its folder.
    pub fn place(&self, store: &Store, runs: Vec<RunSpec>) -> Placing {
        let mut placing = Placing::default();
        let mut trees = HashMap::new();
        let mut experiment_made = None;
        for spec in runs {
            let token = spec.token.clone();
            match self.place_one(spec, store, &mut trees, &mut experiment_made) {
                Ok(placed) => placing.placed.push(placed),
                Err(no) => placing.refused.push(no.about(token)),
            }
        }
        placing
    }

    fn place_one(
        &self,
        mut spec: RunSpec,
        store: &Store,
        trees: &mut HashMap<Vec<u8>, Result<(), String>>,
        experiment_made: &mut Option<u64>,
    ) -> Result<Placed, No> {
        let (token, id) = self.check(&spec)?;
        if self.was_cleaned(token, id)? {
            return Ok(Placed::ended(token, id));
        }
        let resources = spec.resources.unwrap_or_default();
        let needs = Needs::of(resources.cpus, resources.memory_bytes);
        self.capacity
            .could_ever(needs)
            .map_err(|never| no(never.to_string(), never.hint()))?;
        let earlier = self.earlier(&spec)?;
        for hash in [&spec.tree, &spec.overlay] {
            if hash.is_empty() {
                continue;
            }
            let checked = trees
                .entry(hash.clone())
                .or_insert_with(|| check_tree(store, hash));
            checked.as_ref().map_err(|why| {
                no(
                    why.clone(),
                    "send the missing files, then hand it over again",
                )
            })?;
        }
        find_data(&mut spec)?;
        let run_dir = self.paths.run(id);
        let fresh = self
            .make_folder(&run_dir, id, &spec, experiment_made)
            .map_err(|error| {
                let why = format!("cannot make {}: {error}", run_dir.display());
                disk(why, Some(&error))
            })??;
        Ok(Placed {
            token,
            id,
            needs,
            rules: spec.rules.is_some_and(|rules| !rules.rules.is_empty()),
            fresh,
            earlier,
        })
    }

    fn check(&self, spec: &RunSpec) -> Result<(RunToken, RunId), No> {
        const OURS: &str = "this is a mistake in neroman; please report it";
        let token = RunToken::from_slice(&spec.token)
            .ok_or_else(|| no("its token is not 16 bytes", OURS))?;
        if spec.deployment != self.deployment.as_bytes() {
            return Err(no("it belongs to another deployment", OURS));
        }
        if spec.experiment == 0 || spec.number == 0 {
            return Err(no("experiments and runs count from 1", OURS));
        }
        let id = RunId {
            experiment: ExperimentId(spec.experiment),
            number: spec.number,
        };
        check_command(spec)?;
        let cpus = spec.resources.map_or(0.0, |resources| resources.cpus);
        if !(0.0..=1e6).contains(&cpus) {
            return Err(no(
                format!("it asks for {cpus} CPUs"),
                "give resources.cpus as a positive number",
            ));
        }
        if spec.encoded() > nero_journal::PAYLOAD_BYTES_MAX * 3 {
            return Err(no(
                "its description is too large",
                "put large texts into files",
            ));
        }
        Ok((token, id))
    }

    /// Whether the run was here, ended, and was cleaned; its end can be told
    /// again then.
    fn was_cleaned(&self, token: RunToken, id: RunId) -> Result<bool, No> {
        let unreadable = |error: &dyn std::fmt::Display| {
            let path = gone::path(&self.paths, id);
            let why = format!("cannot use {}: {error}", path.display());
            no(why, "see to the node's disk, then try again")
        };
        match gone::read(&self.paths, id, token) {
            Ok(None) => Ok(false),
            Ok(Some(gone)) => gone::raise(&self.paths, self.deployment, id, token, gone)
                .map(|()| true)
                .map_err(|error| unreadable(&error)),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// The run whose checkpoints are to be carried over, when it is here and
    /// over. Whether it waits or is being cleaned, the agent knows.
    fn earlier(&self, spec: &RunSpec) -> Result<Option<RunToken>, No> {
        const HINT: &str = "start it without --resume";
        let Some(earlier) = &spec.resume else {
            return Ok(None);
        };
        let id = RunId {
            experiment: ExperimentId(earlier.experiment),
            number: earlier.number,
        };
        let token = RunToken::from_slice(&earlier.token)
            .ok_or_else(|| no(format!("run {id} is named without its token"), HINT))?;
        let node = &spec.node;
        if matches!(gone::read(&self.paths, id, token), Ok(Some(_))) {
            return Err(no(
                format!("run {id} was cleaned: its files are not on {node} any more"),
                HINT,
            ));
        }
        let run_dir = self.paths.run(id);
        let is_its = runs::spec(&run_dir).is_ok_and(|found| found.token == token.as_bytes());
        if !is_its {
            return Err(no(format!("run {id} is not on {node}"), HINT));
        }
        let life = runs::life(&run_dir).map_err(|error| {
            no(
                format!("cannot read the records of run {id}: {error}"),
                HINT,
            )
        })?;
        if life.facts.ended() || life.never_began() {
            return Ok(Some(token));
        }
        Err(still_live(id))
    }

    /// Makes the run's folder and its spec; true when it is new.
    fn make_folder(
        &self,
        run_dir: &Path,
        id: RunId,
        spec: &RunSpec,
        experiment_made: &mut Option<u64>,
    ) -> io::Result<Result<bool, No>> {
        if *experiment_made != Some(id.experiment.0) {
            make_private(run_dir.parent().unwrap_or(run_dir))?;
            *experiment_made = Some(id.experiment.0);
        }
        for folder in [run_dir, &run_dir.join(names::CONTROL)] {
            match crate::staging::private_folder(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let path = run_dir.join(names::SPEC);
        match write_spec(&path, spec) {
            Ok(()) => return Ok(Ok(true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match frame::read::<RunSpec>(FrameKind::Spec, &path) {
            Ok(found) if found.token == spec.token => Ok(Ok(false)),
            Ok(_) => Ok(Err(no(
                format!("another run lies at {}", run_dir.display()),
                "the node holds runs of another database with this id; remove its folder there, or choose another root",
            ))),
            Err(frame::FrameError::Io(error)) => Err(error),
            Err(error) => self.replace_torn(&path, run_dir, spec, &error),
        }
    }

    /// A power cut can leave a spec without content: it is written anew, unless
    /// something was started from it.
    fn replace_torn(
        &self,
        path: &Path,
        run_dir: &Path,
        spec: &RunSpec,
        error: &frame::FrameError,
    ) -> io::Result<Result<bool, No>> {
        if super::segments::newest(run_dir)? > 0 {
            let why = format!("cannot use {}: {error}", path.display());
            return Ok(Err(no(why, "a run was started there; look at its folder")));
        }
        std::fs::remove_file(path)?;
        write_spec(path, spec)?;
        Ok(Ok(false))
    }
}

fn check_tree(store: &Store, hash: &[u8]) -> Result<(), String> {
    if let Ok(list) = hash.try_into() {
        store.wishes().add(list);
    }
    tree::load(store, hash)
        .and_then(|tree| tree::complete(store, &tree))
        .map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })
}

/// Whether the data that the run expects here is here; the spec says where from
/// now on.
fn find_data(spec: &mut RunSpec) -> Result<(), No> {
    let no_data = |error: &DataError| {
        let why = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        no(
            format!("{why} (node {})", spec.node),
            "put it there, or correct `data` of the experiment",
        )
    };
    // A place of which nothing is said is a mistake that no start can mend.
    let data = Lying::of(spec).and_then(|data| data.check().map(|()| data));
    let data = data.map_err(|error| no_data(&error))?;
    let argv = data.argv(&spec.argv).map_err(|error| no_data(&error))?;
    let values = spec.env.iter().map(|var| &var.value);
    let texts = values.chain(spec.params.iter().map(|param| &param.text));
    for text in texts {
        data.fill(text).map_err(|error| no_data(&error))?;
    }
    if argv != spec.argv {
        check_command(&RunSpec {
            argv,
            ..spec.clone()
        })?;
    }
    data.settle(spec);
    Ok(())
}

fn still_live(id: impl std::fmt::Display) -> No {
    no(
        format!("run {id} is not over: its checkpoints may still be written"),
        "abort it first, or wait for its end",
    )
}

/// Writes the spec under its own name. Cut short, it is known by its checksum,
/// and replaced when the run is handed over again: nothing was started from it.
fn write_spec(path: &Path, spec: &RunSpec) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = io::Write::write_all(&mut file, &frame::encode(FrameKind::Spec, spec));
    if written.is_err() {
        // Half a spec says nothing; left behind, it is replaced.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn check_command(spec: &RunSpec) -> Result<(), No> {
    const HINT: &str = "correct the command or its variables";
    if spec.argv.first().is_none_or(String::is_empty) {
        return Err(no("it has no command", HINT));
    }
    let mut total = 0;
    let texts = spec.argv.iter().map(String::as_str);
    let variables = spec.env.iter().flat_map(|var| [&*var.name, &*var.value]);
    let params = spec
        .params
        .iter()
        .flat_map(|param| [&*param.name, &*param.text]);
    let ours = [&*spec.name, &*spec.collection, &*spec.node];
    for text in texts.chain(variables).chain(params).chain(ours) {
        if text.contains('\0') {
            return Err(no("a text of it holds a zero byte", HINT));
        }
        if text.len() >= config::ARGUMENT_BYTES_MAX - 64 {
            let why = format!(
                "an argument or variable of it has {} bytes; the kernel takes {}",
                text.len(),
                config::ARGUMENT_BYTES_MAX
            );
            return Err(no(why, "put large texts into files"));
        }
        total += text.len() + 16;
    }
    if total > config::ARGUMENTS_BYTES_MAX {
        let why = format!("its arguments and variables have {total} bytes together");
        return Err(no(why, "put large texts into files"));
    }
    for var in &spec.env {
        if var.name.is_empty() || var.name.contains('=') {
            return Err(no(
                format!("`{}` cannot name a variable", var.name.escape_debug()),
                HINT,
            ));
        }
    }
    Ok(())
}

trait Encoded {
    fn encoded(&self) -> usize;
}

impl Encoded for RunSpec {
    fn encoded(&self) -> usize {
        prost::Message::encoded_len(self)
    }
}

impl Agent {
    /// Makes the folder of a cleaned run anew, which says how it ended; false
    /// when none was cleaned.
    pub(super) fn raise(&self, token: RunToken, id: RunId) -> bool {
        let paths = &self.setup.paths;
        let raised = match gone::read(paths, id, token) {
            Ok(None) => return false,
            Ok(Some(gone)) => gone::raise(paths, self.ledger.deployment(), id, token, gone)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = &raised {
            tracing::error!(run = %id, why, "cannot say how a cleaned run ended");
        }
        raised.is_ok()
    }

    pub(super) fn hand_over(&mut self, placing: Placing, answer: oneshot::Sender<HandOverReply>) {
        let mut reply = HandOverReply {
            accepted: Vec::with_capacity(placing.placed.len()),
            refused: placing.refused,
        };
        for placed in placing.placed {
            let token = placed.token.to_vec();
            match self.accept(placed) {
                Ok(()) => reply.accepted.push(token),
                Err(no) => reply.refused.push(no.about(token)),
            }
        }
        // An asker that left asks again, and gets the same.
        let _ = answer.send(reply);
    }

    fn accept(&mut self, placed: Placed) -> Result<(), No> {
        let Placed {
            token,
            id,
            needs,
            rules,
            fresh,
            earlier,
        } = placed;
        if let Some(known) = self.entries.get(&token) {
            return if known.id == id {
                Ok(())
            } else {
                let why = format!("its token is that of run {}", known.id);
                Err(no(why, "this is a mistake in neroman; please report it"))
            };
        }
        let cleaned = || matches!(gone::read(&self.setup.paths, id, token), Ok(Some(_)));
        if self.cleaning.contains(&token) || (fresh && cleaned()) {
            return Err(No {
                later: true,
                ..no("it is being cleaned right now", "hand it over again")
            });
        }
        if !fresh {
            return if self.adopt(token, id) {
                Ok(())
            } else {
                // It could not be written, or not be read: both may pass.
                Err(No {
                    later: true,
                    ..no("the ledger does not take it", DISK)
                })
            };
        }
        if let Some(earlier) = earlier {
            if self.is_open(&earlier) {
                return Err(still_live("named by --resume"));
            }
            if self.cleaning.contains(&earlier) {
                const HINT: &str = "start it without --resume";
                return Err(no("the run named by --resume is being cleaned", HINT));
            }
        }
        let order = self.next_order;
        self.ledger.accepted(token, id, order).map_err(|error| {
            let mut why = error.to_string();
            let mut cause = std::error::Error::source(&error);
            let mut kernel = None;
            while let Some(source) = cause {
                why = format!("{why}: {source}");
                kernel = kernel.or_else(|| source.downcast_ref());
                cause = source.source();
            }
            disk(why, kernel)
        })?;
        self.next_order += 1;
        let mut entry = super::Entry::new(id);
        entry.rules = rules;
        entry.earlier = earlier;
        self.entries.insert(token, entry);
        self.core
            .accept(token, id, order, needs)
            .map_err(|error| no(error.to_string(), "hand it over again"))
    }
}
