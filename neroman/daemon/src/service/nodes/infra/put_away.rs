//! `NodePutAway`: a node leaves its group and the configuration, which is written last.

use std::time::Duration;

use nero_config::{Edit, LOCAL};
use nero_wire::v1;
use nero_wire::v1::finding::Level;
use nero_wire::v1::node_event::Event;
use tokio::time::Instant;

use super::super::way::say;
use super::{Man, REACHED, Sink, counted, finding, progress};
use nero_home::failure::Failure;
use nero_link::connect::mum_client;
use nero_link::node::{NodeHandle, open_runs};

/// How long results of ended runs may take to come home.
const HOME: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the removal of images may take.
const IMAGES: Duration = Duration::from_secs(600);
/// How long an agent that leaves may take to remove the next of its files.
const PURGED: Duration = Duration::from_secs(20);

impl Man {
    /// Waits until the runs of a node have ended, has it remove the images that it brought, and
    /// forgets it. This machine leaves the group alone.
    pub(crate) async fn node_put_away(
        &self,
        request: v1::NodePutAwayRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let (name, group) = (request.name.clone(), request.group.clone());
        let leaves = Edit::LeaveGroup {
            group,
            node: name.clone(),
        };
        // A call that is made again, after its daemon was killed, may find the node gone.
        if name == LOCAL || self.nodes.config()?.node(&name).is_none() {
            self.write(leaves).await?;
            return self.nodes.config().map(drop);
        }
        let node = self.configured(&name)?;
        let channel = node.channel(REACHED).await?;
        self.until_home(&node, &sink).await?;
        let removes = Edit::RemoveNode { name: name.clone() };
        let edit = Edit::Several(vec![leaves, removes]);
        self.prospect(edit.clone()).await?;
        if request.purge {
            self.all_home(&name).await?;
        }
        let mut client = mum_client(channel);
        let mut clean = tonic::Request::new(v1::CleanRequest {
            request: nero_model::RequestId::random().to_vec(),
            images: true,
            ..v1::CleanRequest::default()
        });
        clean.set_timeout(IMAGES);
        let refused = |status: tonic::Status| {
            let failure = Failure::node_does("does not clean up");
            failure.status(&status).of(&name)
        };
        let cleaned = client.clean(clean).await.map_err(refused)?;
        for note in cleaned.into_inner().notes {
            say(&sink, Event::Finding(finding(Level::Warning, note))).await;
        }
        self.staying(&name)?;
        if request.purge {
            let stop = v1::StopRequest {
                purge: true,
                ..v1::StopRequest::default()
            };
            client.stop(stop).await.map_err(refused)?;
            self.until_purged(&name, &sink).await?;
        }
        self.write(edit).await?;
        tracing::info!(node = name, "node put away");
        self.nodes.config().map(drop)
    }

    /// Waits until the runs of a node have ended and need nothing more of it.
    async fn until_home(
        &self,
        node: &NodeHandle,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let mut patience = HOME;
        loop {
            let live = self.live_runs(&node.name);
            let open = open_runs(&self.ledger.state(), &node.name).len() as u64;
            if live == 0 && (open == 0 || patience.is_zero()) {
                return Ok(());
            }
            let now = node.now();
            if now.out_of_reach() {
                return Err(node.away(&now));
            }
            let what = if live > 0 {
                format!("ending {}", counted(live, "run"))
            } else {
                patience = patience.saturating_sub(LOOK);
                format!("results of {} come home", counted(open, "run"))
            };
            say(sink, progress(&node.name, what)).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the agent of a node has removed its files. An agent that dies on the way leaves
    /// them, and the node stays in the configuration for another try.
    async fn until_purged(&self, name: &str, sink: &Sink<v1::NodeEvent>) -> Result<(), Failure> {
        let config = self.nodes.config()?;
        let node = config.node(name).cloned().unwrap_or_default();
        let way = self.nodes.way(name, &node);
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let left = way.files_left().await?;
            if left == 0 {
                return Ok(());
            }
            if left != before {
                (before, since) = (left, Instant::now());
            } else if since.elapsed() > PURGED {
                let what = format!("the agent of {name} ended before its files were removed");
                return Err(Failure::failed(what).hint("the same command again removes the rest"));
            }
            say(sink, progress(name, "removing files".to_owned())).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes the files of runs there, all of which must be home.
    async fn all_home(&self, name: &str) -> Result<(), Failure> {
        let asked = v1::CleanAskRequest {
            selection: Some(v1::Selection {
                text: "all".to_owned(),
                ..v1::Selection::default()
            }),
            node: name.to_owned(),
            ..v1::CleanAskRequest::default()
        };
        let reply = self.clean(asked).await?;
        match reply.runs.iter().find(|one| !one.skipped.is_empty()) {
            None => Ok(()),
            Some(kept) => {
                let what = format!("{}.{}: {}", kept.experiment, kept.run, kept.skipped);
                Err(Failure::failed(what).hint("without --purge the files stay there"))
            }
        }
    }
}
