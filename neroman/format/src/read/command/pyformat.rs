//! Templates in the manner of Python's `str.format`.
//!
//! `{name}` is the parameter's text as it was written; `{name:spec}` formats its typed
//! value as Python would. Positions, attributes, conversions and nested specs have no
//! sense here and are refused with the place inside the template.

use super::spec::Spec;
use crate::definition::Param;
use crate::definition::problem::printable;
use nero_model::safe::quoted;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Place {
        name: String,
        param: usize,
        spec: Option<Spec>,
        offset: usize,
    },
}

/// What is wrong, and at which byte of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateError {
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// What a name in a template stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// The parameter at this position.
    Parameter(usize),
    /// The same text for all parameters: the path of their file, or data, whose place is
    /// filled on the node.
    Text(String),
    /// Nothing.
    Unknown,
}

/// A line with more mistakes is no template at all.
const ERRORS_MAX: usize = 20;

impl Template {
    /// Parses a template; `kind` is the meaning of names. All unknown names are reported.
    pub(crate) fn parse(
        text: &str,
        kind: &dyn Fn(&str) -> NameKind,
        unknown_hint: &dyn Fn(&str) -> String,
    ) -> Result<Self, Vec<TemplateError>> {
        let mut pieces = Vec::new();
        let mut errors = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let offset = text.len() - rest.len() + at;
            literal.push_str(&rest[..at]);
            let brace = &rest[at..at + 1];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                errors.push(error(
                    offset,
                    "a `}` closes nothing",
                    "write `}}` for the character",
                ));
                continue;
            }
            let Some(end) = rest.find('}') else {
                errors.push(error(
                    offset,
                    "a `{` is not closed",
                    "write `{{` for the character, and `_` for a blank in a name",
                ));
                break;
            };
            let field = &rest[..end];
            rest = &rest[end + 1..];
            match place(field, offset, kind, unknown_hint) {
                Ok(Placeholder::Text(text)) => literal.push_str(&text),
                Ok(Placeholder::Piece(piece)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
                }
                Err(problem) => errors.push(behind_dollar(problem, text, field)),
            }
            if errors.len() >= ERRORS_MAX {
                break;
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        if errors.is_empty() {
            Ok(Self { pieces })
        } else {
            Err(errors)
        }
    }

    /// The positions of the parameters that are filled in.
    pub(crate) fn params(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place { param, .. } => Some(*param),
            Piece::Literal(_) => None,
        })
    }

    /// The text with all places filled.
    pub(crate) fn fill(&self, params: &[Param]) -> Result<String, TemplateError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Place {
                    name,
                    param,
                    spec,
                    offset,
                } => {
                    let param = params
                        .get(*param)
                        .expect("parsing found every place among the parameters");
                    match spec {
                        None => text.push_str(&param.text),
                        Some(spec) => {
                            text.push_str(&spec.format(param).map_err(|why| TemplateError {
                                offset: *offset,
                                message: why,
                                hint: format!("write `{{{name}}}` to put it as it was written"),
                            })?);
                        }
                    }
                }
            }
        }
        Ok(text)
    }
}

fn error(offset: usize, message: impl Into<String>, hint: impl Into<String>) -> TemplateError {
    TemplateError {
        offset,
        message: message.into(),
        hint: hint.into(),
    }
}

/// `${HOME}` is meant for a shell, and there is none.
fn behind_dollar(problem: TemplateError, text: &str, field: &str) -> TemplateError {
    if !text[..problem.offset].ends_with('$') {
        return problem;
    }
    TemplateError {
        hint: format!(
            "no shell runs the command: `env:` knows $NAME; for the characters write `${{{{{}}}}}`",
            printable(field)
        ),
        ..problem
    }
}

/// What a `{…}` is.
enum Placeholder {
    /// The same text for all parameters.
    Text(String),
    Piece(Piece),
}

/// One `{…}`.
fn place(
    field: &str,
    offset: usize,
    kind: &dyn Fn(&str) -> NameKind,
    unknown_hint: &dyn Fn(&str) -> String,
) -> Result<Placeholder, TemplateError> {
    // A parameter may hold any character; its whole name comes before Python's syntax.
    let (name, format) = match kind(field) {
        NameKind::Unknown => {
            let (name, format) = match field.split_once(':') {
                Some((name, format)) => (name, Some(format)),
                None => (field, None),
            };
            (conversion(name, offset)?, format)
        }
        NameKind::Parameter(_) | NameKind::Text(_) => (field, None),
    };
    let param = match kind(name) {
        NameKind::Parameter(index) => index,
        NameKind::Text(text) => return Ok(Placeholder::Text(text)),
        NameKind::Unknown => return Err(unknown(field, name, offset, unknown_hint)),
    };
    let spec = match format {
        None | Some("") => None,
        Some(text) => Some(Spec::parse(text).ok_or_else(|| {
            error(
                offset,
                format!("{} is no format that is understood", quoted(text)),
                "built are fill and align, sign, width, `.precision` and one of d f e g % s x o b",
            )
        })?),
    };
    Ok(Placeholder::Piece(Piece::Place {
        name: name.to_owned(),
        param,
        spec,
        offset,
    }))
}

/// Takes `!s` off, which changes nothing.
fn conversion(name: &str, offset: usize) -> Result<&str, TemplateError> {
    match name.rsplit_once('!') {
        Some((name, "s")) => Ok(name),
        Some((_, "r" | "a")) => Err(error(
            offset,
            "conversions (`!r`, `!a`) are not understood",
            "the text reaches the job as it was written; leave the conversion out",
        )),
        _ => Ok(name),
    }
}

fn unknown(field: &str, name: &str, offset: usize, hint: &dyn Fn(&str) -> String) -> TemplateError {
    let head = name.split(['.', '[']).next().unwrap_or("");
    let digits = name.bytes().all(|b| b.is_ascii_digit());
    if digits {
        return error(
            offset,
            "places without a name are not understood",
            "name the parameter: `{name}`; write `{{}}` for the two characters",
        );
    }
    if field.contains(['"', '\'', ' ', ',', '{', '\n']) {
        return error(
            offset,
            format!("{} names no parameter", quoted(field)),
            "write `{{` and `}}` where the braces themselves are meant",
        );
    }
    if head != name && !head.is_empty() {
        let hint = hint(name);
        return error(
            offset,
            format!("{} names no parameter", quoted(name)),
            if hint.is_empty() {
                "attributes and indexes are not understood".to_owned()
            } else {
                hint
            },
        );
    }
    error(
        offset,
        format!("{} names no parameter", quoted(name)),
        hint(name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::scalar::typed;
    use proptest::prelude::*;

    fn params(list: &[(&str, &str)]) -> Vec<Param> {
        list.iter()
            .map(|(name, text)| Param::new(*name, *text, typed(text, true)))
            .collect()
    }

    fn fill(template: &str, list: &[(&str, &str)]) -> Result<String, String> {
        let params = params(list);
        let kind = |name: &str| match params.iter().position(|p| p.name == name) {
            Some(index) => NameKind::Parameter(index),
            None if name == "file" => NameKind::Text("p.json".to_owned()),
            None => NameKind::Unknown,
        };
        let parsed = Template::parse(template, &kind, &|_| String::new())
            .map_err(|e| format!("{}: {}", e[0].offset, e[0].message))?;
        parsed.fill(&params).map_err(|e| e.message)
    }

    /// The right column was printed by Python 3, but for values without a type.
    #[test]
    fn values_are_formatted_as_python_does() {
        let table = [
            ("{x}", "0.10", "0.10"),
            ("a{{b}}{x}", "1", "a{b}1"),
            ("{x!s}", "no", "no"),
            ("{x:}", "no", "no"),
            ("{x:03d}", "7", "007"),
            ("{x:03d}", "-7", "-07"),
            ("{x:d}", "010", "10"),
            ("{x:5}|", "42", "   42|"),
            ("{x:5}|", "ab", "ab   |"),
            ("{x:>5}", "ab", "   ab"),
            ("{x:*^5}", "ab", "*ab**"),
            ("{x:.1}", "abc", "a"),
            ("{x:.2f}", "3", "3.00"),
            ("{x:.2f}", "0.005", "0.01"),
            ("{x:+.1f}", "2.25", "+2.2"),
            ("{x:08.3f}", "-3.14159", "-003.142"),
            ("{x:e}", "12345", "1.234500e+04"),
            ("{x:.1E}", "0.00012", "1.2E-04"),
            ("{x:g}", "0.0001", "0.0001"),
            ("{x:g}", "0.00001", "1e-05"),
            ("{x:g}", "1234567", "1.23457e+06"),
            ("{x:g}", "100000", "100000"),
            ("{x:.3}", "1234.5", "1.23e+03"),
            ("{x:.3}", "2.0", "2.0"),
            ("{x:.0%}", "0.25", "25%"),
            ("{x:x}", "255", "ff"),
            ("{x:b}", "5", "101"),
            ("{x:d}", "true", "1"),
            ("{x:6}", "0.10", "  0.10"),
            ("{x:f}", ".inf", "inf"),
        ];
        for (template, value, want) in table {
            let got = fill(template, &[("x", value)]);
            assert_eq!(got.as_deref(), Ok(want), "{template} {value}");
        }
    }

    #[test]
    fn odd_names_are_found_whole() {
        let list = [("a.b", "1"), ("c:d", "2"), ("e f", "3")];
        assert_eq!(
            fill("{a.b} {c:d} {e f} {file}", &list).as_deref(),
            Ok("1 2 3 p.json")
        );
    }

    #[test]
    fn bad_templates_are_refused() {
        let table = [
            ("ab {x", "3: a `{` is not closed"),
            ("ab }", "3: a `}` closes nothing"),
            ("{}", "0: places without a name are not understood"),
            ("{0}", "0: places without a name are not understood"),
            ("{y}", "0: `y` names no parameter"),
            ("{x.real}", "0: `x.real` names no parameter"),
            ("{x!r}", "0: conversions (`!r`, `!a`) are not understood"),
            ("{x:,}", "0: `,` is no format that is understood"),
            ("{x:#x}", "0: `#x` is no format that is understood"),
            ("{x:{w}}", "0: `{w` is no format that is understood"),
            ("{x:99999}", "0: `99999` is no format that is understood"),
            (
                "{x:.2d}",
                "the format `d` does not fit `x` = `7`: whole numbers have no precision",
            ),
            (
                "{x:s}",
                "the format `s` does not fit `x` = `7`: it is a number",
            ),
            (
                "{t:d}",
                "the format `d` does not fit `t` = `ab`: it is no whole number",
            ),
            (
                "{t:.2f}",
                "the format `f` does not fit `t` = `ab`: it is no number",
            ),
            (
                "{t:03}",
                "signs and zeros are for numbers, and `ab` is text",
            ),
        ];
        for (template, want) in table {
            let got = fill(template, &[("x", "7"), ("t", "ab")]);
            assert_eq!(got, Err(want.to_owned()), "{template}");
        }
    }

    proptest! {
        #[test]
        fn no_template_panics(template in "[{}:!.<>=0-9a-z%+ é]*", value in ".*") {
            drop(fill(&template, &[("a", &value), ("x", "1.5")]));
        }
    }
}
