//! What comes before a run: `depends_on`, `stages` and `stage`, `lock`, `settle`, `place`.
//!
//! Names mean experiments of the same source, which are known when all of it is read:
//! [`check`] then refuses names that nobody has, and circles. Numbers mean experiments of
//! the home, which neroman knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::definition::{
    Definition, Dependency, DependsUntil, InStage, NodeChoice, Param, Precedence, RunLock,
};
use crate::read::block::Scope;
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_expr::Glob;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node, Zero};

const EXAMPLE: &str = "for example `depends_on: [init]` or `depends_on: {ended: [init]}`";

/// Reads the fields; the marks are those of the experiments that they name.
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
    let place = place(reader, scope, &mut marks);
    let precedence = Precedence {
        needs,
        place,
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

/// `place: first`, or `place: {same_as: init, apart_from: [x]}`.
fn place(reader: &mut Reader<'_>, scope: &Scope, marks: &mut Vec<Mark>) -> NodeChoice {
    const KEYS: &[&str] = &["same_as", "apart_from"];
    const ORDERS: &[(&str, bool)] = &[("first", true), ("free", false)];
    const EXAMPLE: &str = "for example `place: {same_as: init}` or `place: {apart_from: [x]}`";
    let mut place = NodeChoice::default();
    let Some(given) = scope.get(Field::Place) else {
        return place;
    };
    let Kind::Map(entries) = &given.value.kind else {
        let order = reader.choice(&given.key, &given.value, ORDERS);
        place.in_order = order.unwrap_or(false);
        return place;
    };
    let mut apart_marks = Vec::new();
    for entry in entries {
        match entry.key.as_str() {
            "same_as" => {
                let name = reader.single("place.same_as", &entry.value);
                let name = name.filter(|name| !name.is_empty());
                if let Some(on) = name.map(str::to_owned) {
                    let until = DependsUntil::Placed;
                    place.same_as = Some(Dependency { until, on });
                    marks.push(entry.value.mark);
                } else {
                    reader.wrong(entry.value.mark, "`same_as` has no name", EXAMPLE);
                }
            }
            "apart_from" => {
                for (on, node) in reader.several("place.apart_from", &entry.value) {
                    if on.is_empty() {
                        reader.wrong(node.mark, "`apart_from` has an empty name", EXAMPLE);
                        continue;
                    }
                    place.apart_from.push(on.to_owned());
                    apart_marks.push(node.mark);
                }
            }
            _ => reader.unknown(entry, "is no part of `place`", KEYS, &[]),
        }
    }
    marks.append(&mut apart_marks);
    place
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

/// Fills the values of parameters into the names of other experiments, as in `prepare_{data}`.
pub(crate) fn fill(precedence: &mut Precedence, params: &[Param]) {
    let place = &mut precedence.place;
    let needs = precedence.needs.iter_mut().chain(&mut place.same_as);
    let names = needs.map(|need| &mut need.on).chain(&mut place.apart_from);
    for name in names {
        for param in params {
            if name.contains('{') {
                *name = name.replace(&format!("{{{}}}", param.name), &param.text);
            }
        }
    }
}

/// The number of the experiment that a word names, where it is a number.
pub fn number(on: &str) -> Option<u64> {
    let is_number = on.bytes().all(|byte| byte.is_ascii_digit());
    on.parse().ok().filter(|_| is_number)
}

/// Whether a word names an experiment of the same source, by its own name or its block's.
pub fn is_named(on: &str, definition: &Definition) -> bool {
    let glob = Glob::new(on);
    if glob.has_wildcard() {
        glob.fits(&definition.name)
    } else {
        on == definition.name || on == *definition.block
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
    let names = by_name(&definitions);
    let members = |on: &str| {
        if on.contains(['*', '?']) {
            let fits = |(_, one): &(usize, &Definition)| is_named(on, one);
            let all = definitions.iter().enumerate().filter(fits);
            all.map(|(index, _)| index).collect()
        } else {
            names.get(on).cloned().unwrap_or_default()
        }
    };
    let mut groups: BTreeMap<&str, DefinedGroup> = BTreeMap::new();
    let mut told: HashSet<(Mark, &str)> = HashSet::new();
    for one in &written {
        let definition = &definitions[one.of];
        let needs = definition.precedence.dependencies();
        let needs = needs.map(|need| (&*need.on, need.until != DependsUntil::Placed));
        let apart = &definition.precedence.place.apart_from;
        let waits = definition.precedence.dependencies().count();
        let all = needs.chain(apart.iter().map(|on| (&**on, false)));
        for (at, ((on, is_need), mark)) in all.zip(&*one.marks).enumerate() {
            if number(on).is_some() {
                continue;
            }
            if at >= waits {
                // What is kept apart may be the same block, and closes no circle.
                if members(on).is_empty() && told.insert((*mark, on)) {
                    let hint = unknown_hint(on, names.keys().copied());
                    let message = format!("{} is no experiment of this source", quoted(on));
                    reader.wrong(*mark, message, hint);
                }
                continue;
            }
            let group = groups.entry(on).or_insert_with(|| DefinedGroup {
                members: members(on),
                ..DefinedGroup::default()
            });
            group.waiting.push(one.of);
            let is_glob = on.contains(['*', '?']);
            let is_own = group.members.contains(&one.of) && !is_glob;
            let has_others = group.members.iter().any(|member| *member != one.of);
            let is_right = has_others && !is_own;
            if is_right || !told.insert((*mark, on)) {
                continue;
            }
            let (message, hint) = if is_own {
                of_itself(&definition.name, is_need)
            } else {
                let what = if is_glob { "matches" } else { "is" };
                let message = format!("{} {what} no other experiment of this source", quoted(on));
                (message, unknown_hint(on, names.keys().copied()))
            };
            reader.wrong(*mark, message, hint);
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

/// The definitions by their names and blocks.
fn by_name(definitions: &[Definition]) -> HashMap<&str, Vec<usize>> {
    let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, definition) in definitions.iter().enumerate() {
        names.entry(&definition.name).or_default().push(index);
        if *definition.block != definition.name {
            names.entry(&definition.block).or_default().push(index);
        }
    }
    names
}

/// What is wrong where a definition waits for itself, and what helps.
fn of_itself(name: &str, is_need: bool) -> (String, String) {
    let (what, hint) = if is_need {
        let hint = "`depends_on` of an outer block holds for the inner ones: \
                    give one of them its own, or `depends_on: null`";
        ("depends on itself", hint)
    } else {
        let hint = "name another experiment in `same_as`";
        ("is to be on the same node as itself", hint)
    };
    (format!("{} {what}", quoted(name)), hint.to_owned())
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
    let first = path.iter().find(|one| {
        let precedence = &definitions[**one].precedence;
        precedence.dependencies().next().is_some()
    });
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
