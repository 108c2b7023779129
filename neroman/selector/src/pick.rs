//! Picking: each element looked up among the experiments, and the union of all.

use nero_expr::{
    Expr, ExprError, Fact, Glob, Pick, Scope as _, Span, State, Truth, Value, is_name_char,
};

use crate::catalogue::Catalogue;
use crate::element::{Element, ElementMeaning, Selector, Word, quoted_name};
use crate::error::{SelectorError, SelectorErrorKind};
use crate::scope::{LocatedRow, blocks_of, has_block, has_name};

/// The experiments and runs that a selector picked.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PickResult {
    /// Numbers of the experiments, ascending, each once.
    pub ids: Vec<u64>,
    /// Their rows in the catalogue, in the same order.
    pub rows: Vec<usize>,
    /// Runs that were picked by themselves (`144.2`), in the order written; their
    /// experiments are not in `ids`.
    pub runs: Vec<PickedRun>,
    /// The experiments of `ids` that are no longer in their source and were
    /// picked by number or name.
    pub gone: Vec<u64>,
    /// Notes for a person, a line each: gaps in ranges, names in several
    /// collections, elements that picked nothing.
    pub notes: Vec<String>,
    /// Whether an id, a name, a state or an expression was written, and not just
    /// `all`, `last` or `*`. Without it destructive verbs want `--yes`.
    pub explicit: bool,
}

/// A run that was picked by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickedRun {
    /// Number of the experiment.
    pub id: u64,
    /// Number of the run, from 1.
    pub attempt: u32,
    /// Place of the run in the selector.
    pub span: Span,
}

impl PickResult {
    /// Whether nothing was picked.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.runs.is_empty()
    }

    /// Refuses runs, for verbs where only whole experiments make sense.
    pub fn without_runs(self) -> Result<PickResult, SelectorError> {
        let Some(run) = self.runs.first() else {
            return Ok(self);
        };
        let (id, attempt) = (run.id, run.attempt);
        let message = format!("{id}.{attempt} is a run, and an experiment is needed here");
        let error = SelectorError::new(SelectorErrorKind::Syntax, run.span, message);
        Err(error.hint(format!("write `{id}`")))
    }
}

impl Selector {
    /// Picks from `catalogue`.
    ///
    /// Errors: an id, a range or a name that picks nothing; and, when no
    /// experiment has the text as its name, mistakes in an expression. A state
    /// or an expression may pick nothing, which is noted.
    pub fn pick(&self, catalogue: &impl Catalogue) -> Result<PickResult, SelectorError> {
        let mut picking = PickBuilder {
            catalogue,
            rows: vec![false; catalogue.len()],
            left_out: Vec::new(),
            named_gone: Vec::new(),
            picked: PickResult::default(),
        };
        for element in &self.elements {
            picking.element(element)?;
        }
        picking.note_left_out();
        let PickBuilder {
            rows,
            mut picked,
            mut named_gone,
            ..
        } = picking;
        named_gone.sort_unstable();
        named_gone.dedup();
        picked.gone = named_gone.iter().map(|&row| catalogue.id(row)).collect();
        let chosen = rows.iter().enumerate().filter(|&(_, &is_picked)| is_picked);
        picked.rows = chosen.map(|(row, _)| row).collect();
        picked.ids = picked.rows.iter().map(|&row| catalogue.id(row)).collect();
        Ok(picked)
    }
}

impl Selector {
    /// Each expression that asks of the past of metrics, with the rows for which nothing else
    /// decides it. `catalogue` has no past: what is decided without it stays so, since unknown
    /// is never true or false. Mistakes are left to [`Selector::pick`].
    pub fn undecided(&self, catalogue: &impl Catalogue) -> Vec<(&Expr, Vec<usize>)> {
        let with_past = self.exprs().filter(|expr| expr.pasts().next().is_some());
        let mut found = Vec::new();
        for expr in with_past {
            let Ok(candidates) = expr.candidates(true, |visit| catalogue.visit_names(visit)) else {
                continue;
            };
            let blocks = blocks_of(expr, catalogue);
            let is_open = |row: &usize| {
                let truth =
                    expr.eval_among(&candidates, &LocatedRow::new(catalogue, *row, &blocks));
                truth == Truth::Unknown
            };
            found.push((expr, (0..catalogue.len()).filter(is_open).collect()));
        }
        found
    }
}

/// A selection in the making.
pub(crate) struct PickBuilder<'c, C> {
    pub catalogue: &'c C,
    /// Whether each row is picked.
    pub rows: Vec<bool>,
    /// Rows that an element fits and leaves out, since they are no longer in
    /// their source.
    left_out: Vec<usize>,
    /// Rows picked by number or name that are no longer in their source.
    pub named_gone: Vec<usize>,
    pub picked: PickResult,
}

impl<C: Catalogue> PickBuilder<'_, C> {
    fn element(&mut self, element: &Element) -> Result<(), SelectorError> {
        match &element.meaning {
            ElementMeaning::Name(name) => {
                self.picked.explicit = true;
                let span = element.span;
                self.named(name, None)
                    .or_else(|| self.made_by(name, None))
                    .ok_or_else(|| self.unknown_name(name, span))
            }
            ElementMeaning::Digits(pick) => self.digits(pick, None, element.span),
            ElementMeaning::Word(word) => {
                self.mark_word(*word, None, &element.text);
                Ok(())
            }
            ElementMeaning::Tag(expr) => self.expression(expr, element),
            ElementMeaning::Open(expr) => self.open(element, expr.as_ref().as_ref()),
        }
    }

    /// Rules (4) to (7), tried against the experiments.
    fn open(
        &mut self,
        element: &Element,
        expr: Result<&Expr, &ExprError>,
    ) -> Result<(), SelectorError> {
        let (text, span) = (element.text.as_str(), element.span);
        if self.named(text, None).is_some() {
            self.picked.explicit = true;
            return Ok(());
        }
        if self.made_by(text, None).is_some() {
            self.picked.explicit = true;
            return Ok(());
        }
        if self.in_collection(text, span)? {
            return Ok(());
        }
        if is_glob(text) {
            let glob = Glob::new(text);
            return self
                .glob(&glob, None)
                .ok_or_else(|| self.unknown_name(text, span));
        }
        let expr = expr.map_err(|error| {
            let error = SelectorError::in_expression(error.clone(), span.start);
            self.perhaps_a_name(text, error)
        })?;
        self.expression(expr, element)
    }

    /// Marks the rows that fit and are in their source; returns how many.
    fn mark_present(
        &mut self,
        collection: Option<&str>,
        fits: impl Fn(&C, usize) -> bool,
    ) -> usize {
        let catalogue = self.catalogue;
        let mut gone = Vec::new();
        let mut count = 0;
        for (row, is_picked) in self.rows.iter_mut().enumerate() {
            let inside = collection.is_none_or(|name| catalogue.collection(row) == name);
            if !inside || !fits(catalogue, row) {
                continue;
            }
            if catalogue.is_gone(row) {
                gone.push(row);
                continue;
            }
            *is_picked = true;
            count += 1;
        }
        self.left_out.extend(gone);
        count
    }

    /// Marks the rows that fit; returns how many there are.
    fn mark(&mut self, collection: Option<&str>, fits: impl Fn(&C, usize) -> bool) -> usize {
        let mut count = 0;
        for (row, is_picked) in self.rows.iter_mut().enumerate() {
            let inside = collection.is_none_or(|name| self.catalogue.collection(row) == name);
            if inside && fits(self.catalogue, row) {
                *is_picked = true;
                count += 1;
            }
        }
        count
    }

    /// Picks the experiments of exactly this name, in all collections; several
    /// collections are noted. `None` when there is no such experiment.
    fn named(&mut self, name: &str, collection: Option<&str>) -> Option<()> {
        let catalogue = self.catalogue;
        let inside = |row: &usize| collection.is_none_or(|one| catalogue.collection(*row) == one);
        let mut found = catalogue.named(name);
        found.retain(inside);
        for &row in &found {
            self.rows[row] = true;
            if catalogue.is_gone(row) {
                self.named_gone.push(row);
            }
        }
        if found.len() > 1 {
            self.note_namesakes(name, &found);
        }
        (!found.is_empty()).then_some(())
    }

    /// Picks the experiments that a `+block` of this name made; `None` when
    /// there is none.
    fn made_by(&mut self, block: &str, collection: Option<&str>) -> Option<()> {
        let fits = |catalogue: &C, row| catalogue.block(row) == block;
        (self.mark_present(collection, fits) > 0).then_some(())
    }

    fn note_namesakes(&mut self, name: &str, those: &[usize]) {
        let catalogue = self.catalogue;
        let mut collections: Vec<&str> =
            those.iter().map(|&row| catalogue.collection(row)).collect();
        collections.sort_unstable();
        collections.dedup();
        let note = if collections.len() == those.len() {
            let (count, listed) = (collections.len(), collections.join(", "));
            format!("`{name}` is an experiment of {count} collections: {listed}")
        } else {
            let (count, listed) = (those.len(), self.numbers(those));
            format!("`{name}` is the name of {count} experiments: {listed}")
        };
        self.note(note);
    }

    /// The numbers of these rows as a selector, `6-50, 61`; a long one is cut.
    fn numbers(&self, rows: &[usize]) -> String {
        /// More parts than this are left out.
        const PARTS_MAX: usize = 8;
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for id in rows.iter().map(|&row| self.catalogue.id(row)) {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == id => *last = id,
                Some(_) | None => parts.push((id, id)),
            }
        }
        let shown = parts.iter().take(PARTS_MAX);
        let mut shown: Vec<String> = shown
            .map(|(first, last)| {
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect();
        if parts.len() > PARTS_MAX {
            shown.push("…".to_owned());
        }
        shown.join(", ")
    }

    /// Adds one note for all rows that the elements fit and leave out.
    fn note_left_out(&mut self) {
        let mut left_out = std::mem::take(&mut self.left_out);
        left_out.retain(|&row| !self.rows[row]);
        left_out.sort_unstable();
        left_out.dedup();
        if left_out.is_empty() {
            return;
        }
        let (count, listed) = (left_out.len(), self.numbers(&left_out));
        self.note(format!(
            "left out, no longer in their source: {count} ({listed}); their numbers or `gone` pick them, `neroman rm gone` ends this line"
        ));
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.picked.notes.contains(&note) {
            self.picked.notes.push(note);
        }
    }

    /// `None` when no name fits.
    fn glob(&mut self, glob: &Glob, collection: Option<&str>) -> Option<()> {
        self.picked.explicit |= !glob.is_only_wildcards();
        let before = self.left_out.len();
        let fits = |catalogue: &C, row| glob.fits(catalogue.name(row));
        let found = self.mark_present(collection, fits);
        (found > 0 || self.left_out.len() > before).then_some(())
    }

    fn mark_word(&mut self, word: Word, collection: Option<&str>, written: &str) {
        let found = match word {
            Word::All => self.mark_present(collection, |_, _| true),
            Word::Last => self.mark_present(collection, |catalogue, row| catalogue.is_last(row)),
            Word::State(State::Changed) => {
                self.picked.explicit = true;
                self.mark_present(collection, |catalogue, row| {
                    catalogue.is_changed(row) == Some(true)
                })
            }
            Word::State(State::Gone) => {
                self.picked.explicit = true;
                self.mark(collection, Catalogue::is_gone)
            }
            Word::State(state) => {
                self.picked.explicit = true;
                self.mark_present(collection, |catalogue, row| {
                    state.covers(catalogue.state(row)) == Some(true)
                })
            }
        };
        if found == 0 {
            self.note(format!("`{written}` picks nothing"));
        }
    }

    /// Rule (5): `collection/` before digits, a word, a name or a glob. Returns
    /// whether the text had this form.
    fn in_collection(&mut self, text: &str, span: Span) -> Result<bool, SelectorError> {
        let slashes: Vec<usize> = text.match_indices('/').map(|(at, _)| at).collect();
        for at in slashes.into_iter().rev() {
            let (collection, rest) = (&text[..at], &text[at + 1..]);
            if collection.is_empty() || rest.is_empty() || !self.has_collection(collection) {
                continue;
            }
            let inside = Some(collection);
            if let Some(name) = quoted_name(rest) {
                self.picked.explicit = true;
                return match self.named(&name, inside) {
                    Some(()) => Ok(true),
                    None => Err(self.unknown_in_collection(collection, &name, span)),
                };
            }
            if let Some(pick) = Pick::from_digits(rest) {
                let place = Span::new(span.start + at + 1, span.end);
                let syntax = |why| SelectorError::new(SelectorErrorKind::Syntax, place, why);
                self.digits(&pick.map_err(syntax)?, inside, span)?;
                return Ok(true);
            }
            if let Some(word) = Word::from_text(rest) {
                self.mark_word(word, inside, text);
                return Ok(true);
            }
            if let Some(tag) = rest.strip_prefix("tag:").filter(|tag| is_glob(tag)) {
                let tag = Glob::new(tag);
                let found = self.mark_present(inside, |catalogue, row| {
                    let tags = catalogue.scope(row);
                    let fits = |tags: &str| tags.split_whitespace().any(|one| tag.fits(one));
                    matches!(tags.fact(Fact::Tag), Value::Text(tags) if fits(tags))
                });
                self.picked.explicit = true;
                if found == 0 {
                    self.note(format!("`{text}` picks nothing"));
                }
                return Ok(true);
            }
            if self.named(rest, inside).is_some() || self.made_by(rest, inside).is_some() {
                self.picked.explicit = true;
                return Ok(true);
            }
            if is_glob(rest) {
                return match self.glob(&Glob::new(rest), inside) {
                    Some(()) => Ok(true),
                    None => Err(self.unknown_in_collection(collection, rest, span)),
                };
            }
        }
        Ok(false)
    }

    fn has_collection(&self, name: &str) -> bool {
        (0..self.catalogue.len()).any(|row| self.catalogue.collection(row) == name)
    }

    /// Rule (7).
    fn expression(&mut self, expr: &Expr, element: &Element) -> Result<(), SelectorError> {
        let offset = element.span.start;
        self.picked.explicit = true;
        for pick in expr.picks() {
            self.check_operand(&pick.pick, pick.span.shifted(offset))?;
        }
        let mut states = (0..self.catalogue.len()).map(|row| self.catalogue.state(row));
        let has_live = states.any(|state| State::Live.covers(state) == Some(true));
        let candidates = expr
            .candidates(has_live, |visit| self.catalogue.visit_names(visit))
            .map_err(|error| self.perhaps_an_operand(error, element))?;
        for name in candidates.unprinted() {
            self.note(format!(
                "no run has printed `{name}` yet: it is unknown so far"
            ));
        }
        let mut found = 0;
        let catalogue = self.catalogue;
        let blocks = blocks_of(expr, catalogue);
        let names_gone = expr.uses_state(State::Gone);
        let named = |row| {
            expr.picks().iter().any(|pick| match &pick.pick {
                Pick::All | Pick::Last => false,
                Pick::Name(name) => catalogue.name(row) == &**name,
                pick @ (Pick::Id(_) | Pick::Range { .. } | Pick::Run { .. }) => {
                    pick.has_id(catalogue.id(row)) == Some(true)
                }
            })
        };
        for (row, is_picked) in self.rows.iter_mut().enumerate() {
            let is_gone = catalogue.is_gone(row);
            let is_named = is_gone && named(row);
            let is_left_out = is_gone && !is_named && !names_gone;
            let truth = expr.eval_among(&candidates, &LocatedRow::new(catalogue, row, &blocks));
            if let Some(conflict) = candidates.take_conflict(expr) {
                let mut error = SelectorError::in_expression(conflict.error, offset);
                let id = self.catalogue.id(row);
                error.message = format!("{} in experiment {id}", error.message);
                return Err(error);
            }
            if truth.is_true() && is_left_out {
                self.left_out.push(row);
            } else if truth.is_true() {
                *is_picked = true;
                found += 1;
                if is_named {
                    self.named_gone.push(row);
                }
            }
        }
        if let Some(error) = candidates.no_condition(expr) {
            return Err(SelectorError::in_expression(error, offset));
        }
        if found == 0 {
            self.note(format!("`{}` picks nothing", element.text));
        }
        Ok(())
    }

    /// The error of an expression, with the backticks that a name of an experiment or a
    /// block needs in it.
    fn perhaps_an_operand(&self, error: ExprError, element: &Element) -> SelectorError {
        let word = error.span.of(&element.text);
        let is_name = has_name(self.catalogue, word) || has_block(self.catalogue, word);
        let hint = format!("inside a condition a name stands in backticks: `` `{word}` ``");
        let error = SelectorError::in_expression(error, element.span.start);
        if is_name && error.kind == SelectorErrorKind::Name {
            error.hint(hint)
        } else {
            error
        }
    }

    /// An id, a range or a name inside an expression has to mean something.
    fn check_operand(&mut self, pick: &Pick, span: Span) -> Result<(), SelectorError> {
        match pick {
            Pick::Id(_) | Pick::Range { .. } | Pick::Run { .. } => {
                self.digit_rows(pick, None, span).map(drop)
            }
            Pick::All | Pick::Last => Ok(()),
            Pick::Name(name) => {
                if has_name(self.catalogue, name) || has_block(self.catalogue, name) {
                    Ok(())
                } else {
                    Err(self.unknown_name(name, span))
                }
            }
        }
    }
}

/// Rule (6): only name characters and wildcards.
fn is_glob(text: &str) -> bool {
    text.chars()
        .all(|c| is_name_char(c) || matches!(c, '*' | '?'))
}
