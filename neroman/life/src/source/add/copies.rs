//! Names that copies have, which no definition may take.

use std::collections::HashMap;

use nero_format::{Definition, EditMistake};
use nero_model::ExperimentId;
use nero_model::safe::quoted;

use crate::fold::state::State;
use crate::source::add::{MatchedSource, MergeOutcome};

/// The collection and the name of a definition: no two experiments have the same.
fn full_name(definition: &Definition) -> (&str, &str) {
    (definition.collection(), &definition.name)
}

impl MergeOutcome {
    /// Refuses definitions that take the name of a copy, and a new copy that takes the name of
    /// a new definition.
    pub(super) fn refuse_names_of_copies(&mut self, state: &State, known: &[MatchedSource<'_>]) {
        let mut new_names: HashMap<(&str, &str), &Definition> = HashMap::new();
        for one in known {
            for (definition, old) in one.read.loaded.definitions.iter().zip(&one.pairs) {
                let name = full_name(definition);
                if old.is_none_or(|old| full_name(&old.definition) != name) {
                    new_names.insert(name, definition);
                }
            }
        }
        if new_names.is_empty() {
            return;
        }
        // Copies as these sources describe them now, which may move them to another collection.
        let mut described: HashMap<ExperimentId, &Definition> = HashMap::new();
        let edited = known.iter().flat_map(|one| &one.read.loaded.edited);
        for one in edited {
            let Ok(effective) = &one.outcome else {
                continue;
            };
            let definition = &effective.definition;
            match one.edit.experiment {
                Some(id) => {
                    described.insert(ExperimentId(id), definition);
                }
                None if new_names.contains_key(&full_name(definition)) => {
                    let name = quoted(&definition.name);
                    let mistake = EditMistake {
                        message: format!("{name} is the name of a new experiment of its source"),
                        hint: "take another name for the copy".to_owned(),
                    };
                    self.refused.push(("the copy".to_owned(), mistake));
                }
                None => {}
            }
        }
        for copy in state.edited() {
            let (Some(of), None) = (copy.by_hand.copy_of, copy.hidden_ms) else {
                continue;
            };
            let described = described.get(&copy.id).copied();
            let name = full_name(described.unwrap_or(&copy.definition));
            if let Some(definition) = new_names.get(&name) {
                let (id, name) = (copy.id, quoted(&definition.name));
                let mistake = EditMistake {
                    message: format!("{name} is the name of {id}, a copy of {of}"),
                    hint: format!("take another name here, or remove the copy: neroman rm {id}"),
                };
                self.refused.push((definition.place.to_string(), mistake));
            }
        }
    }
}
