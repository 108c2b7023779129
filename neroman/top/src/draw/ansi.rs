//! Text with the colours of a terminal, as spans.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

/// A line in which `ESC [ … m` changes the colour.
pub(super) fn line(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::default();
    for (at, piece) in text.split("\x1b[").enumerate() {
        let text = if at == 0 {
            piece
        } else {
            let (code, rest) = piece.split_once('m').unwrap_or(("", piece));
            style = styled(code);
            rest
        };
        if !text.is_empty() {
            spans.push(Span::styled(text.to_owned(), style));
        }
    }
    Line::from(spans)
}

fn styled(code: &str) -> Style {
    let numbers: Vec<u8> = code
        .split(';')
        .filter_map(|word| word.parse().ok())
        .collect();
    let color = match numbers.as_slice() {
        [38, 5, color] => Color::Indexed(*color),
        [31] => Color::Red,
        [32] => Color::Green,
        [33] => Color::Yellow,
        [36] => Color::Cyan,
        [90] => Color::DarkGray,
        _ => return Style::default(),
    };
    Style::default().fg(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_spans_and_everything_else_stays_text() {
        let line = line("a\x1b[38;5;33mb\x1b[0mc");
        assert_eq!(line.to_string(), "abc");
        assert_eq!(line.spans[1].style.fg, Some(Color::Indexed(33)));
        assert_eq!(line.spans[2].style.fg, None);
    }
}
