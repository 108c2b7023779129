//! Files of metrics that a job writes: what their names say of their form.

use crate::found::LinePairs;
use crate::json;

/// Limit of a document that is read whole, in bytes.
pub const DOCUMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The form of a file of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileForm {
    /// Lines as programs print them.
    Printed,
    /// A line of names and lines of cells, separated by this sign, if it is known.
    Columns(Option<u8>),
    /// A JSON object in each line.
    JsonLines,
    /// One JSON value, which its program replaces.
    Document,
}

impl FileForm {
    /// The form of a file of this name.
    pub fn of(name: &str) -> Self {
        let ending = name.rsplit('/').next().and_then(|last| {
            let (_, ending) = last.rsplit_once('.')?;
            Some(ending.to_ascii_lowercase())
        });
        match ending.as_deref() {
            Some("csv") => Self::Columns(None),
            Some("tsv" | "tab") => Self::Columns(Some(b'\t')),
            Some("jsonl" | "ndjson") => Self::JsonLines,
            Some("json") => Self::Document,
            Some(_) | None => Self::Printed,
        }
    }

    /// Whether a program may write the file anew from its start, with the rows that it
    /// had and more.
    pub fn has_rows(self) -> bool {
        match self {
            Self::Printed => false,
            Self::Columns(_) | Self::JsonLines | Self::Document => true,
        }
    }
}

/// The numbers of a document as JSON lines: of an object one, of a list one for each
/// object in it. `None` while it is no whole JSON value.
pub fn document_lines(text: &[u8]) -> Option<Vec<u8>> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let flat: Vec<u8> = text
        .iter()
        .map(|byte| if is_end(byte) { b' ' } else { *byte })
        .collect();
    let text = flat.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&flat);
    let text = text.trim_ascii();
    let mut lines = Vec::new();
    match text.first()? {
        b'{' => line_of(text, &mut lines)?,
        b'[' => {
            for element in elements(text)? {
                if element.first() == Some(&b'{') {
                    line_of(element, &mut lines)?;
                }
            }
        }
        _ => return None,
    }
    Some(lines)
}

/// Appends the numbers of an object as one line. Its texts and lists would only make
/// the line long.
fn line_of(object: &[u8], lines: &mut Vec<u8>) -> Option<()> {
    let mut found = LinePairs::default();
    json::find(object, &mut found).then_some(())?;
    let pairs = found.pairs().map(|(name, value)| {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        // `{:?}` writes `NaN` and `inf`, which are read again.
        format!("\"{name}\":{value:?}")
    });
    let pairs: Vec<String> = pairs.collect();
    lines.extend_from_slice(format!("{{{}}}\n", pairs.join(",")).as_bytes());
    Some(())
}

/// The elements of a list that fills `text`.
fn elements(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut elements = Vec::new();
    let (mut depth, mut from) = (0_usize, 1);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        if is_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    elements.push(text[from..at].trim_ascii());
                    return (at + 1 == text.len()).then_some(elements);
                }
            }
            b',' if depth == 1 => {
                elements.push(text[from..at].trim_ascii());
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}
