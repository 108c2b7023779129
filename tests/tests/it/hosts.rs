//! The hosts of the rig are what the scenarios take them for.

use std::fs;
use std::process::Command;

use nero_tests::hosts::Plan;
use nero_tests::{Hosts, until};

fn said(hosts: &Hosts, host: &str, command: &str) -> String {
    let output = hosts.ssh(host, command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn needs_name_spaces() -> bool {
    if nero_tests::hosts::isolates() {
        return true;
    }
    eprintln!("skipped: hosts with name spaces of their own need root");
    false
}

#[test]
fn each_host_is_a_machine_of_its_own() {
    if !needs_name_spaces() {
        return;
    }
    let hosts = Hosts::up(2);
    let boot = |host: &str| said(&hosts, host, "cat /proc/sys/kernel/random/boot_id");
    assert_eq!(said(&hosts, "h1", "hostname"), "h1");
    assert_ne!(boot("h1"), boot("h2"));
    said(&hosts, "h1", "echo mine >~/here; echo all >/tmp/here");
    assert_eq!(
        said(&hosts, "h2", "cat ~/here /tmp/here 2>/dev/null | wc -l"),
        "0"
    );

    // The common folder and its programs are the same everywhere.
    let job = hosts.program("nero-job").display().to_string();
    let note = hosts.common().join("note").display().to_string();
    said(&hosts, "h1", &format!("{job} note {note} one"));
    said(&hosts, "h2", &format!("{job} note {note} two"));
    let notes = fs::read_to_string(&note).unwrap();
    assert!(
        notes.starts_with("one ") && notes.contains("\ntwo "),
        "{notes}"
    );

    let before = boot("h1");
    said(&hosts, "h1", "setsid sleep 600 >/dev/null 2>&1 &");
    hosts.restart("h1");
    assert_ne!(boot("h1"), before);
    assert_eq!(said(&hosts, "h1", "cat ~/here"), "mine");
    let processes = hosts.enter("h1", &["sh", "-c", "cat /proc/[0-9]*/comm"]);
    assert!(!processes.contains("sleep"), "{processes}");

    hosts.set_clock("h1", 40_000_000);
    hosts.restart("h1");
    let uptime: f64 = said(&hosts, "h1", "cut -d' ' -f1 /proc/uptime")
        .parse()
        .unwrap();
    assert!(uptime > 40_000_000.0, "{uptime}");
}

#[test]
fn the_way_to_a_host_can_be_cut_and_mended() {
    let hosts = Hosts::up(1);
    let reach = || {
        Command::new("ssh")
            .arg("-F")
            .arg(hosts.ssh_config())
            .args([
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=1",
                "h1",
                "true",
            ])
            .output()
            .unwrap()
            .status
            .success()
    };
    let reached = || {
        until("h1 to answer", || {
            if reach() { Ok(()) } else { Err("no answer") }
        })
    };
    reached();
    hosts.cut("h1");
    assert!(!reach());
    hosts.mend("h1");
    reached();
    hosts.freeze("h1");
    assert!(!reach());
    hosts.thaw("h1");
    reached();
    hosts.kill("h1");
    assert!(!reach());
    hosts.start("h1");
    reached();
    hosts.new_host_key("h1");
    until("the new key to be refused", || {
        if reach() { Err("reached") } else { Ok(()) }
    });
}

#[test]
fn login_nodes_share_a_home_that_can_be_full() {
    if !needs_name_spaces() {
        return;
    }
    let hosts = Plan::new(3).home_size("8M").shared_home(&["h1", "h2"]).up();
    said(&hosts, "h1", "echo one >~/here");
    assert_eq!(said(&hosts, "h2", "cat ~/here"), "one");
    assert!(!hosts.ssh("h3", "cat ~/here").status.success());
    hosts.put("h2", "given", "from outside\n", 0o600);
    assert_eq!(said(&hosts, "h1", "cat ~/given"), "from outside");
    hosts.fill("h1", 4096);
    assert!(
        !hosts
            .ssh("h2", "head -c 100000 /dev/zero >~/more")
            .status
            .success()
    );
    hosts.free("h1");
    said(&hosts, "h2", "head -c 100000 /dev/zero >~/more");
}

#[test]
fn no_process_is_left_when_the_hosts_go() {
    let hosts = Hosts::up(1);
    let folder = hosts.path().to_path_buf();
    let config = hosts.ssh_config().display().to_string();
    drop(hosts);
    assert!(!folder.exists());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&command).into_owned();
        assert!(
            !text.contains(&config) && !text.contains(&*folder.to_string_lossy()),
            "{text}"
        );
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&*folder.to_string_lossy()), "{mounts}");
}
