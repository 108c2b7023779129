//! Parts of messages, made safe and short.

use std::fmt;

use nero_model::safe::Safe;

/// `: OUTPUT`, in one safe line of bounded length.
pub(super) struct QuotedOutput<'a>(pub(super) &'a [u8]);

/// Longest quotation in a message.
const QUOTED_BYTES_MAX: usize = 600;

impl fmt::Display for QuotedOutput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.trim_ascii();
        let shown = &text[..text.len().min(QUOTED_BYTES_MAX)];
        let mut lines = shown
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        let Some(first) = lines.next() else {
            return Ok(());
        };
        write!(f, ": {}", Safe::line(first))?;
        let mut before = first;
        for line in lines {
            // A line that repeats is quoted once.
            if line != before {
                write!(f, "; {}", Safe::line(line))?;
            }
            before = line;
        }
        if shown.len() < text.len() {
            f.write_str(" …")?;
        }
        Ok(())
    }
}

/// ` (ssh-ed25519 SHA256:…)`.
pub(super) struct Key<'a>(pub(super) &'a Option<String>, pub(super) &'a Option<String>);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(kind), Some(print)) => write!(f, ": {} {}", Safe::line(kind), Safe::line(print)),
            (None, Some(print)) => write!(f, ": {}", Safe::line(print)),
            (_, None) => Ok(()),
        }
    }
}

/// `; the known one is in FILE:LINE`.
pub(super) struct KnownHostPlace<'a>(pub(super) &'a Option<String>);

impl fmt::Display for KnownHostPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "; the known one is in {}", Safe::line(place)),
            None => Ok(()),
        }
    }
}

/// `; the node offers …; tried …`.
pub(super) struct AuthAttempts<'a>(pub(super) &'a str, pub(super) &'a [String]);

impl fmt::Display for AuthAttempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; the node offers {}", Safe::line(self.0))?;
        }
        match self.1 {
            [] => f.write_str("; no key was tried"),
            keys => {
                for (i, key) in keys.iter().enumerate() {
                    f.write_str(if i == 0 { "; tried " } else { ", " })?;
                    write!(f, "{}", Safe::line(key))?;
                }
                Ok(())
            }
        }
    }
}
