//! `List`: the picked experiments, as they are now.

pub(crate) mod rank;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use nero_expr::{Expr, Fact, NameKind, ParseContext, Scope as _, Value};
use nero_model::RunId;
use nero_views::totals::TotalsCounter;
use nero_wire::v1;

use self::window::Window;
use super::curve::bad;
use super::view::{self, Sight};
use crate::cells::{BookNow, BookObstacle};
use crate::service::files::code;
use crate::service::select::{ChosenRun, Selection, zone_of};
use crate::service::{Man, Sink, blocking};
use nero_home::clock::Clock;
use nero_home::failure::Failure;
use nero_home::ledger::{Audience, NoRoom};
use nero_life::now::PresentTime;
use nero_life::pasts::{self, Pasts};
use nero_life::run::Run;
use nero_life::scope;
use nero_life::state::State;
use nero_link::node::{NodeNow, NodeStates};

/// How long a call waits at most for ended runs to be settled.
const SETTLE: Duration = Duration::from_secs(5);

/// How long other lists wait at most for the last records of runs that have ended: a list right
/// behind `wait` has their metrics.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// Experiments of one part: about half a megabyte.
const PART_EXPERIMENTS: usize = 500;

/// What a restored home still waits for.
fn restored_note(state: &State, sight: &Sight<'_>) -> Option<String> {
    let restored = &state.restored;
    let nodes: Vec<&str> = restored.nodes.iter().map(String::as_str).collect();
    let at = sight.moment(restored.made_ms);
    (!nodes.is_empty()).then(|| {
        format!(
            "this home was restored from a backup of {at}: what waited then starts when {} told what it knows",
            nodes.join(", ")
        )
    })
}

/// What concerns the whole home.
fn home_notes(full: Option<&NoRoom>, sight: &Sight<'_>, now_ms: i64) -> Vec<String> {
    let state = sight.state;
    let full = full.map(|full| no_room(full, sight));
    let mut notes: Vec<String> = full.into_iter().collect();
    notes.extend(restored_note(state, sight));
    notes.extend(super::deliveries::notes(&state.post, sight, now_ms));
    notes
}

/// Each run of the experiments that were picked, oldest first; a run that was named alone.
fn all_runs(state: &State, chosen: &[ChosenRun]) -> Vec<ChosenRun> {
    let runs = |one: &ChosenRun| -> Vec<ChosenRun> {
        let runs = state.experiment(one.id).map_or(&[][..], |one| &one.runs);
        if one.run.is_some() || runs.is_empty() {
            return vec![one.clone()];
        }
        let numbers = runs.iter().map(|run| Some(run.made.id.number));
        numbers.map(|run| ChosenRun { id: one.id, run }).collect()
    };
    chosen.iter().flat_map(runs).collect()
}

/// Whether a list waits for what is about to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Sources are read again where the selection asks for them, and the last records of runs that
    /// have just ended are waited for.
    Awaited,
    /// As it is known: whoever watches hears of the rest when it is there.
    AsKnown,
}

/// An expression with its text.
type WrittenExpr = (String, Expr);

/// The experiments that were picked from one state, for their views.
pub(crate) struct Listing {
    state: Arc<State>,
    /// Those that are shown.
    chosen: Vec<ChosenRun>,
    /// All that were picked, where a window shows some of them.
    picked: Option<Vec<ChosenRun>>,
    has_totals: bool,
    nodes: NodeStates,
    zone: jiff::tz::TimeZone,
    clock: Clock,
    notes: Vec<String>,
    /// The facts of expressions that views contain besides.
    facts: Vec<Fact>,
    /// The expressions whose values they contain, as they were written.
    exprs: Vec<WrittenExpr>,
    /// The points that these need.
    pasts: Arc<Pasts>,
    books: BTreeMap<u64, BookNow>,
    /// The parameters of runs whose experiments have other ones by now.
    params: HashMap<RunId, Vec<v1::Param>>,
}

impl Listing {
    /// How many parts of this size there are; at least one.
    fn count(&self, size: usize) -> usize {
        self.chosen.len().div_ceil(size).max(1)
    }

    /// How many of those that were picked are live.
    pub(crate) fn live(&self) -> usize {
        let picked = self.picked().iter();
        let runs = picked.filter_map(|one| one.run_in(&self.state));
        runs.filter(|run| run.phase().is_live()).count()
    }

    /// How many were picked.
    pub(crate) fn total(&self) -> usize {
        self.picked().len()
    }

    /// All that were picked.
    fn picked(&self) -> &[ChosenRun] {
        self.picked.as_deref().unwrap_or(&self.chosen)
    }

    /// The tables of the experiments that have columns for results.
    fn workbooks(&self) -> Vec<v1::Workbook> {
        if self.books.is_empty() {
            return Vec::new();
        }
        let picked = self.picked().iter();
        let experiments = picked.filter_map(|chosen| self.state.experiment(chosen.id));
        let origins: BTreeSet<u64> = experiments.map(|one| one.source).collect();
        let books = self.books.iter();
        let books = books.filter(|(origin, _)| origins.contains(*origin));
        books.map(|(_, book)| workbook(book)).collect()
    }

    /// A part; the first one contains the notes, tables and batches.
    pub(crate) fn part(&self, index: usize, size: usize) -> v1::ListReply {
        let zone = self.zone.clone();
        let sight = Sight::new(&self.state, self.nodes.clone(), zone, self.clock);
        let from = index * size;
        let to = self.chosen.len().min(from.saturating_add(size));
        let chosen = &self.chosen[from..to];
        let mut experiments = views(chosen, &sight);
        for (view, chosen) in experiments.iter_mut().zip(chosen) {
            let run = chosen.run_in(&self.state);
            if let Some(params) = run.and_then(|run| self.params.get(&run.made.id)) {
                view.params.clone_from(params);
            }
        }
        if !self.facts.is_empty() || !self.exprs.is_empty() {
            let now = PresentTime {
                pasts: Arc::clone(&self.pasts),
                ..sight.now.clone()
            };
            for (view, chosen) in experiments.iter_mut().zip(chosen) {
                view.facts = facts_of(chosen, &self.facts, &self.exprs, sight.state, &now);
            }
        }
        let batches = match index {
            0 => {
                let picked = self.picked().iter();
                let runs = picked.filter_map(|one| one.run_in(&self.state));
                view::batches(runs, &sight)
            }
            _ => Vec::new(),
        };
        let has_totals = index == 0 && self.has_totals;
        v1::ListReply {
            experiments,
            batches,
            totals: has_totals.then(|| totals(self.picked(), &sight)),
            notes: match index {
                0 => self.notes.clone(),
                _ => Vec::new(),
            },
            workbooks: match index {
                0 => self.workbooks(),
                _ => Vec::new(),
            },
            nothing_set_up: self.state.experiments.is_empty(),
        }
    }
}

impl Man {
    /// The picked experiments, in one message.
    pub(crate) async fn list(&self, request: v1::ListRequest) -> Result<v1::ListReply, Failure> {
        let listing = self.listing(request, Freshness::Awaited).await?;
        blocking(move || listing.part(0, usize::MAX)).await
    }

    /// The picked experiments, in parts. The daemon holds few of them at a
    /// time, and no thread while the client does not read.
    pub(crate) async fn list_parts(
        &self,
        request: v1::ListRequest,
        sink: Sink<v1::ListReply>,
    ) -> Result<(), Failure> {
        let listing = Arc::new(self.listing(request, Freshness::Awaited).await?);
        for index in 0..listing.count(PART_EXPERIMENTS) {
            let listing = Arc::clone(&listing);
            let part = blocking(move || listing.part(index, PART_EXPERIMENTS)).await?;
            // The client has left.
            if sink.send(Ok(part)).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The parameters with which runs were started whose definitions were changed since.
    async fn own_params(
        &self,
        state: &State,
        chosen: &[ChosenRun],
    ) -> Result<HashMap<RunId, Vec<v1::Param>>, Failure> {
        let changed = chosen.iter().filter_map(|chosen| {
            let experiment = state.experiment(chosen.id)?;
            let run = chosen.of(experiment)?;
            experiment.is_edited_since(run).then_some(run.made.id)
        });
        let specs = self.ledger.specs(changed.collect()).await?;
        let read = specs.into_iter();
        // A spec that cannot be read is told of by `show`.
        Ok(read
            .filter_map(|(id, spec)| Some((id, spec.ok()?.params)))
            .collect())
    }

    /// What a request picks, once everything is known that it asks for; with notes about the
    /// sources that were read again.
    async fn fresh_selection(
        &self,
        selection: Option<v1::Selection>,
        settle: bool,
        freshness: Freshness,
    ) -> Result<(Selection, Vec<String>), Failure> {
        let mut selection = self.selection(selection, "all").await?;
        let mut notes = Vec::new();
        if selection.asks_sources() && freshness == Freshness::Awaited {
            notes = self.read_all_sources_again().await?;
        }
        if selection.asks_changed() {
            let (state, freezer) = (self.ledger.state(), self.freezer.clone());
            let changed = blocking(move || code::changed(&state, &freezer)).await?;
            selection = selection.with_code(&changed);
        }
        if settle {
            let chosen = selection.choose_from(&self.ledger.state()).await?.0;
            self.settle(&chosen).await;
        }
        Ok((selection, notes))
    }

    /// The expressions of a list's columns, and its window.
    fn read_expressions(
        &self,
        request: &v1::ListRequest,
    ) -> Result<(Vec<WrittenExpr>, Option<Window>), Failure> {
        let context = ParseContext::utc(self.clock.now_ms());
        let named = Arc::clone(&self.ledger.state().known_names);
        let is_name = |text: &str| is_known(&named, text);
        let exprs = expressions(&request.facts, &context, is_name)?;
        let asked = request.window.as_ref();
        let window = asked.map(|asked| Window::read(asked, &context, is_name));
        Ok((exprs, window.transpose()?))
    }

    pub(crate) async fn listing(
        &self,
        mut request: v1::ListRequest,
        freshness: Freshness,
    ) -> Result<Listing, Failure> {
        let zone = zone_of(request.selection.as_ref());
        let selection = request.selection.take();
        let selection = self.fresh_selection(selection, request.settle, freshness);
        let (selection, mut notes) = selection.await?;
        let facts = request.facts.iter();
        let facts: Vec<Fact> = facts.filter_map(|word| Fact::from_word(word)).collect();
        let (exprs, window) = self.read_expressions(&request)?;
        let state = self.ledger.state();
        let nodes = self.nodes.known();
        let full = self.ledger.no_room();
        let books = self.books.now();
        self.ledger.durable().await?;
        let clock = self.clock;
        let (state, mut chosen, picked) = blocking(move || {
            let (mut chosen, picked) = selection.choose(&state)?;
            if request.all_runs {
                chosen = all_runs(&state, &chosen);
            }
            Ok::<_, Failure>((state, chosen, picked))
        })
        .await??;
        let state = if request.settle || freshness == Freshness::AsKnown {
            state
        } else {
            self.with_last_records(state, &chosen).await
        };
        let sorted = window.as_ref().and_then(Window::expr);
        let asked = exprs.iter().map(|(_, expr)| expr).chain(sorted);
        let asked = asked.flat_map(Expr::named_pasts);
        let runs = chosen.iter().filter_map(|one| one.run_in(&state));
        let wanted = pasts::wanted(asked, runs);
        let pasts = crate::pasts::read(&self.ledger, &self.home, &state, wanted).await?;
        let all_picked = window.is_some().then(|| chosen.clone());
        if let Some(window) = window {
            let now = PresentTime {
                pasts: Arc::clone(&pasts),
                ..nodes.now(clock)
            };
            let known = Arc::clone(&state);
            chosen = blocking(move || window.cut(&known, &now, chosen)).await?;
        }
        let params = self.own_params(&state, &chosen).await?;
        blocking(move || {
            let sight = Sight::new(&state, nodes.clone(), zone.clone(), clock);
            notes.extend(home_notes(full.as_ref(), &sight, clock.now_ms()));
            notes.extend(picked.notes);
            Ok(Listing {
                state,
                chosen,
                picked: all_picked,
                has_totals: request.totals,
                nodes,
                zone,
                clock,
                notes,
                facts,
                exprs,
                pasts,
                books,
                params,
            })
        })
        .await?
    }

    /// Waits until the ended runs among these are settled and the runs that
    /// were taken over are known; not longer than `SETTLE`.
    pub(crate) async fn settle(&self, chosen: &[ChosenRun]) {
        let is_done = |run: &Run| {
            let is_processed = run.is_processed() || run.phase().is_live();
            view::settled(run) && is_processed && !run.unheard()
        };
        self.wait_for(chosen, SETTLE, is_done).await;
    }

    /// The state once the last records of the runs that have ended by now are in it; not later than
    /// `LAST_RECORDS`.
    async fn with_last_records(&self, state: Arc<State>, chosen: &[ChosenRun]) -> Arc<State> {
        let known = self.nodes.known();
        let ended = chosen.iter().filter(|one| {
            let run = one.run_in(&state);
            run.is_some_and(|run| !is_awaited_in_vain(run, &known) && !view::settled(run))
        });
        let ended: Vec<ChosenRun> = ended.cloned().collect();
        if ended.is_empty() {
            return state;
        }
        self.wait_for(&ended, LAST_RECORDS, view::settled).await;
        self.ledger.state()
    }

    async fn wait_for(
        &self,
        chosen: &[ChosenRun],
        at_most: Duration,
        is_done: impl Fn(&Run) -> bool,
    ) {
        let mut states = self.ledger.watch(Audience::Runs);
        let known = self.nodes.known();
        let done = async {
            loop {
                let state = states.state();
                let mut runs = chosen.iter().filter_map(|one| one.run_in(&state));
                let are_done = runs.all(|run| is_done(run) || is_awaited_in_vain(run, &known));
                if are_done || states.changed().await.is_err() {
                    return;
                }
            }
        };
        // Runs that are not done by then are shown as they are.
        let _ = tokio::time::timeout(at_most, done).await;
    }
}

/// Whether a parameter or a metric has this name.
fn is_known(named: &BTreeSet<(NameKind, String)>, text: &str) -> bool {
    let kinds = [NameKind::Metric, NameKind::Param];
    kinds
        .map(|kind| (kind, text.to_owned()))
        .iter()
        .any(|name| named.contains(name))
}

/// The expressions among words that are no facts. `is_name`: whether a parameter or a metric has
/// this name, which then need not be an expression: views have what is called so.
fn expressions(
    words: &[String],
    context: &ParseContext,
    is_name: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Expr)>, Failure> {
    let exprs = words.iter().filter(|text| Fact::from_word(text).is_none());
    exprs
        .filter_map(|text| match Expr::parse_value(text, context) {
            Ok(expr) => Some(Ok((text.clone(), expr))),
            Err(_) if is_name(text) => None,
            Err(error) => Some(Err(bad(text, &error))),
        })
        .collect()
}

fn workbook(book: &BookNow) -> v1::Workbook {
    let mut view = v1::Workbook {
        file: book.file.display().to_string(),
        live: book
            .live
            .as_ref()
            .map_or_else(String::new, |path| path.display().to_string()),
        left: book.left as u64,
        ..v1::Workbook::default()
    };
    match &book.obstacle {
        None => {}
        Some(BookObstacle::Refused { why, hint }) => {
            view.why.clone_from(why);
            view.hint.clone_from(hint);
        }
        Some(BookObstacle::Open(open)) => {
            view.lock = Some(v1::WorkbookLock {
                program: open.program.clone(),
                path: open.lock.display().to_string(),
                owner: open.owner.clone().unwrap_or_default(),
                host: open.host.clone().unwrap_or_default(),
                since_ms: open.since_ms.unwrap_or_default(),
                left_behind: open.is_left_behind,
            });
        }
    }
    view
}

/// The line about the lack of room: since when, and what to do.
pub(crate) fn no_room(full: &NoRoom, sight: &Sight<'_>) -> String {
    let NoRoom { since_ms, failure } = full;
    format!(
        "{failure} since {}: {}",
        sight.clock(*since_ms),
        failure.hint_text()
    )
}

/// Whether the node of a run is out of reach, or does not know the run.
fn is_awaited_in_vain(run: &Run, known: &NodeStates) -> bool {
    let node = run.node().and_then(|node| known.of(node));
    run.forgotten() || node.is_none_or(NodeNow::out_of_reach)
}

/// The facts and values of expressions for one of these; unknown ones are left out.
fn facts_of(
    chosen: &ChosenRun,
    facts: &[Fact],
    exprs: &[(String, Expr)],
    state: &State,
    now: &PresentTime,
) -> Vec<v1::FactValue> {
    let Some(experiment) = state.experiment(chosen.id) else {
        return Vec::new();
    };
    let scope = scope::Sight {
        experiment,
        run: chosen.of(experiment),
        now,
    };
    let of_facts = facts.iter().map(|fact| (fact.as_str(), scope.fact(*fact)));
    let of_exprs = exprs.iter().filter_map(|(text, expr)| {
        // What a name means may differ from run to run, and may be nothing.
        let bindings = expr.bind(&scope).ok()?;
        Some((text.as_str(), expr.value(&bindings, &scope)))
    });
    let values = of_facts.chain(of_exprs).filter_map(|(name, value)| {
        let value = match value {
            Value::Unknown => return None,
            Value::Bool(truth, _) => v1::fact_value::Value::Text(truth.to_string()),
            Value::Number(number, _) => v1::fact_value::Value::Number(number),
            Value::Text(text) => v1::fact_value::Value::Text(text.to_owned()),
            Value::Time(ms) => v1::fact_value::Value::Number(ms as f64 / 1000.0),
        };
        Some(v1::FactValue {
            name: name.to_owned(),
            value: Some(value),
        })
    });
    values.collect()
}

/// What the chosen experiments have in common.
pub(crate) fn totals(chosen: &[ChosenRun], sight: &Sight<'_>) -> v1::Totals {
    let mut counter = TotalsCounter::default();
    for chosen in chosen {
        if let Some(experiment) = sight.state.experiment(chosen.id) {
            counter.add(&view::standing_of(experiment, chosen.of(experiment), sight));
        }
    }
    counter.finish()
}

/// The views of the chosen experiments.
pub(crate) fn views(chosen: &[ChosenRun], sight: &Sight<'_>) -> Vec<v1::ExperimentView> {
    chosen
        .iter()
        .filter_map(|chosen| {
            let experiment = sight.state.experiment(chosen.id)?;
            Some(view::experiment(experiment, chosen.of(experiment), sight))
        })
        .collect()
}
