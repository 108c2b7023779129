//! `scheduler:` of a node: a recipe by its name, or the words of a scheduler.

use nero_model::safe::quoted;
use nero_warden::generic::{Generic, Recipe, RecipeError, WordValue};
use nero_yaml::{Entry, Fields, Kind, Node};

use nero_warden::Kind as Warden;

/// The word that names the recipe whose other words hold.
const LIKE: &str = "like";
/// Words that contain words.
const GROUPS: &[&str] = &["states", "array"];

/// Reads the value of `scheduler`, whose whole name is `full`.
pub(crate) fn read(fields: &mut Fields, full: &str, node: &Node) -> Option<Recipe> {
    let before = fields.count();
    let recipe = match &node.kind {
        Kind::Map(entries) => map(fields, full, entries),
        Kind::Scalar { .. } | Kind::List(_) => named(fields, full, node).unwrap_or_default(),
    };
    if fields.count() > before {
        return None;
    }
    if let Err(error) = Generic::new(&recipe) {
        fields.wrong(node.mark, of(full, &error), "see `neroman help schedulers`");
        return None;
    }
    Some(recipe)
}

/// Reports a generic scheduler without a description, and a description without one.
pub(crate) fn check(fields: &mut Fields, name: &str, node: &crate::Node) {
    let at = |word: &str| node.fields.get(word).copied();
    match (node.warden, at("warden"), at("scheduler")) {
        (Warden::Generic, Some(place), None) => {
            let message = format!("`nodes.{name}.warden: generic` needs `scheduler:`");
            let hint = "a recipe such as `scheduler: pbs`, or the scheduler's commands: `neroman help schedulers`";
            fields.wrong(place, message, hint);
        }
        (Warden::None | Warden::Slurm | Warden::Oge, _, Some(place)) => {
            let message = format!("`nodes.{name}.scheduler` is for `warden: generic`");
            fields.wrong(place, message, "");
        }
        (Warden::Generic, None, None)
        | (Warden::Generic, _, Some(_))
        | (Warden::None | Warden::Slurm | Warden::Oge, _, None) => {}
    }
}

fn named(fields: &mut Fields, full: &str, node: &Node) -> Option<Recipe> {
    let name = fields.single(full, node)?;
    let found = Recipe::named(name);
    if found.is_none() {
        let known: Vec<&str> = Recipe::names().collect();
        let message = format!("`{full}`: there is no recipe {}", quoted(name));
        let hint = format!(
            "there are {}; any other scheduler is described by a map",
            known.join(", ")
        );
        fields.wrong(node.mark, message, hint);
    }
    found
}

fn map(fields: &mut Fields, full: &str, entries: &[Entry]) -> Recipe {
    let like = entries.iter().find(|entry| entry.key == LIKE);
    let like = like.and_then(|entry| named(fields, &format!("{full}.{LIKE}"), &entry.value));
    let mut recipe = like.unwrap_or_default();
    for entry in entries.iter().filter(|entry| entry.key != LIKE) {
        let word = entry.key.as_str();
        match &entry.value.kind {
            _ if entry.value.is_null() && is_known(word) => recipe.unset(word),
            Kind::Map(inner) if GROUPS.contains(&word) => {
                for one in inner {
                    set(
                        fields,
                        full,
                        &format!("{word}.{}", one.key),
                        one,
                        &mut recipe,
                    );
                }
            }
            Kind::Map(_) | Kind::List(_) | Kind::Scalar { .. } => {
                set(fields, full, word, entry, &mut recipe);
            }
        }
    }
    recipe
}

fn is_known(word: &str) -> bool {
    Recipe::words().any(|known| known.split('.').next() == Some(word))
}

fn set(fields: &mut Fields, full: &str, word: &str, entry: &Entry, recipe: &mut Recipe) {
    let Some(value) = value(&entry.value) else {
        let message = format!("`{full}.{word}` takes a text or a list of texts");
        fields.wrong(entry.value.mark, message, "see `neroman help schedulers`");
        return;
    };
    match recipe.set(word, value) {
        Ok(()) => {}
        Err(RecipeError::Unknown(_)) => {
            let group = word.split_once('.').map(|(group, _)| group);
            let known = Recipe::words().filter_map(|known| match group {
                Some(group) => known.strip_prefix(group)?.strip_prefix('.'),
                None => known.split('.').next(),
            });
            let mut known: Vec<&str> = known.chain(group.is_none().then_some(LIKE)).collect();
            known.dedup();
            fields.unknown(entry, "is no word of a scheduler", &known, &[]);
        }
        Err(error) => fields.wrong(entry.value.mark, of(full, &error), ""),
    }
}

fn value(node: &Node) -> Option<WordValue> {
    match &node.kind {
        Kind::Scalar { text, .. } => Some(WordValue::Text(text.clone())),
        Kind::List(items) => {
            let texts = items.iter().map(|item| item.scalar().map(str::to_owned));
            texts.collect::<Option<_>>().map(WordValue::List)
        }
        Kind::Map(_) => None,
    }
}

fn of(full: &str, error: &RecipeError) -> String {
    format!("`{full}`: {error}")
}
