//! Runs over several hosts of a real scheduler.

use nero_model::ProcessId;
use nero_tests::cluster::Scheduler;
use nero_tests::home::end;
use nero_tests::login::Login;
use nero_tests::until;

/// What each process of a run writes down: its host, and what it is told of all hosts.
const TELL: &str = "echo $(hostname) $NERO_NNODES $NERO_HOSTS $MASTER_ADDR $MASTER_PORT";
/// Takes 30 MB of memory of a shell.
const TAKE: &str = r#"x=$(head -c 30000000 /dev/zero | tr "\0" a)"#;
const MB: f64 = 1e6;

/// Waits until so many lines are in a file of this home's folder; returns their words.
#[track_caller]
fn until_lines(login: &Login, name: &str, count: usize) -> Vec<Vec<String>> {
    until(&format!("{count} lines in {name}"), || {
        let text = std::fs::read_to_string(login.home.path().join(name)).unwrap_or_default();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let lines: Vec<Vec<String>> = text.lines().map(words).collect();
        if lines.len() == count {
            Ok(lines)
        } else {
            Err((text, login.home.experiment_json(1), login.home.logs()))
        }
    })
}

/// Processes whose environment has all of these.
fn with_environment(marks: &[String]) -> Vec<ProcessId> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        marks
            .iter()
            .all(|mark| text.split('\0').any(|one| one.starts_with(mark)))
    };
    pids.filter(has)
        .filter_map(|pid| ProcessId::of(pid).ok())
        .collect()
}

/// Processes of runs of this home, on any host.
fn processes_of_runs(login: &Login) -> Vec<ProcessId> {
    with_environment(&[format!("NERO_DIR={}/", login.home.base().display())])
}

/// Helpers of this home on one host of SLURM.
fn helpers_on(login: &Login, host: &str) -> Vec<ProcessId> {
    let there = with_environment(&[format!("SLURMD_NODENAME={host}")]);
    let base = login.home.base().display().to_string();
    let is_helper = |one: &ProcessId| {
        let words = std::fs::read(format!("/proc/{}/cmdline", one.pid)).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let words: Vec<&str> = words.split('\0').collect();
        words[0].ends_with("/nerokid") && words[1] == "host" && words[2].starts_with(&base)
    };
    there.into_iter().filter(is_helper).collect()
}

#[test]
fn a_run_over_two_hosts_of_slurm_is_told_of_them_and_measured_on_both() {
    let login = Login::new(Scheduler::Slurm);
    let (said, go) = (login.path("said"), login.path("go"));
    let wait = format!("while ! [ -e {go} ]; do sleep 0.1; done");
    let yaml = format!(
        "command: [sh, -c, '{TAKE}; {TELL} >> {said}; {wait}; echo loss=0.5; exit 3']\n\
         launcher: srun\nmonitor: {{interval: 500ms}}\n\
         resources: {{nodes: 2, processes: 4, cpus: 8, memory: 800M}}\n"
    );
    let folder = login.home.experiment("a", &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let lines = until_lines(&login, "said", 4);
    let hosts: Vec<&str> = lines[0][2].split(',').collect();
    assert_eq!(hosts.len(), 2, "{lines:?}");
    for host in &hosts {
        let there = lines.iter().filter(|line| line[0] == *host);
        assert_eq!(there.count(), 2, "{lines:?}");
    }
    for line in &lines {
        assert_eq!((&*line[1], &*line[3]), ("2", hosts[0]), "{lines:?}");
        assert_eq!(line[2..], lines[0][2..], "{lines:?}");
        let port: u16 = line[4].parse().unwrap();
        assert!((20_000..30_000).contains(&port), "{lines:?}");
    }
    let memory = |what: &str, fits: &dyn Fn(f64) -> bool| {
        login.until(1, what, |seen| {
            seen["rss_bytes"].as_f64().is_some_and(|rss| fits(rss / MB))
        })
    };
    let seen = memory("to be measured on both hosts", &|rss| rss > 118.0);
    assert_eq!(seen["warnings"], serde_json::json!([]), "{seen:#}");
    // Without its helper a host is named once, and the run goes on.
    let helpers = helpers_on(&login, hosts[1]);
    assert_eq!(helpers.len(), 1, "{}", login.home.logs());
    end(&helpers);
    let seen = memory("to be measured on one host", &|rss| rss < 100.0);
    let warnings = seen["warnings"].to_string();
    let unwatched = format!("nobody watches the run on {}: ", hosts[1]);
    assert!(warnings.contains(&unwatched), "{warnings}");
    std::fs::write(&go, "").unwrap();
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["warnings"].to_string(), warnings, "once");
    let shown = login.home.ok(&["show", "1"]);
    let granted = format!("on 2 hosts: {} {}, ", hosts[0], hosts[1]);
    assert!(shown.contains(&granted), "{shown}");
    assert!(shown.contains("8 CPUs"), "{shown}");
}

/// Whether a process is stopped: by a signal, or by SLURM, which freezes its group where
/// it has groups.
fn is_stopped(process: &ProcessId) -> bool {
    let stat = nero_model::process::Stat::read(process.pid);
    stat.is_ok_and(|stat| [b'T', b'D'].contains(&stat.state))
}

#[test]
fn srun_passes_pauses_on_and_its_processes_have_their_signal_and_the_grace_on_every_host() {
    let login = Login::new(Scheduler::Slurm);
    let (said, saved) = (login.path("said"), login.path("saved"));
    // Each of them needs its time to save something.
    let save = format!("sleep 2; {TELL} >> {saved}; exit 0");
    let lines = format!("trap \"{save}\" TERM; {TELL} >> {said}; while :; do sleep 0.1; done");
    let yaml = format!(
        "command: [sh, -c, '{lines}']\nlauncher: srun\n\
         monitor: {{grace: 60s}}\nresources: {{nodes: 2}}\n"
    );
    let folder = login.home.experiment("a", &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let hosts = until_lines(&login, "said", 2);
    let all_stopped = |wanted: bool| {
        until(&format!("all stopped: {wanted}"), || {
            let all = processes_of_runs(&login);
            if all.iter().all(|one| is_stopped(one) == wanted) {
                Ok(())
            } else {
                Err((all, login.home.logs()))
            }
        });
    };
    login.home.ok(&["pause", "1"]);
    all_stopped(true);
    login.home.ok(&["resume", "1"]);
    all_stopped(false);
    login.home.ok(&["abort", "1"]);
    let seen = login.home.until_state(1, "aborted");
    assert_eq!(seen["exit_code"], 0, "{seen:#}");
    let both = [&hosts, &until_lines(&login, "saved", 2)].map(|lines| {
        let mut hosts: Vec<String> = lines.iter().map(|line| line[0].clone()).collect();
        hosts.sort();
        hosts
    });
    assert_eq!(both[0], both[1], "each host, once");
}

#[test]
fn an_abort_leaves_nothing_on_any_host_of_slurm_and_too_many_hosts_are_refused() {
    let login = Login::new(Scheduler::Slurm);
    let said = login.path("said");
    // It does not want to end, and has a child that nobody knows.
    let lines =
        format!("trap \"\" TERM; setsid sleep 1000 & {TELL} >> {said}; sleep 1000; sleep 1000");
    let yaml = format!(
        "command: [sh, -c, '{lines}']\nlauncher: srun\n\
         monitor: {{grace: 1s}}\nresources: {{nodes: 2}}\n"
    );
    let folder = login.home.experiment("a", &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    until_lines(&login, "said", 2);
    assert!(processes_of_runs(&login).len() >= 6);
    login.home.ok(&["abort", "1"]);
    login.home.until_state(1, "aborted");
    until("nothing of the run to live", || {
        let left = processes_of_runs(&login);
        if left.is_empty() {
            Ok(())
        } else {
            Err((left, login.home.logs()))
        }
    });

    // The scheduler would take it, and keep it for ever.
    let yaml = "command: ['true']\nresources: {nodes: 4}\n";
    let folder = login.home.experiment("b", yaml);
    let refused = login.home.run(&["start", folder.to_str().unwrap()]);
    let text = format!("{refused:?}");
    assert!(text.contains("main: nodes 3 < 4"), "{text}");
}

#[test]
fn a_run_over_two_hosts_of_grid_engine_leaves_nothing_on_either() {
    let scheduler = Scheduler::GridEngine;
    let login = Login::alone_with(scheduler, &[("HOSTS", "2")]);
    let (said, go, each) = (login.path("said"), login.path("go"), login.path("each.sh"));
    // A session of its own, which Grid Engine does not end.
    let lines = format!(
        "{TAKE}\nsetsid sleep 1000 > /dev/null 2>&1 &\n{TELL} >> {said}\nwhile ! [ -e {go} ]; do sleep 0.1; done\n"
    );
    std::fs::write(&each, lines).unwrap();
    let all = format!(
        "for host in $(echo $NERO_HOSTS | tr , \" \"); do qrsh -inherit -V $host /bin/sh {each} & \
         done; wait; exit 3"
    );
    let yaml = format!(
        "command: [sh, -c, '{all}']\nparallel_env: mpi\nmonitor: {{interval: 500ms}}\n\
         resources: {{nodes: 2, cpus: 4}}\n"
    );
    let folder = login.home.experiment("a", &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let lines = until_lines(&login, "said", 2);
    let hosts: Vec<&str> = lines[0][2].split(',').collect();
    assert_eq!(hosts.len(), 2, "{lines:?}");
    assert_ne!(lines[0][0], lines[1][0], "{lines:?}");
    assert_eq!(lines[0][1..], lines[1][1..], "{lines:?}");
    login.until(1, "to be measured on both hosts", |seen| {
        seen["rss_bytes"]
            .as_f64()
            .is_some_and(|rss| rss > 58.0 * MB)
    });
    std::fs::write(&go, "").unwrap();
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["warnings"], serde_json::json!([]), "{seen:#}");
    until("nothing of the run to live", || {
        let left = processes_of_runs(&login);
        if left.is_empty() {
            Ok(())
        } else {
            Err((left, login.home.logs()))
        }
    });

    // Its parallel environments decide how many hosts there are.
    let yaml = "command: ['true']\nparallel_env: smp\nresources: {nodes: 2, cpus: 4}\n";
    let folder = login.home.experiment("b", yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let seen = login.home.until_settled(2);
    let warnings = seen["warnings"].to_string();
    let expected = "`nodes: 2` was asked for, and Grid Engine gave 1: ";
    assert!(warnings.contains(expected), "{seen:#}");
}
