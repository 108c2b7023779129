//! Guards of the manual: links and anchors lead somewhere, `SUMMARY.md` has every page, sentences
//! are short, and the messages that `messages.md` explains stand in the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Measure;

/// Words of the longest sentence of a new page.
const SENTENCE_WORDS: usize = 25;

/// A page: its path below the root, and its lines without blocks of code and comments.
struct ManualPage {
    path: String,
    /// Lines with their numbers.
    lines: Vec<(usize, String)>,
}

/// What is counted in the pages below `root`.
///
/// # Errors
/// When a page cannot be read.
pub fn measures(root: &Path) -> Result<Vec<Measure>, String> {
    let mut paths = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    collect(&root.join("docs"), "md", &mut paths).map_err(|error| format!("docs: {error}"))?;
    paths.sort();
    let pages: Result<Vec<ManualPage>, String> =
        paths.iter().map(|path| read(root, path)).collect();
    let pages = pages?;
    let mut measures = of_pages(&pages, &|path| root.join(path).exists());
    let mut sources = Vec::new();
    for folder in ["neroman", "neromum", "nerokid", "proto"] {
        collect(&root.join(folder), "rs", &mut sources)
            .map_err(|error| format!("{folder}: {error}"))?;
    }
    let mut texts = Vec::new();
    for path in sources {
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        texts.push((name, text));
    }
    measures.extend(of_messages(&pages, &texts));
    Ok(measures)
}

/// Messages that a page explains and the code does not have, and those that name a page: an
/// installed program has no pages.
fn of_messages(pages: &[ManualPage], sources: &[(String, String)]) -> [Measure; 2] {
    let literals: Vec<String> = sources
        .iter()
        .flat_map(|(_, text)| literals(text))
        .collect();
    let page = pages.iter().filter(|page| page.path == "docs/messages.md");
    let rows = page.flat_map(|page| {
        page.lines
            .iter()
            .filter(|(_, line)| line.starts_with("| `"))
    });
    let messages = rows.filter_map(|(number, line)| {
        let message = line.split(" | ").next()?.trim_start_matches("| ");
        let message = message.trim_matches('`').trim();
        let parts: Vec<&str> = message
            .split('…')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        let is_there = literals.iter().any(|literal| holds(literal, &parts));
        (!is_there).then(|| format!("docs/messages.md:{number}: {message}"))
    });
    let naming = sources.iter().flat_map(|(path, text)| {
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines = code.lines().enumerate().filter(|(_, line)| {
            let is_code = !line.trim_start().starts_with("//") && !line.contains("include_str!");
            is_code && line.contains("docs/") && line.contains(".md")
        });
        lines.map(move |(at, _)| format!("{path}:{}", at + 1))
    });
    [
        measure(
            "messages of `docs/messages.md` that the code lacks",
            messages.collect(),
        ),
        measure("messages that name a file of `docs`", naming.collect()),
    ]
}

/// Whether a text has these parts in this order.
fn holds(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The texts in quotes of a source, roughly: those of one line, and those that a backslash goes
/// on with.
fn literals(source: &str) -> Vec<String> {
    let mut joined = String::new();
    let mut goes_on = false;
    for line in source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        let line = if goes_on { line.trim_start() } else { line };
        goes_on = line.ends_with('\\');
        joined.push_str(line.strip_suffix('\\').unwrap_or(line));
        if !goes_on {
            joined.push('\n');
        }
    }
    joined
        .lines()
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

fn of_pages(pages: &[ManualPage], exists: &dyn Fn(&str) -> bool) -> Vec<Measure> {
    let anchors: BTreeMap<&str, Vec<String>> = pages
        .iter()
        .map(|page| (&*page.path, anchors(page)))
        .collect();
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|page| links(page).into_iter().map(move |link| (page, link)))
        .filter_map(|(page, (line, link))| {
            let why = broken(&page.path, &link, &anchors, exists)?;
            Some(format!("{}:{line}: {link} {why}", page.path))
        })
        .collect();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md");
    let named: Vec<String> = summary
        .map(|page| {
            links(page)
                .into_iter()
                .map(|(_, link)| format!("docs/{link}"))
                .collect()
        })
        .unwrap_or_default();
    let unnamed: Vec<String> = pages
        .iter()
        .filter(|page| page.path.starts_with("docs/") && page.path != "docs/SUMMARY.md")
        .filter(|page| !named.contains(&page.path))
        .map(|page| page.path.clone())
        .collect();
    let mut measures = vec![
        measure("links of pages that lead nowhere", broken),
        measure("pages that `docs/SUMMARY.md` does not name", unnamed),
    ];
    // Notes of the design are counted together, pages of the manual each.
    let mut long: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for page in pages {
        let is_note = page.path.starts_with("docs/design/");
        let name = if is_note { "docs/design" } else { &*page.path };
        long.entry(name).or_default().extend(long_sentences(page));
    }
    measures.extend(long.into_iter().map(|(name, places)| {
        let name = format!("sentences above {SENTENCE_WORDS} words in `{name}`");
        measure(&name, places)
    }));
    measures
}

fn measure(name: &str, places: Vec<String>) -> Measure {
    Measure {
        name: name.to_owned(),
        found: places.len(),
        otherwise: 0,
        places,
    }
}

/// The files with this ending below a folder, without those of tests.
fn collect(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                collect(&path, ending, into)?;
            }
        } else if path.extension().is_some_and(|found| found == ending)
            && !path.ends_with("tests.rs")
        {
            into.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path) -> Result<ManualPage, String> {
    let name = path
        .strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    Ok(page(&name, &text))
}

fn page(path: &str, text: &str) -> ManualPage {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("<!--") {
            lines.push((at + 1, line.to_owned()));
        }
    }
    ManualPage {
        path: path.to_owned(),
        lines,
    }
}

/// The targets of links, each with its line; those to other sites are left out.
fn links(page: &ManualPage) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in &page.lines {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere && !target.is_empty() {
                found.push((*number, target.to_owned()));
            }
        }
    }
    found
}

/// Why a link leads nowhere; `None`: it does not.
fn broken(
    page: &str,
    link: &str,
    anchors: &BTreeMap<&str, Vec<String>>,
    exists: &dyn Fn(&str) -> bool,
) -> Option<&'static str> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        joined(page, file)
    };
    if !exists(&path) {
        return Some("is no file");
    }
    let known = anchors.get(&*path);
    let is_there =
        anchor.is_empty() || known.is_none_or(|known| known.iter().any(|one| one == anchor));
    (!is_there).then_some("has no such heading")
}

/// The path of a link of a page, below the root.
fn joined(page: &str, link: &str) -> String {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.display().to_string()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &ManualPage) -> Vec<String> {
    let headings = page.lines.iter().filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// A line whose code is one word each.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { "code" } else { part })
        .collect()
}

/// The sentences of a page with too many words, each with its line.
fn long_sentences(page: &ManualPage) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = String::new();
    let mut begin = 0;
    let ends = [(0, String::new())];
    for (number, line) in page.lines.iter().chain(&ends) {
        let text = line.trim_start();
        let item = text.strip_prefix("* ").or_else(|| text.strip_prefix("- "));
        let is_apart = text.is_empty() || text.starts_with(['#', '|', '>']);
        if is_apart || item.is_some() {
            for sentence in sentences(&without_code(&block)) {
                let words = sentence
                    .split_whitespace()
                    .filter(|word| word.contains(char::is_alphanumeric));
                let count = words.count();
                if count > SENTENCE_WORDS {
                    let head: String = sentence.chars().take(60).collect();
                    found.push(format!("{}:{begin}: {count} words: {head}…", page.path));
                }
            }
            block.clear();
        }
        if !is_apart {
            if block.is_empty() {
                begin = *number;
            }
            block.push_str(item.unwrap_or(text));
            block.push(' ');
        }
    }
    found
}

/// The sentences of a text: one ends where the next begins with a capital letter or with code.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(['.', '!', '?', ':', ';']) {
        let rest = text[at + 1..].trim_start_matches([')', '"', '*']);
        let Some(next) = rest.strip_prefix(' ') else {
            continue;
        };
        let is_end = next.is_empty()
            || next.starts_with(|c: char| c.is_uppercase() || "[(\"*".contains(c))
            || next.starts_with("code");
        if is_end && !text[at..].starts_with([':', ';']) {
            found.push(&text[from..=at]);
            from = at + 1;
        }
    }
    found.push(&text[from..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(measures: &'a [Measure], name: &str) -> &'a [String] {
        let measure = measures.iter().find(|one| one.name.contains(name));
        &measure.unwrap_or_else(|| panic!("no {name}")).places
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let pages = [
            page("docs/SUMMARY.md", "- [A](a.md)\n"),
            page(
                "docs/a.md",
                "# A page, of `code`\n[ok](b/c.md#what-it-is) [no](d.md)\n[self](#a-page-of-code)\n`[x](y)`\n```\n[x](y)\n```\n",
            ),
            page(
                "docs/b/c.md",
                "## What it is\n[up](../a.md#nothing) [away](https://x.org)\n",
            ),
        ];
        let exists = |path: &str| ["docs/a.md", "docs/b/c.md"].contains(&path);
        let measures = of_pages(&pages, &exists);
        let broken = found(&measures, "nowhere");
        assert_eq!(
            broken,
            [
                "docs/a.md:2: d.md is no file",
                "docs/b/c.md:2: ../a.md#nothing has no such heading"
            ]
        );
        assert_eq!(found(&measures, "SUMMARY"), ["docs/b/c.md"]);
    }

    #[test]
    fn a_message_is_found_by_its_parts_in_one_text() {
        let text = "// \"a b\"\nlet x = format!(\n    \"the disk {name} is \\\n     full\",\n);\n";
        let sources = [("a.rs".to_owned(), text.to_owned())];
        let rows = "| `the disk … is full` | x |\n| `is … disk` | x |\n";
        let [messages, _] = of_messages(&[page("docs/messages.md", rows)], &sources);
        assert_eq!(messages.places, ["docs/messages.md:2: is … disk"]);
    }

    #[test]
    fn a_sentence_ends_where_the_next_begins() {
        let long = "word ".repeat(26);
        let text = format!(
            "One. Two e.g. three\nfour.\n\n* {long}\n* {}. {}\n",
            "a ".repeat(20),
            "B ".repeat(20)
        );
        let long = long_sentences(&page("docs/a.md", &text));
        assert_eq!(long.len(), 1, "{long:?}");
        assert!(long[0].starts_with("docs/a.md:4: 26 words"), "{long:?}");
    }
}
