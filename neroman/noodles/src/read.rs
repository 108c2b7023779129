//! Reads a spec: keys, defaults, merges.
//!
//! Nothing is refused that the original runs. What makes it crash is either given its plain meaning,
//! which is noted as a [`Departure`], or refused with its place.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use nero_format::python::{Item, Object};
use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::{Fields, Mark, Mistakes};

use crate::builtin;
use crate::command::{CommandGroup, group, split_scheme};
use crate::difference::{Departure, Difference};
use crate::handler::{Action, Handler, ReturnCode};
use crate::metric::Comparison;
use crate::pattern::FullPattern;
use crate::server::Server;
use crate::spec::{
    Experiment, Freshness, MAIN_STAGE, MarkedName, NoodlesSpec, Remarks, Requirement, STAGES,
    UnknownKey,
};
use crate::yaml::{LoadError, load};

const TOP_KEYS: &[&str] = &[
    "name",
    "description",
    "experiment_default",
    "before_all_experiments",
    "experiments",
    "after_all_experiments",
    "server_default",
    "servers",
    "requirements",
    "write_status_to",
    "round_interval",
    "deployment_interval",
    "commands_interval",
    "check_any_errors",
    "error_handlers",
    "shell_string",
    "shell_stdin",
];
const EXPERIMENT_KEYS: &[&str] = &[
    "name",
    "description",
    "envs",
    "depends_on",
    "requirements",
    "commands",
    "write_outputs",
];
const SERVER_KEYS: &[&str] = &[
    "name",
    "description",
    "private_key_path",
    "port",
    "username",
    "hostname",
];
const HANDLER_KEYS: &[&str] = &[
    "name",
    "description",
    "return_code",
    "stderr_pattern",
    "commands",
    "action",
];
const OUTPUT_KEYS: &[&str] = &["stdout_to", "stderr_to"];

const NO_NAME: &str = "<default>";

type Entries = [(Rc<Item>, Rc<Item>)];

/// Reads a spec for one command type. `only` are the names of experiments that are run.
///
/// # Errors
/// All mistakes, each with its place.
pub fn read(
    text: &str,
    command_type: &str,
    only: Option<&[String]>,
) -> Result<NoodlesSpec, Mistakes> {
    let mut reader = SpecReader {
        command_type,
        fields: Fields::default(),
        remarks: Remarks::default(),
        probes: BTreeMap::new(),
    };
    let spec = reader.spec(text, only);
    reader.fields.finish()?;
    Ok(spec.expect("a text that is not read has a mistake"))
}

struct SpecReader<'t> {
    command_type: &'t str,
    fields: Fields,
    remarks: Remarks,
    probes: BTreeMap<String, Vec<CommandGroup>>,
}

/// A map and the map that has what it lacks.
#[derive(Clone, Copy)]
struct Layers<'i> {
    own: &'i Entries,
    default: &'i Entries,
}

impl<'i> Layers<'i> {
    /// A key that is there with nothing behind it is there.
    fn get(self, key: &str) -> Option<&'i Rc<Item>> {
        find(self.own, key).or_else(|| find(self.default, key))
    }
}

fn find<'i>(entries: &'i Entries, key: &str) -> Option<&'i Rc<Item>> {
    let is = |item: &Item| matches!(&item.object, Object::Text(text) if text == key);
    let entry = entries.iter().find(|(name, _)| is(name));
    entry.map(|(_, value)| value)
}

impl SpecReader<'_> {
    fn spec(&mut self, text: &str, only: Option<&[String]>) -> Option<NoodlesSpec> {
        let root = match load(text, &mut self.remarks.departures) {
            Ok(root) => root,
            Err(LoadError::Yaml(wrong)) => {
                self.fields.add(wrong.into());
                return None;
            }
            Err(LoadError::Value { mark, message }) => {
                self.fields.wrong(mark, message, "quote it if it is text");
                return None;
            }
        };
        let root = root.filter(|root| root.object.truth());
        let top = match &root {
            None => &[],
            Some(root) => self.map("a spec", root)?,
        };
        self.known(top, TOP_KEYS);
        let experiment_default = self.top_map(top, "experiment_default");
        self.known(experiment_default, EXPERIMENT_KEYS);
        let server_default = self.top_map(top, "server_default");
        self.known(server_default, SERVER_KEYS);
        let stages = STAGES.map(|stage| {
            let only = only.filter(|_| stage == STAGES[MAIN_STAGE]);
            self.stage(top, stage, experiment_default, only)
        });
        let servers = self.servers(top, server_default);
        self.find_probes(top, &stages);
        let default_env = self.env(&[], experiment_default);
        let shell = |key, default: &str| {
            let item = find(top, key).filter(|item| !item.object.is_null());
            item.map_or_else(|| default.to_owned(), |item| item.object.text())
        };
        Some(NoodlesSpec {
            name: shell("name", "Default spec"),
            stages,
            servers,
            default_env,
            status_path: self.status_path(top),
            round_interval: self.seconds(top, "round_interval", 10.0),
            deployment_interval: self.seconds(top, "deployment_interval", 0.0),
            commands_interval: self.seconds(top, "commands_interval", 0.0),
            check_any_errors: match find(top, "check_any_errors") {
                Some(item) if !item.object.is_null() => item.object.truth(),
                _ => true,
            },
            error_handlers: self.handlers(top),
            shell_string: shell("shell_string", "bash -c"),
            shell_stdin: shell("shell_stdin", "bash -s"),
            probes: std::mem::take(&mut self.probes),
            remarks: std::mem::take(&mut self.remarks),
        })
    }

    fn depart(&mut self, difference: Difference, mark: Mark) {
        self.remarks.departures.push(Departure { difference, mark });
    }

    fn map<'i>(&mut self, what: &str, item: &'i Item) -> Option<&'i Entries> {
        if let Object::Map(entries) = &item.object {
            return Some(entries);
        }
        let is = item.object.describe();
        let message = format!("{what} is a map, not {is}");
        self.fields.wrong(item.mark, message, "");
        None
    }

    fn top_map<'i>(&mut self, top: &'i Entries, key: &str) -> &'i Entries {
        match find(top, key) {
            Some(item) if !item.object.is_null() => {
                self.map(&format!("`{key}`"), item).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// The items of a list at the top.
    fn top_list<'i>(&mut self, top: &'i Entries, key: &str) -> &'i [Rc<Item>] {
        let Some(item) = find(top, key) else {
            return &[];
        };
        match &item.object {
            Object::Null => &[],
            Object::List(items) => items,
            Object::Map(entries) if entries.is_empty() => &[],
            other => {
                let message = format!("`{key}` is a list, not {}", other.describe());
                self.fields
                    .wrong(item.mark, message, "begin each item with `- `");
                &[]
            }
        }
    }

    /// Remembers keys that mean nothing.
    fn known(&mut self, entries: &Entries, known: &'static [&'static str]) {
        for (key, _) in entries {
            let text = key.object.text();
            if !known.contains(&text.as_str()) {
                self.remarks.unknown_keys.push(UnknownKey {
                    near: suggest(&text, known.iter().copied()),
                    key: text,
                    mark: key.mark,
                });
            }
        }
    }

    /// A key that a person chose; a plain one is what was written.
    fn chosen(&mut self, key: &Item) -> String {
        match &key.object {
            Object::Text(text) => text.clone(),
            _ => {
                self.depart(Difference::KeyIsNoText, key.mark);
                key.written.clone()
            }
        }
    }

    fn seconds(&mut self, top: &Entries, key: &str, default: f64) -> f64 {
        let Some(item) = find(top, key).filter(|item| !item.object.is_null()) else {
            return default;
        };
        let number = item.object.number().filter(|number| number.is_finite());
        number.unwrap_or_else(|| {
            let message = format!(
                "`{key}` is a number of seconds, not {}",
                display_value(item)
            );
            self.fields.wrong(item.mark, message, "for example 10");
            default
        })
    }

    fn status_path(&mut self, top: &Entries) -> Option<String> {
        let paths = self.top_map(top, "write_status_to");
        let path = self.of_type(paths)?;
        (!path.object.is_null()).then(|| path.object.text())
    }

    /// The value of this command type.
    fn of_type<'i>(&mut self, entries: &'i Entries) -> Option<&'i Rc<Item>> {
        if let Some(item) = find(entries, self.command_type) {
            return Some(item);
        }
        let command_type = self.command_type;
        let is = |key: &Item| !matches!(key.object, Object::Text(_)) && key.written == command_type;
        let (key, value) = entries.iter().find(|(key, _)| is(key))?;
        self.depart(Difference::KeyIsNoText, key.mark);
        Some(value)
    }

    /// The value of this command type in one of an experiment's maps.
    fn detail<'i>(&mut self, layers: Layers<'i>, key: &str) -> Option<&'i Rc<Item>> {
        let item = layers.get(key)?;
        if item.object.is_null() {
            self.depart(Difference::Nothing, item.mark);
            return None;
        }
        let of_type = self.map(&format!("`{key}`"), item)?;
        let value = self.of_type(of_type)?;
        if value.object.is_null() {
            self.depart(Difference::Nothing, value.mark);
            return None;
        }
        Some(value)
    }

    /// One text, or the texts of a list.
    fn texts(&mut self, what: &str, item: &Rc<Item>) -> Vec<MarkedName> {
        let items = match &item.object {
            Object::List(items) => items.as_slice(),
            _ => std::slice::from_ref(item),
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let name = match &item.object {
                Object::Text(text) => text.clone(),
                Object::Null => {
                    self.depart(Difference::Nothing, item.mark);
                    continue;
                }
                Object::List(_) | Object::Map(_) => {
                    let is = item.object.describe();
                    let message = format!("{what} is text, not {is}");
                    let hint = "quote text that holds `: `, or begins with `{` or `[`";
                    self.fields.wrong(item.mark, message, hint);
                    continue;
                }
                other => {
                    self.depart(Difference::NotText, item.mark);
                    other.text()
                }
            };
            let mark = item.mark;
            texts.push(MarkedName { name, mark });
        }
        texts
    }

    fn groups(&mut self, what: &str, item: &Rc<Item>) -> Vec<CommandGroup> {
        let texts = self.texts(what, item);
        for MarkedName { name, mark } in &texts {
            let (Some(scheme), _) = split_scheme(name) else {
                continue;
            };
            if !matches!(scheme, "local" | "remote") {
                let message = format!("{} is no prefix of a command", quoted(scheme));
                let hint = "commands begin with `local:` or `remote:`, or have no `:` behind their first word";
                self.fields.wrong(*mark, message, hint);
            }
        }
        // An unknown prefix was told above.
        group(texts.iter().map(|text| text.name.as_str())).unwrap_or_default()
    }

    /// The experiments of a stage; of these `only` those of the names.
    fn stage(
        &mut self,
        top: &Entries,
        key: &str,
        default: &Entries,
        only: Option<&[String]>,
    ) -> Vec<Experiment> {
        let mut experiments = Vec::new();
        let mut names = HashSet::new();
        for item in self.top_list(top, key) {
            if self.fields.full() {
                break;
            }
            let Some(own) = self.map("an experiment", item) else {
                continue;
            };
            let layers = Layers { own, default };
            self.known(own, EXPERIMENT_KEYS);
            self.types(layers);
            let name = self.name(layers);
            // Mistakes in what is left out do not matter.
            if only.is_none_or(|only| only.contains(&name)) {
                experiments.push(self.experiment(name.clone(), item.mark, layers))
            } else {
                self.remarks.left_out.push(name.clone())
            }
            names.insert(name);
        }
        for name in only
            .unwrap_or(&[])
            .iter()
            .filter(|name| !names.contains(*name))
        {
            let trimmed = names.get(name.trim());
            let near = trimmed.or_else(|| suggest(name, &names)).cloned();
            self.remarks.unknown_names.push((name.clone(), near));
        }
        experiments
    }

    fn name(&mut self, layers: Layers<'_>) -> String {
        let Some(item) = layers.get("name") else {
            return NO_NAME.to_owned();
        };
        if !matches!(item.object, Object::Text(_)) {
            self.depart(Difference::NameIsNoText, item.mark);
        }
        item.object.text()
    }

    /// Remembers the types that have commands.
    fn types(&mut self, layers: Layers<'_>) {
        let Some(Object::Map(types)) = layers.get("commands").map(|item| &item.object) else {
            return;
        };
        for (key, _) in types {
            let name = match &key.object {
                Object::Text(text) => text,
                _ => &key.written,
            };
            if !self.remarks.types.contains(name) {
                self.remarks.types.push(name.clone());
            }
        }
    }

    fn experiment(&mut self, name: String, mark: Mark, layers: Layers<'_>) -> Experiment {
        let env = self.env(layers.own, layers.default);
        let commands = self.detail(layers, "commands");
        let commands = commands.map(|item| self.groups("a command", item));
        let mut experiment = Experiment {
            name,
            mark,
            env,
            depends_on: Vec::new(),
            requirements: Vec::new(),
            commands: commands.unwrap_or_default(),
            stdout_to: None,
            stderr_to: None,
        };
        // Nobody looks at the rest of an empty experiment.
        if experiment.commands.is_empty() {
            return experiment;
        }
        if let Some(item) = self.detail(layers, "depends_on") {
            experiment.depends_on = self.texts("the name of an experiment", item);
        }
        if let Some(item) = self.detail(layers, "requirements") {
            experiment.requirements = self.requirements(item);
        }
        (experiment.stdout_to, experiment.stderr_to) = self.outputs(layers);
        experiment
    }

    /// The experiment's own variables, then those of the default that it has not.
    fn env(&mut self, own: &Entries, default: &Entries) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> = Vec::new();
        let mut seen = HashSet::new();
        for layer in [own, default] {
            let Some(item) = find(layer, "envs") else {
                continue;
            };
            if item.object.is_null() {
                if std::ptr::eq(layer, default) {
                    self.depart(Difference::Nothing, item.mark);
                }
                continue;
            }
            for (key, value) in self.map("`envs`", item).unwrap_or(&[]) {
                let name = self.chosen(key);
                if seen.insert(name.clone()) {
                    env.push((name, value.object.text()));
                }
            }
        }
        env
    }

    fn outputs(&mut self, layers: Layers<'_>) -> (Option<String>, Option<String>) {
        let Some(item) = self.detail(layers, "write_outputs") else {
            return (None, None);
        };
        let outputs = self.map("`write_outputs` of a type", item).unwrap_or(&[]);
        self.known(outputs, OUTPUT_KEYS);
        let path = |key| {
            let item = find(outputs, key).filter(|item| !item.object.is_null());
            item.map(|item| item.object.text())
        };
        (path("stdout_to"), path("stderr_to"))
    }

    fn requirements(&mut self, item: &Rc<Item>) -> Vec<Requirement> {
        let items = match &item.object {
            Object::List(items) => items.as_slice(),
            _ => {
                self.depart(Difference::RequirementForm, item.mark);
                std::slice::from_ref(item)
            }
        };
        let mut requirements = Vec::new();
        for item in items {
            match &item.object {
                Object::Map(entries) => {
                    if entries.len() > 1 {
                        self.depart(Difference::RequirementForm, item.mark);
                    }
                    for (key, value) in entries {
                        let id = self.chosen(key);
                        requirements.extend(self.requirement(&id, value, key.mark));
                    }
                }
                Object::Text(text) => {
                    self.depart(Difference::RequirementForm, item.mark);
                    let split = text.find(['=', '!', '<', '>']).unwrap_or(text.len());
                    let (id, expression) = text.split_at(split);
                    requirements.extend(self.compared(id.trim(), expression, item.mark));
                }
                Object::Null => self.depart(Difference::Nothing, item.mark),
                other => {
                    let message = format!("a requirement is not {}", other.describe());
                    self.fields
                        .wrong(item.mark, message, "for example `- cpu_load: <2`");
                }
            }
        }
        requirements
    }

    fn requirement(&mut self, id: &str, value: &Item, mark: Mark) -> Option<Requirement> {
        match &value.object {
            Object::Text(text) => self.compared(id, text, mark),
            Object::Null | Object::List(_) | Object::Map(_) => {
                let is = value.object.describe();
                let message = format!("the expression of {} is not {is}", quoted(id));
                self.fields
                    .wrong(value.mark, message, "for example `cpu_load: <2`");
                None
            }
            _ => {
                self.depart(Difference::NotText, value.mark);
                self.compared(id, &format!("=={}", value.written), mark)
            }
        }
    }

    fn compared(&mut self, id: &str, expression: &str, mark: Mark) -> Option<Requirement> {
        let (scheme, bare) = split_scheme(id);
        let freshness = match scheme {
            None | Some("dynamic") => Freshness::Dynamic,
            Some("static") => Freshness::Static,
            Some(other) => {
                let message = format!("{} is no prefix of a requirement", quoted(other));
                let hint = "there are `static:`, once per round, and `dynamic:`";
                self.fields.wrong(mark, message, hint);
                return None;
            }
        };
        if scheme.is_some() {
            self.depart(Difference::ProbeScheme, mark);
        }
        if Comparison::has_blanks(expression) {
            self.depart(Difference::Blanks, mark);
        }
        let Some(comparison) = Comparison::read(expression) else {
            let message = format!("{} is no expression", quoted(expression));
            let hint = "write ==, !=, <=, >=, < or > and a value, for example `<2`";
            self.fields.wrong(mark, message, hint);
            return None;
        };
        Some(Requirement {
            id: bare.to_owned(),
            freshness,
            comparison,
            expression: expression.trim().to_owned(),
            mark,
        })
    }

    /// Finds the commands of each probe that a requirement names.
    fn find_probes(&mut self, top: &Entries, stages: &[Vec<Experiment>; 3]) {
        let own = self.top_map(top, "requirements");
        self.remarks.probes = own.iter().map(|(id, _)| id.object.text()).collect();
        for requirement in stages.iter().flatten().flat_map(|exp| &exp.requirements) {
            let id = &requirement.id;
            if self.probes.contains_key(id) {
                continue;
            }
            let groups = match find(own, id) {
                Some(item) if item.object.is_null() => continue,
                Some(item) => self.groups("a command", item),
                None => match builtin::commands(id) {
                    Some(commands) => {
                        if id == "disk_usage" {
                            self.depart(Difference::DiskUsage, requirement.mark);
                        } else if id.starts_with("cuda_") {
                            self.depart(Difference::NoGpu, requirement.mark);
                        }
                        let groups = group(commands.iter().copied());
                        groups.expect("the commands of a built-in probe have no prefix")
                    }
                    None => continue,
                },
            };
            self.probes.insert(id.clone(), groups);
        }
    }

    fn servers(&mut self, top: &Entries, default: &Entries) -> Vec<Server> {
        let mut servers = Vec::new();
        for item in self.top_list(top, "servers") {
            let Some(own) = self.map("a server", item) else {
                continue;
            };
            self.known(own, SERVER_KEYS);
            let layers = Layers { own, default };
            let text = |key, missing: &str| match layers.get(key) {
                None => Some(missing.to_owned()),
                Some(item) if item.object.is_null() => None,
                Some(item) => Some(item.object.text()),
            };
            if let Some(key) = layers.get("private_key_path")
                && !matches!(key.object, Object::Text(_) | Object::Null)
            {
                self.depart(Difference::NotText, key.mark);
            }
            let hostname = text("hostname", "localhost").unwrap_or_else(|| {
                self.depart(Difference::NoHostname, item.mark);
                "localhost".to_owned()
            });
            servers.push(Server {
                name: text("name", NO_NAME).unwrap_or_else(|| "None".to_owned()),
                hostname,
                username: text("username", "$USER"),
                port: text("port", "22"),
                private_key_path: text("private_key_path", "$HOME/.ssh/id_rsa"),
                mark: item.mark,
            });
        }
        servers
    }

    fn handlers(&mut self, top: &Entries) -> Vec<Handler> {
        let mut handlers = Vec::new();
        for item in self.top_list(top, "error_handlers") {
            let Some(entries) = self.map("an error handler", item) else {
                continue;
            };
            self.known(entries, HANDLER_KEYS);
            handlers.extend(self.handler(entries, item.mark));
        }
        handlers
    }

    fn handler(&mut self, entries: &Entries, mark: Mark) -> Option<Handler> {
        let return_code = match find(entries, "return_code") {
            None => ReturnCode::Never,
            Some(item) => match &item.object {
                Object::Text(text) => ReturnCode::Matches(self.pattern(text, item)?),
                other => other.number().map_or(ReturnCode::Never, ReturnCode::Is),
            },
        };
        let stderr = match find(entries, "stderr_pattern") {
            // The original compares with the text `None`.
            None => FullPattern::new("None").ok()?,
            Some(item) => self.pattern(&item.object.text(), item)?,
        };
        let commands = find(entries, "commands").filter(|item| !item.object.is_null());
        let action = find(entries, "action").map(|item| item.object.text());
        Some(Handler {
            name: find(entries, "name").map_or_else(String::new, |item| item.object.text()),
            return_code,
            stderr,
            commands: commands.map_or_else(Vec::new, |item| self.groups("a command", item)),
            action: match action.as_deref() {
                None | Some("abort") => Action::Abort,
                Some("retry") => Action::Retry,
                Some("continue") => Action::Continue,
                Some(other) => Action::Unknown(other.to_owned()),
            },
            mark,
        })
    }

    fn pattern(&mut self, python: &str, item: &Item) -> Option<FullPattern> {
        match FullPattern::new(python) {
            Ok(pattern) => Some(pattern),
            Err(refused) => {
                let message = format!("the pattern {}: {refused}", quoted(python));
                self.fields
                    .wrong(item.mark, message, "patterns are those of Python's `re`");
                None
            }
        }
    }
}

/// A value in a message.
fn display_value(item: &Item) -> String {
    match &item.object {
        Object::Text(text) => quoted(text),
        other => other.describe().to_owned(),
    }
}
