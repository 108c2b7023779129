//! Files of metrics, written as programs write them, followed by the real watcher.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use nero_journal::v1::{Notice, RecordKind};
use nero_model::paths::run::LOGGED;
use nero_wire::v1::{MetricReading, RunSpec};

use crate::rig::{Process, Rig, until};

/// A run whose metrics are in these files.
fn run(files: &[&str]) -> Rig {
    let rig = Rig::new(RunSpec {
        metric_reading: Some(MetricReading {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..MetricReading::default()
        }),
        ..RunSpec::default()
    });
    fs::create_dir(rig.folder.path().join("work")).unwrap();
    rig
}

fn work(rig: &Rig, name: &str) -> PathBuf {
    rig.folder.path().join("work").join(name)
}

fn append(rig: &Rig, name: &str, text: &str) {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .append(true)
        .open(work(rig, name))
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Points as `name=value@step`, with the segment if it is not the first.
fn shown(points: Vec<(String, f64, u32, f64)>) -> Vec<String> {
    let shown = points
        .into_iter()
        .map(|(name, step, segment, value)| match segment {
            0 => format!("{name}={value}@{step}"),
            segment => format!("{name}={value}@{step} in {segment}"),
        });
    shown.collect()
}

fn end(rig: &mut Rig, watcher: &mut Process) {
    rig.end();
    assert!(watcher.ended().success());
}

fn notices(rig: &Rig) -> Vec<String> {
    let all = rig.all::<Notice>(RecordKind::Notice);
    all.into_iter().map(|notice| notice.text).collect()
}

#[test]
fn lines_of_setup_that_failed_are_told() {
    let mut rig = run(&[]);
    let printed = "loading\nbash: line 2: module: command not found\n\
                   setup: exit code 127: module load cuda\nepoch 1\n";
    fs::write(rig.inc().join("stderr.log"), printed).unwrap();
    let mut watcher = rig.watcher(None);
    end(&mut rig, &mut watcher);
    assert_eq!(
        notices(&rig),
        ["a line of `setup` failed: exit code 127: module load cuda"]
    );
}

#[test]
fn rows_become_points_when_they_are_written() {
    let mut rig = run(&["out/m.csv", "log.jsonl", "notes.txt"]);
    let mut watcher = rig.watcher(None);
    rig.print("loss = 9\n");
    rig.points_are(1);
    // The folder comes after the watcher; half a line is none yet.
    fs::create_dir(work(&rig, "out")).unwrap();
    append(&rig, "out/m.csv", "step,loss,note\n1,0.5,a\n2,0.2");
    rig.points_are(3);
    append(&rig, "out/m.csv", "5,b\n");
    rig.points_are(5);
    append(&rig, "log.jsonl", "{\"step\": 7, \"acc\": 0.5}\n");
    rig.points_are(7);
    append(&rig, "notes.txt", "f1 = 0.75");
    end(&mut rig, &mut watcher);
    let want = [
        "loss=9@1",
        "step=1@1",
        "loss=0.5@1",
        "step=2@2",
        "loss=0.25@2",
        "step=7@7",
        "acc=0.5@7",
        "f1=0.75@1",
    ];
    assert_eq!(shown(rig.points()), want);
    assert_eq!(notices(&rig), [""; 0]);
}

#[test]
fn what_the_job_logs_is_read_though_no_file_is_named() {
    let mut rig = run(&[]);
    let mut watcher = rig.watcher(None);
    let logged = rig.folder.path().join("1").join(LOGGED);
    let log = |line: &str| {
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(&logged).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    };
    log("{\"loss\": 0.5, \"step\": 3}\n{\"loss[1]\": 2}\n");
    rig.points_are(3);
    watcher.kill();
    log("{\"loss\": 0.25, \"step\": 4}\n");
    let mut next = rig.watcher(None);
    rig.points_are(5);
    end(&mut rig, &mut next);
    let want = [
        "loss=0.5@3",
        "step=3@3",
        "loss[1]=2@1",
        "loss=0.25@4",
        "step=4@4",
    ];
    assert_eq!(shown(rig.points()), want);
    assert_eq!(notices(&rig), [""; 0]);
}

#[test]
fn a_table_that_is_written_anew_gives_its_new_rows_alone() {
    let mut rig = run(&["m.csv"]);
    let mut watcher = rig.watcher(None);
    let path = work(&rig, "m.csv");
    fs::write(&path, "step,loss\n1,0.5\n").unwrap();
    rig.points_are(2);
    // As Lightning and pandas do: by a further column, and by another file of the name.
    fs::write(&path, "step,loss,val\n1,0.5,\n2,0.25,0.75\n").unwrap();
    rig.points_are(5);
    let new = work(&rig, "new");
    fs::write(&new, "step,loss,val\n1,0.5,\n2,0.25,0.75\n3,0.125,0.5\n").unwrap();
    fs::rename(&new, &path).unwrap();
    rig.points_are(8);
    // The next watcher knows the rows, too.
    watcher.kill();
    fs::write(
        &path,
        "step,loss,val\n1,0.5,\n2,0.25,0.75\n3,0.125,0.5\n4,0.1,\n",
    )
    .unwrap();
    let mut watcher = rig.watcher(None);
    rig.points_are(10);
    // Another first row: another file, whose steps begin anew.
    fs::write(&path, "step,loss\n1,9\n").unwrap();
    rig.points_are(12);
    end(&mut rig, &mut watcher);
    let want = [
        "step=1@1",
        "loss=0.5@1",
        "step=2@2",
        "loss=0.25@2",
        "val=0.75@2",
        "step=3@3",
        "loss=0.125@3",
        "val=0.5@3",
        "step=4@4",
        "loss=0.1@4",
        "step=1@1 in 1",
        "loss=9@1 in 1",
    ];
    assert_eq!(shown(rig.points()), want);
}

#[test]
fn a_rotated_file_is_read_to_its_end_and_the_next_from_its_start() {
    let mut rig = run(&["m.tsv"]);
    let mut watcher = rig.watcher(None);
    append(&rig, "m.tsv", "step\tloss\n1\t0.5\n");
    rig.points_are(2);
    fs::rename(work(&rig, "m.tsv"), work(&rig, "m.1.tsv")).unwrap();
    append(&rig, "m.1.tsv", "2\t0.25\n");
    append(&rig, "m.tsv", "step\tloss\n3\t0.125\n");
    rig.points_are(6);
    end(&mut rig, &mut watcher);
    let steps: Vec<f64> = rig.points().iter().map(|(_, step, ..)| *step).collect();
    assert_eq!(steps, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn a_file_that_is_rotated_just_before_the_end_loses_no_row() {
    let mut rig = run(&["m.tsv"]);
    let mut watcher = rig.watcher(None);
    append(&rig, "m.tsv", "step\tloss\n1\t0.5\n");
    rig.points_are(2);
    // The watcher misses the rotation: it learns of the end at the same time.
    let pid = rustix::process::Pid::from_child(&watcher.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    fs::rename(work(&rig, "m.tsv"), work(&rig, "m.1.tsv")).unwrap();
    append(&rig, "m.1.tsv", "2\t0.25\n");
    append(&rig, "m.tsv", "step\tloss\n3\t0.125\n");
    rig.end();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(watcher.ended().success());
    let steps: Vec<f64> = rig.points().iter().map(|(_, step, ..)| *step).collect();
    assert_eq!(steps, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn a_document_of_many_numbers_gives_points() {
    let mut rig = run(&["m.json"]);
    let mut watcher = rig.watcher(None);
    let numbers: Vec<String> = (0..2000)
        .map(|number| format!("\"a number with a name that is not short, {number}\": {number}"))
        .collect();
    let text = format!("{{{}}}", numbers.join(","));
    fs::write(work(&rig, "m.json"), text).unwrap();
    rig.points_are(numbers.len());
    end(&mut rig, &mut watcher);
    assert_eq!(notices(&rig), [""; 0]);
}

#[test]
fn a_document_gives_each_of_its_versions_once() {
    let mut rig = run(&["m.json", "all.json"]);
    let mut watcher = rig.watcher(None);
    let write = |rig: &Rig, name: &str, text: &str| fs::write(work(rig, name), text).unwrap();
    write(&rig, "m.json", "{\n \"epoch\": 1,\n \"loss\": 0.5\n}\n");
    rig.points_are(2);
    // Half of a document is none.
    write(&rig, "m.json", "{\"epoch\": 2, \"lo");
    write(&rig, "all.json", "[{\"f1\": 1}]");
    rig.points_are(3);
    write(&rig, "m.json", "{\"epoch\": 2, \"loss\": 0.5}");
    rig.points_are(5);
    watcher.kill();
    let mut watcher = rig.watcher(None);
    write(&rig, "all.json", "[{\"f1\": 1}, {\"f1\": 2}]");
    rig.points_are(6);
    // Of the same size, and perhaps of the same time.
    write(&rig, "m.json", "{\"epoch\": 3, \"loss\": 0.5}");
    end(&mut rig, &mut watcher);
    let want = [
        "epoch=1@1",
        "loss=0.5@1",
        "f1=1@1",
        "epoch=2@2",
        "loss=0.5@2",
        "f1=2@2",
        "epoch=3@3",
        "loss=0.5@3",
    ];
    assert_eq!(shown(rig.points()), want);
}

#[test]
fn every_row_is_there_once_though_watchers_are_killed_and_the_file_is_written_anew() {
    const ROWS: usize = 300;
    let mut rig = run(&["m.csv"]);
    let path = work(&rig, "m.csv");
    let mut watcher = rig.watcher(None);
    let mut text = "step,loss\n".to_owned();
    for row in 1..=ROWS {
        text.push_str(&format!("{row},{}\n", row * row));
        match row % 3 {
            0 => fs::write(&path, &text).unwrap(),
            _ => {
                let new = work(&rig, "new");
                fs::write(&new, &text).unwrap();
                fs::rename(&new, &path).unwrap();
            }
        }
        if row % 50 == 0 {
            let seen = rig.points().len();
            until("further points", || {
                let points = rig.points().len();
                let more = points > seen || points == 2 * row;
                more.then_some(()).ok_or_else(|| format!("{points} points"))
            });
            watcher.kill();
            watcher = rig.watcher(None);
        }
    }
    end(&mut rig, &mut watcher);
    let losses: Vec<String> = shown(rig.points())
        .into_iter()
        .filter(|point| point.starts_with("loss"))
        .collect();
    let want: Vec<String> = (1..=ROWS)
        .map(|row| format!("loss={}@{row}", row * row))
        .collect();
    assert_eq!(losses, want);
}

#[test]
fn steps_of_a_file_that_comes_later_begin_no_segment() {
    let mut rig = run(&["m.csv"]);
    let mut watcher = rig.watcher(None);
    rig.print("epoch 5: loss = 3\n");
    rig.points_are(2);
    append(&rig, "m.csv", "epoch,loss\n4,3.5\n");
    rig.points_are(4);
    append(&rig, "m.csv", "6,2\n");
    rig.points_are(6);
    end(&mut rig, &mut watcher);
    let points = rig.points();
    assert!(
        points.iter().all(|(_, _, segment, _)| *segment == 0),
        "{points:?}"
    );
}

#[test]
fn what_is_reported_on_purpose_is_not_read_from_the_output() {
    let mut rig = run(&[]);
    let logged = rig.folder.path().join("1").join(LOGGED);
    fs::write(&logged, "{\"loss\": 0.5, \"step\": 10}\n").unwrap();
    rig.print("{'loss': 0.5, 'epoch': 0.1}\n");
    let mut watcher = rig.watcher(None);
    rig.points_are(3);
    // Nor after a death of the watcher.
    watcher.kill();
    rig.print("{'loss': 0.25, 'epoch': 0.2}\nacc 0.75\n");
    let mut next = rig.watcher(None);
    rig.points_are(5);
    end(&mut rig, &mut next);
    let want = [
        "loss=0.5@10",
        "step=10@10",
        "epoch=0.1@0.1",
        "epoch=0.2@0.2",
        "acc=0.75@1",
    ];
    assert_eq!(shown(rig.points()), want);
}

#[test]
fn a_name_that_was_printed_goes_on_with_what_a_file_reports() {
    let mut rig = run(&["m.csv"]);
    let mut watcher = rig.watcher(None);
    rig.print("epoch 1: loss = 3\n");
    rig.points_are(2);
    append(&rig, "m.csv", "step,loss\n20,2.5\n");
    rig.points_are(4);
    rig.print("epoch 2: loss = 2.5\nacc 0.5\n");
    rig.points_are(6);
    end(&mut rig, &mut watcher);
    let want = [
        "loss=3@1",
        "epoch=1@1",
        "step=20@20",
        "loss=2.5@20",
        "epoch=2@2",
        "acc=0.5@2",
    ];
    assert_eq!(shown(rig.points()), want);
}

#[test]
fn a_file_that_gives_nothing_is_told_with_its_reason() {
    let files = [
        "gone.csv",
        "headless.csv",
        "binary.csv",
        "text.jsonl",
        "half.json",
        "empty.csv",
        "pipe.csv",
        "folder.csv",
    ];
    let mut rig = run(&files);
    let fill = |name: &str, text: &[u8]| fs::write(work(&rig, name), text).unwrap();
    fill("headless.csv", b"1,0.5\n2,0.25\n");
    fill("binary.csv", &[0x1f, 0x8b, 0, 0xff, b'\n'].repeat(10_000));
    fill("text.jsonl", b"loss = 3\n");
    fill("half.json", b"{\"loss\": 3");
    fill("empty.csv", b"");
    fs::create_dir(work(&rig, "folder.csv")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        work(&rig, "pipe.csv"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let mut watcher = rig.watcher(None);
    end(&mut rig, &mut watcher);
    let want = [
        "gone.csv gave no metric: it was never there",
        "headless.csv gave no metric: no line of names stands above numbers",
        "binary.csv gave no metric: no line of names stands above numbers",
        "text.jsonl gave no metric: no line of it is a JSON object with a number",
        "half.json gave no metric: it is no whole JSON value",
        "empty.csv gave no metric: it is empty",
        "pipe.csv gave no metric: it is no file",
        "folder.csv gave no metric: it is no file",
    ];
    assert_eq!(notices(&rig), want);
    assert_eq!(rig.points(), []);
}
