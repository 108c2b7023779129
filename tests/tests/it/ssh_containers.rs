//! Runs in containers on nodes that are reached by `ssh`, by a user without rights: docker,
//! charliecloud, and podman without root.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nero_tests::hosts::isolates;
use nero_tests::{Containers, Home, Hosts, until};
use serde_json::json;

/// Two hosts as the nodes `h1` and `h2` and the group `pair`; `None` where only root can have them.
fn nodes() -> Option<(Hosts, Home)> {
    if !isolates() {
        eprintln!("skipped: hosts with name spaces of their own need root");
        return None;
    }
    let hosts = Hosts::up(2);
    let home = Home::with_hosts(&hosts);
    home.configure("nodes:\n  h1: {address: h1}\n  h2: {address: h2}\ngroups: {pair: [h1, h2]}\n");
    Some((hosts, home))
}

/// An experiment on a node in the container of this runtime, with an archive in its folder.
fn experiment(home: &Home, name: &str, node: &str, runtime: &str, yaml: &str) -> PathBuf {
    let container = format!("{{image: ./tiny.tar, runtime: {runtime}}}");
    let yaml = format!("node: {node}\n{yaml}\ncontainer: {container}\n");
    let folder = home.experiment(name, &yaml);
    Containers::image(&folder.join("tiny.tar"));
    folder
}

const TELLS: &str =
    r#"command: [sh, -c, 'echo loss 0.25; echo "$NERO_ID $(id -u)"; echo made > out.txt; exit 7']"#;

#[test]
fn a_user_without_rights_runs_in_docker_and_charliecloud_of_a_node() {
    let Some((hosts, home)) = nodes() else { return };
    let runtimes = Containers::on_host(&hosts, "h2");
    // The first node of the group has no daemon of docker.
    for (id, (node, runtime)) in (1..).zip([("pair", "docker"), ("h1", "charliecloud")]) {
        let folder = experiment(&home, runtime, node, runtime, TELLS);
        home.ok(&["start", folder.to_str().unwrap()]);
        let seen = home.until_settled(id);
        assert_eq!(seen["exit_code"], 7, "{runtime}: {seen:#}");
        assert_eq!(seen["metrics"]["loss"]["last"], 0.25, "{runtime}: {seen:#}");
        let logs = home.ok(&["logs", &id.to_string()]);
        assert!(logs.contains(&format!("{id} 61001")), "{runtime}: {logs}");
        until(&format!("results of {runtime}"), || {
            let seen = home.experiment_json(id);
            match seen["results"].as_str().map(Path::new) {
                Some(results) if results.is_dir() => Ok(()),
                _ => Err(seen),
            }
        });
    }
    let listed = hosts.ssh("h2", "docker ps -aq");
    assert!(
        listed.status.success() && listed.stdout.is_empty(),
        "{listed:?}"
    );
    let folder = experiment(&home, "nowhere", "h1", "docker", TELLS);
    home.ok(&["start", folder.to_str().unwrap()]);
    let seen = home.until_settled(3);
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("docker does not work here"), "{reason}");
    drop(runtimes);
}

#[test]
fn the_container_of_a_run_that_a_reboot_ended_is_removed() {
    let Some((hosts, home)) = nodes() else { return };
    let runtimes = Containers::on_host(&hosts, "h1");
    let yaml = "command: [sh, -c, 'echo here; exec sleep 300']";
    let folder = experiment(&home, "r", "h1", "docker", yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    let printed = |run: &str| {
        until("the job to print", || {
            let ran = home.run(&["logs", run]);
            if ran.out.contains("here") {
                Ok(())
            } else {
                Err((ran, home.logs()))
            }
        });
    };
    printed("1.1");
    hosts.restart("h1");
    // The machine that is started has a daemon, which knows the container.
    drop(runtimes);
    let again = Containers::on_host(&hosts, "h1");
    let seen = home.until_state(1, "lost");
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("restarted"), "{seen:#}");
    until("the container to be gone", || {
        let listed = hosts.ssh("h1", "docker ps -aq");
        if listed.status.success() && listed.stdout.is_empty() {
            Ok(())
        } else {
            Err((listed, home.logs()))
        }
    });
    home.ok(&["restart", "1", "--yes"]);
    printed("1.2");
    home.ok(&["abort", "1"]);
    assert_eq!(home.until_settled(1)["state"], "aborted");
    drop(again);
}

/// Lets podman work there without root: a range of ids, cgroups of one kind, a whole `/proc`.
fn let_podman_work(hosts: &Hosts, ids: &str) {
    let common = hosts.common();
    let subuid = common.join("subuid");
    std::fs::write(&subuid, ids).unwrap();
    // Every user of a host reads this file, whatever the test's own umask is.
    std::fs::set_permissions(&subuid, Permissions::from_mode(0o644)).unwrap();
    let lines = format!(
        "umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; \
         mkdir -p /run/proc; mount -t proc proc /run/proc; \
         mount --bind {0} /etc/subuid; mount --bind {0} /etc/subgid; mount --make-rshared /",
        subuid.display()
    );
    hosts.enter("h1", &["sh", "-ec", &lines]);
    hosts.ssh("h1", "mkdir -p .config/containers");
    let conf = "[containers]\ncgroups = \"disabled\"\nnetns = \"host\"\n\
                default_ulimits = [\"nofile=1024:1024\", \"nproc=4000:4000\"]\n\
                [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
    hosts.put("h1", ".config/containers/containers.conf", conf, 0o644);
    let conf = "[storage]\ndriver = \"vfs\"\n";
    hosts.put("h1", ".config/containers/storage.conf", conf, 0o644);
}

/// The processes of the host's user that keep podman's name space, with their parents.
fn pauses(hosts: &Hosts) -> String {
    let found = hosts.ssh("h1", "ps -C catatonit -o pid=,ppid=,args=");
    String::from_utf8_lossy(&found.stdout).into_owned()
}

/// One after the other: all hosts have the user's folder of podman below `/tmp` in common.
#[test]
fn podman_without_root_runs_where_the_user_has_a_range_of_ids() {
    podman_with_a_range_runs_and_its_pause_process_is_no_runs();
    podman_without_a_range_is_refused_with_what_to_do();
}

fn podman_with_a_range_runs_and_its_pause_process_is_no_runs() {
    let Some((hosts, home)) = nodes() else { return };
    let_podman_work(&hosts, "tester:200000:65536\n");
    let mut before = String::new();
    for id in 1..=2 {
        let folder = experiment(&home, &format!("r{id}"), "h1", "podman", TELLS);
        home.ok(&["start", folder.to_str().unwrap()]);
        let seen = home.until_settled(id);
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
        assert_eq!(seen["warnings"], json!([]), "{seen:#}");
        let logs = home.ok(&["logs", &id.to_string()]);
        assert!(logs.contains(&format!("{id} 61001")), "{logs}");
        // It was begun before the first run, and goes on beyond all of them.
        let now = pauses(&hosts);
        assert_eq!(now.lines().count(), 1, "{now}");
        assert!(now.contains("-P"), "{now}");
        assert!(id == 1 || now == before, "{before} {now}");
        before = now;
    }
    let yaml = "command: [sh, -c, 'echo here; sleep 300']\nmonitor: {grace: 20s}";
    let folder = experiment(&home, "long", "h1", "podman", yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    until("the job to print", || {
        let ran = home.run(&["logs", "3"]);
        if ran.out.contains("here") {
            Ok(())
        } else {
            Err((ran, home.logs()))
        }
    });
    home.ok(&["abort", "3"]);
    let seen = home.until_settled(3);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    assert!(seen["runtime_s"].as_f64().unwrap() < 15.0, "{seen:#}");
    assert_eq!(pauses(&hosts), before);
    let listed = hosts.ssh("h1", "podman ps -aq");
    assert!(
        listed.status.success() && listed.stdout.is_empty(),
        "{listed:?}"
    );
    let used = home.json(&["du", "h1"]);
    let bytes = used["nodes"][0]["usage"]["images_bytes"].as_u64();
    assert!(bytes.unwrap() > 1_000_000, "{used:#}");
    home.ok(&["clean", "--images", "--yes"]);
    assert_eq!(pauses(&hosts), "", "{}", home.logs());
    let images = hosts.ssh("h1", "podman images -q");
    assert!(
        images.status.success() && images.stdout.is_empty(),
        "{images:?}"
    );
    // This command of the user began the process that is there now.
    home.ok(&["infra", "down", "pair", "--yes"]);
    assert_eq!(pauses(&hosts).lines().count(), 1);
}

fn podman_without_a_range_is_refused_with_what_to_do() {
    let Some((hosts, home)) = nodes() else { return };
    let_podman_work(&hosts, "");
    let folder = experiment(&home, "r", "h1", "podman", TELLS);
    home.ok(&["start", folder.to_str().unwrap()]);
    let seen = home.until_settled(1);
    assert_eq!(seen["state"], "crashed", "{seen:#}");
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("no range of subordinate ids"), "{reason}");
    assert!(reason.contains("/etc/subuid"), "{reason}");
    let told = home.run(&["node", "doctor", "h1"]).out;
    assert!(told.contains("no range of subordinate ids"), "{told}");
}
