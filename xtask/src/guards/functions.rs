//! Lengths of functions, in code that rustfmt has formatted.

use super::source::File;

/// A function and its number of lines, from its signature to its last brace.
pub struct Function {
    pub place: String,
    pub lines: usize,
}

/// The functions of a file.
pub fn functions(file: &File) -> Vec<Function> {
    let lines: Vec<&str> = file.code.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| {
            let own = line.strip_prefix(indent);
            own.is_some_and(|own| {
                own.starts_with('}') || own.starts_with(") ") && own.ends_with(';')
            })
        };
        let is_one_line = line.ends_with('}') || line.ends_with(';');
        let last = if is_one_line {
            Some(0)
        } else {
            lines[first + 1..].iter().position(is_end).map(|at| at + 1)
        };
        found.push(Function {
            place: format!("{}:{} {name}", file.path, first + 1),
            lines: last.map_or(1, |last| last + 1),
        });
    }
    found
}

/// The name of a function that begins in this line.
fn name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ');
    loop {
        let word = words.next()?;
        match word {
            "fn" => break,
            "const" | "async" | "unsafe" | "extern" | "\"\"" | "pub" => {}
            scope if scope.starts_with("pub(") || scope.ends_with(')') => {}
            "in" => {}
            _ => return None,
        }
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
}
