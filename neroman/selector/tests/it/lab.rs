//! A handful of experiments, or a hundred thousand, in memory.

use nero_expr::{Fact, NameKind, ParseContext, Scope, Value};
use nero_selector::{Catalogue, PickResult, Selector, SelectorError};

/// 2026-11-20T12:00:00Z.
pub const NOW_MS: i64 = 1_795_176_000_000;

#[derive(Clone, Debug, Default)]
pub struct Experiment {
    pub id: u64,
    pub name: String,
    pub collection: String,
    pub state: &'static str,
    pub changed: Option<bool>,
    pub gone: bool,
    pub block: String,
    pub last: bool,
    pub attempts: u32,
    pub age_s: i64,
    pub runtime_s: f64,
    /// Separated by blanks.
    pub tags: &'static str,
    pub params: Vec<(&'static str, f64)>,
    pub metrics: Vec<(&'static str, f64)>,
}

impl Scope for &Experiment {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        match fact {
            Fact::Runtime => Value::number(self.runtime_s),
            Fact::Tag => Value::Text(self.tags),
            Fact::Tmod => Value::Time(NOW_MS - self.age_s * 1000),
            _ => Value::Unknown,
        }
    }

    fn param(&self, name: &str) -> Value<'_> {
        let found = self.params.iter().find(|(param, _)| *param == name);
        Value::number_or_unknown(found.map(|&(_, value)| value))
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let found = self.metrics.iter().find(|(metric, _)| *metric == name);
        found.map(|&(_, value)| value)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for (name, _) in &self.params {
            visit(NameKind::Param, name);
        }
        for (name, _) in &self.metrics {
            visit(NameKind::Metric, name);
        }
    }
}

#[derive(Debug, Default)]
pub struct Lab {
    pub experiments: Vec<Experiment>,
    names: Vec<(NameKind, &'static str)>,
}

impl Lab {
    pub fn new(experiments: Vec<Experiment>) -> Lab {
        let mut names = Vec::new();
        for experiment in &experiments {
            let params = experiment
                .params
                .iter()
                .map(|&(name, _)| (NameKind::Param, name));
            let metrics = experiment
                .metrics
                .iter()
                .map(|&(name, _)| (NameKind::Metric, name));
            for name in params.chain(metrics) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Lab { experiments, names }
    }

    pub fn pick(&self, text: &str) -> Result<PickResult, SelectorError> {
        Selector::parse(text, &ParseContext::utc(NOW_MS))?.pick(self)
    }

    pub fn ids(&self, text: &str) -> Vec<u64> {
        match self.pick(text) {
            Ok(picked) => picked.ids,
            Err(error) => panic!("{}", error.render(text)),
        }
    }

    pub fn refusal(&self, text: &str) -> String {
        match self.pick(text) {
            Ok(picked) => panic!("{text} picked {:?}", picked.ids),
            Err(error) => error.render(text),
        }
    }
}

impl Catalogue for Lab {
    type Row<'c> = &'c Experiment;

    fn len(&self) -> usize {
        self.experiments.len()
    }
    fn id(&self, row: usize) -> u64 {
        self.experiments[row].id
    }
    fn name(&self, row: usize) -> &str {
        &self.experiments[row].name
    }
    fn collection(&self, row: usize) -> &str {
        &self.experiments[row].collection
    }
    fn state(&self, row: usize) -> &str {
        self.experiments[row].state
    }
    fn scope(&self, row: usize) -> &Experiment {
        &self.experiments[row]
    }
    fn is_changed(&self, row: usize) -> Option<bool> {
        self.experiments[row].changed
    }
    fn is_gone(&self, row: usize) -> bool {
        self.experiments[row].gone
    }
    fn block(&self, row: usize) -> &str {
        &self.experiments[row].block
    }
    fn is_last(&self, row: usize) -> bool {
        self.experiments[row].last
    }
    fn newest_attempt(&self, row: usize) -> u32 {
        self.experiments[row].attempts
    }
    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for &(kind, name) in &self.names {
            visit(kind, name);
        }
    }
}

/// An experiment that never ran.
pub fn experiment(id: u64, collection: &str, name: &str) -> Experiment {
    Experiment {
        id,
        name: name.to_owned(),
        collection: collection.to_owned(),
        state: "defined",
        changed: Some(false),
        ..Experiment::default()
    }
}

/// Twelve experiments of two collections, with all that names do to readers.
pub fn lab() -> Lab {
    let states = [
        "defined", "queued", "running", "running", "finished", "crashed", "timeout", "paused",
        "aborted", "lost", "ending", "finished",
    ];
    let names = [
        ("fib", "fib_breaktime-0.1_n-10"),
        ("fib", "fib_breaktime-0.1_n-20"),
        ("fib", "small"),
        ("lang", "small"),
        ("lang", "loss > 3"),
        ("lang", "odd, name"),
        ("lang", "crashed"),
        ("lang", "144"),
        ("lang", "deep/name"),
        ("lang", "it`s"),
        ("", "all alone"),
        ("", "lr"),
    ];
    // Number 108 is missing.
    let ids = [101, 102, 103, 104, 105, 106, 107, 109, 110, 111, 112, 120];
    let rows = ids.into_iter().zip(states).zip(names).enumerate();
    let experiments = rows.map(|(row, ((id, state), (collection, name)))| Experiment {
        state,
        attempts: u32::from(state != "defined") * 2,
        last: row < 2,
        changed: Some(row == 4),
        age_s: 60 * id as i64,
        runtime_s: 1000.0 * row as f64,
        params: vec![("lr", 0.1 * row as f64)],
        metrics: if row % 2 == 0 {
            vec![("error_rate", 0.1 * row as f64)]
        } else {
            vec![("Error rate", 0.1 * row as f64)]
        },
        ..experiment(id, collection, name)
    });
    Lab::new(experiments.collect())
}
