//! The stories.

use std::fs;

use serde_json::Value;

use super::Story;
use super::play::Play;

/// All of them.
pub const STORIES: [Story; 7] = [
    Story {
        name: "simple",
        play: simple,
    },
    Story {
        name: "steered",
        play: steered,
    },
    Story {
        name: "retried",
        play: retried,
    },
    Story {
        name: "cleaned",
        play: cleaned,
    },
    Story {
        name: "written",
        play: written,
    },
    Story {
        name: "stepped",
        play: stepped,
    },
    Story {
        name: "restored",
        play: restored,
    },
];

fn all(status: &Value, is_so: fn(&Value) -> bool) -> bool {
    let all = status["experiments"].as_array();
    all.is_some_and(|all| !all.is_empty() && all.iter().all(is_so))
}

/// Adds a folder `e` with this file, and starts all of it.
fn begun(play: &mut Play<'_>, yaml: &str) {
    let folder = play.home.experiment("e", yaml);
    let folder = folder.display().to_string();
    play.command(&["add", &folder]);
    play.told(&["start", "all"], |status| {
        all(status, |one| !one["run"].is_null())
    });
}

/// Add, start, wait, results.
fn simple(play: &mut Play<'_>) {
    let note = play.note();
    let yaml = format!(
        "collection: e
+short: {{command: [sh, -c, '{note}; echo loss 3; echo made > model.txt; echo loss 2']}}
+fails: {{command: [sh, -c, '{note}; echo loss 5; exit 3']}}
"
    );
    begun(play, &yaml);
    play.wait("all");
    let file = play.home.path().join("out.csv").display().to_string();
    play.command(&["results", "all", "--columns", "name,loss", "-o", &file]);
    play.own.push(file.into());
}

/// Restart, abort, pause and a rule.
fn steered(play: &mut Play<'_>) {
    let note = play.note();
    let go = play.home.path().join("go").display().to_string();
    let held = format!("{note}; echo loss 3; until test -e {go}; do sleep 0.05; done");
    let yaml = format!(
        "collection: e
+again: {{command: [sh, -c, '{note}; echo loss 4']}}
+held: {{command: [sh, -c, '{held}']}}
+ended: {{command: [sh, -c, '{held}']}}
+ruled: {{rules: [{{abort: loss > 2}}], command: [sh, -c, '{held}']}}
"
    );
    begun(play, &yaml);
    play.until("what is held to print", |status| {
        let all = status["experiments"].as_array();
        let held = all.and_then(|all| all.get(1..3));
        held.is_some_and(|held| {
            let printed = |one: &Value| !one["metrics"]["loss"].is_null();
            held.iter()
                .all(|one| printed(one) || one["phase"] == "crashed")
        })
    });
    play.command(&["pause", "held"]);
    play.told(&["abort", "ended", "--yes"], |status| {
        let ended = &status["experiments"][2];
        ended["state"] == "aborted" || !ended["wish"].is_null()
    });
    play.wait("again");
    play.told(&["restart", "again"], |status| {
        status["experiments"][0]["run"] == "1.2"
    });
    play.command(&["resume", "held"]);
    play.until("the rule to end its run", |status| {
        let phase = &status["experiments"][3]["phase"];
        phase == "aborted" || phase == "crashed" || phase == "lost"
    });
    fs::write(&go, "").expect("a file");
}

/// A run that fails once, and goes on from its checkpoint.
fn retried(play: &mut Play<'_>) {
    let note = play.note();
    let yaml = format!(
        "collection: e
+tries:
  retry: 1
  checkpoint: ck.txt
  command: [sh, -c, '{note}; if test -e ck.txt; then echo loss 1; exit 0; fi; echo half > ck.txt; echo loss 9; exit 1']
"
    );
    begun(play, &yaml);
    play.wait("all");
}

/// Fetch and clean, and a folder that goes by itself.
fn cleaned(play: &mut Play<'_>) {
    let note = play.note();
    let yaml = format!(
        "collection: e
+kept: {{command: [sh, -c, '{note}; echo loss 3; echo made > model.txt']}}
+goes: {{keep: 0, command: [sh, -c, '{note}; echo loss 3; echo made > model.txt']}}
"
    );
    begun(play, &yaml);
    play.wait("all");
    play.until("results are home", |status| {
        all(status, |one| one["settled"] == true)
    });
    play.command(&["fetch", "kept"]);
    play.command(&["clean", "kept", "--yes"]);
}

/// Numbers, results and states in the cells of a table.
fn written(play: &mut Play<'_>) {
    let note = play.note();
    let yaml = format!(
        "command: [sh, -c, '{note}; echo loss {{lr}}']
table: {{status: state}}
results: {{value: loss}}
"
    );
    let folder = play.home.path().join("e");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("plan.yaml"), yaml).expect("a file");
    let table = folder.join("plan.csv");
    fs::write(&table, "lr,value,state,mine\n0.1,,,a\n0.2,,,b\n").expect("a file");
    play.own.push(table.clone());
    play.command(&["add", &table.display().to_string()]);
    play.told(&["start", "all"], |status| {
        all(status, |one| !one["run"].is_null())
    });
    play.wait("all");
    play.until("states in the cells", |_| {
        let text = fs::read_to_string(&table).unwrap_or_default();
        ["finished", "crashed", "lost"]
            .iter()
            .map(|word| text.matches(word).count())
            .sum::<usize>()
            == 2
    });
}

/// Steps on the person's machine and on the node, one after another.
fn stepped(play: &mut Play<'_>) {
    let note = play.note();
    let steps = play.home.path().join("steps");
    let file = steps.display();
    let yaml = format!(
        "collection: e
+flow:
  steps:
    - {{local: 'echo before >> {file}'}}
    - {{run: '{note}; echo loss 1'}}
    - {{local: 'echo behind >> {file}'}}
"
    );
    begun(play, &yaml);
    play.own.push(steps);
    play.wait("all");
}

/// A backup, and a new home that is filled with it.
fn restored(play: &mut Play<'_>) {
    let note = play.note();
    begun(
        play,
        &format!("collection: e\n+short: {{command: [sh, -c, '{note}; echo loss 3']}}\n"),
    );
    play.wait("all");
    // What comes home behind the copy is not in it.
    play.until("results are home", |status| {
        all(status, |one| one["settled"] == true)
    });
    play.settled();
    let file = play.home.path().join("copy").display().to_string();
    play.command(&["backup", &file]);
    play.home.end_everything();
    let (base, old) = (play.home.base(), play.home.path().join("old"));
    fs::rename(&base, old).expect("a folder");
    fs::create_dir(&base).expect("a folder");
    play.command(&["backup", "--restore", &file]);
}
