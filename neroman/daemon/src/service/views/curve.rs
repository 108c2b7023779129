//! Curves of expressions: `loss / param.scale`, point by point over the series of a run. A
//! point stands wherever one of the metrics has one, with the latest values of the others, as
//! a rule sees them.

use std::collections::BTreeMap;

use nero_expr::{
    Bindings, Bound, Expr, ExprError, Fact, NameKind, ParseContext, Past, PastPoint, Scope,
    SeriesPast, Value,
};
use nero_life::scope::Sight;
use nero_store::Point;

use nero_home::failure::Failure;

/// An expression in the place of a metric's name.
#[derive(Clone, Debug)]
pub(crate) struct CurveExpr {
    /// As a person wrote it.
    pub text: String,
    expr: Expr,
}

impl CurveExpr {
    /// Reads an expression; `None` for a text that can only be a name.
    ///
    /// # Errors
    /// When the expression has a mistake, or a fact that a curve cannot use.
    pub(crate) fn read(text: &str, context: &ParseContext) -> Result<Option<Self>, Failure> {
        // Where no run printed a metric of a name, the reply has a note about it.
        if !nero_views::columns::is_expression(text) {
            return Ok(None);
        }
        let expr = Expr::parse_value(text, context).map_err(|error| bad(text, &error))?;
        let facts = expr.facts();
        let moving = facts.iter().find(|fact| *fact != Fact::Id);
        if let Some(fact) = moving {
            return Err(
                Failure::usage(format!("not built yet: `{}` in a curve", fact.as_str()))
                    .hint("a curve can use metrics, parameters and numbers"),
            );
        }
        Ok(Some(Self {
            text: text.to_owned(),
            expr,
        }))
    }

    /// Its points in a run that has these series.
    ///
    /// # Errors
    /// When a name has no meaning in this run, or a value is not a number.
    pub(crate) fn points(
        &self,
        sight: Sight<'_>,
        series: &[(&str, &[Point])],
    ) -> Result<Vec<Point>, Failure> {
        let bindings = self.expr.bind(&sight);
        let bindings = bindings.map_err(|error| bad(&self.text, &error))?;
        let mut printed = self.printed(&bindings, series);
        // Stable: values of one step stay in the order of the names.
        printed.sort_by(|(_, one), (_, other)| {
            let order = one.generation.cmp(&other.generation);
            order.then(one.step.total_cmp(&other.step))
        });
        let mut scope = AtPoint {
            sight,
            latest: BTreeMap::new(),
            pasts: self.pasts(&bindings),
            began_ms: printed.iter().map(|(_, point)| point.time_ms).min(),
            at_ms: 0,
        };
        let mut points = Vec::new();
        for step in printed.chunk_by(|(_, one), (_, other)| {
            one.generation == other.generation && one.step == other.step
        }) {
            for (name, point) in step {
                scope.add(name, point);
            }
            let value = match self.expr.value(&bindings, &scope) {
                Value::Number(number, _) => number,
                Value::Bool(truth, _) => f64::from(u8::from(truth)),
                // A metric that has not come yet.
                Value::Unknown => continue,
                Value::Text(_) | Value::Time(_) => {
                    let why = "is not a number, so it cannot be drawn as a curve";
                    return Err(Failure::usage(format!("`{}` {why}", self.text)));
                }
            };
            let times = step.iter().map(|(_, point)| point.time_ms);
            points.push(Point {
                value,
                time_ms: times.max().unwrap_or_default(),
                ..step[0].1
            });
        }
        Ok(points)
    }

    /// What it asks of the past, by metric.
    fn pasts(&self, bindings: &Bindings) -> BTreeMap<String, SeriesPast> {
        let mut pasts: BTreeMap<String, SeriesPast> = BTreeMap::new();
        for (slot, past) in self.expr.pasts() {
            if let Some(Bound::Metric(name)) = bindings.get(slot) {
                pasts.entry(name.to_string()).or_default().want(past);
            }
        }
        pasts
    }

    /// The points of the metrics that it uses.
    fn printed<'a>(
        &self,
        bindings: &Bindings,
        series: &[(&'a str, &'a [Point])],
    ) -> Vec<(&'a str, Point)> {
        let names = (0..self.expr.unbound_names().len()).filter_map(|slot| bindings.get(slot));
        let metrics = names.filter_map(|bound| match bound {
            Bound::Metric(name) => Some(&**name),
            Bound::Fact(_) | Bound::Param(_) => None,
        });
        metrics
            .filter_map(|name| series.iter().find(|(known, _)| *known == name))
            .flat_map(|(name, points)| points.iter().map(|point| (*name, *point)))
            .collect()
    }
}

pub(crate) fn bad(text: &str, error: &ExprError) -> Failure {
    let failure =
        Failure::usage(error.message.clone()).report(nero_expr::point_at(text, error.span));
    failure.hint(error.hint.clone().unwrap_or_default())
}

/// A run at one point of its series.
struct AtPoint<'a> {
    sight: Sight<'a>,
    latest: BTreeMap<&'a str, f64>,
    /// What was asked of the past, with the points up to this one.
    pasts: BTreeMap<String, SeriesPast>,
    /// The time of the first point: windows count from there.
    began_ms: Option<i64>,
    at_ms: u64,
}

impl<'a> AtPoint<'a> {
    fn add(&mut self, name: &'a str, point: &Point) {
        self.latest.insert(name, point.value);
        let since_ms = point.time_ms - self.began_ms.unwrap_or(point.time_ms);
        self.at_ms = self.at_ms.max(u64::try_from(since_ms).unwrap_or(0));
        if let Some(past) = self.pasts.get_mut(name) {
            past.add(&PastPoint {
                value: point.value,
                step: point.step,
                generation: point.generation,
                at_ms: self.at_ms,
            });
        }
    }
}

impl Scope for AtPoint<'_> {
    fn now_ms(&self) -> i64 {
        self.sight.now_ms()
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        self.sight.fact(fact)
    }

    fn param(&self, name: &str) -> Value<'_> {
        self.sight.param(name)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.latest.get(name).copied()
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        self.pasts.get(name)?.value(past, self.at_ms)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        self.sight.visit_names(visit);
    }
}
