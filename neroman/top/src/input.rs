//! A line that a person edits.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Input {
    text: String,
    /// The cursor's place in bytes, between two characters.
    at: usize,
}

impl Input {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub(crate) fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// The word before the cursor that completion goes on with.
    pub(crate) fn begun(&self) -> &str {
        let before = self.before();
        let parts = [' ', ',', '<', '>', '=', '&', '|', '('];
        before.rfind(parts).map_or(before, |at| &before[at + 1..])
    }

    /// Puts a word in the place of the one that was begun.
    pub(crate) fn complete(&mut self, word: &str) {
        let begin = self.at - self.begun().len();
        self.text.replace_range(begin..self.at, word);
        self.at = begin + word.len();
    }

    /// Types a text; line breaks become blanks.
    pub(crate) fn insert(&mut self, text: &str) {
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        self.text.insert_str(self.at, &text);
        self.at += text.len();
    }

    /// Takes a key that edits; returns whether it was one.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('a') if control => self.at = 0,
            KeyCode::Char('e') if control => self.at = self.text.len(),
            KeyCode::Char('u') if control => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyCode::Char('k') if control => self.text.truncate(self.at),
            KeyCode::Char('w') if control => {
                let before = self.before().trim_end();
                let begin = before.rfind(' ').map_or(0, |at| at + 1);
                self.text.drain(begin..self.at);
                self.at = begin;
            }
            KeyCode::Char(c) if !control => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Left => self.at = self.previous(),
            KeyCode::Right => self.at = self.next(),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            KeyCode::Backspace => {
                let begin = self.previous();
                self.text.drain(begin..self.at);
                self.at = begin;
            }
            KeyCode::Delete => {
                let end = self.next();
                self.text.drain(self.at..end);
            }
            _ => return false,
        }
        true
    }

    fn previous(&self) -> usize {
        self.before()
            .char_indices()
            .next_back()
            .map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        let behind = &self.text[self.at..];
        behind
            .chars()
            .next()
            .map_or(self.at, |c| self.at + c.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(input: &mut Input, codes: &[(KeyCode, KeyModifiers)]) {
        for (code, modifiers) in codes {
            input.key(KeyEvent::new(*code, *modifiers));
        }
    }

    #[test]
    fn characters_of_several_bytes_are_edited_whole() {
        let mut input = Input::new("lr=ä日");
        let none = KeyModifiers::NONE;
        typed(
            &mut input,
            &[(KeyCode::Left, none), (KeyCode::Backspace, none)],
        );
        assert_eq!((input.text(), input.before()), ("lr=日", "lr="));
        typed(
            &mut input,
            &[(KeyCode::Delete, none), (KeyCode::Char('5'), none)],
        );
        assert_eq!(input.text(), "lr=5");
        typed(&mut input, &[(KeyCode::Char('u'), KeyModifiers::CONTROL)]);
        assert_eq!(input.text(), "");
        input.insert("a\nb");
        assert_eq!(input.text(), "a b");
    }

    #[test]
    fn a_word_is_completed_behind_an_operator() {
        let mut input = Input::new("crashed,lo");
        assert_eq!(input.begun(), "lo");
        input.complete("loss");
        assert_eq!(input.text(), "crashed,loss");
        let mut input = Input::new("lr>0.1&&va");
        input.complete("val_loss");
        assert_eq!(input.text(), "lr>0.1&&val_loss");
    }
}
