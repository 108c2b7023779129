//! The JSON forms, which are promises: `docs/json.md` describes them and
//! snapshots in the tests hold them.

use std::io;

use nero_model::safe::Safe;
use nero_wire::v1::{
    BatchView, EnvVar, ExperimentView, Follows, MetricSummary, NodeView, Override, Param,
    RuleState, RunView, SchedulerUse, Workbook,
};
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value, json};

use crate::Fact;
use crate::object;
use crate::text::{self, iso_time};
use crate::workbooks::workbook;

/// Prints a document on one line. Characters that could act on a terminal are
/// written as `\u`, which changes no value.
pub fn print(value: &Value) -> String {
    let mut bytes = Vec::new();
    write(value, &mut bytes).expect("a value in memory is written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Begins the text of a whole number that is longer than `serde_json` keeps; its digits are
/// printed as a number.
const LONG_NUMBER: char = '\0';

fn write(value: &Value, bytes: &mut Vec<u8>) -> io::Result<()> {
    let long = value
        .as_str()
        .and_then(|text| text.strip_prefix(LONG_NUMBER));
    match (value, long.and_then(nero_model::whole::digits)) {
        (Value::Array(items), _) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write(item, bytes)?;
            }
            bytes.push(b']');
        }
        (Value::Object(fields), _) => {
            bytes.push(b'{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                name.serialize(&mut Serializer::with_formatter(
                    &mut *bytes,
                    EscapeFormatter,
                ))?;
                bytes.push(b':');
                write(field, bytes)?;
            }
            bytes.push(b'}');
        }
        (_, Some(digits)) => bytes.extend_from_slice(digits.as_bytes()),
        (single, None) => {
            single.serialize(&mut Serializer::with_formatter(bytes, EscapeFormatter))?
        }
    }
    Ok(())
}

/// The version of the documents.
pub const SCHEMA: u32 = 1;

/// Wraps the result of a verb: `{"schema":1, …}`.
pub fn document(fields: Value) -> Value {
    let mut all = Map::from_iter([("schema".to_owned(), json!(SCHEMA))]);
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all)
}

/// An experiment as in `status --json`: every fact under its key.
pub fn experiment(view: &ExperimentView) -> Value {
    let facts = Fact::ALL.iter();
    let fields = facts.map(|fact| (fact.key().to_owned(), fact.value(view).json()));
    Value::Object(fields.collect())
}

/// `status --json`; of a watch the tables are unknown.
pub fn experiments(
    views: &[ExperimentView],
    notes: &[String],
    books: Option<&[Workbook]>,
    batches: &[BatchView],
) -> Value {
    let views: Vec<_> = views.iter().map(experiment).collect();
    let books = books.map(workbooks);
    document(json!({
        "experiments": views,
        "notes": notes,
        "workbooks": books,
        "batches": self::batches(batches),
    }))
}

/// The batches in `status --json`.
pub fn batches(batches: &[BatchView]) -> Value {
    let batch =
        |one: &BatchView| object!(one => batch, runs, ended, left_s: one.left_s.map(number));
    batches.iter().map(batch).collect()
}

/// The tables in `status --json`.
pub fn workbooks(books: &[Workbook]) -> Value {
    books.iter().map(workbook).collect()
}

/// Values in place of a source's.
pub fn overrides(overrides: &[Override]) -> Value {
    let one = |one: &Override| object!(one => key, value: one.text, source?);
    overrides.iter().map(one).collect()
}

/// A run as in `show --json`.
pub fn run(experiment: u64, view: &RunView) -> Value {
    object!(view =>
        run: run_id(experiment, view.number),
        state, reason?, node?,
        created_at: iso_time(view.created_ms),
        started_at: iso_time(view.started_ms),
        ended_at: iso_time(view.ended_ms),
        exit_code, signal,
        runtime_s: view.runtime_s.map(number),
        progress: view.progress.map(number),
        eta_s: view.eta_s.map(number),
        incarnations, results?, token?, stderr_line?, batch?, priority,
        follows: view.follows.as_ref().map(|one| follows(experiment, one)),
        strays: view.strays.as_ref().map(|strays| object!(strays =>
            ended, left,
            waited_s: number(strays.waited_s),
            named: [one => pid, name],
        )),
    )
}

/// The earlier run after which neroman made a run by itself.
pub(crate) fn follows(experiment: u64, one: &Follows) -> Value {
    object!(one => run: run_id(experiment, one.run), cause, text)
}

/// A node as in `status nodes --json`.
pub fn node(view: &NodeView) -> Value {
    // A node that was never described measures nothing, not 0.
    let is_known = view.memory_bytes > 0;
    let known = |value: Value| if is_known { value } else { Value::Null };
    object!(view =>
        name, address?, warden?, connected, why_not?,
        contact_at: iso_time(view.contact_ms),
        load_15: known(number(view.load_15)),
        memory_used: known(number(view.memory_used)),
        disk_used: known(number(view.disk_used)),
        // The daemon counts these itself, also for a node that was never
        // described.
        live, waiting,
        cpus: known(number(view.cpus)),
        cpus_free: known(number(view.cpus_free)),
        memory_bytes: known(json!(view.memory_bytes)),
        root?, hold?,
        unreachable_since: iso_time(view.unreachable_since_ms),
        needs_person, hint?,
        next_try_at: iso_time(view.next_try_ms),
        figures_are_old: view.known_old, groups, default: view.default_node, host?, arch?,
        gpus: [gpu =>
            index, name, memory_bytes, memory_used_bytes, utilisation: number(gpu.utilisation)
        ],
        disk_free_bytes: known(json!(view.disk_free_bytes)),
        memory_free_bytes: known(json!(view.memory_free_bytes)),
        clock_offset_s: known(number(view.clock_offset_s)),
        round_trip_ms: known(number(view.round_trip_ms)),
        transfer?, troubles, build?,
        scheduler: view.usage.as_ref().map(usage),
    )
}

fn usage(usage: &SchedulerUse) -> Value {
    object!(usage =>
        programs: [one => name, total, last_hour],
        cpu_s: number(usage.cpu_s),
        up_s: number(usage.up_s),
        folders_listed: usage.lists, runs_read: usage.reads,
        answered_s: usage.answered_s.map(number),
        own, queued, all, max_queued, max_running, site_max_own, site_max_all, site_max_array,
    )
}

/// A rule as in `rule list --json`.
pub fn rule(state: &RuleState) -> Value {
    let rule = state.rule.clone().unwrap_or_default();
    object!(state =>
        experiment, rule: rule.id, action: rule.action, text: rule.text,
        author: some(&rule.author),
        origin: some(&rule.origin),
        where: some(&state.place),
        argument: some(&rule.argument),
        repeat_s: (rule.repeat_ms != 0).then(|| rule.repeat_ms as f64 / 1000.0),
        fired, last_values?,
        last_fired_at: iso_time(state.last_fired_ms),
        bound, problem?,
        ran: [ran => times, at: iso_time(ran.at_ms), how, output?],
    )
}

/// Variables as an object; `null` for a variable that is unset.
pub fn environment(vars: &[EnvVar]) -> Value {
    let fields = vars.iter().map(|var| {
        let value = if var.unset {
            Value::Null
        } else {
            json!(text::variable(var))
        };
        (var.name.clone(), value)
    });
    Value::Object(fields.collect())
}

/// `144.2`; null without a run.
pub fn run_id(experiment: u64, run: u32) -> Option<String> {
    (run != 0).then(|| format!("{experiment}.{run}"))
}

/// A number; values without a JSON number become text: `"NaN"`, `"Infinity"`,
/// `"-Infinity"`.
pub fn number(value: f64) -> Value {
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(value)
    }
}

/// A parameter's typed value.
pub fn parameter(param: &Param) -> Value {
    let json = param.json.trim();
    let is_long = |digits: &str| digits.len() >= LONG_DIGITS;
    let mut runs = json.split(|c: char| !c.is_ascii_digit());
    match (serde_json::from_str(json), nero_model::whole::digits(json)) {
        (Ok(Value::Number(number)), Some(digits)) if number.is_f64() => {
            json!(format!("{LONG_NUMBER}{digits}"))
        }
        (Ok(Value::Array(_) | Value::Object(_)), _) if runs.any(is_long) => json!(param.text),
        (Ok(value), _) => value,
        // Numbers that JSON does not have, too.
        (Err(_), _) if matches!(json, "NaN" | "Infinity" | "-Infinity") => json!(json),
        (Err(_), _) => json!(param.text),
    }
}

/// Whole numbers of fewer digits are kept by `serde_json`.
const LONG_DIGITS: usize = 20;

/// Whether a parameter is a number.
pub fn is_number(param: &Param) -> bool {
    let value = parameter(param);
    let long = value
        .as_str()
        .and_then(|text| text.strip_prefix(LONG_NUMBER));
    value.is_number() || long.is_some()
}

/// Text, or null for none.
pub fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn parameters(params: &[Param]) -> Value {
    let fields = params
        .iter()
        .map(|param| (param.name.clone(), parameter(param)));
    Value::Object(fields.collect())
}

pub(crate) fn metrics(summaries: &[MetricSummary]) -> Value {
    let fields = summaries.iter().map(|metric| {
        let value = object!(metric =>
            last: number(metric.last), step: number(metric.step),
            min: number(metric.min), max: number(metric.max), count,
        );
        (metric.name.clone(), value)
    });
    Value::Object(fields.collect())
}

/// Writes characters that act as escapes.
struct EscapeFormatter;

impl Formatter for EscapeFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            let mut one = [0; 4];
            let text = &*c.encode_utf8(&mut one);
            if Safe::line(text).to_string() == text {
                writer.write_all(text.as_bytes())?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_never_acts_and_keeps_its_values() {
        let hostile = "a\x1b[2J\u{9b}31m\u{202e}\u{7f}\n\"höhe";
        let printed = print(&json!({ hostile: [hostile, 1] }));
        assert_eq!(Safe::line(&printed).to_string(), printed);
        assert!(printed.contains("höhe"));
        let back: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(back, json!({ hostile: [hostile, 1] }));
    }

    #[test]
    fn numbers_that_json_has_not_are_text() {
        assert_eq!(number(f64::NAN), json!("NaN"));
        assert_eq!(number(f64::NEG_INFINITY), json!("-Infinity"));
        assert_eq!(number(0.1), json!(0.1));
    }

    #[test]
    fn parameters_keep_their_type() {
        let param = |text: &str, json: &str| Param {
            name: "p".into(),
            text: text.into(),
            json: json.into(),
        };
        assert_eq!(parameter(&param("0.10", "0.1")), json!(0.1));
        assert_eq!(parameter(&param("no", "false")), json!(false));
        assert_eq!(parameter(&param("nan", "")), json!("nan"));
        assert_eq!(parameter(&param(".nan", "NaN")), json!("NaN"));
        for long in [
            "18446744073709551615",
            "340282366920938463463374607431768211455",
        ] {
            let one = param(long, long);
            assert_eq!(
                print(&json!({ "seed": parameter(&one) })),
                format!("{{\"seed\":{long}}}")
            );
            assert!(is_number(&one));
        }
    }
}
