//! A `neronet.yaml` as text: its values, and the file that an import makes.

use std::fmt::Write as _;

use nero_model::safe::Safe;
use serde_json::Value;

/// A `neronet.yaml`, and what of its source is not in it.
#[derive(Debug, Default)]
pub struct ImportedText {
    /// The file.
    pub text: String,
    /// What has no counterpart.
    pub warnings: Vec<String>,
}

impl ImportedText {
    /// Reports what has no counterpart, in a warning and in a comment at the end of the file.
    pub fn lost(&mut self, what: String) {
        let comment = self.comment_of_loss(what);
        self.text.push_str(&comment);
    }

    /// The same; the comment's place is the caller's matter.
    pub fn comment_of_loss(&mut self, what: String) -> String {
        let comment = format!("# not imported: {}\n", Safe::line(&what));
        self.warnings.push(what);
        comment
    }
}

/// A text as a value of YAML.
pub fn scalar(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A text of several lines, as it is where YAML lets it be.
pub fn put_block(text: &mut String, key: &str, lines: &str) {
    let is_plain = |c: char| c == '\n' || !c.is_control();
    if !lines.chars().all(is_plain) {
        let _ = writeln!(text, "{key}{}", scalar(lines));
        return;
    }
    let indent = key.len() - key.trim_start().len() + 4;
    let _ = writeln!(text, "{key}|");
    for line in lines.lines() {
        let indent = if line.is_empty() { 0 } else { indent };
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}
