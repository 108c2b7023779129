//! Rules that can never hold with the parameters of their experiments, and those that
//! most likely mean something else.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::definition::{Definition, Param, RuleDef, Value};
use nero_expr::{Doubt, Expr, Fact, NameKind, ParseContext, Scope, Value as ExprValue};
use nero_yaml::Mark;

/// Reports the rules in doubt: as a mistake where no experiment that has the rule makes it
/// meaningful, else as a note.
pub(crate) fn report(reader: &mut Reader<'_>) {
    let definitions = std::mem::take(&mut reader.definitions);
    for (rule, found) in found(&definitions) {
        let (why, place) = (&found.doubt.error, &rule.place);
        let hint = why.hint.clone().unwrap_or_default();
        let is_mistake = found.doubt.is_certain && found.count == found.of;
        // A condition of the original is taken as it is.
        // A rule of a file beneath this one holds in others, too.
        let is_here = place.sheet.is_none() && place.file == reader.text.file;
        if is_mistake && rule.name.is_none() && is_here {
            let mark = Mark {
                line: place.line,
                column: place.column,
            };
            let (written, why) = (&rule.written, &why.message);
            reader.wrong(
                mark,
                format!("the rule `{written}` never holds: {why}"),
                hint,
            );
            continue;
        }
        let what = if found.doubt.is_certain {
            format!("never holds in {} of {} experiments", found.count, found.of)
        } else {
            "may never hold".to_owned()
        };
        let hint = match hint.as_str() {
            "" => String::new(),
            hint => format!(" ({hint})"),
        };
        reader.note(
            None,
            format!(
                "{place}: the rule `{}` {what}: {}{hint}",
                rule.written, why.message
            ),
        );
    }
    reader.definitions = definitions;
}

struct DoubtCount {
    doubt: Doubt,
    /// Number of experiments with the doubt.
    count: usize,
    /// Number of experiments with the rule.
    of: usize,
}

/// The doubts by the place of their rule.
fn found(definitions: &[Definition]) -> Vec<(&RuleDef, DoubtCount)> {
    let context = ParseContext::utc(0).standing();
    let mut parsed: BTreeMap<&str, Option<Expr>> = BTreeMap::new();
    let mut with: BTreeMap<(u32, u32, &str), usize> = BTreeMap::new();
    let mut found: BTreeMap<(u32, u32, &str), (&RuleDef, DoubtCount)> = BTreeMap::new();
    for definition in definitions {
        for rule in &definition.rules {
            let key = (rule.place.line, rule.place.column, &*rule.text);
            *with.entry(key).or_default() += 1;
            let expr = parsed
                .entry(&rule.text)
                .or_insert_with(|| Expr::parse(&rule.text, &context).ok());
            let names = definition.params.iter().map(|param| param.name.as_str());
            let doubt = expr
                .as_ref()
                .and_then(|expr| match expr.check_place(names) {
                    Ok(()) => expr.doubt(&Params(&definition.params)),
                    Err(error) => Some(Doubt {
                        error,
                        is_certain: true,
                    }),
                });
            if let Some(doubt) = doubt {
                let new = DoubtCount {
                    doubt,
                    count: 0,
                    of: 0,
                };
                found.entry(key).or_insert((rule, new)).1.count += 1;
            }
        }
    }
    let known = found.into_iter().map(|(key, (rule, mut found))| {
        found.of = with.get(&key).copied().unwrap_or(found.count);
        (rule, found)
    });
    known.collect()
}

/// An experiment before its first run: it has parameters and nothing else.
pub(crate) struct Params<'a>(pub(crate) &'a [Param]);

impl Scope for Params<'_> {
    fn now_ms(&self) -> i64 {
        0
    }

    fn fact(&self, _: Fact) -> ExprValue<'_> {
        ExprValue::Unknown
    }

    fn param(&self, name: &str) -> ExprValue<'_> {
        let Some(param) = self.0.iter().find(|param| param.name == name) else {
            return ExprValue::Unknown;
        };
        match &param.value {
            Value::Null => ExprValue::Unknown,
            Value::Bool(truth) => ExprValue::Bool(*truth, Some(&param.text)),
            Value::Int(number) => ExprValue::Number(*number as f64, Some(&param.text)),
            Value::Float(number) => ExprValue::Number(*number, Some(&param.text)),
            Value::Text(_) => ExprValue::Text(&param.text),
        }
    }

    fn metric(&self, _: &str) -> Option<f64> {
        None
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for param in self.0 {
            visit(NameKind::Param, &param.name);
        }
    }
}
