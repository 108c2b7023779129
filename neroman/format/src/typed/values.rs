//! Parameters with their values as they are typed: `lr=0.1,0.01`, `n=1:5`.

use crate::read::params::range::Range;
use crate::read::params::tree::of_text;

/// Most combinations of values.
pub const COMBINATIONS_MAX: usize = 100_000;

/// A parameter with the JSON texts of its values.
pub type ParameterValues = (String, Vec<String>);

/// Why values cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesError {
    /// What is wrong, as a predicate of what was typed.
    pub why: &'static str,
    /// What to type.
    pub hint: &'static str,
}

/// `lr=0.1,0.01`, `n=1:5`.
///
/// # Errors
/// When no parameter is named, or its values are no list and no range.
pub fn parameter_values(given: &str) -> Result<ParameterValues, ValuesError> {
    let wrong = |why| ValuesError {
        why,
        hint: "for example -p lr=0.1,0.01 or -p n=1:5",
    };
    let Some((name, values)) = given.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(wrong("names no parameter with its values"));
    };
    let parts: Vec<&str> = values.split(':').collect();
    let is_range = (2..=3).contains(&parts.len()) && parts.iter().all(|part| is_plain_number(part));
    let values = if is_range {
        range(&parts).map_err(wrong)?
    } else {
        split(values)
            .ok_or(ValuesError {
                why: "has a bracket or a quote that is not closed",
                hint: "as a text such a value stands in quotes: -p \"x='a[b'\"",
            })?
            .into_iter()
            .map(json)
            .collect()
    };
    Ok((name.to_owned(), values))
}

/// A value as it was typed, without the quotes around it.
#[derive(Debug, PartialEq)]
struct TypedValue {
    text: String,
    is_quoted: bool,
}

/// The values between commas. Brackets and quotes hold a value together, and `\,` is a comma;
/// `None` where one is not closed.
fn split(values: &str) -> Option<Vec<TypedValue>> {
    let mut found = Vec::new();
    let mut letters = values.chars().peekable();
    loop {
        let mut text = String::new();
        let quote = letters.peek().copied().filter(|c| matches!(c, '\'' | '"'));
        let (mut closers, mut inner): (Vec<char>, Option<char>) = (Vec::new(), None);
        while let Some(letter) =
            letters.next_if(|c| *c != ',' || !closers.is_empty() || inner.is_some())
        {
            match (letter, inner) {
                ('\\', None) if letters.peek() == Some(&',') => {
                    text.extend(letters.next());
                    continue;
                }
                (letter, Some(open)) if letter == open => inner = None,
                (_, Some(_)) => {}
                // A quote within a word is a letter.
                ('\'' | '"', None) if text.is_empty() || !closers.is_empty() => {
                    inner = Some(letter)
                }
                ('[', None) => closers.push(']'),
                ('{', None) => closers.push('}'),
                ('(', None) => closers.push(')'),
                (letter, None) if closers.last() == Some(&letter) => {
                    closers.pop();
                }
                _ => {}
            }
            text.push(letter);
        }
        if !closers.is_empty() || inner.is_some() {
            return None;
        }
        let bare = quote.and_then(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
        found.push(match bare {
            Some(bare) if text.len() > 1 => TypedValue {
                text: bare.to_owned(),
                is_quoted: true,
            },
            _ => TypedValue {
                text,
                is_quoted: false,
            },
        });
        // The comma.
        if letters.next().is_none() {
            return Some(found);
        }
    }
}

/// A value as JSON; what looks like a number, a truth, a list or a map is one.
fn json(typed: TypedValue) -> String {
    let text = typed.text.as_str();
    if typed.is_quoted {
        return serde_json::Value::from(text).to_string();
    }
    if let Some(tree) = of_text(text) {
        return tree;
    }
    let is_plain = matches!(
        serde_json::from_str(text),
        Ok(serde_json::Value::Number(_) | serde_json::Value::Bool(_))
    );
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

/// Whether it is a number of a few digits and no power of ten.
fn is_plain_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty() && digits.len() <= 18 && all(whole) && all(behind)
}

/// The numbers from the first to before the last.
fn range(parts: &[&str]) -> Result<Vec<String>, &'static str> {
    let step = parts.get(2).copied().unwrap_or("1");
    let range = Range::new([parts[0], parts[1], step]).map_err(|_| "is an empty range")?;
    if range.count() > COMBINATIONS_MAX as u128 {
        return Err("has too many values");
    }
    Ok((0..range.count()).map(|at| range.plain_text(at)).collect())
}

/// A row for each combination, the last parameter fastest; `None` for more than
/// [`COMBINATIONS_MAX`].
pub fn parameter_rows(params: &[ParameterValues]) -> Option<Vec<String>> {
    let mut rows = vec![String::new()];
    for (name, values) in params {
        if rows.len() * values.len() > COMBINATIONS_MAX {
            return None;
        }
        let key = serde_json::Value::from(name.as_str()).to_string();
        let longer = |row: &String, value: &String| match row.as_str() {
            "" => format!("{key}: {value}"),
            row => format!("{row}, {key}: {value}"),
        };
        rows = (rows.iter())
            .flat_map(|row| values.iter().map(move |value| longer(row, value)))
            .collect();
    }
    Some(rows.into_iter().map(|row| format!("{{{row}}}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &str) -> Vec<String> {
        parameter_values(given).unwrap().1
    }

    #[test]
    fn values_are_lists_or_half_open_ranges_without_float_noise() {
        let table: [(&str, &[&str]); 16] = [
            ("lr=0.10,1e-3", &["0.10", "1e-3"]),
            ("n=1:5", &["1", "2", "3", "4"]),
            ("x=0:1:0.25", &["0", "0.25", "0.5", "0.75"]),
            ("x=0.1:0.4:0.1", &["0.1", "0.2", "0.3"]),
            ("x=3:0:-1", &["3", "2", "1"]),
            ("x=-0.5:1", &["-0.5", "0.5"]),
            ("kind=adam,010,true", &["\"adam\"", "\"010\"", "true"]),
            ("url=a:b", &["\"a:b\""]),
            ("layers=[64,64],[128]", &["[64, 64]", "[128]"]),
            (
                "opt={kind: adam, lr: 0.1},none",
                &["{\"kind\": \"adam\", \"lr\": 0.1}", "\"none\""],
            ),
            ("name=a\\,b,c", &["\"a,b\"", "\"c\""]),
            (
                "q='a,b',\"c\",'0.1',it's",
                &["\"a,b\"", "\"c\"", "\"0.1\"", "\"it's\""],
            ),
            ("f=g(1,2),x", &["\"g(1,2)\"", "\"x\""]),
            ("seed=18446744073709551616", &["18446744073709551616"]),
            ("x=", &["\"\""]),
            ("x=a,", &["\"a\"", "\"\""]),
        ];
        for (given, wanted) in table {
            assert_eq!(read(given), wanted, "{given}");
        }
        for given in [
            "lr",
            "=3",
            "n=5:1",
            "n=1:5:0",
            "n=0:1:0.0000001",
            "x=[64",
            "x='a,b",
        ] {
            assert!(parameter_values(given).is_err(), "{given}");
        }
    }

    #[test]
    fn each_combination_is_a_row_and_the_last_parameter_is_fastest() {
        let params = [
            parameter_values("lr=0.1,x").unwrap(),
            parameter_values("n=1:3").unwrap(),
        ];
        let wanted = [
            r#"{"lr": 0.1, "n": 1}"#,
            r#"{"lr": 0.1, "n": 2}"#,
            r#"{"lr": "x", "n": 1}"#,
            r#"{"lr": "x", "n": 2}"#,
        ];
        assert_eq!(parameter_rows(&params).unwrap(), wanted);
        assert_eq!(parameter_rows(&[]).unwrap(), ["{}"]);
    }
}
