//! Runs that neroman makes by itself after the end of one.

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::{Home, Part, until};
use serde_json::Value;

/// Counts its starts in a checkpoint.
const COUNT: &str = "mkdir -p ckpt; n=$(cat ckpt/n 2>/dev/null || echo 0); n=$((n+1)); \
                     echo $n > ckpt/n; echo at $n $(test -n \"$NERO_RESUME\" && echo resumed)";

fn added(home: &Home, yaml: &str) {
    let folder = home.experiment("r", yaml);
    home.ok(&["add", &folder.display().to_string()]);
}

/// Waits for the experiment's last end; checks its run, its state and what it follows.
#[track_caller]
fn ends(home: &Home, id: u64, run: &str, state: &str, follows: &str) -> Value {
    // It waits for the runs that follow, too.
    let waited = home.run(&["wait", &id.to_string()]);
    assert_eq!(waited.code == Some(0), state == "finished", "{waited:#?}");
    let seen = home.until_settled(id);
    assert_eq!(
        (&seen["run"], &seen["state"]),
        (&run.into(), &state.into()),
        "{seen:#}"
    );
    let text = seen["follows"]["text"].as_str().unwrap_or_default();
    assert_eq!(text, follows, "{seen:#}");
    seen
}

#[test]
fn a_run_is_made_again_by_itself_as_its_experiment_says_and_as_nobody_forbids() {
    let home = Home::new();
    let forever = "while :; do sleep 0.05; done";
    let yaml = format!(
        "collection: r
checkpoint: 'ckpt/*'
monitor: {{grace: 1s}}
+crashes: {{retry: {{on: crashed, max: 2}}, command: [sh, -c, '{COUNT}; [ $n -ge 3 ]']}}
+fails: {{retry: 1, command: [sh, -c, 'echo no >&2; exit 3']}}
+requeued: {{on_timeout: requeue, resources: {{time: 4s}}, command: [sh, -c, '{COUNT}; [ $n -ge 3 ] || {forever}']}}
+stuck: {{on_timeout: requeue, resources: {{time: 1s}}, command: [sh, -c, '{forever}']}}
+aborted: {{retry: 5, on_timeout: requeue, command: [sh, -c, 'echo here; {forever}']}}
+restarted:
  rules: [restart: loss > 5]
  command: [sh, -c, '{COUNT}; echo loss=$((9 - 3*n)); [ $n -ge 2 ] || {forever}']
+slow: {{retry: {{on: timeout, max: 1, time: x60}}, resources: {{time: 1s}}, command: [sh, -c, 'sleep 3']}}
+paused: {{rules: [pause: loss > 5], command: [sh, -c, 'echo loss=9; sleep 5; echo on']}}
+listed:
  retry: [{{exit: 255, stderr: '^ssh: ', max: 5}}, {{exit: 3, max: 0}}]
  command: [sh, -c, '{COUNT}; echo ssh: no route >&2; [ $n -ge 2 ] && exit 3; exit 255']
"
    );
    added(&home, &yaml);
    home.ok(&["start", "all"]);
    home.until_state(5, "running");
    home.ok(&["abort", "5"]);
    // The end and what follows it are one transaction.
    home.kill(Part::Daemon);

    let seen = ends(&home, 1, "1.3", "finished", "retry 2 of 2 after a crash");
    assert_eq!(
        (&seen["follows"]["run"], &seen["follows"]["cause"]),
        (&"1.2".into(), &"retry".into())
    );
    assert_eq!(home.ok(&["logs", "1"]), "at 3 resumed\n");
    let shown = home.ok(&["show", "1"]);
    assert!(
        shown.contains("run again    retry 2 of 2 after a crash"),
        "{shown}"
    );
    assert!(
        shown.contains("1.2: retry 1 of 2 after a crash, from the checkpoints of 1.1"),
        "{shown}"
    );

    ends(&home, 9, "9.2", "crashed", "retry 1 of 5 after a crash");
    let seen = ends(&home, 2, "2.2", "crashed", "retry 1 of 1 after a crash");
    assert_eq!(
        seen["hints"][0], "not run again: 1 of 1 retries failed",
        "{seen:#}"
    );

    ends(&home, 3, "3.3", "finished", "requeued after its time limit");
    assert_eq!(home.ok(&["logs", "3"]), "at 3 resumed\n");
    let seen = ends(&home, 4, "4.1", "timeout", "");
    assert_eq!(
        seen["hints"][0], "not requeued: it left no new checkpoint in its time",
        "{seen:#}"
    );
    ends(&home, 5, "5.1", "aborted", "");
    ends(
        &home,
        6,
        "6.2",
        "finished",
        "restarted by the rule `loss > 5`, 1 of 3",
    );
    assert_eq!(home.ok(&["logs", "6"]), "at 2 resumed\nloss=3\n");
    ends(
        &home,
        7,
        "7.2",
        "finished",
        "retry 1 of 1 after its time limit",
    );
    let shown = home.ok(&["show", "7"]);
    assert!(shown.contains("with a time limit of 1m"), "{shown}");
    home.until_state(8, "paused");
    home.ok(&["resume", "8"]);
    ends(&home, 8, "8.1", "finished", "");
}

#[test]
fn slurm_runs_are_made_again_with_more_memory_and_from_their_checkpoints() {
    let login = Login::new(Scheduler::Slurm);
    let eat = "import time; x = bytearray(300000000); time.sleep(1)";
    let eat = format!("exec python3 -c \"{eat}\"");
    let retry = |factor: u32| {
        format!(
            "resources: {{memory: 200M}}\nretry: {{on: out_of_memory, max: 1, memory: x{factor}}}"
        )
    };
    login.submit("grows", &eat, &retry(4));
    login.submit("grows too far", &eat, &retry(100));
    let forever = "while :; do sleep 0.1; done";
    let requeue =
        "resources: {time: 5s}\nmonitor: {grace: 2s}\ncheckpoint: 'ckpt/*'\non_timeout: requeue";
    login.submit(
        "requeued",
        &format!("{COUNT}; [ $n -ge 2 ] || {forever}"),
        requeue,
    );
    ends(
        &login.home,
        1,
        "1.2",
        "finished",
        "retry 1 of 1 after out of memory",
    );
    let shown = login.home.ok(&["show", "1"]);
    assert!(shown.contains("with 800M memory"), "{shown}");
    let seen = ends(
        &login.home,
        2,
        "2.2",
        "crashed",
        "retry 1 of 1 after out of memory",
    );
    let why = seen["reason"].as_str().unwrap_or_default();
    assert!(why.contains("memory"), "{seen:#}");
    ends(
        &login.home,
        3,
        "3.2",
        "finished",
        "requeued after its time limit",
    );
    assert_eq!(login.home.ok(&["logs", "3"]), "at 2 resumed\n");
}

#[test]
fn an_experiment_tells_what_counts_as_an_error_and_no_death_at_the_end_changes_it() {
    let home = Home::new();
    let go = home.path().join("go");
    let until_go = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let yaml = format!(
        "collection: r
resources: {{cpus: 0.1}}
checkpoint: 'ckpt/*'
on_error:
  - {{exit: 0, stderr: '^Cloning ', then: continue}}
  - {{stderr: '^ssh: ', then: retry, max: 3}}
  - {{exit: 3, then: continue}}
+noisy: {{command: [sh, -c, '{until_go}; echo Cloning x >&2']}}
+errs: {{command: [sh, -c, '{until_go}; echo fatal: no x >&2']}}
+taken: {{command: [sh, -c, '{until_go}; exit 3']}}
+again: {{command: [sh, -c, '{until_go}; {COUNT}; [ $n -ge 2 ] || echo ssh: no route >&2']}}
+after: {{command: 'true', depends_on: [taken]}}
"
    );
    added(&home, &yaml);
    home.ok(&["start", "all"]);
    for id in 1..=4 {
        home.until_state(id, "running");
    }
    home.kill_all(&[Part::Daemon, Part::Mum]);
    std::fs::write(&go, "").unwrap();
    ends(&home, 1, "1.1", "finished", "");
    let errs = ends(&home, 2, "2.1", "crashed", "");
    assert_eq!(errs["exit_code"], 0, "{errs:#}");
    assert_eq!(errs["stderr_line"], "fatal: no x", "{errs:#}");
    home.kill(Part::Daemon);
    let taken = ends(&home, 3, "3.1", "finished", "");
    assert_eq!(taken["exit_code"], 3, "{taken:#}");
    let told = taken["warnings"].to_string();
    assert!(told.contains("exit code 3 counts as success"), "{told}");
    ends(&home, 4, "4.2", "finished", "retry 1 of 3 after a crash");
    ends(&home, 5, "5.1", "finished", "");
}

#[test]
fn a_handler_runs_its_command_once_before_what_follows_whoever_dies() {
    let home = Home::new();
    let out = home.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let yaml = r#"collection: r
on_error:
  - {exit: 3, run: ['echo "$WHO $(pwd)" >> OUT/ran', 'until [ -e OUT/go ]; do sleep 0.05; done; echo no file; exit 5'], then: continue}
  - {exit: 4, run: 'echo again >> OUT/again', then: retry, max: 1}
+a: {command: "sh -c 'exit 3'", env: {WHO: me}}
+b: {command: "sh -c '[ -e OUT/again ] || exit 4'"}
+after: {command: 'true', depends_on: [a]}
"#;
    added(&home, &yaml.replace("OUT", &out.display().to_string()));
    home.ok(&["start", "all"]);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    until("a response", || {
        let seen = home.experiment_json(1);
        let waits = seen["waiting_for"] == "its response by `on_error`";
        if waits && read("ran").ends_with('\n') {
            Ok(())
        } else {
            Err((seen, read("ran"), home.logs()))
        }
    });
    home.kill_all(&[Part::Daemon, Part::Mum]);
    assert_eq!(home.experiment_json(1)["state"], "ending");
    std::fs::write(out.join("go"), "").unwrap();
    ends(&home, 1, "1.1", "finished", "");
    ends(&home, 3, "3.1", "finished", "");
    let ran = read("ran");
    assert!(ran.starts_with("me /") && ran.ends_with("/work\n"), "{ran}");
    assert_eq!(ran.lines().count(), 1, "{ran}");
    let shown = home.ok(&["show", "1"]);
    let told = "1.1: response by `on_error`: exit code 5: no file";
    assert!(shown.contains(told), "{shown}");
    ends(&home, 2, "2.2", "finished", "retry 1 of 1 after a crash");
    assert_eq!(read("again"), "again\n");
}
