//! `neroman top` on a machine that one reaches over a slow line.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nero_tests::{Home, Hosts, until};
use rustix::process::{Signal, kill_process};

use crate::top::Tmux;

/// Half of the time that a key and its frame travel.
const WAY: Duration = Duration::from_millis(100);

/// A port of this machine that leads to an address far away.
fn far(address: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&address).unwrap();
            for (from, to) in [(&near, &far), (&far, &near)] {
                carry(from.try_clone().unwrap(), to.try_clone().unwrap());
            }
        }
    });
    port
}

/// Carries what is sent, each piece as late as the way is long.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut piece = [0; 1 << 14];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            sender
                .send((Instant::now() + WAY, piece[..count].to_vec()))
                .ok();
        }
    });
    thread::spawn(move || {
        for (due, piece) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        to.shutdown(std::net::Shutdown::Both).ok();
    });
}

#[test]
fn the_view_is_used_over_a_slow_ssh_while_the_window_changes_its_size() {
    let (home, hosts) = (Home::new(), Hosts::up(1));
    for program in ["neromum", "nerokid", "nerokid-shim"] {
        hosts.program(program);
    }
    let neroman = hosts.program("neroman").display().to_string();
    let neroman = format!("NERONET_HOME=$HOME/n LC_ALL=C.UTF-8 {neroman}");
    let there = |line: &str| {
        let output = hosts.ssh("h1", line);
        assert!(output.status.success(), "{line}: {output:?}");
    };
    there(
        "mkdir e && printf 'collection: s\\nresources: {cpus: 0.1}\\n\
         +a: {command: sleep 1000, parameters: {lr: [1, 2, 3]}}\\n' > e/neronet.yaml",
    );
    there(&format!(
        "{neroman} add e >/dev/null && {neroman} start all >/dev/null"
    ));
    let config = hosts.ssh_config().display().to_string();
    let known = Command::new("ssh")
        .args(["-G", "-F", &config, "h1"])
        .output();
    let known = String::from_utf8(known.unwrap().stdout).unwrap();
    let word = |name: &str| {
        let line = known.lines().find_map(|line| line.strip_prefix(name));
        line.expect("ssh tells it").trim().to_owned()
    };
    let port = far(format!("{}:{}", word("hostname "), word("port ")));
    let tmux = Tmux::new(&home, (80, 24));
    tmux.press(&[
        &format!("ssh -F {config} -o HostName=127.0.0.1 -o Port={port} -t h1 '{neroman} top'"),
        "Enter",
    ]);
    tmux.shows(&["3 experiments, 3 live", "a_lr-3"]);
    // Keys that are typed ahead arrive in their order.
    tmux.press(&["/", "lr > 1", "Enter", "Space", "j", "Space", "a"]);
    tmux.shows(&["neroman abort 2,3", "would abort 2"]);
    for (width, height) in [("120", "40"), ("61", "17"), ("80", "24")] {
        tmux.ask(&["resize-window", "-x", width, "-y", height]);
        let screen = tmux.shows(&["neroman abort 2,3", "2 experiments, 2 live"]);
        assert!(screen.starts_with("neronet  2 experiments"), "{screen}");
    }
    tmux.press(&["Enter"]);
    tmux.shows(&["■ aborted", "0 live"]);
    // The way breaks: the view ends, runs go on.
    kill_process(tmux.view(), Signal::KILL).unwrap();
    until("the view to end", || {
        let lines = hosts.processes("h1").into_iter().filter_map(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            line.ends_with("neroman\0top\0").then_some(line)
        });
        match lines.collect::<Vec<_>>() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        }
    });
    there(&format!(
        "{neroman} status --json 1 | grep -q '\"state\": *\"running\"'"
    ));
    there(&format!(
        "{neroman} abort all --yes >/dev/null; {neroman} daemon stop"
    ));
}
