//! Runs that come after others: dependencies, stages, locks.

use std::fs;
use std::path::Path;

use nero_tests::processes::Part;
use nero_tests::{Home, until};

/// A command that writes its name to `order`, waits for the file `go-NAME`, and ends with the
/// code that this has.
fn step(home: &Home, name: &str) -> String {
    let folder = home.path().display();
    format!(
        "command: [sh, -c, 'echo {name} >> {folder}/order; until [ -s {folder}/go-{name} ]; \
         do sleep 0.02; done; exit $(cat {folder}/go-{name})']"
    )
}

fn go(home: &Home, name: &str, code: u8) {
    // In one piece: a file without its content would be read as 0.
    let file = home.path().join(format!("go-{name}"));
    let made = file.with_extension("made");
    fs::write(&made, format!("{code}\n")).unwrap();
    fs::rename(made, file).unwrap();
}

fn order(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("order")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn until_order(home: &Home, wanted: &[&str]) {
    until("these to have started", || match order(home.path()) {
        seen if seen == wanted => Ok(()),
        seen => Err((seen, home.ok(&["status"]), home.logs())),
    });
}

#[track_caller]
fn until_waits(home: &Home, id: u64, word: &str, why: &str) {
    until("the reason of a wait", || {
        let seen = home.experiment_json(id);
        if seen[word] == why {
            Ok(())
        } else {
            Err((seen, home.logs()))
        }
    });
}

#[test]
fn a_chain_stops_at_a_crash_and_goes_on_after_a_restart() {
    let home = Home::new();
    let [init, train, look] = ["init", "train", "look"].map(|name| step(&home, name));
    let yaml = format!(
        "+init: {{{init}}}\n+train: {{{train}, depends_on: [init]}}\n\
         +look: {{{look}, depends_on: ['tr*']}}\n"
    );
    let folder = home.experiment("chain", &yaml);
    let folder = folder.to_str().unwrap();
    home.ok(&["add", folder]);
    let said = home.run(&["start", "2"]);
    let note = "2: needs init, which was not started: `neroman start 1`";
    assert!(said.err.contains(note), "{said:?}");
    let waited = home.run(&["wait", "2"]);
    assert_eq!(waited.code, Some(1), "{waited:?}");
    home.ok(&["start", "all"]);
    until_order(&home, &["init"]);
    until_waits(&home, 2, "waiting_for", "needs init, which runs");
    until_waits(&home, 3, "waiting_for", "needs train, which waits");

    go(&home, "init", 3);
    home.until_settled(1);
    until_waits(&home, 2, "held", "needs init, which crashed");
    until_waits(&home, 3, "held", "needs train, which is held");
    assert_eq!(home.experiment_json(2)["state"], "queued");
    let shown = home.ok(&["status"]);
    assert!(shown.contains("needs init, which crashed"), "{shown}");
    home.kill(Part::Daemon);

    go(&home, "init", 0);
    home.ok(&["restart", "1"]);
    until_order(&home, &["init", "init", "train"]);
    home.kill(Part::Daemon);
    go(&home, "train", 0);
    go(&home, "look", 0);
    home.ok(&["wait", "all"]);
    assert_eq!(order(home.path()), ["init", "init", "train", "look"]);
}

#[test]
fn a_stage_begins_when_all_of_the_one_before_has_finished() {
    let home = Home::new();
    let [one, two, main, clean] = ["one", "two", "main", "clean"].map(|name| step(&home, name));
    let yaml = format!(
        "stages: [prepare, main, cleanup]\nresources: {{cpus: 0.1}}\n\
         +clean: {{{clean}, stage: cleanup}}\n+main: {{{main}, stage: main}}\n\
         +one: {{{one}, stage: prepare}}\n+two: {{{two}, stage: prepare}}\n"
    );
    let folder = home.experiment("stages", &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    until("both to have started", || {
        let mut seen = order(home.path());
        seen.sort();
        (seen == ["one", "two"])
            .then_some(())
            .ok_or((seen, home.logs()))
    });
    go(&home, "one", 0);
    until_waits(
        &home,
        2,
        "waiting_for",
        "needs two of stage prepare, which runs",
    );
    home.kill(Part::Daemon);
    go(&home, "two", 0);
    until("the next stage", || match order(home.path()) {
        seen if seen[2..] == ["main"] => Ok(()),
        seen => Err((seen, home.ok(&["status"]), home.logs())),
    });
    go(&home, "main", 0);
    go(&home, "clean", 0);
    home.ok(&["wait", "all"]);
    assert_eq!(order(home.path())[2..], ["main", "clean"]);
}

#[test]
fn two_that_share_a_lock_never_run_at_once_whoever_is_killed() {
    let home = Home::new();
    let [one, two] = ["one", "two"].map(|name| step(&home, name));
    let yaml = format!("lock: env\nresources: {{cpus: 0.1}}\n+one: {{{one}}}\n+two: {{{two}}}\n");
    let folder = home.experiment("lock", &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    until_order(&home, &["one"]);
    until_waits(&home, 2, "waiting_for", "local: 1.1 holds the lock env");
    home.kill_all(&[Part::Daemon, Part::Mum]);
    // The new daemon has looked at it.
    until_waits(&home, 2, "waiting_for", "local: 1.1 holds the lock env");
    home.until_state(1, "running");
    assert_eq!(order(home.path()), ["one"]);
    go(&home, "two", 0);
    go(&home, "one", 1);
    home.run(&["wait", "all"]);
    home.until_state(2, "finished");
    assert_eq!(order(home.path()), ["one", "two"]);
}

#[test]
fn a_run_that_can_never_be_where_another_one_is_is_told_at_once_and_ends_a_wait() {
    let home = Home::new();
    home.configure("nodes:\n  far: {address: nobody@192.0.2.1}\n");
    let yaml = "+init: {command: 'true', node: local}\n\
                +train: {command: 'true', node: far, place: {same_as: init}}\n";
    let folder = home.experiment("parted", yaml);
    home.ok(&["add", folder.to_str().unwrap()]);
    home.ok(&["start", "init"]);
    home.until_state(1, "finished");
    let why = "`far` can never take it (far: it has to be where 1.1 is: on local)";
    let said = home.run(&["start", "train"]);
    assert!(said.err.contains(&format!("2.1: {why}")), "{said:?}");
    let waited = home.run(&["wait", "train"]);
    assert_eq!(waited.code, Some(1), "{waited:?}");
    let told = format!("{}{}", waited.out, waited.err);
    assert!(told.contains(why), "{waited:?}");
}

#[test]
fn a_value_that_names_no_experiment_is_refused_where_it_is_set() {
    let home = Home::new();
    let yaml = "command: 'true {of}'\n+init: {parameters: {of: a}}\n\
                +train: {parameters: {of: init}, depends_on: ['{of}']}\n";
    let folder = home.experiment("set", yaml);
    home.ok(&["add", folder.to_str().unwrap()]);
    for words in [
        &["set", "2", "of=inti"][..],
        &["copy", "2", "other", "--set", "of=inti"],
        &["restart", "2", "--set", "of=inti"],
    ] {
        let said = home.run(words);
        assert_eq!(said.code, Some(2), "{said:?}");
        let told = "depends on `inti`, which is no experiment of its source";
        assert!(said.err.contains(told), "{said:?}");
    }
    assert_eq!(home.experiment_json(2)["overrides"], serde_json::json!([]));
    home.ok(&["start", "all"]);
    home.ok(&["wait", "all"]);
}

#[test]
fn each_step_is_done_once_whoever_is_killed_in_it() {
    let home = Home::new();
    let folder = home.path().display();
    // The last one dies while its launcher lives: else the code could not be known.
    let kills = [Part::Daemon, Part::Mum, Part::Watcher, Part::Shim];
    let steps = (1..=kills.len() + 1).map(|at| {
        format!(
            "  - run: 'echo {at} >> {folder}/order; until [ -s {folder}/go-{at} ]; \
             do sleep 0.02; done; ( exit $(cat {folder}/go-{at}) )'\n"
        )
    });
    let yaml = format!("+s:\n  steps:\n{}", steps.collect::<String>());
    let source = home.experiment("steps", &yaml);
    home.ok(&["start", source.to_str().unwrap()]);
    let mut done = Vec::new();
    for (at, part) in (1..).zip(kills) {
        let at: u8 = at;
        done.push(at.to_string());
        until("the step", || match order(home.path()) {
            seen if seen == done => Ok(()),
            seen => Err((seen, home.ok(&["status"]), home.logs())),
        });
        home.until_state(1, "running");
        home.kill(part);
        go(&home, &at.to_string(), if at == 4 { 3 } else { 0 });
    }
    let seen = home.until_state(1, "crashed");
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(order(home.path()), done, "none after the one that failed");
    home.until_settled(1);
    let shown = home.ok(&["show", "1"]);
    assert!(shown.contains("no. 4 of 5 steps"), "{shown}");
}
