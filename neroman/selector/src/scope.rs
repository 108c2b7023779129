//! One experiment as the expressions of a selector see it.

use nero_expr::{Expr, Fact, NameKind, Past, Pick, Scope, Value};

use crate::catalogue::Catalogue;

/// A row of a catalogue, with what only the catalogue knows.
pub(crate) struct LocatedRow<'c, C: Catalogue> {
    catalogue: &'c C,
    row: usize,
    scope: C::Row<'c>,
    /// Names in backticks that no experiment has, and that are blocks.
    blocks: &'c [&'c str],
}

impl<'c, C: Catalogue> LocatedRow<'c, C> {
    pub fn new(catalogue: &'c C, row: usize, blocks: &'c [&'c str]) -> LocatedRow<'c, C> {
        LocatedRow {
            catalogue,
            row,
            scope: catalogue.scope(row),
            blocks,
        }
    }
}

/// The names in backticks of an expression that are no experiment's name but a block's.
pub(crate) fn blocks_of<'e>(expr: &'e Expr, catalogue: &impl Catalogue) -> Vec<&'e str> {
    let names = expr.picks().iter().filter_map(|pick| match &pick.pick {
        Pick::Name(name) => Some(&**name),
        Pick::Id(_) | Pick::Range { .. } | Pick::Run { .. } | Pick::All | Pick::Last => None,
    });
    names
        .filter(|name| !has_name(catalogue, name) && has_block(catalogue, name))
        .collect()
}

pub(crate) fn has_name(catalogue: &impl Catalogue, name: &str) -> bool {
    !catalogue.named(name).is_empty()
}

pub(crate) fn has_block(catalogue: &impl Catalogue, name: &str) -> bool {
    !name.is_empty() && (0..catalogue.len()).any(|row| catalogue.block(row) == name)
}

impl<C: Catalogue> Scope for LocatedRow<'_, C> {
    fn now_ms(&self) -> i64 {
        self.scope.now_ms()
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        match fact {
            Fact::Id => Value::number(self.catalogue.id(self.row) as f64),
            Fact::Name => Value::Text(self.catalogue.name(self.row)),
            Fact::Collection => Value::Text(self.catalogue.collection(self.row)),
            Fact::State => Value::Text(self.catalogue.state(self.row)),
            other => self.scope.fact(other),
        }
    }

    fn param(&self, name: &str) -> Value<'_> {
        self.scope.param(name)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.scope.metric(name)
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        self.scope.past(name, past)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        self.scope.visit_names(visit);
    }

    fn changed(&self) -> Option<bool> {
        self.catalogue.is_changed(self.row)
    }

    fn gone(&self) -> Option<bool> {
        Some(self.catalogue.is_gone(self.row))
    }

    fn picked(&self, pick: &Pick) -> Option<bool> {
        match pick {
            Pick::Id(_) | Pick::Range { .. } => pick.has_id(self.catalogue.id(self.row)),
            // The parser refuses runs inside expressions.
            Pick::Run { .. } => None,
            Pick::All => Some(true),
            Pick::Last => Some(self.catalogue.is_last(self.row)),
            Pick::Name(name) if self.blocks.contains(&&**name) => {
                Some(self.catalogue.block(self.row) == &**name)
            }
            Pick::Name(name) => Some(self.catalogue.name(self.row) == &**name),
        }
    }
}
