//! What a probe printed, and whether it satisfies a requirement.

use std::fmt;

use nero_format::python::{Literal, literal};

/// The result of a probe on a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// The mean of the printed numbers.
    Number(f64),
    /// What was printed, when it is not numbers alone.
    Text(String),
    /// The probe failed, and an error handler said `continue`.
    Null,
    /// There was no answer in time: it satisfies nothing.
    Missing,
}

impl Metric {
    /// Reads what a probe printed: the mean of its lines if each is a number, else the text.
    /// The end of the last line is left out, which the original keeps
    /// ([`EndOfLine`](crate::Difference::EndOfLine)).
    pub fn read(stdout: &str) -> Self {
        let lines = stdout.split('\n').filter(|line| !line.trim().is_empty());
        let mut sum = 0.0;
        let mut count = 0.0;
        for line in lines {
            let Some(number) = literal(line).and_then(|value| value.number()) else {
                count = 0.0;
                break;
            };
            sum += number;
            count += 1.0;
        }
        if count > 0.0 {
            return Self::Number(sum / count);
        }
        let text = stdout.strip_suffix('\n').unwrap_or(stdout);
        Self::Text(text.to_owned())
    }
}

/// How a metric is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `>`
    Above,
}

/// The operators in the order in which an expression is tried.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Below),
    (">", Operator::Above),
];

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, _) = OPERATORS[*self as usize];
        f.write_str(sign)
    }
}

/// `<=0.3`
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The operator.
    pub operator: Operator,
    /// The value on its right.
    pub value: Literal,
}

/// A requirement's answer for one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Satisfaction {
    /// The metric satisfies the comparison.
    Satisfied,
    /// It does not.
    Unsatisfied,
    /// Numbers and text have no order; where the original stops with an error.
    Incomparable,
}

impl Comparison {
    /// Reads an expression. Blanks between operator and value are left out, which the original
    /// keeps ([`Blanks`](crate::Difference::Blanks)).
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let (operator, rest) = OPERATORS.iter().find_map(|(sign, operator)| {
            let rest = text.strip_prefix(sign)?;
            Some((*operator, rest))
        })?;
        let value = rest.trim_start();
        // The value is one line.
        if value.is_empty() || value.contains('\n') {
            return None;
        }
        let value = literal(value).unwrap_or_else(|| Literal::Text(value.to_owned()));
        Some(Self { operator, value })
    }

    /// Whether blanks stand behind the operator of an expression.
    pub fn has_blanks(text: &str) -> bool {
        let value = text.trim().trim_start_matches(['=', '!', '<', '>']);
        value.starts_with(char::is_whitespace)
    }

    /// Compares as Python does.
    pub fn compare(&self, metric: &Metric) -> Satisfaction {
        use std::cmp::Ordering::{Equal, Greater, Less};
        if matches!(metric, Metric::Missing) {
            return Satisfaction::Unsatisfied;
        }
        let number = self.value.number();
        let order = match (metric, &self.value) {
            (Metric::Number(left), _) if number.is_some() => {
                left.partial_cmp(&number.expect("it is some"))
            }
            (Metric::Text(left), Literal::Text(right)) => Some(left.cmp(right)),
            (Metric::Null, Literal::Null) => {
                return match self.operator {
                    Operator::Equal => Satisfaction::Satisfied,
                    Operator::Unequal => Satisfaction::Unsatisfied,
                    _ => Satisfaction::Incomparable,
                };
            }
            _ => {
                return match self.operator {
                    Operator::Equal => Satisfaction::Unsatisfied,
                    Operator::Unequal => Satisfaction::Satisfied,
                    _ => Satisfaction::Incomparable,
                };
            }
        };
        let satisfied = match self.operator {
            Operator::Equal => order == Some(Equal),
            Operator::Unequal => order != Some(Equal),
            Operator::AtMost => matches!(order, Some(Less | Equal)),
            Operator::AtLeast => matches!(order, Some(Greater | Equal)),
            Operator::Below => order == Some(Less),
            Operator::Above => order == Some(Greater),
        };
        if satisfied {
            Satisfaction::Satisfied
        } else {
            Satisfaction::Unsatisfied
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_a_mean_of_numbers_or_text() {
        for (stdout, metric) in [
            ("0.5\n", Metric::Number(0.5)),
            ("1\n\n2\n3\n", Metric::Number(2.0)),
            ("True\nFalse\n", Metric::Number(0.5)),
            ("Yes\n", Metric::Text("Yes".to_owned())),
            ("1\nx\n", Metric::Text("1\nx".to_owned())),
            ("[1]\n", Metric::Text("[1]".to_owned())),
            ("", Metric::Text(String::new())),
        ] {
            assert_eq!(Metric::read(stdout), metric, "of {stdout:?}");
        }
    }

    #[test]
    fn numbers_and_text_have_no_order_and_never_stop_a_flow() {
        for (stdout, expression, answer) in [
            ("Yes\n", "==Yes", Satisfaction::Satisfied),
            ("Yes\n", " == 'Yes' ", Satisfaction::Satisfied),
            ("No\n", "!=Yes", Satisfaction::Satisfied),
            ("0.2\n", "< 0.3", Satisfaction::Satisfied),
            ("1\n", "==True", Satisfaction::Satisfied),
            ("x\n", "<0.3", Satisfaction::Incomparable),
            ("x\n", "==0.3", Satisfaction::Unsatisfied),
            ("10a\n", "<9a", Satisfaction::Satisfied),
            ("3\n", ">=[1]", Satisfaction::Incomparable),
        ] {
            let comparison = Comparison::read(expression).expect("it is an expression");
            assert_eq!(
                comparison.compare(&Metric::read(stdout)),
                answer,
                "{stdout:?} {expression}"
            );
        }
        for none in ["Yes", "=1", "==", "", "1<2"] {
            assert_eq!(Comparison::read(none), None, "{none:?} is no expression");
        }
    }
}
