//! A section of a page of `docs/` for a terminal: the pages are what is read in
//! a browser too, so there is one text of each thing.

/// Wider lines are hard to read.
const WIDTH_MAX: usize = 100;
/// The beginning of a link to a topic of help.
pub const HELP: &str = "help:";
/// Of a table: where the second column begins.
const SECOND: usize = 34;

/// The part of a page below this heading, up to the next one of its rank; below
/// the title when it is empty.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = match heading {
        "" => page.find('\n').unwrap_or(page.len()),
        heading => {
            let line = format!("\n## {heading}\n");
            page.find(&line).map_or(page.len(), |at| at + line.len())
        }
    };
    let rest = &page[begin..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].trim_matches('\n')
}

/// A page below its title, all sections.
pub fn whole(page: &str) -> &str {
    let title = page.find('\n').unwrap_or(page.len());
    page[title..].trim_matches('\n')
}

/// Markdown as plain text of at most this width.
pub fn plain(text: &str, width: u16) -> String {
    let width = clamped(width);
    let mut shown = String::new();
    for block in blocks(text) {
        if !shown.is_empty() {
            shown.push('\n');
        }
        match block {
            Block::Code(lines) => {
                for line in lines {
                    shown.push_str(&format!("    {line}\n"));
                }
            }
            Block::Table(rows) => {
                for (first, second) in rows {
                    shown.push_str(&row(&first, &second, width));
                }
            }
            Block::Items(items) => {
                for item in items {
                    shown.push_str(&filled(&inline(&item), "* ", 2, width));
                }
            }
            Block::Text(text) => shown.push_str(&filled(&inline(&text), "", 0, width)),
        }
    }
    shown
}

/// Words in lines that fit, all but the first behind as many blanks as `begin` has
/// characters.
pub fn folded(begin: &str, text: &str, width: u16) -> String {
    filled(text, begin, begin.chars().count(), clamped(width))
}

fn clamped(width: u16) -> usize {
    usize::from(width).clamp(40, WIDTH_MAX)
}

enum Block {
    /// As it is written.
    Code(Vec<String>),
    /// Two columns, without the head.
    Table(Vec<(String, String)>),
    /// With the marks of the page, as `Text`.
    Items(Vec<String>),
    Text(String),
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = text.lines();
    // Whether the next line begins a block of its own.
    let mut fresh = true;
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(Block::Code(code.map(str::to_owned).collect()));
            fresh = true;
            continue;
        }
        match (line.trim(), blocks.last_mut()) {
            // A comment is for the test that plays the page.
            (empty, _) if empty.is_empty() || empty.starts_with("<!-- ") => {
                fresh = true;
                continue;
            }
            (heading, _) if heading.starts_with("## ") => {
                blocks.push(Block::Text(heading[3..].to_uppercase()));
                fresh = true;
                continue;
            }
            (heading, _) if heading.starts_with("### ") => {
                blocks.push(Block::Text(heading[4..].to_owned()));
                fresh = true;
                continue;
            }
            (cells, Some(Block::Table(rows))) if !fresh && cells.starts_with('|') => {
                // The line below the head.
                if !cells.starts_with("|--") {
                    rows.extend(cells_of(cells));
                }
            }
            (cells, _) if cells.starts_with('|') => blocks.push(Block::Table(Vec::new())),
            (item, Some(Block::Items(items))) if item.starts_with("* ") => {
                items.push(item[2..].to_owned());
            }
            (item, _) if item.starts_with("* ") => {
                blocks.push(Block::Items(vec![item[2..].to_owned()]));
            }
            (more, Some(Block::Items(items))) if !fresh => {
                if let Some(item) = items.last_mut() {
                    item.push(' ');
                    item.push_str(more);
                }
            }
            (more, Some(Block::Text(text))) if !fresh => {
                text.push(' ');
                text.push_str(more);
            }
            (begin, _) => blocks.push(Block::Text(begin.to_owned())),
        }
        fresh = false;
    }
    blocks
}

/// The first cell of a row, and the others.
fn cells_of(line: &str) -> Option<(String, String)> {
    let inner = line.trim_start_matches('|').trim_end_matches('|');
    let (first, second) = inner.split_once(" | ")?;
    Some((inline(first.trim()), inline(second.trim())))
}

fn row(first: &str, second: &str, width: usize) -> String {
    let room = SECOND - 4;
    if first.chars().count() <= room {
        filled(second, &format!("  {first:<room$}  "), SECOND, width)
    } else {
        let below = filled(second, &" ".repeat(SECOND), SECOND, width);
        filled(first, "  ", 2, width) + &below
    }
}

/// Words in lines of at most this width, the first line behind `begin`, the
/// others behind so many blanks.
fn filled(text: &str, begin: &str, indent: usize, width: usize) -> String {
    let mut lines = String::new();
    let mut line = begin.to_owned();
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = line.chars().count() + 1 + word.chars().count();
        if !is_empty && length > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines + line.trim_end() + "\n"
}

/// Without the marks that a browser would show in another way. Backticks stay:
/// they say where a word begins and ends. `[x](format.md)` becomes x (docs/format.md), and
/// `[x](help:format)` x (`neroman help format`).
fn inline(text: &str) -> String {
    let text = text.replace("`` ", "").replace(" ``", "");
    // Stars between backticks are part of a glob.
    let pieces = text
        .split('`')
        .enumerate()
        .map(|(number, piece)| match number % 2 {
            0 => piece.replace("**", ""),
            _ => piece.to_owned(),
        });
    let text = pieces.collect::<Vec<_>>().join("`");
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some((before, name, page, after)) = link(rest) {
        shown.push_str(before);
        shown.push_str(name);
        // A link within the page names only its place.
        if let Some(page) = page.split('#').next().filter(|page| !page.is_empty()) {
            shown.push_str(&match page.strip_prefix(HELP) {
                Some(topic) => format!(" (`neroman help {topic}`)"),
                None => format!(" (docs/{page})"),
            });
        }
        rest = after;
    }
    shown + rest
}

/// The first link: what stands before it, its name, its page, what follows.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let begin = text[..middle].rfind('[')?;
    let (page, after) = text[middle + 2..].split_once(')')?;
    Some((&text[..begin], &text[begin + 1..middle], page, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_a_glob_and_a_link_over_two_lines_are_shown_without_marks() {
        let page = "### The **field**\n\nTake `ckpt/**`, as [the\nother](x.md) **does**.\n";
        let want = "The field\n\nTake `ckpt/**`, as the other (docs/x.md) does.\n";
        assert_eq!(plain(page, 80), want);
    }

    #[test]
    fn a_page_is_shown_as_text() {
        let page = "# Title\n\nOne [two](x.md#y) **three**\n[four](#z), [five](help:z#y).\n\n| a | b |\n|---|---|\n| `1` | first of all |\n\
                    | `` `odd` `` | other \\| more |\n\n* an item\n  goes on\n* next\n\n```yaml\nkey:  1\n```\n\n## Part\n\nEnd.\n";
        let shown = plain(section(page, ""), 44);
        let want = "One two (docs/x.md) three four, five\n(`neroman help z`).\n\n  \
                    `1`                             first of\n                                  all\n  \
                    `odd`                           other \\|\n                                  more\n\n\
                    * an item goes on\n* next\n\n    key:  1\n";
        assert_eq!(shown, want);
        assert!(plain(whole(page), 44).ends_with("\nPART\n\nEnd.\n"));
        assert_eq!(section(page, "Part"), "End.");
        assert_eq!(section(page, "None"), "");
    }
}
