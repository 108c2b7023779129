//! Runs in containers of real runtimes: podman, docker, charliecloud. Nothing differs from a run
//! without one, and nothing of a container outlives its run.

mod faults;
mod registry;
mod scheduler;

use std::path::PathBuf;

use nero_model::ProcessId;
use nero_tests::processes::Part;
use nero_tests::{Containers, Home, end, until};
use serde_json::json;

/// A home with runtimes. The runtimes are dropped before the home, whose folder they are in.
struct Rig {
    runtimes: Containers,
    home: Home,
}

impl Rig {
    fn new() -> Self {
        let mut home = Home::new();
        let runtimes = Containers::start(&mut home);
        Self { runtimes, home }
    }

    /// An experiment in the container of this runtime, with an archive in its folder.
    fn experiment(&self, name: &str, runtime: &str, yaml: &str) -> PathBuf {
        let container = match runtime {
            "none" => "~".to_owned(),
            runtime => format!("{{image: ./tiny.tar, runtime: {runtime}}}"),
        };
        let folder = self
            .home
            .experiment(name, &format!("{yaml}\ncontainer: {container}\n"));
        Containers::image(&folder.join("tiny.tar"));
        folder
    }

    fn start(&self, name: &str, runtime: &str, yaml: &str) {
        let folder = self.experiment(name, runtime, yaml);
        self.home.ok(&["start", folder.to_str().unwrap()]);
    }

    /// The clients of runtimes, which are the main processes of jobs.
    fn clients(&self) -> Vec<ProcessId> {
        let name = |id: &ProcessId| std::fs::read_to_string(format!("/proc/{}/comm", id.pid));
        let is_client =
            |id: &ProcessId| name(id).is_ok_and(|name| ["podman", "docker"].contains(&name.trim()));
        let jobs = self.home.alive(Part::Job);
        jobs.into_iter().filter(is_client).collect()
    }

    /// The first of them.
    #[track_caller]
    fn client(&self) -> ProcessId {
        until("a client", || {
            let found = self.clients();
            found.first().copied().ok_or_else(|| self.home.logs())
        })
    }

    /// Whether no process of the one container runs: docker says so, and those of podman are
    /// stopped processes of the job.
    fn stands_still(&self, runtime: &str) -> bool {
        if runtime == "docker" {
            let status = ["ps", "-a", "--format", "{{.Status}}"];
            let said = self.runtimes.said(&self.home, runtime, &status);
            return said.contains("(Paused)");
        }
        let is_stopped = |id: &ProcessId| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.pid));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        let jobs = self.home.alive(Part::Job);
        !jobs.is_empty() && jobs.iter().all(is_stopped)
    }

    /// Waits until the job's own code printed something.
    #[track_caller]
    fn until_printed(&self, id: &str, text: &str) {
        until(&format!("{id} to print {text}"), || {
            let ran = self.home.run(&["logs", id]);
            if ran.out.contains(text) {
                Ok(())
            } else {
                Err((ran, self.home.logs()))
            }
        });
    }
}

const LONG: &str = "command: [sh, -c, 'echo here; sleep 300']\nmonitor: {grace: 20s}";

#[test]
fn a_run_in_a_container_differs_in_nothing_from_one_without() {
    let rig = Rig::new();
    let yaml = r#"command: [sh, -c, 'echo loss 0.25; echo "<$TEXT> $NERO_ID $(pwd)"; cat given; echo made > out.txt; echo "{{\"depth\": 4}}" >> "$NERO_METRICS"; exit {code}']
env: {TEXT: "a  'b'\n\"c\" =, $$HOME"}
parameters: {code: 7}"#;
    let mut told = Vec::new();
    for (id, runtime) in (1..).zip(["none", "podman", "docker", "charliecloud", "apptainer"]) {
        let folder = rig.experiment(&format!("in {runtime}, a:b"), runtime, yaml);
        std::fs::write(folder.join("given"), "given\n").unwrap();
        rig.home.ok(&["start", folder.to_str().unwrap()]);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["exit_code"], 7, "{runtime}: {seen:#}");
        assert_eq!(seen["reason"], "exit code 7", "{runtime}: {seen:#}");
        assert_eq!(seen["metrics"]["loss"]["last"], 0.25, "{runtime}: {seen:#}");
        assert_eq!(seen["metrics"]["depth"]["last"], 4.0, "{runtime}: {seen:#}");
        assert_eq!(seen["warnings"], json!([]), "{runtime}: {seen:#}");
        let image = seen["image"].as_str().unwrap_or_default();
        assert_eq!(
            image.starts_with("./tiny.tar sha256:"),
            runtime != "none",
            "{runtime}: {seen:#}"
        );
        let number = id.to_string();
        let logs = rig.home.ok(&["logs", &number]);
        let work = rig.home.ok(&["path", &number, "--work"]);
        let logs = logs
            .replace(work.trim(), "WORK")
            .replace(&format!("> {id} "), "> N ");
        told.push(logs);
        let made = std::fs::metadata(PathBuf::from(work.trim()).join("out.txt")).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), own, "{runtime}");
    }
    assert!(
        told[0].contains("<a  'b'\n\"c\" =, $HOME> N WORK\ngiven\n"),
        "{}",
        told[0]
    );
    assert!(told.iter().all(|one| *one == told[0]), "{told:#?}");
    for runtime in ["podman", "docker"] {
        assert!(
            rig.runtimes.listed(&rig.home, runtime).is_empty(),
            "{runtime}"
        );
    }
}

#[test]
fn an_abort_ends_the_container() {
    let rig = Rig::new();
    for (id, runtime) in (1..).zip(["podman", "docker", "charliecloud"]) {
        rig.start(runtime, runtime, LONG);
        let number = id.to_string();
        rig.until_printed(&number, "here");
        rig.home.ok(&["abort", &number]);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "aborted", "{runtime}: {seen:#}");
        // It got its signal: the grace is not over.
        assert!(
            seen["runtime_s"].as_f64().unwrap() < 15.0,
            "{runtime}: {seen:#}"
        );
        if runtime != "charliecloud" {
            assert!(
                rig.runtimes.listed(&rig.home, runtime).is_empty(),
                "{runtime}"
            );
        }
    }
}

#[test]
fn a_container_whose_client_is_killed_is_removed_before_the_end_is_told() {
    let rig = Rig::new();
    for (id, runtime) in (1..).zip(["podman", "docker"]) {
        rig.start(runtime, runtime, LONG);
        rig.until_printed(&id.to_string(), "here");
        end(&[rig.client()]);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "crashed", "{runtime}: {seen:#}");
        assert!(
            rig.runtimes.listed(&rig.home, runtime).is_empty(),
            "{runtime}"
        );
    }
}

#[test]
fn whoever_takes_a_job_over_removes_its_container_and_knows_its_code() {
    let rig = Rig::new();
    let yaml = "command: [sh, -c, 'echo here; while ! [ -e go ]; do sleep 0.1; done; exit 9']";
    let parts: [&[Part]; 2] = [&[Part::Shim], &[Part::Shim, Part::Launcher]];
    let mut id = 0;
    for runtime in ["podman", "docker"] {
        for killed in parts {
            id += 1;
            rig.start(&format!("{runtime}{id}"), runtime, yaml);
            let number = id.to_string();
            rig.until_printed(&number, "here");
            rig.home.kill_all(killed);
            let work = rig.home.ok(&["path", &number, "--work"]);
            std::fs::write(PathBuf::from(work.trim()).join("go"), "").unwrap();
            let seen = rig.home.until_settled(id);
            // No process of ours is the client's parent any more: the runtime tells the code.
            assert_eq!(seen["exit_code"], 9, "{runtime} {killed:?}: {seen:#}");
            assert!(
                rig.runtimes.listed(&rig.home, runtime).is_empty(),
                "{runtime}"
            );
        }
    }
}

#[test]
fn a_run_whose_docker_does_not_answer_ends_when_it_does_again() {
    let rig = Rig::new();
    rig.start("docker", "docker", LONG);
    rig.until_printed("1", "here");
    rig.runtimes.kill_docker();
    until("the run to be ending", || {
        let seen = rig.home.experiment_json(1);
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        if seen["state"] == "ending" && why.contains("docker does not answer") {
            Ok(seen)
        } else {
            Err((seen, rig.home.logs()))
        }
    });
    rig.runtimes.start_docker();
    let seen = rig.home.until_settled(1);
    // The client ended with 125, which is not the job's code.
    assert_ne!(seen["exit_code"], 125, "{seen:#}");
    assert_eq!(seen["warnings"], json!([]), "{seen:#}");
    rig.runtimes.until_empty(&rig.home, "docker");
}

#[test]
fn a_paused_container_stands_still() {
    let rig = Rig::new();
    let yaml =
        "command: [sh, -c, 'while true; do echo tick; sleep 0.05; done']\nmonitor: {grace: 20s}";
    for (id, runtime) in (1..).zip(["podman", "docker"]) {
        rig.start(runtime, runtime, yaml);
        let number = id.to_string();
        rig.until_printed(&number, "tick");
        rig.home.ok(&["pause", &number]);
        rig.home.until_state(id, "paused");
        until(&format!("{runtime} to stand still"), || {
            if rig.stands_still(runtime) {
                Ok(())
            } else {
                Err(rig.home.logs())
            }
        });
        rig.home.ok(&["resume", &number]);
        let before = rig.home.ok(&["logs", &number]).len();
        until(&format!("{runtime} to go on"), || {
            let now = rig.home.ok(&["logs", &number]).len();
            if now > before {
                Ok(())
            } else {
                Err(rig.home.logs())
            }
        });
        rig.home.ok(&["abort", &number]);
        assert_eq!(rig.home.until_settled(id)["state"], "aborted");
        assert!(
            rig.runtimes.listed(&rig.home, runtime).is_empty(),
            "{runtime}"
        );
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_its_reason() {
    let rig = Rig::new();
    let start = |name: &str, container: &str| {
        let yaml = format!("command: 'true'\ncontainer: {container}\n");
        let folder = rig.home.experiment(name, &yaml);
        std::fs::write(folder.join("broken.tar"), "no archive").unwrap();
        rig.home.ok(&["start", folder.to_str().unwrap()]);
    };
    let cases = [
        (
            "missing",
            "{image: nowhere/none:1, runtime: podman, pull: never}",
            "it is not here",
        ),
        (
            "missing-docker",
            "{image: nowhere/none:1, runtime: docker, pull: never}",
            "it is not here",
        ),
        (
            "broken",
            "{image: ./broken.tar, runtime: podman}",
            "cannot be loaded",
        ),
        (
            "broken-ch",
            "{image: ./broken.tar, runtime: charliecloud}",
            "cannot be had",
        ),
        (
            "no-path",
            "{image: /no/such/image.sif, runtime: charliecloud}",
            "No such file",
        ),
        (
            "no-runtime",
            "{image: ./broken.tar, runtime: singularity}",
            "singularity does not work here",
        ),
    ];
    for (id, (name, container, why)) in (1..).zip(cases) {
        start(name, container);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "crashed", "{name}: {seen:#}");
        let reason = seen["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(why), "{name}: {reason}");
    }
}

#[test]
fn the_entrypoint_of_an_image_is_not_run() {
    let rig = Rig::new();
    let file = rig.home.path().join("tiny.tar");
    Containers::image(&file);
    let file = file.to_str().unwrap();
    for (id, runtime) in (1..).zip(["podman", "docker"]) {
        let name = "localhost/hostile:1";
        let change = [
            "import",
            "--change",
            "ENTRYPOINT [\"/bin/false\"]",
            file,
            name,
        ];
        rig.runtimes.said(&rig.home, runtime, &change);
        let yaml = format!("command: 'true'\ncontainer: {{image: '{name}', runtime: {runtime}}}\n");
        let folder = rig.home.experiment(runtime, &yaml);
        rig.home.ok(&["start", folder.to_str().unwrap()]);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "finished", "{runtime}: {seen:#}");
    }
}
