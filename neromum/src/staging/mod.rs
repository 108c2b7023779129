//! Builds what a run starts with: its work folder, its environment, its
//! program. Called by the agent, for large trees off the reactor. Nothing here
//! starts a process.

pub mod data;
pub mod environment;
pub mod incoming;
mod program;
pub mod store;
pub mod tree;
pub mod wishes;

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nero_model::RunId;
use nero_model::paths::{NodePaths, run as names};
use nero_wire::v1::RunSpec;

use environment::Base;
use store::Store;

/// Why a run's folder cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A file of it cannot be made or read.
    #[error("cannot make {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// Its code cannot be had.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// Its data is not to be found.
    #[error(transparent)]
    Data(#[from] data::DataError),
}

impl PrepareError {
    /// Whether the same may succeed later: space, memory, descriptors.
    pub fn may_pass(&self) -> bool {
        let source = match self {
            Self::Io { source, .. } => source,
            Self::Tree(tree::TreeError::Io { source, .. }) => source,
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

    /// The error with its cause, in one line.
    pub fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// What the launcher is told to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Program and arguments; the first is a path where one was found.
    pub argv: Vec<Vec<u8>>,
    /// What the job sees as its first argument; empty: the path.
    pub argv0: Vec<u8>,
    /// `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// The folder it starts in.
    pub work: PathBuf,
}

/// The work folder of one incarnation.
pub fn work_folder(run_dir: &Path, incarnation: u32) -> PathBuf {
    match incarnation {
        0 | 1 => run_dir.join(names::WORK),
        later => run_dir.join(format!("{}.{later}", names::WORK)),
    }
}

/// Builds everything that a start needs. What an earlier try finished is used
/// again; what it left half-built has another name and is not looked at.
///
/// # Errors
/// See [`PrepareError`].
pub fn prepare(
    paths: &NodePaths,
    base: &Base,
    id: RunId,
    spec: &RunSpec,
    incarnation: u32,
) -> Result<Prepared, PrepareError> {
    let run_dir = paths.run(id);
    let work = work_folder(&run_dir, incarnation);
    build_work(paths, spec, &work)?;
    let params = write_params(paths, &run_dir, spec)?;
    let place = environment::Place {
        id,
        node: &spec.node,
        work: &work,
        params: &params,
    };
    let data = data::Lying::of(spec)?;
    let vars = data.vars(environment::build(base, spec, &place))?;
    let path = environment::value(&vars, b"PATH").unwrap_or_default();
    let argv = data.argv(&spec.argv)?;
    let (argv, argv0) = program::resolve(&argv, spec.line_buffered, path, &work);
    let env = vars
        .into_iter()
        .map(|(mut name, value)| {
            name.push(b'=');
            name.extend_from_slice(&value);
            name
        })
        .collect();
    Ok(Prepared {
        argv,
        argv0,
        env,
        work,
    })
}

fn build_work(paths: &NodePaths, spec: &RunSpec, work: &Path) -> Result<(), PrepareError> {
    if spec.tree.is_empty() {
        return match private_folder(work) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(PrepareError::Io {
                path: work.to_path_buf(),
                source,
            }),
            _ => Ok(()),
        };
    }
    if work.exists() {
        return Ok(());
    }
    let store = Store::new(paths);
    let tree = tree::load(&store, &spec.tree)?;
    let private = work.with_file_name(format!(
        ".work-{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>())
    ));
    tree::build(&store, &paths.trees(), &spec.tree, &tree, &private)?;
    match fs::rename(&private, work) {
        Ok(()) => Ok(()),
        // An earlier leader on another host was faster: it built the same.
        Err(_) if work.exists() => {
            // Left behind, it goes with the run.
            let _ = fs::remove_dir_all(&private);
            Ok(())
        }
        Err(source) => Err(PrepareError::Io {
            path: work.to_path_buf(),
            source,
        }),
    }
}

/// Writes the parameters as a JSON file; runs without any share an empty one.
fn write_params(
    paths: &NodePaths,
    run_dir: &Path,
    spec: &RunSpec,
) -> Result<PathBuf, PrepareError> {
    let (path, content) = if spec.params.is_empty() {
        (paths.mum().join("no-params.json"), "{}\n".to_owned())
    } else {
        (run_dir.join("params.json"), params_json(spec))
    };
    if spec.params.is_empty() && path.exists() {
        return Ok(path);
    }
    let made = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(content.as_bytes()));
    match made {
        Ok(()) => Ok(path),
        Err(source) => Err(PrepareError::Io { path, source }),
    }
}

fn params_json(spec: &RunSpec) -> String {
    let object: serde_json::Map<String, serde_json::Value> = spec
        .params
        .iter()
        .map(|param| {
            let value = serde_json::from_str(&param.json)
                .unwrap_or_else(|_| serde_json::Value::String(param.text.clone()));
            (param.name.clone(), value)
        })
        .collect();
    format!("{}\n", serde_json::Value::Object(object))
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
