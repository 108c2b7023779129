//! Lines about the files of a run.

/// Notes of one run that are kept at most.
pub(super) const NOTES_MAX: usize = 200;
/// Bytes of one note: names come from nodes.
const NOTE_BYTES_MAX: usize = 600;

/// Lines for a person, within bounds.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    lines: Vec<String>,
    more: usize,
}

impl Notes {
    pub(super) fn of(lines: Vec<String>) -> Self {
        let mut notes = Self::default();
        for line in lines {
            notes.add(line);
        }
        notes
    }

    pub(super) fn add(&mut self, mut line: String) {
        if line.len() > NOTE_BYTES_MAX {
            line.truncate(line.floor_char_boundary(NOTE_BYTES_MAX));
            line.push('…');
        }
        if self.lines.len() < NOTES_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.more += other.more;
        for line in other.lines {
            self.add(line);
        }
    }

    /// All lines.
    pub fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("{} more remarks", self.more));
        }
        self.lines
    }
}
