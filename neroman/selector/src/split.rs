//! The split at commas.

use nero_expr::Span;

/// The places between the commas outside parentheses, quotes and backticks,
/// without the blanks around them; an empty place where nothing stands.
///
/// A quote opens only where a word does not go on (`bob's` has none) and only
/// when it is closed somewhere; parentheses count only when they are balanced.
pub(crate) fn split(text: &str) -> Vec<Span> {
    let (places, balanced) = split_at(text, true);
    if balanced {
        places
    } else {
        split_at(text, false).0
    }
}

fn split_at(text: &str, parentheses: bool) -> (Vec<Span>, bool) {
    let mut places = Vec::new();
    let (mut start, mut depth, mut balanced) = (0, 0_usize, true);
    let mut before = ' ';
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let mut len = c.len_utf8();
        match c {
            '\'' | '"' | '`' if !before.is_alphanumeric() => {
                len = quoted_len(&text[at..], c).unwrap_or(len);
            }
            '(' if parentheses => depth += 1,
            ')' if parentheses => {
                balanced &= depth > 0;
                depth = depth.saturating_sub(1);
            }
            ',' if depth == 0 => {
                places.push(trimmed(text, start, at));
                start = at + 1;
            }
            _ => {}
        }
        before = c;
        at += len;
    }
    places.push(trimmed(text, start, text.len()));
    (places, balanced && depth == 0)
}

/// Length of the quoted text that begins with `quote` and ends with the next
/// `quote` that is not doubled; `None` when there is no such end.
pub(crate) fn quoted_len(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let closes = c == quote && chars.next_if(|&(_, next)| next == quote).is_none();
        if closes {
            return Some(at + 1);
        }
    }
    None
}

fn trimmed(text: &str, start: usize, end: usize) -> Span {
    let part = &text[start..end];
    let blanks = part.len() - part.trim_start().len();
    let kept = part.trim().len();
    Span::new(start + blanks, start + blanks + kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<&str> {
        split(text).into_iter().map(|span| span.of(text)).collect()
    }

    #[test]
    fn commas_split_outside_brackets_quotes_and_backticks() {
        for (text, wanted) in [
            (
                "crashed,144-149,170,175",
                &["crashed", "144-149", "170", "175"][..],
            ),
            (" 1 , 2 ", &["1", "2"]),
            ("mean(loss, 10m) > 3, 5", &["mean(loss, 10m) > 3", "5"]),
            ("name='a,b',5", &["name='a,b'", "5"]),
            ("`a,b`,5", &["`a,b`", "5"]),
            ("`a``,b`,5", &["`a``,b`", "5"]),
            ("1,,2", &["1", "", "2"]),
            ("1,", &["1", ""]),
            ("", &[""]),
            ("bob's,alice's", &["bob's", "alice's"]),
            ("'a,5", &["'a", "5"]),
            ("(a,5", &["(a", "5"]),
            ("a),5", &["a)", "5"]),
            ("größe,ü", &["größe", "ü"]),
        ] {
            assert_eq!(parts(text), wanted, "{text}");
        }
    }
}
