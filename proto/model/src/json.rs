//! JSON texts that are written anew in another form, their numbers digit by digit: a reader of
//! JSON would make floating-point numbers of long ones.

/// A part of a JSON text that another form may have otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonToken<'a> {
    /// A text or a key, with its quotation marks and escapes.
    Text(&'a str),
    /// A number.
    Number(&'a str),
    /// `true`, `false` or `null`.
    Word(&'a str),
    /// One of `[ ] { } : ,`
    Sign(char),
    /// A blank.
    Blank,
}

/// The tokens of a text that is JSON.
pub fn tokens(json: &str) -> impl Iterator<Item = JsonToken<'_>> {
    let mut rest = json;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let until = |ends: fn(char) -> bool| rest.find(ends).unwrap_or(rest.len());
        let length = match first {
            '"' => text_length(rest),
            '-' | '0'..='9' => until(|c| !(c.is_ascii_digit() || "+-.eE".contains(c))),
            'a'..='z' => until(|c| !c.is_ascii_lowercase()),
            other => other.len_utf8(),
        };
        let (part, behind) = rest.split_at(length);
        rest = behind;
        Some(match first {
            '"' => JsonToken::Text(part),
            '-' | '0'..='9' => JsonToken::Number(part),
            'a'..='z' => JsonToken::Word(part),
            blank if blank.is_whitespace() => JsonToken::Blank,
            sign => JsonToken::Sign(sign),
        })
    })
}

/// The bytes of the quoted text that begins a JSON text.
fn text_length(json: &str) -> usize {
    let mut is_escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_text_is_its_tokens() {
        let found: Vec<JsonToken<'_>> = tokens(r#"{"a\"\\": [-1.5e-7, null]}"#).collect();
        assert_eq!(
            found,
            [
                JsonToken::Sign('{'),
                JsonToken::Text(r#""a\"\\""#),
                JsonToken::Sign(':'),
                JsonToken::Blank,
                JsonToken::Sign('['),
                JsonToken::Number("-1.5e-7"),
                JsonToken::Sign(','),
                JsonToken::Blank,
                JsonToken::Word("null"),
                JsonToken::Sign(']'),
                JsonToken::Sign('}'),
            ]
        );
    }
}
