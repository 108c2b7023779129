//! How the log of a run is printed: as it is, or line by line behind the run's name.

use crate::fault::Stop;
use crate::say::VerbOutput;

/// A longer line is printed in pieces.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Prints the log of one run.
#[derive(Debug)]
pub struct Printer {
    /// Of the run, where it is not the only one.
    name: String,
    begins_lines: bool,
    shown: ChunkFilter,
    /// The last line while it is incomplete, where names begin lines.
    line: Vec<u8>,
    last: Option<u8>,
}

impl Printer {
    /// Prints the log as it is; notes begin with the run's name, if there is one.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            begins_lines: false,
            shown: ChunkFilter::default(),
            line: Vec::new(),
            last: None,
        }
    }

    /// Prints `144.2 | ` before each line.
    pub fn behind(name: &str) -> Self {
        Self {
            begins_lines: true,
            ..Self::plain(name)
        }
    }

    /// The run's name; empty where it is the only one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether other runs are printed at the same time.
    pub fn is_among_others(&self) -> bool {
        self.begins_lines
    }

    /// Whether anything was printed.
    pub fn has_printed(&self) -> bool {
        self.last.is_some()
    }

    /// Prints what came.
    pub fn take(&mut self, out: &VerbOutput, data: &[u8]) -> Result<(), Stop> {
        self.last = data.last().copied().or(self.last);
        if self.begins_lines {
            out.raw(&self.whole_lines(data))
        } else if out.screen.tty {
            out.raw(&self.shown.take(data))
        } else {
            out.bytes(data)
        }
    }

    /// Prints what was held back, at the end of the log.
    pub fn finish(&mut self, out: &VerbOutput) -> Result<(), Stop> {
        let rest = if self.begins_lines {
            self.rest()
        } else {
            self.shown.rest()
        };
        if rest.is_empty() {
            return Ok(());
        }
        out.raw(&rest)
    }

    /// Ends the last line, so that what follows begins one of its own.
    pub fn end_line(&self, out: &VerbOutput) -> Result<(), Stop> {
        match self.last {
            Some(byte) if byte != b'\n' && !self.begins_lines => out.line(""),
            Some(_) | None => Ok(()),
        }
    }

    /// The lines that are whole now, behind the name.
    fn whole_lines(&mut self, data: &[u8]) -> Vec<u8> {
        self.line.extend_from_slice(&self.shown.take(data));
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if self.line.len() > LINE_BYTES_MAX => self.line.len(),
            None => return Vec::new(),
        };
        let rest = self.line.split_off(whole);
        let lines = std::mem::replace(&mut self.line, rest);
        self.behind_name(&lines)
    }

    /// The last line, behind the name, where it has no end.
    fn rest(&mut self) -> Vec<u8> {
        self.line.extend(self.shown.rest());
        let line = std::mem::take(&mut self.line);
        self.behind_name(&line)
    }

    fn behind_name(&self, lines: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(lines.len());
        if lines.is_empty() {
            return text;
        }
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        for line in lines.split(|byte| *byte == b'\n') {
            text.extend_from_slice(self.name.as_bytes());
            text.extend_from_slice(b" | ");
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text
    }
}

/// Makes chunks fit for a terminal: a carriage return ends a line too, and a
/// character that was cut between two chunks waits for its rest.
#[derive(Debug, Default)]
struct ChunkFilter {
    held: Vec<u8>,
}

impl ChunkFilter {
    /// The bytes that can be shown now.
    fn take(&mut self, data: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(data);
        let keep = cut_at_end(&self.held);
        let rest = self.held.split_off(self.held.len() - keep);
        lines(&std::mem::replace(&mut self.held, rest))
    }

    /// The bytes that were held back.
    fn rest(&mut self) -> Vec<u8> {
        lines(&std::mem::take(&mut self.held))
    }
}

fn lines(bytes: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\r' if rest.peek() == Some(&b'\n') => {}
            b'\r' => shown.push(b'\n'),
            byte => shown.push(byte),
        }
    }
    shown
}

/// How many bytes at the end are incomplete: the beginning of a character of
/// several bytes, or a carriage return whose line feed may follow.
fn cut_at_end(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(at) = tail.iter().rposition(|byte| *byte >= 0xc0) else {
        return 0;
    };
    match std::str::from_utf8(&tail[at..]) {
        // An error without a length means that the text ends too early, not that
        // it is wrong.
        Err(error) if error.error_len().is_none() => tail.len() - at,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_whole() {
        let text = "höhe µm\r\n10%\r20%\r\nend\u{1f600}\r";
        for cut in 0..=text.len() {
            let mut shown = ChunkFilter::default();
            let mut all = shown.take(&text.as_bytes()[..cut]);
            all.extend(shown.take(&text.as_bytes()[cut..]));
            all.extend(shown.rest());
            assert_eq!(
                String::from_utf8(all).expect("text"),
                "höhe µm\n10%\n20%\nend\u{1f600}\n",
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_not_held_back_for_ever() {
        let mut shown = ChunkFilter::default();
        assert_eq!(shown.take(b"a\xffb"), b"a\xffb");
        assert_eq!(shown.take(b"\xc3"), b"");
        assert_eq!(shown.take(b"x"), b"\xc3x");
    }

    /// What a printer makes of chunks that a log is cut into.
    fn behind(chunks: &[&[u8]]) -> String {
        let mut printer = Printer::behind("144.2");
        let mut lines = Vec::new();
        for chunk in chunks {
            lines.extend(printer.whole_lines(chunk));
        }
        lines.extend(printer.rest());
        String::from_utf8(lines).expect("text")
    }

    #[test]
    fn a_name_begins_each_line_and_no_piece_of_one() {
        let wanted = "144.2 | 10%\n144.2 | 20%\n144.2 | \n144.2 | end\n";
        let log = b"10%\r20%\n\nend";
        for cut in 0..=log.len() {
            assert_eq!(behind(&[&log[..cut], &log[cut..]]), wanted, "cut at {cut}");
        }
        assert_eq!(behind(&[b"whole\n"]), "144.2 | whole\n");
        let endless = vec![b'x'; LINE_BYTES_MAX + 1];
        let printed = behind(&[&endless, b"y\n"]);
        assert!(printed.ends_with("x\n144.2 | y\n"), "in pieces");
    }
}
