//! Separates the output of a command from the output of its login shell around
//! it.

use memchr::memmem;

/// Most that login files may print on one stream before our command begins.
pub(crate) const NOISE_BYTES_MAX: usize = 64 * 1024;
/// Limit of the kept output of a command on one stream.
pub(crate) const SAID_BYTES_MAX: usize = 1024 * 1024;
/// Length of the noise kept for a message.
const NOISE_BYTES_SHOWN: usize = 2048;

/// One stream of a command, between the lines `mark` and `mark STATUS`.
#[derive(Debug)]
pub struct OutputSection {
    begin: Vec<u8>,
    /// `None`: the stream has no end mark.
    end: Option<Vec<u8>>,
    /// Noise before the first mark, output of the command after it.
    held: Vec<u8>,
    /// Bytes of `held` that are known to hold no mark.
    searched: usize,
    begun: bool,
    status: Option<i32>,
}

/// A stream that is longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// Before the command began.
    Noise,
    /// By the command.
    Said,
}

impl OutputSection {
    /// For a command that prints the lines `mark` and `mark STATUS` around its output.
    pub fn new(mark: &str) -> Self {
        Self {
            begin: format!("\n{mark}\n").into_bytes(),
            end: Some(format!("\n{mark} ").into_bytes()),
            // A mark counts at the very beginning, too.
            held: vec![b'\n'],
            searched: 0,
            begun: false,
            status: None,
        }
    }

    /// For a stream without an end mark.
    pub(crate) fn first_only(mark: &str) -> Self {
        Self {
            end: None,
            ..Self::new(mark)
        }
    }

    /// Adds bytes read from the stream.
    ///
    /// # Errors
    /// When the stream is longer than its limit.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Overrun> {
        if self.status.is_some() {
            return Ok(());
        }
        self.held.extend_from_slice(bytes);
        if !self.begun {
            let Some(at) = self.find(&self.begin) else {
                self.searched = self.held.len();
                return if self.held.len() > NOISE_BYTES_MAX {
                    Err(Overrun::Noise)
                } else {
                    Ok(())
                };
            };
            self.held.drain(..at + self.begin.len());
            self.searched = 0;
            self.begun = true;
        }
        if let Some((at, status)) = self.find_end() {
            self.held.truncate(at);
            self.status = Some(status);
        } else {
            self.searched = self.held.len();
        }
        if self.held.len() > SAID_BYTES_MAX {
            return Err(Overrun::Said);
        }
        Ok(())
    }

    fn find(&self, what: &[u8]) -> Option<usize> {
        let from = self.searched.saturating_sub(what.len());
        memmem::find(&self.held[from..], what).map(|at| from + at)
    }

    /// The last line with its status, once it is complete. The search begins
    /// anew each time, since the status may arrive in parts.
    fn find_end(&self) -> Option<(usize, i32)> {
        let end = self.end.as_ref()?;
        let from = self.searched.saturating_sub(end.len() + 16);
        let at = from + memmem::find(&self.held[from..], end)?;
        let rest = &self.held[at + end.len()..];
        let line = &rest[..rest.iter().position(|byte| *byte == b'\n')?];
        let status = std::str::from_utf8(line).ok()?.parse().ok()?;
        Some((at, status))
    }

    /// Whether the first mark has come.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }

    /// The command's exit status, when it has ended.
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// The beginning of the stream before the first mark.
    pub(crate) fn noise(&self) -> &[u8] {
        let noise = if self.begun { &[] } else { &self.held[1..] };
        &noise[..noise.len().min(NOISE_BYTES_SHOWN)]
    }

    /// The output of the command.
    pub fn into_said(self) -> Vec<u8> {
        if self.begun { self.held } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catch(text: &[u8], step: usize) -> Result<OutputSection, Overrun> {
        let mut catch = OutputSection::new("M4RK");
        for part in text.chunks(step) {
            catch.take(part)?;
        }
        Ok(catch)
    }

    #[test]
    fn text_between_the_marks_is_kept_however_it_is_cut() {
        let text = b"Welcome!\nM4RK?\n\nM4RK\na\n\nM4RK-b\nc\nM4RK 17\nlogout\n";
        for step in 1..text.len() {
            let catch = catch(text, step).expect("short");
            assert!(catch.begun());
            assert_eq!(catch.status(), Some(17), "in parts of {step}");
            assert_eq!(catch.into_said(), b"a\n\nM4RK-b\nc");
        }
    }

    #[test]
    fn a_mark_at_the_very_beginning_counts() {
        let catch = catch(b"M4RK\n\nM4RK 0\n", 4).expect("short");
        assert_eq!(catch.status(), Some(0));
        assert_eq!(catch.into_said(), b"");
    }

    #[test]
    fn without_a_mark_the_first_lines_are_kept_for_the_message() {
        let catch = catch(b"This account is not available.\n", 7).expect("short");
        assert!(!catch.begun());
        assert_eq!(catch.noise(), b"This account is not available.\n");
        assert_eq!(catch.into_said(), b"");
    }

    #[test]
    fn both_lengths_are_bounded() {
        let noise = vec![b'x'; NOISE_BYTES_MAX + 1];
        assert_eq!(catch(&noise, 4096).err(), Some(Overrun::Noise));
        let mut said = b"\nM4RK\n".to_vec();
        said.resize(SAID_BYTES_MAX + 100, b'x');
        assert_eq!(catch(&said, 65536).err(), Some(Overrun::Said));
    }
}
