//! Checks whether a run can be accepted: its command, its files, its data, the
//! run that it goes on from.

use std::io;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_model::paths::{NodePaths, run as names};
use nero_model::plain::plain;
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken};
use nero_wire::v1::RunSpec;

use super::{Rejection, lacks, no, passes};
use crate::config;
use crate::runs::{folders, tombstone};
use crate::staging::data::{DataError, DataPaths};
use crate::staging::environment::{self, Base};
use crate::staging::store::Store;
use crate::staging::tree::{self, TreeError};

const OURS: &str = "this is a mistake in neroman; please report it";

/// Finds a fault in the description of the run.
pub(super) fn check(spec: &RunSpec, deployment: DeploymentId) -> Result<(), Rejection> {
    if spec.deployment != deployment.as_bytes() {
        return Err(no("it belongs to another deployment", OURS));
    }
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
    Ok(())
}

/// The run whose checkpoints are to be carried over, when it is here and
/// over. Only the agent knows whether it waits or is being cleaned.
pub(super) fn earlier(paths: &NodePaths, spec: &RunSpec) -> Result<Option<RunToken>, Rejection> {
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
    let unread = |error: &io::Error| Rejection {
        later: passes(error),
        ..no(format!("cannot read run {id}: {error}"), HINT).here()
    };
    match tombstone::read(paths, id, token) {
        Ok(Some(_)) => {
            let why = format!("run {id} was cleaned: its files are not on {node} any more");
            return Err(no(why, HINT).here());
        }
        Err(FrameError::Io(error)) if passes(&error) => return Err(unread(&error)),
        Ok(None) | Err(_) => {}
    }
    let run_dir = paths.run(id);
    match frame::read::<RunSpec>(FrameKind::Spec, &run_dir.join(names::SPEC)) {
        Ok(found) if found.token == token.as_bytes() => {}
        Err(FrameError::Io(error)) if passes(&error) => return Err(unread(&error)),
        Ok(_) | Err(_) => {
            return Err(no(format!("run {id} is not on {node}"), HINT).here());
        }
    }
    let life = folders::life(&run_dir, token).map_err(|error| unread(&error))?;
    if life.facts.ended() || life.never_began() {
        return Ok(Some(token));
    }
    Err(still_live(id))
}

/// Checks that all files of a tree are here.
pub(super) fn check_tree(store: &Store, hash: &[u8]) -> Result<(), Flaw> {
    let Ok(list) = hash.try_into() else {
        return Err(Flaw {
            why: "the hash of the list of the run's files is not 32 bytes".to_owned(),
            missing: false,
        });
    };
    store.reservations().add(list);
    let checked = tree::load(&store.view(), hash).and_then(|tree| tree::complete(store, &tree));
    if let Err(TreeError::List(error)) = &checked
        && error.kind() == io::ErrorKind::InvalidData
    {
        // A power cut left a damaged list: it is removed, so that it is sent
        // again.
        store.drop_damaged(list);
    }
    checked.map_err(|error| Flaw {
        missing: matches!(error, TreeError::List(_) | TreeError::Missing { .. }),
        why: match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    })
}

/// Fault of a tree.
#[derive(Clone, Debug)]
pub(super) struct Flaw {
    why: String,
    /// Whether it is repaired when neroman sends it again.
    missing: bool,
}

impl Flaw {
    pub(super) fn refusal(&self) -> Rejection {
        Rejection {
            later: self.missing,
            ..no(
                self.why.clone(),
                "send the missing files, then hand it over again",
            )
        }
    }
}

/// The token and the number of the run.
pub(super) fn identify(spec: &RunSpec) -> Result<(RunToken, RunId), Rejection> {
    let token =
        RunToken::from_slice(&spec.token).ok_or_else(|| no("its token is not 16 bytes", OURS))?;
    if spec.experiment == 0 || spec.number == 0 {
        return Err(no("experiments and runs count from 1", OURS));
    }
    let id = RunId {
        experiment: ExperimentId(spec.experiment),
        number: spec.number,
    };
    Ok((token, id))
}

/// Finds the run's data, and writes its paths into the spec. `base`: with what its variables are
/// made; where lines of `setup` add to that before the start, none.
pub(super) fn find_data(spec: &mut RunSpec, base: Option<&Base>) -> Result<DataPaths, Rejection> {
    let no_data = |error: &DataError| {
        let why = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        let hint = match error {
            DataError::Unset(_) => {
                "write it as a line of `setup`, which knows what login files set: `export NAME=$OTHER`"
            }
            _ => "put it there, or correct `data` of the experiment",
        };
        Rejection {
            // A place without data is a fault on every node.
            here: !matches!(error, DataError::Place(_)),
            later: matches!(error, DataError::Missing { source, .. } if passes(source)),
            ..lacks(&spec.node, plain(&why).into_owned(), hint)
        }
    };
    // A place without data is a fault that no later start repairs.
    let data = DataPaths::of(spec).and_then(|data| data.check().map(|()| data));
    let data = data.map_err(|error| no_data(&error))?;
    if let Some(base) = base {
        environment::of_run(base, spec).map_err(|error| no_data(&error.into()))?;
    }
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
    Ok(data)
}

/// The refusal when the run to go on from may still write.
pub(super) fn still_live(id: impl std::fmt::Display) -> Rejection {
    no(
        format!("run {id} is not over: its checkpoints may still be written"),
        "abort it first, or wait for its end",
    )
}

fn check_command(spec: &RunSpec) -> Result<(), Rejection> {
    const HINT: &str = "correct the command or its variables";
    if spec.adopted.is_none() && spec.argv.first().is_none_or(String::is_empty) {
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

trait EncodedLength {
    fn encoded(&self) -> usize;
}

impl EncodedLength for RunSpec {
    fn encoded(&self) -> usize {
        prost::Message::encoded_len(self)
    }
}
