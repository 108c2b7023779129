//! What comes before a run: `depends_on`, `stages` and `stage`, `lock`, `settle`.
//!
//! Names mean experiments of the same source, which are known when all of it is read:
//! [`check`] then refuses names that nobody has, and circles. Numbers mean experiments of
//! the home, which neroman knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::block::Scope;
use crate::definition::{
    Definition, Dependency, DependsUntil, InStage, Param, Precedence, RunLock,
};
use crate::fields::Field;
use crate::reader::Reader;
use nero_expr::Glob;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node, Zero};

const EXAMPLE: &str = "for example `depends_on: [init]` or `depends_on: {ended: [init]}`";

/// Where the dependencies of a definition are written, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// The index of the definition.
    pub(crate) of: usize,
    pub(crate) marks: Rc<[Mark]>,
}

/// Reads the fields; the marks are those of the dependencies.
pub(crate) fn read(reader: &mut Reader<'_>, scope: &Scope) -> (Precedence, Rc<[Mark]>) {
    let mut needs = Vec::new();
    let mut marks = Vec::new();
    if let Some(given) = scope.get(Field::DependsOn) {
        for (until, list) in dependencies(reader, &given.value) {
            for (on, node) in reader.several(&given.key, list) {
                if on.is_empty() {
                    reader.wrong(node.mark, "`depends_on` has an empty name", EXAMPLE);
                    continue;
                }
                let on = on.to_owned();
                needs.push(Dependency { until, on });
                marks.push(node.mark);
            }
        }
    }
    let precedence = Precedence {
        needs,
        stage: stage(reader, scope),
        lock: lock(reader, scope),
        settle_ms: scope
            .get(Field::Settle)
            .and_then(|given| reader.duration_ms(&given.key, &given.value, Zero::Allowed))
            .unwrap_or(0),
    };
    (precedence, marks.into())
}

/// The lists of names of `depends_on`.
fn dependencies<'n>(reader: &mut Reader<'_>, value: &'n Node) -> Vec<(DependsUntil, &'n Node)> {
    const KEYS: &[&str] = &["finished", "ended", "started"];
    let Kind::Map(entries) = &value.kind else {
        return vec![(DependsUntil::Finished, value)];
    };
    let mut lists = Vec::new();
    for entry in entries {
        let until = match entry.key.as_str() {
            "finished" => DependsUntil::Finished,
            "ended" => DependsUntil::Ended,
            "started" => DependsUntil::Started,
            _ => {
                reader.unknown(entry, "is no part of `depends_on`", KEYS, &[]);
                continue;
            }
        };
        if !entry.value.is_null() {
            lists.push((until, &*entry.value));
        }
    }
    lists
}

fn stage(reader: &mut Reader<'_>, scope: &Scope) -> Option<InStage> {
    let stages = stages(reader, scope);
    let given = scope.get(Field::Stage)?;
    let name = reader.single(&given.key, &given.value)?;
    let Some(stages) = stages else {
        let message = format!("the stage {} stands in no `stages`", quoted(name));
        let hint = format!("list them at the top of the file: `stages: [{name}, main]`");
        reader.wrong(given.value.mark, message, hint);
        return None;
    };
    let Some(at) = stages.iter().position(|stage| stage == name) else {
        let hint = match nero_model::names::suggest(name, &stages) {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => format!("`stages` has {}", stages.join(", ")),
        };
        let message = format!("{} is none of `stages`", quoted(name));
        reader.wrong(given.value.mark, message, hint);
        return None;
    };
    Some(InStage {
        name: name.to_owned(),
        before: stages[..at].to_vec(),
    })
}

fn stages(reader: &mut Reader<'_>, scope: &Scope) -> Option<Vec<String>> {
    let given = scope.get(Field::Stages)?;
    let mut stages: Vec<String> = Vec::new();
    for (name, node) in reader.several(&given.key, &given.value) {
        if name.is_empty() || stages.iter().any(|stage| stage == name) {
            let message = match name {
                "" => "a stage has no name".to_owned(),
                name => format!("the stage {} comes twice", quoted(name)),
            };
            reader.wrong(node.mark, message, "for example `stages: [prepare, main]`");
            continue;
        }
        stages.push(name.to_owned());
    }
    Some(stages)
}

/// `lock: env`, or `lock: {name: env, scope: all}`.
fn lock(reader: &mut Reader<'_>, scope: &Scope) -> Option<RunLock> {
    const KEYS: &[&str] = &["name", "scope"];
    const SCOPES: &[(&str, bool)] = &[("node", false), ("all", true)];
    let given = scope.get(Field::Lock)?;
    let mut name = None;
    let mut everywhere = false;
    match &given.value.kind {
        Kind::Map(entries) => {
            for entry in entries {
                match entry.key.as_str() {
                    "name" => name = reader.single("lock.name", &entry.value),
                    "scope" => {
                        let scope = reader.choice("lock.scope", &entry.value, SCOPES);
                        everywhere = scope.unwrap_or(false);
                    }
                    _ => reader.unknown(entry, "is no part of `lock`", KEYS, &[]),
                }
            }
        }
        Kind::Scalar { .. } | Kind::List(_) => name = reader.single(&given.key, &given.value),
    }
    match name {
        Some(name) if !name.is_empty() => Some(RunLock {
            name: name.to_owned(),
            everywhere,
        }),
        Some(_) | None => {
            reader.wrong(
                given.value.mark,
                "`lock` has no name",
                "for example `lock: env` or `lock: {name: env, scope: all}`",
            );
            None
        }
    }
}

/// Fills the values of parameters into the names that an experiment depends on, as in
/// `prepare_{data}`.
pub(crate) fn fill(precedence: &mut Precedence, params: &[Param]) {
    for need in precedence.needs.iter_mut() {
        for param in params {
            if need.on.contains('{') {
                need.on = need.on.replace(&format!("{{{}}}", param.name), &param.text);
            }
        }
    }
}

impl Dependency {
    /// The number of the experiment, where it is given by its number.
    pub fn number(&self) -> Option<u64> {
        let is_number = self.on.bytes().all(|byte| byte.is_ascii_digit());
        self.on.parse().ok().filter(|_| is_number)
    }

    /// Whether an experiment of the same source is meant, by its own name or its block's.
    pub fn names(&self, definition: &Definition) -> bool {
        let glob = Glob::new(&self.on);
        match glob.has_wildcard() {
            true => glob.fits(&definition.name),
            false => self.on == definition.name || self.on == definition.block,
        }
    }
}

/// One list of definitions that others wait for: those of a name, or of the stages before
/// one.
#[derive(Debug, Default)]
struct DefinedGroup {
    members: Vec<usize>,
    /// The definitions that wait for it.
    waiting: Vec<usize>,
    /// Members that are not known to come to their end.
    open: usize,
}

/// Refuses dependencies on names that nobody has, on oneself, and circles.
pub(crate) fn check(reader: &mut Reader<'_>) {
    let definitions = std::mem::take(&mut reader.definitions);
    let written = std::mem::take(&mut reader.written);
    let mistakes = reader.count();
    let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, definition) in definitions.iter().enumerate() {
        names.entry(&definition.name).or_default().push(index);
        if definition.block != definition.name {
            names.entry(&definition.block).or_default().push(index);
        }
    }
    let members = |need: &Dependency| match need.on.contains(['*', '?']) {
        false => names.get(&*need.on).cloned().unwrap_or_default(),
        true => {
            let fits = |(_, one): &(usize, &Definition)| need.names(one);
            let all = definitions.iter().enumerate().filter(fits);
            all.map(|(index, _)| index).collect()
        }
    };
    let mut groups: BTreeMap<&str, DefinedGroup> = BTreeMap::new();
    let mut told: HashSet<(Mark, &str)> = HashSet::new();
    for one in &written {
        let definition = &definitions[one.of];
        for (need, mark) in definition.precedence.needs.iter().zip(&*one.marks) {
            if need.number().is_some() {
                continue;
            }
            let group = groups.entry(&need.on).or_insert_with(|| DefinedGroup {
                members: members(need),
                ..DefinedGroup::default()
            });
            group.waiting.push(one.of);
            let is_glob = need.on.contains(['*', '?']);
            let own = quoted(&definition.name);
            let others = group.members.iter().any(|member| *member != one.of);
            if group.members.contains(&one.of) && !is_glob && told.insert((*mark, &need.on)) {
                reader.wrong(
                    *mark,
                    format!("{own} depends on itself"),
                    "`depends_on` of an outer block holds for the inner ones: \
                     give one of them its own, or `depends_on: null`",
                );
            } else if !others && told.insert((*mark, &need.on)) {
                let hint = unknown_hint(&need.on, names.keys().copied());
                let what = if is_glob { "matches" } else { "is" };
                let message = format!(
                    "{} {what} no other experiment of this source",
                    quoted(&need.on)
                );
                reader.wrong(*mark, message, hint);
            }
        }
    }
    if reader.count() == mistakes
        && let Some((index, message)) = circle(&definitions, groups)
    {
        let of = written.iter().find(|one| one.of == index);
        let mark = of.and_then(|one| one.marks.first().copied());
        let mark = mark.or(written.first().and_then(|one| one.marks.first().copied()));
        if let Some(mark) = mark {
            reader.wrong(mark, message, "none of them could ever start");
        }
    }
    reader.definitions = definitions;
}

fn unknown_hint<'n>(on: &str, names: impl Iterator<Item = &'n str>) -> String {
    match nero_model::names::suggest(on, names.take(10_000)) {
        Some(near) => format!("did you mean {}?", quoted(near)),
        None => "name an experiment or a block of this file, a glob such as 'prepare*', \
                 or the number of any experiment"
            .to_owned(),
    }
}

/// A circle of definitions that wait for each other: one of them, and all in words.
fn circle<'d>(
    definitions: &'d [Definition],
    groups: BTreeMap<&'d str, DefinedGroup>,
) -> Option<(usize, String)> {
    let mut groups: Vec<DefinedGroup> = groups.into_values().collect();
    groups.extend(of_stages(definitions));
    let mut in_groups: Vec<Vec<usize>> = vec![Vec::new(); definitions.len()];
    let mut waits_for: Vec<Vec<usize>> = vec![Vec::new(); definitions.len()];
    for (at, group) in groups.iter_mut().enumerate() {
        group.open = group.members.len();
        for member in &group.members {
            in_groups[*member].push(at);
        }
        for waiting in &group.waiting {
            waits_for[*waiting].push(at);
        }
    }
    let mut done = vec![false; definitions.len()];
    let mut look: Vec<usize> = (0..definitions.len()).collect();
    while let Some(index) = look.pop() {
        // An experiment of its own glob does not wait for itself.
        let is_free = |at: &usize| {
            let own = usize::from(in_groups[index].contains(at) && !done[index]);
            groups[*at].open <= own
        };
        if done[index] || !waits_for[index].iter().all(is_free) {
            continue;
        }
        done[index] = true;
        for at in &in_groups[index] {
            groups[*at].open -= 1;
            if groups[*at].open <= 1 {
                look.extend(groups[*at].waiting.iter().filter(|one| !done[**one]));
            }
        }
    }
    let mut path = vec![done.iter().position(|done| !done)?];
    loop {
        let last = *path.last()?;
        let next = waits_for[last].iter().find_map(|at| {
            let members = groups[*at].members.iter().copied();
            members.filter(|one| !done[*one]).find(|one| *one != last)
        })?;
        if let Some(from) = path.iter().position(|one| *one == next) {
            path.drain(..from);
            break;
        }
        path.push(next);
    }
    let name = |index: &usize| quoted(&definitions[*index].name);
    let mut links: Vec<String> = Vec::new();
    for (at, one) in path.iter().enumerate() {
        let next = path.get(at + 1).unwrap_or(&path[0]);
        links.push(format!("{} needs {}", name(one), name(next)));
    }
    let shown = links.len().min(6);
    let more = if links.len() > shown { ", …" } else { "" };
    let first = path
        .iter()
        .find(|one| !definitions[**one].precedence.needs.is_empty());
    let message = format!("a circle: {}{more}", links[..shown].join(", "));
    Some((*first.unwrap_or(&path[0]), message))
}

/// The groups of stages: those of each stage wait for those of the stages before.
fn of_stages(definitions: &[Definition]) -> Vec<DefinedGroup> {
    let mut waiting: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
    let mut members: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, definition) in definitions.iter().enumerate() {
        if let Some(stage) = &definition.precedence.stage {
            members.entry(&stage.name).or_default().push(index);
            if !stage.before.is_empty() {
                waiting.entry(&stage.before).or_default().push(index);
            }
        }
    }
    let group = |(before, waiting): (&[String], Vec<usize>)| {
        let of = |stage: &String| members.get(&**stage).cloned().unwrap_or_default();
        DefinedGroup {
            members: before.iter().flat_map(of).collect(),
            waiting,
            open: 0,
        }
    };
    waiting.into_iter().map(group).collect()
}
