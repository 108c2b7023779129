//! `Du`: the sizes of files on nodes and here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use nero_wire::v1;
use nero_wire::v1::du_reply::OnNode;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_link::connect::mum_client;
use nero_link::node::checked_usage;

/// How long a node may take to be reached.
const REACHED: Duration = Duration::from_secs(10);
/// How long it may take to count.
const PATIENCE: Duration = Duration::from_secs(300);
/// Entries that are counted here at most.
const ENTRIES_MAX: u64 = 5_000_000;

impl Man {
    /// The usage of the nodes and of this machine.
    pub(crate) async fn du(&self, request: v1::DuRequest) -> Result<v1::DuReply, Failure> {
        let config = self.nodes.config()?;
        let names: Vec<String> = match request.node.as_str() {
            "" => config.nodes.keys().cloned().collect(),
            name if config.node(name).is_some() => vec![name.to_owned()],
            name => {
                return Err(Failure::usage(format!("there is no node `{name}`"))
                    .hint("`neroman node list` names them"));
            }
        };
        let asked = names.into_iter().map(|name| self.usage(name, request.runs));
        let (nodes, here) = tokio::join!(join_all(asked), self.here());
        let (store, results, database) = here?;
        Ok(v1::DuReply {
            nodes,
            home_store_bytes: store,
            home_results_bytes: results,
            home_database_bytes: database,
        })
    }

    async fn usage(&self, node: String, runs: bool) -> OnNode {
        let mut reply = OnNode {
            node,
            as_of_ms: self.clock.now_ms(),
            ..OnNode::default()
        };
        let asked = async {
            let channel = self.nodes.channel(&reply.node, REACHED).await?;
            let mut client = mum_client(channel);
            let mut request = tonic::Request::new(v1::DiskUsageRequest { runs });
            request.set_timeout(PATIENCE);
            let said = client.disk_usage(request).await.map_err(|status| {
                Failure::node_does("does not report its disk usage").status(&status)
            })?;
            checked_usage(said.into_inner())
        };
        match asked.await {
            Ok(usage) => reply.usage = Some(usage),
            Err(failure) => {
                let failure = failure.of(&reply.node);
                reply.away = failure.is_of_node();
                reply.failed = failure.to_string();
            }
        }
        reply
    }

    /// Bytes of frozen files, results and databases on this machine.
    async fn here(&self) -> Result<(u64, u64, u64), Failure> {
        let (home, state) = (self.home.clone(), self.ledger.state());
        blocking(move || {
            let folders: BTreeSet<PathBuf> = state
                .experiments
                .iter()
                .flat_map(|experiment| experiment.runs.iter())
                .map(|run| run.results().folder())
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from)
                .collect();
            let results = folders.iter().map(|folder| size(folder)).sum();
            let copies = nero_store::backup_folder(&home);
            let database = databases(&home.data) + size(&copies);
            (size(&home.store()), results, database)
        })
        .await
    }
}

/// Bytes of the databases' files in the data folder.
fn databases(data: &Path) -> u64 {
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().contains(".db"))
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|found| found.len())
        .sum()
}

/// Bytes of the files below a folder; links count as themselves.
fn size(folder: &Path) -> u64 {
    let mut folders = vec![folder.to_path_buf()];
    let (mut bytes, mut entries) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > ENTRIES_MAX {
                return bytes;
            }
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => bytes += found.len(),
                // The file was removed meanwhile.
                Err(_) => {}
            }
        }
    }
    bytes
}
