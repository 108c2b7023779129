//! The stories.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::play::Play;
use super::{Place, Story};
use crate::cluster::Scheduler;
use crate::mail::{CaughtMail, MailServer};

/// All of them.
pub const STORIES: [Story; 12] = [
    here("simple", simple),
    here("steered", steered),
    here("retried", retried),
    here("cleaned", cleaned),
    here("written", written),
    here("stepped", stepped),
    here("restored", restored),
    here("mailed", mailed),
    Story {
        name: "submitted",
        place: Place::Cluster(Scheduler::SlurmWithoutAccounting),
        play: submitted,
    },
    Story {
        name: "pushed",
        place: Place::Host,
        play: pushed,
    },
    Story {
        name: "taken",
        place: Place::Host,
        play: taken,
    },
    Story {
        name: "upgraded",
        place: Place::Upgrade,
        play: upgraded,
    },
];

/// A story whose runs are executed on this machine.
const fn here(name: &'static str, play: fn(&mut Play<'_>)) -> Story {
    Story {
        name,
        place: Place::Here,
        play,
    }
}

fn all(status: &Value, is_so: fn(&Value) -> bool) -> bool {
    let all = status["experiments"].as_array();
    all.is_some_and(|all| !all.is_empty() && all.iter().all(is_so))
}

/// Adds a folder `e` with this file, and starts all of it.
fn begun(play: &mut Play<'_>, yaml: &str) {
    begun_by(play, yaml, &["start", "all"]);
}

/// The same with this command.
fn begun_by(play: &mut Play<'_>, yaml: &str, start: &[&str]) {
    let folder = play.home.experiment("e", yaml);
    let folder = folder.display().to_string();
    play.command(&["add", &folder]);
    play.told(start, |status| all(status, |one| !one["run"].is_null()));
}

/// Add, start, wait, a note, results.
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
    play.command(&["note", "short", "the first one"]);
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
    // A request that is written late finds them live.
    play.until("a person and a rule to end their runs", |status| {
        [2, 3].iter().all(|which: &usize| {
            let phase = &status["experiments"][which]["phase"];
            phase == "aborted" || phase == "crashed" || phase == "lost"
        })
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
    play.until("states and numbers in the cells", |status| {
        let text = fs::read_to_string(&table).unwrap_or_default();
        let words = ["finished", "crashed", "lost"];
        let states = words.iter().map(|word| text.matches(word).count());
        let rows = text.lines().skip(1);
        let numbers = rows.filter(|row| !row.split(',').nth(1).unwrap_or("").is_empty());
        let experiments = status["experiments"].as_array().into_iter().flatten();
        let kept = experiments.filter(|one| one["metrics"]["loss"]["last"].is_number());
        let is_all_home = all(status, |one| one["settled"] == true);
        is_all_home && states.sum::<usize>() == 2 && numbers.count() == kept.count()
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

/// A letter about the end of a run.
fn mailed(play: &mut Play<'_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = MailServer::start(folder.path());
    let (address, ca) = (server.address(), server.ca());
    let config = play.home.base().join("config.yaml");
    let config = fs::read_to_string(config).unwrap_or_default();
    play.home.configure(&format!(
        "{config}user: {{email: ada@example.org}}
mail: {{smtp: '{address}', ca: {}, login: tester, password_command: echo secret}}
notify: {{events: [finished, crashed, aborted, lost]}}
",
        ca.display()
    ));
    let note = play.note();
    begun(
        play,
        &format!("collection: e\n+fails: {{command: [sh, -c, '{note}; echo loss 5; exit 3']}}\n"),
    );
    play.wait("all");
    play.until_shown("its letter", &["mail", "list", "--json"], |list| {
        let all = list["deliveries"].as_array();
        let is_sent = |one: &Value| one["state"] == "sent";
        list["notices"] == 0 && all.is_some_and(|all| !all.is_empty() && all.iter().all(is_sent))
    });
    // The same letter may come twice.
    let letters: BTreeSet<_> = server.caught().iter().map(letter).collect();
    let letters: Vec<String> = letters.into_iter().map(|(_, subject)| subject).collect();
    let mails = play.home.path().join("mails");
    fs::write(&mails, letters.join("\n")).expect("a file");
    play.own.push(mails);
}

/// Runs in jobs of SLURM: one ends well, one badly, and one is ended.
fn submitted(play: &mut Play<'_>) {
    let note = play.note();
    let yaml = format!(
        "collection: e
+short: {{command: [sh, -c, '{note}; echo loss 3; echo made > model.txt; echo loss 2']}}
+fails: {{command: [sh, -c, '{note}; echo loss 5; exit 3']}}
+ended: {{command: [sh, -c, '{note}; echo loss 4; sleep 600']}}
"
    );
    begun(play, &yaml);
    play.until("what is to be ended to print", |status| {
        let ended = &status["experiments"][2];
        !ended["metrics"]["loss"].is_null()
            || ended["phase"] == "crashed"
            || ended["phase"] == "lost"
    });
    play.told(&["abort", "ended", "--yes"], |status| {
        let ended = &status["experiments"][2];
        ended["state"] == "aborted" || !ended["wish"].is_null()
    });
    play.wait("all");
}

/// Runs on a host that is reached by ssh, with files there and back.
fn pushed(play: &mut Play<'_>) {
    let note = play.note();
    let go = play.common.join("go");
    let yaml = format!(
        "collection: e
+short: {{command: [sh, -c, '{note}; cp data.txt model.txt; echo loss 3; echo loss 2']}}
+ended: {{rules: [{{abort: loss > 8}}], command: [sh, -c, '{note}; echo loss 9; until test -e {}; do sleep 0.05; done']}}
",
        go.display()
    );
    let folder = play.home.path().join("e");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("data.txt"), "of the person").expect("a file");
    begun_by(play, &yaml, &["start", "all", "--node", "h1"]);
    play.wait("all");
    fs::write(go, "").expect("a file");
    play.until("results are home", |status| {
        all(status, |one| one["settled"] == true)
    });
    play.command(&["fetch", "short"]);
    play.command(&["clean", "short", "--yes"]);
}

/// Another home takes over a host with a run that is over, and one that is not.
fn taken(play: &mut Play<'_>) {
    let note = play.note();
    let go = play.common.join("go");
    let yaml = format!(
        "collection: e
+short: {{command: [sh, -c, '{note}; echo loss 3; echo made > model.txt']}}
+held: {{command: [sh, -c, '{note}; echo loss 4; until test -e {}; do sleep 0.05; done; echo loss 1']}}
",
        go.display()
    );
    begun_by(play, &yaml, &["start", "all", "--node", "h1"]);
    play.wait("short");
    play.until("what is held to print", |status| {
        let held = &status["experiments"][1];
        !held["metrics"]["loss"].is_null() || held["phase"] == "crashed"
    });
    play.home.end_everything();
    let (base, old) = (play.home.base(), play.home.path().join("old"));
    fs::rename(&base, old).expect("a folder");
    fs::create_dir(&base).expect("a folder");
    play.home.configure("nodes: {h1: {address: h1, cpus: 2}}\n");
    play.told(&["node", "take-over", "h1"], |status| all(status, |_| true));
    fs::write(go, "").expect("a file");
    play.wait("all");
}

/// Another build of all programs is in use from one command to the next: a run that goes on has
/// a supervisor of the older one, and a run behind it one of the newer.
fn upgraded(play: &mut Play<'_>) {
    let note = play.note();
    let go = play.common.join("go");
    let yaml = format!(
        "collection: e
+held: {{command: [sh, -c, '{note}; echo loss 4; until test -e {}; do sleep 0.05; done; echo loss 1']}}
+later: {{command: [sh, -c, '{note}; echo loss 3; echo made > model.txt']}}
",
        go.display()
    );
    let folder = play.home.experiment("e", &yaml).display().to_string();
    play.command(&["add", &folder]);
    play.told(&["start", "held", "--node", "h1"], |status| {
        !status["experiments"][0]["run"].is_null()
    });
    play.until("what is held to print", |status| {
        let held = &status["experiments"][0];
        !held["metrics"]["loss"].is_null() || held["phase"] == "crashed"
    });
    play.disk.upgrade();
    play.command(&["daemon", "stop"]);
    play.told(&["start", "later", "--node", "h1"], |status| {
        !status["experiments"][1]["run"].is_null()
    });
    fs::write(go, "").expect("a file");
    play.wait("all");
}

/// The id of a letter and its subject.
fn letter(mail: &CaughtMail) -> (String, String) {
    let header = |name| mail.header(name).unwrap_or_default();
    (header("Message-ID"), header("Subject"))
}
