//! Full disks: nothing of ours ends, no record is lost.

use std::process::Command;

use nero_tests::Home;

use crate::story::{added, job};

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
