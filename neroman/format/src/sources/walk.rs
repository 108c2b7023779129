//! The walk through the blocks of a source: each is read, then expanded into its
//! experiments.

use crate::edit;
use crate::read::block::{self, Scope};
use crate::read::fields::{Field, PARENT};
use crate::read::reader::Reader;
use crate::read::{define, expand};
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark};

/// Whether a block runs something.
pub(crate) fn runs_something(scope: &Scope) -> bool {
    let fields = [
        Field::Command,
        Field::RunCommandPrefix,
        Field::MainCodeFile,
        Field::Script,
        Field::Steps,
    ];
    fields.into_iter().any(|field| scope.get(field).is_some())
}

impl Reader<'_> {
    /// Reads all blocks below the root; the root itself has the name of the source.
    pub(crate) fn root(&mut self, entries: &[Entry], mark: Mark, source_name: &str) {
        let before = self.count();
        let base = self.base();
        let (scope, children) = block::enter(self, &base, entries);
        if !children.is_empty() {
            for child in children {
                self.child(&scope, child.name, child.entry);
            }
            return;
        }
        if runs_something(&scope) {
            self.define(&scope, source_name, mark);
        } else if self.count() == before {
            self.wrong(
                mark,
                "no experiment is described here",
                "add a block such as `+name: {command: python3 main.py}`",
            );
        }
    }

    fn child(&mut self, outer: &Scope, name: &str, entry: &Entry) {
        if self.full() {
            return;
        }
        let entries: &[Entry] = match &entry.value.kind {
            Kind::Map(entries) => entries,
            Kind::Scalar { .. } if entry.value.is_null() => &[],
            Kind::Scalar { .. } | Kind::List(_) => {
                self.wrong(
                    entry.value.mark,
                    format!(
                        "an experiment is a map of fields, not {}",
                        entry.value.describe()
                    ),
                    format!(
                        "for example `+{}: {{command: python3 main.py}}`",
                        quoted_bare(name)
                    ),
                );
                return;
            }
        };
        if name.is_empty() {
            self.wrong(
                entry.key_mark,
                "an experiment has no name",
                "write it behind the `+`",
            );
        }
        if let Some(parent) = entries.iter().find(|entry| entry.key == PARENT) {
            let hint = "it stands at the top of a file; blocks in one another inherit";
            self.wrong(parent.key_mark, "a block has no `parent`", hint);
        }
        if let Some(stages) = entries.iter().find(|entry| entry.key == "stages") {
            let hint = "it stands at the top of a file; a block has a `stage`";
            self.wrong(stages.key_mark, "a block has no `stages`", hint);
        }
        let (scope, children) = block::enter(self, outer, entries);
        self.define(&scope, name, entry.key_mark);
        for child in children {
            self.child(&scope, child.name, child.entry);
        }
    }

    fn define(&mut self, scope: &Scope, name: &str, mark: Mark) {
        let before = self.count();
        let draft = define::draft(self, scope, name, mark);
        // A block with a mistake is expanded no further: what follows from it is noise.
        if self.count() == before {
            let first = self.definitions.len();
            expand::expand(self, &draft, name, mark);
            edit::apply(self, scope, name, mark, first);
        }
    }
}

/// A name for an example, without the backticks of a quotation.
fn quoted_bare(name: &str) -> String {
    quoted(name).trim_matches('`').to_owned()
}
