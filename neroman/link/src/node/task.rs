//! The task of all nodes: it runs their drivers, the placer, and the keeper of
//! contacts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::contacts::{self, Contacts};
use super::driver::{self, Driver};
use super::placer;
use super::registry::{Nodes, Setup};

/// How old a stored contact may be while a node elsewhere is connected: after a
/// kill of the daemon the stored time is too early by no more.
const EVERY: Duration = Duration::from_secs(20);
/// Changes within this time are written together.
const GATHER: Duration = Duration::from_secs(2);

/// Runs the drivers and the placer until the daemon stops.
#[derive(Debug)]
pub struct NodesTask {
    nodes: Nodes,
    spawned: mpsc::UnboundedReceiver<Driver>,
    stop: watch::Receiver<bool>,
}

impl Nodes {
    /// Reads the configuration and makes the drivers; they work once the task
    /// is run.
    pub fn new(setup: Setup) -> (Self, NodesTask) {
        let stop = setup.stop.clone();
        let (nodes, spawned) = Self::made(setup);
        let task = NodesTask {
            nodes: nodes.clone(),
            spawned,
            stop,
        };
        (nodes, task)
    }
}

impl NodesTask {
    /// Works until the daemon stops; ends early only by our own mistake.
    pub async fn run(mut self) {
        let mut drivers = JoinSet::new();
        let mut stop = self.stop.clone();
        let contacts = self.nodes.contacts_path();
        // Both end only by our own mistake, and with this function.
        let mut lasting = JoinSet::new();
        lasting.spawn(placer::run(self.nodes.clone()));
        lasting.spawn(keep(self.nodes.clone(), contacts.clone()));
        let stopped = async move { stop.wait_for(|stop| *stop).await.map(drop) };
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                Some(driver) = self.spawned.recv() => {
                    drivers.spawn(driver::run(driver));
                }
                Some(ended) = drivers.join_next() => if let Err(error) = ended {
                    // `driver::run` handles panics; this one is unexpected.
                    tracing::error!(%error, "a node driver ended");
                    return;
                },
                ended = lasting.join_next() => {
                    tracing::error!(?ended, "the placer or the keeper of contacts ended");
                    return;
                }
            }
        }
        lasting.shutdown().await;
        keep_now(&self.nodes, &contacts, Contacts::new()).await;
        self.nodes.stop_all();
        while drivers.join_next().await.is_some() {}
    }
}

/// Writes the data after each change, until it is dropped.
async fn keep(nodes: Nodes, path: PathBuf) {
    let mut news = nodes.watch();
    let mut written = contacts::read(&path);
    loop {
        news.borrow_and_update();
        written = keep_now(&nodes, &path, written).await;
        let elsewhere = nodes.all().into_iter();
        let ticks = elsewhere
            .filter(|node| node.name != nero_config::LOCAL)
            .any(|node| node.now().connected());
        let tick = async {
            if ticks {
                tokio::time::sleep(EVERY).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            changed = news.changed() => match changed {
                Ok(()) => tokio::time::sleep(GATHER).await,
                // The daemon is leaving.
                Err(_) => return,
            },
            () = tick => {}
        }
    }
}

/// Writes the data if it differs from `written`; returns what the file contains
/// now.
async fn keep_now(nodes: &Nodes, path: &Path, written: Contacts) -> Contacts {
    let contacts = nodes.contacts();
    if contacts == written {
        return written;
    }
    let (to, what) = (path.to_path_buf(), contacts.clone());
    match tokio::task::spawn_blocking(move || contacts::write(&to, &what)).await {
        Ok(Ok(())) => contacts,
        Ok(Err(error)) => {
            tracing::debug!(%error, "last contacts with nodes not written");
            written
        }
        Err(_) => written,
    }
}
