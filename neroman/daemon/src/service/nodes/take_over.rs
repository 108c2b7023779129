//! `NodeTakeOver`: the runs that a lost machine had on a node come here, with
//! the identity of its deployment. The daemon starts anew with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nero_config::LOCAL;
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::Owner;
use nero_model::DeploymentId;
use nero_model::safe::Safe;
use nero_ssh::{Host, quoted};
use nero_wire::v1;
use nero_wire::v1::node_event::Event;
use tokio::sync::Notify;
use tonic::transport::Channel;

use super::way::{hearer, say};
use crate::service::{Man, Sink, counted};
use nero_home::adopt;
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_life::change::Change;
use nero_life::taken_over;
use nero_link::connect::mum_client;
use nero_link::outside::RemoteAgent;

/// How long the listing of deployments and runs may take.
const LIST: Duration = Duration::from_secs(600);
/// Runs that are taken over at most; more were never on one node.
const RUNS_MAX: usize = 1_000_000;
/// How long the report of the take-over may take.
const TOLD: Duration = Duration::from_secs(5);
/// Notes that are reported one by one.
const NOTES_MAX: usize = 20;

/// A deployment that has runs on the node.
#[derive(Debug, Default)]
struct FoundDeployment {
    /// The name of its folder.
    short: String,
    /// Names that this deployment used for nodes.
    nodes: Vec<String>,
    owner: Owner,
    id: Option<DeploymentId>,
    runs: u64,
}

/// The deployments that a take-over can mean: the named one; ours, if it is
/// there and no other can be taken; else all others.
fn meant<'a>(wanted: &'a str, own: &str, holds: bool, all: &'a [FoundDeployment]) -> Vec<&'a str> {
    if !wanted.is_empty() {
        return vec![wanted];
    }
    let shorts = all.iter().map(|found| found.short.as_str());
    let (ours, others): (Vec<_>, Vec<_>) = shorts.partition(|short| *short == own);
    match holds || others.is_empty() {
        true if !ours.is_empty() => ours,
        _ => others,
    }
}

impl Man {
    /// Takes over the runs of a lost machine.
    pub(crate) async fn node_take_over(
        &self,
        request: v1::NodeTakeOverRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let name = request.name.clone();
        self.configured(&name)?;
        let config = self.nodes.config()?;
        let node = config.node(&name).cloned().unwrap_or_default();
        let Some(address) = node.address.clone().filter(|_| name != LOCAL) else {
            return Err(Failure::usage(
                "`local` is this machine, whose runs are here",
            ));
        };
        let agents = self.agents.with_key(node.key.clone());
        let host = agents
            .host(&name, &address)
            .await
            .map_err(|refused| refused.failure)?;
        let mut agent = RemoteAgent {
            agents,
            root: node.root.clone(),
            options: nero_link::outside::options(&node),
            name: name.clone(),
            address,
        };
        let root = agent.root_at(&host).await?;
        let all = find(&host, &root).await?;
        let found = self.choose(&name, &request.deployment, all)?;
        let id = found
            .id
            .ok_or_else(|| Failure::failed("no run on the node names its deployment"))?;
        self.may_adopt(id)?;
        let line = format!(
            "{} of deployment {}, {}",
            counted(found.runs, "run"),
            found.short,
            whose(&found.owner)
        );
        say(&sink, Event::Line(line)).await;
        if request.dry_run {
            return Ok(());
        }
        // If no other neroman owns it, it is read as it is: a part that is not
        // in the database may be there, from before we took over.
        let mut held = None;
        if id == self.deployment && found.owner.tenure <= self.agents.tenure {
            held = self.nodes.channel(&name, LIST).await.ok();
        }
        let (tenure, specs) = match held {
            Some(channel) => (self.agents.tenure, listed(channel, &sink).await),
            None => {
                let tenure = found.owner.tenure.max(self.agents.tenure) + 1;
                agent.agents = agent.agents.of(id, tenure);
                (tenure, self.specs_of(agent, &sink).await)
            }
        };
        let specs = specs.map_err(|failure| failure.of(&name))?;
        if tenure == self.agents.tenure {
            self.brings_something(&name, specs.clone())?;
        }
        self.take_over(&name, id, tenure, specs, &sink).await
    }

    /// The placeholder source of the definitions that are taken over.
    fn taken_over(&self) -> PathBuf {
        self.home.data.join(taken_over::FOLDER)
    }

    /// Refuses a take-over that would change nothing here.
    fn brings_something(&self, name: &str, specs: Vec<v1::RunSpec>) -> Result<(), Failure> {
        let state = self.ledger.state();
        let folder = self.taken_over();
        let adopted = adopt::adopt(&state, name, &folder, specs, self.clock.now_ms());
        if adopted.runs > 0 {
            return Ok(());
        }
        if adopted.notes.is_empty() {
            let failure = Failure::failed(format!("{name} is yours already"));
            return Err(failure
                .because("every run of this neroman there is known here")
                .hint("its runs are in `neroman status`"));
        }
        let mut notes = adopted.notes;
        notes.truncate(NOTES_MAX);
        Err(
            Failure::failed(format!("nothing of {name} can be taken over"))
                .because(notes.join("; ")),
        )
    }

    /// Whether this neroman may adopt that identity.
    fn may_adopt(&self, id: DeploymentId) -> Result<(), Failure> {
        let state = self.ledger.state();
        if id == self.deployment || state.experiments.is_empty() {
            return Ok(());
        }
        Err(Failure::failed("this neroman has experiments of its own")
            .because("the numbers of both would clash")
            .hint("take over into an empty one: NERONET_HOME=DIR neroman node add …, then node take-over"))
    }

    fn choose(
        &self,
        name: &str,
        wanted: &str,
        all: Vec<FoundDeployment>,
    ) -> Result<FoundDeployment, Failure> {
        let list = || {
            let words = all.iter().map(|one| {
                let runs = counted(one.runs, "run");
                format!("{} ({runs}, {})", one.short, whose(&one.owner))
            });
            words.collect::<Vec<_>>().join("; ")
        };
        let own = self.deployment.short().to_string();
        let holds = !self.ledger.state().experiments.is_empty();
        let chosen = match meant(wanted, &own, holds, &all).as_slice() {
            [one] => (*one).to_owned(),
            [] => {
                return Err(Failure::failed(format!(
                    "no other deployment lies on {name}"
                )));
            }
            _ => {
                return Err(
                    Failure::usage(format!("node {name} has runs of several: {}", list()))
                        .hint(format!("neroman node take-over {name} --deployment ID")),
                );
            }
        };
        let known = list();
        let found = all.into_iter().find(|one| one.short == chosen);
        let found = found.ok_or_else(|| {
            let failure = Failure::usage(format!("node {name} has no runs of `{wanted}`"));
            match known.as_str() {
                "" => failure,
                known => failure.hint(format!("there are those of {known}")),
            }
        })?;
        if found.nodes.iter().any(|node| node == name) {
            return Ok(found);
        }
        let called = found.nodes.join("` or `");
        Err(
            Failure::failed(format!("{} knew this node as `{called}`", found.short)).hint(format!(
                "neroman node rm {name}, then add it as `{called}` and take over again"
            )),
        )
    }

    /// Becomes the owner there, and reads the specs.
    async fn specs_of(
        &self,
        agent: RemoteAgent,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<Vec<v1::RunSpec>, Failure> {
        use nero_link::connect::Connect as _;
        let link = agent
            .connect(&hearer(sink))
            .await
            .map_err(|refused| refused.failure)?;
        listed(link.channel.clone(), sink).await
    }

    /// Takes over the identity, with all that was read. The daemon ends after
    /// this, even if the caller has left: everything in it holds the old
    /// identity, under which nothing may be done for runs of the new one.
    pub(crate) async fn take_over(
        &self,
        name: &str,
        id: DeploymentId,
        tenure: u64,
        specs: Vec<v1::RunSpec>,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let _leave = DaemonEnd(Arc::clone(&self.stop));
        self.nodes.stop_all();
        let (node, folder) = (name.to_owned(), self.taken_over());
        let own = self.deployment;
        let (tx, rx) = tokio::sync::oneshot::channel();
        self.ledger
            .ask(&[], move |state, now_ms| {
                if id != own && !state.experiments.is_empty() {
                    return Err(Failure::moved());
                }
                let adopted = adopt::adopt(state, &node, &folder, specs, now_ms);
                let mut changes = vec![Change::Adopted {
                    deployment: id,
                    tenure,
                }];
                changes.extend(adopted.changes);
                let said = (adopted.experiments, adopted.runs, adopted.notes);
                // The caller waits for this result.
                let _ = tx.send(said);
                Ok(Decision {
                    answer: v1::NodeRemoveReply::default(),
                    changes,
                })
            })
            .await?;
        tracing::info!(node = name, deployment = %id, tenure, "taken over");
        let told = tell(sink, rx.await.unwrap_or_default());
        // A terminal that stands still does not delay the daemon.
        let _ = tokio::time::timeout(TOLD, told).await;
        Ok(())
    }
}

/// Reports the take-over: the number of experiments and runs, and the notes.
async fn tell(sink: &Sink<v1::NodeEvent>, adopted: (usize, usize, Vec<String>)) {
    let (experiments, runs, notes) = adopted;
    let more = notes.len().saturating_sub(NOTES_MAX);
    for note in notes.into_iter().take(NOTES_MAX) {
        say(sink, Event::Line(note)).await;
    }
    if more > 0 {
        say(sink, Event::Line(format!("… and {more} more"))).await;
    }
    let line = format!(
        "taken over: {} of {}",
        counted(runs as u64, "run"),
        counted(experiments as u64, "experiment")
    );
    say(sink, Event::Line(line)).await;
}

/// Ends the daemon when it is dropped.
struct DaemonEnd(Arc<Notify>);

impl Drop for DaemonEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn whose(owner: &Owner) -> String {
    match owner.host.as_str() {
        "" => "never taken over".to_owned(),
        host => format!("taken over by {} before", Safe::line(host)),
    }
}

async fn listed(channel: Channel, sink: &Sink<v1::NodeEvent>) -> Result<Vec<v1::RunSpec>, Failure> {
    let listed = tokio::time::timeout(LIST, list(channel, sink));
    listed
        .await
        .map_err(|_| Failure::node_does("does not list its runs in time"))?
}

async fn list(channel: Channel, sink: &Sink<v1::NodeEvent>) -> Result<Vec<v1::RunSpec>, Failure> {
    let failed =
        |status: tonic::Status| Failure::node_does("does not list its runs").status(&status);
    let mut client = mum_client(channel);
    let mut folders = client
        .runs(v1::RunsRequest {})
        .await
        .map_err(failed)?
        .into_inner();
    let mut specs = Vec::new();
    while let Some(folder) = folders.message().await.map_err(failed)? {
        match folder.spec {
            Some(spec) if folder.problem.is_empty() => specs.push(spec),
            Some(_) | None => {
                let line = format!(
                    "{}: {}",
                    Safe::line(&folder.folder),
                    Safe::line(&folder.problem)
                );
                say(sink, Event::Line(line)).await;
            }
        }
        if specs.len() >= RUNS_MAX {
            return Err(Failure::node_does("lists more runs than there can be"));
        }
    }
    Ok(specs)
}

/// The deployments that have runs below a root.
async fn find(host: &Host, root: &str) -> Result<Vec<FoundDeployment>, Failure> {
    // Files travel as hexadecimal digits: they are not text. A large spec is
    // passed over; any other has the same content.
    const SCRIPT: &str = r#"
cd "$root" || exit 3
file() { printf '%s ' "$1"; od -An -v -tx1 < "$2" | tr -d ' \n'; echo; }
for d in ????????; do
  [ -d "$d/runs" ] || continue
  printf 'D %s\n' "$d"
  for m in "$d"/mum/*/; do [ -d "$m" ] && m=${m%/} && printf 'M %s\n' "${m##*/}"; done
  [ -f "$d/owner" ] && file O "$d/owner"
  first=
  n=0
  for s in "$d"/runs/*/*/spec; do
    [ -f "$s" ] || continue
    n=$((n + 1))
    [ -z "$first" ] && [ "$(wc -c < "$s")" -lt 100000 ] && first=$s
  done
  printf 'N %s\n' "$n"
  [ -n "$first" ] && file S "$first"
done
exit 0
"#;
    let said = host
        .script(&format!("root={}{SCRIPT}", quoted(root)))
        .await
        .map_err(|error| Failure::node_error(&error))?;
    if said.status != 0 {
        return Err(Failure::failed(format!("cannot look into {root} there"))
            .because(Safe::line(&said.err).to_string()));
    }
    Ok(read(&String::from_utf8_lossy(&said.out)))
}

fn read(text: &str) -> Vec<FoundDeployment> {
    let mut all: Vec<FoundDeployment> = Vec::new();
    for line in text.lines() {
        let Some((kind, rest)) = line.split_once(' ') else {
            continue;
        };
        if kind == "D" {
            all.push(FoundDeployment {
                short: rest.to_owned(),
                ..FoundDeployment::default()
            });
            continue;
        }
        let Some(found) = all.last_mut() else {
            continue;
        };
        match kind {
            "M" => found.nodes.push(rest.to_owned()),
            "N" => found.runs = rest.parse().unwrap_or(0),
            "O" => {
                let owner =
                    unhex(rest).and_then(|bytes| frame::decode(FrameKind::Owner, &bytes).ok());
                found.owner = owner.unwrap_or_default();
            }
            "S" => {
                let spec: Option<v1::RunSpec> =
                    unhex(rest).and_then(|bytes| frame::decode(FrameKind::Spec, &bytes).ok());
                found.id = spec
                    .and_then(|spec| DeploymentId::from_slice(&spec.deployment))
                    .filter(|id| id.short() == found.short);
            }
            _ => {}
        }
    }
    all.retain(|found| found.runs > 0);
    all
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployment_is_named_or_the_only_one() {
        let found = |short: &str| FoundDeployment {
            short: short.to_owned(),
            ..FoundDeployment::default()
        };
        let (mine, other) = (found("mine"), found("other"));
        let both = [mine, other];
        let (mine, other) = (&both[..1], &both[1..]);
        assert_eq!(meant("other", "mine", true, &both), ["other"]);
        assert_eq!(meant("", "mine", false, mine), ["mine"]);
        assert_eq!(meant("", "mine", true, &both), ["mine"]);
        assert_eq!(meant("", "mine", false, &both), ["other"]);
        assert_eq!(meant("", "mine", true, other), ["other"]);
        assert_eq!(meant("", "third", true, &both), ["mine", "other"]);
        assert!(meant("", "mine", true, &[]).is_empty());
    }

    #[test]
    fn the_files_of_a_node_are_read_and_never_trusted() {
        let id = DeploymentId::random();
        let spec = v1::RunSpec {
            deployment: id.to_vec(),
            ..v1::RunSpec::default()
        };
        let owner = Owner {
            tenure: 3,
            host: "lost".to_owned(),
            since_ms: 1,
        };
        let short = id.short();
        let spec = nero_model::ids::hex(&frame::encode(FrameKind::Spec, &spec));
        let owner = nero_model::ids::hex(&frame::encode(FrameKind::Owner, &owner));
        let text = format!(
            "M lost\nD {short}\nM alpha\nM beta\nO {owner}\nN 2\nS {spec}\n\
             D forged00\nN 1\nS {spec}\nO zz\nD empty000\nN 0\nnonsense\n"
        );
        let all = read(&text);
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].id, all[0].owner.tenure, all[0].runs),
            (Some(id), 3, 2)
        );
        assert_eq!(all[0].nodes, ["alpha", "beta"]);
        assert_eq!((all[1].id, all[1].owner.tenure), (None, 0));
    }
}
