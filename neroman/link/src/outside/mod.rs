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
use nero_model::{DeploymentId, Home, written};

use crate::connect::{Connect, ConnectFailure, Link, NodeConnector, OnProgress};
use crate::snapshot::{self, Survey};
use nero_home::failure::Failure;

pub use remote::{Agents, RemoteAgent, by_ssh};

/// How the daemon reaches nodes.
#[derive(Debug)]
pub struct NodeAccess {
    pub home: Home,
    pub deployment: DeploymentId,
    /// The agents of all nodes that are reached by ssh.
    pub agents: Agents,
}

impl NodeConnector for NodeAccess {
    fn way(&self, name: &str, node: &nero_config::Node) -> Arc<dyn Connect> {
        match &node.address {
            None => Arc::new(LocalAgent {
                home: self.home.clone(),
                deployment: self.deployment,
            }),
            Some(address) => Arc::new(RemoteAgent {
                agents: self.agents.with_key(node.key.clone()),
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
    fn connect<'a>(&'a self, _: OnProgress<'a>) -> BoxFuture<'a, Result<Link, ConnectFailure>> {
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
pub fn options(node: &nero_config::Node) -> AgentOptions {
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

/// A frozen folder, by the hash of its tree.
#[derive(Clone, Debug, Default)]
pub struct FrozenFolder {
    /// BLAKE3 of the encoded tree; empty: no files.
    pub tree: Vec<u8>,
    pub git: String,
    pub survey: Survey,
    pub notes: Vec<String>,
}

/// A folder, and which of its files are frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FolderToFreeze {
    pub folder: PathBuf,
    pub what: snapshot::FileSelection,
}

impl FolderToFreeze {
    /// The files of its folder that travel with an experiment.
    pub fn of(definition: &Definition) -> Self {
        let results = definition.results_dir.as_deref().unwrap_or("results");
        let mut left_out = vec![PathBuf::from(results)];
        // Rows are added all the time.
        let file = PathBuf::from(&definition.place.file);
        if definition.files.is_none()
            && nero_format::is_rows(&file)
            && let Some(name) = file.file_name().and_then(|name| name.to_str())
        {
            left_out.extend([
                PathBuf::from(name),
                PathBuf::from(format!(".{name}.neronet")),
            ]);
        }
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
                    for live in live_names(&table) {
                        left_out.push(PathBuf::from(format!("{live}.neronet")));
                        left_out.push(PathBuf::from(live));
                    }
                }
            }
        }
        Self {
            folder: (*definition.folder).clone(),
            what: snapshot::FileSelection {
                files: (*definition.files).clone(),
                linked: (*definition.linked_files).clone(),
                required: (*definition.required_files).clone(),
                main: (*definition.main_file).clone(),
                left_out,
            },
        }
    }
}

/// The names that the copy of a table's rows may have while the table cannot be written.
pub fn live_names(table: &Path) -> [String; 2] {
    let stem = table.file_stem().unwrap_or_default().display();
    let ending = table.extension().unwrap_or_default().display();
    [
        format!("{stem}.live.csv"),
        format!("{stem}-{ending}.live.csv"),
    ]
}

/// Freezes folders into the store.
#[derive(Clone, Debug)]
pub struct Freezer {
    home: Home,
    store: PathBuf,
    cache: Arc<Mutex<snapshot::Cache>>,
}

impl Freezer {
    /// Freezes into the store of this home.
    pub fn new(home: &Home) -> Self {
        Self {
            home: home.clone(),
            store: home.store(),
            cache: Arc::default(),
        }
    }

    /// Deletes frozen files that no run has named for a while. `runs` returns
    /// the trees and diffs that runs name; no freeze goes on meanwhile. Blocks.
    ///
    /// # Errors
    /// When a tree cannot be read; then nothing is deleted.
    pub fn sweep<T, I>(
        &self,
        runs: T,
        dry_run: bool,
    ) -> Result<nero_blobs::SweepTotals, snapshot::UnreadableList>
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
    pub fn tree_hash(&self, wanted: &FolderToFreeze) -> Option<String> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let what = self.without_written(wanted, &mut cache);
        let tree = snapshot::tree_hash(&wanted.folder, &what, &mut cache);
        tree.map(|tree| nero_model::ids::hex(&tree)).ok()
    }

    /// Freezes a folder. Blocks.
    ///
    /// # Errors
    /// When a file cannot be read, or the folder is too large without `big`.
    pub fn freeze(&self, wanted: &FolderToFreeze, big: bool) -> Result<FrozenFolder, Failure> {
        // The cache of a freeze that panicked is still true.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let what = self.without_written(wanted, &mut cache);
        let frozen = snapshot::freeze(&wanted.folder, &what, &self.store, &mut cache, big)
            .map_err(|error| {
                let what = format!("cannot freeze {}", wanted.folder.display());
                let failure = Failure::usage(what).caused_by(&error);
                match error.hint() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            })?;
        Ok(FrozenFolder {
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

    /// Leaves out files that are still what `-o` wrote, unless `files` names them: results of
    /// these experiments are no change of their code.
    fn without_written(
        &self,
        wanted: &FolderToFreeze,
        cache: &mut snapshot::Cache,
    ) -> snapshot::FileSelection {
        let mut what = wanted.what.clone();
        let Some(folder) = wanted
            .folder
            .canonicalize()
            .ok()
            .filter(|_| what.files.is_none())
        else {
            return what;
        };
        for file in written::read(&self.home) {
            let Ok(inside) = file.path.strip_prefix(&folder) else {
                continue;
            };
            let path = wanted.folder.join(inside);
            let now = snapshot::hash(&path, cache);
            if now.is_ok_and(|now| nero_model::ids::hex(&now) == file.hash) {
                what.left_out.push(path);
            }
        }
        what
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_neroman_wrote_beside_the_code_is_code_only_after_an_edit_or_by_name() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::below(&place.path().join("home"));
        fs::create_dir_all(home.store()).unwrap();
        let folder = place.path().join("code");
        fs::create_dir_all(folder.join("plots")).unwrap();
        fs::write(folder.join("train.py"), "1").unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let freezer = Freezer::new(&home);
        let wanted = |folder: &Path, files: Option<&str>| FolderToFreeze {
            folder: folder.to_path_buf(),
            what: snapshot::FileSelection {
                files: files.map(|glob| vec![glob.to_owned()]),
                ..snapshot::FileSelection::default()
            },
        };
        let look = |folder| freezer.tree_hash(&wanted(folder, None)).unwrap();
        let before = look(&folder);
        let picked = freezer.tree_hash(&wanted(&folder, Some("*")));
        for name in ["results.csv", "plots/loss.svg"] {
            let file = folder.join(name);
            fs::write(&file, "ours").unwrap();
            assert_ne!(look(&folder), before, "{name}: nobody recorded it");
            written::record(&home, &file).unwrap();
            assert_eq!(look(&folder), before, "{name}");
            assert_eq!(look(&link), before, "{name}");
            let frozen = freezer.freeze(&wanted(&folder, None), false).unwrap();
            assert_eq!(nero_model::ids::hex(&frozen.tree), before, "{name}");
        }
        assert_ne!(freezer.tree_hash(&wanted(&folder, Some("*"))), picked);
        fs::write(folder.join("results.csv"), "edited").unwrap();
        assert_ne!(look(&folder), before);
    }
}
