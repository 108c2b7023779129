//! Experiments as they are shown.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::safe::Safe;
use nero_model::{Phase, RunId};
use nero_wire::v1;

use nero_home::clock::Clock;
use nero_home::spec;
use nero_life::experiment::Experiment;
use nero_life::held::HoldReason;
use nero_life::locks::Locks;
use nero_life::now::{PresentTime, Tick};
use nero_life::outlook::Outlook;
use nero_life::precedence::Precedents;
use nero_life::retry::{Cause, Follows};
use nero_life::run::{Results, Run, Turn};
use nero_life::standing;
use nero_life::state::State;
use nero_link::node::{NodeNow, NodeStates};

/// The context of a view.
pub(crate) struct Sight<'a> {
    pub now: PresentTime,
    /// The same on our boot clock.
    pub here: Tick,
    pub zone: TimeZone,
    pub nodes: NodeStates,
    pub state: &'a State,
    queues: OnceLock<Queues>,
    precedents: OnceLock<Precedents<'a>>,
    locks: OnceLock<Locks<'a>>,
}

impl<'a> Sight<'a> {
    pub(crate) fn new(state: &'a State, nodes: NodeStates, zone: TimeZone, clock: Clock) -> Self {
        Self {
            now: nodes.now(clock),
            here: clock.tick(),
            zone,
            nodes,
            state,
            queues: OnceLock::new(),
            precedents: OnceLock::new(),
            locks: OnceLock::new(),
        }
    }

    /// A time of day, `14:02`.
    pub(crate) fn clock(&self, at_ms: i64) -> String {
        Timestamp::from_millisecond(at_ms).map_or_else(
            |_| "earlier".to_owned(),
            |at| at.to_zoned(self.zone.clone()).strftime("%H:%M").to_string(),
        )
    }

    /// A moment with its day.
    pub(crate) fn moment(&self, at_ms: i64) -> String {
        Timestamp::from_millisecond(at_ms).map_or_else(
            |_| "earlier".to_owned(),
            |at| {
                let at = at.to_zoned(self.zone.clone());
                at.strftime("%Y-%m-%d %H:%M").to_string()
            },
        )
    }

    /// The state of the node of a run that was placed.
    fn node_of(&self, run: &Run) -> Option<&NodeNow> {
        self.nodes.of(run.node()?)
    }

    fn connected(&self, run: &Run) -> bool {
        self.node_of(run).is_some_and(NodeNow::connected)
    }

    /// Why a live run is held, if it is.
    fn held(&self, run: &'a Run) -> Option<HoldReason<'a>> {
        let precedents = self.precedents.get_or_init(|| Precedents::of(self.state));
        HoldReason::among(precedents, self.state, run)
    }

    /// Why a run has no node, with the runs that keep it from them now.
    fn why_unplaced(&self, run: &Run) -> String {
        if run.made.precedence.looks_at_others() {
            let locks = self.locks.get_or_init(|| Locks::of(self.state, &self.now));
            locks.why(run).to_string()
        } else {
            run.why().to_string()
        }
    }

    /// How many runs of ours are to start before one that waits on a node without a
    /// scheduler.
    fn before(&self, run: &Run) -> Option<usize> {
        let about = self.node_of(run)?.about.as_ref()?;
        if !waits_there(run) || about.description.site.is_some() {
            return None;
        }
        let queues = self.queues.get_or_init(|| queues(self.state));
        queues.get(run.node()?)?.binary_search(&run.turn()).ok()
    }

    /// The age of a live run's facts, while its node is out of reach.
    fn as_of(&self, run: &Run) -> Option<i64> {
        let node = self.node_of(run)?;
        let handed = run.is_accepted();
        let is_old = node.out_of_reach() || !node.connected() && node.unheard();
        if !handed || !run.phase().is_live() || !is_old {
            return None;
        }
        // A contact that an earlier daemon stored may be older than what it folded.
        let last_sign = Some(run.journal.last_sign_ms(self.now.ms)).filter(|at_ms| *at_ms > 0);
        node.heard_ms().max(last_sign).or(node.since_ms)
    }

    /// Seconds in `running`, if known.
    pub(crate) fn runtime_s(&self, run: &Run) -> Option<f64> {
        match self.as_of(run) {
            Some(as_of_ms) => {
                let node = self.node_of(run);
                let silent_ms = match node.and_then(NodeNow::heard) {
                    Some(heard) => self.here.since(Some(&heard)),
                    // Only the run's own records have a time.
                    None => i64::MAX,
                };
                run.runtime_then_s(&self.now.earlier(silent_ms), as_of_ms)
            }
            None => run.runtime_s(&self.now),
        }
    }
}

/// The runs that wait on each node, in the order in which they are to start there.
type Queues = HashMap<String, Vec<Turn>>;

/// Whether a run waits on its node, and nobody holds it.
fn waits_there(run: &Run) -> bool {
    run.phase() == Phase::Pending && !run.is_paused() && run.hold_cause().is_none()
}

fn queues(state: &State) -> Queues {
    let mut queues = Queues::new();
    for run in state.live_runs().filter(|run| waits_there(run)) {
        if let Some(node) = run.node() {
            queues.entry(node.to_owned()).or_default().push(run.turn());
        }
    }
    for queue in queues.values_mut() {
        queue.sort_unstable();
    }
    queues
}

/// An experiment with the run to show.
pub(crate) fn experiment<'a>(
    experiment: &Experiment,
    run: Option<&'a Run>,
    sight: &Sight<'a>,
) -> v1::ExperimentView {
    let definition = &experiment.definition;
    let mut view = v1::ExperimentView {
        name: definition.name.clone(),
        collection: definition.collection().to_owned(),
        params: spec::params(definition),
        created_ms: experiment.created_ms,
        modified_ms: experiment.modified_ms,
        path: definition.folder.display().to_string(),
        collections: (*definition.collections).clone(),
        settled: true,
        tags: experiment.tags().map(str::to_owned).collect(),
        note: experiment.by_hand.note.clone(),
        overrides: overrides(experiment),
        copy_of: experiment.by_hand.copy_of.map_or(0, |of| of.0),
        edited_since_run: run.is_some_and(|run| experiment.is_edited_since(run)),
        gone: experiment.is_gone(),
        ..standing_of(experiment, run, sight)
    };
    if let Some(run) = run {
        of_run(&mut view, run, sight);
    }
    view
}

/// What totals are counted of: the state of an experiment, its node, and what keeps or ended its
/// run.
pub(crate) fn standing_of<'a>(
    experiment: &Experiment,
    run: Option<&'a Run>,
    sight: &Sight<'a>,
) -> v1::ExperimentView {
    let not_built = experiment.definition.not_built.iter();
    let mut view = v1::ExperimentView {
        id: experiment.id.0,
        state: "defined".to_owned(),
        not_built: not_built
            .map(|word| format!("{} ({})", word.word, word.place))
            .collect(),
        ..v1::ExperimentView::default()
    };
    if let Some(run) = run {
        standing_of_run(&mut view, run, sight);
        let warnings = standing::warnings(sight.state, experiment, run);
        view.warnings.extend(warnings);
        let others = experiment.live().filter(|live| live.made.id != run.made.id);
        for other in others {
            also_live(&mut view, other, sight);
        }
    }
    if experiment.is_gone() {
        view.warnings.push("no longer in its source".to_owned());
    }
    view
}

/// The values in place of the source's.
pub(crate) fn overrides(experiment: &Experiment) -> Vec<v1::Override> {
    let all = experiment.by_hand.overrides.iter();
    all.map(|one| v1::Override {
        key: one.key.clone(),
        text: one.text.clone(),
        source: one.over.clone().unwrap_or_default(),
    })
    .collect()
}

fn of_run(view: &mut v1::ExperimentView, run: &Run, sight: &Sight<'_>) {
    let phase = run.phase();
    view.phase = phase.as_str().to_owned();
    view.metrics = metrics(run);
    view.as_of_ms = sight.as_of(run).unwrap_or(0);
    view.runtime_s = sight.runtime_s(run);
    view.progress = run.journal.progress().map(|progress| progress.done);
    view.eta_s = run.eta_s(view.runtime_s);
    view.unread = run.unheard();
    (view.exit_code, view.signal) = exit(run);
    view.batch = batch(run);
    view.submitted_ms = run.made.created_ms;
    view.started_ms = run.started_ms().unwrap_or(0);
    view.ended_ms = run.outcome.ended_ms.unwrap_or(0);
    view.results = run.results().folder().to_owned();
    view.settled = !phase.is_live() && settled(run);
    view.image = image(run);
    let newest = run.journal.newest();
    let newest = newest.and_then(|(_, one)| one.granted.as_ref());
    if let Some(granted) = newest {
        view.hosts.clone_from(&granted.hosts);
        if view.hosts.is_empty() && !granted.host.is_empty() {
            view.hosts.push(granted.host.clone());
        }
    }
    if phase.is_live() {
        view.contact = contact(run, sight);
        if let Some(sample) = &run.journal.sample {
            view.cpu_cores = Some(sample.cpu_cores);
            view.rss_bytes = Some(sample.rss_bytes);
        }
    }
    view.follows = run.made.follows.as_ref().map(follows);
}

fn standing_of_run<'a>(view: &mut v1::ExperimentView, run: &'a Run, sight: &Sight<'a>) {
    view.state = run.state_word().as_str().to_owned();
    run.node_word().clone_into(&mut view.node);
    view.run = run.made.id.number;
    view.reason = run.reason().map(ToString::to_string).unwrap_or_default();
    run.stderr_line().clone_into(&mut view.stderr_line);
    view.warnings = run.journal.warnings();
    view.warnings.extend(run.error_verdict());
    if run.phase().is_live() {
        while_live(view, run, sight);
    }
    view.hints = run.hints().to_vec();
    view.hints.extend(run.why_not_again().map(str::to_owned));
    let unreadable = run.unreadable().iter().map(ToString::to_string);
    view.warnings.extend(unreadable);
    view.warnings.extend(run.doubt_text(&sight.now));
    let problems = run.processed().into_iter().flat_map(|made| &made.problems);
    let problems = problems.filter_map(|problem| problem.lines().next());
    view.warnings.extend(problems.map(str::to_owned));
    match run.results() {
        Results::Failed { why, .. } => {
            view.warnings
                .push(format!("results are not complete: {why}"));
        }
        Results::Fetching { why, .. } if !why.is_empty() => {
            view.warnings.push(format!("results wait: {why}"));
        }
        // The warnings of a run whose folder was cleaned do not matter any more.
        Results::Done { warnings, .. } if run.cleaned_ms().is_none() => {
            view.warnings.extend(warnings.iter().cloned());
        }
        Results::Done { .. } | Results::Open | Results::Fetching { .. } | Results::Nothing => {}
    }
}

/// The image of a run's container, with its digest; empty: it has none.
pub(crate) fn image(run: &Run) -> String {
    let host = run.journal.host.as_ref();
    host.map(|host| host.image.clone()).unwrap_or_default()
}

/// What a live run waits for, and what its node tells of it.
fn while_live<'a>(view: &mut v1::ExperimentView, run: &'a Run, sight: &Sight<'a>) {
    view.cancel = cancel(run, sight);
    let held = sight.held(run);
    view.waiting_for = nero_life::restored::awaited(sight.state, run)
        .unwrap_or_else(|| waiting_for(run, held, sight));
    let by_its_batch = held
        .filter(HoldReason::needs_person)
        .map(|held| held.to_string());
    let at_its_node = || run.needs_person().map(str::to_owned);
    view.held = by_its_batch.or_else(at_its_node).unwrap_or_default();
    if let Some(HoldReason::Others(awaited)) = held.filter(HoldReason::needs_person) {
        view.held_by_need = true;
        view.need_remedy = awaited.remedy().unwrap_or_default();
    }
    if run.node().is_some() {
        let refused = run.refusals().iter();
        view.warnings
            .extend(refused.map(|no| format!("refused by {}: {}", no.node, no.why)));
    }
    if run.is_unsupervised() {
        view.warnings
            .push("unsupervised: its exit code cannot be known".to_owned());
    }
    if !run.far_host().is_empty() {
        let host = Safe::line(run.far_host());
        view.warnings.push(format!(
            "goes on on {host}, another host of its node; followed by disk"
        ));
    }
}

/// The earlier run after which neroman made a run by itself.
pub(crate) fn follows(one: &Follows) -> v1::Follows {
    let cause = match one.cause {
        Cause::Retry { .. } => "retry",
        Cause::Timeout => "timeout",
        Cause::Rule { .. } => "rule",
    };
    v1::Follows {
        run: one.run,
        cause: cause.to_owned(),
        text: one.to_string(),
    }
}

/// A run that is live beside the one shown.
fn also_live(view: &mut v1::ExperimentView, run: &Run, sight: &Sight<'_>) {
    let live = v1::LiveRun {
        number: run.made.id.number,
        state: run.state_word().as_str().to_owned(),
        node: run.node_word().to_owned(),
        cancel: cancel(run, sight),
    };
    // A later run that waits for the one shown is no news about it.
    if live.number < view.run {
        let cancel = match live.cancel.as_str() {
            "" => String::new(),
            cancel => format!(", {cancel}"),
        };
        // Without the run's number, so that many experiments share one line.
        let warning = format!("an earlier run has not ended yet: {}{cancel}", live.state);
        if !view.warnings.contains(&warning) {
            view.warnings.push(warning);
        }
    }
    view.also_live.push(live);
}

/// Exit code and signal, if any.
pub(crate) fn exit(run: &Run) -> (Option<i32>, Option<i32>) {
    match run.exit() {
        Some(exit) if exit.code_unknown => (None, None),
        Some(exit) if exit.signal != 0 => (None, Some(exit.signal)),
        Some(exit) => (Some(exit.code), None),
        None => (None, None),
    }
}

/// The batch of a run; empty: unknown.
pub(crate) fn batch(run: &Run) -> String {
    let batch = run.made.batch.map(|id| id.to_string());
    batch.unwrap_or_default()
}

/// The batches of these runs that are not done.
pub(crate) fn batches<'a>(
    runs: impl Iterator<Item = &'a Run>,
    sight: &Sight<'_>,
) -> Vec<v1::BatchView> {
    let shown: HashSet<RunId> = runs.filter_map(|run| run.made.batch).collect();
    let is_shown = |batch: &RunId| shown.contains(batch);
    let unfinished = if shown.is_empty() {
        Vec::new()
    } else {
        Outlook::unfinished(sight.state, &sight.now)
    };
    let unfinished = unfinished.into_iter().filter(|(batch, _)| is_shown(batch));
    unfinished
        .map(|(batch, outlook)| v1::BatchView {
            batch: batch.to_string(),
            runs: outlook.runs,
            ended: outlook.ended,
            left_s: outlook.left_ms.map(|left_ms| left_ms as f64 / 1000.0),
            text: outlook.to_string(),
        })
        .collect()
}

/// Whether an ended run gets no more records.
pub(crate) fn settled(run: &Run) -> bool {
    run.phase().is_live() || run.is_told_whole()
}

fn cancel(run: &Run, sight: &Sight<'_>) -> String {
    let Some(cancel) = run.cancel() else {
        return String::new();
    };
    let asked = format!("abort asked {}", sight.clock(cancel.asked_ms));
    if cancel.delivered || sight.connected(run) {
        asked
    } else {
        format!("{asked}, node unreachable")
    }
}

/// A node's words for a run that it does not start because it is paused.
const PAUSED: &str = "paused";

fn waiting_for(run: &Run, held: Option<HoldReason<'_>>, sight: &Sight<'_>) -> String {
    if let Some(held) = held {
        let id = run.made.id.experiment;
        return if !held.needs_person() {
            held.to_string()
        } else if let HoldReason::Others(awaited) = held {
            let remedy = awaited.remedy().map(|remedy| format!("`{remedy}`, "));
            let remedy = remedy.unwrap_or_default();
            format!("{remedy}`neroman resume {id}` or `abort {id}`")
        } else {
            format!("`neroman resume {id}`, `start {id}` or `abort {id}`")
        };
    }
    match (run.phase(), run.after()) {
        (_, Some(number)) => format!("the end of run {}.{number}", run.made.id.experiment),
        (_, None) if run.unplaced() && !run.why().is_unknown() => sight.why_unplaced(run),
        (Phase::Submitted, None) if run.unheard() => {
            "the first word of its node: it was taken over".to_owned()
        }
        (_, None) if run.unplaced() => format!("a node of `{}`", run.made.node),
        (Phase::Running, None) if run.is_paused() => {
            let id = run.made.id.experiment;
            let cpus = if run.is_in_allocation() {
                "its cores, memory and GPUs stay taken"
            } else {
                "its memory and its GPUs stay taken, its CPUs are given to others"
            };
            format!("`neroman resume {id}`: {cpus}")
        }
        (_, None) if run.is_paused() => {
            let resume = format!("`neroman resume {}`", run.made.id.experiment);
            // Where it stands at a scheduler, which may not be able to hold it.
            match run.why().to_string() {
                why if why.is_empty() || why == PAUSED => resume,
                why => format!("{resume}: {why}"),
            }
        }
        (Phase::Pending, None) if !run.why().is_unknown() => {
            let why = run.why().to_string();
            match sight.before(run) {
                None => why,
                Some(0) => format!("{why} (next)"),
                Some(before) => format!("{why} ({before} before it)"),
            }
        }
        (Phase::Running, None) if let Some(step) = run.waits_for_step() => step,
        (Phase::Ending, None) if run.awaited_response().is_some() => {
            "its response by `on_error`".to_owned()
        }
        (Phase::Ending, None) if let Some(why) = run.end_hold() => why.to_owned(),
        (Phase::Queued | Phase::Staging | Phase::Pending | Phase::Running, None) => {
            run.why().to_string()
        }
        (_, None) => String::new(),
    }
}

/// The silence of a run's node: since when, and why.
fn contact(run: &Run, sight: &Sight<'_>) -> String {
    let Some(name) = run.node() else {
        return String::new();
    };
    let Some(node) = sight.nodes.of(name) else {
        return format!("node {name} is not configured any more");
    };
    if node.connected() {
        return String::new();
    }
    let handed = run.is_accepted();
    let since = match node.contact_ms.or(node.since_ms) {
        Some(since) if node.unheard() => format!("not heard of since {}", sight.clock(since)),
        Some(since) => format!("no contact since {}", sight.clock(since)),
        None if handed => "not heard of since the daemon was started".to_owned(),
        None => return String::new(),
    };
    let why = node.why_not();
    if !why.is_empty() {
        format!("{since} ({why})")
    } else if handed {
        since
    } else {
        String::new()
    }
}

/// Every series in one line each.
pub(crate) fn metrics(run: &Run) -> Vec<v1::MetricSummary> {
    run.metrics()
        .map(|(name, metric)| v1::MetricSummary {
            name: name.clone(),
            last: metric.last,
            step: metric.step,
            min: metric.min,
            max: metric.max,
            count: metric.count,
        })
        .collect()
}
