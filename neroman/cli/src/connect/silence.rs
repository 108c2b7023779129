//! Reports why a verb waits: when no answer comes for a moment, asks the nodes
//! that the verb needs for a sign of life, and names those that give none.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ListRequest, NodeView, NodesRequest, Selection};
use tonic::transport::Channel;

use crate::say::{VerbOutput, progress};

/// An answer within this time needs no report.
const QUIET: Duration = Duration::from_millis(1500);
/// Between two looks at the nodes while no answer comes.
const AGAIN: Duration = Duration::from_secs(5);
/// Looks of one call: after them a frozen node is known to be lost.
const LOOKS: usize = 10;

/// Whose answers a verb waits for.
#[derive(Clone, Debug)]
pub enum AwaitedNodes {
    /// Of every node.
    All,
    /// Of this one.
    Node(String),
    /// Of the nodes of these experiments and runs.
    Picked(Selection),
}

/// Reports, once per node, that a node does not answer yet.
#[derive(Debug)]
pub struct Silence {
    man: ManClient<Channel>,
    out: VerbOutput,
    whose: AwaitedNodes,
    said: BTreeSet<String>,
}

impl Silence {
    pub(super) fn new(man: ManClient<Channel>, out: VerbOutput, whose: AwaitedNodes) -> Self {
        Self {
            man,
            out,
            whose,
            said: BTreeSet::new(),
        }
    }

    /// Waits for `work`, and names the silent nodes when that takes long.
    pub async fn over<T>(&mut self, work: impl Future<Output = T>) -> T {
        let looking = async {
            tokio::time::sleep(QUIET).await;
            for _ in 0..LOOKS {
                self.check_nodes().await;
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = looking => {}
        }
        work.await
    }

    async fn check_nodes(&mut self) {
        let asked_ms = now_ms();
        // If the daemon cannot tell now, the verb's own call reports why.
        let Ok(reply) = self.man.nodes(NodesRequest { as_known: false }).await else {
            return;
        };
        let Ok(wanted) = self.wanted().await else {
            return;
        };
        for node in reply.into_inner().nodes {
            let is_wanted = wanted
                .as_ref()
                .is_none_or(|names| names.contains(&node.name));
            if !is_wanted || self.said.contains(&node.name) {
                continue;
            }
            if let Some(line) = line(&node, asked_ms) {
                progress::clear_line();
                self.out.note(&line);
                self.said.insert(node.name);
            }
        }
    }

    /// The names of the nodes; `None` for all.
    async fn wanted(&mut self) -> Result<Option<BTreeSet<String>>, tonic::Status> {
        let picked = match &self.whose {
            AwaitedNodes::All => return Ok(None),
            AwaitedNodes::Node(name) => return Ok(Some([name.clone()].into())),
            AwaitedNodes::Picked(selection) => selection.clone(),
        };
        let asked = ListRequest {
            selection: Some(picked),
            settle: false,
            ..ListRequest::default()
        };
        let views = self.man.list(asked).await?.into_inner().experiments;
        Ok(Some(views.into_iter().map(|view| view.node).collect()))
    }
}

/// The line about a node that gave no sign of life since it was asked.
fn line(node: &NodeView, asked_ms: i64) -> Option<String> {
    let name = Safe::line(&node.name);
    if node.connected && node.contact_ms < asked_ms {
        let last = text::clock(node.contact_ms);
        return Some(format!(
            "node {name} does not answer yet (last answer {last})…"
        ));
    }
    let is_coming = !node.connected && !node.transfer.is_empty();
    is_coming.then(|| format!("node {name}: {}…", Safe::line(&node.transfer)))
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connected_node_without_an_answer_is_named_and_one_that_gets_the_agents() {
        let mut node = NodeView {
            name: "h1\n".into(),
            connected: true,
            contact_ms: 1000,
            ..NodeView::default()
        };
        assert_eq!(line(&node, 1000), None);
        let said = line(&node, 1001).expect("a line");
        assert!(
            said.starts_with("node h1\\n does not answer yet (last"),
            "{said}"
        );
        node.connected = false;
        assert_eq!(line(&node, 1001), None);
        node.transfer = "sending the agents (40 %)".into();
        assert_eq!(
            line(&node, 1001).as_deref(),
            Some("node h1\\n: sending the agents (40 %)…")
        );
    }
}
