//! One experiment folder from start to results.

use std::fs;
use std::path::Path;

use nero_tests::home::program;
use nero_tests::{Home, Part, until};

/// Path of the program that misbehaves by command.
pub fn job() -> String {
    program("nero-job").display().to_string()
}

/// Adds a folder and returns its path as text.
pub fn added(home: &Home, name: &str, yaml: &str) -> String {
    let folder = home.experiment(name, yaml).display().to_string();
    home.ok(&["add", &folder]);
    folder
}

#[test]
fn a_folder_runs_from_start_to_results() {
    let home = Home::new();
    let yaml = "collection: story
outputs: [stdout, 'model*.txt']
+train:
  command: [sh, -c, 'echo \"epoch 1: loss = 0.5\"; echo \"epoch 2: loss = 0.25\"; echo oops >&2; echo w > model1.txt']
";
    let folder = added(&home, "story", yaml);
    assert!(home.ok(&["start", "1"]).contains("started 1"));
    home.ok(&["wait", "1"]);

    let seen = home.until_settled(1);
    assert_eq!(seen["state"], "finished", "{seen:#}");
    assert_eq!(seen["exit_code"], 0);
    assert_eq!(seen["run"], "1.1");
    assert_eq!(seen["collection"], "story");

    let metrics = home.json(&["metrics", "1", "loss"]);
    let text = metrics.to_string();
    assert!(text.contains("0.5") && text.contains("0.25"), "{text}");
    assert_eq!(home.ok(&["logs", "1", "--stderr"]), "oops\n");
    assert_eq!(
        home.ok(&["logs", "1.1"]),
        "epoch 1: loss = 0.5\nepoch 2: loss = 0.25\n"
    );

    let results = Path::new(&folder).join("results/latest");
    until("the results to be at home", || {
        fs::read_to_string(results.join("model1.txt")).map_err(|error| (error, home.logs()))
    });
    assert!(
        fs::read_to_string(results.join("stdout.log"))
            .unwrap()
            .contains("epoch 2")
    );
    let path = home.ok(&["path", "1"]);
    assert_eq!(
        fs::canonicalize(path.trim()).unwrap(),
        fs::canonicalize(&results).unwrap(),
        "`path` says where the results lie"
    );
    assert!(home.ok(&["results", "1"]).contains("loss"));
    let plot = home.ok(&["plot", "1", "loss * 2"]);
    assert!(
        plot.contains("loss * 2") && !plot.contains("no points"),
        "{plot}"
    );
}

#[test]
fn verbs_work_as_flags_in_the_order_written() {
    let home = Home::new();
    let folder = home.experiment("f", "collection: f\n+a:\n  command: 'true'\n");
    let folder = folder.display().to_string();
    let ran = home.run(&["--add", &folder, "--start", "1", "--wait", "1", "--status"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("finished"), "{ran:#?}");
}

#[test]
fn each_end_has_its_own_word_and_exit_code() {
    let home = Home::new();
    let yaml = format!(
        "collection: e
+ok: {{command: '{0} exit 0'}}
+three: {{command: '{0} exit 3'}}
+killed: {{command: '{0} signal 9'}}
+nowhere: {{command: no-such-program-anywhere}}
+limited: {{command: sleep 600, resources: {{time: 1s}}}}
",
        job()
    );
    added(&home, "e", &yaml);
    home.ok(&["start", "all"]);
    assert_eq!(
        home.run(&["wait", "all"]).code,
        Some(1),
        "some did not finish"
    );
    let by_id = |id| home.experiment_json(id);
    assert_eq!(by_id(1)["state"], "finished");
    let three = by_id(2);
    assert_eq!(
        (&three["state"], &three["exit_code"]),
        (&"crashed".into(), &3.into())
    );
    let killed = by_id(3);
    assert_eq!(
        (&killed["state"], &killed["signal"]),
        (&"crashed".into(), &9.into())
    );
    assert!(
        killed["reason"].as_str().unwrap().contains("SIGKILL"),
        "{killed}"
    );
    let nowhere = by_id(4);
    assert_eq!(nowhere["state"], "crashed");
    assert!(
        nowhere["reason"].as_str().unwrap().contains("No such file"),
        "{nowhere}"
    );
    assert_eq!(
        nowhere["exit_code"],
        serde_json::Value::Null,
        "it never ran"
    );
    assert_eq!(by_id(5)["state"], "timeout");
    assert_eq!(home.run(&["wait", "1"]).code, Some(0));
}

#[test]
fn a_job_starts_from_a_clean_environment_in_its_own_folder() {
    let mut home = Home::new();
    home.set_env("MY_SECRET_TOKEN", "hunter2");
    home.set_env("LD_LIBRARY_PATH", "/opt/nothing");
    let yaml = format!(
        "collection: env\n+e:\n  command: {} environment\n  parameters: {{lr: 0.10}}\n  env: {{HOME_COPY: $HOME, LANG: null}}\n",
        job()
    );
    added(&home, "env", &yaml);
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    let out = home.ok(&["logs", "1"]);
    let value = |name: &str| {
        let prefix = format!("{name}=");
        out.lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
    };
    assert_eq!(value("MY_SECRET_TOKEN"), None, "{out}");
    assert_eq!(value("LANG"), None, "null unsets");
    assert_eq!(value("NERO_RUN").as_deref(), Some("1.1"));
    assert_eq!(value("NERO_ID").as_deref(), Some("1"));
    assert_eq!(value("NERO_NAME").as_deref(), Some("e"));
    assert_eq!(value("NERO_NODE").as_deref(), Some("local"));
    assert_eq!(value("NERO_PARAM_LR").as_deref(), Some("0.10"), "as typed");
    assert_eq!(value("PYTHONUNBUFFERED").as_deref(), Some("1"));
    assert_eq!(value("LD_LIBRARY_PATH").as_deref(), Some("/opt/nothing"));
    assert_eq!(value("HOME_COPY"), value("HOME"));
    let folder = value("NERO_DIR").unwrap();
    assert!(value("PWD").is_none_or(|pwd| pwd == folder), "{out}");
    assert!(!out.contains("hunter2"));
}

#[test]
fn code_is_frozen_at_start_and_restart_takes_the_present() {
    let home = Home::new();
    let folder = home.experiment("code", "collection: code\n+c:\n  command: sh main.sh\n");
    let main = folder.join("main.sh");
    let pipe = home.path().join("pipe");
    fs::write(&main, format!("cat {}; echo one\n", pipe.display())).unwrap();
    make_pipe(&pipe);
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    fs::write(&main, "echo two\n").unwrap();
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "one\n");
    home.ok(&["restart", "1"]);
    home.ok(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "two\n");
    assert_eq!(home.experiment_json(1)["run"], "1.2");
    assert_eq!(
        home.ok(&["logs", "1.1"]),
        "one\n",
        "the first run keeps its own"
    );
}

#[test]
fn finished_and_live_ones_are_skipped_with_the_reason() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: s\n+done: {{command: 'true'}}\n+live: {{command: '{} hold {}'}}\n",
        job(),
        pipe.display()
    );
    added(&home, "s", &yaml);
    home.ok(&["start", "all"]);
    home.ok(&["wait", "1"]);
    home.until_state(2, "running");
    let again = home.run(&["start", "1-2"]);
    assert_eq!(again.code, Some(1), "it started nothing: {again:#?}");
    let said = format!("{}{}", again.out, again.err);
    assert!(
        said.contains("1 running") && said.contains("1 finished"),
        "{said}"
    );
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "2"]);
}

#[test]
fn abort_ends_the_run_and_takes_queued_ones_away() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 1}}\n");
    added(
        &home,
        "a",
        "collection: a\n+one: {command: sleep 600}\n+two: {command: sleep 600}\n",
    );
    home.ok(&["start", "all"]);
    home.until_state(1, "running");
    let seen = home.until_state(2, "pending");
    assert_eq!(seen["exit_code"], serde_json::Value::Null);
    let said = home.ok(&["abort", "1-2", "--yes"]);
    assert!(said.contains('2'), "{said}");
    home.run(&["wait", "all"]);
    for id in [1, 2] {
        assert_eq!(home.experiment_json(id)["state"], "aborted");
    }
    assert!(home.alive(Part::Job).is_empty());
}

#[test]
fn logs_of_an_empty_output_names_the_other_stream() {
    let home = Home::new();
    let job = "command: [sh, -c, 'echo broken >&2; exit 1']";
    added(&home, "a", &format!("collection: a\n+one: {{{job}}}\n"));
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    let ran = home.run(&["logs", "1"]);
    assert_eq!(ran.out, "", "{ran:?}");
    assert!(ran.err.contains("neroman logs 1 --stderr"), "{ran:?}");
    let ran = home.run(&["logs", "1", "--stderr"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("broken\n", ""));
}

#[test]
fn logs_of_several_runs_show_the_last_lines_of_each_below_its_name() {
    let home = Home::new();
    let yaml = "collection: a
+one: {command: [sh, -c, 'echo out; for n in 1 2 3 4; do echo one $n >&2; done; exit 1']}
+two: {command: [sh, -c, 'printf \"\\r10%%\\r20%%\\r30%%\" >&2; exit 1']}
+quiet: {command: 'true'}
+never: {command: 'true'}
";
    added(&home, "a", yaml);
    home.ok(&["start", "1-3"]);
    home.run(&["wait", "1-3"]);
    let ran = home.run(&["logs", "all", "--stderr", "-n", "2"]);
    let want = "==> 1.1 one, crashed <==\none 3\none 4\n\n==> 2.1 two, crashed <==\n20%\r30%\n\n\
                ==> 3.1 quiet, finished <==\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), want), "{ran:?}");
    assert_eq!(ran.err, "note: 1 experiment never ran\n");
    // Words are a union, a name is one run, and the line of a log says where it is from.
    assert_eq!(home.ok(&["logs", "one"]), "out\n");
    let both = home.ok(&["logs", "1", "2", "--stderr", "-n", "1"]);
    assert!(
        both.starts_with("==> 1.1 one, crashed <==\none 4\n"),
        "{both}"
    );
    let ran = home.run(&["logs", "failed"]);
    assert!(ran.err.contains("2.1: it printed nothing"), "{ran:?}");
    assert!(ran.err.contains("neroman logs 2.1 --stderr"), "{ran:?}");
    let ran = home.run(&["logs", "failed", "-f"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "1.1 | out\n"),
        "{ran:#?}"
    );
    let note = "2.1: it printed nothing on standard output, but on standard error";
    assert!(ran.err.contains(note), "{ran:#?}");
    let ran = home.run(&["logs", "never,4"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("has never run"), "{ran:?}");
}

#[test]
fn an_empty_home_prints_the_three_commands_to_type() {
    let home = Home::new();
    let out = home.ok(&["status"]);
    for word in ["neroman add", "neroman start", "neroman status"] {
        assert!(out.contains(word), "{out}");
    }
}

/// A named pipe; jobs block on it until a test writes.
pub fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
}
