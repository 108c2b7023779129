//! Sessions of one user with different environments, and one daemon.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Command;

use nero_model::home::SOCKET;
use nero_model::{Holder, ProcessId};
use nero_tests::{Home, Part, Ran, end};

/// A user with a folder for a session's sockets, and a home wherever it is.
struct User {
    home: Home,
    neronet: PathBuf,
    data: PathBuf,
}

/// Kind of a session, which decides where its sockets are.
#[derive(Clone, Copy)]
enum Session {
    /// A login: `XDG_RUNTIME_DIR` is set.
    Login,
    /// cron, `su`, a job: it is not.
    Plain,
}

impl User {
    /// With everything in the usual folders below `HOME`.
    fn usual() -> Self {
        let home = Home::new();
        let data = home.path().join(".local/share/neronet");
        Self::new(home, PathBuf::new(), data)
    }

    /// With `NERONET_HOME` at a path beside which no socket fits.
    fn far() -> Self {
        let home = Home::new();
        let neronet = home.path().join("x".repeat(100));
        let data = neronet.join("data");
        Self::new(home, neronet, data)
    }

    fn new(home: Home, neronet: PathBuf, data: PathBuf) -> Self {
        let runtime = home.path().join("session");
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        Self {
            home,
            neronet,
            data,
        }
    }

    fn command(&self, session: Session, words: &[&str]) -> Command {
        let mut command = self.home.command(words);
        command.env_remove("NERONET_HOME");
        if !self.neronet.as_os_str().is_empty() {
            command.env("NERONET_HOME", &self.neronet);
        }
        if let Session::Login = session {
            command.env("XDG_RUNTIME_DIR", self.home.path().join("session"));
        }
        command
    }

    #[track_caller]
    fn ok(&self, session: Session, words: &[&str]) -> String {
        let output = self.command(session, words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The process of the daemon that this session speaks to; starts none.
    #[track_caller]
    fn daemon(&self, session: Session) -> i64 {
        let said = self.ok(session, &["daemon", "status", "--json"]);
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        said["pid"].as_i64().expect("a process")
    }

    fn socket(&self) -> PathBuf {
        let holder = Holder::read(&self.data.join("daemon.lock"));
        holder.expect("the daemon wrote where it is").socket
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let holder = Holder::read(&self.data.join("daemon.lock"));
        let daemon: Vec<ProcessId> = holder.map(|one| one.process).into_iter().collect();
        end(&daemon);
    }
}

#[test]
fn all_sessions_of_a_user_share_one_daemon() {
    for make in [User::usual, User::far] {
        for (first, second) in [
            (Session::Login, Session::Plain),
            (Session::Plain, Session::Login),
        ] {
            let user = make();
            user.ok(first, &["status"]);
            user.ok(second, &["status"]);
            assert_eq!(user.daemon(first), user.daemon(second));
            let stopped = user.ok(second, &["daemon", "stop"]);
            assert_eq!(stopped, "stopped; jobs go on\n");
        }
    }
}

#[test]
fn a_daemon_outlives_the_folder_of_the_session_that_started_it() {
    let user = User::usual();
    user.ok(Session::Login, &["status"]);
    let before = user.daemon(Session::Login);
    // As logind does at the last logout.
    fs::remove_dir_all(user.home.path().join("session")).unwrap();
    assert_eq!(user.daemon(Session::Plain), before);
    user.ok(Session::Plain, &["daemon", "stop"]);
}

#[test]
fn a_daemon_whose_socket_was_removed_makes_it_again() {
    for make in [User::usual, User::far] {
        let user = make();
        user.ok(Session::Plain, &["status"]);
        let before = user.daemon(Session::Plain);
        let socket = user.socket();
        match user.neronet.as_os_str().is_empty() {
            // Other files are beside the socket.
            true => fs::remove_file(&socket).unwrap(),
            false => fs::remove_dir_all(socket.parent().unwrap()).unwrap(),
        }
        assert_eq!(user.daemon(Session::Login), before);
        user.ok(Session::Plain, &["daemon", "stop"]);
    }
}

#[test]
fn a_daemon_that_cannot_have_its_usual_place_answers_at_another() {
    let home = Home::new();
    // A file in place of the folder for sockets.
    fs::write(home.base().join("run"), "a file").unwrap();
    home.ok(&["status"]);
    assert_eq!(home.alive(Part::Daemon).len(), 1);
    let said = home.json(&["daemon", "status"]);
    let socket = PathBuf::from(said["socket"].as_str().unwrap());
    assert_eq!(socket.file_name().unwrap(), SOCKET);
    assert!(!socket.starts_with(home.base()), "{}", socket.display());
    let folder = socket.parent().unwrap();
    for level in [folder, folder.parent().unwrap()] {
        let mode = fs::metadata(level).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", level.display());
    }
    home.ok(&["daemon", "stop"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_second_daemon_names_the_first() {
    let home = Home::new();
    home.ok(&["status"]);
    let first = home.alive(Part::Daemon)[0].pid;
    let Ran { code, err, .. } = home.run(&["daemon", "run"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(&format!("process {first} ")), "{err}");
    assert!(err.contains("neroman.sock"), "{err}");
}
