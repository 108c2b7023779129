//! A person who types the commands of a story, and types again what failed.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::disk::StoryDisk;
use super::judge::Facts;
use crate::Home;
use crate::chaos::{Answer, Client, is_open};

/// How long a command may take, and how long a person tries.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a person types the same again.
const TRIES: Duration = Duration::from_secs(20);

/// Pause before the next try, or the next look.
const LOOK: Duration = Duration::from_millis(100);

/// The words of a bug.
const BUG: i32 = 70;

/// One playing of a story.
pub(super) struct Play<'a> {
    pub(super) home: &'a Home,
    /// A folder with one path here and on the nodes.
    pub(super) common: PathBuf,
    said: PathBuf,
    pub(super) broken: Vec<String>,
    /// Commands that never succeeded: right only where a run is not as it should be.
    pub(super) failed: Vec<String>,
    asked: usize,
    /// Files of the story itself.
    pub(super) own: Vec<PathBuf>,
    /// Is told each command that was answered.
    pub(super) answered: fn(&mut Self, &[&str]),
    /// What was shown, and when.
    pub(super) moments: Vec<Moment>,
}

/// What a person was shown at a moment.
#[derive(Debug)]
pub(super) struct Moment {
    /// The command that was answered before.
    pub(super) words: String,
    pub(super) at: SystemTime,
    pub(super) shown: Facts,
}

impl<'a> Play<'a> {
    pub(super) fn new(disk: &'a StoryDisk) -> Self {
        Self {
            home: disk.home(),
            common: disk.common(),
            said: disk.said(),
            broken: Vec::new(),
            failed: Vec::new(),
            asked: 0,
            own: Vec::new(),
            answered: |_, _| (),
            moments: Vec::new(),
        }
    }

    /// The file into which each job writes a line when it begins.
    pub(super) fn notes(&self) -> PathBuf {
        self.common.join("notes")
    }

    /// A line of shell with which a job notes its beginning.
    pub(super) fn note(&self) -> String {
        format!("echo $NERO_RUN >> {}", self.notes().display())
    }

    /// Runs a command once.
    pub(super) fn ask(&mut self, words: &[&str]) -> Option<Answer<()>> {
        self.asked += 1;
        let command = self.home.command(words);
        let typed = words.iter().map(|word| (*word).to_owned()).collect();
        let client = Client::start(command, &self.said, self.asked, typed, (), PATIENCE);
        let mut client = client.expect("neroman is built");
        loop {
            match client.look() {
                Ok(Ok(answer)) => {
                    self.judge(&answer);
                    return Some(answer);
                }
                Ok(Err(running)) => client = running,
                Err(late) => {
                    self.broken.push(late);
                    return None;
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn judge(&mut self, answer: &Answer<()>) {
        let told = !answer.err.trim().is_empty() || answer.out.len() > 1;
        let is_bug = answer.code == Some(BUG) || answer.err.contains("panicked");
        let is_silent = answer.code.is_some_and(|code| code != 0) && !told;
        if is_bug || is_silent {
            self.broken.push(format!("{answer:?}"));
        }
    }

    /// Types a command until it succeeds, or until what it does was done.
    pub(super) fn told(&mut self, words: &[&str], is_done: fn(&Value) -> bool) {
        self.typed(words, Some(is_done));
    }

    fn typed(&mut self, words: &[&str], is_done: Option<fn(&Value) -> bool>) {
        let began = Instant::now();
        loop {
            let Some(answer) = self.ask(words) else {
                return;
            };
            // A note may ask for the same command once more.
            if answer.code == Some(0) && !answer.err.contains("` again") {
                return (self.answered)(self, words);
            }
            // A look at the status may itself make a home.
            if let Some(is_done) = is_done {
                let status = self.ask(&["status", "all", "--json"]);
                if status.is_some_and(|status| is_done(&status.json())) {
                    return;
                }
            }
            if began.elapsed() > TRIES {
                let out = String::from_utf8_lossy(&answer.out);
                let (words, err) = (words.join(" "), &answer.err);
                self.failed.push(format!("{words} fails: {out}{err}"));
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Types a command that may be given again, until it succeeds.
    pub(super) fn command(&mut self, words: &[&str]) {
        self.typed(words, None);
    }

    /// Waits for the end of experiments, whatever it is.
    pub(super) fn wait(&mut self, which: &str) {
        let began = Instant::now();
        while let Some(answer) = self.ask(&["wait", which]) {
            if answer.code == Some(0) || answer.code == Some(1) || began.elapsed() > PATIENCE {
                return (self.answered)(self, &["wait", which]);
            }
            thread::sleep(LOOK);
        }
    }

    /// The document of a command that may be given again; null where there is none.
    pub(super) fn document(&mut self, words: &[&str]) -> Value {
        let began = Instant::now();
        loop {
            match self.ask(words) {
                Some(answer) if answer.code == Some(0) => return answer.json(),
                Some(_) if began.elapsed() < PATIENCE => thread::sleep(LOOK),
                _ => return Value::Null,
            }
        }
    }

    /// `status all --json`.
    pub(super) fn status(&mut self) -> Value {
        self.document(&["status", "all", "--json"])
    }

    /// Waits until the experiments are so.
    pub(super) fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.until_shown(what, &["status", "all", "--json"], is_so);
    }

    /// Waits until the document of a command is so.
    pub(super) fn until_shown(
        &mut self,
        what: &str,
        words: &[&str],
        is_so: impl Fn(&Value) -> bool,
    ) {
        let began = Instant::now();
        loop {
            let shown = self.document(words);
            if is_so(&shown) || !self.broken.is_empty() {
                return;
            }
            if began.elapsed() > PATIENCE {
                self.broken.push(format!("waited for {what}: {shown}"));
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until all has ended, what can be told is told, and nothing moves any more.
    pub(super) fn settled(&mut self) -> Facts {
        self.until("all ends", |status| {
            let all = status["experiments"].as_array();
            all.is_some_and(|all| !all.iter().any(is_open))
        });
        let began = Instant::now();
        let mut facts = Facts::of(self);
        // Results and what is told of them come a little later than the end.
        loop {
            thread::sleep(LOOK * 3);
            let next = Facts::of(self);
            if next == facts || began.elapsed() > PATIENCE {
                return next;
            }
            facts = next;
        }
    }

    /// The fault of the next command: a new experiment is added, runs and ends.
    pub(super) fn goes_on(mut self) -> Vec<String> {
        let folder = self
            .home
            .experiment("next", "+next: {command: [echo, loss 1]}");
        let folder = folder.display().to_string();
        self.command(&["add", &folder]);
        // What failed in the same two seconds is done again.
        self.command(&["--restart", "next", "--wait", "next"]);
        if self.home.logs().contains("panicked") {
            self.broken.push(self.home.logs());
        }
        self.broken.append(&mut self.failed);
        self.broken
    }
}
