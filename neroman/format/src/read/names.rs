//! What the names in a block's templates stand for.

use super::block::{self, Scope};
use super::command::pyformat::NameKind;
use super::command::style::Style;
use super::params::Axis;
use crate::definition::problem::printable;
use nero_model::names::{same_loosely, suggest};
use nero_model::safe::quoted;
use std::collections::{HashMap, HashSet};

/// Begins the name of data: `{data.corpus}`.
const DATA: &str = "data.";
/// How many parameters a hint lists, and how many it compares a name with.
const LISTED: usize = 8;
const COMPARED: usize = 1000;

/// The names of a block.
pub(crate) struct Names<'a> {
    scope: &'a Scope,
    axes: &'a [Axis],
    params_file: Option<&'a str>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    /// A parameter among `grouped` has two names, `Params/lr` and `lr`.
    pub(crate) fn new(
        scope: &'a Scope,
        axes: &'a [Axis],
        style: Option<&'a Style>,
        grouped: &HashSet<String>,
    ) -> Self {
        let named = axes.iter().enumerate();
        let params_file = match style {
            Some(Style::File(path)) => Some(path.as_str()),
            Some(_) | None => None,
        };
        let index = named.clone().map(|(i, axis)| (axis.name.as_str(), i));
        let mut index: HashMap<&str, usize> = index.collect();
        for (i, axis) in named.filter(|(_, axis)| grouped.contains(&axis.name)) {
            if let Some((_, name)) = axis.name.split_once('/') {
                index.entry(name).or_insert(i);
            }
        }
        Self {
            scope,
            axes,
            params_file,
            index,
        }
    }

    /// The parameters in their order.
    pub(crate) fn axes(&self) -> &'a [Axis] {
        self.axes
    }

    /// What a name stands for.
    pub(crate) fn kind(&self, name: &str) -> NameKind {
        if let Some(index) = self.index.get(name) {
            return NameKind::Parameter(*index);
        }
        if let Some(data) = name.strip_prefix(DATA)
            && block::is_data(self.scope, data)
        {
            return NameKind::Text(nero_model::data::place(data));
        }
        match self.params_file {
            Some(path) if name == "params_file" => NameKind::Text(path.to_owned()),
            Some(_) | None => match self.loose(name) {
                Some(index) => NameKind::Parameter(index),
                None => NameKind::Unknown,
            },
        }
    }

    /// The only parameter of this name without regard to case, blanks, `_` and `-`, as a column
    /// `learning rate` is for `{learning_rate}`.
    fn loose(&self, name: &str) -> Option<usize> {
        let alike = self.index.iter();
        let mut alike = alike.filter(|(known, _)| same_loosely(known, name));
        let (_, first) = alike.next()?;
        alike.all(|(_, other)| other == first).then_some(*first)
    }

    /// What to do about a name that stands for nothing.
    pub(crate) fn hint(&self, name: &str) -> String {
        if name == "params_file" {
            return "it goes with `parameters_style: {file: params.json}`".to_owned();
        }
        if let Some(data) = name.strip_prefix(DATA) {
            return block::data_hint(self.scope, data);
        }
        let known = self.axes.iter().map(|axis| axis.name.as_str());
        if let Some(near) = suggest(name, known.take(COMPARED)) {
            return format!("did you mean {}?", quoted(near));
        }
        if self.axes.is_empty() {
            return format!("give it a value: `parameters: {{{}: 1}}`", printable(name));
        }
        let shown = self.axes.iter().take(LISTED);
        let mut known: Vec<String> = shown.map(|axis| quoted(&axis.name)).collect();
        if self.axes.len() > LISTED {
            known.push("…".into());
        }
        format!("the parameters are {}", known.join(", "))
    }
}
