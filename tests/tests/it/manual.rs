//! The manual, played: the commands of every console block are executed in order by the programs,
//! and what they print is compared with the page.
//!
//! A comment above a block says on which stage it is played, or why it is not:
//! `<!-- played: empty -->`, `<!-- not played: it sends a mail -->`. A stage goes on through a page.
//! `<!-- file: train.py -->` above any other block makes it a file of the page's folder. On the page
//! `…` stands for any text, a line of it for any lines; numbers may differ. Other blocks of YAML are
//! read as a description or a configuration unless `<!-- not read: WHY -->` stands above them, those
//! of Python are compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nero_tests::{Home, until};

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

/// The README and the pages of the manual, but for those of its design.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("{folder}/{name}");
            if root().join(&path).is_dir() && name != "design" {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
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

/// The name of a stage, and what makes one for a page.
pub type Opening<'a> = (&'static str, &'a dyn Fn() -> Stage);

/// Stages that need nothing but this machine.
const ALONE: [Opening<'_>; 3] = [
    ("empty", &|| Stage::of(Home::new())),
    ("sweep", &sweep),
    ("penguins", &|| {
        let stage = Stage::of(Home::new());
        copy_folder(&root().join("examples/penguins"), &stage.folder);
        stage
    }),
];

/// Those and the stages of `manual_hosts`.
const STAGES: [&str; 6] = ["empty", "sweep", "penguins", "hosts", "slurm", "gridengine"];

/// Where the blocks of a page are played.
pub struct Stage {
    home: Home,
    folder: PathBuf,
}

impl Stage {
    /// A stage of this home.
    pub fn of(home: Home) -> Self {
        let folder = home.path().join("page");
        fs::create_dir(&folder).unwrap();
        Self { home, folder }
    }

    /// Makes a block a file of the page's folder; a script can be executed.
    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if text.starts_with("#!") {
            self.home.script(&path, text);
        } else {
            fs::write(path, text).unwrap();
        }
    }

    /// Plays a block; returns what is not as the page shows it.
    fn play(&self, block: &Block) -> Vec<String> {
        let mut wrong = Vec::new();
        for (command, wanted) in commands(block) {
            let place = format!("{}:{}: {command}", block.page, block.line);
            let mut shell = self.home.in_environment("sh");
            let programs = self.home.neroman().parent().unwrap();
            let path = std::env::var("PATH").unwrap_or_default();
            // As on a terminal, where both streams are one.
            shell
                .args(["-c", &format!("exec 2>&1\n{command}")])
                .current_dir(&self.folder)
                .env("PATH", format!("{}:{path}", programs.display()))
                .stdin(Stdio::null());
            // What a person reads and types takes longer than results need to come home.
            let (output, out) = until(&format!("results of {place}"), || {
                let output = shell.output().unwrap();
                let out = String::from_utf8_lossy(&output.stdout).into_owned();
                if out.contains("on their way home") {
                    Err(out)
                } else {
                    Ok((output, out))
                }
            });
            // A selector may pick nothing on this stage.
            let is_empty = output.status.code() == Some(1) && out.contains("picks nothing");
            let lines: Vec<&str> = out.lines().filter(|line| !is_progress(line)).collect();
            if !output.status.success() && !is_empty {
                wrong.push(format!("{place}\n{out}"));
            } else if !wanted.is_empty() && !all_fit(&wanted, &lines) {
                let shown = wanted.join("\n");
                wrong.push(format!(
                    "{place}\nthe page shows:\n{shown}\nnow it is:\n{out}"
                ));
            }
        }
        wrong
    }
}

/// Whether a line tells only that something takes long, as it does on a busy machine.
fn is_progress(line: &str) -> bool {
    line.contains(": sending the agents: ") || line.ends_with(" …")
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
fn sweep() -> Stage {
    let stage = Stage::of(Home::new());
    let job = "for i in 1 2 3; do echo \"step $i loss $1.$i val loss $1.5 acc 0.$i err 0.2\"; done";
    let yaml = format!(
        "collection: sweep\n+train:\n  command: [sh, -c, '{job}', job, '{{layers}}']\n  \
         parameters: {{rate: [0.1, 0.01, 0.002, 0.05], layers: [1, 2], lr: [1, 2], seed: {{range: [1, 13]}}}}\n"
    );
    stage.write("neronet.yaml", &yaml);
    stage.home.ok(&["add", stage.folder.to_str().unwrap()]);
    stage.home.ok(&["start", "1-8,124-186", "--wait"]);
    stage
}

/// Plays a page's blocks of these stages; returns what each printed otherwise than shown.
fn play_page(page: &str, openings: &[Opening<'_>]) -> Vec<Vec<String>> {
    let mut played = Vec::new();
    let mut present: Option<(&str, Stage)> = None;
    let mut files: Vec<(String, String)> = Vec::new();
    for block in blocks(page) {
        let Some((what, more)) = &block.note else {
            continue;
        };
        if what == "file" {
            files.push((more.clone(), block.text.clone()));
            continue;
        }
        let opening = openings.iter().find(|(name, _)| name == more);
        let Some((name, open)) = opening.filter(|_| what == "played") else {
            continue;
        };
        let (_, stage) = match present.take() {
            Some(stage) if stage.0 == *name => present.insert(stage),
            _ => present.insert((name, open())),
        };
        for (name, text) in files.drain(..) {
            stage.write(&name, &text);
        }
        played.push(stage.play(&block));
    }
    played
}

/// Plays the blocks of these stages on the pages that `is_here` picks.
pub fn play(openings: &[Opening<'_>], is_here: impl Fn(&str) -> bool) {
    let pages = pages().into_iter().filter(|page| is_here(page));
    let played: Vec<Vec<String>> = pages.flat_map(|page| play_page(&page, openings)).collect();
    assert!(!played.is_empty(), "no block is played");
    let wrong: Vec<String> = played.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_readme_and_the_first_hour_do_what_they_show() {
    play(&ALONE, |page| {
        ["README.md", "docs/start.md"].contains(&page)
    });
}

#[test]
fn the_pages_of_tasks_do_what_they_show() {
    play(&ALONE, |page| page.starts_with("docs/how-to/"));
}

#[test]
fn the_pages_for_people_of_other_tools_do_what_they_show() {
    play(&ALONE, |page| page.starts_with("docs/coming-from/"));
}

#[test]
fn the_pages_of_the_reference_do_what_they_show() {
    let is_other = |page: &str| {
        ["docs/how-to/", "docs/coming-from/"]
            .iter()
            .any(|of| page.starts_with(of))
    };
    play(&ALONE, |page| {
        page != "README.md" && page != "docs/start.md" && !is_other(page)
    });
}

/// What a part of a configuration may need of the rest.
const CONFIGURED: [(&str, &str); 3] = [
    ("user:", "user: {email: ada@example.org}\n"),
    ("mail:", "mail: {smtp: smtp.example.org}\n"),
    ("nodes:", "nodes: {alpha: {address: alpha}}\n"),
];

/// Reads a block as the description of an experiment, with a command where it has none, else as a
/// configuration. Returns what neroman says against it.
fn mistakes(described: &Home, configured: &Home, text: &str) -> Option<String> {
    let mut said = String::new();
    for text in [text, &format!("command: 'true'\n{text}")] {
        let folder = described.experiment("block", text).display().to_string();
        let ran = described.run(&["add", &folder, "--dry-run"]);
        if ran.code == Some(0) {
            return None;
        }
        said += &ran.err;
    }
    let missing = CONFIGURED.iter().filter(|(word, _)| !text.contains(word));
    let others: String = missing.map(|(_, line)| *line).collect();
    configured.configure(&(others + text));
    let ran = configured.run(&["config", "show"]);
    (ran.code != Some(0)).then_some(said + &ran.err)
}

#[test]
fn each_block_of_yaml_and_python_is_read() {
    let (described, configured) = (Home::new(), Home::new());
    let mut wrong = Vec::new();
    for block in pages().iter().flat_map(|page| blocks(page)) {
        let place = format!("{}:{}", block.page, block.line);
        let note = block.note.as_ref().map(|(what, _)| what.as_str());
        if matches!(note, Some("file" | "not read")) {
            continue;
        }
        match block.language.as_str() {
            "yaml" => {
                let said = mistakes(&described, &configured, &block.text);
                wrong.extend(said.map(|said| format!("{place}: {said}")));
            }
            "python" => {
                let mut python = described.in_environment("python3");
                let compiled = python.args(["-c", "import sys; compile(sys.argv[1], '', 'exec')"]);
                let compiled = compiled.arg(&block.text).output().unwrap();
                if !compiled.status.success() {
                    wrong.push(format!("{place}: {compiled:?}"));
                }
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_console_block_is_played_or_tells_why_it_is_not() {
    for block in pages().iter().flat_map(|page| blocks(page)) {
        let place = format!("{}:{}", block.page, block.line);
        if block.language == "console" {
            let (what, more) = block
                .note
                .as_ref()
                .unwrap_or_else(|| panic!("{place} has no comment"));
            let is_right =
                what == "not played" || what == "played" && STAGES.contains(&more.as_str());
            assert!(is_right, "{place}: {what}: {more}");
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
