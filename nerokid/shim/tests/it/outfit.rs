//! A job gets exactly what its launch contains, and nothing of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::rig::{Rig, Start};

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim()
}

#[test]
fn signals_limits_descriptors_and_session_are_clean() {
    for umask in ["022", "077"] {
        let mut rig = Rig::start(Start {
            umask,
            ..Start::default()
        });
        let run = rig.script(
            "cat /proc/self/status > status; ls -l /proc/self/fd > fds; umask > umask; \
             cat /proc/self/oom_score_adj > oom; cat /proc/self/limits > limits; \
             cat /proc/$$/stat > stat; pwd > pwd",
        );
        rig.complete(&run);
        assert_eq!(run.claim().exited.unwrap().code, 0);
        let status = run.written("status");
        for mask in ["SigBlk:", "SigIgn:", "SigCgt:"] {
            assert_eq!(line(&status, mask), "0000000000000000", "{mask}");
        }
        let fds = run.written("fds");
        assert!(fds.contains("0 -> /dev/null"), "{fds}");
        assert!(fds.contains(&format!(
            "2 -> {}",
            run.folder().join("stderr.log").display()
        )));
        // `ls` itself reads the folder; its output is the file.
        assert!(!fds.contains("socket:") && !fds.contains("claim") && !fds.contains("lock"));
        assert_eq!(run.written("umask").trim(), format!("0{umask}"));
        assert_eq!(run.written("oom").trim(), "500");
        let own = fs::read_to_string("/proc/self/limits").unwrap();
        let limits = run.written("limits");
        for name in ["Max core file size", "Max open files"] {
            assert_eq!(line(&limits, name), line(&own, name));
        }
        let job = run.job();
        let stat = nero_model::process::Stat::parse(run.written("stat").as_bytes()).unwrap();
        assert_eq!(stat.session, job);
        assert_eq!(run.written("pwd").trim(), run.launch.work_dir);
        for log in ["stdout.log", "stderr.log", "claim"] {
            let mode = fs::metadata(run.folder().join(log))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{log}");
        }
        let mode = fs::metadata(run.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn the_environment_is_the_launch_s_own() {
    let mut rig = Rig::start(Start {
        env: &[("SECRET_OF_LAUNCHER", "1")],
        ..Start::default()
    });
    let run = rig.run(&["/usr/bin/env"]);
    rig.complete(&run);
    let mut expected: Vec<String> = run
        .launch
        .env
        .iter()
        .map(|one| String::from_utf8(one.clone()).unwrap())
        .collect();
    let stdout = run.stdout();
    let mut found: Vec<&str> = stdout.lines().collect();
    expected.sort();
    found.sort_unstable();
    assert_eq!(found, expected);
    let mut bare = rig.run(&["/usr/bin/env"]);
    bare.launch.env.clear();
    rig.complete(&bare);
    assert_eq!(bare.stdout(), "");
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let mut rig = Rig::new();
    let odd: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b" ".to_vec(),
        b"'\"\\$`!*?".to_vec(),
        (1..=255).collect(),
        vec![b'x'; 100_000],
        b"--".to_vec(),
    ];
    let mut run = rig.run(&["/bin/cat"]);
    run.launch.argv = vec![
        b"/bin/cat".to_vec(),
        b"/proc/self/cmdline".to_vec(),
        b"--".to_vec(),
    ];
    run.launch.argv0 = b"another name\xff".to_vec();
    rig.complete(&run);
    let seen = fs::read(run.folder().join("stdout.log")).unwrap();
    assert_eq!(seen, b"another name\xff\0/proc/self/cmdline\0--\0");
    let mut run = rig.run(&["/bin/sh"]);
    run.launch.argv.extend([
        b"-c".to_vec(),
        b"cat /proc/$$/cmdline".to_vec(),
        b"sh".to_vec(),
    ]);
    run.launch.argv.extend(odd.iter().cloned());
    rig.complete(&run);
    let seen = fs::read(run.folder().join("stdout.log")).unwrap();
    let expected: Vec<u8> = run
        .launch
        .argv
        .iter()
        .flat_map(|one| [one.as_slice(), b"\0"].concat())
        .collect();
    assert!(
        seen == expected,
        "{} and {} bytes",
        seen.len(),
        expected.len()
    );
}

#[test]
fn a_zero_byte_is_refused_not_cut() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/true", "a\0b"]);
    assert_eq!(
        rig.complete(&run),
        [nero_journal::v1::changed::What::NoClaim]
    );
    run.launch.argv.pop();
    run.launch.env.push(b"A=b\0c".to_vec());
    assert_eq!(
        rig.complete(&run),
        [nero_journal::v1::changed::What::NoClaim]
    );
}

#[test]
fn more_than_the_kernel_takes_is_its_own_error() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/true"]);
    run.launch.argv.push(vec![b'x'; 200_000]);
    rig.complete(&run);
    assert_eq!(run.claim().not_started.unwrap().errno, libc::E2BIG);
}
