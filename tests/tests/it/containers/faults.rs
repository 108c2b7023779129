//! Containers that do not want to end, images that lack what a command needs, and what is left.

use std::path::{Path, PathBuf};
use std::process::Command;

use nero_model::ProcessId;
use nero_tests::disk::Small;
use nero_tests::{Containers, Home, Part, end, until};
use serde_json::Value;

use super::Rig;

/// Waits until no process here has this word in its command line, and no container is left.
fn nothing_is_left(rig: &Rig, runtime: &str, mark: &str) {
    until(&format!("nothing of {mark} to be left"), || {
        let found = Command::new("pgrep").args(["-f", mark]).output().unwrap();
        let listed = match runtime {
            "podman" | "docker" => rig.runtimes.listed(&rig.home, runtime),
            _ => Vec::new(),
        };
        if found.stdout.is_empty() && listed.is_empty() {
            Ok(())
        } else {
            let found = String::from_utf8_lossy(&found.stdout).into_owned();
            Err((found, listed, rig.home.logs()))
        }
    });
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let root = rig.home.path().display().to_string();
    assert!(!mounts.contains(&root), "{mounts}");
}

#[test]
fn an_abort_ends_what_forks_ignores_its_signal_and_became_another_user() {
    let rig = Rig::new();
    for (id, runtime) in (1..).zip(["podman", "docker", "charliecloud"]) {
        // A time that no other process on the machine sleeps for.
        let mark = format!("sleep 3{}{id}", std::process::id());
        let yaml = format!(
            "command: [sh, -c, \"trap '' TERM; ({mark} &); {mark} & chpst -u :65534 {mark} & \
             echo here; {mark}\"]\nmonitor: {{grace: 1s}}"
        );
        rig.start(runtime, runtime, &yaml);
        let number = id.to_string();
        rig.until_printed(&number, "here");
        rig.home.ok(&["abort", &number]);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "aborted", "{runtime}: {seen:#}");
        nothing_is_left(&rig, runtime, &mark);
    }
}

#[test]
fn all_that_a_container_prints_arrives() {
    const BYTES: u64 = 200_000_000;
    let rig = Rig::new();
    for (id, runtime) in (1..).zip(["podman", "docker"]) {
        let yaml = format!("command: [sh, -c, 'yes 0123456789 | head -c {BYTES}']\noutputs: []\n");
        rig.start(runtime, runtime, &yaml);
        // The watcher reads on for longer than that.
        let seen = rig.home.until_state(id, "finished");
        assert_eq!(seen["exit_code"], 0, "{runtime}: {seen:#}");
        let work = rig.home.ok(&["path", &id.to_string(), "--work"]);
        let log = Path::new(work.trim())
            .with_file_name("1")
            .join("stdout.log");
        assert_eq!(std::fs::metadata(&log).unwrap().len(), BYTES, "{runtime}");
        assert!(rig.runtimes.listed(&rig.home, runtime).is_empty());
    }
}

/// Writes an archive of a root file system with one program and no shell.
fn without_shell(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    std::fs::copy("/bin/busybox", folder.path().join("true")).unwrap();
    let made = Command::new("tar")
        .arg("-C")
        .arg(folder.path())
        .arg("-cf")
        .arg(path)
        .arg(".")
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn an_image_without_a_shell_runs_its_own_program() {
    let rig = Rig::new();
    let mut id = 0;
    for runtime in ["podman", "docker", "charliecloud"] {
        for (command, code) in [("/true", 0), ("/bin/sh", 127)] {
            id += 1;
            let yaml = format!(
                "command: [{command}]\ncontainer: {{image: ./bare.tar, runtime: {runtime}}}\n"
            );
            let folder = rig.home.experiment(&format!("{runtime}{id}"), &yaml);
            without_shell(&folder.join("bare.tar"));
            rig.home.ok(&["start", folder.to_str().unwrap()]);
            let seen = rig.home.until_settled(id);
            let told = &seen["exit_code"];
            match code {
                0 => assert_eq!(told, 0, "{runtime}: {seen:#}"),
                // With podman and docker the program that passes signals on tells it.
                _ => {
                    assert_ne!(told, 0, "{runtime}: {seen:#}");
                    let line = seen["stderr_line"].as_str().unwrap_or_default();
                    let tells = line.to_lowercase().contains("no such file");
                    assert!(tells, "{runtime}: {seen:#}");
                }
            }
        }
    }
}

#[test]
fn an_image_that_the_disk_has_no_room_for_leaves_nothing_of_itself() {
    let Some(small) = Small::mounted(400) else {
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let image = outside.path().join("big.tar.gz");
    let zeros = outside.path().join("zeros");
    std::fs::File::create(&zeros)
        .unwrap()
        .set_len(500_000_000)
        .unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(outside.path())
        .arg("-czf")
        .arg(&image)
        .arg("zeros");
    assert!(tar.status().unwrap().success());
    let home = Home::in_folder(tempfile::tempdir_in(small.path()).unwrap());
    home.configure("nodes: {local: {min_free: 1M}}\n");
    let image = image.display();
    let yaml = format!("command: 'true'\ncontainer: {{image: '{image}', runtime: charliecloud}}\n");
    let folder = home.experiment("full", &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    let seen = home.until_settled(1);
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("the disk is full"), "{reason}");
    let free = rustix::fs::statvfs(small.path()).unwrap();
    assert!(free.f_bavail * free.f_frsize > 100_000_000);
}

#[test]
fn what_a_container_uses_is_measured() {
    let rig = Rig::new();
    let yaml = "command: [sh, -c, 'while true; do :; done']\nmonitor: {interval: 200ms, grace: 1s}";
    for (id, runtime) in (1..).zip(["podman", "docker"]) {
        rig.start(runtime, runtime, yaml);
        until(&format!("{runtime} to use a core"), || {
            let seen = rig.home.experiment_json(id);
            match seen["cpu_cores"].as_f64() {
                Some(cores) if cores > 0.3 => Ok(()),
                _ => Err::<_, (Value, _)>((seen, rig.home.logs())),
            }
        });
        rig.home.ok(&["abort", &id.to_string()]);
        assert_eq!(rig.home.until_settled(id)["state"], "aborted");
    }
}

/// Folders of a node's images.
fn unpacked(home: &Home) -> Vec<PathBuf> {
    let pattern = home.base().join("node");
    let found = Command::new("find")
        .arg(pattern)
        .args(["-path", "*/images/*", "-type", "d", "-prune"])
        .output();
    let found = String::from_utf8_lossy(&found.unwrap().stdout).into_owned();
    found.lines().map(PathBuf::from).collect()
}

#[test]
fn half_an_image_of_an_agent_that_died_is_unpacked_anew() {
    let home = Home::new();
    let yaml = "command: [sh, -c, '[ ! -e /left ]']\n\
                container: {image: ./tiny.tar, runtime: charliecloud}\n";
    let folder = home.experiment("r", yaml);
    Containers::image(&folder.join("tiny.tar"));
    home.ok(&["start", folder.to_str().unwrap()]);
    assert_eq!(home.until_settled(1)["state"], "finished");
    let [whole] = &unpacked(&home)[..] else {
        panic!("one image: {:?}", unpacked(&home));
    };
    let name = format!(".{}", whole.file_name().unwrap().display());
    let half = whole.with_file_name(name);
    std::fs::rename(whole, &half).unwrap();
    std::fs::write(half.join("left"), "").unwrap();
    home.kill_all(&[Part::Mum]);
    home.ok(&["restart", "1"]);
    let seen = home.until_settled(1);
    assert_eq!(seen["exit_code"], 0, "{seen:#}");
    assert_eq!(unpacked(&home).first(), Some(whole));
}

#[test]
fn a_container_that_fills_its_file_system_ends_by_its_own_error_and_the_node_goes_on() {
    let rig = Rig::new();
    let full = "options: ['--tmpfs=/full:size=1m']";
    let cases = [
        ("podman", full, "/full/x", "No space left on device"),
        ("docker", full, "/full/x", "No space left on device"),
        // Its images are closed to changes.
        ("charliecloud", "options: []", "/x", "Read-only file system"),
    ];
    let mut id = 0;
    for (runtime, options, file, why) in cases {
        for (command, code) in [
            (format!("cat /dev/zero > {file}"), 1),
            ("exit 3".to_owned(), 3),
        ] {
            id += 1;
            let yaml = format!(
                "command: [sh, -c, '{command}']\n\
                 container: {{image: ./tiny.tar, runtime: {runtime}, {options}}}\n"
            );
            let folder = rig.home.experiment(&format!("r{id}"), &yaml);
            Containers::image(&folder.join("tiny.tar"));
            rig.home.ok(&["start", folder.to_str().unwrap()]);
            let seen = rig.home.until_settled(id);
            assert_eq!(seen["exit_code"], code, "{runtime}: {seen:#}");
            let line = seen["stderr_line"].as_str().unwrap_or_default();
            assert!(code == 3 || line.contains(why), "{runtime}: {seen:#}");
        }
    }
}

#[test]
fn a_container_that_a_new_docker_daemon_left_alive_ends_with_its_run() {
    let rig = Rig::new();
    let mark = format!("sleep 3{}07", std::process::id());
    rig.runtimes.kill_docker();
    rig.runtimes.start_docker_with_live_restore();
    rig.start(
        "docker",
        "docker",
        &format!("command: [sh, -c, 'echo here; {mark}']"),
    );
    rig.until_printed("1", "here");
    rig.runtimes.kill_docker();
    rig.runtimes.start_docker_with_live_restore();
    // Its client is gone, and with it what would be printed; the client's code tells nothing.
    let seen = rig.home.until_state(1, "lost");
    assert_eq!(seen["reason"], "ended, exit code unknown", "{seen:#}");
    nothing_is_left(&rig, "docker", &mark);
}

/// What is killed while runs in containers are at work.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Part(Part),
    Client,
    /// The process of this name beside a container.
    Beside(&'static str),
    Daemon,
}

impl Victim {
    /// Kills one of its kind, if there is one.
    fn kill(self, rig: &Rig) {
        let first = |found: Vec<ProcessId>| end(&found[..found.len().min(1)]);
        match self {
            Self::Part(part) => first(rig.home.alive(part)),
            Self::Client => first(rig.clients()),
            Self::Daemon => rig.runtimes.kill_docker(),
            Self::Beside(name) => {
                let folder = rig.home.path().display().to_string();
                let words = format!("{name}.*{folder}");
                let found = Command::new("pgrep").args(["-f", &words]).output().unwrap();
                let found = String::from_utf8_lossy(&found.stdout).into_owned();
                let pids = found.lines().filter_map(|line| line.parse().ok());
                first(pids.filter_map(|pid| ProcessId::of(pid).ok()).collect());
            }
        }
    }
}

/// Whatever is killed, no end is told while a process of the run's container lives.
fn ends_are_true_whatever_is_killed(runtime: &str, victims: &[Victim]) {
    let rig = Rig::new();
    let mark = |id: u64| format!("sleep 3{}{id:02}", std::process::id());
    let start = |id: u64| {
        let yaml = format!(
            "command: [sh, -c, '{} & echo here; while ! [ -e go ]; do sleep 0.1; done; exit 9']\n\
             monitor: {{grace: 1s}}\nresources: {{cpus: 0.1}}",
            mark(id)
        );
        rig.start(&format!("r{id}"), runtime, &yaml);
        rig.until_printed(&id.to_string(), "here");
    };
    let has_ended = |seen: &Value| {
        let ends = ["finished", "crashed", "aborted", "lost"].map(Value::from);
        ends.contains(&seen["state"])
    };
    // A container without its conmon ends when podman notices, after some 20 s, with no code.
    let settles = |id: u64| {
        until(&format!("experiment {id} to be settled"), || {
            let seen = rig.home.experiment_json(id);
            let is_settled = has_ended(&seen) && seen["settled"] == true;
            if is_settled {
                Ok(())
            } else {
                Err((seen, rig.home.logs()))
            }
        });
    };
    let check = |id: u64, after: Victim| {
        // Looked at in this order: what has ended has nothing from then on.
        let seen = rig.home.experiment_json(id);
        if has_ended(&seen) {
            let found = Command::new("pgrep")
                .args(["-f", &mark(id)])
                .output()
                .unwrap();
            let found = String::from_utf8_lossy(&found.stdout).into_owned();
            assert!(found.is_empty(), "after {after:?}: {found} {seen:#}");
            assert_ne!(seen["exit_code"], 125, "after {after:?}: {seen:#}");
        }
    };
    let mut id = 0;
    for &victim in victims {
        for _ in 0..2 {
            id += 1;
            start(id);
        }
        victim.kill(&rig);
        (1..=id).for_each(|id| check(id, victim));
        let work = rig.home.ok(&["path", &id.to_string(), "--work"]);
        // One ends by itself, while what was killed is away.
        std::fs::write(Path::new(work.trim()).join("go"), "").unwrap();
        (1..=id).for_each(|id| check(id, victim));
        if matches!(victim, Victim::Daemon) {
            rig.runtimes.start_docker();
        }
        settles(id);
        (1..=id).for_each(|id| check(id, victim));
    }
    rig.home.ok(&["abort", "all", "--yes"]);
    for id in 1..=id {
        settles(id);
        check(id, Victim::Client);
        nothing_is_left(&rig, runtime, &mark(id));
    }
}

#[test]
fn whatever_of_docker_is_killed_no_end_is_told_while_a_process_of_its_container_lives() {
    let victims = [
        Victim::Client,
        Victim::Beside("containerd-shim"),
        Victim::Daemon,
        Victim::Part(Part::Shim),
        Victim::Part(Part::Launcher),
        Victim::Part(Part::Mum),
    ];
    ends_are_true_whatever_is_killed("docker", &victims);
}

#[test]
fn whatever_of_podman_is_killed_no_end_is_told_while_a_process_of_its_container_lives() {
    let victims = [
        Victim::Client,
        Victim::Beside("conmon"),
        Victim::Part(Part::Shim),
        Victim::Part(Part::Launcher),
        Victim::Part(Part::Mum),
    ];
    ends_are_true_whatever_is_killed("podman", &victims);
}
