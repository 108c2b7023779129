//! Jobs that leave processes behind.

use nero_journal::v1::RecordKind;
use nero_journal::v1::changed::What;

use crate::rig::{Rig, kill, lives, until};
use crate::run::Cancel;

#[test]
fn the_exit_is_written_while_strays_live() {
    let mut rig = Rig::new();
    let mut run = rig.script("sleep 1000 & echo $! > stray; exit 4");
    run.launch.wait_for_strays = true;
    rig.launch(&run);
    until("the exit", || run.claim().exited);
    let stray = run.number("stray");
    assert!(lives(stray) && run.claim().gone.is_none());
    kill(stray);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    assert_eq!(claim.exited.unwrap().code, 4);
    assert_eq!(claim.gone.unwrap().strays_killed, 0);
}

#[test]
fn strays_are_ended_after_ten_seconds() {
    let mut rig = Rig::new();
    // Five levels of daemons, without their environment, one of them deaf.
    let run = rig.script(
        "for level in 1 2 3; do env -i setsid sh -c 'sleep 1000 & sleep 1000 & exit' & done; \
         env -i setsid sh -c 'trap \"\" TERM; (sleep 1000) & while :; do sleep 1; done' & \
         (setsid sleep 1000 > /dev/null 2>&1 &); exit 0",
    );
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    let signals: Vec<i32> = claim.signals.iter().map(|sent| sent.signal).collect();
    assert_eq!(signals, [libc::SIGTERM, libc::SIGKILL]);
    let gone = claim.gone.unwrap();
    assert!(gone.strays_killed >= 8, "{gone:?}");
    let named: Vec<_> = gone.strays.iter().map(|one| one.name.as_slice()).collect();
    assert!(
        named.len() == 8 && named.contains(&b"sleep".as_slice()),
        "{gone:?}"
    );
    assert!((10_000..60_000).contains(&gone.strays_ms), "{gone:?}");
    assert!(gone.left_alive.is_empty() && claim.stops.is_empty());
    rig.nobody_else_is_left();
}

#[test]
fn a_permitted_background_process_outlives_its_run_and_is_named() {
    let mut rig = Rig::new();
    let script = "(setsid sleep 1000 & echo $! > stray); echo ready > ready; \
                  while [ ! -e go ]; do sleep 0.02; done; exit 3";
    for taken_over in [false, true] {
        let mut run = rig.script(script);
        run.launch.leave_strays = true;
        rig.launch(&run);
        let stray = run.number("stray");
        if taken_over {
            run.written("ready");
            kill(run.shim());
            rig.hear_of(&run, What::TakenOver);
        }
        std::fs::write(run.work("go"), "").unwrap();
        rig.hear_of(&run, What::Ended);
        let story = if taken_over {
            run.launchers()
        } else {
            run.claim()
        };
        let gone = story.gone.unwrap();
        assert_eq!(story.exited.unwrap().code, 3);
        assert_eq!((gone.strays_left, gone.strays_killed), (1, 0), "{gone:?}");
        assert_eq!(gone.strays[0].pid, stray);
        assert!(story.signals.is_empty() && gone.strays_ms < 10_000);
        assert!(lives(stray));
        kill(stray);
    }
}

#[test]
fn a_permitted_background_process_ends_when_its_run_is_aborted() {
    let mut rig = Rig::new();
    let mut run = rig.script("(setsid sleep 1000 & echo $! > stray); sleep 1000");
    run.launch.leave_strays = true;
    rig.launch(&run);
    let stray = run.number("stray");
    rig.cancel(&run, 1, Cancel::within(500));
    rig.hear_of(&run, What::Ended);
    assert!(!lives(stray));
}

/// Stand-ins for what rootless podman leaves behind at its first command.
const PAUSES: [&str; 2] = [
    // The arguments with which podman executes it.
    "catatonit(){ exec -a catatonit ./catatonit -P; }; cp ../../pause catatonit; catatonit",
    // Podman itself, under another name.
    "printf 'podman pause' > /proc/$BASHPID/comm; while read -t 1000 <> ../fifo; do :; done",
];

#[test]
fn the_pause_process_of_rootless_podman_is_no_stray() {
    let mut rig = Rig::new();
    // A program that ignores its argument and waits.
    let source = "int pause(void); int main(void) { return pause(); }\n";
    std::fs::write(rig.path("pause.c"), source).unwrap();
    let built = std::process::Command::new("cc")
        .arg(rig.path("pause.c"))
        .arg("-o")
        .arg(rig.path("pause"))
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "a C compiler is needed"
    );
    for pause in PAUSES {
        for taken_over in [false, true] {
            let script = format!(
                "mkfifo ../fifo; ({pause}) & echo $! > pause; echo ready > ready; \
                 while [ ! -e go ]; do sleep 0.02; done; exit 0"
            );
            let run = rig.run(&["/bin/bash", "-c", &script]);
            rig.launch(&run);
            let pause = run.number("pause");
            until("the pause process", || {
                let name = std::fs::read_to_string(format!("/proc/{pause}/comm")).ok()?;
                ["catatonit\n", "podman pause\n"]
                    .contains(&name.as_str())
                    .then_some(())
            });
            if taken_over {
                run.written("ready");
                kill(run.shim());
                rig.hear_of(&run, What::TakenOver);
            }
            std::fs::write(run.work("go"), "").unwrap();
            rig.hear_of(&run, What::Ended);
            let story = if taken_over {
                run.launchers()
            } else {
                run.claim()
            };
            let gone = story.gone.unwrap();
            assert_eq!((gone.strays_killed, gone.strays.len()), (0, 0), "{gone:?}");
            assert!(
                gone.strays_ms < 5_000 && story.signals.is_empty(),
                "{gone:?}"
            );
            assert!(lives(pause));
            kill(pause);
        }
    }
}

#[test]
fn a_daemon_is_stopped_with_its_run() {
    let mut rig = Rig::new();
    let run = rig.script(
        "env -i setsid sh -c 'echo $$ > daemon; while :; do sleep 0.05; done' & \
         while :; do sleep 0.05; done",
    );
    rig.launch(&run);
    let daemon = run.number("daemon");
    rig.cancel(&run, 1, Cancel::within(300));
    rig.hear_of(&run, What::Ended);
    assert!(!lives(daemon));
    rig.nobody_else_is_left();
}

#[test]
fn the_end_is_processes_not_pipes() {
    let mut rig = Rig::new();
    // One closes its streams and goes on; one leaves while another holds them.
    let closes = rig.script("exec > /dev/null 2>&1 < /dev/null; exit 6");
    rig.complete(&closes);
    assert_eq!(closes.claim().exited.unwrap().code, 6);
    let mut holds = rig.script("sleep 1000 & echo $! > stray; echo out; exit 0");
    holds.launch.wait_for_strays = true;
    rig.launch(&holds);
    until("the exit", || holds.claim().exited);
    kill(holds.number("stray"));
    rig.hear_of(&holds, What::Ended);
    let claim = holds.claim();
    assert_eq!(claim.gone.unwrap().stdout_bytes, 4);
    assert_eq!(
        claim
            .kinds
            .iter()
            .filter(|kind| **kind == RecordKind::TreeGone)
            .count(),
        1
    );
}

#[test]
fn a_process_whose_first_thread_left_is_still_alive() {
    // A zombie leader with living threads.
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
        .expect("python3 is needed: apt-get install python3");
    let mut rig = Rig::new();
    let script = "import threading,ctypes,time,signal,os\n\
                  signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                  threading.Thread(target=lambda: (open('ready','w').write('1\\n'), time.sleep(1000))).start()\n\
                  ctypes.CDLL(None).syscall(60, 0) if os.uname().machine == 'x86_64' else time.sleep(1000)\n";
    let run = rig.run(&[python, "-c", script]);
    rig.launch(&run);
    run.written("ready");
    rig.cancel(&run, 1, Cancel::within(50));
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().signal, libc::SIGKILL);
    rig.nobody_else_is_left();
}
