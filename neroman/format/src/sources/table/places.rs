//! Which columns the command of a row has places for, before the command is read.

use std::collections::HashSet;

use nero_model::names::same_loosely;
use nero_yaml::Kind;

use crate::read::block::Scope;
use crate::read::fields::Field;

/// The places of a row's command.
#[derive(Debug, Default)]
pub(super) struct CommandPlaces {
    names: HashSet<String>,
    /// Whether parameters without a place are handed over, too.
    hands_over: bool,
}

impl CommandPlaces {
    /// As `command::read` decides which of the fields is the command.
    pub(super) fn of(scope: &Scope) -> Self {
        let commands = [Field::Command, Field::RunCommandPrefix, Field::MainCodeFile];
        let commands = commands.into_iter().filter_map(|field| scope.get(field));
        let depth = commands.map(|given| given.depth).max();
        let scripts = [Field::Script, Field::Steps].into_iter();
        let scripts = scripts.filter_map(|field| scope.get(field));
        let script = scripts.max_by_key(|given| given.depth);
        let script = script.filter(|script| depth.is_none_or(|depth| depth <= script.depth));
        let templates = match script {
            Some(script) => vec![script],
            None => [Field::Command, Field::ParametersFormat]
                .into_iter()
                .filter_map(|field| scope.get(field))
                .collect(),
        };
        let mut texts: Vec<&str> = Vec::new();
        for given in templates {
            match &given.value.kind {
                Kind::Scalar { text, .. } => texts.push(text),
                Kind::List(items) => {
                    for item in items {
                        let steps = match &item.kind {
                            Kind::Map(entries) => {
                                entries.iter().map(|entry| &*entry.value).collect()
                            }
                            Kind::Scalar { .. } | Kind::List(_) => vec![&**item],
                        };
                        texts.extend(steps.into_iter().filter_map(|step| step.scalar()));
                    }
                }
                Kind::Map(_) => {}
            }
        }
        let mut names = HashSet::new();
        for text in &texts {
            names.extend(names_in(text, script.is_some()));
        }
        let reads_variables = texts.iter().any(|text| text.contains("NERO_PARAM"));
        let is_handed = [Field::ParametersStyle, Field::Render].into_iter();
        let is_handed = is_handed.filter_map(|field| scope.get(field)).next();
        let is_handed = is_handed.is_some();
        Self {
            hands_over: names.is_empty() || reads_variables || is_handed,
            names,
        }
    }

    /// Whether there is a place for a parameter, which may be written loosely where that is no
    /// name of another one.
    pub(super) fn has(&self, name: &str, is_known: impl Fn(&str) -> bool) -> bool {
        let mut loose = self.names.iter();
        self.names.contains(name)
            || loose.any(|written| same_loosely(written, name) && !is_known(written))
    }

    /// Whether a parameter without a place reaches the job otherwise than by its variable.
    pub(super) fn hands_over(&self) -> bool {
        self.hands_over
    }
}

/// The names in braces of a text.
fn names_in(text: &str, is_script: bool) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices('{') {
        // `${x}` of a script is a variable of bash.
        if is_script && text[..at].ends_with('$') {
            continue;
        }
        // bash reads `{x:…}` itself.
        let ends: &[char] = if is_script { &['}'] } else { &['}', ':', '!'] };
        let rest = &text[at + 1..];
        if let Some(end) = rest.find(ends) {
            names.push(rest[..end].to_owned());
        }
    }
    names
}
