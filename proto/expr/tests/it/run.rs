//! A run made by hand, as the tests see it.

use std::collections::BTreeMap;

use nero_expr::{
    Bindings, CohortNumber, Expr, ExprError, Fact, NameKind, ParseContext, Past, PastPoint, Scope,
    SeriesPast, Truth, Value,
};

/// 2026-11-20T12:00:00Z.
pub const NOW_MS: i64 = 1_795_176_000_000;

/// Seconds before [`NOW_MS`] as a moment.
pub fn ago(seconds: i64) -> Value<'static> {
    Value::Time(NOW_MS - seconds * 1000)
}

#[derive(Debug, Default)]
pub struct Run {
    facts: BTreeMap<Fact, Value<'static>>,
    params: BTreeMap<&'static str, Value<'static>>,
    metrics: BTreeMap<&'static str, f64>,
    /// With the time of the last point.
    pasts: BTreeMap<&'static str, (SeriesPast, u64)>,
    pub changed: Option<bool>,
    /// What every aggregate over peers is.
    pub cohort: Option<CohortNumber>,
}

impl Run {
    pub fn new() -> Run {
        Run::default()
    }

    pub fn fact(mut self, fact: Fact, value: Value<'static>) -> Run {
        self.facts.insert(fact, value);
        self
    }

    pub fn state(self, word: &'static str) -> Run {
        self.fact(Fact::State, Value::Text(word))
    }

    pub fn param(mut self, name: &'static str, value: Value<'static>) -> Run {
        self.params.insert(name, value);
        self
    }

    pub fn metric(mut self, name: &'static str, value: f64) -> Run {
        self.metrics.insert(name, value);
        self
    }

    /// A metric with points: step, seconds, value. `asked` is kept of it.
    pub fn points(mut self, name: &'static str, asked: &str, points: &[(f64, u64, f64)]) -> Run {
        let mut past = SeriesPast::default();
        for (_, wanted) in parse(asked).pasts() {
            past.want(wanted);
        }
        let mut now_ms = 0;
        for &(step, at_s, value) in points {
            now_ms = at_s * 1000;
            past.add(&PastPoint {
                value,
                step,
                generation: 0,
                at_ms: now_ms,
            });
            self.metrics.insert(name, value);
        }
        self.pasts.insert(name, (past, now_ms));
        self
    }

    /// Evaluates a condition for this run, bound strictly.
    pub fn says(&self, text: &str) -> Result<Truth, ExprError> {
        let expr = Expr::parse(text, &context())?;
        let bindings = expr.bind(self)?;
        Ok(expr.eval(&bindings, self))
    }

    /// Evaluates it as a standing rule, in which names not seen yet are
    /// unknown.
    pub fn says_standing(&self, text: &str) -> Result<Truth, ExprError> {
        let (expr, bindings) = self.standing(text)?;
        Ok(expr.eval(&bindings, self))
    }

    pub fn standing(&self, text: &str) -> Result<(Expr, Bindings), ExprError> {
        let expr = Expr::parse(text, &context().standing())?;
        let bindings = expr.bind(self)?;
        Ok((expr, bindings))
    }
}

impl Scope for Run {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        self.facts.get(&fact).copied().unwrap_or_default()
    }

    fn param(&self, name: &str) -> Value<'_> {
        self.params.get(name).copied().unwrap_or_default()
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        let (known, now_ms) = self.pasts.get(name)?;
        known.value(past, *now_ms)
    }

    fn cohort(&self, _: &str) -> Option<CohortNumber> {
        self.cohort
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for name in self.params.keys() {
            visit(NameKind::Param, name);
        }
        for name in self.metrics.keys() {
            visit(NameKind::Metric, name);
        }
    }

    fn changed(&self) -> Option<bool> {
        self.changed
    }
}

/// Noon in a zone two hours east of UTC is 14:00.
pub fn context() -> ParseContext {
    ParseContext::new(NOW_MS, jiff::tz::TimeZone::fixed(jiff::tz::offset(2)))
}

pub fn parse(text: &str) -> Expr {
    match Expr::parse(text, &context()) {
        Ok(expr) => expr,
        Err(error) => panic!("{}", error.render(text)),
    }
}
