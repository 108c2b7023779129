//! Turns the text of a selection into the experiments and runs that it picks.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::tz::TimeZone;
use nero_expr::{Fact, ParseContext, State as Word};
use nero_model::ExperimentId;
use nero_selector::{PickResult, Selector, SelectorError, SelectorErrorKind};
use nero_wire::v1;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_life::experiment::Experiment;
use nero_life::now::PresentTime;
use nero_life::pasts::{self, Pasts};
use nero_life::pick::Rows;
use nero_life::run::Run;
use nero_life::state::State;

/// Evaluating a selection over this many experiments takes less than a
/// millisecond. A thread that is woken on a busy machine begins later than that.
const AT_ONCE: usize = 1000;

/// A selection that was read and not evaluated yet.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    text: String,
    selector: Selector,
    other_code: Arc<HashSet<ExperimentId>>,
    now: PresentTime,
}

/// One picked experiment, and the run of it that is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChosenRun {
    pub id: ExperimentId,
    /// The named run; `None` for the current one.
    pub run: Option<u32>,
}

impl ChosenRun {
    /// The run that is meant.
    pub(crate) fn of<'a>(&self, experiment: &'a Experiment) -> Option<&'a Run> {
        match self.run {
            Some(number) => experiment.run(number),
            None => experiment.current(),
        }
    }

    /// The run that is meant, if the state has its experiment.
    pub(crate) fn run_in<'a>(&self, state: &'a State) -> Option<&'a Run> {
        self.of(state.experiment(self.id)?)
    }
}

/// The zone of the person who typed the selection; UTC when the name is unknown
/// and there is no offset.
pub(crate) fn zone(name: &str, utc_offset_s: u32) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|_| {
        jiff::tz::Offset::from_seconds(i32::try_from(utc_offset_s).unwrap_or(0))
            .map_or(TimeZone::UTC, TimeZone::fixed)
    })
}

/// Reads a selection; an empty text is `empty`.
///
/// # Errors
/// When the text is no selector; the failure names the place.
pub(crate) fn read(
    selection: Option<v1::Selection>,
    empty: &str,
    now: PresentTime,
) -> Result<Selection, Failure> {
    let given = selection.unwrap_or_default();
    let text = match given.text.trim() {
        "" => empty.to_owned(),
        text => text.to_owned(),
    };
    if text.is_empty() {
        return Err(Failure::usage("nothing is selected")
            .hint("name experiments, for example 1-3, crashed, or all"));
    }
    let context = ParseContext::new(now.ms, zone(&given.zone, given.utc_offset_s));
    let selector = Selector::parse(&text, &context).map_err(|error| bad(&text, &error))?;
    Ok(Selection {
        text,
        selector,
        other_code: Arc::default(),
        now,
    })
}

impl Man {
    /// Reads a selection as [`read`], and the points that its expressions ask for.
    ///
    /// # Errors
    /// See [`read`]; when points cannot be read.
    pub(crate) async fn selection(
        &self,
        selection: Option<v1::Selection>,
        empty: &str,
    ) -> Result<Selection, Failure> {
        let mut selection = read(selection, empty, self.now())?;
        let state = self.ledger.state();
        let wanted = if state.experiments.len() > AT_ONCE && selection.asks_points() {
            let (selection, state) = (selection.clone(), Arc::clone(&state));
            blocking(move || selection.wanted(&state)).await?
        } else {
            selection.wanted(&state)
        };
        selection.now.pasts = crate::pasts::read(&self.ledger, &self.home, &state, wanted).await?;
        Ok(selection)
    }
}

impl Selection {
    /// Whether the text is `all`.
    pub(crate) fn is_all(&self) -> bool {
        self.text == "all"
    }

    /// Whether an expression asks for more of the past than runs have among their facts.
    fn asks_points(&self) -> bool {
        let mut asked = self.selector.named_pasts();
        asked.any(|(_, past)| pasts::needs_points(past))
    }

    /// The points that the expressions need: those of experiments which nothing else decides.
    fn wanted(&self, state: &State) -> Pasts {
        let mut wanted = Pasts::default();
        if !self.asks_points() {
            return wanted;
        }
        // Sources that are read again may change what decides.
        if self.asks_sources() {
            let runs = state.experiments.iter().filter_map(|one| one.current());
            wanted.want_all(self.selector.named_pasts(), runs);
            return wanted;
        }
        for rows in [Rows::of(state, &self.now), Rows::removed(state, &self.now)] {
            for (expr, undecided) in self.selector.undecided(&rows) {
                wanted.want_all(expr.named_pasts(), rows.runs(&undecided));
            }
        }
        wanted
    }

    /// Whether sources have to be read again before the evaluation.
    pub(crate) fn asks_sources(&self) -> bool {
        self.selector.uses_fact(Fact::Tmod) || self.asks_changed()
    }

    /// Whether the code has to be compared, too: [`Selection::with_code`].
    pub(crate) fn asks_changed(&self) -> bool {
        self.selector.uses_state(Word::Changed)
    }

    /// The selection with the experiments whose code differs from that of their
    /// newest run.
    pub(crate) fn with_code(&self, changed: &HashSet<ExperimentId>) -> Self {
        Self {
            other_code: Arc::new(changed.clone()),
            ..self.clone()
        }
    }

    /// Evaluates the selection.
    ///
    /// # Errors
    /// When an id, a range or a name picks nothing, or an expression is wrong.
    pub(crate) fn pick(&self, state: &State) -> Result<PickResult, Failure> {
        let rows = Rows::of(state, &self.now).with_code(&self.other_code);
        self.selector.pick(&rows).map_err(|error| {
            let failure = bad(&self.text, &error);
            match self.removed_at(&error, state) {
                Some(removed) => failure.hint_names(format!(
                    "it was removed: `neroman rm --undo {removed}` brings it back"
                )),
                None => failure,
            }
        })
    }

    /// The part of the text that picks nothing, if it names hidden experiments.
    fn removed_at(&self, error: &SelectorError, state: &State) -> Option<&str> {
        if error.kind != SelectorErrorKind::Nothing {
            return None;
        }
        let part = self.text.get(error.span.start..error.span.end)?;
        let context = ParseContext::new(self.now.ms, TimeZone::UTC);
        let selector = Selector::parse(part, &context).ok()?;
        let hidden = selector.pick(&Rows::removed(state, &self.now)).ok()?;
        (!hidden.is_empty()).then_some(part)
    }

    /// Evaluates the selection among hidden experiments.
    ///
    /// # Errors
    /// Also when a run was named.
    pub(crate) fn removed(
        &self,
        state: &State,
    ) -> Result<(Vec<ExperimentId>, PickResult), Failure> {
        let picked = self
            .selector
            .pick(&Rows::removed(state, &self.now))
            .and_then(PickResult::without_runs)
            .map_err(|error| {
                let is_shown = error.kind == SelectorErrorKind::Nothing && self.pick(state).is_ok();
                if is_shown {
                    Failure::usage(format!("`{}` picks nothing that was removed", self.text))
                        .hint("`--undo` brings back what `neroman rm` hid")
                } else {
                    bad(&self.text, &error)
                }
            })?;
        let ids = picked.ids.iter().map(|id| ExperimentId(*id)).collect();
        Ok((ids, picked))
    }

    /// Evaluates the selection where runs make sense.
    ///
    /// # Errors
    /// See [`Selection::pick`].
    pub(crate) fn choose(&self, state: &State) -> Result<(Vec<ChosenRun>, PickResult), Failure> {
        let picked = self.pick(state)?;
        let mut chosen: Vec<ChosenRun> = picked
            .ids
            .iter()
            .map(|id| ChosenRun {
                id: ExperimentId(*id),
                run: None,
            })
            .collect();
        chosen.extend(picked.runs.iter().map(|run| ChosenRun {
            id: ExperimentId(run.id),
            run: Some(run.attempt),
        }));
        chosen.sort_by_key(|chosen| (chosen.id, chosen.run));
        Ok((chosen, picked))
    }

    /// As [`Selection::choose`]; off the reactor when there are many experiments.
    ///
    /// # Errors
    /// See [`Selection::pick`].
    pub(crate) async fn choose_from(
        &self,
        state: &Arc<State>,
    ) -> Result<(Vec<ChosenRun>, PickResult), Failure> {
        if state.experiments.len() <= AT_ONCE {
            return self.choose(state);
        }
        let (selection, state) = (self.clone(), Arc::clone(state));
        blocking(move || selection.choose(&state)).await?
    }

    /// Evaluates the selection where only experiments make sense.
    ///
    /// # Errors
    /// Also when a run was named.
    pub(crate) fn experiments(
        &self,
        state: &State,
    ) -> Result<(Vec<ExperimentId>, PickResult), Failure> {
        let picked = self.pick(state)?.without_runs();
        let picked = picked.map_err(|error| bad(&self.text, &error))?;
        let ids = picked.ids.iter().map(|id| ExperimentId(*id)).collect();
        Ok((ids, picked))
    }
}

fn bad(text: &str, error: &SelectorError) -> Failure {
    let failure =
        Failure::usage(error.message.clone()).report(nero_expr::point_at(text, error.span));
    match &error.hint {
        Some(hint) if error.hint_names => failure.hint_names(hint.clone()),
        Some(hint) => failure.hint(hint.clone()),
        None => failure,
    }
}

/// The one experiment or run that a text names: `144`, `144.2`, or a name.
///
/// # Errors
/// When it picks none, or several.
pub(crate) fn choose_single(
    state: &State,
    what: &str,
    now: PresentTime,
) -> Result<ChosenRun, Failure> {
    let selection = v1::Selection {
        text: what.to_owned(),
        ..v1::Selection::default()
    };
    let (chosen, _) = read(Some(selection), "", now)?.choose(state)?;
    match chosen.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::usage(format!("`{what}` picks nothing"))),
        [first, ..] => Err(Failure::usage(format!(
            "`{what}` picks {} experiments, and one is needed here",
            chosen.len()
        ))
        .hint(format!("for example {}", first.id))),
    }
}

/// The zone of the person who typed the selection.
pub(crate) fn zone_of(selection: Option<&v1::Selection>) -> TimeZone {
    selection.map_or(TimeZone::UTC, |given| zone(&given.zone, given.utc_offset_s))
}
