//! The batch scripts that a start would submit: written by the agent of each node with
//! a scheduler, for each group of equal runs.

use std::time::Duration;

use nero_config::{Config, Warden};
use nero_format::Place;
use nero_model::ExperimentId;
use nero_wire::v1;

use super::unschedulable::RunDemand;
use crate::service::Man;
use nero_home::failure::Failure;
use nero_home::spec;
use nero_link::connect::mum_client;

/// How long a node may take to connect, and to write one script.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for all scripts of a dry run that does not show them.
pub(crate) const SOON: Duration = Duration::from_secs(3);
/// Scripts of one answer; the rest is counted.
const SCRIPTS_MAX: usize = 50;

/// Runs that would share a submission.
struct SubmissionGroup {
    node: String,
    spec: v1::RunSpec,
    experiments: Vec<ExperimentId>,
    /// Where the first of them is described.
    place: Place,
}

/// Marks the experiments that every one of their nodes refuses as skipped.
pub(crate) fn mark_refused(
    scripts: &[v1::BatchScript],
    (config, asking): (&Config, &[RunDemand]),
    reply: &mut v1::StartReply,
) {
    for one in &mut reply.experiments {
        let refused = scripts.iter().filter(|script| script.refused);
        let refused = refused.filter(|script| script.experiments.contains(&one.experiment));
        let whys = refused.map(|script| format!("{} refuses it: {}", script.node, script.problem));
        let whys: Vec<String> = whys.collect();
        if whys.is_empty() {
            continue;
        }
        let id = |asked: &&RunDemand| asked.id.experiment.0 == one.experiment;
        let asked = asking.iter().find(id);
        let target = asked.and_then(|asked| config.resolve(&asked.word).ok());
        if target.is_some_and(|target| target.nodes().len() == whys.len()) {
            (one.run, one.skipped_as) = (0, "refused".to_owned());
            one.skipped = whys.join("; ");
        }
    }
}

impl Man {
    /// The scripts of these runs, and notes about those that have none.
    pub(crate) async fn scripts(
        &self,
        asking: &[RunDemand],
    ) -> Result<(Vec<v1::BatchScript>, Vec<String>), Failure> {
        let config = self.nodes.config()?;
        let (mut equal, bare) = groups(&config, asking);
        let mut notes = Vec::new();
        if let (Some(node), true) = (bare, equal.is_empty()) {
            notes.push(format!(
                "{node} has no scheduler: runs are started there without a script"
            ));
        }
        if equal.len() > SCRIPTS_MAX {
            let more = equal.len() - SCRIPTS_MAX;
            notes.push(format!("{more} more scripts are not shown"));
            equal.truncate(SCRIPTS_MAX);
        }
        let mut scripts = Vec::new();
        for one in equal {
            scripts.push(self.script(one).await);
        }
        Ok((scripts, notes))
    }

    async fn script(&self, equal: SubmissionGroup) -> v1::BatchScript {
        let tasks = match equal.experiments.len() {
            1 => 0,
            tasks => u32::try_from(tasks).unwrap_or(u32::MAX),
        };
        let asked = v1::ScriptRequest {
            run: Some(equal.spec),
            tasks,
        };
        let written = self.written(&equal.node, asked).await;
        let refused = written
            .as_ref()
            .is_ok_and(|reply| !reply.problem.is_empty());
        let written = written.unwrap_or_else(|failure| v1::ScriptReply {
            problem: failure.to_string(),
            ..v1::ScriptReply::default()
        });
        v1::BatchScript {
            refused,
            node: equal.node,
            experiments: equal.experiments.iter().map(|id| id.0).collect(),
            command: written.command,
            script: written.script,
            problem: if written.problem.is_empty() {
                String::new()
            } else {
                format!("{} ({})", written.problem, equal.place)
            },
        }
    }

    async fn written(
        &self,
        node: &str,
        asked: v1::ScriptRequest,
    ) -> Result<v1::ScriptReply, Failure> {
        let channel = self.nodes.channel(node, PATIENCE).await?;
        let mut request = tonic::Request::new(asked);
        request.set_timeout(PATIENCE);
        let reply = mum_client(channel).script(request).await;
        let reply = reply.map_err(|status| {
            Failure::node(format!("node {node} writes no script")).status(&status)
        });
        Ok(reply?.into_inner())
    }
}

/// The runs in groups, in their order, and a node without a scheduler among theirs.
fn groups<'a>(config: &'a Config, asking: &[RunDemand]) -> (Vec<SubmissionGroup>, Option<&'a str>) {
    let (mut equal, mut bare): (Vec<SubmissionGroup>, Option<&str>) = (Vec::new(), None);
    for one in asking {
        let target = config.resolve(&one.word);
        let names: Vec<String> = target.map_or(Vec::new(), |target| target.nodes().to_vec());
        for (name, node) in &config.nodes {
            if !names.contains(name) {
                continue;
            }
            if node.warden == Warden::None {
                bare = bare.or(Some(name));
                continue;
            }
            let spec = spec::submitted(&one.definition, &node.asks, name);
            add(&mut equal, name, spec, one);
        }
    }
    (equal, bare)
}

fn add(equal: &mut Vec<SubmissionGroup>, node: &str, spec: v1::RunSpec, one: &RunDemand) {
    let same = |group: &&mut SubmissionGroup| group.node == node && group.spec == spec;
    match equal.iter_mut().rev().find(same) {
        Some(group) => group.experiments.push(one.id.experiment),
        None => equal.push(SubmissionGroup {
            node: node.to_owned(),
            spec,
            experiments: vec![one.id.experiment],
            place: (*one.definition.place).clone(),
        }),
    }
}
