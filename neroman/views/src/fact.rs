//! The table of facts of an experiment.

use nero_expr::FactKind;
use nero_wire::v1::{ExperimentView, RunView};

use crate::Value;
use crate::json::{metrics, overrides, parameters, run_id, some};
use crate::object;

/// Which forms have a fact without being asked. Each has those after it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefaultForms {
    /// CSV.
    Csv,
    /// Columns, by name.
    Column,
    /// JSON.
    Json,
}

/// Makes the type of all facts from the table: the name, as in selectors and
/// headers; the key in documents, with the unit; the forms; the value.
macro_rules! facts {
    ($view:ident: $($fact:ident $name:literal $key:literal $form:ident $value:expr;)*) => {
        /// A fact that every experiment has, in the order of documents.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fact {
            $(#[doc = $name] $fact,)*
        }

        impl Fact {
            /// Every fact.
            pub const ALL: &[Self] = &[$(Self::$fact),*];

            /// The name, as in selectors and headers.
            pub fn name(self) -> &'static str {
                match self { $(Self::$fact => $name,)* }
            }

            /// The key in documents, with the unit.
            pub fn key(self) -> &'static str {
                match self { $(Self::$fact => $key,)* }
            }

            fn form(self) -> DefaultForms {
                match self { $(Self::$fact => DefaultForms::$form,)* }
            }

            /// The value that an experiment has.
            pub fn value(self, $view: &ExperimentView) -> Value<'_> {
                match self { $(Self::$fact => $value,)* }
            }
        }
    };
}

facts! { view:
    Id "id" "id" Csv Value::Whole(view.id.cast_signed());
    Name "name" "name" Csv Value::Text((&*view.name).into());
    Collection "collection" "collection" Csv Value::text_of(&view.collection);
    State "state" "state" Csv Value::State(view);
    Node "node" "node" Csv Value::text_of(&view.node);
    Hosts "hosts" "hosts" Column Value::Names(&view.hosts);
    Image "image" "image" Column Value::text_of(&view.image);
    Run "run" "run" Csv run_id(view.id, view.run).map_or(Value::Unknown, |id| Value::Text(id.into()));
    Parameters "parameters" "parameters" Json Value::Json(parameters(&view.params));
    Metrics "metrics" "metrics" Json Value::Json(metrics(&view.metrics));
    Progress "progress" "progress" Column view.progress.map_or(Value::Unknown, Value::Share);
    Eta "eta" "eta_s" Column view.eta_s.map_or(Value::Unknown, Value::Seconds);
    Runtime "runtime" "runtime_s" Csv view.runtime_s.map_or(Value::Unknown, Value::Seconds);
    Exit "exit" "exit_code" Csv view.exit_code.map_or(Value::Unknown, |code| Value::Whole(code.into()));
    Signal "signal" "signal" Csv view.signal.map_or(Value::Unknown, Value::Signal);
    Reason "reason" "reason" Csv Value::Reason(view);
    StderrLine "stderr_line" "stderr_line" Json Value::text_of(&view.stderr_line);
    Created "created" "created_at" Csv Value::time_of(view.created_ms);
    Modified "modified" "modified_at" Csv Value::time_of(view.modified_ms);
    Submitted "submitted" "submitted_at" Csv Value::time_of(view.submitted_ms);
    Started "started" "started_at" Csv Value::time_of(view.started_ms);
    Ended "ended" "ended_at" Csv Value::time_of(view.ended_ms);
    Path "path" "path" Csv Value::text_of(&view.path);
    Warnings "warnings" "warnings" Column Value::Lines(&view.warnings);
    Hints "hints" "hints" Json Value::Lines(&view.hints);
    Gone "gone" "gone" Json Value::Json(view.gone.into());
    EditedSinceRun "edited_since_run" "edited_since_run" Json Value::Json(view.edited_since_run.into());
    Tags "tags" "tags" Column Value::Names(&view.tags);
    Note "note" "note" Column Value::text_of(&view.note);
    Overrides "overrides" "overrides" Json Value::Json(overrides(&view.overrides));
    CopyOf "copy_of" "copy_of" Column copy_of(view);
    Collections "collections" "collections" Json Value::Lines(&view.collections);
    Phase "phase" "phase" Column Value::text_of(&view.phase);
    Cancel "wish" "wish" Column Value::text_of(&view.cancel);
    Batch "batch" "batch" Column Value::text_of(&view.batch);
    Waiting "waiting" "waiting_for" Column Value::text_of(&view.waiting_for);
    Held "held" "held" Json Value::text_of(&view.held);
    Contact "contact" "contact" Column Value::text_of(&view.contact);
    AsOf "as_of" "as_of" Json Value::time_of(view.as_of_ms);
    Cpu "cpu" "cpu_cores" Column view.cpu_cores.map_or(Value::Unknown, Value::Number);
    Mem "mem" "rss_bytes" Column view.rss_bytes.map_or(Value::Unknown, Value::Bytes);
    Results "results" "results" Csv Value::text_of(&view.results);
    Settled "settled" "settled" Json Value::Json(view.settled.into());
    NotBuilt "not_built" "not_built" Json Value::Lines(&view.not_built);
    Follows "follows" "follows" Column follows(view);
    AlsoLive "also_live" "also_live" Json Value::Json(also_live(view));
}

/// Other names of facts, in expressions.
const IN_EXPRESSIONS: &[(&str, Fact)] = &[
    ("attempt", Fact::Run),
    ("tmod", Fact::Modified),
    ("tsub", Fact::Submitted),
    ("tstart", Fact::Started),
    ("tend", Fact::Ended),
];

impl Fact {
    /// The fact that a column of this name shows.
    pub fn named(name: &str) -> Option<Self> {
        let columns = Self::ALL
            .iter()
            .filter(|fact| fact.form() != DefaultForms::Json);
        let mut columns = columns.map(|fact| (fact.name(), *fact));
        let mut others = IN_EXPRESSIONS.iter().copied();
        columns
            .find(|(known, _)| *known == name)
            .or_else(|| others.find(|(known, _)| *known == name))
            .map(|(_, fact)| fact)
    }

    /// The facts of a CSV, in their order.
    pub fn of_csv() -> impl Iterator<Item = Self> {
        let facts = Self::ALL.iter().copied();
        facts.filter(|fact| fact.form() == DefaultForms::Csv)
    }

    /// The name in a CSV header: figures and moments have their unit.
    pub fn csv_name(self) -> &'static str {
        match self {
            Self::Waiting => self.name(),
            _ => self.key(),
        }
    }
}

/// The value of an expression that views hold when it is asked for.
pub(crate) fn held<'a>(view: &'a ExperimentView, text: &str) -> Value<'a> {
    use nero_wire::v1::fact_value::Value as Held;
    let held = view.facts.iter().find(|held| held.name == text);
    match held.and_then(|held| held.value.as_ref()) {
        None => Value::Unknown,
        Some(Held::Text(text)) => Value::text_of(text),
        Some(Held::Number(number)) => Value::Number(*number),
    }
}

/// The value of a fact of expressions that views hold when it is asked for.
pub(crate) fn asked(view: &ExperimentView, fact: nero_expr::Fact) -> Value<'_> {
    use nero_wire::v1::fact_value::Value as Held;
    let mut facts = view.facts.iter();
    let held = facts.find(|held| held.name == fact.as_str());
    match held.and_then(|held| held.value.as_ref()) {
        None => Value::Unknown,
        Some(Held::Text(text)) => Value::text_of(text),
        Some(Held::Number(number)) => match fact.kind() {
            FactKind::Seconds => Value::Seconds(*number),
            FactKind::Bytes => Value::Bytes(*number as u64),
            FactKind::Number
            | FactKind::Text
            | FactKind::Time
            | FactKind::Version
            | FactKind::Words => Value::Number(*number),
        },
    }
}

/// An experiment whose facts are those of one of its runs.
pub fn of_run(view: ExperimentView, run: RunView) -> ExperimentView {
    ExperimentView {
        run: run.number,
        state: run.state,
        reason: run.reason,
        stderr_line: run.stderr_line,
        batch: run.batch,
        follows: run.follows,
        node: run.node,
        image: run.image,
        results: run.results,
        submitted_ms: run.created_ms,
        started_ms: run.started_ms,
        ended_ms: run.ended_ms,
        runtime_s: run.runtime_s,
        progress: run.progress,
        eta_s: run.eta_s,
        exit_code: run.exit_code,
        signal: run.signal,
        ..view
    }
}

fn copy_of(view: &ExperimentView) -> Value<'_> {
    match view.copy_of {
        0 => Value::Unknown,
        id => Value::Whole(id.cast_signed()),
    }
}

fn follows(view: &ExperimentView) -> Value<'_> {
    match &view.follows {
        None => Value::Unknown,
        Some(one) => Value::Follows(view.id, one),
    }
}

fn also_live(view: &ExperimentView) -> serde_json::Value {
    let lives = view.also_live.iter().map(|live| {
        object!(live =>
            run: run_id(view.id, live.number),
            state, node?,
            wish: some(&live.cancel),
        )
    });
    lives.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_name_and_a_key_of_its_own() {
        for (at, fact) in Fact::ALL.iter().enumerate() {
            for other in &Fact::ALL[..at] {
                assert_ne!(fact.name(), other.name());
                assert_ne!(fact.key(), other.key());
            }
        }
    }

    #[test]
    fn a_run_shows_its_own_end_and_the_name_of_its_experiment() {
        let view = ExperimentView {
            id: 144,
            name: "lr_1".into(),
            run: 2,
            state: "running".into(),
            ..ExperimentView::default()
        };
        let run = RunView {
            number: 1,
            state: "crashed".into(),
            exit_code: Some(3),
            ..RunView::default()
        };
        let shown = of_run(view, run);
        let text = |fact: Fact| fact.value(&shown).text();
        assert_eq!(text(Fact::Run), "144.1");
        assert_eq!(text(Fact::Name), "lr_1");
        assert_eq!(text(Fact::State), "crashed");
        assert_eq!(text(Fact::Exit), "3");
    }
}
