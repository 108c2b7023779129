//! What the first runs of a start mean for its others: `--pilot`, and first runs that crash
//! alike.

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::processes::Part;
use nero_tests::{Home, until};
use serde_json::Value;

/// Experiments that do as the file `all` says, with their number as `$0`.
fn sweep(home: &Home, count: u32) -> String {
    home.configure("nodes: {local: {cpus: 1}}\n");
    let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    let yaml = format!(
        "command: [sh, -c, '. {}/all', '{{n}}']\nparameters: {{n: [{}]}}\n",
        home.path().display(),
        numbers.join(", ")
    );
    let folder = home.experiment("sweep", &yaml);
    folder.to_str().unwrap().to_owned()
}

fn all_do(home: &Home, line: &str) {
    std::fs::write(home.path().join("all"), format!("{line}\n")).unwrap();
}

/// The experiments that wait until a person acts.
fn held(home: &Home) -> Vec<u64> {
    let seen = home.json(&["status"]);
    let all = seen["experiments"].as_array().unwrap();
    let held = all.iter().filter(|one| !one["held"].is_null());
    held.map(|one| one["id"].as_u64().unwrap()).collect()
}

#[track_caller]
fn until_held(home: &Home, ids: &[u64]) {
    until("these to be held", || match held(home) {
        held if held == ids => Ok(()),
        held => Err((held, home.ok(&["status"]), home.logs())),
    });
}

#[test]
fn a_pilot_goes_first_and_the_others_when_it_has_finished() {
    let home = Home::new();
    let folder = sweep(&home, 3);
    all_do(&home, "echo no disk >&2; exit 3");
    let said = home.run(&["start", &folder, "--pilot", "--json"]);
    let started: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(started["batch"], "1.1", "{}", said.out);
    let note = started["notes"].to_string();
    assert!(
        note.contains("the 2 others start when it has finished"),
        "{note}"
    );

    home.until_settled(1);
    until_held(&home, &[2, 3]);
    let seen = home.experiment_json(2);
    assert_eq!(
        (&seen["state"], &seen["batch"]),
        (&"queued".into(), &"1.1".into())
    );
    let why = "its pilot 1.1 crashed: exit code 3, no disk";
    assert_eq!(seen["held"], why, "{seen:#}");
    let waits = seen["waiting_for"].as_str().unwrap();
    assert!(
        waits.contains("`neroman resume 2`, `start 2` or `abort 2`"),
        "{waits}"
    );
    let waited = home.run(&["wait", "2"]);
    assert_eq!(waited.code, Some(1), "{waited:?}");
    assert!(
        waited.err.contains(why) || waited.out.contains(why),
        "{waited:?}"
    );

    // Started again, all three get new runs; the daemon dies while they wait.
    all_do(
        &home,
        &format!(
            "while ! [ -e {}/go ]; do sleep 0.02; done",
            home.path().display()
        ),
    );
    let said = home.ok(&["start", "1-3", "--pilot"]);
    assert!(said.contains("started 3"), "{said}");
    assert_eq!(home.experiment_json(1)["batch"], "1.2");
    home.until_state(1, "running");
    home.kill(Part::Daemon);
    let seen = home.experiment_json(2);
    assert_eq!(
        seen["waiting_for"], "its pilot 1.2, which runs first",
        "{seen:#}"
    );
    assert_eq!(
        (&seen["held"], &seen["node"]),
        (&Value::Null, &"local".into())
    );
    std::fs::write(home.path().join("go"), "").unwrap();
    home.ok(&["wait", "1-3"]);
}

#[test]
fn the_rest_is_held_when_the_first_five_crash_alike_and_goes_on_when_resumed() {
    let home = Home::new();
    let folder = sweep(&home, 12);
    // The sixth waits for its end, so that the others surely wait for its CPU.
    let go = home.path().join("go").display().to_string();
    all_do(
        &home,
        &format!(
            "if [ $0 = 6 ]; then while ! [ -e {go} ]; do sleep 0.02; done; fi; echo no disk >&2; exit 3"
        ),
    );
    home.ok(&["start", &folder]);
    home.until_settled(5);
    until_held(&home, &[7, 8, 9, 10, 11, 12]);
    let seen = home.experiment_json(9);
    let why = seen["held"].as_str().unwrap();
    assert!(
        why.starts_with("the first 5 of its start crashed as "),
        "{why}"
    );
    assert!(why.ends_with("did: exit code 3, no disk"), "{why}");
    let history = home.ok(&["show", "1"]);
    // The word that the sixth has begun may come after the decision.
    let told = ["6 are held", "7 are held"];
    assert!(told.iter().any(|told| history.contains(told)), "{history}");
    // What neromum was not told before it is killed may begin once the sixth has ended.
    for id in 7..=12 {
        home.until_state(id, "paused");
    }
    home.kill_all(&[Part::Daemon, Part::Mum]);
    std::fs::write(&go, "").unwrap();
    home.until_settled(6);
    home.until_state(9, "paused");
    assert_eq!(held(&home), [7, 8, 9, 10, 11, 12]);
    assert!(home.ok(&["status"]).contains("neroman resume 7-12"));

    all_do(&home, "exit 0");
    assert_eq!(home.ok(&["resume", "7-10"]), "resumed 4\n");
    for id in 7..=10 {
        assert_eq!(home.until_settled(id)["state"], "finished");
    }
    home.ok(&["abort", "11"]);
    home.until_state(11, "aborted");
    home.ok(&["start", "12"]);
    let seen = home.until_settled(12);
    assert_eq!(
        (&seen["state"], &seen["run"]),
        (&"finished".into(), &"12.2".into())
    );
}

/// The rest of an array is held at its scheduler, in few commands, whatever dies meanwhile.
fn the_rest_of_an_array_is_held_at_its_scheduler(scheduler: Scheduler) {
    let login = Login::new(scheduler);
    let home = &login.home;
    let go = login.path("go");
    // The sixth, if it begins at all, keeps the array's only place: the others surely wait.
    let lines = format!(
        "if [ {{n}} = 6 ]; then while ! [ -e {go} ]; do sleep 0.1; done; fi; \
         [ -e {go} ] || {{{{ echo no disk >&2; exit 3; }}}}"
    );
    let numbers: Vec<String> = (1..=24).map(|number: u32| number.to_string()).collect();
    let yaml = format!(
        "command: [sh, -c, '{lines}']\nparameters: {{n: [{}]}}\nat_once: 1\n",
        numbers.join(", ")
    );
    let folder = home.experiment("sweep", &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    let waiting_there = || {
        let said = if login.is_slurm() {
            login.cluster.run(
                "squeue",
                &["-r", "--noheader", "--states=PENDING", "--format=%r"],
            )
        } else {
            login.cluster.run("qstat", &["-s", "p", "-g", "d"])
        };
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let rows = lines.filter(|line| login.is_slurm() || line.contains("qw"));
        let is_held = |line: &&str| line.contains("JobHeldUser") || line.contains("hqw");
        let (held, free): (Vec<&str>, Vec<&str>) = rows.partition(is_held);
        (held.len(), free.len(), text.clone())
    };
    // What began before the scheduler was told stands still or has ended; a task that it
    // starts later leaves, and its run waits here.
    let (all, there) = until("the scheduler to hold the rest", || {
        let (all, (there, free, text)) = (held(home), waiting_there());
        let seen: Vec<Value> = all.iter().map(|id| home.experiment_json(*id)).collect();
        let is_paused = |one: &Value| one["state"] == "paused";
        let waiting = seen.iter().filter(|one| one["started_at"].is_null());
        let is_told = there > 0 && free == 0 && waiting.count() >= there;
        if seen.iter().all(is_paused) && is_told {
            Ok((all, there))
        } else {
            Err((seen, text, home.logs()))
        }
    });
    let (resumed, aborted) = all.split_at(1);
    let seen = home.experiment_json(24);
    let why = seen["held"].as_str().unwrap();
    assert!(why.ends_with("did: exit code 3, no disk"), "{why}");
    let seen = home.json(&["status", "local"]);
    let usage = &seen["nodes"][0]["scheduler"];
    let programs = usage["programs"].as_array().unwrap();
    let program = if login.is_slurm() {
        "scontrol"
    } else {
        "qhold"
    };
    let one = programs.iter().find(|one| one["name"] == program).unwrap();
    // SLURM's describes its site, too.
    assert!(one["total"].as_u64().unwrap() <= 6, "{usage:#}");
    assert!(usage["own"].as_u64() >= Some(there as u64), "{usage:#}");
    let said = home.ok(&["node", "status", "local"]);
    assert!(said.contains(" of your runs here"), "{said}");
    assert!(said.contains(&format!("{program} ")), "{said}");

    login.kill_leader();
    home.kill(Part::Daemon);
    std::fs::write(&go, "").unwrap();
    assert_eq!(held(home), all);
    let ids = |ids: &[u64]| {
        let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
        ids.join(",")
    };
    assert_eq!(home.ok(&["resume", &ids(resumed)]), "resumed 1\n");
    for id in resumed {
        assert_eq!(home.until_settled(*id)["state"], "finished");
    }
    home.ok(&["abort", &ids(aborted)]);
    for id in aborted {
        let seen = home.until_state(*id, "aborted");
        assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    }
}

#[test]
fn the_rest_of_an_array_is_held_at_slurm() {
    the_rest_of_an_array_is_held_at_its_scheduler(Scheduler::Slurm);
}

#[test]
fn the_rest_of_an_array_is_held_at_grid_engine() {
    the_rest_of_an_array_is_held_at_its_scheduler(Scheduler::GridEngine);
}

#[test]
fn runs_begin_in_the_order_and_number_that_was_asked_for_whoever_dies() {
    let home = Home::new();
    let folder = sweep(&home, 5);
    let (begun, go) = (home.path().join("begun"), home.path().join("go"));
    all_do(
        &home,
        &format!(
            "echo $0 >> {}; while ! [ -e {} ]; do sleep 0.02; done",
            begun.display(),
            go.display()
        ),
    );
    home.ok(&["add", &folder]);
    let said = home.ok(&["start", "1-4", "--order", "-n", "--at-most", "2"]);
    assert!(said.contains("started 4"), "{said}");
    home.until_state(4, "running");
    let said = home.ok(&["start", "5", "--priority", "7"]);
    assert!(said.contains("started 1"), "{said}");
    assert!(home.ok(&["show", "5"]).contains("priority"));
    let waits = |id: u64, why: &str| {
        until("it to wait", || {
            let seen = home.experiment_json(id)["waiting_for"].clone();
            if seen.as_str().is_some_and(|seen| seen == why) {
                Ok(())
            } else {
                Err((seen, why.to_owned(), home.logs()))
            }
        });
    };
    let all_wait = || {
        waits(
            5,
            "waits for CPUs: asks for 1, 0 of 1 free; taken by 4.1 (next)",
        );
        waits(3, "waits for CPUs (1 before it)");
        waits(2, "its turn: at most 2 of its start run at once");
    };
    all_wait();
    home.kill_all(&[Part::Daemon, Part::Mum]);
    all_wait();
    let said = home.run(&["start", "1", "--order", "nowhere", "--at-most", "1"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    std::fs::write(&go, "").unwrap();
    home.ok(&["wait", "1-5"]);
    let begun = std::fs::read_to_string(begun).unwrap();
    assert_eq!(begun, "4\n5\n3\n2\n1\n");
}
