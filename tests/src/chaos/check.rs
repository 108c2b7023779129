//! Every promise, checked against the notes of the jobs themselves and the
//! output that their scripts determine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nero_journal::Stop;
use rustix::process::Signal;
use serde_json::Value;

use super::again;
use super::contained::ContainerWorld;
use super::judge::{self, NodeFate, Noted};
use super::plan::Planned;
use super::run::Chaos;
use super::script::{Point, points};
use super::settle::{AGREE, LOOK, Seen};
use super::world::{Place, signal};
use crate::processes::Part;

/// Checks everything; adds broken promises to the chaos.
pub(super) fn all(chaos: &mut Chaos) {
    if !chaos.broken.is_empty() {
        return;
    }
    let Some(seen) = chaos.settle() else { return };
    let text = fs::read_to_string(&chaos.world.notes).unwrap_or_default();
    let noted = judge::notes(&text);
    told_is_there(chaos, &seen);
    let mut known = BTreeMap::new();
    for one in seen.iter().filter(|one| one.ran) {
        experiment(chaos, one, &noted, &mut known);
    }
    for run in noted.keys().filter(|run| !known.contains_key(*run)) {
        chaos
            .broken
            .push(format!("{run} ran, and neroman does not know it"));
    }
    shown(chaos, &known);
    let jobs = [Part::Job, Part::Shim, Part::Watcher, Part::Allocation];
    all_leave(chaos, &jobs, "after the end of all runs");
    chaos.check_containers();
    chaos.ask(&["daemon", "stop"]);
    dismiss(chaos);
    let others = [
        Part::Daemon,
        Part::Mum,
        Part::Launcher,
        Part::Dial,
        Part::Ssh,
    ];
    all_leave(chaos, &others, "after they were asked to leave");
    stores(chaos);
}

/// Every run that a reply named exists.
fn told_is_there(chaos: &mut Chaos, seen: &[Seen]) {
    for (which, planned) in chaos.planned.iter().enumerate() {
        let there = seen.iter().find(|one| one.which == which);
        let Some(told) = planned.told.first() else {
            continue;
        };
        if there.is_none_or(|one| !one.ran) {
            chaos
                .broken
                .push(format!("{told} was told of and is not there"));
        }
    }
}

/// Known facts of a run at the end.
#[derive(Debug)]
struct Known {
    which: usize,
    state: String,
    logs: Vec<u8>,
}

/// Checks the runs of an experiment and adds them to `known`.
fn experiment(
    chaos: &mut Chaos,
    seen: &Seen,
    noted: &BTreeMap<String, Noted>,
    known: &mut BTreeMap<String, Known>,
) {
    let planned = chaos.planned[seen.which].clone();
    let Some(answer) = chaos.ask(&["show", &seen.id.to_string(), "--json"]) else {
        return;
    };
    let runs = answer.json()["runs"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names: Vec<String> = runs
        .iter()
        .filter_map(|run| run["run"].as_str().map(str::to_owned))
        .collect();
    asked_for(chaos, &planned, &names);
    let starts = runs.last().and_then(|run| run["incarnations"].as_u64());
    if let Some(rules) = chaos.ask(&["rule", "list", &seen.id.to_string(), "--json"]) {
        let (fired, wrong) = judge::peers_rule(&rules.json(), starts.unwrap_or(1));
        chaos.compared += fired;
        for why in wrong {
            chaos.broken.push(format!("{}: {why}", planned.name));
        }
    }
    for (run, name) in runs.iter().zip(&names) {
        let noted = noted.get(name).copied().unwrap_or_default();
        let mut wrong = judge::state(&planned, run, noted, fate(chaos, run));
        let mut logs = Vec::new();
        if noted.starts > 0 {
            let noted = noted.of_the_last(run);
            logs = traces(chaos, &planned, run, noted, &mut wrong);
        }
        for why in wrong {
            let name = &planned.name;
            chaos
                .broken
                .push(format!("{name}: {why}; {noted:?}; {planned:?}; {run}"));
        }
        let state = run["state"].as_str().unwrap_or_default().to_owned();
        *chaos.states.entry(state.clone()).or_default() += 1;
        let which = seen.which;
        known.insert(name.clone(), Known { which, state, logs });
    }
}

/// An experiment has the runs that were asked for, and no others.
fn asked_for(chaos: &mut Chaos, planned: &Planned, names: &[String]) {
    let name = &planned.name;
    for told in planned.told.iter().filter(|told| !names.contains(told)) {
        chaos.broken.push(format!(
            "{told} of {name} was told of, and there are {names:?}"
        ));
    }
    if names.len() > planned.told.len() + planned.unsure {
        let told = &planned.told;
        chaos.broken.push(format!(
            "{name} has runs {names:?}, and asked for were {told:?}"
        ));
    }
}

/// Every end that was shown during the chaos is still true.
fn shown(chaos: &mut Chaos, known: &BTreeMap<String, Known>) {
    for (run, end) in std::mem::take(&mut chaos.ends) {
        let state = known.get(&run).map(|known| known.state.as_str());
        if state != Some(&end) {
            chaos
                .broken
                .push(format!("{run} was shown as {end} and is {state:?}"));
        }
    }
    for (which, out) in std::mem::take(&mut chaos.followed) {
        let name = &chaos.planned[which].name;
        if !known
            .values()
            .any(|known| known.which == which && known.logs == out)
        {
            let bytes = out.len();
            chaos.broken.push(format!(
                "{name}: {bytes} bytes were followed, which no run printed"
            ));
        }
    }
}

fn fate(chaos: &Chaos, run: &Value) -> NodeFate {
    let among = |nodes: &BTreeSet<String>| nodes.iter().any(|node| run["node"] == **node);
    let among_runs = |runs: &BTreeSet<String>| runs.iter().any(|of| run["run"] == **of);
    NodeFate {
        crashed: among(&chaos.crashed),
        unsupervised: among(&chaos.unsupervised),
        reruns: chaos.reruns > 0,
        ended_job: chaos.dead_tasks > 0 || among_runs(&chaos.unsaved),
        contained: chaos
            .world
            .containers
            .as_ref()
            .is_some_and(ContainerWorld::has_init),
        hurt: among_runs(&chaos.hurt),
        refused: chaos.lost_daemons > 0,
    }
}

/// Checks output, metrics and results of a run that started; returns its
/// output.
fn traces(
    chaos: &mut Chaos,
    planned: &Planned,
    run: &Value,
    noted: Noted,
    wrong: &mut Vec<String>,
) -> Vec<u8> {
    let name = run["run"].as_str().unwrap_or_default();
    let Some(logs) = chaos.ask(&["logs", name]) else {
        return Vec::new();
    };
    let full = planned.script.output(name);
    // What is printed passes through the client, which may have died before its job.
    let whole = noted.ends == 1 && noted.failures == 0 && !chaos.hurt.contains(name);
    if whole && logs.out != full {
        let had = logs.out.len();
        wrong.push(format!(
            "{had} bytes of output instead of {}: {}",
            full.len(),
            logs.err
        ));
    } else if !full.starts_with(&logs.out) {
        wrong.push("its output is not what it printed".to_owned());
    }
    wrong.extend(metrics(chaos, run, &logs.out));
    let file = if whole {
        planned.script.file(name)
    } else {
        Vec::new()
    };
    // A result that could not be written at home is tried again after half a
    // minute.
    let began = Instant::now();
    while let Some(why) = results(run, &logs.out, &file) {
        if began.elapsed() > AGREE {
            wrong.push(why);
            break;
        }
        thread::sleep(LOOK);
    }
    logs.out
}

/// The fault of the results at home.
fn results(run: &Value, output: &[u8], file: &[u8]) -> Option<String> {
    let Some(results) = run["results"].as_str().map(PathBuf::from) else {
        // A run without output and files has no folder for results.
        let made = !output.is_empty() || !file.is_empty();
        return made.then(|| "it has no results".to_owned());
    };
    let home = fs::read(results.join("stdout.log")).unwrap_or_default();
    if home != output {
        return Some(format!("{} bytes of output are at home", home.len()));
    }
    let home = fs::read(results.join("out.bin")).unwrap_or_default();
    let differs = !file.is_empty() && home != file;
    differs.then(|| format!("{} bytes of out.bin are at home", home.len()))
}

/// The fault of the run's series: the points of its last start, after those of earlier ones.
fn metrics(chaos: &mut Chaos, run: &Value, output: &[u8]) -> Option<String> {
    let name = run["run"].as_str().unwrap_or_default();
    let is_first = run["incarnations"].as_u64().unwrap_or(1) <= 1;
    let expected = points(output);
    let answer = chaos.ask(&["metrics", name, "loss", "--json"])?;
    if expected.is_empty() {
        return None;
    }
    let series = &answer.json()["series"][0];
    let numbers = |what: &str| -> Vec<f64> {
        let all = series[what].as_array().into_iter().flatten();
        all.filter_map(Value::as_f64).collect()
    };
    let (steps, values) = (numbers("steps"), numbers("values"));
    let same = |expected: &[Point]| {
        let earlier = if is_first {
            0
        } else {
            steps.len().saturating_sub(expected.len())
        };
        steps[earlier..]
            .iter()
            .eq(expected.iter().map(|point| &point.step))
            && values[earlier..]
                .iter()
                .eq(expected.iter().map(|point| &point.loss))
    };
    // When a run is over, a last line without its end counts, even if a full
    // disk has cut it.
    let right = same(&expected) || same(&points(&[output, b"\n"].concat()));
    (!right).then(|| {
        format!(
            "{} points (folded {}) instead of {}: {}",
            steps.len(),
            series["folded"],
            expected.len(),
            answer.err
        )
    })
}

/// Time for a part to end.
const LEAVE: Duration = Duration::from_secs(120);

/// Waits until no process of these parts lives at any place.
fn all_leave(chaos: &mut Chaos, leaving: &[Part], what: &str) {
    let began = Instant::now();
    for place in chaos.world.places() {
        loop {
            let mut left = chaos.world.parts(&place);
            left.retain(|(part, _)| leaving.contains(part));
            if left.is_empty() {
                break;
            }
            if began.elapsed() > LEAVE {
                let why = format!("at {place:?} live {what}: {left:?}");
                chaos.broken.push(why);
                break;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Asks agents and launchers to leave, since no run needs them any more.
fn dismiss(chaos: &mut Chaos) {
    for place in chaos.world.places() {
        for (part, id) in chaos.world.parts(&place) {
            if matches!(part, Part::Mum | Part::Launcher) {
                signal(&id, Signal::TERM);
            }
        }
    }
}

/// Databases and journals are sound.
fn stores(chaos: &mut Chaos) {
    let base = chaos.world.home.base();
    for name in ["state.db", "series.db"] {
        let path = base.join("data").join(name);
        if let Err(why) = sound(&path) {
            chaos.broken.push(format!("{}: {why}", path.display()));
        }
    }
    let mut roots = vec![base.join("node")];
    for place in chaos.world.places() {
        if let (Place::Host(name), Some(hosts)) = (place, &chaos.world.hosts) {
            roots.push(hosts.home(&name).join(".neronet"));
        }
    }
    let again = roots.iter().flat_map(|root| again::after_an_end(root));
    chaos.broken.extend(again);
    let mut segments = 0;
    while let Some(folder) = roots.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                roots.push(path);
            } else if name == "claim" || path.extension().is_some_and(|ending| ending == "seg") {
                segments += 1;
                if let Some(why) = damage(&path) {
                    chaos.broken.push(format!("{}: {why}", path.display()));
                }
            }
        }
    }
    chaos.history.add(format!("{segments} segments read"));
}

fn sound(path: &Path) -> Result<(), String> {
    let database = rusqlite::Connection::open(path).map_err(|error| error.to_string())?;
    let said: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if said == "ok" { Ok(()) } else { Err(said) }
}

fn damage(path: &Path) -> Option<String> {
    let bytes = match nero_journal::read_file(path) {
        Ok(bytes) => bytes,
        Err(error) => return Some(error.to_string()),
    };
    // A writer that died before it had written its header left no records.
    let Ok((_, mut reader)) = nero_journal::scan(&bytes) else {
        return bytes
            .iter()
            .any(|byte| *byte != 0)
            .then(|| "it has no header".to_owned());
    };
    reader.by_ref().count();
    match reader.stop() {
        Stop::End | Stop::Unfinished => None,
        Stop::Damaged(damage) => Some(damage.to_string()),
    }
}
