//! Cleans one node: compares its files with those that came home, syncs these,
//! and only then has anything removed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use nero_model::plain::plain;
use nero_model::safe::Safe;
use nero_model::{RequestId, RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::clean_ask_reply::{OnNode, One};
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_life::input::Input;
use nero_life::needs;
use nero_life::state::State;
use nero_link::connect::mum_client;
use nero_link::node::BYTES_MAX;
use nero_link::results::{FetchJob, MissingResults, Places, Trouble, sync};

/// How long a node may take to be reached.
const REACHED: Duration = Duration::from_secs(10);
/// How long a node may take to count or to remove its files.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long to wait until the node may forget runs.
const CLOSED: Duration = Duration::from_secs(10);
/// How often runs that the node refuses are asked for again, and how soon.
const AGAIN: usize = 5;
/// See [`AGAIN`].
const BETWEEN: Duration = Duration::from_millis(300);
/// Runs whose files are compared concurrently.
const COMPARED_AT_ONCE: usize = 4;
/// Files named in the reason for which a run stays.
const NAMED: usize = 3;
/// Runs of one message.
const RUNS_MAX: usize = 10_000;
/// Notes of one answer.
const NOTES_MAX: usize = 100;

/// A run that may go.
#[derive(Clone)]
pub(crate) struct RemovableRun {
    pub(crate) id: RunId,
    pub(crate) token: Vec<u8>,
    pub(crate) folder: PathBuf,
    /// Whether the run was started: the node may have files of it.
    pub(crate) began: bool,
}

/// The result of cleaning one node.
#[derive(Default)]
pub(crate) struct CleanOutcome {
    pub(crate) runs: Vec<One>,
    pub(crate) node: OnNode,
    /// The index in `runs` of each token's run.
    places: HashMap<Vec<u8>, usize>,
    cleaned: HashSet<Vec<u8>>,
}

impl CleanOutcome {
    /// Sets the reason why a run stays; empty if it goes.
    fn skip(&mut self, token: &[u8], why: String) {
        let one = self.places.get(token);
        if let Some(one) = one.and_then(|place| self.runs.get_mut(*place)) {
            one.skipped = why;
            one.skipped_as.clear();
        }
    }

    /// The runs of a part that the node refused.
    fn refused(&self, part: &[RemovableRun]) -> Vec<RemovableRun> {
        let left = part.iter().filter(|run| !self.cleaned.contains(&run.token));
        left.cloned().collect()
    }
}

impl Man {
    pub(crate) async fn clean_node(
        &self,
        node: String,
        going: Vec<RemovableRun>,
        request: &v1::CleanAskRequest,
    ) -> CleanOutcome {
        let mut went = CleanOutcome::default();
        went.node.node.clone_from(&node);
        if let Err(failure) = self.try_clean(&node, going, request, &mut went).await {
            let failure = failure.of(&node);
            went.node.away = failure.is_of_node();
            went.node.failed = failure.to_string();
        }
        went
    }

    async fn try_clean(
        &self,
        node: &str,
        going: Vec<RemovableRun>,
        request: &v1::CleanAskRequest,
        went: &mut CleanOutcome,
    ) -> Result<(), Failure> {
        let channel = self.nodes.channel(node, REACHED).await?;
        let mut client = mum_client(channel);
        let sizes = sizes(&mut client).await?;
        let able = self
            .compared((node, &client), going, &sizes, request, went)
            .await?;
        if !request.dry_run {
            let folders = able.iter().map(|run| run.folder.clone()).collect();
            let synced = blocking(move || sync(folders)).await?;
            synced.map_err(|trouble| trouble.failure().clone())?;
            self.give_up(&able).await?;
        }
        self.closed(&able).await;
        self.clean_all(&mut client, &able, request, went).await?;
        if request.images {
            let images = v1::CleanRequest {
                images: true,
                kept_images: self.images_kept(node)?,
                dry_run: request.dry_run,
                ..v1::CleanRequest::default()
            };
            self.clean_part(&mut client, &[], images, went).await?;
        }
        let gone = went.runs.iter().filter(|one| one.skipped.is_empty());
        let runs = gone.fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        went.node.store_bytes = went.node.freed_bytes.saturating_sub(runs);
        Ok(())
    }

    /// Compares runs with what is home and adds each to `went`; returns those that
    /// may go.
    async fn compared(
        &self,
        (node, client): (&str, &MumClient<Channel>),
        going: Vec<RemovableRun>,
        sizes: &HashMap<Vec<u8>, u64>,
        request: &v1::CleanAskRequest,
        went: &mut CleanOutcome,
    ) -> Result<Vec<RemovableRun>, Failure> {
        let mut able = Vec::new();
        let looks = going.into_iter().map(|run| {
            let client = client.clone();
            async move {
                let found = self.not_home(node, client, &run).await;
                (run, found)
            }
        });
        let looks = futures_util::stream::iter(looks).buffered(COMPARED_AT_ONCE);
        let looks: Vec<(RemovableRun, Result<MissingResults, Failure>)> = looks.collect().await;
        for (run, found) in looks {
            let (lost, why) = match (found, request.unfetched) {
                (Ok(lost), true) => (lost, None),
                (Ok(lost), false) => {
                    let why = stays(&lost, run.id);
                    (lost, why)
                }
                // With `unfetched`, a run that cannot be compared goes all the
                // same.
                (Err(failure), true) if !failure.is_of_node() => (MissingResults::default(), None),
                (Err(failure), false) if !failure.is_of_node() => {
                    (MissingResults::default(), Some(failure.to_string()))
                }
                (Err(failure), _) => return Err(failure),
            };
            went.places.insert(run.token.clone(), went.runs.len());
            went.runs.push(One {
                experiment: run.id.experiment.0,
                run: run.id.number,
                node: node.to_owned(),
                bytes: sizes.get(&run.token).copied().unwrap_or(0),
                skipped_as: match &why {
                    Some(_) if !lost.is_empty() => "not home as it is there".to_owned(),
                    Some(_) | None => String::new(),
                },
                skipped: why.clone().unwrap_or_default(),
                not_home: names(&lost),
                not_home_files: (lost.files.len() + lost.others.len()) as u64,
                not_home_bytes: lost.bytes(),
            });
            if why.is_none() {
                able.push(run);
            }
        }
        Ok(able)
    }

    /// Has the node delete these runs, and unused files with the last of them.
    async fn clean_all(
        &self,
        client: &mut MumClient<Channel>,
        able: &[RemovableRun],
        request: &v1::CleanAskRequest,
        went: &mut CleanOutcome,
    ) -> Result<(), Failure> {
        let mut parts: Vec<&[RemovableRun]> = able.chunks(RUNS_MAX).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        for (index, part) in parts.into_iter().enumerate() {
            let dry_run = request.dry_run;
            let also = |store| v1::CleanRequest {
                store,
                dry_run,
                ..v1::CleanRequest::default()
            };
            let store = also(index == last);
            self.clean_part(client, part, store, went).await?;
            for _ in 0..AGAIN {
                let refused = went.refused(part);
                if dry_run && request.unfetched {
                    // The reason that keeps them is given up when the request
                    // succeeds.
                    for run in &refused {
                        went.skip(&run.token, String::new());
                    }
                    break;
                }
                if refused.is_empty() {
                    break;
                }
                // The node may not have received the closing of these runs yet.
                tokio::time::sleep(BETWEEN).await;
                self.clean_part(client, &refused, also(false), went).await?;
            }
        }
        Ok(())
    }

    /// Records that the rest of these runs' files is given up.
    async fn give_up(&self, able: &[RemovableRun]) -> Result<(), Failure> {
        let forgone = |run: &RemovableRun| (run.id, Input::ResultsForgone);
        let given_up: Vec<(RunId, Input)> = able.iter().map(forgone).collect();
        let late = LatePolicy::Passes("all of it is home");
        self.ledger
            .note_now(true, move |state, now_ms| {
                late.steps(state, &given_up, now_ms)
            })
            .await
    }

    /// Waits until the node was told to forget runs that need nothing more; it
    /// refuses to clean others.
    async fn closed(&self, able: &[RemovableRun]) {
        let ids: Vec<RunId> = able.iter().map(|run| run.id).collect();
        let about = |state: &State, id: &RunId| {
            let run = state.run(*id);
            run.is_some_and(|run| !run.is_closed() && needs::of(run).close)
        };
        let are_closed = |state: &State| !ids.iter().any(|id| about(state, id));
        self.ledger.until(CLOSED, are_closed).await;
    }

    /// The images that a node keeps: of its configuration, and of runs that may come to it.
    fn images_kept(&self, node: &str) -> Result<Vec<String>, Failure> {
        let config = self.nodes.config()?;
        let asks = config.node(node).map(|node| node.asks.clone());
        let asks = asks.unwrap_or_default();
        let state = self.ledger.state();
        let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
        let live = runs.filter(|run| run.phase().is_live());
        let of_runs = live.filter_map(|run| run.made.takes.scheduling.container.on(node).cloned());
        let own = asks.container.on(node).cloned();
        let all = own.into_iter().chain(of_runs);
        let images: BTreeSet<String> = all.map(|container| container.image).collect();
        Ok(images
            .into_iter()
            .filter(|image| !image.is_empty())
            .collect())
    }

    /// Cleans by one call, which removes what `also` names, too.
    async fn clean_part(
        &self,
        client: &mut MumClient<Channel>,
        part: &[RemovableRun],
        also: v1::CleanRequest,
        went: &mut CleanOutcome,
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
            ..also
        });
        request.set_timeout(PATIENCE);
        // The removal is recorded here even if the caller leaves meanwhile.
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited in the next line, unless the caller leaves"
        )]
        let taking = tokio::spawn(take_away(client.clone(), self.ledger.clone(), request));
        let reply = taking
            .await
            .map_err(|error| Failure::bug("cleaning a node ended early").caused_by(&error))??;
        for run in part {
            went.skip(&run.token, String::new());
        }
        for refusal in &reply.refused {
            let why = Safe::line(&bounded(&refusal.why)).to_string();
            went.skip(&refusal.token, why);
        }
        went.node.freed_bytes = went.node.freed_bytes.saturating_add(reply.freed_bytes);
        for note in reply.notes.iter().take(NOTES_MAX) {
            let note = Safe::line(&bounded(note)).to_string();
            if !went.node.notes.contains(&note) {
                went.node.notes.push(note);
            }
        }
        went.cleaned.extend(reply.cleaned);
        Ok(())
    }

    /// The files of a run that are not here as they are on its node.
    async fn not_home(
        &self,
        node: &str,
        client: MumClient<Channel>,
        run: &RemovableRun,
    ) -> Result<MissingResults, Failure> {
        if !run.began {
            return Ok(MissingResults::default());
        }
        let places = Places::of(&self.home);
        let deaf = Arc::new(|_| ());
        let compared = async {
            match FetchJob::prepare(&places, &self.ledger, client, deaf, run.id, true).await? {
                Some(job) => job.not_home().await,
                None => Ok(MissingResults::default()),
            }
        };
        let compared: Result<MissingResults, Trouble> = compared.await;
        compared.map_err(|trouble| trouble.of(node).failure().clone())
    }
}

/// Has a node remove runs, and records that it has nothing of them any more.
/// Returns only runs that were asked for.
async fn take_away(
    mut client: MumClient<Channel>,
    ledger: Ledger,
    request: tonic::Request<v1::CleanRequest>,
) -> Result<v1::CleanReply, Failure> {
    let asked: HashSet<Vec<u8>> = (request.get_ref().runs.iter())
        .map(|run| run.token.clone())
        .collect();
    let dry_run = request.get_ref().dry_run;
    let mut reply = client
        .clean(request)
        .await
        .map_err(|status| Failure::node_does("does not clean").status(&status))?
        .into_inner();
    reply.cleaned.retain(|token| asked.contains(token));
    if reply.freed_bytes > BYTES_MAX {
        let said = std::mem::take(&mut reply.freed_bytes);
        let note = format!("it reports that {said} bytes were freed, which cannot be: not counted");
        reply.notes.insert(0, note);
    }
    if dry_run {
        return Ok(reply);
    }
    let tokens = reply.cleaned.clone();
    ledger
        .note_now(true, move |state, now_ms| {
            let tokens = tokens.iter();
            let runs = tokens.filter_map(|token| state.by_token(&RunToken::from_slice(token)?));
            let cleaned: Vec<(RunId, Input)> = runs.map(|id| (id, Input::Cleaned)).collect();
            LatePolicy::Never.steps(state, &cleaned, now_ms)
        })
        .await?;
    Ok(reply)
}

/// Reason why a run is not cleaned: the node has files that were not fetched.
fn stays(lost: &MissingResults, run: RunId) -> Option<String> {
    if lost.is_empty() {
        return None;
    }
    let all = lost.files.len() + lost.others.len();
    let mut named = names(lost);
    named.truncate(NAMED);
    let more = match all - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "not home as it is there: {}{more}; neroman fetch {run} --include NAME brings it, \
         --unfetched deletes it",
        named.join(", ")
    ))
}

/// The files that are not home, by name and size, within bounds.
fn names(lost: &MissingResults) -> Vec<String> {
    const NAMES_MAX: usize = 50;
    let size = nero_link::snapshot::size;
    let files = lost.files.iter();
    let files = files.map(|one| format!("{} ({})", one.name, size(one.bytes)));
    let others = lost.others.iter().map(|line| bounded(line));
    files.chain(others).take(NAMES_MAX).collect()
}

/// The sizes of the run folders on a node, by token.
async fn sizes(client: &mut MumClient<Channel>) -> Result<HashMap<Vec<u8>, u64>, Failure> {
    let mut request = tonic::Request::new(v1::DiskUsageRequest { runs: true });
    request.set_timeout(PATIENCE);
    let usage = client
        .disk_usage(request)
        .await
        .map_err(|status| Failure::node_does("does not report its disk usage").status(&status))?
        .into_inner();
    Ok(usage
        .runs
        .into_iter()
        .filter_map(|run| Some((run.run?.token, run.bytes)))
        .collect())
}

/// A node's text, cut to a length that can be shown.
fn bounded(text: &str) -> String {
    const BYTES_MAX: usize = 300;
    let text = plain(text);
    text[..text.floor_char_boundary(BYTES_MAX)].to_owned()
}
