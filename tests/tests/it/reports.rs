//! What a real run leaves behind reaches the people who look at it.

use nero_tests::{Home, until};

use crate::story::{added, job};

#[test]
fn a_failed_job_is_shown_with_what_it_printed_last_on_standard_error() {
    let home = Home::new();
    added(
        &home,
        "e",
        &format!(
            "collection: e\n+a: {{command: {} complain first -- complain no module named torch -- exit 3}}\n",
            job()
        ),
    );
    home.ok(&["start", "1"]);
    let seen = home.until_settled(1);
    assert_eq!(seen["reason"], "exit code 3", "{seen}");
    assert_eq!(seen["stderr_line"], "no module named torch", "{seen}");
    let run = home.json(&["show", "1"])["runs"][0].clone();
    assert_eq!(run["stderr_line"], "no module named torch", "{run}");
    for verb in [&["status"][..], &["show", "1"]] {
        let text = home.ok(verb);
        assert!(
            text.contains("exit code 3: no module named torch"),
            "{verb:?}: {text}"
        );
    }
}

#[test]
fn processes_that_a_job_left_behind_are_named_and_those_left_on_purpose_go_on() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 2}}\n");
    let yaml = format!(
        "collection: s\n+ended: {{command: {0} daemon rest}}\n+left: {{command: {0} daemon rest, monitor: {{strays: leave}}}}\n",
        job()
    );
    added(&home, "s", &yaml);
    home.ok(&["start", "1-2"]);
    for (id, word, other) in [(1, "ended", "left"), (2, "left", "ended")] {
        let seen = home.until_settled(id);
        assert_eq!(seen["state"], "finished", "{seen}");
        let id = id.to_string();
        let strays = home.json(&["show", &id])["runs"][0]["strays"].clone();
        assert_eq!(
            (&strays[word], &strays[other]),
            (&1.into(), &0.into()),
            "{strays}"
        );
        assert_eq!(strays["named"][0]["name"], "nero-job", "{strays}");
        let pid = strays["named"][0]["pid"].as_i64().unwrap();
        let lives = nero_tests::parts(&home.base())
            .iter()
            .any(|(_, process)| i64::from(process.pid) == pid);
        assert_eq!(lives, word == "left", "{strays}");
        let text = home.ok(&["show", &id]);
        let line = match word {
            "left" => format!("1 process, not ended (monitor.strays: leave): nero-job ({pid})"),
            _ => "1 process, ended after ".to_owned(),
        };
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn a_shim_that_its_job_stopped_is_continued_and_the_run_says_so() {
    let home = Home::new();
    added(
        &home,
        "n",
        "collection: n\n+a: {command: [sh, -c, 'kill -STOP $PPID; exec sleep 1000']}\n",
    );
    home.ok(&["start", "1"]);
    until("the notice", || {
        let seen = (home.ok(&["status"]), home.ok(&["show", "1"]));
        let notice = "its shim was stopped by a signal (SIGSTOP) and was continued";
        let is_told = seen.0.contains(notice) && seen.1.contains(notice);
        is_told.then_some(()).ok_or((seen, home.logs()))
    });
    home.ok(&["abort", "1", "--yes"]);
    home.until_state(1, "aborted");
}
