//! What rules ask of a metric, and where they fired.

use nero_expr::{Expr, Fact, NameKind, ParseContext, Scope, Value};
use nero_model::names::same_loosely;
use nero_plot::Threshold;
use nero_wire::v1::RuleState;
use nero_wire::v1::metrics_reply::Series;

/// Points that a watcher reads of a log together are no further apart.
const TOGETHER_MS: u64 = 1500;

/// The rules of a panel.
#[derive(Default)]
pub(super) struct PanelRules {
    pub thresholds: Vec<Threshold>,
    /// Which series, and which of its points.
    pub fired: Vec<(usize, usize)>,
}

/// The thresholds of this metric, and the firings of each rule that names it, in each
/// of these series.
pub(super) fn of_panel(metric: &str, series: &[&Series], rules: &[RuleState]) -> PanelRules {
    let mut found = PanelRules::default();
    for state in rules {
        let of_state =
            |(at, one): (usize, &&Series)| (one.experiment == state.experiment).then_some(at);
        let places: Vec<usize> = series.iter().enumerate().filter_map(of_state).collect();
        let Some(rule) = state.rule.as_ref().filter(|_| !places.is_empty()) else {
            continue;
        };
        // A rule of a newer daemon has no line.
        let Ok(expr) = Expr::parse(&rule.text, &ParseContext::utc(0).standing()) else {
            continue;
        };
        let is_meant = |written: &str| {
            let bound = state.names.iter().find(|bound| bound.written == written);
            bound.map_or(same_loosely(written, metric), |bound| bound.exact == metric)
        };
        if !expr.unbound_names().iter().any(|name| is_meant(&name.text)) {
            continue;
        }
        for (_, y) in (expr.thresholds().into_iter()).filter(|(name, _)| is_meant(&name.text)) {
            let threshold = Threshold {
                y,
                rule: format!("{}: {}", rule.action, rule.text),
            };
            if !found.thresholds.contains(&threshold) {
                found.thresholds.push(threshold);
            }
        }
        if state.fired > 0 {
            // Of several runs of one experiment the one that lived then.
            let times = match &state.fired_ms[..] {
                [] => std::slice::from_ref(&state.last_fired_ms),
                times => times,
            };
            for at in times {
                let nearest = places.iter().filter_map(|place| {
                    let (far, point) = firing(series[*place], *at, &expr)?;
                    Some((far, *place, point))
                });
                found
                    .fired
                    .extend(nearest.min().map(|(_, place, point)| (place, point)));
            }
        }
    }
    found
}

/// The point at which a rule fired, with its distance from that moment. Of the points that the watcher
/// read together it is the first that makes the rule true, where this metric alone decides.
fn firing(series: &Series, ms: i64, rule: &Expr) -> Option<(u64, usize)> {
    let far = |time: &i64| time.abs_diff(ms);
    let times = series.times_ms.iter().take(series.values.len());
    let nearest = times.clone().map(far).min()?;
    let mut together = times
        .enumerate()
        .filter(|(_, time)| far(time) <= nearest.max(TOGETHER_MS));
    let is_true = |at: usize| {
        let point = PanelPoint {
            metric: &series.name,
            value: series.values[at],
        };
        let bindings = rule.bind(&point);
        bindings.is_ok_and(|bindings| rule.eval(&bindings, &point).is_true())
    };
    let (point, time) = together
        .clone()
        .find(|(at, _)| is_true(*at))
        .or_else(|| together.find(|(_, time)| far(time) == nearest))?;
    Some((far(time), point))
}

/// One value of one metric; nothing else is known.
struct PanelPoint<'a> {
    metric: &'a str,
    value: f64,
}

impl Scope for PanelPoint<'_> {
    fn now_ms(&self) -> i64 {
        0
    }

    fn fact(&self, _: Fact) -> Value<'_> {
        Value::Unknown
    }

    fn param(&self, _: &str) -> Value<'_> {
        Value::Unknown
    }

    fn metric(&self, name: &str) -> Option<f64> {
        (name == self.metric).then_some(self.value)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        visit(NameKind::Metric, self.metric);
    }
}
