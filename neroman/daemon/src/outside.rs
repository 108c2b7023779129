//! The parts outside the daemon's own state: starting a node's agent, and
//! freezing folders. The rest of the daemon uses them through these types
//! alone.

mod remote;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nero_agents::AgentOptions;
use nero_config::{Config, LOCAL};
use nero_format::Definition;
use nero_model::{DeploymentId, Home};

use crate::connect::{Connect, Link, OnProgress, Unconnected, Ways};
use crate::failure::Failure;
use crate::snapshot::{self, Survey};

pub(crate) use remote::{Agents, RemoteAgent, by_ssh};

/// How the daemon reaches nodes.
pub(crate) struct Outside {
    pub home: Home,
    pub deployment: DeploymentId,
    /// The agents of all nodes that are reached by ssh.
    pub agents: Agents,
}

impl Ways for Outside {
    fn way(&self, name: &str, node: &nero_config::Node) -> Arc<dyn Connect> {
        match &node.address {
            None => Arc::new(LocalAgent {
                home: self.home.clone(),
                deployment: self.deployment,
            }),
            Some(address) => Arc::new(RemoteAgent {
                agents: self.agents.clone(),
                name: name.to_owned(),
                address: address.clone(),
                root: node.root.clone(),
                options: options(node),
            }),
        }
    }
}

/// Connects to neromum on this machine; starts it if none answers.
pub(crate) struct LocalAgent {
    pub home: Home,
    pub deployment: DeploymentId,
}

impl Connect for LocalAgent {
    fn connect<'a>(&'a self, _: OnProgress<'a>) -> BoxFuture<'a, Result<Link, Unconnected>> {
        async move {
            let config =
                Config::read(&self.home.config).map_err(|error| Failure::config(&error))?;
            let options = options(config.local());
            let (channel, hello) =
                nero_agents::start_local(&self.home.local_root, self.deployment, LOCAL, &options)
                    .await
                    .map_err(|error| {
                        let failure = Failure::node("node local does not answer").caused_by(&error);
                        match error.hint() {
                            Some(hint) => failure.hint(hint),
                            None => failure,
                        }
                    })?;
            Ok(Link {
                channel,
                hello,
                gone: std::future::pending().boxed(),
                host: None,
                facts: None,
            })
        }
        .boxed()
    }

    fn hang_up(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// The limits for runs on a node.
pub(crate) fn options(node: &nero_config::Node) -> AgentOptions {
    AgentOptions {
        cpus: node.cpus,
        memory_bytes: node.memory_bytes,
        gpus: node.gpus.clone(),
        min_free_bytes: node.min_free_bytes,
        shared: node.shared,
        listen_never: node.listen == nero_config::Listen::Never,
        warden: node.warden_words(),
    }
}

/// A frozen folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frozen {
    /// BLAKE3 of the encoded tree; empty: no files.
    pub tree: Vec<u8>,
    pub git: String,
    pub survey: Survey,
    pub notes: Vec<String>,
}

/// A folder, and which of its files are frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FolderToFreeze {
    pub folder: PathBuf,
    pub what: snapshot::FileSelection,
}

impl FolderToFreeze {
    /// The files of its folder that travel with an experiment.
    pub(crate) fn of(definition: &Definition) -> Self {
        let results = definition.results_dir.as_deref().unwrap_or("results");
        let mut left_out = vec![PathBuf::from(results)];
        // A table is edited all the time; a job that reads it has it in its `files`.
        if definition.files.is_none() && definition.place.sheet.is_some() {
            let table = PathBuf::from(&definition.place.file);
            if let Some(name) = table.file_name().and_then(|name| name.to_str()) {
                left_out.extend([
                    PathBuf::from(name),
                    // Locks of LibreOffice and Excel.
                    PathBuf::from(format!(".~lock.{name}#")),
                    PathBuf::from(format!("~${name}")),
                ]);
                // What neronet makes when it writes numbers and results.
                left_out.push(PathBuf::from(format!(".{name}.neronet")));
                left_out.push(PathBuf::from(format!(".{name}.neronet-backup")));
                if let (Some(stem), Some(ending)) = (table.file_stem(), table.extension()) {
                    let (stem, ending) = (stem.display(), ending.display());
                    left_out.push(PathBuf::from(format!("{stem}.before-neronet.{ending}")));
                    left_out.push(PathBuf::from(format!("{stem}.live.csv")));
                    left_out.push(PathBuf::from(format!("{stem}.live.csv.neronet")));
                }
            }
        }
        Self {
            folder: definition.folder.clone(),
            what: snapshot::FileSelection {
                files: definition.files.clone(),
                linked: definition.linked_files.clone(),
                required: definition.required_files.clone(),
                main: definition.main_file.clone(),
                left_out,
            },
        }
    }
}

/// Freezes folders into the store.
#[derive(Clone, Debug)]
pub(crate) struct Freezer {
    store: PathBuf,
    cache: Arc<Mutex<snapshot::Cache>>,
}

impl Freezer {
    pub(crate) fn new(store: &Path) -> Self {
        Self {
            store: store.to_path_buf(),
            cache: Arc::default(),
        }
    }

    /// Deletes frozen files that no run has named for a while. `runs` returns
    /// the trees and diffs that runs name; no freeze goes on meanwhile. Blocks.
    ///
    /// # Errors
    /// When a tree cannot be read; then nothing is deleted.
    pub(crate) fn sweep<T, I>(
        &self,
        runs: T,
        dry_run: bool,
    ) -> Result<nero_blobs::Freed, snapshot::Unread>
    where
        T: FnOnce() -> (I, Vec<String>),
        I: Iterator<Item = String>,
    {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.forget_git();
        let (trees, others) = runs();
        let mut named = snapshot::named(&self.store, trees)?;
        named.extend(others.iter().filter_map(|one| nero_blobs::parse(one)));
        Ok(snapshot::sweep(&self.store, &named, dry_run))
    }

    /// The hash of the tree that a freeze would make now, in hexadecimal;
    /// `None` if it cannot be computed. Blocks.
    pub(crate) fn look(&self, wanted: &FolderToFreeze) -> Option<String> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = snapshot::look(&wanted.folder, &wanted.what, &mut cache);
        tree.map(|tree| nero_model::ids::hex(&tree)).ok()
    }

    /// Freezes a folder. Blocks.
    ///
    /// # Errors
    /// When a file cannot be read, or the folder is too large without `big`.
    pub(crate) fn freeze(&self, wanted: &FolderToFreeze, big: bool) -> Result<Frozen, Failure> {
        // The cache of a freeze that panicked is still true.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let frozen = snapshot::freeze(&wanted.folder, &wanted.what, &self.store, &mut cache, big)
            .map_err(|error| {
            let what = format!("cannot freeze {}", wanted.folder.display());
            let failure = Failure::usage(what).caused_by(&error);
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        Ok(Frozen {
            tree: frozen.tree_hash.to_vec(),
            git: frozen.git.unwrap_or_default(),
            survey: Survey {
                files: frozen.files,
                bytes: frozen.bytes,
                left_out: frozen.left_out,
            },
            notes: frozen.notes,
        })
    }
}
