//! The manual, played: the commands of every console block are executed in order by the programs,
//! and what they print is compared with the page.
//!
//! A comment above a block says on which stage it is played, or why it is not:
//! `<!-- played: empty -->`, `<!-- not played: it sends a mail -->`. A stage goes on through a page.
//! `<!-- file: train.py -->` above any other block makes it a file of the page's folder. On the page
//! `…` stands for any text, a line of it for any lines; numbers may differ.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nero_tests::Home;

/// A block of a page.
#[derive(Debug)]
struct Block {
    page: String,
    line: usize,
    /// What the comment above it says, in front of the colon and behind it.
    note: Option<(String, String)>,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder
        .parent()
        .expect("it lies in the project")
        .to_path_buf()
}

fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    let pages = pages.into_iter().map(|name| format!("docs/{name}"));
    pages.chain(["README.md".to_owned()]).collect()
}

fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut found: Vec<Block> = Vec::new();
    let (mut is_open, mut note) = (false, None);
    for (at, line) in text.lines().enumerate() {
        if is_open {
            match line {
                "```" => is_open = false,
                line => found.last_mut().unwrap().text += &format!("{line}\n"),
            }
        } else if let Some(language) = line.strip_prefix("```") {
            is_open = true;
            found.push(Block {
                page: page.to_owned(),
                line: at + 1,
                note: note.take(),
                language: language.to_owned(),
                text: String::new(),
            });
        } else if let Some(said) = line.strip_prefix("<!-- ") {
            let said = said.strip_suffix(" -->").expect("a comment in one line");
            let said = said.split_once(": ");
            note = said.map(|(what, more)| (what.to_owned(), more.to_owned()));
        } else if !line.is_empty() {
            note = None;
        }
    }
    found
}

/// Commands of a block, each with the lines that it is to print.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => found.push((command.to_owned(), Vec::new())),
            None => found.last_mut().expect("a command").1.push(line.to_owned()),
        }
    }
    found
}

/// A line with its numbers and the widths of its gaps taken out.
fn shape(line: &str) -> String {
    let words = line.split_whitespace();
    let words = words.map(|word| {
        let mut shape = String::new();
        for letter in word.chars() {
            let letter = if letter.is_ascii_digit() { '0' } else { letter };
            // A fraction, an exponent and a longer number are numbers, too.
            if letter == '0' && shape.ends_with(['0', '.']) {
                shape = shape.trim_end_matches('.').to_owned();
                if !shape.ends_with('0') {
                    shape.push('0');
                }
            } else {
                shape.push(letter);
            }
        }
        shape
    });
    words.collect::<Vec<_>>().join(" ")
}

fn fits(wanted: &str, printed: &str) -> bool {
    let (wanted, printed) = (shape(wanted), shape(printed));
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.map(str::trim).peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        if parts.peek().is_none() && !part.is_empty() && !rest.is_empty() {
            return false;
        }
    }
    true
}

/// Whether these lines are what the page shows; a line `…` stands for any lines.
fn all_fit(wanted: &[String], printed: &[&str]) -> bool {
    match wanted.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=printed.len()).any(|skipped| all_fit(rest, &printed[skipped..]))
        }
        Some((line, rest)) => {
            let printed = printed.split_first();
            printed.is_some_and(|(first, more)| fits(line, first) && all_fit(rest, more))
        }
    }
}

/// Where the blocks of a page are played.
struct Stage {
    home: Home,
    folder: PathBuf,
}

impl Stage {
    fn new(name: &str) -> Self {
        let home = Home::new();
        let folder = home.path().join("page");
        fs::create_dir(&folder).unwrap();
        match name {
            "empty" => {}
            "sweep" => sweep(&home, &folder),
            "penguins" => copy_folder(&root().join("examples/penguins"), &folder),
            name => panic!("there is no stage {name}"),
        }
        Self { home, folder }
    }

    fn play(&self, block: &Block) {
        for (command, wanted) in commands(block) {
            let place = format!("{}:{}: {command}", block.page, block.line);
            let mut shell = self.home.in_environment("sh");
            let programs = self.home.neroman().parent().unwrap();
            let path = std::env::var("PATH").unwrap_or_default();
            shell
                .args(["-c", &command])
                .current_dir(&self.folder)
                .env("PATH", format!("{}:{path}", programs.display()))
                .stdin(Stdio::null());
            let output = shell.output().unwrap();
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            // A selector may pick nothing on this stage.
            let is_empty = output.status.code() == Some(1) && err.contains("picks nothing");
            assert!(output.status.success() || is_empty, "{place}\n{out}{err}");
            let lines: Vec<&str> = out.lines().chain(err.lines()).collect();
            let shown = wanted.join("\n");
            assert!(
                wanted.is_empty() || all_fit(&wanted, &lines),
                "{place}\nthe page shows:\n{shown}\nnow it is:\n{out}{err}"
            );
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&place).unwrap();
            copy_folder(&path, &place);
        } else {
            fs::copy(&path, &place).unwrap();
        }
    }
}

/// 208 experiments with losses, of which some have run.
fn sweep(home: &Home, folder: &Path) {
    let job = "for i in 1 2 3; do echo \"step $i loss $1.$i val loss $1.5 acc 0.$i err 0.2\"; done";
    let yaml = format!(
        "collection: sweep\n+train:\n  command: [sh, -c, '{job}', job, '{{layers}}']\n  \
         parameters: {{rate: [0.1, 0.01, 0.002, 0.05], layers: [1, 2], lr: [1, 2], seed: {{range: [1, 13]}}}}\n"
    );
    fs::write(folder.join("neronet.yaml"), yaml).unwrap();
    home.ok(&["add", folder.to_str().unwrap()]);
    home.ok(&["start", "1-8,124-186", "--wait"]);
}

/// Plays the blocks of the pages that `is_here` picks.
fn play(is_here: impl Fn(&str) -> bool) {
    let mut count = 0;
    for page in pages().into_iter().filter(|page| is_here(page)) {
        let mut stage: Option<(String, Stage)> = None;
        let mut files: Vec<(String, String)> = Vec::new();
        for block in blocks(&page) {
            let Some((what, more)) = &block.note else {
                continue;
            };
            match what.as_str() {
                "file" => files.push((more.clone(), block.text.clone())),
                "played" => {
                    if stage.as_ref().is_none_or(|(name, _)| name != more) {
                        stage = Some((more.clone(), Stage::new(more)));
                    }
                    let (_, stage) = stage.as_ref().unwrap();
                    for (name, text) in files.drain(..) {
                        fs::write(stage.folder.join(name), text).unwrap();
                    }
                    stage.play(&block);
                    count += 1;
                }
                _ => {}
            }
        }
    }
    assert!(count > 0);
}

#[test]
fn the_readme_and_the_first_hour_do_what_they_show() {
    play(|page| ["README.md", "docs/start.md"].contains(&page));
}

#[test]
fn the_pages_of_the_manual_do_what_they_show() {
    play(|page| page != "README.md" && page != "docs/start.md");
}

#[test]
fn each_console_block_is_played_or_tells_why_it_is_not() {
    for block in pages().iter().flat_map(|page| blocks(page)) {
        let place = format!("{}:{}", block.page, block.line);
        if block.language == "console" {
            let note = block.note.as_ref().map(|(what, _)| what.as_str());
            assert!(
                matches!(note, Some("played" | "not played")),
                "{place} has no comment"
            );
        }
    }
}

#[test]
fn lines_fit_but_for_numbers_and_what_is_left_out() {
    assert!(fits("finished 6  12.5s", "finished 60 0.01s"));
    assert!(fits("started … of 3", "started 12 of 4"));
    assert!(!fits("started … of 3", "started 12 of 3 more"));
    assert!(!fits("finished 6", "crashed 6"));
    let wanted = ["a".to_owned(), "…".to_owned(), "d".to_owned()];
    assert!(all_fit(&wanted, &["a", "b", "c", "d"]) && all_fit(&wanted, &["a", "d"]));
    assert!(!all_fit(&wanted, &["a", "b"]));
}
