//! `Clean`: frees space on nodes, of runs that ended and whose outputs are
//! home, and of code that nobody uses; here, of frozen files that no run names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::safe::Safe;
use nero_model::{RequestId, RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::clean_ask_reply::{OnNode, One};
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use super::select::{self, Chosen};
use super::{Man, blocking};
use crate::core::clean;
use crate::core::run::Run;
use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::Decided;
use crate::node::desk_change;
use crate::results::{Asked, Job, Places};

/// How long a node may take to be reached.
const REACHED: Duration = Duration::from_secs(30);
/// How long a node may take to count or to take away what lies there.
const PATIENCE: Duration = Duration::from_secs(600);
/// Runs of one message.
const RUNS_MAX: usize = 10_000;
/// This machine, where nodes are named: no node has such a name.
const HERE: &str = "(here)";

/// A run that may go.
#[derive(Clone)]
struct Going {
    id: RunId,
    token: Vec<u8>,
    folder: PathBuf,
    /// Files were to come home.
    outputs: bool,
}

/// What of one node was cleaned.
#[derive(Default)]
struct Went {
    runs: Vec<One>,
    node: OnNode,
    cleaned: Vec<Vec<u8>>,
}

impl Man {
    /// Takes away what may go; with `dry_run`, only says what would.
    pub(crate) async fn clean(
        &self,
        request: v1::CleanAskRequest,
    ) -> Result<v1::CleanAskReply, Failure> {
        if let Some(answer) = self.ledger.answered(&request.request).await? {
            return Ok(answer);
        }
        let selection = select::read(request.selection.clone(), "all", self.clock.now_ms())?;
        let state = self.ledger.state();
        let (node, unfetched) = (request.node.clone(), request.unfetched);
        let (going, mut runs) = blocking(move || {
            let (chosen, _) = selection.choose(&state)?;
            Ok::<_, Failure>(pick(&state, &chosen, &node, unfetched))
        })
        .await??;
        let nodes = self.to_clean(&request, going)?;
        let each = nodes
            .into_iter()
            .map(|(node, going)| self.clean_node(node, going, &request));
        let mut reply = v1::CleanAskReply::default();
        for went in join_all(each).await {
            runs.extend(went.runs);
            reply.nodes.push(went.node);
        }
        if request.node.is_empty() {
            let here = self.clean_here(request.dry_run).await?;
            if here.freed_bytes > 0 {
                reply.nodes.push(here);
            }
        }
        runs.sort_by_key(|one| (one.experiment, one.run));
        reply.runs = runs;
        if request.dry_run {
            return Ok(reply);
        }
        self.ledger
            .ask(&request.request, move |_, _| {
                Ok(Decided {
                    answer: reply,
                    changes: Vec::new(),
                })
            })
            .await
    }

    /// The nodes that are cleaned: the one that was named, else all.
    fn to_clean(
        &self,
        request: &v1::CleanAskRequest,
        mut going: BTreeMap<String, Vec<Going>>,
    ) -> Result<BTreeMap<String, Vec<Going>>, Failure> {
        let config = self.nodes.config()?;
        if request.node.is_empty() {
            for name in config.nodes.keys() {
                going.entry(name.clone()).or_default();
            }
        } else if config.node(&request.node).is_none() {
            return Err(
                Failure::usage(format!("there is no node `{}`", request.node))
                    .hint("`neroman node list` names them"),
            );
        } else {
            going.entry(request.node.clone()).or_default();
        }
        Ok(going)
    }

    async fn clean_node(
        &self,
        node: String,
        going: Vec<Going>,
        request: &v1::CleanAskRequest,
    ) -> Went {
        let mut went = Went::default();
        went.node.node.clone_from(&node);
        if let Err(failure) = self.try_clean(&node, going, request, &mut went).await {
            went.node.failed = failure.to_string();
        }
        went
    }

    async fn try_clean(
        &self,
        node: &str,
        going: Vec<Going>,
        request: &v1::CleanAskRequest,
        went: &mut Went,
    ) -> Result<(), Failure> {
        let channel = self.nodes.channel(node, REACHED).await?;
        let mut client = MumClient::new(channel)
            .max_decoding_message_size(nero_model::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(nero_model::MESSAGE_BYTES_MAX);
        let sizes = sizes(&mut client).await?;
        let mut able = Vec::new();
        for run in going {
            let why = match request.unfetched {
                true => None,
                false => self.not_home(&client, &run).await?,
            };
            went.runs.push(One {
                experiment: run.id.experiment.0,
                run: run.id.number,
                node: node.to_owned(),
                bytes: sizes.get(&run.token).copied().unwrap_or(0),
                skipped: why.clone().unwrap_or_default(),
            });
            if why.is_none() {
                able.push(run);
            }
        }
        if !request.dry_run {
            let folders = able.iter().map(|run| run.folder.clone()).collect();
            blocking(move || sync(folders)).await??;
        }
        let mut parts: Vec<&[Going]> = able.chunks(RUNS_MAX).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        for (index, part) in parts.into_iter().enumerate() {
            self.clean_part(&mut client, part, index == last, request.dry_run, went)
                .await?;
        }
        let runs: u64 = went
            .runs
            .iter()
            .filter(|one| one.skipped.is_empty())
            .map(|one| one.bytes)
            .sum();
        went.node.store_bytes = went.node.freed_bytes.saturating_sub(runs);
        Ok(())
    }

    /// One call; the code that nobody uses goes with the last.
    async fn clean_part(
        &self,
        client: &mut MumClient<Channel>,
        part: &[Going],
        store: bool,
        dry_run: bool,
        went: &mut Went,
    ) -> Result<(), Failure> {
        let mut request = tonic::Request::new(v1::CleanRequest {
            request: RequestId::random().to_vec(),
            runs: part
                .iter()
                .map(|run| v1::RunRef {
                    token: run.token.clone(),
                    experiment: run.id.experiment.0,
                    number: run.id.number,
                })
                .collect(),
            store,
            dry_run,
            unnamed_ms: 0,
        });
        request.set_timeout(PATIENCE);
        let reply = client
            .clean(request)
            .await
            .map_err(|status| Failure::node("the node does not clean").status(&status))?
            .into_inner();
        let ids: HashMap<&[u8], RunId> = part
            .iter()
            .map(|run| (run.token.as_slice(), run.id))
            .collect();
        for refusal in &reply.refused {
            let id = ids.get(refusal.token.as_slice());
            for one in &mut went.runs {
                if id.is_some_and(|id| (id.experiment.0, id.number) == (one.experiment, one.run)) {
                    one.skipped = Safe::line(&bounded(&refusal.why)).to_string();
                }
            }
        }
        went.node.freed_bytes += reply.freed_bytes;
        let notes = reply.notes.iter().take(100);
        went.node
            .notes
            .extend(notes.map(|note| Safe::line(&bounded(note)).to_string()));
        let asked = |token: &&Vec<u8>| ids.contains_key(token.as_slice());
        let cleaned: Vec<Vec<u8>> = reply.cleaned.iter().filter(asked).cloned().collect();
        if !dry_run {
            self.mark(cleaned.clone()).await?;
        }
        went.cleaned.extend(cleaned);
        Ok(())
    }

    /// Writes down that nothing of these runs lies on a node any more.
    async fn mark(&self, tokens: Vec<Vec<u8>>) -> Result<(), Failure> {
        self.ledger
            .note(true, move |state, now_ms| {
                tokens
                    .iter()
                    .filter_map(|token| state.by_token(&RunToken::from_slice(token)?))
                    .filter_map(|id| desk_change(state, id, |desk| desk.cleaned_ms = Some(now_ms)))
                    .collect()
            })
            .await
    }

    /// Why what a run made is not home, held against what its node has.
    async fn not_home(
        &self,
        client: &MumClient<Channel>,
        run: &Going,
    ) -> Result<Option<String>, Failure> {
        let folder = run.folder.clone();
        let printed = !folder.as_os_str().is_empty();
        if printed && blocking(move || !folder.is_dir()).await? {
            return Ok(Some(format!(
                "its results are no longer in {}",
                run.folder.display()
            )));
        }
        if !run.outputs {
            return Ok(None);
        }
        let places = Places::of(&self.home);
        let deaf = Arc::new(|_| ());
        let job = Job::prepare(&places, &self.ledger, client.clone(), deaf, run.id, true).await;
        let differ = match job {
            Ok(Some(job)) => job.differ(&Asked::default()).await,
            Ok(None) => Ok(0),
            Err(trouble) => Err(trouble),
        };
        match differ {
            Ok(0) => Ok(None),
            Ok(files) => Ok(Some(format!(
                "{files} of its files are not home as they are there; neroman fetch {}",
                run.id
            ))),
            Err(trouble) => Ok(Some(trouble.failure().to_string())),
        }
    }

    /// Frozen files here that no run names.
    async fn clean_here(&self, dry_run: bool) -> Result<OnNode, Failure> {
        let (ledger, freezer) = (self.ledger.clone(), self.freezer.clone());
        let swept = blocking(move || {
            freezer.sweep(
                || {
                    let (trees, others) = named(&ledger.state());
                    (trees.into_iter(), others)
                },
                dry_run,
            )
        })
        .await?;
        Ok(OnNode {
            node: HERE.to_owned(),
            freed_bytes: swept.bytes,
            store_bytes: swept.bytes,
            ..OnNode::default()
        })
    }
}

/// The trees that runs were made of, and the differences that go with them.
fn named(state: &State) -> (BTreeSet<String>, Vec<String>) {
    let (mut trees, mut others) = (BTreeSet::new(), Vec::new());
    let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
    for run in runs {
        if !run.made.tree.is_empty() && !trees.contains(&run.made.tree) {
            trees.insert(run.made.tree.clone());
        }
        if let Some((_, diff)) = run.made.git.split_once('+') {
            others.push(diff.to_owned());
        }
    }
    (trees, others)
}

/// What may go, by node, and why others stay. Of an experiment, all runs.
fn pick(
    state: &State,
    chosen: &[Chosen],
    node: &str,
    unfetched: bool,
) -> (BTreeMap<String, Vec<Going>>, Vec<One>) {
    let mut going: BTreeMap<String, Vec<Going>> = BTreeMap::new();
    let mut stay = Vec::new();
    let named = |run: &&Run| node.is_empty() || run.node() == Some(node);
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let meant = |run: &&Run| chosen.run.is_none_or(|number| number == run.made.id.number);
        let there = |run: &&Run| clean::lies_there(run);
        for run in experiment
            .runs
            .iter()
            .filter(meant)
            .filter(named)
            .filter(there)
        {
            let at = run.node_word().to_owned();
            match clean::stays(run, unfetched) {
                Some(why) => stay.push(One {
                    experiment: run.made.id.experiment.0,
                    run: run.made.id.number,
                    node: at,
                    bytes: 0,
                    skipped: why,
                }),
                None => going.entry(at).or_default().push(Going {
                    id: run.made.id,
                    token: run.made.token.to_vec(),
                    folder: PathBuf::from(run.desk.results.folder()),
                    outputs: run.made.outputs,
                }),
            }
        }
    }
    (going, stay)
}

/// The sizes of the run folders on a node, by token.
async fn sizes(client: &mut MumClient<Channel>) -> Result<HashMap<Vec<u8>, u64>, Failure> {
    let mut request = tonic::Request::new(v1::DiskUsageRequest { runs: true });
    request.set_timeout(PATIENCE);
    let usage = client
        .disk_usage(request)
        .await
        .map_err(|status| Failure::node("the node does not say what lies there").status(&status))?
        .into_inner();
    Ok(usage
        .runs
        .into_iter()
        .filter_map(|run| Some((run.run?.token, run.bytes)))
        .collect())
}

/// Makes sure that what came home survives a power cut: each disk once.
/// Blocks.
fn sync(folders: Vec<PathBuf>) -> Result<(), Failure> {
    let mut synced = BTreeSet::new();
    for folder in folders.iter().filter(|path| !path.as_os_str().is_empty()) {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("cannot sync {}", folder.display())).caused_by(&error)
        };
        let open = std::fs::File::open(folder).map_err(failed)?;
        if synced.insert(open.metadata().map_err(failed)?.dev()) {
            rustix::fs::syncfs(&open)
                .map_err(std::io::Error::from)
                .map_err(failed)?;
        }
    }
    Ok(())
}

/// A node's words, short enough to be shown.
fn bounded(text: &str) -> String {
    const BYTES_MAX: usize = 300;
    text[..text.floor_char_boundary(BYTES_MAX)].to_owned()
}

/// In words, that a run's folder is gone.
pub(super) fn cleaned(at_ms: i64) -> String {
    let day = Timestamp::from_millisecond(at_ms).map_or_else(
        |_| at_ms.to_string(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    );
    format!("its folder on the node was cleaned on {day}; what came home is kept")
}
