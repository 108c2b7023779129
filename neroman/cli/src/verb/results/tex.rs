//! `results -o X.tex`: a table to be read by `\input`.

use nero_model::safe::Safe;
use nero_views::results::Rows;

use super::write::shown_rows;

/// A table in the style of the package `booktabs`.
pub fn tex(found: &Rows) -> String {
    let (header, rows) = shown_rows(found);
    let is_right = |at: usize| {
        rows.iter()
            .any(|row| row.get(at).is_some_and(|cell| cell.is_right()))
    };
    let columns: String = (0..header.len())
        .map(|at| if is_right(at) { 'r' } else { 'l' })
        .collect();
    let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
    let mut text = format!(
        "% Made by `neroman results`; needs \\usepackage{{booktabs}}.\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
    );
    text.push_str(&line(header.iter().map(|name| escaped(name)).collect()));
    text.push_str("\\midrule\n");
    for row in &rows {
        let cells = row.iter().map(|cell| {
            if cell.is_right() {
                figure(cell.as_text())
            } else {
                escaped(cell.as_text())
            }
        });
        text.push_str(&line(cells.collect()));
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n");
    text
}

/// A number, or two with their deviation, as mathematics; else text.
fn figure(text: &str) -> String {
    let parts: Option<Vec<String>> = text.split(" ± ").map(number).collect();
    match parts {
        Some(parts) => format!("${}$", parts.join(" \\pm ")),
        None => escaped(text),
    }
}

fn number(text: &str) -> Option<String> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some(match text.split_once('e') {
        Some((digits, power)) => format!("{digits} \\times 10^{{{power}}}"),
        None => text.to_owned(),
    })
}

/// Text that starts no command and ends no cell.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in Safe::line(text).to_string().chars() {
        match c {
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            // Its name needs a font encoding that is not the default one.
            '"' => escaped.push_str("\\char34{}"),
            '±' => escaped.push_str("$\\pm$"),
            // Ligatures, and a line break that takes what is in brackets.
            '-' | '[' | ']' | '`' | '\'' | '*' => {
                escaped.push('{');
                escaped.push(c);
                escaped.push('}');
            }
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_job_is_no_command() {
        assert_eq!(
            escaped("50% of \\input{x} & a_b ~^"),
            "50\\% of \\textbackslash{}input\\{x\\} \\& a\\_b \\textasciitilde{}\\textasciicircum{}"
        );
        assert_eq!(escaped("[1ex]"), "{[}1ex{]}");
        assert_eq!(escaped("\"a"), "\\char34{}a");
    }

    #[test]
    fn numbers_are_mathematics() {
        assert_eq!(figure("-0.310 ± 0.021"), "$-0.310 \\pm 0.021$");
        assert_eq!(figure("1.2346e-7"), "$1.2346 \\times 10^{-7}$");
        assert_eq!(figure("NaN"), "NaN");
        assert_eq!(figure("2h14m"), "2h14m");
        assert_eq!(figure(""), "");
    }
}
