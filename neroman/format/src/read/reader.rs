//! The reading of one source: [`Reader`] holds everything that all blocks share: the
//! reader of values with its mistakes, notes, names that are taken, and what was looked
//! up on the disk or compiled before.

use super::parse::is_tuple;
use super::text::Text;
use crate::definition::{AppliedEdit, Definition, Edits, NotBuilt, Note};
use nero_expr::ParseContext;
use nero_model::safe::quoted;
use nero_yaml::{Fields, Kind, Mark, Node};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::rc::Rc;

/// More notes than a person reads.
const NOTES_MAX: usize = 100;

/// What all blocks of a source share.
pub(crate) struct Reader<'a> {
    pub(crate) text: &'a Text,
    pub(crate) folder: &'a Path,
    pub(crate) context: &'a ParseContext,
    /// Reads values and holds the mistakes.
    pub(crate) fields: Fields,
    pub(crate) definitions: Vec<Definition>,
    /// Where the dependencies of definitions are written.
    pub(crate) written: Vec<ExperimentMarks>,
    /// Names that are taken: (collection, name) to where.
    pub(crate) names: HashMap<(String, String), Mark>,
    /// Patterns that were compiled, with what is wrong with them.
    pub(crate) patterns: HashMap<(String, bool), Option<String>>,
    /// Templates of `render` that were read.
    pub(crate) templates: HashMap<String, std::rc::Rc<str>>,
    /// Globs that were compiled, likewise.
    pub(crate) globs: HashMap<String, Option<String>>,
    /// Bytes of all definitions so far.
    pub(crate) bytes: u64,
    /// Whether the experiments are the rows of a table.
    pub(crate) is_table: bool,
    /// Parameters of a table, such as `Params/lr`, that `{lr}` is a place for.
    pub(crate) grouped: HashSet<String>,
    /// Parameters of a table that a command with places has no place for.
    pub(crate) unused: std::collections::BTreeSet<String>,
    /// Fields beneath the file, outermost first; taken by [`Reader::base`].
    pub(crate) beneath: Vec<Vec<nero_yaml::Entry>>,
    /// What people changed of the experiments, by the index of their definition.
    pub(crate) edits: Edits,
    /// The same with what came of it.
    pub(crate) edited: Vec<AppliedEdit>,
    /// Whether notes are left out.
    pub(crate) is_quiet: bool,
    notes: Vec<Note>,
    notes_seen: HashSet<String>,
    notes_dropped: usize,
    files: HashMap<String, PathKind>,
}

/// What a path below the folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    Nothing,
    Folder,
    File { executable: bool },
}

/// Each block is read with the one reader of values, so that no mistake is told twice.
impl Deref for Reader<'_> {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        text: &'a Text,
        folder: &'a Path,
        context: &'a ParseContext,
        fields: Fields,
    ) -> Self {
        Self {
            text,
            folder,
            context,
            fields,
            definitions: Vec::new(),
            written: Vec::new(),
            names: HashMap::new(),
            patterns: HashMap::new(),
            templates: HashMap::new(),
            globs: HashMap::new(),
            bytes: 0,
            is_table: false,
            grouped: HashSet::new(),
            unused: std::collections::BTreeSet::new(),
            beneath: Vec::new(),
            edits: Edits::new(),
            edited: Vec::new(),
            is_quiet: false,
            notes: Vec::new(),
            notes_seen: HashSet::new(),
            notes_dropped: 0,
            files: HashMap::new(),
        }
    }

    /// Adds a remark, once.
    pub(crate) fn note(&mut self, mark: Option<Mark>, text: impl Into<String>) {
        if self.is_quiet {
            return;
        }
        let text = text.into();
        let place = mark.map(|m| self.text.place(m));
        let key = match &place {
            Some(place) => format!("{place} {text}"),
            None => text.clone(),
        };
        if !self.notes_seen.insert(key) {
            return;
        }
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { text, place });
        } else {
            self.notes_dropped += 1;
        }
    }

    /// Adds a remark on a place unless it has one of this kind: what several
    /// blocks inherit is reported once.
    pub(crate) fn note_once(&mut self, mark: Mark, kind: &str, text: impl Into<String>) {
        if self.notes_seen.insert(format!("{kind} {mark:?}")) {
            self.note(Some(mark), text);
        }
    }

    /// All remarks.
    pub(crate) fn into_notes(mut self) -> Vec<Note> {
        if self.notes_dropped > 0 {
            self.notes.push(Note {
                text: format!("and {} more notes", self.notes_dropped),
                place: None,
            });
        }
        self.notes
    }

    /// Keeps a word that has no effect yet, with a note.
    pub(crate) fn not_built(&mut self, into: &mut Vec<NotBuilt>, word: &str, mark: Mark) {
        into.push(NotBuilt {
            word: word.to_owned(),
            place: self.text.place(mark),
        });
        self.note(
            Some(mark),
            format!(
                "{} is not built yet: it is kept, and `start` refuses",
                quoted(word)
            ),
        );
    }

    /// A text or a list of texts.
    pub(crate) fn several<'n>(&mut self, what: &str, node: &'n Node) -> Vec<(&'n str, &'n Node)> {
        let items = match &node.kind {
            Kind::List(items) if !is_tuple(node) => items.iter().map(|n| &**n).collect(),
            _ => vec![node],
        };
        items
            .into_iter()
            .filter_map(|item| self.single(what, item).map(|text| (text, item)))
            .collect()
    }

    /// A path below the folder without `.` and empty parts; anything else is reported.
    pub(crate) fn inside(&mut self, what: &str, path: &str, mark: Mark) -> Option<String> {
        let parts = path.split('/').filter(|p| !matches!(*p, "" | "."));
        let parts: Vec<&str> = parts.collect();
        let leads_out = path.starts_with(['/', '~']) || parts.contains(&"..");
        if leads_out {
            self.wrong(
                mark,
                format!("{} of `{what}` lies outside of the folder", quoted(path)),
                match what {
                    "outputs" => "only files below the working folder of a run come home",
                    "parameters_style" | "render" => {
                        "files are made in the working folder of a run"
                    }
                    "checkpoint" => "checkpoints are files below the working folder of a run",
                    "file" => "files of metrics are below the working folder of a run",
                    _ => "only files of the folder travel with a run: copy or move it there",
                },
            );
            return None;
        }
        if parts.is_empty() && what != "files" {
            self.wrong(mark, format!("`{what}` names no file"), "");
            return None;
        }
        Some(parts.join("/"))
    }

    /// What a path below the folder is; asked of the disk once.
    pub(crate) fn path_kind(&mut self, path: &str) -> PathKind {
        if let Some(found) = self.files.get(path) {
            return *found;
        }
        use std::os::unix::fs::PermissionsExt;
        let found = match std::fs::metadata(self.folder.join(path)) {
            Err(_) => PathKind::Nothing,
            Ok(meta) if meta.is_dir() => PathKind::Folder,
            Ok(meta) => PathKind::File {
                executable: meta.permissions().mode() & 0o111 != 0,
            },
        };
        self.files.insert(path.to_owned(), found);
        found
    }
}

/// Where the experiments that a definition names are written, in their order.
#[derive(Debug, Clone)]
pub(crate) struct ExperimentMarks {
    /// The index of the definition.
    pub(crate) of: usize,
    pub(crate) marks: Rc<[Mark]>,
}
