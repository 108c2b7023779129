//! Specs of Training Noodles that run: on this machine, over ssh, and whoever dies meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nero_tests::disk::Small;
use nero_tests::{Home, Part, until};

const LOCAL: &str = r#"
servers: [{name: one}, {name: two}]
round_interval: 0
write_status_to: {run: $PLACE/status.yml}
experiment_default: {envs: {PLACE: .}}
error_handlers:
- {return_code: 3, stderr_pattern: 'again\n', commands: ['echo handled $NOODLES_EXPERIMENT_NAME >> order'], action: retry}
- {return_code: 0, stderr_pattern: 'odd\n', action: continue}
before_all_experiments:
- {name: init, commands: {run: 'echo init >> order'}}
- {name: 'lr>made $HOME', commands: {run: 'echo "$NOODLES_EXPERIMENT_NAME" >> order'}}
experiments:
- name: a
  envs: {WHO: "it's \"me\""}
  commands: {run: ['echo a $WHO $NOODLES_SERVER_NAME >> order', 'cd /', 'local:pwd', 'echo last']}
  write_outputs: {run: {stdout_to: a.out}}
- name: b
  depends_on: {run: a}
  commands: {run: 'test -e tried || { touch tried; echo again >&2; exit 3; }; echo b $NOODLES_SERVER_NAME >> order'}
- name: c
  requirements: {run: [ready: ==Yes]}
  commands: {run: 'echo c >> order; echo odd >&2'}
- {name: empty}
requirements: {ready: 'test -e tried && echo Yes || echo No'}
after_all_experiments:
- {name: end, commands: {run: 'echo end >> order; sleep 300 >/dev/null 2>&1 & echo $! > left'}}
"#;

pub fn folder(home: &Home, spec: &str) -> std::path::PathBuf {
    let folder = home.path().join("flow");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("spec.yml"), spec).unwrap();
    folder
}

/// The name of the flow that the home has.
pub fn only_flow(home: &Home) -> String {
    let flows = fs::read_dir(home.base().join("data/flows")).unwrap();
    let flow = flows.map(|flow| flow.unwrap().file_name().into_string().unwrap());
    flow.last().unwrap()
}

pub fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[test]
fn a_flow_takes_its_stages_handlers_outputs_and_status() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    // A person's defaults are for her experiments.
    home.configure("defaults: {retry: 2, setup: 'echo setup >> order'}\n");
    let folder = folder(&home, LOCAL);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let ran = command.current_dir(&folder).output().unwrap();
    let log = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{log}\n{}", home.logs());
    let expected = "init\nlr>made $HOME\na it's \"me\" one\nhandled b\nc\nb one\nend\n";
    assert_eq!(read(&folder, "order"), expected, "{log}");
    assert_eq!(
        read(&folder, "a.out"),
        format!("{}\nlast\n", folder.display())
    );
    let mode = |name| fs::metadata(folder.join(name)).unwrap().mode();
    assert_eq!(mode("a.out"), mode("spec.yml"), "the caller's umask");
    for line in [
        " run      INFO     Start stage \"before_all_experiments\"\n",
        " run      INFO     Deploy experiment \"b\" to server \"two\"\n",
        " run      WARNING  Unsuccessful deployment of experiment \"b\", will retry\n",
        " run      WARNING  Unsuccessful deployment of experiment \"c\", will continue\n",
        " run      INFO     STDOUT output is written to \"a.out\"\n",
        " run      WARNING  Commands output from STDERR->\nodd\n",
        " run      INFO     Successfully deployed 100% (4/4) \"run\" experiments\n",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    let status = read(&folder, "status.yml");
    assert!(
        // Nothing is deployed after it, so it is not written again for the empty one.
        status.contains("Undeployed experiments (For command): empty\n"),
        "{status}"
    );
    // What a command leaves behind on purpose goes on.
    let left = read(&folder, "left").trim().to_owned();
    assert!(Path::new("/proc").join(&left).exists(), "{left}");
    let raw = left.parse().ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(raw.unwrap(), rustix::process::Signal::KILL).unwrap();
}

const GATED: &str = r#"
servers: [{name: one}]
round_interval: 0
experiments:
- {name: a, commands: {run: ['echo a1 >> order', 'local:echo a2 >> order']}, write_outputs: {run: {stdout_to: out}}}
- name: b
  commands: {run: ['echo b1 >> order; while ! test -e gate; do sleep 0.05; done; echo b1 done >> order', 'local:echo b2 >> order', 'echo b3 >> order']}
- {name: c, commands: {run: 'echo c >> order; test -e mended'}}
- {name: d, commands: {run: 'echo d >> order'}}
"#;

/// No group runs twice or is left out, and what ended the flow is tried again.
#[test]
fn a_flow_goes_on_after_the_death_of_everyone_but_its_group() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let folder = folder(&home, GATED);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let mut followed = command.current_dir(&folder).spawn().unwrap();
    until("the gated group", || match read(&folder, "order") {
        order if order.contains("b1") => Ok(()),
        order => Err(order),
    });
    followed.kill().unwrap();
    followed.wait().unwrap();
    home.kill(Part::Daemon);
    home.kill(Part::Mum);
    let flow = only_flow(&home);
    forget_the_last_start(&home, &flow);
    fs::write(folder.join("gate"), "").unwrap();
    let ran = home.run(&["noodles", "--resume", &flow]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(
        ran.err
            .contains("experiment `c` on server `one` ended the flow"),
        "{ran:#?}"
    );
    assert!(
        ran.err
            .contains(&format!("neroman noodles --resume {flow}")),
        "{ran:#?}"
    );
    fs::write(folder.join("mended"), "").unwrap();
    let ran = home.run(&["noodles", "--resume", &flow]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let expected = "a1\na2\nb1\nb1 done\nb2\nb3\nc\nc\nd\n";
    assert_eq!(read(&folder, "order"), expected);
    // It has ended: nothing is done again.
    assert_eq!(home.run(&["noodles", "--resume", &flow]).code, Some(0));
    assert_eq!(read(&folder, "order"), expected);
}

/// As if the answer to it had not come, and the flow were taken up weeks later.
fn forget_the_last_start(home: &Home, flow: &str) {
    let path = home.base().join(format!("data/flows/{flow}/journal"));
    let journal = fs::read_to_string(&path).unwrap();
    let before = journal.rfind("{\"run\":").expect("the group was started");
    assert_eq!(journal[before..].lines().count(), 1, "{journal}");
    fs::write(&path, &journal[..before]).unwrap();
    let db = rusqlite::Connection::open(home.base().join("data/state.db")).unwrap();
    // The next daemon looks for the write-ahead log that the last one left.
    let stays = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    db.set_db_config(stays, true).unwrap();
    assert!(db.execute("DELETE FROM request", []).unwrap() > 0);
}

const ODD: &str = r#"
servers: [{name: one}]
round_interval: 0
write_status_to: {run: state/status}
requirements:
  hangs: 'test -e hung && echo 1 || { touch hung; sleep 1000; }'
  floods: 'yes'
  nothing: 'true'
error_handlers:
- {return_code: 7, stderr_pattern: '[\S\s]*', commands: ['echo answered >> order; echo oh >&2; exit 7'], action: continue}
- {return_code: 153, stderr_pattern: '[\S\s]*', action: continue}
- {return_code: 0, stderr_pattern: '1\n[\S\s]*', action: continue}
experiments:
- {name: vanishes, commands: {run: rm -r state; echo vanishes >> order}}
- {name: fails, commands: {run: echo fails >> order; exit 7}}
- name: fills both
  commands: {run: '{ seq 1 400000 & seq 1 400000 >&2; wait; }; echo fills >> order'}
  write_outputs: {run: {stdout_to: out, stderr_to: err}}
- {name: hung, requirements: {run: [hangs: ==1]}, commands: {run: echo hung >> order}}
- {name: flooded, requirements: {run: [floods: '!=1']}, commands: {run: echo flooded >> order}}
- {name: nothing, requirements: {run: [nothing: '!=1']}, commands: {run: echo nothing >> order}}
- {name: limits, depends_on: {run: [hung, flooded]}, commands: {run: ulimit -n >> order; nice >> order; ulimit -v >> order}}
"#;

/// None of these ends the flow, and commands have the limits of the shell that typed it.
#[test]
fn a_flow_goes_on_past_probes_and_commands_of_every_odd_kind() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let mut limited = home.in_environment("sh");
    limited.args(["-c", "ulimit -v 30000000; exec \"$0\" daemon start"]);
    assert!(limited.arg(home.neroman()).status().unwrap().success());
    let folder = folder(&home, ODD);
    fs::create_dir(folder.join("state")).unwrap();
    let mut command = home.in_environment("sh");
    command.args(["-c", "ulimit -S -n 300; exec nice -n 3 \"$@\"", "sh"]);
    command.arg(home.neroman());
    command.args(["noodles", "run", "spec.yml", "--probe-limit", "2s"]);
    let ran = command.current_dir(&folder).output().unwrap();
    let log = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{log}\n{}", home.logs());
    let order = read(&folder, "order");
    let (mut first, last): (Vec<&str>, Vec<&str>) =
        order.lines().partition(|line| line.parse::<u64>().is_err());
    first.sort_unstable();
    let all = "answered fails fills flooded hung nothing vanishes";
    assert_eq!(first.join(" "), all, "{log}");
    let mut nice = std::process::Command::new("nice");
    let niceness = nice.args(["-n", "3", "nice"]).output().unwrap().stdout;
    let niceness = String::from_utf8(niceness).unwrap();
    assert_eq!(last, ["300", niceness.trim(), "30000000"], "{log}");
    let lines: Vec<String> = (1..=400_000).map(|line| format!("{line}\n")).collect();
    for name in ["out", "err"] {
        assert!(read(&folder, name) == lines.concat(), "{name}\n{log}");
    }
    for words in [
        "Cannot write the status file",
        "Requirement \"hangs\" has no value on server \"one\": no end within 2s",
        "Commands are limited as the shell was that started the daemon: address space",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    for once in ["Commands are limited", "Cannot write the status file"] {
        assert_eq!(log.matches(once).count(), 1, "{log}");
    }
}

const ABORTED: &str = r#"
servers: [{name: one}]
round_interval: 0
experiments:
- {name: a, commands: {run: ['test -e gate || { echo a0 >&2; exit 4; }', 'local:echo a1 >> order; test -e gate || sleep 1000', 'remote:echo a2 >> order']}}
- {name: b, commands: {run: 'echo b >> order'}}
error_handlers:
- {return_code: 4, stderr_pattern: 'a0\n', action: retry}
- {return_code: '-?[0-9]+', stderr_pattern: '[\S\s]*', action: continue}
"#;

/// A person's abort is no error that a handler may pass over, also not one of an earlier group.
#[test]
fn an_aborted_group_ends_its_flow_and_is_run_again_at_a_persons_word() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let folder = folder(&home, ABORTED);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let mut followed = command.current_dir(&folder).spawn().unwrap();
    until("the first group", || match read(&folder, "order") {
        order if order.contains("a1") => Ok(()),
        order => Err(order),
    });
    home.ok(&["abort", "1", "--yes"]);
    assert_eq!(followed.wait().unwrap().code(), Some(1));
    assert_eq!(read(&folder, "order"), "a1\n");
    fs::write(folder.join("gate"), "").unwrap();
    let ran = home.run(&["noodles", "--resume", &only_flow(&home)]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(read(&folder, "order"), "a1\na1\na2\nb\n");
}

const SHORT: &str = r#"
servers: [{name: one}]
round_interval: 0
error_handlers: [{return_code: 7, stderr_pattern: 'odd\n', commands: ['echo response >> order'], action: continue}]
requirements: {odd: 'echo odd >&2; exit 7', ready: 'echo 1'}
experiments:
- {name: a, commands: {run: 'echo a >> order'}, requirements: {run: [ready: '>0']}}
- {name: b, commands: {run: 'echo waits >> order; while ! test -e gate; do sleep 0.05; done; echo b >> order'}}
- {name: c, commands: {run: 'echo c >> order'}}
"#;

/// A deadline ends the following, not the group; `--detach` goes on without a terminal; a job that
/// has all processors does not hold a flow up.
#[test]
fn a_flow_that_passed_its_deadline_goes_on_in_the_background() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    home.configure("nodes: {local: {cpus: 1}}\n");
    home.experiment("busy", "command: sleep 1000\n");
    home.ok(&["start", &home.path().join("busy").display().to_string()]);
    home.until_state(1, "running");
    let folder = folder(&home, SHORT);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let mut followed = command.current_dir(&folder).spawn().unwrap();
    until("the gated group", || match read(&folder, "order") {
        order if order == "a\nwaits\n" => Ok(()),
        order => Err((order, home.logs())),
    });
    let flow = only_flow(&home);
    let listed = home.ok(&["noodles", "--resume"]);
    assert!(
        listed.contains(&flow) && listed.contains("runs"),
        "{listed}"
    );
    followed.kill().unwrap();
    followed.wait().unwrap();
    let ran = home.run(&["noodles", "--resume", &flow, "--deadline", "0.5s"]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.err.contains("the deadline has passed"), "{ran:#?}");
    let listed = home.ok(&["noodles", "--resume"]);
    assert!(listed.contains("stopped"), "{listed}");
    fs::write(folder.join("spec.yml"), "other").unwrap();
    let ran = home.run(&["noodles", "--resume", &flow, "--detach"]);
    assert!(ran.err.contains("spec.yml has changed since"), "{ran:#?}");
    fs::write(folder.join("gate"), "").unwrap();
    until("the end of the flow", || {
        let listed = home.run(&["noodles", "--resume"]);
        let log = read(&home.base().join("data/flows").join(&flow), "log");
        let is_over = !listed.out.contains(&flow) && log.contains("Successfully deployed 100%");
        is_over.then_some(()).ok_or((listed, log))
    });
    assert_eq!(read(&folder, "order"), "a\nwaits\nb\nc\n");
    home.ok(&["abort", "1", "--yes"]);
}

/// The commands of a handler run for a probe, too.
#[test]
fn a_probe_that_fails_is_answered_by_its_handler() {
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let spec = SHORT.replace("ready: '>0'", "odd: '!=1'");
    let folder = folder(&home, &spec);
    fs::write(folder.join("gate"), "").unwrap();
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let ran = command.current_dir(&folder).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let order = read(&folder, "order");
    assert_eq!(order, "response\na\nwaits\nb\nc\n", "{ran:?}");
}

const FILLING: &str = r#"
servers: [{name: one}]
round_interval: 0
experiments:
- {name: a, commands: {run: ['echo a >> order; head -c 100000 /dev/zero', 'local:echo second >> order']}, write_outputs: {run: {stdout_to: $SMALL/out}}}
- {name: b, commands: {run: 'echo b >> order'}}
"#;

/// What the shell says is the error of the group, and after room was made the flow goes on.
#[test]
fn a_full_disk_under_an_output_ends_the_flow_and_is_got_over() {
    let Some(small) = Small::mounted(2) else {
        return;
    };
    let mut home = Home::new();
    home.set_env("USER", "tester");
    home.set_env("SMALL", small.path().to_str().unwrap());
    let folder = folder(&home, FILLING);
    small.fill();
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let ran = command.current_dir(&folder).output().unwrap();
    let log = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{log}");
    assert!(log.contains("No space left on device"), "{log}");
    assert!(
        log.contains("experiment `a` on server `one` ended the flow"),
        "{log}"
    );
    small.empty();
    let ran = home.run(&["noodles", "--resume", &only_flow(&home)]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(read(&folder, "order"), "a\nsecond\na\nsecond\nb\n");
    let out = fs::metadata(small.path().join("out")).unwrap();
    assert_eq!(out.len(), 100_000, "every byte once");
}

#[test]
fn an_imported_spec_runs_in_our_own_words_whoever_is_killed() {
    let home = Home::new();
    let folder = folder(&home, LOCAL);
    let mut command = home.command(&["import", "spec.yml"]);
    let ran = command.current_dir(&folder).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{told}");
    for lost in ["the status file", "stdout_to"] {
        assert!(told.contains(lost), "{lost}: {told}");
    }
    let again = home.command(&["import", "spec.yml"]);
    let again = { again }.current_dir(&folder).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "it would overwrite the file");
    let file = folder.join("neronet.yaml").display().to_string();
    home.ok(&["add", &file]);
    home.ok(&["start", "all"]);
    until("the second try", || match read(&folder, "order") {
        order if order.contains("b one\n") => Ok(()),
        order => Err((order, home.ok(&["status"]), home.logs())),
    });
    // The next daemon asks at once whether all is ready.
    home.kill(Part::Daemon);
    home.ok(&["wait", "all"]);
    let order = read(&folder, "order");
    let mut lines: Vec<&str> = order.lines().collect();
    assert_eq!(lines.last(), Some(&"end"), "{order}");
    let at = |line: &str| lines.iter().position(|one| *one == line);
    assert!(at("a it's \"me\" one") < at("b one"), "{order}");
    lines.sort_unstable();
    let all = [
        "a it's \"me\" one",
        "b one",
        "c",
        "end",
        "handled b",
        "init",
        "lr>made $HOME",
    ];
    assert_eq!(lines, all, "{order}");
    let left = read(&folder, "left").trim().to_owned();
    assert!(Path::new("/proc").join(&left).exists(), "it stays: {left}");
    let raw = left.parse().ok().and_then(rustix::process::Pid::from_raw);
    let _ = rustix::process::kill_process(raw.unwrap(), rustix::process::Signal::KILL);
}
