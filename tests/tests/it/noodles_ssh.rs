//! Flows over ssh, and what can be wrong with servers.

use std::fs;
use std::path::Path;

use nero_tests::hosts::Plan;
use nero_tests::{Home, Hosts, until};

use super::noodles::{folder, only_flow, read};

/// A home whose ssh knows the hosts.
fn reaching(hosts: &Hosts) -> Home {
    let mut home = Home::with_hosts(hosts);
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let ssh = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n",
        hosts.ssh_config().display()
    );
    home.script(&bin.join("ssh"), ssh);
    let path = std::env::var("PATH").unwrap();
    home.set_env("PATH", &format!("{}:{path}", bin.display()));
    home.set_env("USER", "tester");
    home
}

const REMOTE: &str = r#"
server_default: {private_key_path: ~, port: ~, username: ~}
servers: [{name: first, hostname: h1}, {name: second, hostname: h2}]
requirements: {who: 'cat ~/name'}
round_interval: 0
experiments:
- name: a
  requirements: {run: [who: ==two]}
  commands: {run: ['pwd; cat; echo $NOODLES_SERVER_AUTHORITY > ~/mark', 'local:pwd']}
  write_outputs: {run: {stdout_to: a.out}}
- {name: b, commands: {run: 'exit 255'}}
- {name: c, depends_on: {run: b}, commands: {run: ['true', 'local:sleep 1', 'true']}}
- {name: d, depends_on: {run: c}, commands: {run: ['true', 'local:touch at; while ! test -e gate; do sleep 0.05; done', 'echo d']}}
error_handlers: [{return_code: 255, stderr_pattern: '[\S\s]*', action: continue}]
"#;

#[test]
fn servers_are_reached_by_ssh_and_probed() {
    let hosts = Hosts::up(2);
    let mut home = reaching(&hosts);
    let sockets = home.path().join("t");
    fs::create_dir(&sockets).unwrap();
    home.set_env("TMPDIR", sockets.to_str().unwrap());
    for (host, name) in [("h1", "one"), ("h2", "two")] {
        hosts.put(host, "name", name, 0o644);
    }
    let folder = folder(&home, REMOTE);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    command.stderr(std::process::Stdio::piped());
    let followed = command.current_dir(&folder).spawn().unwrap();
    // A kept connection that is killed leaves its socket, of which no line of the flow is to speak.
    until("the gate", || {
        folder.join("at").exists().then_some(()).ok_or(())
    });
    let kept = until("connections that are kept", || {
        let kept = kept_connections(&sockets);
        (!kept.is_empty()).then_some(kept).ok_or(())
    });
    for pid in kept {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    fs::write(folder.join("gate"), "").unwrap();
    let ran = followed.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{log}\n{}", home.logs());
    assert!(
        log.contains("Deploy experiment \"a\" to server \"second\""),
        "{log}"
    );
    assert!(
        log.contains("Deploy experiment \"b\" to server \"first\""),
        "{log}"
    );
    assert_eq!(
        fs::read_to_string(hosts.home("h2").join("mark")).unwrap(),
        "h2\n"
    );
    let out = read(&folder, "a.out");
    assert!(out.ends_with(&format!("{}\n", folder.display())), "{out}");
    // The connections that were kept end with the flow: each is a process of its own there.
    until("no connection to be left", || {
        let users =
            ["h1", "h2"].map(|host| String::from_utf8(hosts.ssh(host, COUNT).stdout).unwrap());
        let is_alone = users.iter().all(|count| count.trim() == "1");
        is_alone.then_some(()).ok_or(users)
    });
}

/// Masters of ssh whose sockets are in this folder.
fn kept_connections(sockets: &Path) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_kept = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("ssh: ") && line.contains(sockets.to_str().unwrap())
    };
    pids.filter(is_kept).collect()
}

/// How many connections of this user its host serves, this one among them.
const COUNT: &str = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^sshd.*@notty'";

const FAULTS: &str = r#"
server_default: {private_key_path: ~, port: ~, username: ~}
servers:
- {name: unknown, hostname: no.such.host.invalid}
- {name: refused, hostname: h1, username: nobody}
- {name: changed, hostname: h2}
- {name: good, hostname: h3}
round_interval: 0
error_handlers: [{return_code: 255, stderr_pattern: '[\s\S]*', action: continue}]
experiments:
- {name: a, commands: {run: echo a}, write_outputs: {run: {stderr_to: a.err}}}
- {name: b, commands: {run: echo b}, write_outputs: {run: {stderr_to: b.err}}}
- {name: c, commands: {run: echo c}, write_outputs: {run: {stderr_to: c.err}}}
- {name: d, commands: {run: echo d}, write_outputs: {run: {stdout_to: d.out}}}
"#;

/// A host that is not there, a key that is refused where a password would be asked for, a host key
/// that has changed: each is an end that a handler sees, in ssh's own words.
#[test]
fn servers_that_cannot_be_entered_end_their_groups_with_the_words_of_ssh() {
    let hosts = Plan::new(3)
        .sshd_options("PasswordAuthentication yes\n")
        .up();
    let home = reaching(&hosts);
    hosts.new_host_key("h2");
    let folder = folder(&home, FAULTS);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let ran = command.current_dir(&folder).output().unwrap();
    let log = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{log}\n{}", home.logs());
    for (name, words) in [
        ("a.err", "Could not resolve hostname"),
        ("b.err", "Permission denied"),
        ("c.err", "Host key verification failed"),
        ("d.out", "d\n"),
    ] {
        let text = read(&folder, name);
        assert!(text.contains(words), "{name}: {text}\n{log}");
    }
}

const CUT: &str = r#"
server_default: {private_key_path: ~, port: ~, username: ~}
servers: [{name: one, hostname: h1}]
requirements: {up: 'echo p >> probed; while test -e ~/held; do sleep 0.05; done; echo 1'}
round_interval: 0.05
error_handlers: [{return_code: 255, stderr_pattern: '[\s\S]*', action: retry}]
experiments:
- {name: a, commands: {run: echo a >> order}}
- {name: b, commands: {run: [echo b1 >> order, 'local:echo local >> order', 'while test -e ~/hang; do sleep 0.05; done; echo b2 >> order']}}
- {name: c, depends_on: {run: b}, requirements: {run: [up: ==1]}, commands: {run: echo c >> order}}
"#;

/// Connections that break in a group and in a probe, each of which shares its connection with those
/// before it: what was cut is tried again, and nothing else.
#[test]
fn a_connection_that_breaks_in_a_group_or_a_probe_is_tried_again_by_its_handler() {
    let hosts = Hosts::up(1);
    let home = reaching(&hosts);
    let folder = folder(&home, CUT);
    let remote = |name: &str| fs::read_to_string(hosts.home("h1").join(name)).unwrap_or_default();
    hosts.put("h1", "hang", "", 0o644);
    hosts.put("h1", "held", "", 0o644);
    let mut command = home.command(&["noodles", "run", "spec.yml"]);
    let followed = command.current_dir(&folder).spawn().unwrap();
    until("the last group of b", || {
        let order = read(&folder, "order");
        let sessions = hosts.processes("h1").len();
        (order == "local\n" && remote("order") == "a\nb1\n" && sessions > 1)
            .then_some(())
            .ok_or((order, sessions, home.logs()))
    });
    // Everything of that user ends there, as its group would after a while without its connection.
    hosts.log_out("h1");
    until("its next try", || match read(&folder, "order") {
        order if order == "local\nlocal\n" => Ok(()),
        order => Err((order, home.logs())),
    });
    fs::remove_file(hosts.home("h1").join("hang")).unwrap();
    let probes = |count: usize| {
        until("the probe of c", || match remote("probed") {
            probed if probed.lines().count() == count => Ok(()),
            probed => Err((probed, home.logs())),
        });
    };
    probes(1);
    hosts.log_out("h1");
    probes(2);
    fs::remove_file(hosts.home("h1").join("held")).unwrap();
    let ran = followed.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(remote("order"), "a\nb1\nb1\nb2\nc\n");
    assert_eq!(
        home.run(&["noodles", "--resume", &only_flow(&home)]).code,
        Some(0)
    );
}
