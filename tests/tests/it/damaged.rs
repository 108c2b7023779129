//! Files of a node are damaged. Each is named with what to do, nothing is reported
//! twice, and neroman sends again whatever it has.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nero_tests::{Home, Part, until};

use crate::story::{added, job};

/// Everything but shims and jobs.
const AGENTS: [Part; 4] = [Part::Daemon, Part::Mum, Part::Launcher, Part::Watcher];

/// The folder of an experiment's first run.
fn run_dir(home: &Home, id: u64) -> PathBuf {
    let node = fs::read_dir(home.base().join("node")).unwrap().flatten();
    let mut runs = node.map(|entry| entry.path().join(format!("runs/{id}/1")));
    runs.find(|path| path.is_dir()).expect("its folder")
}

/// The segment of the run's watcher.
fn watchers(run_dir: &Path) -> PathBuf {
    let files = fs::read_dir(run_dir.join("1")).unwrap().flatten();
    let is_watchers = |path: &PathBuf| path.display().to_string().contains("/watch-");
    let mut files = files.map(|entry| entry.path()).filter(is_watchers);
    files
        .find(|path| path.extension().is_some_and(|end| end == "seg"))
        .expect("a segment")
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Output about an experiment at two places.
fn shown(home: &Home, id: u64) -> String {
    let id = id.to_string();
    home.ok(&["status", &id]) + &home.ok(&["show", &id])
}

/// Waits until these places name the path; returns their text.
fn until_named(home: &Home, id: u64, path: &Path) -> String {
    let path = path.display().to_string();
    until(&format!("{path} to be named"), || {
        let text = shown(home, id);
        let nodes = home.ok(&["status", "nodes"]);
        if text.contains(&path) && nodes.contains(&path) {
            Ok(text)
        } else {
            Err((text, nodes, home.logs()))
        }
    })
}

fn steps(home: &Home, id: u64) -> String {
    home.json(&["metrics", &id.to_string()])["series"][0]["steps"].to_string()
}

#[test]
fn points_of_a_watcher_whose_segment_is_damaged_are_there_once_and_the_file_is_named() {
    type Change = fn(&Path);
    let changes: [Change; 4] = [
        |path| flip(path, fs::metadata(path).unwrap().len() as usize / 2),
        |path| {
            let half = fs::metadata(path).unwrap().len() / 2;
            fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(half)
                .unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 4}}\n");
    let go = home.path().join("go");
    let block = |number: usize| {
        format!(
            "+r{number}:\n  command: {} print loss 3 -- complain loss 2 -- print loss 1 -- await {} -- print loss 0.5\n  rules: [{{warn: loss > 2.5}}]\n",
            job(),
            go.display()
        )
    };
    let blocks: String = (0..changes.len()).map(block).collect();
    added(&home, "w", &format!("collection: w\n{blocks}"));
    home.ok(&["start", "all"]);
    for id in 1..=changes.len() as u64 {
        until("all points", || {
            let seen = home.experiment_json(id);
            let all = seen["metrics"]["loss"]["count"] == 3;
            if all { Ok(()) } else { Err(seen) }
        });
    }
    home.kill_all(&AGENTS);
    let mut files = Vec::new();
    for (id, change) in (1..).zip(changes) {
        let path = watchers(&run_dir(&home, id));
        change(&path);
        files.push(path);
    }
    until_named(&home, 1, &files[0]);
    fs::write(&go, "").unwrap();
    for (id, file) in (1..).zip(&files) {
        home.until_settled(id);
        assert_eq!(steps(&home, id), "[1.0,2.0,3.0,4.0]", "{}", file.display());
        let seen = home.experiment_json(id);
        assert_eq!(seen["state"], "finished");
        assert_eq!(seen["metrics"]["loss"]["count"], 4, "{seen}");
        let rules = home.json(&["rule", "list", &id.to_string()]);
        assert!(rules.to_string().contains("\"fired\":1"), "{rules}");
    }
}

#[test]
fn a_waiting_run_whose_spec_is_damaged_is_sent_again_and_starts_once() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 1}}\n");
    let notes = home.path().join("notes");
    let yaml = format!(
        "collection: s\n+a: {{command: {0} rest}}\n+b: {{command: {0} note {1} start}}\n",
        job(),
        notes.display()
    );
    added(&home, "s", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.ok(&["start", "2"]);
    home.until_state(2, "pending");
    home.kill_all(&AGENTS);
    flip(&run_dir(&home, 2).join("spec"), 40);
    home.ok(&["abort", "1", "--yes"]);
    home.until_state(2, "finished");
    assert_eq!(fs::read_to_string(&notes).unwrap().lines().count(), 1);
}

#[test]
fn results_of_an_ended_run_whose_spec_is_damaged_come_home() {
    let home = Home::new();
    let go = home.path().join("go");
    let yaml = format!(
        "collection: o\n+a:\n  command: {} await {} -- print loss 1 -- touch out.bin\n  outputs: [stdout, out.bin]\n",
        job(),
        go.display()
    );
    added(&home, "o", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.kill(Part::Daemon);
    fs::write(&go, "").unwrap();
    let run = run_dir(&home, 1);
    until("the end of the job", || {
        match home.alive(Part::Shim).len() {
            0 => Ok(()),
            left => Err(left),
        }
    });
    home.kill_all(&AGENTS);
    flip(&run.join("spec"), 40);
    let seen = home.until_settled(1);
    assert_eq!(seen["state"], "finished", "{seen}");
    let folder = until("results", || {
        let seen = home.experiment_json(1);
        let folder = seen["results"].as_str().map(PathBuf::from);
        folder
            .filter(|folder| folder.join("out.bin").exists())
            .ok_or((seen, home.logs()))
    });
    assert_eq!(fs::read(folder.join("out.bin")).unwrap(), b"here\n");
}

#[test]
fn an_abort_of_a_run_with_a_damaged_claim_tells_what_it_could_not_do() {
    let home = Home::new();
    added(
        &home,
        "h",
        &format!("collection: h\n+a: {{command: {} rest}}\n", job()),
    );
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.kill_all(&[
        Part::Daemon,
        Part::Mum,
        Part::Launcher,
        Part::Watcher,
        Part::Shim,
    ]);
    let claim = run_dir(&home, 1).join("1/claim");
    let length = fs::metadata(&claim).unwrap().len() as usize;
    flip(&claim, 130.min(length));
    until_named(&home, 1, &claim);
    let ran = home.run(&["abort", "1", "--yes"]);
    let told = format!("{}{}", ran.out, ran.err);
    assert!(told.contains(&claim.display().to_string()), "{ran:#?}");
}

#[test]
fn runs_that_a_restored_copy_of_the_database_does_not_know_are_told_of() {
    let home = Home::new();
    let yaml = format!(
        "collection: r\n+a: {{command: {0} rest}}\n+b: {{command: {0} rest}}\n",
        job()
    );
    added(&home, "r", &yaml);
    home.ok(&["start", "2"]);
    home.until_state(2, "running");
    let facts = home.base().join("data/state.db");
    let copy = home.path().join("older.db");
    let database = rusqlite::Connection::open(&facts).unwrap();
    let to = copy.display().to_string();
    database.execute("VACUUM INTO ?1", [to]).unwrap();
    drop(database);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.kill(Part::Daemon);
    fs::copy(copy, &facts).unwrap();
    for log in ["state.db-wal", "state.db-shm"] {
        fs::remove_file(facts.with_file_name(log)).unwrap();
    }
    assert_eq!(home.experiment_json(1)["state"], "defined");
    until("the unknown run to be told of", || {
        let nodes = home.ok(&["status", "nodes"]);
        if nodes.contains("1 of its runs are not in state.db") {
            Ok(())
        } else {
            Err((nodes, home.logs()))
        }
    });
}

#[test]
fn rules_whose_file_is_damaged_on_the_node_are_sent_again() {
    let home = Home::new();
    let go = home.path().join("go");
    let yaml = format!(
        "collection: d\n+a: {{command: {} print loss 3 -- await {} -- print loss 10}}\n",
        job(),
        go.display()
    );
    added(&home, "d", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.ok(&["rule", "add", "1", "warn: loss > 9"]);
    home.ok(&["rule", "add", "1", "warn: loss > 2"]);
    let fired = |text: &str| {
        until(&format!("`{text}` to fire"), || {
            let rules = home.json(&["rule", "list", "1"]);
            let listed = rules["rules"].as_array().unwrap().iter();
            let mut named = listed.filter(|rule| rule["text"] == text);
            let has_fired = named.any(|rule| rule["fired"] == 1);
            has_fired.then_some(()).ok_or((rules, home.logs()))
        });
    };
    fired("loss > 2");
    home.kill_all(&AGENTS);
    let control = run_dir(&home, 1).join("control");
    let set = |version: u64| control.join(format!("rules.{version}"));
    let newest = (1..).take_while(|version| *version < 2 || set(*version).exists());
    let newest = newest.last().unwrap();
    for version in 2..=newest {
        flip(&set(version), 40);
    }
    home.ok(&["status"]);
    until("the rules to be sent again", || {
        let shown = shown(&home, 1);
        let is_there = set(newest + 1).exists() && !shown.contains("refused");
        is_there.then_some(()).ok_or((shown, home.logs()))
    });
    fs::write(&go, "").unwrap();
    fired("loss > 9");
    assert_eq!(home.until_settled(1)["state"], "finished");
}

#[test]
fn a_folder_of_a_run_that_nobody_may_read_holds_the_run_until_it_can_be_read() {
    for inner in ["", "1"] {
        let mut home = Home::new();
        home.bind_by_modes();
        let notes = home.path().join("notes");
        let go = home.path().join("go");
        let yaml = format!(
            "collection: m\n+a: {{command: {} note {} start -- print loss 1 -- await {} -- print loss 2}}\n",
            job(),
            notes.display(),
            go.display()
        );
        added(&home, "m", &yaml);
        home.ok(&["start", "1"]);
        until("a point", || {
            let seen = home.experiment_json(1);
            let has_one = seen["metrics"]["loss"]["count"] == 1;
            has_one.then_some(()).ok_or((seen, home.logs()))
        });
        let folder = run_dir(&home, 1).join(inner);
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o000);
        home.kill_all(&AGENTS);
        let remedy = format!("chmod u+rwX '{}'", folder.display());
        let remedy = remedy.replace("/'", "'");
        until("the folder and the remedy to be named", || {
            let (text, nodes) = (shown(&home, 1), home.ok(&["status", "nodes"]));
            let is_told = text.contains("cannot be read") && text.contains(&remedy);
            let is_told = is_told && nodes.contains("cannot be read");
            is_told.then_some(()).ok_or((text, nodes, home.logs()))
        });
        let seen = home.experiment_json(1);
        assert_eq!(seen["state"], "running", "{seen}");
        mode(0o700);
        until("the warning to go away", || {
            let told = shown(&home, 1) + &home.ok(&["status", "nodes"]);
            let is_named = told.contains("cannot be read");
            (!is_named).then_some(()).ok_or((told, home.logs()))
        });
        fs::write(&go, "").unwrap();
        let seen = home.until_settled(1);
        assert_eq!(seen["state"], "finished", "{seen}");
        assert_eq!(seen["metrics"]["loss"]["count"], 2, "{seen}");
        assert_eq!(fs::read_to_string(&notes).unwrap().lines().count(), 1);
    }
}

#[test]
fn a_home_of_which_the_log_of_the_facts_is_gone_is_not_taken_for_a_new_one() {
    let home = Home::new();
    added(
        &home,
        "n",
        &format!("collection: n\n+a: {{command: {} rest}}\n", job()),
    );
    home.kill(Part::Daemon);
    let data = home.base().join("data");
    for end in ["-wal", "-shm", ".open"] {
        fs::remove_file(data.join(format!("state.db{end}"))).unwrap();
    }
    let status = home.ok(&["status"]);
    assert!(!status.contains("Nothing is set up yet"), "{status}");
    assert_eq!(home.experiment_json(1)["collection"], "n");
}

#[test]
fn a_root_that_was_deleted_under_a_live_run_ends_nothing_and_starts_nothing() {
    let home = Home::new();
    let notes = home.path().join("notes");
    let yaml = format!(
        "collection: g\n+a: {{command: {} note {} start -- rest}}\n",
        job(),
        notes.display()
    );
    added(&home, "g", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    let worker = home.until_alive(Part::Job);
    // The programs write into it while it is removed.
    until("the root to be deleted", || {
        fs::remove_dir_all(home.base().join("node"))
    });
    let told = until("the run to be told of", || {
        let text = shown(&home, 1);
        let is_told = text.contains(&format!("may still run there as process {}", worker.pid));
        is_told.then_some(text.clone()).ok_or((text, home.logs()))
    });
    assert!(told.contains("neroman abort 1.1"), "{told}");
    let again = home.run(&["restart", "1", "--yes"]);
    let why = format!("{}{}", again.out, again.err);
    assert!(why.contains("--abandon"), "{again:#?}");
    assert_eq!(home.alive(Part::Job), [worker]);
    assert_eq!(fs::read_to_string(&notes).unwrap().lines().count(), 1);
    let given_up = home.ok(&["abort", "1", "--yes"]);
    assert!(given_up.contains("given up"), "{given_up}");
}
