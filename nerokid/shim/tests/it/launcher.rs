//! The launcher itself: its place, its connections, its leaving.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use nero_journal::v1::changed::What;
use nero_journal::v1::{from_launcher, to_launcher};

use crate::rig::{Rig, Start, framed, hello, lives, signal, until};
use crate::run::Cancel;

#[test]
fn a_second_launcher_leaves_at_once() {
    let mut rig = Rig::new();
    let second = Command::new(env!("CARGO_BIN_EXE_nerokid-shim"))
        .args(["launcher", "--socket"])
        .arg(rig.socket())
        .arg("--log")
        .arg(rig.path("second.log"))
        .status()
        .unwrap();
    assert!(second.success());
    // The first is where it was.
    rig.connect();
    let run = rig.run(&["/bin/true"]);
    assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
}

#[test]
fn a_place_that_cannot_be_taken_is_an_error() {
    let said = Command::new(env!("CARGO_BIN_EXE_nerokid-shim"))
        .args([
            "launcher",
            "--socket",
            "/no/such/folder/s",
            "--log",
            "/dev/null",
        ])
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(!said.stderr.is_empty());
    for wrong in [
        &["launcher"][..],
        &[],
        &["shim", "--socket", "/a", "--log", "/b"],
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nerokid-shim"));
        let said = program.args(wrong).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_launcher_holds_no_descriptor_of_its_parent() {
    let rig = Rig::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nerokid-shim"))
        .args(["launcher", "--socket"])
        .arg(rig.path("other.sock"))
        .arg("--log")
        .arg(rig.path("other.log"))
        .stdout(Stdio::from(writer.try_clone().unwrap()))
        .stderr(Stdio::from(writer))
        .spawn()
        .unwrap();
    // The read ends only when no process has the pipe open.
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    let pid = child.id() as i32;
    let stat = nero_model::process::Stat::read(pid).unwrap();
    assert_eq!(stat.session, pid);
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(folder.to_str(), Some("/"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_launcher_answers_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::start(Start {
        umask: "000",
        ..Start::default()
    });
    let mode = std::fs::metadata(rig.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    // A user who reaches the socket all the same; only root can play that user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mode = std::fs::Permissions::from_mode;
    std::fs::set_permissions(rig.folder.path(), mode(0o755)).unwrap();
    std::fs::set_permissions(rig.socket(), mode(0o777)).unwrap();
    let mut stream = rig.dial_as(65534);
    // The launcher closes it before it reads.
    let _ = stream.write_all(&framed(hello()));
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert_eq!(said, b"");
    assert!(rig.log().contains("another user was refused"));
}

#[test]
fn asked_to_retire_it_stays_for_its_runs() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    rig.hear_of(&run, What::Started);
    rig.retire();
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    assert!(rig.launcher_left());
    assert!(!rig.socket().exists());
    rig.restart();
    let run = rig.run(&["/bin/true"]);
    assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
}

#[test]
fn polite_signals_end_neither_launcher_nor_shim() {
    use rustix::process::Signal;
    let mut rig = Rig::new();
    let run = rig.script("echo ready > ready; while [ ! -e go ]; do sleep 0.02; done; exit 9");
    rig.launch(&run);
    run.written("ready");
    for polite in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::USR2,
        Signal::PIPE,
        Signal::ALARM,
    ] {
        signal(run.shim(), polite);
    }
    // TERM and HUP ask a launcher to leave when it can.
    signal(rig.launcher_pid(), Signal::TERM);
    signal(rig.launcher_pid(), Signal::HUP);
    std::fs::write(run.work("go"), "").unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 9);
    assert!(rig.launcher_left());
}

#[test]
fn a_run_is_announced_once_and_listed_to_newcomers() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    rig.hear_of(&run, What::Started);
    rig.send(hello());
    // A second hello lists anew; no news came in between.
    let is_listed =
        |message: &from_launcher::Message| matches!(message, from_launcher::Message::Listed(_));
    rig.hear(is_listed);
    assert_eq!(rig.news.len(), 2, "{:?}", rig.news);
    rig.disconnect();
    rig.connect();
    rig.hear_of(&run, What::Started);
    assert!(rig.news.is_empty());
}

#[test]
fn nonsense_on_a_connection_breaks_nothing_else() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    rig.hear_of(&run, What::Started);
    for nonsense in [
        vec![0xff; 64],
        vec![4, 0, 0, 0, 1, 2, 3, 4],
        // Anything before a hello.
        framed(to_launcher::Message::Launch(run.launch.clone())),
    ] {
        let mut stream = rig.dial();
        stream.write_all(&nonsense).unwrap();
        let mut rest = Vec::new();
        // Closed, or reset since it did not read everything.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    // Half a frame, then nothing: the launcher waits for the rest in vain.
    let mut half = rig.dial();
    half.write_all(&framed(hello())[..3]).unwrap();
    rig.disconnect();
    assert!(lives(run.shim()));
    rig.connect();
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
}

#[test]
fn another_protocol_is_told_ours_and_nothing_more() {
    let rig = Rig::new();
    let mut stream = rig.dial();
    let to_launcher::Message::Hello(mut newer) = hello() else {
        unreachable!("a hello is a hello")
    };
    (newer.protocol_lowest, newer.protocol_highest) = (1000, 1001);
    stream
        .write_all(&framed(to_launcher::Message::Hello(newer)))
        .unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    let length = u32::from_le_bytes(said[..4].try_into().unwrap()) as usize;
    assert_eq!(said.len(), 4 + length);
}

#[test]
fn several_connections_hear_of_everything() {
    let mut rig = Rig::new();
    let mut other = rig.dial();
    other.write_all(&framed(hello())).unwrap();
    let run = rig.run(&["/bin/true"]);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
    until("the same news", || {
        let got = other.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..got]);
        let token = run.launch.token.as_slice();
        seen.windows(16).any(|part| part == token).then_some(())
    });
}

#[test]
fn hundreds_of_runs_at_once() {
    let mut rig = Rig::new();
    let runs: Vec<_> = (0..300).map(|_| rig.run(&["/bin/true"])).collect();
    for run in &runs {
        rig.launch(run);
    }
    for run in &runs {
        rig.hear_of(run, What::Ended);
        assert_eq!(run.claim().exited.unwrap().code, 0);
    }
    rig.nobody_else_is_left();
}

#[test]
fn a_waiting_launcher_or_shim_is_never_woken() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    rig.hear_of(&run, What::Started);
    let wakes = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let waiting = |pid: i32| {
        until("it to sleep", || {
            let stat = nero_model::process::Stat::read(pid).unwrap();
            (stat.state == b'S').then_some(())
        });
    };
    let (shim, launcher) = (run.shim(), rig.launcher_pid());
    waiting(shim);
    waiting(launcher);
    let before = (wakes(shim), wakes(launcher));
    // A second without any event is the subject of this test.
    let quiet = Command::new("sleep").arg("1").status().unwrap();
    assert!(quiet.success());
    assert_eq!((wakes(shim), wakes(launcher)), before);
}
