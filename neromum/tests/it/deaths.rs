//! `kill -9` of everything at every step: nothing runs twice, exit codes stay
//! right, everything is replicated exactly once.

use nero_journal::v1::{Claimed, JobExited, Lost, Notice, RecordKind, lost};
use nero_journal::{Clocks, HEADER_BYTES, Segment, Writer};
use nero_model::process::Life;
use nero_wire::v1::RunSpec;
use nero_wire::v1::run_state::Stage;
use rustix::process::Signal;

use crate::rig::{Known, Node, kill, wait_for};
use crate::setup::settled;

/// A job that leaves a line per start and ends when told.
const COUNTED: &str = "echo x >> ../starts; while [ ! -e ../go ]; do sleep 0.01; done; exit 5";

fn starts(node: &Node, spec: &RunSpec) -> usize {
    std::fs::read_to_string(node.run_dir(spec).join("starts"))
        .map_or(0, |text| text.lines().count())
}

/// Whether the process ended; init may not have reaped it.
fn is_gone(process: nero_model::ProcessId) -> bool {
    matches!(process.life(), Ok(Life::Dead | Life::Zombie))
}

async fn started(node: &Node, spec: &RunSpec) {
    wait_for("the job's first line", || {
        (starts(node, spec) > 0).then_some(())
    })
    .await;
}

fn go(node: &Node, spec: &RunSpec) {
    std::fs::write(node.run_dir(spec).join("go"), "").unwrap();
}

#[tokio::test]
async fn neromum_dies_again_and_again_and_nothing_is_lost_or_done_twice() {
    let mut node = Node::with(&["--cpus", "4"]);
    let specs: Vec<RunSpec> = (1..=60)
        .map(|number| {
            let line = format!(
                "echo x >> ../starts; echo out {number}; exit {}",
                number % 7
            );
            node.sh(number, &line)
        })
        .collect();
    let all: Vec<&RunSpec> = specs.iter().collect();
    let mut known = Known::default();
    known.name(&all);
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut mum = node.start().await;
        mum.accept(&all).await;
        let mut follower = mum.follow(std::mem::take(&mut known)).await;
        // Each round dies a few events later than the last one.
        let target = rounds * 12;
        let begun = follower.parts();
        let count = |known: &Known| {
            known
                .runs
                .values()
                .filter(|run| run.stage() == Stage::Settled)
                .count()
        };
        if rounds > 12 {
            follower.settled(&all).await;
        } else {
            follower
                .until_parts(begun + target, &|known| count(known) == 60)
                .await;
        }
        let done = count(&follower.known) == 60;
        known = follower.known;
        if done {
            break;
        }
        node.kill_mum();
        for run in known.runs.values_mut() {
            run.stages.clear();
        }
    }
    for spec in &specs {
        let run = &known.runs[&spec.token];
        assert_eq!(
            starts(&node, spec),
            1,
            "run {} after {rounds} rounds",
            spec.experiment
        );
        assert_eq!(run.anew, 0, "no byte was sent twice");
        assert_eq!(run.count(RecordKind::JobExited), 1);
        assert_eq!(run.count(RecordKind::TreeGone), 1);
        let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
        assert_eq!(exited.code as u64, spec.experiment % 7);
    }
}

#[tokio::test]
async fn a_job_outlives_neromum_and_its_code_is_told_by_the_next() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let (one, two) = (node.sh(1, COUNTED), node.sh(2, COUNTED));
    let waiting = node.sh(3, COUNTED);
    mum.accept(&[&one, &two, &waiting]).await;
    started(&node, &one).await;
    started(&node, &two).await;
    node.kill_mum();
    // One ends while neromum is dead, the other later.
    go(&node, &one);
    let (shim, _) = node.claim(&one);
    wait_for("the shim's end", || {
        nero_model::ProcessId::of(shim)
            .map_or(true, |id| !matches!(id.life(), Ok(Life::Alive)))
            .then_some(())
    })
    .await;
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&one, Stage::Ended).await;
    follower.stage(&two, Stage::Running).await;
    go(&node, &two);
    go(&node, &waiting);
    follower.settled(&[&one, &two, &waiting]).await;
    for spec in [&one, &two, &waiting] {
        let exited: JobExited = follower.of(spec).record(RecordKind::JobExited).unwrap();
        assert_eq!((exited.code, starts(&node, spec)), (5, 1));
    }
}

#[tokio::test]
async fn the_launcher_dies_and_its_runs_go_on() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    started(&node, &spec).await;
    let first = node.launcher().await;
    kill(first, Signal::KILL);
    // A new launcher takes new runs, and learns of the old one's end.
    let next = node.sh(2, "exit 0");
    mum.accept(&[&next]).await;
    follower.settled(&[&next]).await;
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, starts(&node, &spec)), (5, 1));
}

#[tokio::test]
async fn the_shim_dies_and_the_code_is_kept() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    started(&node, &spec).await;
    kill(node.claim(&spec).0, Signal::KILL);
    let token = spec.token.clone();
    follower
        .until(|known| {
            let run = known.runs.get(&token);
            run.is_some_and(|run| run.count(RecordKind::TakenOver) == 1)
        })
        .await;
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, exited.code_unknown), (5, false));
    assert_eq!(starts(&node, &spec), 1);
}

#[tokio::test]
async fn shim_and_launcher_die_and_the_job_goes_on_unsupervised() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    started(&node, &spec).await;
    follower.stage(&spec, Stage::Running).await;
    let (shim, job) = node.claim(&spec);
    // The launcher first, so that it cannot take over.
    kill(node.launcher().await, Signal::KILL);
    kill(shim, Signal::KILL);
    let job = nero_model::ProcessId::of(job).unwrap();
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    assert!(is_gone(job));
    let run = follower.of(&spec);
    let unknown = run
        .record::<JobExited>(RecordKind::JobExited)
        .is_some_and(|exited| exited.code_unknown);
    let lost = run.count(RecordKind::Lost) == 1;
    assert!(unknown || lost, "no code is made up: {:?}", run.kinds());
    assert_eq!(starts(&node, &spec), 1);
}

#[tokio::test]
async fn everything_of_ours_dies_at_once_and_a_cancel_still_ends_the_job() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    started(&node, &spec).await;
    let (shim, job) = node.claim(&spec);
    let job = nero_model::ProcessId::of(job).unwrap();
    kill(node.launcher().await, Signal::KILL);
    node.kill_mum();
    kill(shim, Signal::KILL);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    assert_eq!(job.life().unwrap(), Life::Alive);
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert!(is_gone(job));
    assert_eq!(starts(&node, &spec), 1);
}

#[tokio::test]
async fn a_machine_that_was_started_anew_is_seen_by_its_boot_id() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    started(&node, &spec).await;
    let (shim, job) = node.claim(&spec);
    kill(node.launcher().await, Signal::KILL);
    node.kill_mum();
    kill(shim, Signal::KILL);
    let job_id = nero_model::ProcessId::of(job).unwrap();
    kill(job, Signal::KILL);
    // Dead is enough: not every init reaps leftover processes.
    wait_for("the job's end", || is_gone(job_id).then_some(())).await;
    // The claim as another start of the machine would have left it.
    let path = node.run_dir(&spec).join("1/claim");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 0xff;
    let crc = crc32c::crc32c(&bytes[..76]);
    bytes[76..80].copy_from_slice(&crc.to_le_bytes());
    bytes.truncate(HEADER_BYTES);
    std::fs::write(&path, bytes).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let lost: Lost = follower.of(&spec).record(RecordKind::Lost).unwrap();
    assert_eq!(lost.reason(), lost::Reason::Rebooted);
    assert_eq!(starts(&node, &spec), 1);
}

#[tokio::test]
async fn an_end_that_only_the_ledger_has_is_told_from_there() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "exit 6");
    settled(&mut mum, &[&spec]).await;
    node.kill_mum();
    // A power cut after the ledger was synced and before the claim was.
    let path = node.run_dir(&spec).join("1/claim");
    std::fs::write(&path, vec![0; 400]).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
    assert_eq!(exited.code, 6);
    assert_eq!(follower.of(&spec).count(RecordKind::Lost), 0);
}

#[tokio::test]
async fn a_run_whose_claim_is_zeros_is_held_until_a_person_gives_it_up() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    node.kill_mum();
    std::fs::create_dir(node.run_dir(&spec).join("1")).unwrap();
    std::fs::write(node.run_dir(&spec).join("1/claim"), vec![0; 300]).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Unspecified).await;
    let why = follower.of(&spec).why;
    assert!(why.contains("1/claim is empty or cut"), "{why}");
    // The step that a person takes to give the run up.
    std::fs::remove_dir_all(node.run_dir(&spec)).unwrap();
    follower.settled(&[&spec]).await;
    let lost: Lost = follower.of(&spec).record(RecordKind::Lost).unwrap();
    assert_eq!(lost.reason(), lost::Reason::FolderGone);
    assert_eq!(starts(&node, &spec), 0);
}

/// The files of a shim that died between its claim and its job, except its gate.
fn claim_of_a_dead_shim(node: &Node, spec: &RunSpec) -> nero_journal::SegmentId {
    let mut dead = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let shim = nero_model::ProcessId::of(dead.id().cast_signed()).unwrap();
    dead.kill().unwrap();
    dead.wait().unwrap();
    let claim = node.run_dir(spec).join("1/claim");
    std::fs::create_dir(claim.parent().unwrap()).unwrap();
    let token = spec.token.as_slice().try_into().unwrap();
    let mut segment = Segment::create(&claim, Writer::Shim, token, 1).unwrap();
    let claimed = Claimed {
        shim: Some(shim.into()),
        ..Claimed::default()
    };
    segment
        .append(RecordKind::Claimed, Clocks::now(), &claimed)
        .unwrap();
    segment.id()
}

#[tokio::test]
async fn a_start_of_an_older_build_whose_job_may_be_under_way_is_held() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    node.kill_mum();
    // Older builds remove the private name before they make the job.
    claim_of_a_dead_shim(&node, &spec);
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Unspecified).await;
    let why = follower.of(&spec).why;
    assert!(why.contains("1/claim ends before the record"), "{why}");
    assert_eq!(starts(&node, &spec), 0);
}

/// Ends neromum, and replaces its launcher by one that holds its first job at
/// `point`; the next neromum finds it there.
async fn holding_launcher(node: &mut Node, point: &str) -> std::process::Child {
    let own = node.launcher().await;
    let line = std::fs::read_to_string(format!("/proc/{own}/cmdline")).unwrap();
    let words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
    node.kill_mum();
    let dead = nero_model::ProcessId::of(own).unwrap();
    kill(own, Signal::KILL);
    wait_for("the launcher's end", || is_gone(dead).then_some(())).await;
    let socket = std::path::Path::new(words[3]);
    std::fs::remove_file(socket).unwrap();
    let launcher = std::process::Command::new(words[0])
        .args(&words[1..])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("NERO_CRASH_AT", point)
        .spawn()
        .unwrap();
    wait_for("its socket", || socket.exists().then_some(())).await;
    launcher
}

#[tokio::test]
async fn a_job_that_outlives_shim_and_launcher_before_its_gate_is_run_once() {
    let mut node = Node::new();
    node.start().await;
    let mut launcher = holding_launcher(&mut node, "job.dressed,hold").await;
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let job = wait_for("the job that is held", || {
        let stopped =
            |pid: i32| nero_model::process::Stat::read(pid).is_ok_and(|stat| stat.state == b'T');
        node.processes()
            .into_iter()
            .find_map(|(pid, _)| stopped(pid).then_some(pid))
    })
    .await;
    let held = nero_model::ProcessId::of(job).unwrap();
    let (shim, _) = node.claim(&spec);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    node.kill_mum();
    kill(shim, Signal::KILL);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    started(&node, &spec).await;
    kill(job, Signal::CONT);
    wait_for("the end of the first job", || is_gone(held).then_some(())).await;
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    assert_eq!(starts(&node, &spec), 1, "{:?}", follower.of(&spec).kinds());
    let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, exited.code_unknown), (5, false));
}

#[tokio::test]
async fn a_stopped_shim_without_its_launcher_is_continued_and_tells_the_end() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    started(&node, &spec).await;
    kill(node.launcher().await, Signal::KILL);
    let (shim, _) = node.claim(&spec);
    kill(shim, Signal::STOP);
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, exited.code_unknown), (5, false));
    let told: Notice = run.record(RecordKind::Notice).unwrap();
    assert_eq!(
        told.text,
        "its shim was stopped by a signal (SIGSTOP) and was continued"
    );
}

#[tokio::test]
async fn an_abort_reaches_a_stopped_shim_without_its_launcher() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    started(&node, &spec).await;
    kill(node.launcher().await, Signal::KILL);
    let (shim, _) = node.claim(&spec);
    kill(shim, Signal::STOP);
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::StopAsked), 1);
}

#[tokio::test]
async fn a_stopped_launcher_is_continued_and_starts_what_waits() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let first = node.sh(1, COUNTED);
    mum.accept(&[&first]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    started(&node, &first).await;
    kill(node.launcher().await, Signal::STOP);
    let second = node.sh(2, "exit 0");
    mum.accept(&[&second]).await;
    follower.settled(&[&second]).await;
    let told: Notice = follower.of(&first).record(RecordKind::Notice).unwrap();
    assert_eq!(
        told.text,
        "its launcher was stopped by a signal (SIGSTOP) and was continued"
    );
    go(&node, &first);
    follower.settled(&[&first]).await;
}

#[tokio::test]
async fn a_start_that_died_before_its_gate_is_followed_by_one_and_no_more() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    node.kill_mum();
    let claim = claim_of_a_dead_shim(&node, &spec);
    let folder = node.run_dir(&spec).join("1");
    let gate = folder.join(nero_journal::gate::name(claim));
    std::fs::hard_link(folder.join("claim"), gate).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    started(&node, &spec).await;
    go(&node, &spec);
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    assert_eq!(starts(&node, &spec), 1, "{:?}", run.kinds());
    assert_eq!(run.count(RecordKind::Claimed), 2, "{:?}", run.kinds());
    let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!(exited.code, 5);
}

#[tokio::test]
async fn a_folder_that_is_gone_is_lost_and_never_started_again() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    node.kill_mum();
    std::fs::remove_dir_all(node.run_dir(&spec)).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let lost: Lost = follower.of(&spec).record(RecordKind::Lost).unwrap();
    assert_eq!(lost.reason(), lost::Reason::FolderGone);
}

/// Lets neromum open no further file, or as many as before.
fn descriptors(pid: i32, max: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let before = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: max.or(before.current),
        maximum: before.maximum,
    };
    prlimit(Pid::from_raw(pid), Resource::Nofile, limit).unwrap();
}

#[tokio::test]
async fn an_end_that_cannot_be_read_in_that_moment_is_not_lost() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    started(&node, &spec).await;
    descriptors(node.mum_pid(), Some(3));
    go(&node, &spec);
    let log = node.paths.mum().join("log");
    wait_for("a look that failed", || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.contains("a file of a run cannot be used")
            .then_some(())
    })
    .await;
    descriptors(node.mum_pid(), None);
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    assert_eq!(
        run.record::<JobExited>(RecordKind::JobExited).unwrap().code,
        5
    );
    assert_eq!(run.count(RecordKind::Lost), 0);
}

#[tokio::test]
async fn a_spec_that_cannot_be_read_in_that_moment_loses_no_run() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo x >> ../starts");
    mum.accept(&[&spec]).await;
    node.kill_mum();
    let (path, away) = (
        node.run_dir(&spec).join("spec"),
        node.run_dir(&spec).join("away"),
    );
    std::fs::rename(&path, &away).unwrap();
    // The kernel cannot read a folder as a file, which proves nothing about the
    // run.
    std::fs::create_dir(&path).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.caught_up().await;
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::Lost), 0);
    assert_eq!(starts(&node, &spec), 1);
}

#[tokio::test]
async fn output_is_read_in_the_end_however_long_its_watcher_is_in_the_way() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED.replace("exit 5", "echo loss 3; exit 5").as_str());
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    started(&node, &spec).await;
    let folder = node.run_dir(&spec).join("1");
    let watcher = wait_for("its watcher", || {
        let of_it = |(pid, line): (i32, String)| line.contains(" watch ").then_some(pid);
        let begun = std::fs::read_dir(&folder).ok()?.flatten();
        let mut names = begun.map(|one| one.file_name().to_string_lossy().into_owned());
        names.find(|name| name.starts_with("watch-"))?;
        node.processes().into_iter().find_map(of_it)
    })
    .await;
    // From now on the test's own process, unknown to the launcher, holds the
    // lock.
    let launcher = node.launcher().await;
    kill(launcher, Signal::STOP);
    kill(watcher, Signal::KILL);
    let lock = std::fs::File::open(folder.join("watch.lock")).unwrap();
    wait_for("the lock of the dead watcher", || lock.try_lock().ok()).await;
    kill(launcher, Signal::CONT);
    go(&node, &spec);
    follower.stage(&spec, Stage::Ended).await;
    wait_for("four tries", || {
        let log = std::fs::read_to_string(node.paths.mum().join("log")).unwrap_or_default();
        (log.matches("is to be read again").count() >= 4).then_some(())
    })
    .await;
    assert_eq!(follower.of(&spec).stage(), Stage::Ended);
    drop(lock);
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::Metrics), 1);
}
