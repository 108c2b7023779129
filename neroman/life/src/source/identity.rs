//! Pairs the definitions of a source that is read again with its experiments,
//! so that numbers stay with their experiments. Called by `merge` alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use nero_format::{Definition, Param, Value};

use crate::fold::experiment::Experiment;

/// The experiment that each definition describes anew; `None` for a new one. No
/// experiment is returned twice.
///
/// A definition with a number is the experiment of this number and no other. Of the rest
/// the first rule that fits decides: the same name, in its collection or in
/// another; in the same block, the same values of the parameters that vary, so
/// that constants may change and axes come and go; in a renamed block, the same
/// parameters and command. An experiment in its source comes before one that
/// had left it.
pub fn pair<'a>(old: &[&'a Experiment], new: &[Definition]) -> Vec<Option<&'a Experiment>> {
    let mut old = old.to_vec();
    old.sort_by_key(|one| (one.gone, one.id));
    let described = old.iter().map(|one| of_source(one)).collect();
    let mut pairing = Pairing {
        described,
        old_blocks: old_blocks(&old, new),
        taken: vec![false; old.len()],
        found: vec![None; new.len()],
        old,
        new,
    };
    pairing.by_numbers();
    let (all_old, all_new) = (pairing.free_old(|_| true), pairing.free_new(|_| true));
    pairing.by(&all_old, &all_new, |one| {
        (one.collection().to_owned(), one.name.clone())
    });
    pairing.by(&all_old, &all_new, |one| one.name.clone());
    pairing.within_blocks();
    pairing.renamed_blocks();
    let Pairing { old, found, .. } = pairing;
    found.into_iter().map(|index| Some(old[index?])).collect()
}

/// The block that made each experiment. Definitions stored by an earlier
/// version do not contain it; there the longest block counts that the name
/// begins with.
fn old_blocks(old: &[&Experiment], new: &[Definition]) -> Vec<String> {
    let mut known: Vec<&str> = new.iter().map(|one| one.block.as_str()).collect();
    known.sort_unstable_by_key(|block| (std::cmp::Reverse(block.len()), *block));
    known.dedup();
    let begins = |name: &str, block: &str| {
        let rest = name.strip_prefix(block);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let block = |definition: &Definition| match definition.block.as_str() {
        "" => {
            let mut fits = known.iter().filter(|block| begins(&definition.name, block));
            fits.next()
                .map_or_else(String::new, |&block| block.to_owned())
        }
        block => block.to_owned(),
    };
    old.iter().map(|one| block(&one.definition)).collect()
}

/// An experiment as its source described it, without the values that a person set.
fn of_source(experiment: &Experiment) -> Cow<'_, Definition> {
    let overrides = &experiment.by_hand.overrides;
    if overrides.iter().all(|one| one.is_field) {
        return Cow::Borrowed(&experiment.definition);
    }
    let mut definition = (*experiment.definition).clone();
    for param in &mut definition.params {
        let mut own = overrides.iter().filter(|one| !one.is_field);
        let own = own.find(|one| one.key == param.name);
        if let Some(text) = own.and_then(|one| one.over.as_ref()) {
            param.text.clone_from(text);
            param.value = match text.parse() {
                Ok(number) => Value::Float(number),
                Err(_) => Value::Text(text.clone()),
            };
        }
    }
    Cow::Owned(definition)
}

struct Pairing<'a, 'n> {
    old: Vec<&'a Experiment>,
    /// Parallel to `old`.
    described: Vec<Cow<'a, Definition>>,
    /// Parallel to `old`.
    old_blocks: Vec<String>,
    taken: Vec<bool>,
    new: &'n [Definition],
    /// Parallel to `new`: indexes into `old`.
    found: Vec<Option<usize>>,
}

impl Pairing<'_, '_> {
    fn free_old(&self, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        let all = 0..self.old.len();
        all.filter(|&at| !self.taken[at] && fits(at)).collect()
    }

    fn free_new(&self, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        let all = 0..self.new.len();
        let unnamed = |at: usize| self.new[at].number.is_none() && self.found[at].is_none();
        all.filter(|&at| unnamed(at) && fits(at)).collect()
    }

    fn by_numbers(&mut self) {
        let places = self.old.iter().enumerate();
        let places: HashMap<u64, usize> = places.map(|(at, one)| (one.id.0, at)).collect();
        for new in 0..self.new.len() {
            let number = self.new[new].number;
            if let Some(&old) = number.and_then(|number| places.get(&number)) {
                self.give(new, old);
            }
        }
    }

    fn give(&mut self, new: usize, old: usize) {
        self.found[new] = Some(old);
        self.taken[old] = true;
    }

    /// Pairs definitions and experiments with the same key, in order.
    fn by<K: std::hash::Hash + Eq>(
        &mut self,
        old: &[usize],
        new: &[usize],
        key: impl Fn(&Definition) -> K,
    ) {
        let mut places: HashMap<K, VecDeque<usize>> = HashMap::new();
        for &at in old.iter().filter(|&&at| !self.taken[at]) {
            let those = places.entry(key(&self.described[at])).or_default();
            those.push_back(at);
        }
        for &at in new {
            if self.found[at].is_none()
                && let Some(those) = places.get_mut(&key(&self.new[at]))
                && let Some(found) = those.pop_front()
            {
                self.give(at, found);
            }
        }
    }

    /// Pairs rows of the same block by the parameters that vary in either
    /// reading and that both have.
    fn within_blocks(&mut self) {
        let mut new_of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in self.free_new(|_| true) {
            let block = (*self.new[at].block).clone();
            new_of.entry(block).or_default().push(at);
        }
        // Rows of one block that left it at different times may vary in
        // different parameters.
        let mut old_of: BTreeMap<(&str, bool, &[String]), Vec<usize>> = BTreeMap::new();
        for (at, one) in self.old.iter().enumerate() {
            if !self.taken[at] {
                let key = (
                    &*self.old_blocks[at],
                    one.gone,
                    one.definition.varied.as_slice(),
                );
                old_of.entry(key).or_default().push(at);
            }
        }
        let mut groups = Vec::new();
        for ((block, _, varied), old) in old_of {
            let Some(new) = new_of.get(block) else {
                continue;
            };
            let (before, now) = (&*self.described[old[0]], &self.new[new[0]]);
            let mut names: Vec<String> = now.varied.iter().chain(varied).cloned().collect();
            names.retain(|name| value(before, name).is_some() && value(now, name).is_some());
            let varies = !now.varied.is_empty() || !varied.is_empty();
            groups.push((old, new.clone(), names, varies));
        }
        for (old, new, names, varies) in groups {
            if !names.is_empty() || !varies {
                self.by(&old, &new, |one| {
                    let values = names.iter().map(|name| value(one, name));
                    values.collect::<Vec<_>>()
                });
            } else if old.len() == new.len() {
                // The parameter itself was renamed: the position decides.
                for (old, new) in old.into_iter().zip(new) {
                    if !self.taken[old] && self.found[new].is_none() {
                        self.give(new, old);
                    }
                }
            }
        }
    }

    /// Pairs rows whose block was renamed.
    fn renamed_blocks(&mut self) {
        let now: HashSet<&str> = self.new.iter().map(|one| one.block.as_str()).collect();
        let before: HashSet<&str> = self.old_blocks.iter().map(String::as_str).collect();
        let old =
            self.free_old(|at| !self.old[at].gone && !now.contains(self.old_blocks[at].as_str()));
        let new = self.free_new(|at| !before.contains(self.new[at].block.as_str()));
        self.by(&old, &new, |one| {
            let mut params: Vec<(String, String)> = one
                .params
                .iter()
                .map(|param| (param.name.clone(), plain(param)))
                .collect();
            params.sort();
            (params, one.command_text.clone())
        });
    }
}

fn value(definition: &Definition, name: &str) -> Option<String> {
    let mut params = definition.params.iter();
    params.find(|param| param.name == name).map(plain)
}

/// The canonical form of a value: `0.10` is `0.1`.
fn plain(param: &Param) -> String {
    match (param.value.number(), nero_model::whole::digits(&param.text)) {
        (Some(_), Some(digits)) => digits,
        (Some(number), None) => number.to_string(),
        (None, _) => param.text.clone(),
    }
}
