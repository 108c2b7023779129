//! What a story left, and whether each difference is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::play::Play;

/// Time after which all is as it should be, or told.
const AGREE: Duration = Duration::from_secs(45);

/// What is there at the end of a story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Each with the run or experiment that it is about, and its name.
    all: BTreeMap<(String, String), String>,
    /// What is told of a run or an experiment beside its state.
    told: BTreeMap<String, Vec<String>>,
    /// Experiments whose results are shown as home.
    home: BTreeSet<String>,
}

impl Facts {
    pub(super) fn of(play: &mut Play<'_>) -> Self {
        let mut facts = Self::default();
        let status = play.status();
        for one in status["experiments"].as_array().into_iter().flatten() {
            let name = one["name"].as_str().unwrap_or_default().to_owned();
            for what in ["state", "exit_code", "note", "tags", "overrides", "gone"] {
                facts.add(&name, what, &one[what]);
            }
            for series in ["last", "count"] {
                facts.add(&name, series, &one["metrics"]["loss"][series]);
            }
            let mut told = texts(&one["warnings"]);
            told.extend(texts(&one["reason"]));
            let show = play.document(&["show", &one["id"].to_string(), "--json"]);
            // Read behind the states: a run that has ended has noted its start.
            let notes = fs::read_to_string(play.notes()).unwrap_or_default();
            if !show.is_null() {
                let runs = show["runs"].as_array().cloned().unwrap_or_default();
                for run in &runs {
                    let number = run["run"].as_str().unwrap_or_default();
                    facts.add(&name, &format!("state of {number}"), &run["state"]);
                    let starts = notes.lines().filter(|line| *line == number).count();
                    facts.add(&name, &format!("starts of {number}"), &starts.into());
                    told.extend(texts(&run["reason"]));
                    if let Some(results) = run["results"].as_str() {
                        facts.add_files(&name, number, Path::new(results));
                    }
                }
                facts.add(&name, "runs", &runs.len().into());
                told.extend(texts(&show["missing"]));
                told.extend(texts(&show["notes"]));
            }
            if one["settled"] == true {
                facts.home.insert(name.clone());
            }
            facts.told.insert(name, told);
        }
        let mut told = texts(&status["notes"]);
        told.sort();
        facts.told.insert(String::new(), told);
        for path in &play.own {
            let text = fs::read_to_string(path).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            facts.add("", &name, &text.into());
        }
        facts
    }

    fn add(&mut self, whose: &str, what: &str, value: &Value) {
        let key = (whose.to_owned(), what.to_owned());
        self.all.insert(key, value.to_string());
    }

    fn add_files(&mut self, whose: &str, run: &str, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.add_files(whose, run, &path);
            } else {
                let name = entry.file_name().to_string_lossy().into_owned();
                let text = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                // A log without a byte may be there or not.
                if !text.is_empty() {
                    self.add(whose, &format!("{name} of {run}"), &text.into());
                }
            }
        }
    }

    /// Looks until all is as in the undisturbed story, or told; else what is not. What could not
    /// be written at home is tried again after half a minute.
    pub(super) fn agree(&mut self, undisturbed: &Self, play: &mut Play<'_>) -> Vec<String> {
        let began = Instant::now();
        loop {
            let wrong = self.against(undisturbed);
            if wrong.is_empty() || began.elapsed() > AGREE || !play.broken.is_empty() {
                return wrong;
            }
            *self = play.settled();
        }
    }

    /// What is not as in the undisturbed story, by the experiment.
    pub(super) fn differing<'a>(&'a self, undisturbed: &'a Self) -> BTreeMap<&'a str, Vec<String>> {
        let mut differing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for key in self.all.keys().chain(undisturbed.all.keys()) {
            let (was, is) = (undisturbed.all.get(key), self.all.get(key));
            let text = format!("{} of {}: {was:?} became {is:?}", key.1, key.0);
            let found = differing.entry(&key.0).or_default();
            if was != is && !found.contains(&text) {
                found.push(text);
            }
        }
        differing.retain(|_, found| !found.is_empty());
        // What a story looks at itself follows from its runs.
        let same_runs = differing.keys().all(|whose| whose.is_empty());
        differing.retain(|whose, _| same_runs || !whose.is_empty());
        differing
    }

    /// What differs from the undisturbed story and is told nowhere, and what is told although
    /// nothing differs.
    fn against(&self, undisturbed: &Self) -> Vec<String> {
        let differing = self.differing(undisturbed);
        let mut wrong = Vec::new();
        for (whose, told) in &self.told {
            let before = undisturbed.told.get(whose);
            let is_new = |text: &&String| before.is_none_or(|before| !before.contains(text));
            let new: Vec<&String> = told.iter().filter(is_new).collect();
            let found = differing.get(whose.as_str());
            let often = found.into_iter().flatten();
            let often = often.filter(|text| text.starts_with("starts of"));
            wrong.extend(often.filter(|text| !text.ends_with("Some(\"0\")")).cloned());
            match found {
                Some(found) if new.is_empty() => {
                    wrong.push(format!("not told: {}", found.join("; ")));
                }
                None if !new.is_empty() => {
                    wrong.push(format!("told of {whose} although nothing differs: {new:?}"));
                }
                _ => {}
            }
        }
        let untold = differing
            .iter()
            .filter(|(whose, _)| !self.told.contains_key(**whose));
        wrong.extend(untold.map(|(_, found)| format!("not told: {}", found.join("; "))));
        wrong
    }
}

/// Words of states after which nothing changes.
const ENDS: [&str; 5] = ["finished", "crashed", "aborted", "lost", "timeout"];

impl Facts {
    /// What people asked for by now, and what was shown before.
    pub(super) fn asked_for(&self, before: Option<&Self>) -> Self {
        let mut facts = before.cloned().unwrap_or_default();
        for (key, value) in &self.all {
            let is_new = key.1 == "runs" && !facts.all.contains_key(key);
            if is_new || ["note", "tags", "overrides", "gone"].contains(&&*key.1) {
                facts.all.insert(key.clone(), value.clone());
            }
        }
        facts
    }

    /// What was shown and is not so any more, after a power cut behind it.
    pub(super) fn lost(&self, after: &Self) -> Vec<String> {
        let mut lost = Vec::new();
        for ((whose, what), was) in &self.all {
            let key = (whose.clone(), what.clone());
            let is = after.all.get(&key).map_or("", String::as_str);
            let text = |all: &Self, what: &str| {
                let key = (whose.clone(), what.to_owned());
                all.all.get(&key).cloned().unwrap_or_default()
            };
            let (word, run) = what.split_once(" of ").unwrap_or((what, ""));
            let state = text(self, &format!("state of {run}"));
            let state = state.trim_matches('"');
            let has_ended = ENDS.contains(&state);
            let is_same_run = text(self, "runs") == text(after, "runs");
            let is_kept = match word {
                // A command that was not answered may have been carried out.
                "note" | "tags" | "overrides" => is == was || is_nothing(was),
                "gone" => is == was,
                "runs" => !is.is_empty(),
                "state" if run.is_empty() => true,
                "exit_code" | "last" | "count" => !is_same_run || was == "null" || is == was,
                "state" => !has_ended || is == was,
                // A job notes its beginning a little later than it begins.
                "starts" if state == "running" => is == was || (was.as_str(), is) == ("0", "1"),
                "starts" => !has_ended || is == was,
                // The daemon writes again into cells between those of the person; steps go on.
                _ if whose.is_empty() => {
                    let was = outer_cells(was);
                    was.iter().eq(outer_cells(is).iter().take(was.len()))
                }
                _ if !has_ended => true,
                _ => is.starts_with(was.trim_end_matches('"')) || after.tells_more(self, whose),
            };
            if !is_kept {
                lost.push(format!("{what} of {whose} was {was} and is {is}"));
            }
        }
        lost
    }

    /// Whether something is told of an experiment whose results were not shown as home.
    fn tells_more(&self, before: &Self, whose: &str) -> bool {
        let told = |all: &Self| all.told.get(whose).map_or(0, Vec::len);
        !before.home.contains(whose) && told(self) > told(before)
    }
}

/// Whether a value in JSON says that there is none.
fn is_nothing(value: &str) -> bool {
    ["null", "[]", "{}", "\"\""].contains(&value)
}

/// The first and the last cell of each row, in a text as JSON has it.
fn outer_cells(table: &str) -> Vec<(Option<&str>, Option<&str>)> {
    let rows = table.trim_matches('"').split_terminator("\\n");
    let cells = rows.map(|row| row.split(','));
    cells
        .map(|mut cells| (cells.next(), cells.next_back()))
        .collect()
}

/// The texts in a list, or the text itself.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(all) => all.iter().map(Value::to_string).collect(),
        other => vec![other.to_string()],
    }
}
