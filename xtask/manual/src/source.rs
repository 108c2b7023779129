//! The documentation of variants and constants, read from the source.

use std::fs;
use std::path::Path;

/// The names below a line that begins with `head`, each with its documentation: variants of an
/// enum, or constants of a module.
///
/// # Errors
/// When the file has no such line, or a name has no documentation.
pub fn documented(root: &Path, file: &str, head: &str) -> Result<Vec<(String, String)>, String> {
    let path = root.join(file);
    let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
    let mut lines = text.lines().skip_while(|line| !line.starts_with(head));
    lines
        .next()
        .ok_or_else(|| format!("{file}: no line begins with `{head}`"))?;
    let mut found = Vec::new();
    let mut docs: Vec<&str> = Vec::new();
    for line in lines.take_while(|line| *line != "}") {
        // What is deeper belongs to a variant or a function.
        let Some(line) = line
            .strip_prefix("    ")
            .filter(|line| !line.starts_with(' '))
        else {
            continue;
        };
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim());
            continue;
        }
        let line = line.strip_prefix("pub const ").unwrap_or(line);
        let end = line.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &line[..end.unwrap_or(line.len())];
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
        if is_name {
            if docs.is_empty() {
                return Err(format!("{file}: `{name}` has no documentation"));
            }
            found.push((name.to_owned(), docs.join(" ")));
        }
        docs.clear();
    }
    Ok(found)
}

/// The documentation of the variant that `{:?}` prints.
///
/// # Errors
/// When none has this name.
pub fn of(docs: &[(String, String)], variant: &impl std::fmt::Debug) -> Result<String, String> {
    let name = format!("{variant:?}");
    let found = docs.iter().find(|(known, _)| *known == name);
    let text = found.map(|(_, text)| plain(text));
    text.ok_or_else(|| format!("`{name}` has no documentation"))
}

/// Documentation without the links of Rust: ``[`Run`]`` is `` `Run` ``.
pub fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}
