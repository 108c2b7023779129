//! Many clients, one daemon; and stores that are refused.

use std::fs;

use nero_tests::{Home, Part};

#[test]
fn twenty_clients_at_once_make_one_daemon() {
    let home = Home::new();
    let clients: Vec<_> = (0..20).map(|_| home.spawn(&["status", "--json"])).collect();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", home.logs());
    }
    assert_eq!(home.alive(Part::Daemon).len(), 1);
}

#[test]
fn stopping_the_daemon_leaves_jobs_alone() {
    let home = Home::new();
    crate::story::added(&home, "d", "collection: d\n+d: {command: sleep 600}\n");
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    let job = home.alive(Part::Job);
    home.ok(&["daemon", "stop"]);
    assert!(home.alive(Part::Daemon).is_empty());
    assert_eq!(home.alive(Part::Job), job);
    assert_eq!(home.experiment_json(1)["state"], "running");
    home.ok(&["abort", "1"]);
    home.until_state(1, "aborted");
}

#[test]
fn with_nothing_live_stopping_the_daemon_leaves_nothing() {
    let home = Home::new();
    crate::story::added(&home, "d", "collection: d\n+d: {command: 'true'}\n");
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    home.ok(&["daemon", "stop"]);
    nero_tests::until("everything to leave", || {
        let left = nero_tests::parts(&home.base());
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn a_store_that_cannot_be_read_is_refused_and_left_alone() {
    let home = Home::new();
    crate::story::added(&home, "d", "collection: d\n+d: {command: 'true'}\n");
    home.ok(&["daemon", "stop"]);
    let db = home.base().join("data/state.db");
    let garbage = b"this is not a database, and long enough to have a header in it, whatever comes"
        .repeat(100);
    fs::write(&db, &garbage).unwrap();
    let ran = home.run(&["status"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("state.db"), "{}", ran.err);
    assert_eq!(fs::read(&db).unwrap(), garbage, "left untouched");
}

#[test]
fn our_files_are_closed_to_other_users() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let home = Home::new();
    crate::story::added(&home, "d", "collection: d\n+d: {command: 'echo hello'}\n");
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    let mut folders = vec![home.base()];
    let mut sockets = 0;
    while let Some(folder) = folders.pop() {
        // A file that vanishes meanwhile was temporary.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(found) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            if found.file_type().is_symlink() {
                continue;
            }
            assert_eq!(
                found.mode() & 0o077,
                0,
                "{} is open to others",
                entry.path().display()
            );
            sockets += u32::from(found.file_type().is_socket());
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(sockets >= 2, "the sockets were looked at");
}

#[test]
fn another_user_gets_no_answer_even_from_a_socket_left_open_by_hand() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let home = Home::new();
    home.ok(&["status"]);
    let socket = home.base().join("run/neroman.sock");
    let ask = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({:?}); s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes(9)); s.settimeout(60); print(len(s.recv(100)))",
        socket.display().to_string()
    );
    let try_as = |user: u32| {
        let output = std::process::Command::new("python3")
            .args(["-c", &ask])
            .uid(user)
            .current_dir("/")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let control = try_as(0);
    assert_ne!(control.trim(), "0", "its owner gets an answer");
    assert!(control.trim().parse::<u32>().is_ok(), "{control}");
    assert!(try_as(65534).contains("Permission denied"));
    for path in [
        home.path().to_path_buf(),
        home.base(),
        home.base().join("run"),
        socket.clone(),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let answer = try_as(65534);
    assert!(
        answer.trim() == "0" || answer.contains("reset") || answer.contains("Broken pipe"),
        "{answer}"
    );
}
