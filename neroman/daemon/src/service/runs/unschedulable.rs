//! Unschedulable runs, which no node takes, now or ever: the same report for
//! callers that start them and callers that wait for them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nero_config::Config;
use nero_format::Definition;
use nero_model::{ExperimentId, RunId};
use nero_wire::v1;

use super::{cost, hidden_gpus, per_node};
use crate::service::Man;
use crate::service::nodes::unseen::quiet_ms;
use nero_life::add::ranges;
use nero_life::locks;
use nero_life::place::{self, Figures};
use nero_life::reason::{Kind, NoNode, Obstacle, WaitReason};
use nero_life::run::{Run, RunDemands};
use nero_life::state::State;
use nero_link::node::NodeStates;

/// How long nodes may take to describe themselves.
const PATIENCE: Duration = Duration::from_secs(3);

/// Runs with the reasons that keep them from every node. Runs with the same word
/// whose reasons differ in figures alone share a line.
#[derive(Debug, Default)]
pub(crate) struct ReasonGroups {
    runs: BTreeMap<Key, ReasonGroup>,
}

/// The word that was asked for, and the reason without its figures.
type Key = (String, Kind);

/// Runs that share a line.
#[derive(Debug)]
struct ReasonGroup {
    runs: Vec<RunId>,
    /// The reason of the first run.
    why: WaitReason,
    differ: bool,
}

impl ReasonGroups {
    /// Adds a run.
    fn add(&mut self, word: &str, why: &WaitReason, id: RunId) {
        let key = (word.to_owned(), why.kind());
        let same = self.runs.entry(key).or_insert_with(|| ReasonGroup {
            runs: Vec::new(),
            why: why.clone(),
            differ: false,
        });
        same.runs.push(id);
        same.differ |= same.why != *why;
    }

    /// Removes the kinds that were reported before, and marks the rest as
    /// reported.
    fn untold(mut self, told: &mut HashSet<Key>) -> Self {
        self.runs.retain(|key, _| told.insert(key.clone()));
        self
    }

    /// One line per kind; `says` returns the text for one run, and for many.
    fn lines(self, says: impl Fn(&str) -> [String; 2]) -> impl Iterator<Item = String> {
        self.runs.into_iter().map(move |((word, _), same)| {
            let [one, many] = says(&word);
            let (first, why) = (same.runs[0], same.why);
            match same.runs.as_slice() {
                [only] => format!("{only}: {one} ({why})"),
                more => {
                    let which = ranges(more.iter().map(|run| run.experiment));
                    let of = if same.differ {
                        format!("{first}: ")
                    } else {
                        String::new()
                    };
                    format!("{} runs of {which}: {many} ({of}{why})", more.len())
                }
            }
        })
    }
}

fn never_lines(alike: ReasonGroups) -> impl Iterator<Item = String> {
    alike.lines(|word| {
        [
            format!("`{word}` can never take it"),
            format!("`{word}` can never take them"),
        ]
    })
}

/// A run's demands on its node.
#[derive(Clone, Debug)]
pub(crate) struct RunDemand {
    pub id: RunId,
    /// The word that was asked for.
    pub word: String,
    pub takes: RunDemands,
    pub definition: Arc<Definition>,
    /// The run has no node yet. (A node that has it reports its own reasons.)
    pub waits: bool,
}

impl RunDemand {
    /// Whether some node may never meet the demands.
    fn demands(&self) -> bool {
        let takes = &self.takes;
        let resources = takes.cpus > 1.0 || takes.memory_bytes > 0;
        let own = !takes.scheduling.is_empty() || !takes.on_nodes.is_empty();
        takes.asks() || resources || takes.limit_s > 0 || own
    }
}

impl Man {
    /// The answer with a line for its runs that no node can ever take.
    pub(crate) async fn with_outlook(&self, mut answer: v1::StartReply) -> v1::StartReply {
        let state = self.ledger.state();
        let made = answer.experiments.iter().filter(|one| one.run != 0);
        let asking: Vec<RunDemand> = made
            .filter_map(|one| {
                let experiment = state.experiment(ExperimentId(one.experiment))?;
                let run = experiment.run(one.run)?;
                Some(RunDemand {
                    id: run.made.id,
                    word: run.made.node.clone(),
                    takes: run.made.takes.clone(),
                    definition: Arc::clone(&experiment.definition),
                    waits: run.unplaced(),
                })
            })
            .collect();
        answer.notes.extend(self.outlook(&asking).await);
        answer
    }

    /// What the runs ask of clusters, and lines for those that no node can ever take or that see
    /// no GPU. If no node is known that may take one, the nodes without a description are asked, for
    /// a moment.
    pub(crate) async fn outlook(&self, asking: &[RunDemand]) -> Vec<String> {
        let config = self.nodes.usable_config();
        let mut notes = cost::notes(&config, &self.ledger.state(), asking);
        notes.extend(per_node::notes(&config, asking));
        notes.extend(self.unschedulable(asking).await);
        // Nodes may have described themselves meanwhile.
        let figures = self.nodes.figures(&self.ledger.state());
        notes.extend(hidden_gpus::notes(&config, &figures, asking));
        notes
    }

    async fn unschedulable(&self, asking: &[RunDemand]) -> Vec<String> {
        let (lines, unknown) = self.check(asking);
        if unknown.is_empty() {
            return lines;
        }
        let nodes = unknown.iter().filter_map(|name| self.nodes.node(name));
        let asked = nodes
            .filter(|node| !node.now().out_of_reach())
            .map(|node| async move {
                if node.channel(PATIENCE).await.is_ok() {
                    node.described(PATIENCE).await;
                }
            });
        // A node that has not answered by then counts as unknown.
        let _ = tokio::time::timeout(PATIENCE, join_all(asked)).await;
        self.check(asking).0
    }

    /// The lines, and the nodes whose description is missing.
    fn check(&self, asking: &[RunDemand]) -> (Vec<String>, BTreeSet<String>) {
        let asking = together(asking);
        let config = self.nodes.usable_config();
        let state = self.ledger.state();
        let figures = self.nodes.figures(&state);
        let mut unschedulable = ReasonGroups::default();
        let mut unknown = BTreeSet::new();
        let mut partings = Partings::default();
        let mut last: Option<(&RunDemand, Outlook)> = None;
        for one in &asking {
            let outlook = match last.take() {
                Some((like, outlook)) if like.word == one.word && like.takes == one.takes => {
                    outlook
                }
                _ => Outlook::of(&config, &figures, &one.word, &one.takes, &[]),
            };
            let parted = partings.of(&state, &config, one);
            if let Some(why) = parted.or_else(|| outlook.never().map(WaitReason::NoNode)) {
                unschedulable.add(&one.word, &why, one.id);
            } else if outlook.may.is_empty() && one.waits && one.demands() {
                unknown.extend(outlook.unknown.iter().cloned());
            }
            last = Some((one, outlook));
        }
        (never_lines(unschedulable).collect(), unknown)
    }
}

/// The same runs, each with the number of those that a pack may hold with it.
fn together(asking: &[RunDemand]) -> Vec<RunDemand> {
    let mut all: Vec<RunDemand> = asking.to_vec();
    let alike =
        |one: &RunDemand, other: &RunDemand| one.word == other.word && one.takes == other.takes;
    // Those of one block follow each other.
    for same in all.chunk_by_mut(alike) {
        let count = u32::try_from(same.len()).unwrap_or(u32::MAX);
        same.iter_mut().for_each(|one| one.takes.together = count);
    }
    all
}

/// Why runs never come to the node of another one, by what they are asked of, their source and
/// the name of the other one.
#[derive(Default)]
struct Partings {
    known: HashMap<(String, u64, String), Option<WaitReason>>,
}

impl Partings {
    fn of(&mut self, state: &State, config: &Config, asking: &RunDemand) -> Option<WaitReason> {
        let same_as = asking.definition.precedence.place.same_as.as_ref()?;
        let own = asking.id.experiment;
        let source = state.experiment(own)?.source;
        let key = (asking.word.clone(), source, same_as.on.clone());
        let why = self.known.entry(key);
        why.or_insert_with(|| parting(state, config, own, &asking.word))
            .clone()
    }
}

/// Why a run of an experiment never comes to the node of another one, if none of its nodes is one
/// where that is or may come.
fn parting(state: &State, config: &Config, own: ExperimentId, word: &str) -> Option<WaitReason> {
    let target = config.resolve(word).ok()?;
    let companions = locks::companions(state, own);
    let first = companions.first()?;
    let there = |run: &Run| match run.placed_on() {
        Some(node) => vec![node.to_owned()],
        None => {
            let target = config.resolve(&run.made.node);
            target.map_or_else(|_| Vec::new(), |target| target.nodes().to_vec())
        }
    };
    let meet = |run: &&Run| there(run).iter().any(|node| target.nodes().contains(node));
    if target.nodes().is_empty() || companions.iter().any(meet) {
        return None;
    }
    let of = first.made.id;
    if let Some(node) = first.placed_on() {
        let there = Some(node.to_owned());
        let each = (target.nodes().iter()).map(|name| {
            (
                name.clone(),
                Obstacle::SameAs {
                    of,
                    there: there.clone(),
                },
            )
        });
        return Some(WaitReason::NoNode(NoNode::Each(each.collect())));
    }
    let there = there(first).join(" or ");
    Some(WaitReason::Said(format!(
        "it has to be where {of} will be: on {there}"
    )))
}

/// Whether the nodes that a word stands for may ever take a run.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    /// The nodes that never will, with the reasons.
    never: Vec<(String, Obstacle)>,
    /// The nodes that may.
    may: Vec<String>,
    /// The nodes without a description.
    unknown: Vec<String>,
}

impl Outlook {
    /// The outlook for the nodes of a word except those to `avoid`, from their
    /// last descriptions.
    pub(crate) fn of(
        config: &Config,
        known: &HashMap<String, Figures>,
        word: &str,
        takes: &RunDemands,
        avoid: &[String],
    ) -> Self {
        let mut outlook = Self {
            never: Vec::new(),
            may: Vec::new(),
            unknown: Vec::new(),
        };
        let target = config.resolve(word);
        let nodes = target.as_ref().map_or(&[][..], |target| target.nodes());
        for name in nodes.iter().filter(|name| !avoid.contains(name)) {
            let ever = match (place::has_data(takes, name), known.get(name)) {
                (Err(why), _) => Err(why),
                (Ok(()), Some(figures)) => place::ever_fits(&takes.on(name), figures),
                (Ok(()), None) => {
                    outlook.unknown.push(name.clone());
                    continue;
                }
            };
            match ever {
                Ok(()) => outlook.may.push(name.clone()),
                Err(why) => {
                    let why = Obstacle::Misfit(why);
                    outlook.never.push((name.clone(), why));
                }
            }
        }
        outlook
    }

    /// Why no node ever will; `None` if one may.
    pub(crate) fn never(&self) -> Option<NoNode> {
        if !self.may.is_empty() || !self.unknown.is_empty() {
            return None;
        }
        if self.never.is_empty() {
            return Some(NoNode::NoneLeft);
        }
        Some(NoNode::Each(self.never.clone()))
    }

    /// `Ok` if every node that may take it is out of reach; else the time after
    /// which that may be so, in milliseconds, if any.
    fn away(&self, known: &NodeStates, boot_ms: i64) -> Result<(), Option<u64>> {
        let mut left_ms = 0;
        for name in self.may.iter().chain(&self.unknown) {
            let node = known.of(name).ok_or(None)?;
            left_ms = left_ms.max(quiet_ms(node, boot_ms).ok_or(None)?);
        }
        match left_ms {
            0 => Ok(()),
            left_ms => Err(Some(left_ms)),
        }
    }
}

/// The configuration and state of nodes.
pub(crate) struct Nodes<'a> {
    pub config: &'a Config,
    pub figures: &'a HashMap<String, Figures>,
    pub known: &'a NodeStates,
    pub boot_ms: i64,
}

/// The runs whose callers were told that no node takes them.
#[derive(Debug, Default)]
pub(crate) struct StuckRuns {
    never: HashSet<RunId>,
    away: HashSet<RunId>,
    /// The kinds that were reported for runs that wait for a node.
    told: HashSet<Key>,
}

impl StuckRuns {
    /// Whether a run may need a report: the placer found no node for it.
    pub(crate) fn is_open(&self, run: &Run) -> bool {
        run.unplaced() && !run.why().is_unknown() && !self.never.contains(&run.made.id)
    }

    /// Why no node can ever take this run at present; `None` if that was not
    /// reported before.
    pub(crate) fn never(&self, run: &Run, nodes: &Nodes<'_>) -> Option<String> {
        if !run.unplaced() || !self.never.contains(&run.made.id) {
            return None;
        }
        let word = &run.made.node;
        let (takes, avoid) = (&run.made.takes, run.excluded());
        let outlook = Outlook::of(nodes.config, nodes.figures, word, takes, avoid);
        let why = elsewhere(run).or_else(|| outlook.never())?;
        Some(format!("`{word}` can never take it ({why})"))
    }

    /// The new lines about such runs, one per run that no node takes and one per
    /// kind that waits, and the latest time to look again.
    pub(crate) fn news(
        &mut self,
        runs: &[&Run],
        nodes: &Nodes<'_>,
    ) -> (Vec<String>, Option<Duration>) {
        let mut unschedulable = ReasonGroups::default();
        let mut waiting = ReasonGroups::default();
        let mut again: Option<u64> = None;
        // Runs of one command mostly have the same demands.
        let mut last: Option<(&Run, Outlook)> = None;
        for run in runs {
            let id = run.made.id;
            let outlook = match last.take() {
                Some((like, outlook)) if alike(like, run) => outlook,
                _ => Outlook::of(
                    nodes.config,
                    nodes.figures,
                    &run.made.node,
                    &run.made.takes,
                    run.excluded(),
                ),
            };
            if let Some(why) = elsewhere(run).or_else(|| outlook.never()) {
                self.never.insert(id);
                unschedulable.add(&run.made.node, &WaitReason::NoNode(why), id);
            } else if !self.away.contains(&id) {
                match outlook.away(nodes.known, nodes.boot_ms) {
                    Ok(()) => {
                        self.away.insert(id);
                        waiting.add(&run.made.node, run.why(), id);
                    }
                    Err(Some(left_ms)) => {
                        again = Some(again.map_or(left_ms, |sooner| sooner.min(left_ms)));
                    }
                    Err(None) => {}
                }
            }
            last = Some((run, outlook));
        }
        let waiting = waiting
            .untold(&mut self.told)
            .lines(|_| ["it", "them"].map(|what| format!("no node takes {what} now")));
        let lines = never_lines(unschedulable).chain(waiting).collect();
        (lines, again.map(Duration::from_millis))
    }
}

/// Why a run gets no node, if it has to be where another one is and may not go there.
fn elsewhere(run: &Run) -> Option<NoNode> {
    match run.why() {
        WaitReason::NoNode(why) => Some(why.clone()).filter(NoNode::is_elsewhere),
        _ => None,
    }
}

/// Whether the outlook of one run holds for the other.
fn alike(one: &Run, other: &Run) -> bool {
    one.made.node == other.made.node
        && one.made.takes == other.made.takes
        && one.excluded() == other.excluded()
}

#[cfg(test)]
mod tests {
    use nero_expr::{NodeFact, UnmetRequirement};
    use nero_life::reason::Misfit;

    use super::*;

    fn run(experiment: u64) -> RunId {
        RunId {
            experiment: ExperimentId(experiment),
            number: 1,
        }
    }

    fn on_a(misfit: Misfit) -> WaitReason {
        let why = Obstacle::Misfit(misfit);
        WaitReason::NoNode(NoNode::Each(vec![("a".to_owned(), why)]))
    }

    fn cpus(asks: f64) -> WaitReason {
        on_a(Misfit::Cpus { has: 2.0, asks })
    }

    fn gpus() -> WaitReason {
        on_a(Misfit::Unmet(vec![UnmetRequirement {
            text: "gpus 0 < 1".to_owned(),
            for_good: true,
            facts: vec![NodeFact::Gpus],
        }]))
    }

    #[test]
    fn runs_that_lack_alike_are_told_together() {
        let lines = |reasons: &[WaitReason]| {
            let mut alike = ReasonGroups::default();
            for (why, id) in reasons.iter().zip(1..) {
                alike.add("both", why, run(id));
            }
            never_lines(alike).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&[cpus(3.0)]),
            ["1.1: `both` can never take it (a: cpus 2 < 3)"]
        );
        assert_eq!(
            lines(&[cpus(3.0), cpus(3.0), cpus(3.0)]),
            ["3 runs of 1-3: `both` can never take them (a: cpus 2 < 3)"]
        );
        assert_eq!(
            lines(&[cpus(3.0), gpus(), cpus(16.5)]),
            [
                "2 runs of 1,3: `both` can never take them (1.1: a: cpus 2 < 3)",
                "2.1: `both` can never take it (a: gpus 0 < 1)"
            ]
        );
    }

    #[test]
    fn a_reason_told_of_one_run_is_not_told_again_of_the_next() {
        let mut told = HashSet::new();
        let mut said = |reasons: &[(WaitReason, u64)]| {
            let mut alike = ReasonGroups::default();
            for (why, id) in reasons {
                alike.add("both", why, run(*id));
            }
            let untold = alike.untold(&mut told);
            never_lines(untold).count()
        };
        assert_eq!(said(&[(cpus(3.0), 1)]), 1);
        assert_eq!(said(&[(cpus(4.0), 2), (gpus(), 3)]), 1);
        assert_eq!(said(&[(cpus(3.0), 4)]), 0);
    }
}
