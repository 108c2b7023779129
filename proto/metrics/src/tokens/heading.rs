//! What stands before the values of a line and is none of them: time stamps, levels,
//! names of loggers, bullets, and the rank of the process that printed it.

use crate::tokens::names::is_level;
use crate::tokens::step;

/// Ranks that a launcher may put in front of lines.
const RANKS_MAX: u32 = 100_000;
/// Longest bracket that is skipped as a heading.
const BRACKET_BYTES_MAX: usize = 80;

/// The rank before a line and the bytes up to its text: `[rank1]: …`, `rank 0: …`,
/// `[default1]:…` of torchrun, `[1,0]<stdout>:…` of Open MPI (rank 0 of job 1).
pub fn rank(line: &[u8]) -> Option<(u32, usize)> {
    let (inside, close) = match line {
        [b'[', inside @ ..] => (inside, b']'),
        [b'r' | b'R', ..] => (line, b':'),
        _ => return None,
    };
    let open = line.len() - inside.len();
    let end = inside.iter().take(20).position(|byte| *byte == close)?;
    let behind = &inside[end + 1..];
    if let Some(of_job) = inside[..end].split(|byte| *byte == b',').nth(1) {
        let stream = [&b"<stdout>:"[..], b"<stderr>:"]
            .into_iter()
            .find(|stream| behind.starts_with(stream))?;
        return Some((whole(of_job)?, open + end + 1 + stream.len()));
    }
    let word = [&b"rank"[..], b"Rank", b"RANK", b"default"]
        .into_iter()
        .find(|word| inside.starts_with(word))?;
    let rank = whole(inside[word.len()..end].trim_ascii_start())?;
    let colon = match close {
        b']' if behind.first() == Some(&b':') => 1,
        b']' => return None,
        _ => 0,
    };
    Some((rank, open + end + 1 + colon))
}

/// A number in front of a text, and the bytes up to the text: `0: step 3`.
pub fn number_in_front(line: &[u8]) -> Option<(u32, usize)> {
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = line[digits..].strip_prefix(b": ")?.trim_ascii_start();
    let begins = matches!(text.first()?, b'a'..=b'z' | b'A'..=b'Z' | b'[' | b'{');
    let rank = whole(&line[..digits]).filter(|rank| *rank < RANKS_MAX)?;
    begins.then_some((rank, line.len() - text.len()))
}

fn whole(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Bytes before the text of a message.
pub fn length(line: &[u8]) -> usize {
    let mut at = glog(line);
    let mut is_log = at > 0;
    loop {
        at += bullets(&line[at..]);
        let rest = &line[at..];
        let Some(part) = bracket(rest)
            .or_else(|| time_stamp(rest))
            .or_else(|| level(rest))
            .or_else(|| is_log.then(|| logger(rest)).flatten())
        else {
            return at;
        };
        is_log = true;
        at += part;
    }
}

/// Blanks, bars, bullets and lines of a frame.
fn bullets(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &text[at..] {
            [b' ' | b'\t' | b'*' | b'|' | b':' | b',' | b'>', ..] => 1,
            [b'-', next, ..] if !next.is_ascii_digit() && *next != b'.' => 1,
            // The characters from U+2500 to U+257F draw frames.
            [0xe2, 0x94 | 0x95, 0x80..=0xbf, ..] => 3,
            _ => return at,
        };
    }
}

/// `I0311 09:00:05.123456  42 solver.cpp:228] ` of glog and absl.
fn glog(line: &[u8]) -> usize {
    let [b'I' | b'W' | b'E' | b'F', rest @ ..] = line else {
        return 0;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if !matches!(digits, 4 | 8) || rest.get(digits) != Some(&b' ') {
        return 0;
    }
    let inside = &line[..line.len().min(BRACKET_BYTES_MAX)];
    let close = memchr::memchr(b']', inside).filter(|close| line.get(close + 1) == Some(&b' '));
    close.map_or(0, |close| close + 1)
}

/// `[main]`, `[2026-11-20 14:00:00]`; no `[8/50]`, which is a step.
fn bracket(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'[') || step::bracket_at_start(text) {
        return None;
    }
    let close = text
        .iter()
        .take(BRACKET_BYTES_MAX)
        .position(|b| *b == b']')?;
    let inside = &text[1..close];
    (!inside.is_empty() && !inside.iter().all(u8::is_ascii_digit)).then_some(close + 1)
}

/// `2026-11-20`, `2026-11-20T14:00:00.5Z`, `14:00:02,123`.
fn time_stamp(text: &[u8]) -> Option<usize> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let length = text
        .iter()
        .take_while(|b| b.is_ascii_digit() || b"-:./,TZ+".contains(b))
        .count();
    let count = |sign: u8| text[..length].iter().filter(|b| **b == sign).count();
    (count(b':') == 2 || count(b'-') == 2 || count(b'/') == 2).then_some(length)
}

/// `INFO`, `INFO:`, `INFO:root:`.
fn level(text: &[u8]) -> Option<usize> {
    let length = word_length(text);
    if !is_level(&text[..length]) {
        return None;
    }
    let logger = match text.get(length) {
        Some(b':') => word_length(&text[length + 1..]),
        Some(_) | None => 0,
    };
    if logger > 0 && text.get(length + 1 + logger) == Some(&b':') {
        Some(length + logger + 2)
    } else {
        Some(length)
    }
}

/// `mmdet -`, `__main__:train:12 -`, `train_inner |`: one word, and a sign that ends it.
fn logger(text: &[u8]) -> Option<usize> {
    let length = text.iter().take_while(|b| !b.is_ascii_whitespace()).count();
    let name = &text[..length];
    if !name.first()?.is_ascii_alphabetic() && name.first() != Some(&b'_') {
        return None;
    }
    if let Some(bare) = name.strip_suffix(b":") {
        return step::rank(bare).is_none().then_some(length);
    }
    let ends = matches!(text[length..].trim_ascii_start(), [b'-' | b'|', b' ', ..]);
    ends.then_some(length)
}

fn word_length(text: &[u8]) -> usize {
    text.iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_a_line_is_read() {
        for (line, want) in [
            ("[rank1]: step", Some((1, 8))),
            ("[rank12]:x", Some((12, 9))),
            ("rank 0: loss", Some((0, 7))),
            ("Rank 3: loss", Some((3, 7))),
            ("[1,4]<stdout>: loss", Some((4, 14))),
            ("[default2]:loss", Some((2, 11))),
            ("rank: 3", None),
            ("rank 2 of 3", None),
            ("[1,4] loss", None),
            ("[8] loss", None),
            ("reward: 3", None),
            ("[rank1] x", None),
            ("", None),
        ] {
            assert_eq!(rank(line.as_bytes()), want, "{line}");
        }
    }

    #[test]
    fn a_heading_ends_where_the_message_begins() {
        for (line, message) in [
            ("loss 0.3", "loss 0.3"),
            ("12:30:45 loss 0.3", "loss 0.3"),
            ("2026-11-20 14:00:00,123 - mmdet - INFO - loss 1", "loss 1"),
            ("[2026-11-20 14:00:01,000][main][INFO] - loss 1", "loss 1"),
            ("INFO:root:epoch 5", "epoch 5"),
            (
                "2026-11-20 14:00:00.123 | INFO     | __main__:train:12 - loss 1",
                "loss 1",
            ),
            ("2026-11-20T14:00:00Z INFO train: loss 1", "loss 1"),
            (" *   Acc@1 55.000", "Acc@1 55.000"),
            ("│   epoch 3", "epoch 3"),
            ("- loss 3", "loss 3"),
            (
                "I0311 09:00:05.1 42 solver.cpp:228] Iteration 3",
                "Iteration 3",
            ),
            ("I20260311 09:00:05.1 42 a.cc:2]  loss 3", "loss 3"),
            ("I0311 loss", "I0311 loss"),
            ("[8/50] loss 3", "[8/50] loss 3"),
            ("[8]\tloss", "[8]\tloss"),
            ("-0.5 loss", "-0.5 loss"),
            ("a - b", "a - b"),
            ("3 4", "3 4"),
        ] {
            let from = length(line.as_bytes());
            assert_eq!(&line[from..], message, "{line}");
        }
    }
}
