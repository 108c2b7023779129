//! Errors for elements that pick nothing, with the nearest name as a
//! suggestion.

use nero_expr::{Glob, MISSING_OPERATOR, Pick, Span, State};
use nero_model::names::misspelt;

use crate::catalogue::Catalogue;
use crate::error::{SelectorError, SelectorErrorKind};
use crate::pick::PickBuilder;

pub(crate) fn nothing(span: Span, message: String) -> SelectorError {
    SelectorError::new(SelectorErrorKind::Nothing, span, message)
}

impl<C: Catalogue> PickBuilder<'_, C> {
    pub fn unknown_number(
        &self,
        pick: &Pick,
        collection: Option<&str>,
        span: Span,
    ) -> SelectorError {
        let place = collection.map_or(String::new(), |name| format!(" in `{name}`"));
        let message = match *pick {
            Pick::Range { first, last, .. } => {
                format!("no experiment{place} has a number of {first}-{last}")
            }
            Pick::Id(id) | Pick::Run { id, .. } => format!("there is no experiment {id}{place}"),
            Pick::All | Pick::Last | Pick::Name(_) => format!("there is no experiment{place}"),
        };
        let error = nothing(span, message);
        match self.catalogue.len().checked_sub(1) {
            None => error.hint("nothing is added yet: `neroman add PATH`"),
            Some(last) => {
                let (low, high) = (self.catalogue.id(0), self.catalogue.id(last));
                error.hint(format!("numbers go from {low} to {high}"))
            }
        }
    }

    pub fn unknown_name(&self, name: &str, span: Span) -> SelectorError {
        let glob = Glob::new(name);
        let error = if glob.has_wildcard() {
            nothing(span, format!("no experiment has a name like `{name}`"))
        } else {
            nothing(span, format!("no experiment is called `{name}`"))
        };
        if self.catalogue.is_empty() {
            return error.hint("nothing is added yet: `neroman add PATH`");
        }
        let whole = name.strip_suffix('/').unwrap_or(name);
        let mut rows = 0..self.catalogue.len();
        if rows.any(|row| self.catalogue.collection(row) == whole) {
            return error.hint_names(format!("`{whole}/*` is all of that collection"));
        }
        if let Some((collection, _)) = name.split_once('/')
            && glob.has_wildcard()
        {
            return error.hint(format!("there is no collection `{collection}`"));
        }
        if glob.has_wildcard() {
            return error
                .hint("`*` stands for any characters, `?` for one, and the whole name has to fit");
        }
        let mut known: Vec<&str> = State::words().chain(["all", "last"]).collect();
        known.extend((0..self.catalogue.len()).map(|row| self.catalogue.name(row)));
        match misspelt(name, known) {
            Some(near) => error.hint_names(format!("did you mean `{near}`?")),
            None => match self.beginning_with(name, None) {
                Some(hint) => error.hint_names(hint),
                None => error.hint(format!(
                    "write the whole name or a pattern (`{}*`); a condition needs a comparison \
                     (`loss > 5`)",
                    name.chars().take(2).collect::<String>()
                )),
            },
        }
    }

    /// The glob that picks the names of which only the beginning was written;
    /// none where there is no such name.
    fn beginning_with(&self, begin: &str, collection: Option<&str>) -> Option<String> {
        let count = (0..self.catalogue.len())
            .filter(|&row| collection.is_none_or(|name| self.catalogue.collection(row) == name))
            .filter(|&row| !self.catalogue.is_gone(row))
            .filter(|&row| self.catalogue.name(row).starts_with(begin))
            .count();
        let inside = collection.map_or(String::new(), |name| format!("{name}/"));
        (count > 0 && begin.chars().all(nero_expr::is_name_char))
            .then(|| format!("did you mean `{inside}{begin}*`? it picks {count}"))
    }

    /// The error for a text that is no expression, with the name that the user
    /// perhaps meant.
    pub fn perhaps_a_name(&self, text: &str, error: SelectorError) -> SelectorError {
        let names = (0..self.catalogue.len()).map(|row| self.catalogue.name(row));
        match misspelt(text, names) {
            // A hint that knows the mistake is better.
            Some(near)
                if error.kind == SelectorErrorKind::Syntax
                    && error
                        .hint
                        .as_deref()
                        .is_none_or(|hint| hint == MISSING_OPERATOR) =>
            {
                error.hint_names(format!("did you mean the experiment `{near}`?"))
            }
            Some(_) | None => error,
        }
    }

    pub fn unknown_in_collection(&self, collection: &str, rest: &str, span: Span) -> SelectorError {
        let error = nothing(
            span,
            format!("no experiment of `{collection}` is called `{rest}`"),
        );
        let names = (0..self.catalogue.len())
            .filter(|&row| self.catalogue.collection(row) == collection)
            .map(|row| self.catalogue.name(row));
        match misspelt(rest, names) {
            Some(near) => error.hint_names(format!("did you mean `{collection}/{near}`?")),
            None => match self.beginning_with(rest, Some(collection)) {
                Some(hint) => error.hint_names(hint),
                None => error,
            },
        }
    }
}
