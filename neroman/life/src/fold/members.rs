//! Which experiments the words of a source mean: names, blocks, globs and stages. They follow
//! from the definitions alone, so that no change of a run has them looked for again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nero_expr::Glob;
use nero_format::{experiment_number, is_named};
use nero_model::ExperimentId;

use super::experiment::Experiment;
use super::shelf::Shelf;

/// Experiments by source and by what others call them, by rising number.
#[derive(Debug)]
pub(crate) struct Members {
    of: HashMap<u64, OfSource>,
}

/// The experiments of one source.
#[derive(Debug, Default)]
struct OfSource {
    all: Vec<ExperimentId>,
    /// By name, and by the name of the block.
    names: HashMap<String, Arc<[ExperimentId]>>,
    stages: HashMap<String, Arc<[ExperimentId]>>,
    /// By the globs that were asked for.
    globs: Mutex<HashMap<String, Arc<[ExperimentId]>>>,
}

impl Members {
    /// The experiments of all sources.
    pub fn of(experiments: &Shelf<Experiment>) -> Self {
        let mut all: HashMap<u64, Vec<ExperimentId>> = HashMap::new();
        let mut names: HashMap<(u64, &str), Vec<ExperimentId>> = HashMap::new();
        let mut stages: HashMap<(u64, &str), Vec<ExperimentId>> = HashMap::new();
        for one in experiments.iter() {
            let (source, definition) = (one.source, &one.definition);
            all.entry(source).or_default().push(one.id);
            let mut name = |name| names.entry((source, name)).or_default().push(one.id);
            name(&definition.name);
            if definition.block != definition.name {
                name(&definition.block);
            }
            if let Some(stage) = &definition.precedence.stage {
                let those = stages.entry((source, &stage.name)).or_default();
                those.push(one.id);
            }
        }
        let mut of: HashMap<u64, OfSource> = HashMap::new();
        for (source, all) in all {
            of.entry(source).or_default().all = all;
        }
        for ((source, name), those) in names {
            let names = &mut of.entry(source).or_default().names;
            names.insert(name.to_owned(), those.into());
        }
        for ((source, stage), those) in stages {
            let stages = &mut of.entry(source).or_default().stages;
            stages.insert(stage.to_owned(), those.into());
        }
        Self { of }
    }

    /// The experiments in a stage of a source.
    pub fn in_stage(&self, source: u64, stage: &str) -> Arc<[ExperimentId]> {
        let those = self.of.get(&source).and_then(|of| of.stages.get(stage));
        those.cloned().unwrap_or_default()
    }

    /// The experiments that a word of a source names.
    pub fn named(
        &self,
        experiments: &Shelf<Experiment>,
        source: u64,
        on: &str,
    ) -> Arc<[ExperimentId]> {
        if let Some(number) = experiment_number(on) {
            let one = experiments.get(number);
            return one.map(|one| one.id).into_iter().collect();
        }
        let Some(of) = self.of.get(&source) else {
            return Arc::default();
        };
        if !Glob::new(on).has_wildcard() {
            return of.names.get(on).cloned().unwrap_or_default();
        }
        let mut globs = of.globs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = globs.get(on) {
            return Arc::clone(known);
        }
        let fits = |id: &&ExperimentId| {
            let one = experiments.get(id.0);
            one.is_some_and(|one| is_named(on, &one.definition))
        };
        let those: Arc<[ExperimentId]> = of.all.iter().filter(fits).copied().collect();
        globs.insert(on.to_owned(), Arc::clone(&those));
        those
    }
}
