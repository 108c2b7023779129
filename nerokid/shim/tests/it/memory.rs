//! Jobs that the kernel ends for memory, in a cgroup that has little.

use std::fs;
use std::path::PathBuf;

use crate::rig::{Rig, Start, until};

/// A memory cgroup that the test makes below its own, and removes when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    const BYTES: &str = "67108864";

    /// None where this machine lets us make none.
    fn make() -> Option<Self> {
        let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path_of = |mark: &str| {
            let line = ours.lines().find(|line| line.contains(mark))?;
            line.rsplit_once(':').map(|(_, path)| path.to_owned())
        };
        let (parent, limit) = match path_of(":memory:") {
            Some(path) => (
                format!("/sys/fs/cgroup/memory{path}"),
                "memory.limit_in_bytes",
            ),
            None => (format!("/sys/fs/cgroup{}", path_of("0::")?), "memory.max"),
        };
        let own = PathBuf::from(parent).join(format!(
            "nero-shim-test-{}",
            nero_model::ids::hex(&nero_model::ids::random::<4>())
        ));
        fs::create_dir(&own).ok()?;
        let own = Self(own);
        fs::write(own.0.join(limit), Self::BYTES).ok()?;
        // Where swap is counted apart, it is no way out.
        for swap in ["memory.memsw.limit_in_bytes", "memory.swap.max"] {
            let _ = fs::write(own.0.join(swap), Self::BYTES);
        }
        Some(own)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        until("the cgroup to be empty", || fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn the_record_of_an_end_tells_that_the_kernel_killed_for_memory() {
    let Some(cgroup) = Cgroup::make() else {
        eprintln!("skipped: a memory cgroup of its own needs root and a writable /sys/fs/cgroup");
        return;
    };
    let mut rig = Rig::start(Start {
        cgroup: cgroup.0.to_str().unwrap(),
        ..Start::default()
    });
    // A line without an end is held in memory.
    let table = [
        ("exec tail /dev/zero", (libc::SIGKILL, 0), Some(true)),
        // What a shell answers for its child.
        ("tail /dev/zero; exit $?", (0, 137), Some(true)),
        ("kill -9 $$", (libc::SIGKILL, 0), Some(false)),
        ("exit 1", (0, 1), None),
    ];
    for (script, end, memory) in table {
        let run = rig.script(script);
        rig.complete(&run);
        let exited = run.claim().exited.unwrap();
        assert_eq!((exited.signal, exited.code), end, "{script}");
        assert_eq!(exited.oom_kills.map(|count| count > 0), memory, "{script}");
    }
    drop(rig);
    drop(cgroup);
}

#[test]
fn a_launcher_that_takes_over_counts_what_was_killed_for_memory() {
    let Some(cgroup) = Cgroup::make() else {
        eprintln!("skipped: a memory cgroup of its own needs root and a writable /sys/fs/cgroup");
        return;
    };
    let mut rig = Rig::start(Start {
        cgroup: cgroup.0.to_str().unwrap(),
        ..Start::default()
    });
    let run = rig.script("until [ -e go ]; do sleep 0.01; done; exec tail /dev/zero");
    rig.launch(&run);
    run.job();
    crate::rig::kill(run.shim());
    rig.hear_of(&run, nero_journal::v1::changed::What::TakenOver);
    fs::write(run.work("go"), "").unwrap();
    rig.hear_of(&run, nero_journal::v1::changed::What::Ended);
    let exited = run.launchers().exited.unwrap();
    assert_eq!(exited.signal, libc::SIGKILL);
    assert!(exited.oom_kills > Some(0), "{exited:?}");
    drop(rig);
    drop(cgroup);
}
