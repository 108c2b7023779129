//! One event as JSON, for webhooks and programs.

use nero_model::safe::Safe;
use serde_json::{Map, Value, json};

use super::{EventKind, LetterEvent};
use nero_views::object;
use nero_views::text::iso_time;

/// One event. Fields are added over time and never change their meaning.
pub fn event_json(event: &LetterEvent) -> Value {
    let (name, fields) = of_kind(&event.kind);
    let mut object = object!(event =>
        format: 1, event: name, run, name, collection, node,
        time: iso_time(event.at_ms),
    );
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

fn of_kind(kind: &EventKind) -> (&'static str, Value) {
    match kind {
        EventKind::Started => ("started", json!({})),
        EventKind::Finished { runtime_ms, values } => {
            let fields = json!({"runtime_s": seconds(*runtime_ms), "values": object(values)});
            ("finished", fields)
        }
        EventKind::Crashed {
            how,
            runtime_ms,
            stderr,
        } => {
            let stderr = Safe::lines(stderr).to_string();
            let runtime_s = seconds(*runtime_ms);
            (
                "crashed",
                json!({"how": how, "runtime_s": runtime_s, "stderr": stderr}),
            )
        }
        EventKind::Aborted { rule, values } => {
            ("aborted", json!({"rule": rule, "values": object(values)}))
        }
        EventKind::Cancelled { by } => ("aborted", json!({"by": by})),
        EventKind::TimedOut { limit_ms } => ("timeout", json!({"limit_s": seconds(*limit_ms)})),
        EventKind::Lost { why } => ("lost", json!({"why": why})),
        EventKind::Warned { rule, values } => {
            ("warning", json!({"rule": rule, "values": object(values)}))
        }
        EventKind::Remarked { text } => ("warning", json!({"text": text})),
        EventKind::Stalled { silent_ms } => {
            ("stalled", json!({"silent_s": seconds(Some(*silent_ms))}))
        }
        EventKind::NodeAway { since_ms, why } => (
            "node_away",
            json!({"since": iso_time(*since_ms), "why": why}),
        ),
        EventKind::NodeBack { away_ms } => {
            ("node_back", json!({"away_s": seconds(Some(*away_ms))}))
        }
        EventKind::AllDone {
            finished,
            failed,
            took_ms,
        } => {
            let took_s = seconds(*took_ms);
            (
                "done",
                json!({"finished": finished, "failed": failed, "took_s": took_s}),
            )
        }
    }
}

fn seconds(ms: Option<u64>) -> Option<f64> {
    ms.map(|ms| ms as f64 / 1000.0)
}

fn object(values: &[(String, String)]) -> Value {
    let fields = values
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(fields.collect::<Map<String, Value>>())
}
