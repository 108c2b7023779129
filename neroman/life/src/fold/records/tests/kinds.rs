//! The facts that each kind of record changes, with an empty payload and with one that cannot be
//! decoded.

use std::fmt::Write as _;

use nero_journal::v1::RecordKind;
use nero_journal::{Record, Writer};
use serde_json::Value;

use super::super::apply::apply;
use super::super::new_segment;
use super::{Builder, Header, Journal, Key};

/// Names of the facts that one record changes in the journal of a start.
fn changes(kind: u16, payload: &[u8]) -> String {
    let begun = Builder::new(Writer::Watcher, 1, 1, 5);
    let mut segment = new_segment(&Header::parse(&begun.bytes).unwrap());
    let mut journal = Journal::default();
    let facts = |journal: &Journal| match serde_json::to_value(journal).unwrap() {
        Value::Object(facts) => facts,
        other => panic!("{other}"),
    };
    let (before, begun) = (facts(&journal), segment.clone());
    let record = Record {
        offset: 80,
        sequence: 0,
        kind,
        mono_ns: 9_000_000,
        wall_ns: 2_000_000,
        payload,
        chain: 0,
    };
    apply(&mut journal, &mut segment, 1, Key::default(), &record);
    let mut changed = Vec::new();
    for (name, fact) in facts(&journal) {
        if before.get(&name) == Some(&fact) {
            continue;
        }
        match fact.get("1").and_then(Value::as_object) {
            Some(start) if name == "incarnations" => {
                changed.extend(start.iter().map(|(name, fact)| {
                    if fact.is_object() {
                        format!("1.{name}")
                    } else {
                        format!("1.{name}={fact}")
                    }
                }));
            }
            Some(_) | None => changed.push(name),
        }
    }
    if segment != begun {
        changed.push("segment".to_owned());
    }
    if changed.is_empty() {
        "nothing".to_owned()
    } else {
        changed.join(" ")
    }
}

#[test]
fn each_kind_of_record_changes_its_facts_alone() {
    let mut table = String::new();
    for kind in 0..=100 {
        let name = RecordKind::try_from(i32::from(kind)).map_or("-", |kind| kind.as_str_name());
        let name = name.trim_start_matches("RECORD_KIND_");
        if name != "-" || kind == 100 {
            let (empty, broken) = (changes(kind, &[]), changes(kind, &[0]));
            writeln!(table, "{name}: {empty} | {broken}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
