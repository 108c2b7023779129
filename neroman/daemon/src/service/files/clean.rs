//! `Clean`: frees space. On nodes it removes ended runs whose outputs are home,
//! and code that no run uses; here, frozen files that no run names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures_util::future::join_all;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_wire::v1;
use nero_wire::v1::clean_ask_reply::{OnNode, One};

use super::clean_node::RemovableRun;
use crate::service::change::ChangeRequest as _;
use crate::service::select::ChosenRun;
use crate::service::{Man, blocking, counted};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_life::clean;
use nero_life::run::Run;
use nero_life::state::State;

/// The name of this machine among nodes: no node has such a name.
const HERE: &str = "(here)";

/// Runs that may go, by node.
type ByNode = BTreeMap<String, Vec<RemovableRun>>;

impl Man {
    /// Removes the runs that may go; with `dry_run`, only lists them.
    pub(crate) async fn clean(
        &self,
        request: v1::CleanAskRequest,
    ) -> Result<v1::CleanAskReply, Failure> {
        let selection = self.selection(request.selection.clone(), "all").await?;
        let everything = selection.is_all();
        let state = self.ledger.state();
        let chosen = if everything {
            every(&state)
        } else {
            selection.choose_from(&state).await?.0
        };
        self.clean_chosen(request, chosen, everything).await
    }

    /// Removes those of the chosen runs that may go, also of removed experiments.
    pub(crate) async fn clean_chosen(
        &self,
        request: v1::CleanAskRequest,
        chosen: Vec<ChosenRun>,
        everything: bool,
    ) -> Result<v1::CleanAskReply, Failure> {
        let state = self.ledger.state();
        let (node, unfetched) = (request.node.clone(), request.unfetched);
        let (going, mut runs) = blocking(move || pick(&state, &chosen, &node, unfetched)).await?;
        let (nodes, left) = self.to_clean(&request, going, everything)?;
        let each = nodes
            .into_iter()
            .map(|(node, going)| self.clean_node(node, going, &request));
        let mut reply = v1::CleanAskReply::default();
        for went in join_all(each).await {
            runs.extend(went.runs);
            reply.nodes.push(went.node);
        }
        if request.node.is_empty() {
            let mut here = self.clean_here(request.dry_run).await?;
            here.notes.extend(left);
            if here.freed_bytes > 0 || !here.notes.is_empty() {
                reply.nodes.push(here);
            }
        }
        runs.sort_by_key(|one| (one.experiment, one.run));
        reply.runs = runs;
        self.decided(&request.head(), |_, _| Ok(Decision::of(reply)))
            .await
    }

    /// The nodes to clean: the named one; all configured nodes, when everything
    /// was picked; else those with runs that may go. A note names the other
    /// nodes that have runs.
    fn to_clean(
        &self,
        request: &v1::CleanAskRequest,
        mut going: BTreeMap<String, Vec<RemovableRun>>,
        everything: bool,
    ) -> Result<(ByNode, Option<String>), Failure> {
        let config = self.nodes.config()?;
        if request.node.is_empty() {
            let removed: Vec<String> = going
                .extract_if(.., |name, _| config.node(name).is_none())
                .map(|(name, runs)| format!("{name} ({})", counted(runs.len() as u64, "run")))
                .collect();
            let left = (!removed.is_empty()).then(|| {
                format!(
                    "not looked at, since they are not configured any more: {}",
                    removed.join(", ")
                )
            });
            for name in config.nodes.keys().filter(|_| everything) {
                going.entry(name.clone()).or_default();
            }
            return Ok((going, left));
        } else if config.node(&request.node).is_none() {
            return Err(
                Failure::usage(format!("there is no node `{}`", request.node))
                    .hint("`neroman node list` names them"),
            );
        } else {
            going.entry(request.node.clone()).or_default();
        }
        Ok((going, None))
    }

    /// Removes the frozen files here that no run names.
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
        let (freed, notes) = match swept {
            Ok(swept) => (swept.bytes, Vec::new()),
            Err(unread) => {
                let cause = std::error::Error::source(&unread).map(|error| format!(": {error}"));
                let cause = cause.unwrap_or_default();
                (0, vec![format!("frozen files stay: {unread}{cause}")])
            }
        };
        Ok(OnNode {
            node: HERE.to_owned(),
            freed_bytes: freed,
            store_bytes: freed,
            notes,
            ..OnNode::default()
        })
    }
}

/// All experiments, also those that left their source or were removed.
fn every(state: &State) -> Vec<ChosenRun> {
    let all = state.experiments.iter();
    all.map(|one| ChosenRun {
        id: one.id,
        run: None,
    })
    .collect()
}

/// The trees that runs name, and the diffs that go with them.
fn named(state: &State) -> (BTreeSet<String>, Vec<String>) {
    let (mut trees, mut others) = (BTreeSet::new(), Vec::new());
    let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
    for run in runs {
        if !run.made.tree.is_empty() && !trees.contains(&run.made.tree) {
            trees.insert(run.made.tree.clone());
        }
        if let Some(overlay) = run.overlay().filter(|tree| !tree.is_empty()) {
            trees.insert(overlay.to_owned());
        }
        if let Some((_, diff)) = run.made.git.split_once('+') {
            others.push(diff.to_owned());
        }
    }
    (trees, others)
}

/// The runs that may go, by node, and why others stay. For an experiment, all
/// its runs.
fn pick(
    state: &State,
    chosen: &[ChosenRun],
    node: &str,
    unfetched: bool,
) -> (BTreeMap<String, Vec<RemovableRun>>, Vec<One>) {
    let mut going: BTreeMap<String, Vec<RemovableRun>> = BTreeMap::new();
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
            let needed = clean::needed(experiment, run);
            match needed.or_else(|| clean::stays(run, unfetched)) {
                Some(why) => stay.push(One {
                    experiment: run.made.id.experiment.0,
                    run: run.made.id.number,
                    node: at,
                    skipped: why,
                    ..One::default()
                }),
                None => going.entry(at).or_default().push(RemovableRun {
                    id: run.made.id,
                    token: run.made.token.to_vec(),
                    folder: PathBuf::from(run.results().folder()),
                    began: !run.journal.incarnations.is_empty(),
                }),
            }
        }
    }
    (going, stay)
}

/// In words, that a run's folder is gone.
pub(crate) fn cleaned(at_ms: i64) -> String {
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
