//! Full disks: nothing of ours ends, no record is lost.

use std::fs::{self, File};
use std::process::Command;

use nero_tests::chaos::script::points;
use nero_tests::{Home, Part, until};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::story::{added, job, make_pipe};

/// A small file system of its own; unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mounted(mebibytes: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("ns").tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status()
            .expect("mount is installed");
        assert!(
            status.success(),
            "a small file system can be mounted only by root"
        );
        Self(folder)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_job_that_fills_the_disk_ends_with_its_code_and_the_reason() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    }
    let small = Small::mounted(400);
    let folder = tempfile::Builder::new()
        .prefix("n")
        .tempdir_in(small.0.path())
        .unwrap();
    let home = Home::in_folder(folder);
    home.configure("nodes: {local: {min_free: 1M}}\n");
    added(
        &home,
        "f",
        &format!(
            "collection: f\n+f: {{command: '{} print loss 4 -- fill big'}}\n",
            job()
        ),
    );
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    let seen = home.until_state(1, "crashed");
    assert_eq!(seen["exit_code"], 28, "{seen:#}");
    assert!(
        seen["reason"].as_str().unwrap().contains("disk full"),
        "{seen:#}"
    );
}

#[test]
fn metrics_printed_while_the_disk_was_full_are_known_afterwards() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    }
    let small = Small::mounted(400);
    let folder = tempfile::Builder::new()
        .prefix("n")
        .tempdir_in(small.0.path())
        .unwrap();
    let outside = tempfile::tempdir().unwrap();
    let (pipe, notes) = (outside.path().join("pipe"), outside.path().join("notes"));
    make_pipe(&pipe);
    let home = Home::in_folder(folder);
    home.configure("nodes: {local: {min_free: 1M}}\n");
    // What it prints fits into the block that its log has from the first line
    // on. What is recorded of sixty lines, one by one, needs another block.
    let script = "1,60,1,15,0,0,0,exit:0";
    let yaml = format!(
        "collection: f\n+f:\n  command: [{}, print, begin, --, hold, {}, --, chaos, {}, '{script}']\n",
        job(),
        pipe.display(),
        notes.display()
    );
    added(&home, "f", &yaml);
    home.ok(&["start", "1"]);
    home.until_alive(Part::Watcher);
    home.until_state(1, "running");
    let filler = small.0.path().join("filler");
    let free = statvfs(small.0.path()).unwrap();
    let file = File::create(&filler).unwrap();
    fallocate(
        &file,
        FallocateFlags::empty(),
        0,
        free.f_bavail * free.f_frsize,
    )
    .unwrap();
    fs::write(&pipe, "").unwrap();
    until("the job to be done", || {
        let noted = fs::read_to_string(&notes).unwrap_or_default();
        if noted.contains("end") && home.alive(Part::Job).is_empty() {
            Ok(())
        } else {
            Err(noted)
        }
    });
    fs::remove_file(&filler).unwrap();

    home.run(&["wait", "1"]);
    home.until_state(1, "finished");
    let printed = points(home.ok(&["logs", "1"]).as_bytes());
    assert_eq!(printed.len(), 60);
    // The daemon may be leaving, whose database had no room; it says: try again.
    until("the daemon to have room again", || {
        let ran = home.run(&["metrics", "1", "loss", "--json"]);
        if ran.code == Some(0) {
            Ok(())
        } else {
            Err(ran)
        }
    });
    let series = home.json(&["metrics", "1", "loss"])["series"][0].clone();
    let expected: Vec<f64> = printed.iter().map(|point| point.loss).collect();
    assert_eq!(series["values"], serde_json::json!(expected), "{series}");
}
