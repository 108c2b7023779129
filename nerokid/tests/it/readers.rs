//! Readers of the output that users wrote, good and bad, started by the real watcher.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nero_journal::v1::{Notice, RecordKind, WatchEnded};
use nero_model::ProcessId;
use nero_wire::v1::{MetricReader, MetricReading, Monitor, RunSpec};

use crate::rig::{Rig, until};

/// A run with these readers, given as lines for `sh`. What its job prints (`#3`) is no
/// metric itself.
fn run(scripts: &[&str]) -> Rig {
    let reader = |script: &&str| MetricReader {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
    };
    with(scripts.iter().map(reader).collect())
}

fn with(readers: Vec<MetricReader>) -> Rig {
    let rig = Rig::new(RunSpec {
        metric_reading: Some(MetricReading {
            readers,
            ..MetricReading::default()
        }),
        monitor: Some(Monitor {
            grace_ms: 500,
            ..Monitor::default()
        }),
        ..RunSpec::default()
    });
    fs::create_dir(rig.folder.path().join("work")).unwrap();
    rig
}

fn shown(rig: &Rig) -> Vec<String> {
    let points = rig.points().into_iter();
    points
        .map(|(name, step, _, value)| format!("{name}={value}@{step}"))
        .collect()
}

fn notices(rig: &Rig) -> Vec<String> {
    let all = rig.all::<Notice>(RecordKind::Notice);
    all.into_iter().map(|notice| notice.text).collect()
}

fn process_of(rig: &Rig, number: usize) -> ProcessId {
    let path = rig.inc().join(format!("reader-{number}.pid"));
    until("a reader", || {
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let pid = text.split(' ').nth(2).and_then(|pid| pid.parse().ok());
        pid.and_then(|pid| ProcessId::of(pid).ok()).ok_or(text)
    })
}

fn is_gone(process: ProcessId) {
    until("end of a process", || {
        let is_there = ProcessId::of(process.pid).is_ok_and(|now| now == process);
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        if is_there && !stat.contains(") Z ") {
            Err(stat)
        } else {
            Ok(())
        }
    });
}

#[test]
fn what_a_reader_prints_of_the_output_are_metrics() {
    let mut rig = run(&[
        "while read -r l; do echo \"words ${l#?}\"; done; echo '{\"step\": 9, \"last\": 1}'",
        "cat > kept; printf 'bytes = %s' \"$(wc -c < kept)\"",
    ]);
    rig.print("#3\n");
    let mut watcher = rig.watcher(None);
    rig.points_are(1);
    rig.print("#4\n");
    rig.points_are(2);
    rig.end();
    assert!(watcher.ended().success());
    let mut points = shown(&rig);
    points.sort();
    let want = [
        "bytes=6@1",
        "last=1@9",
        "step=9@9",
        "words=3@1",
        "words=4@2",
    ];
    assert_eq!(points, want);
    assert_eq!(notices(&rig), [""; 0]);
    // What was kept for the next watcher is not needed any more.
    let names = fs::read_dir(rig.inc()).unwrap();
    let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("reader-")));
}

#[test]
fn a_reader_has_the_environment_of_the_job() {
    let mut rig = with(vec![MetricReader {
        argv: vec!["reader".to_owned()],
    }]);
    let folder = rig.folder.path().join("programs");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("reader");
    // The watcher has no such variable, and no such folder in its `PATH`.
    fs::write(
        &program,
        "#!/bin/sh\necho \"scale=$SCALE\"; exec cat > /dev/null\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let kept = format!("SCALE=7\0PATH={}:/usr/bin:/bin\0", folder.display());
    fs::write(rig.folder.path().join("reader-1.env"), kept).unwrap();
    let mut watcher = rig.watcher(None);
    rig.points_are(1);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(shown(&rig), ["scale=7@1"]);
    assert_eq!(notices(&rig), [""; 0]);
}

#[test]
fn a_reader_begins_anew_after_its_watcher_was_killed_and_no_point_is_doubled_or_lost() {
    // It does not care for the end of its input, and the sum is in its memory alone.
    let mut rig = run(&[
        "sum=0; while read -r l; do sum=$((sum + ${l#?})); echo \"sum=$sum\"; done; \
                         exec sleep 600",
    ]);
    let mut watcher = rig.watcher(None);
    rig.print("#1\n#1\n");
    rig.points_are(2);
    for round in 1..=3 {
        let reader = process_of(&rig, 0);
        watcher.kill();
        rig.print("#1\n#1\n");
        watcher = rig.watcher(None);
        rig.points_are(2 + 2 * round);
        is_gone(reader);
    }
    let last = process_of(&rig, 0);
    rig.end();
    // While the reader still sleeps the watcher is killed once more; the end is settled.
    watcher.kill();
    assert!(rig.watcher(None).ended().success());
    is_gone(last);
    let want: Vec<String> = (1..=8).map(|n| format!("sum={n}@{n}")).collect();
    assert_eq!(shown(&rig), want);
    let told = notices(&rig);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].ends_with("did not end when the output did, and was ended"),
        "{told:#?}"
    );
}

#[test]
fn a_reader_that_cannot_begin_with_the_first_line_again_is_told() {
    let mut rig = run(&["while read -r l; do echo \"n=${l#?}\"; done"]);
    let mut watcher = rig.watcher(None);
    rig.print("#1\n#2\n");
    rig.points_are(2);
    watcher.kill();
    let log = rig.inc().join("stdout.log");
    fs::OpenOptions::new()
        .write(true)
        .open(log)
        .unwrap()
        .set_len(0)
        .unwrap();
    watcher = rig.watcher(None);
    rig.end();
    assert!(watcher.ended().success());
    let told = notices(&rig);
    let has = |words: &str| told.iter().any(|one| one.contains(words));
    assert!(
        has("began anew, and the job had truncated its log"),
        "{told:#?}"
    );
}

#[test]
fn a_reader_that_fails_is_told_and_the_run_goes_on() {
    let mut rig = run(&[
        "echo first = 1; echo no such column >&2; exit 3",
        "sleep 600 & echo \"pid = $!\"",
        "exec sleep 600",
    ]);
    let mut watcher = rig.watcher(None);
    rig.print("loss = 0.5\n");
    let points = rig.points_are(3);
    let pid = points.iter().find(|(name, ..)| name == "pid").unwrap().3;
    until("the readers' ends to be told", || {
        // A look follows what is printed.
        rig.print("x\n");
        let told = notices(&rig);
        if told.len() == 2 {
            Ok(())
        } else {
            Err(told.join("\n"))
        }
    });
    rig.print("loss = 0.25\n");
    rig.points_are(4);
    let left = format!("/proc/{pid}/stat");
    until("what a reader left to be gone", || {
        let stat = fs::read_to_string(&left).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            Ok(())
        } else {
            Err(stat)
        }
    });
    rig.end();
    assert!(watcher.ended().success());
    let mut told = notices(&rig);
    told.sort();
    let has = |words: &str| told.iter().any(|one| one.contains(words));
    assert!(
        has("ended before the output did with exit code 3: no such column"),
        "{told:#?}"
    );
    assert!(
        has("ended before the output did with exit code 0"),
        "{told:#?}"
    );
    assert!(
        has("`/bin/sh -c exec sleep 600` did not end when the output did"),
        "{told:#?}"
    );
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(rig.all::<WatchEnded>(RecordKind::WatchEnded)[0].complete);
}

#[test]
fn a_reader_that_cannot_be_started_or_writes_without_end_is_told() {
    let missing = MetricReader {
        argv: vec!["./nowhere.py".to_owned()],
    };
    let line = "x".repeat(4000);
    let endless = MetricReader {
        argv: vec!["yes".to_owned(), line],
    };
    let silent = MetricReader {
        argv: ["grep", "nothing"].map(str::to_owned).to_vec(),
    };
    let mut rig = with(vec![missing, endless, silent]);
    let mut watcher = rig.watcher(None);
    rig.print("loss = 0.5\n");
    rig.points_are(1);
    rig.end();
    assert!(watcher.ended().success());
    let told = notices(&rig);
    let has = |words: &str| told.iter().any(|one| one.contains(words));
    assert!(
        has("the reader `./nowhere.py` cannot be started: No such file"),
        "{told:#?}"
    );
    assert!(has("was ended: it wrote more than 64 MiB"), "{told:#?}");
    assert!(
        has("the reader `grep nothing` ended with exit code 1"),
        "{told:#?}"
    );
    assert!(told.iter().all(|one| one.len() < 400), "{told:#?}");
    assert_eq!(told.len(), 3, "{told:#?}");
}
