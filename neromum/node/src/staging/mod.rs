//! Builds everything that a run starts with: its work folder, its environment,
//! its program. Called by the agent, for large trees off the reactor. It starts
//! no process.

pub mod container;
pub(crate) mod data;
pub mod environment;
mod flights;
pub mod gather;
pub mod hosts;
pub mod incoming;
pub(crate) mod prelude;
pub(crate) mod program;
mod rendered;
mod reservations;
mod resume;
mod small;
pub mod store;
pub(crate) mod tree;
mod typed;
mod verified;

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nero_model::paths::{NodePaths, run as names};
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1::{RunSpec, Tree};
use typed::TypedFormat;

use crate::config;
use crate::files::made::note_built;
use environment::Base;
pub use nero_model::paths::run::work_folder;
use store::Store;

/// Reason why a run's folder cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A file cannot be made or read.
    #[error("cannot make {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The code is missing or damaged.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The checkpoints of an earlier run cannot be copied.
    #[error(transparent)]
    Resume(#[from] resume::ResumeError),
    /// The data does not exist.
    #[error(transparent)]
    Data(#[from] data::DataError),
}

impl PrepareError {
    /// Whether a retry may succeed: the cause is space, memory, or descriptors.
    pub fn may_pass(&self) -> bool {
        let source = match self {
            Self::Io { source, .. } => source,
            Self::Tree(tree::TreeError::Io { source, .. })
            | Self::Resume(
                resume::ResumeError::Make { source, .. }
                | resume::ResumeError::Earlier { source, .. },
            ) => source,
            Self::Resume(_) => return false,
            Self::Tree(_) | Self::Data(_) => return false,
        };
        use rustix::io::Errno;
        let passing = [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::IO,
            Errno::STALE,
            Errno::AGAIN,
        ];
        passing
            .iter()
            .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// Whether the run can start once neroman sends its files again.
    pub fn is_lacking(&self) -> bool {
        match self {
            Self::Tree(error) => error.is_lacking(),
            Self::Io { .. } | Self::Resume(_) | Self::Data(_) => false,
        }
    }

    /// The error with its cause, on one line.
    pub fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Everything that a launch executes.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedStart {
    /// Program and arguments; the first is a path where one was found.
    pub argv: Vec<Vec<u8>>,
    /// First argument of the job; empty: the path.
    pub argv0: Vec<u8>,
    /// `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// The folder it starts in.
    pub work: PathBuf,
    /// Contents of that folder, when they are few and all of them known.
    pub code: Option<Tree>,
    /// What the launch is to become once its cards are known; `None`: it has no container.
    pub contained: Option<Box<container::ContainerPlan>>,
}

/// Builds everything that a start needs. Complete parts of an earlier try are
/// used again; incomplete ones have other names and are ignored.
///
/// # Errors
/// See [`PrepareError`].
pub fn prepare(
    paths: &NodePaths,
    store: &Store,
    base: &Base,
    id: RunId,
    spec: &RunSpec,
    incarnation: u32,
) -> Result<PreparedStart, PrepareError> {
    let run_dir = paths.run(id);
    let work = work_folder(&run_dir, incarnation);
    let data = data::DataPaths::of(spec)?;
    let code = build_work(paths, store, spec, &data, &work, incarnation)?;
    let params = write_params(paths, &run_dir, spec, &data)?;
    let place = environment::JobContext {
        id,
        node: &spec.node,
        work: &work,
        params: &params,
        logged: &run_dir.join(incarnation.to_string()).join(names::LOGGED),
        resumed: may_resume(spec, incarnation) && resumed_mark(&work).exists(),
        in_allocation: base.of_allocation,
    };
    let (vars, argv) = filled(base, spec, &place, &data)?;
    let var = |name: &str| {
        let value = environment::value(&vars, name.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let launcher = hosts::launcher(spec, var);
    let contained = contained(paths, spec, &place, incarnation, &argv, &launcher);
    let path = environment::value(&vars, b"PATH").unwrap_or_default();
    let (argv, argv0) = match prelude::lines(spec, base.of_allocation) {
        Some(lines) => {
            let argv = prelude::wrapped(&lines, spec, argv, &vars);
            program::resolve(&argv, false, path, &work)
        }
        None => program::resolve(&argv, spec.line_buffered, path, &work),
    };
    let (argv, argv0) = if launcher.is_empty() {
        (argv, argv0)
    } else {
        let (mut front, argv0) = program::resolve(&launcher, false, path, &work);
        front.extend(argv);
        (front, argv0)
    };
    let env = vars
        .into_iter()
        .map(|(mut name, value)| {
            name.push(b'=');
            name.extend_from_slice(&value);
            name
        })
        .collect::<Vec<Vec<u8>>>();
    keep_environment(&run_dir, spec, incarnation, &env)?;
    Ok(PreparedStart {
        argv,
        argv0,
        env,
        work,
        code,
        contained,
    })
}

/// The start in a container, where the spec asks for one.
fn contained(
    paths: &NodePaths,
    spec: &RunSpec,
    place: &environment::JobContext<'_>,
    incarnation: u32,
    argv: &[String],
    launcher: &[String],
) -> Option<Box<container::ContainerPlan>> {
    let token = RunToken::from_slice(&spec.token)?;
    let contained = container::ContainerPlan::new(
        (spec, &token),
        place,
        incarnation,
        paths.root(),
        argv.to_vec(),
        launcher.to_vec(),
    )?;
    let lines = prelude::lines(spec, place.in_allocation);
    Some(Box::new(contained.behind(lines)))
}

/// A job's variables and arguments, with the paths of its data in their places.
///
/// # Errors
/// A place without data, a variable that is not set.
pub fn filled(
    base: &Base,
    spec: &RunSpec,
    place: &environment::JobContext<'_>,
    data: &data::DataPaths,
) -> Result<(Vec<environment::Var>, Vec<String>), data::DataError> {
    let mut vars = data.vars(environment::build(base, spec, place)?)?;
    for (name, path) in data.paths() {
        environment::set_data(&mut vars, name, path);
    }
    Ok((vars, data.argv(&spec.argv)?))
}

/// Whether a run's folder is made so fast that it can be done in place: it begins
/// empty, or with the few small files that a run before it had.
pub fn is_quick(store: &Store, spec: &RunSpec, incarnation: u32) -> bool {
    let few = || spec.tree.is_empty() || store.small().get(&spec.tree).is_some();
    !may_resume(spec, incarnation) && !rendered::is_asked(spec) && few()
}

/// Whether a work folder may get checkpoints.
fn may_resume(spec: &RunSpec, incarnation: u32) -> bool {
    let goes_on = incarnation > 1 && !spec.checkpoint.is_empty();
    !spec.overlay.is_empty() || spec.resume.is_some() || goes_on
}

/// Returns the contents that it made, when they are few.
fn build_work(
    paths: &NodePaths,
    store: &Store,
    spec: &RunSpec,
    data: &data::DataPaths,
    work: &Path,
    incarnation: u32,
) -> Result<Option<Tree>, PrepareError> {
    if spec.tree.is_empty() && !may_resume(spec, incarnation) && !rendered::is_asked(spec) {
        return match private_folder(work) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(PrepareError::Io {
                path: work.to_path_buf(),
                source,
            }),
            _ => Ok(Some(Tree::default())),
        };
    }
    if work.exists() {
        return Ok(None);
    }
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| PrepareError::Io { path, source }
    };
    let private = work.with_file_name(format!(
        ".work-{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>())
    ));
    private_folder(&private).map_err(at(&private))?;
    let run_dir = work.parent().unwrap_or(work);
    let earlier = earlier_works(paths, spec, run_dir, incarnation);
    let filled = fill_work(paths, store, spec, data, &private, &earlier);
    if filled.is_err() {
        // If the try repeats on a full disk, each would leave another half.
        let _ = fs::remove_dir_all(&private);
    }
    let (resumed, code) = filled?;
    if resumed {
        let mark = resumed_mark(work);
        fs::write(&mark, "").map_err(at(&mark))?;
    }
    match fs::rename(&private, work) {
        // An earlier leader on another host was faster: it built the same.
        Err(_) if work.exists() => {
            // A leftover goes with the run's folder.
            let _ = fs::remove_dir_all(&private);
            Ok(None)
        }
        Ok(()) => {
            note_built(run_dir);
            Ok(code)
        }
        Err(source) => Err(at(work)(source)),
    }
}

/// Code, checkpoints from elsewhere, checkpoints of an earlier run here, files that are made
/// of parameters, in this order; links come only when no more files are made. Returns whether any
/// checkpoint came, and the contents when they are few and all of them known.
fn fill_work(
    paths: &NodePaths,
    store: &Store,
    spec: &RunSpec,
    data: &data::DataPaths,
    work: &Path,
    earlier: &[PathBuf],
) -> Result<(bool, Option<Tree>), PrepareError> {
    let look = store.view();
    let load = |hash: &[u8]| match hash {
        [] => Ok(Tree::default()),
        hash => tree::load(&look, hash).inspect_err(|error| {
            if let (true, Ok(list)) = (error.is_lacking(), hash.try_into()) {
                store.drop_damaged(list);
            }
        }),
    };
    let over = load(&spec.overlay)?;
    let code = match store.small().get(&spec.tree) {
        Some(small) => Tree::clone(&small),
        None => load(&spec.tree)?,
    };
    let code = tree::under(code, &over);
    for (hash, tree) in [(&spec.tree, &code), (&spec.overlay, &over)] {
        tree::build_files(store, &look, &paths.trees(), hash, tree, work)?;
    }
    let mut carried = None;
    for folder in earlier {
        let found = resume::carry(folder, &spec.checkpoint, work)?;
        let is_found = !found.is_empty();
        carried = Some(found);
        if is_found {
            tracing::info!(from = %folder.display(), "begins with the checkpoints of an earlier start");
            break;
        }
    }
    rendered::make(spec, data, work)?;
    tree::build_links(&code, work)?;
    tree::build_links(&over, work)?;
    let any = carried.as_ref().is_some_and(|carried| !carried.is_empty());
    if let Some(carried) = carried {
        carried.links(work)?;
    }
    let resumed = any || !over.entries.is_empty();
    let few = code.entries.len() + over.entries.len() <= config::CODE_COMPARED_MAX;
    let mut made = code;
    made.entries.extend(over.entries);
    Ok((resumed, (few && earlier.is_empty()).then_some(made)))
}

/// Work folders whose checkpoints a start goes on from: of the first that has any. Those
/// of the run's earlier starts come first, the newest before the others; then that of the
/// run before.
fn earlier_works(
    paths: &NodePaths,
    spec: &RunSpec,
    run_dir: &Path,
    incarnation: u32,
) -> Vec<PathBuf> {
    let own = (1..incarnation).rev().map(|one| work_folder(run_dir, one));
    let own = own.filter(|work| !spec.checkpoint.is_empty() && work.exists());
    let before = spec.resume.as_ref().map(|earlier| {
        let id = RunId {
            experiment: ExperimentId(earlier.experiment),
            number: earlier.number,
        };
        newest_work(&paths.run(id))
    });
    own.chain(before).collect()
}

/// A file whose existence means that a work folder has checkpoints.
fn resumed_mark(work: &Path) -> PathBuf {
    let mut name = work.file_name().unwrap_or_default().to_owned();
    name.push(".resumed");
    work.with_file_name(name)
}

/// The newest complete work folder of a run.
pub fn newest_work(run_dir: &Path) -> PathBuf {
    let entries = fs::read_dir(run_dir).into_iter().flatten().flatten();
    let later = entries.filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix(names::WORK)?;
        number.strip_prefix('.')?.parse::<u32>().ok()
    });
    work_folder(run_dir, later.max().unwrap_or(1))
}

/// Writes the parameters as a JSON file; runs without parameters share an empty
/// one.
fn write_params(
    paths: &NodePaths,
    run_dir: &Path,
    spec: &RunSpec,
    data: &data::DataPaths,
) -> Result<PathBuf, PrepareError> {
    let (path, content) = if spec.params.is_empty() {
        (paths.mum().join("no-params.json"), "{}\n".to_owned())
    } else {
        (run_dir.join("params.json"), params_json(spec, data)?)
    };
    // A file that a full disk or a power cut left empty is written anew.
    let whole = |found: fs::Metadata| found.len() == content.len() as u64;
    if spec.params.is_empty() && fs::metadata(&path).is_ok_and(whole) {
        return Ok(path);
    }
    write_private(&path, content.as_bytes())?;
    Ok(path)
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, content: &[u8]) -> Result<(), PrepareError> {
    let made = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content));
    let path = path.to_path_buf();
    made.map_err(|source| PrepareError::Io { path, source })
}

/// Keeps the job's environment for what is started beside the job or after it, if there is any:
/// programs that read its output for metrics, commands of rules, responses to its end.
fn keep_environment(
    run_dir: &Path,
    spec: &RunSpec,
    incarnation: u32,
    env: &[Vec<u8>],
) -> Result<(), PrepareError> {
    let reading = spec.metric_reading.as_ref();
    let has_readers = reading.is_some_and(|reading| !reading.readers.is_empty());
    let mut rules = spec.rules.iter().flat_map(|set| &set.rules);
    if !has_readers && !spec.responds && !rules.any(|rule| rule.action == "run") {
        return Ok(());
    }
    let lacks = |var: &&Vec<u8>| {
        var.split(|byte| *byte == b'=').next() == Some(names::READER_LACKS.as_bytes())
    };
    let mut kept = Vec::new();
    for var in env.iter().filter(|var| !lacks(var)) {
        kept.extend_from_slice(var);
        kept.push(0);
    }
    write_private(&names::reader_environment(run_dir, incarnation), &kept)
}

fn params_json(spec: &RunSpec, data: &data::DataPaths) -> Result<String, data::DataError> {
    let params = typed::params(spec, data, TypedFormat::Json)?.into_iter();
    let params: Vec<String> = params
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    Ok(format!("{{{}}}\n", params.join(",")))
}

/// Makes one folder, closed to others.
///
/// # Errors
/// As `mkdir`.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

#[cfg(test)]
mod tests;
