//! Cards of a bare node, by a stand-in for NVIDIA's library: grants, foreign processes,
//! two homes, deaths, a driver that hangs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use nero_journal::v1::{RecordKind, Sample, WatchStarted};
use nero_model::ProcessId;
use nero_model::process::Life;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{Container, ExamineRequest, Monitor, RunSpec, SchedulerRequest};
use rustix::process::Signal;

use crate::rig::{Follower, Known, Mum, Node, kill, wait_for};

/// A host with cards, as the stand-in's table lists them.
pub struct FakeHost {
    dir: tempfile::TempDir,
}

impl FakeHost {
    pub fn new(cards: &[&str]) -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/rig/nvml.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o"])
            .arg(host.path("libnvidia-ml.so.1"))
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        host.set(cards);
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn set(&self, cards: &[&str]) {
        fs::write(self.path("table.new"), cards.join("\n") + "\n").unwrap();
        fs::rename(self.path("table.new"), self.path("table")).unwrap();
    }

    /// Starts a node's neromum on this host.
    pub async fn start(&self, node: &mut Node) -> Mum {
        let mut command = node.command();
        command
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("tools").display()),
            )
            .env("HOME", "/")
            .env("LD_LIBRARY_PATH", self.dir.path())
            .env("FAKE_NVML", self.path("table"))
            .env("FAKE_NVML_HANG", self.path("hang"))
            .env("NERONET_GPUS", self.path("gpus"));
        node.start_as(command).await
    }

    /// The helper at work.
    async fn helper(&self) -> ProcessId {
        wait_for("a helper", || {
            let page = nero_journal::gpus::read(&self.path("gpus")).ok()??;
            page.helper?.identity()
        })
        .await
    }
}

impl FakeHost {
    /// A program of this host that runs these lines of a shell.
    fn tool(&self, name: &str, lines: &str) {
        let path = self.path("tools").join(name);
        fs::create_dir_all(self.path("tools")).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn card(number: u32, processes: &str) -> String {
    format!("NVIDIA A100;GPU-{number};40;0;1024;81920;250000;60;{processes}")
}

fn with_gpus(spec: RunSpec, micro: u32) -> RunSpec {
    RunSpec {
        scheduler: Some(SchedulerRequest {
            gpus: micro / 1_000_000,
            gpu_micro: micro % 1_000_000,
            ..SchedulerRequest::default()
        }),
        ..spec
    }
}

const TELL: &str = "echo $CUDA_DEVICE_ORDER/$CUDA_VISIBLE_DEVICES/$NERO_GPUS; \
                    while [ ! -e ../go ]; do sleep 0.05; done";

fn told(node: &Node, spec: &RunSpec) -> String {
    let log = fs::read_to_string(node.run_dir(spec).join("1/stdout.log"));
    log.unwrap_or_default().trim().to_owned()
}

async fn says(node: &Node, spec: &RunSpec, text: &str) {
    wait_for(text, || (told(node, spec) == text).then_some(())).await;
}

async fn why(follower: &mut Follower, spec: &RunSpec, part: &str) {
    let holds = |known: &Known| {
        let run = known.runs.get(&spec.token);
        run.is_some_and(|run| run.why.contains(part))
    };
    follower.until(holds).await;
}

#[tokio::test]
async fn runs_see_their_own_cards_keep_them_through_deaths_and_the_next_one_gets_what_they_leave() {
    let host = FakeHost::new(&[&card(0, ""), &card(1, "")]);
    let mut node = Node::with(&["--cpus", "8"]);
    let mut mum = host.start(&mut node).await;
    let sampled = Some(Monitor {
        interval_ms: 200,
        ..Monitor::default()
    });
    let whole = RunSpec {
        monitor: sampled,
        ..with_gpus(node.sh(1, TELL), 1_000_000)
    };
    let halves = [2, 3].map(|number| with_gpus(node.sh(number, TELL), 500_000));
    let next = with_gpus(node.sh(4, TELL), 1_000_000);
    let none = node.sh(5, TELL);
    mum.accept(&[&whole, &halves[0], &halves[1], &next, &none])
        .await;
    let mut follower = mum.follow(Known::default()).await;
    says(&node, &none, "//0").await;
    follower.stage(&whole, Stage::Running).await;
    says(&node, &whole, "PCI_BUS_ID/0/1").await;
    for half in &halves {
        says(&node, half, "PCI_BUS_ID/1/0.5").await;
    }
    why(
        &mut follower,
        &next,
        "waits for 1 GPU; GPU 0 is taken; GPU 1 is taken",
    )
    .await;
    let measured = |known: &Known| {
        let run = known.runs.get(&whole.token);
        let sample = run.and_then(|run| run.record::<Sample>(RecordKind::Sample));
        sample.is_some_and(|sample| sample.gpu == Some(0.4) && sample.gpu_power_w == Some(250.0))
    };
    follower.until(measured).await;
    let named = |known: &Known| {
        let run = known.runs.get(&whole.token);
        let begun = run.and_then(|run| run.record::<WatchStarted>(RecordKind::WatchStarted));
        let found = begun.and_then(|begun| begun.environment);
        found.is_some_and(|found| found.given_gpus == ["0: NVIDIA A100"])
    };
    follower.until(named).await;

    node.kill_mum();
    kill(node.launcher().await, Signal::KILL);
    let (shim, job) = node.claim(&whole);
    kill(shim, Signal::KILL);
    let mut mum = host.start(&mut node).await;
    let mut follower = mum.follow(Known::default()).await;
    why(
        &mut follower,
        &next,
        "waits for 1 GPU; GPU 0 is taken; GPU 1 is taken",
    )
    .await;
    fs::write(node.run_dir(&whole).join("go"), "").unwrap();
    says(&node, &next, "PCI_BUS_ID/0/1").await;
    wait_for("end of the first job", || {
        ProcessId::of(job).is_err().then_some(())
    })
    .await;
    for spec in [&halves[0], &halves[1], &next, &none] {
        fs::write(node.run_dir(spec).join("go"), "").unwrap();
    }
    follower
        .settled(&[&halves[0], &halves[1], &next, &none])
        .await;
}

#[tokio::test]
async fn a_card_with_a_process_of_others_is_not_given_and_the_process_is_named() {
    let mut other = Command::new("sleep")
        .arg("600")
        .process_group(0)
        .spawn()
        .unwrap();
    let busy = card(0, &format!("{}:500", other.id()));
    let host = FakeHost::new(&[&busy]);
    let mut node = Node::new();
    let mut mum = host.start(&mut node).await;
    let reply = mum
        .hand_over(vec![with_gpus(node.sh(9, "true"), 2_000_000)])
        .await;
    let [refusal] = &reply.refused[..] else {
        panic!("{reply:?}");
    };
    assert!(refusal.only_here, "another node may have two");
    assert_eq!(
        refusal.why,
        "it asks for 2 GPUs, and this node has 1 of the kind"
    );
    let run = with_gpus(node.sh(1, "true"), 1_000_000);
    mum.accept(&[&run]).await;
    let mut follower = mum.follow(Known::default()).await;
    let named = format!("GPU 0 is used by sleep (pid {}, ", other.id());
    why(&mut follower, &run, &named).await;
    other.kill().unwrap();
    other.wait().unwrap();
    host.set(&[&card(0, "")]);
    follower.settled(&[&run]).await;
    assert_eq!(follower.of(&run).count(RecordKind::JobStarted), 1);
}

/// A driver that is loaded minutes after a machine was found without one is seen by the next run
/// that asks for a card.
#[tokio::test]
async fn a_run_that_asks_for_cards_is_not_refused_by_an_old_page() {
    let host = FakeHost::new(&[&card(0, "")]);
    let library = host.path("libnvidia-ml.so.1");
    fs::rename(&library, host.path("unloaded")).unwrap();
    let mut node = Node::new();
    let mut mum = host.start(&mut node).await;
    let reply = mum
        .hand_over(vec![with_gpus(node.sh(9, "true"), 1_000_000)])
        .await;
    assert_eq!(
        reply.refused[0].why,
        "it asks for 1 GPU, and this node has 0 of the kind"
    );
    fs::rename(host.path("unloaded"), &library).unwrap();
    let folder = host.path("gpus");
    let mut page = nero_journal::gpus::read(&folder).unwrap().unwrap();
    // Five minutes ago.
    page.boot_ns = page.boot_ns.saturating_sub(300_000_000_000);
    nero_journal::gpus::write(&folder, &page).unwrap();
    let run = with_gpus(node.sh(1, "true"), 1_000_000);
    mum.accept(&[&run]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&run]).await;
}

#[tokio::test]
async fn two_homes_of_a_user_never_give_one_card_twice() {
    let host = FakeHost::new(&[&card(0, "")]);
    let log = host.path("log");
    let line = format!("echo + >> {0}; sleep 0.02; echo - >> {0}", log.display());
    let mut nodes = [Node::with(&["--cpus", "8"]), Node::with(&["--cpus", "8"])];
    let mut followers = Vec::new();
    // By hand: NERO_TEST_RACES=1000.
    let races = std::env::var("NERO_TEST_RACES").ok();
    let races: u64 = races.and_then(|text| text.parse().ok()).unwrap_or(4);
    for node in &mut nodes {
        let mut mum = host.start(node).await;
        let specs: Vec<RunSpec> = (1..=races / 2)
            .map(|number| with_gpus(node.sh(number, &line), 1_000_000))
            .collect();
        let all: Vec<&RunSpec> = specs.iter().collect();
        mum.accept(&all).await;
        followers.push((mum.follow(Known::default()).await, specs));
    }
    for (follower, specs) in &mut followers {
        let all: Vec<&RunSpec> = specs.iter().collect();
        follower.settled(&all).await;
    }
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log, "+\n-\n".repeat(races as usize));
}

#[tokio::test]
async fn a_driver_that_hangs_holds_no_lock_loses_no_run_and_keeps_no_other_run_waiting() {
    let host = FakeHost::new(&[&card(0, "")]);
    let fifo = host.path("hang");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut node = Node::with(&["--cpus", "8"]);
    let mut mum = host.start(&mut node).await;
    let waits = with_gpus(node.sh(1, "true"), 1_000_000);
    let plain = node.sh(2, TELL);
    mum.accept(&[&waits, &plain]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&plain, Stage::Running).await;
    why(
        &mut follower,
        &waits,
        "waits for GPUs: they are being looked at",
    )
    .await;
    let helper = host.helper().await;

    let launcher = node.launcher().await;
    let (shim, job) = node.claim(&plain);
    node.kill_mum();
    for pid in [launcher, shim] {
        kill(pid, Signal::KILL);
    }
    assert_eq!(helper.life().unwrap(), Life::Alive, "the call hangs on");
    let mut mum = host.start(&mut node).await;
    let after = node.sh(3, "exit 4");
    mum.accept(&[&after]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&after]).await;
    assert!(ProcessId::of(job).is_ok(), "the job goes on");
    why(&mut follower, &waits, "waits for GPUs").await;
    fs::write(node.run_dir(&plain).join("go"), "").unwrap();
    follower.settled(&[&plain]).await;
    kill(helper.pid, Signal::KILL);
    mum.cancel(&[&waits]).await;
    follower.stage(&waits, Stage::TakenAway).await;
}

/// Answers as podman, docker and apptainer do; a start prints its words and the cards that it shows.
const RUNTIME: &str = r#"case $1 in
  version | info | --version) echo 99.1 ;;
  image) echo sha256:0f ;;
  inspect) echo 'exited 0 false' ;;
  run | exec) echo "<$*> <$CUDA_VISIBLE_DEVICES> <$APPTAINERENV_CUDA_VISIBLE_DEVICES>" ;;
esac"#;

#[tokio::test]
async fn a_container_is_told_of_the_cards_of_its_run_and_of_no_others() {
    let host = FakeHost::new(&[&card(0, ""), &card(1, "")]);
    let cases = [
        ("podman", "--device nvidia.com/gpu=GPU-0"),
        ("docker", "--gpus \"device=GPU-0\""),
        ("apptainer", "--nv"),
    ];
    for (runtime, _) in cases {
        host.tool(runtime, RUNTIME);
    }
    let image = host.path("tools").join("docker").display().to_string();
    let mut node = Node::with(&["--cpus", "8"]);
    let mut mum = host.start(&mut node).await;
    let contained = |number: u64, runtime: &str, micro: u32| {
        let mut spec = with_gpus(node.run(number, &["train"]), micro);
        let scheduler = spec.scheduler.get_or_insert_default();
        scheduler.container = Some(Container {
            image: match runtime {
                "apptainer" => image.clone(),
                _ => "tiny".to_owned(),
            },
            runtime: runtime.to_owned(),
            ..Container::default()
        });
        spec
    };
    for (at, (runtime, words)) in cases.into_iter().enumerate() {
        let at = at as u64 * 2;
        let with = contained(at + 1, runtime, 1_000_000);
        let without = contained(at + 2, runtime, 0);
        mum.accept(&[&with]).await;
        let said = wait_for("a start", || {
            Some(told(&node, &with)).filter(|one| !one.is_empty())
        })
        .await;
        assert!(said.contains(words), "{said}");
        assert!(said.contains("<GPU-0>"), "{said}");
        let mut follower = mum.follow(Known::default()).await;
        follower.stage(&with, Stage::Settled).await;
        mum.accept(&[&without]).await;
        let said = wait_for("a start", || {
            Some(told(&node, &without)).filter(|one| !one.is_empty())
        })
        .await;
        for asked in ["--device", "--gpus", "--nv"] {
            assert!(!said.contains(asked), "{said}");
        }
        // An empty list shows none, also where a runtime gives all that the host has.
        assert!(said.ends_with("> <> <>"), "{said}");
        if runtime != "apptainer" {
            assert!(said.contains("--env CUDA_VISIBLE_DEVICES "), "{said}");
            assert!(said.contains("--env NVIDIA_VISIBLE_DEVICES=void"), "{said}");
        }
    }
}

#[tokio::test]
async fn the_versions_of_driver_and_toolkit_are_told() {
    let host = FakeHost::new(&[&card(0, "")]);
    host.tool(
        "nvcc",
        "echo 'Cuda compilation tools, release 12.4, V12.4.131'",
    );
    let mut node = Node::new();
    let mut mum = host.start(&mut node).await;
    let mut told = String::new();
    for _ in 0..200 {
        let asked = mum.client.examine(ExamineRequest::default()).await.unwrap();
        let found = asked.into_inner().findings;
        let of = found
            .into_iter()
            .find(|one| one.what == nero_model::names::TOOLKITS);
        told = of.unwrap().text;
        if !told.contains("NVDRV:x") {
            break;
        }
    }
    assert!(told.starts_with("NVDRV:570.00,CUDA:12.4,cuDNN:"), "{told}");
}
