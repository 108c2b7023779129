//! Other people on the machine get nothing: no data, no control, no socket
//! that answers. Each look has a control, in which the guard is off and the
//! same look finds something.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nero_tests::{Home, Hosts, Part, until};

/// Data that no other user may see.
const SECRET: &str = "hush-5d1f0a7c";

/// A job that has the secret, prints it, and stays until it is aborted.
const YAML: &str = "\
collection: c
+t:
  command: sh -c 'echo the token is $API_TOKEN; cat input; sleep 600'
  env: {API_TOKEN: hush-5d1f0a7c}
";

fn needs_root() -> bool {
    if nero_tests::hosts::isolates() {
        return true;
    }
    eprintln!("skipped: a second user needs root");
    false
}

/// The findings of a stranger on the host, who looks at these places.
#[track_caller]
fn found(hosts: &Hosts, as_whom: &str, roots: &str) -> Vec<String> {
    let program = hosts.program("nero-neighbour");
    let command = format!("{} look {SECRET} {roots}", program.display());
    let output = hosts.ssh(as_whom, &command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A home with one live run on `h1` that has the secret.
fn running_on_h1(hosts: &Hosts) -> Home {
    let home = Home::with_hosts(hosts);
    home.configure("nodes: {h1: {address: h1}}\n");
    let folder = home.experiment("e", YAML);
    fs::write(folder.join("input"), format!("{SECRET} too\n")).unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1", "--node", "h1"]);
    until_printed(&home);
    home
}

fn until_printed(home: &Home) {
    until("the job printed", || {
        let ran = home.run(&["logs", "1"]);
        if ran.out.contains("too") {
            Ok(())
        } else {
            Err(ran)
        }
    });
}

#[test]
fn a_neighbour_on_a_node_finds_nothing() {
    if !needs_root() {
        return;
    }
    let hosts = Hosts::up(1);
    let listening = |hosts: &Hosts| hosts.enter("h1", &["ss", "-Hltn"]);
    let before = listening(&hosts);
    let home = running_on_h1(&hosts);
    assert_eq!(listening(&hosts), before, "no TCP socket of ours");
    let place = hosts.ssh("h1", "echo $HOME");
    let place = String::from_utf8_lossy(&place.stdout).trim().to_owned();
    let roots = format!("{place} /tmp /run");
    let common = hosts.common().display().to_string();
    let strange = |hosts: &Hosts| -> Vec<String> {
        let mut lines = found(hosts, "stranger@h1", &roots);
        // Every user may use the rig's own folder.
        lines.retain(|line| !line.contains(&common));
        lines
    };
    assert_eq!(strange(&hosts), [] as [&str; 0]);

    // The same look by the owner finds files, the socket, and the job, so it can
    // find them.
    let own = found(&hosts, "h1", &roots);
    for kind in ["read ", "write ", "talk ", "process "] {
        assert!(
            own.iter().any(|line| line.starts_with(kind)),
            "{kind}: {own:#?}"
        );
    }
    // Of processes it finds the job alone; none of ours carries the secret.
    let names: BTreeSet<&str> = own
        .iter()
        .filter_map(|line| line.strip_prefix("process "))
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let ours: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("nero"))
        .collect();
    assert!(ours.is_empty(), "{own:#?}");

    // Without the guards: every folder and file open to all, and a socket that
    // answers every user.
    let open = format!(
        "setsid {} listen {place}/.neronet/open.sock >/dev/null 2>&1 </dev/null &",
        hosts.program("nero-neighbour").display()
    );
    assert!(hosts.ssh("h1", &open).status.success());
    until("the open socket", || {
        let looked = hosts.ssh("h1", &format!("test -S {place}/.neronet/open.sock"));
        if looked.status.success() {
            Ok(())
        } else {
            Err(looked)
        }
    });
    hosts.enter(
        "h1",
        &["chmod", "-R", "a+rwX", &format!("{place}/.neronet")],
    );
    hosts.enter("h1", &["chmod", "a+rx", &place]);
    let strange = strange(&hosts);
    for kind in ["read ", "write "] {
        assert!(
            strange.iter().any(|line| line.starts_with(kind)),
            "{kind}: {strange:#?}"
        );
    }
    // Our socket checks the peer's user, whatever its mode is. The open one
    // beside it does not, and is found.
    let talking: Vec<&String> = strange
        .iter()
        .filter(|line| line.starts_with("talk "))
        .collect();
    assert!(
        talking.len() == 1 && talking[0].ends_with("/open.sock"),
        "{talking:?}"
    );
    home.ok(&["abort", "1"]);
    home.run(&["wait", "1"]);
}

#[test]
fn a_neighbour_at_home_finds_nothing() {
    if !needs_root() {
        return;
    }
    // The stranger of a host stands for one of this machine: only the user
    // id counts, and the home lies where that host sees it.
    let hosts = Hosts::up(1);
    let mut home = Home::in_folder(
        tempfile::Builder::new()
            .prefix("n")
            .tempdir_in(hosts.common())
            .unwrap(),
    );
    home.set_env("API_TOKEN", SECRET);
    let folder = home.experiment("e", YAML);
    fs::write(folder.join("input"), format!("{SECRET} too\n")).unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1"]);
    until_printed(&home);
    // The experiment's folder is the user's own, with the mode that he gave it.
    let ours = home.base();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let roots = ours.display().to_string();
    assert_eq!(found(&hosts, "stranger@h1", &roots), [] as [&str; 0]);

    for part in [Part::Daemon, Part::Mum, Part::Launcher, Part::Watcher] {
        for process in home.alive(part) {
            assert_eq!(tcp_sockets(process.pid), 0, "{part:?}");
            let read = |file: &str| fs::read(format!("/proc/{}/{file}", process.pid)).unwrap();
            for file in ["cmdline", "environ"] {
                let text = String::from_utf8_lossy(&read(file)).into_owned();
                assert!(!text.contains(SECRET), "{part:?} {file}: {text}");
            }
        }
    }
    // The count detects a socket.
    let _listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(tcp_sockets(std::process::id() as i32) > 0);

    open_up(&ours);
    let strange = found(&hosts, "stranger@h1", &roots);
    for kind in ["read ", "write "] {
        assert!(
            strange.iter().any(|line| line.starts_with(kind)),
            "{kind}: {strange:#?}"
        );
    }
    assert!(
        !strange.iter().any(|line| line.starts_with("talk ")),
        "{strange:#?}"
    );
    home.ok(&["abort", "1"]);
    home.run(&["wait", "1"]);
}

fn open_up(path: &Path) {
    let Ok(found) = path.symlink_metadata() else {
        return;
    };
    if found.is_symlink() {
        return;
    }
    let mode = if found.is_dir() { 0o777 } else { 0o666 };
    // A file that vanishes meanwhile needs no opening.
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

/// How many TCP sockets a process of this machine holds.
fn tcp_sockets(pid: i32) -> usize {
    let table =
        |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let tables = table("tcp") + &table("tcp6");
    let inodes: BTreeSet<&str> = tables
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|target| {
            let name = target.to_string_lossy();
            name.strip_prefix("socket:[")
                .and_then(|name| name.strip_suffix(']'))
                .is_some_and(|inode| inodes.contains(inode))
        })
        .count()
}

#[test]
fn a_socket_folder_that_somebody_took_first_is_refused() {
    if !needs_root() {
        return;
    }
    let hosts = Hosts::up(1);
    let id = hosts.ssh("h1", "id -u");
    let id = String::from_utf8_lossy(&id.stdout).trim().to_owned();
    // In a shared home sockets are below /tmp, where any user can take a name.
    let folder = format!("/tmp/neronet-{id}");
    let program = hosts.program("nero-neighbour");
    let command = format!(
        "mkdir -m 755 {folder} && cd {folder} && (setsid {} listen x.sock >said 2>&1 &)",
        program.display()
    );
    let output = hosts.ssh("stranger@h1", &command);
    assert!(output.status.success(), "{output:?}");
    let home = Home::with_hosts(&hosts);
    let ran = home.run(&["node", "add", "h1", "h1", "--shared", "yes"]);
    if ran.code == Some(0) {
        // Another private place was found; then nothing of ours lies in this one.
        let listed = hosts.enter("h1", &["ls", "-A", &folder]);
        let mut names: Vec<&str> = listed.split_whitespace().collect();
        names.sort_unstable();
        assert_eq!(names, ["said", "x.sock"]);
    } else {
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.err.contains(&folder), "{}", ran.err);
        assert!(ran.err.contains("belongs to another user"), "{}", ran.err);
    }
    let said = hosts.enter("h1", &["cat", &format!("{folder}/said")]);
    assert!(!said.contains("somebody came"), "{said}");

    // Without the stranger's folder it works, and the folder is ours alone.
    let hosts = Hosts::up(1);
    let home = Home::with_hosts(&hosts);
    let bare = ["--shared", "yes", "--warden", "none"];
    home.ok(&[&["node", "add", "h1", "h1"][..], &bare].concat());
    let mode = hosts.enter("h1", &["stat", "-c", "%a %u", &folder]);
    assert_eq!(mode.trim(), format!("700 {id}"));
}

#[test]
fn a_forwarded_agent_stays_at_home() {
    if !needs_root() {
        return;
    }
    let hosts = Hosts::up(1);
    let home = Home::with_hosts(&hosts);
    let config = fs::read_to_string(hosts.ssh_config()).unwrap();
    let agent = Agent::start(hosts.common().as_path());
    let forward = format!(
        "Host *\n  ForwardAgent yes\n  IdentityAgent {}\n",
        agent.socket
    );
    fs::write(hosts.ssh_config(), config.replace("Host *\n", &forward)).unwrap();
    // The control: with the very same configuration ssh itself brings one.
    let plain = hosts.ssh("h1", "echo agent=$SSH_AUTH_SOCK");
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.contains("agent=/"), "{plain}");

    home.configure("nodes: {h1: {address: h1}}\n");
    let folder = home.experiment(
        "e",
        "collection: c\n+t:\n  command: sh -c 'echo agent=$SSH_AUTH_SOCK; env'\n",
    );
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1", "--node", "h1"]);
    home.ok(&["wait", "1"]);
    let said = home.ok(&["logs", "1"]);
    assert!(said.contains("agent=\n"), "{said}");
    let said = home.ok(&["exec", "h1", "--", "sh", "-c", "echo agent=$SSH_AUTH_SOCK"]);
    assert_eq!(said, "agent=\n");
    let left = hosts.enter("h1", &["sh", "-c", "ls -d /tmp/ssh-* 2>/dev/null || true"]);
    assert_eq!(left.trim(), "", "no agent's socket is left there");
}

/// A real ssh agent of this test.
struct Agent {
    socket: String,
    process: std::process::Child,
}

impl Agent {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("agent.sock").display().to_string();
        let process = std::process::Command::new("ssh-agent")
            .args(["-D", "-a", &socket])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("ssh-agent is installed");
        until("the agent listens", || {
            Path::new(&socket).exists().then_some(()).ok_or("no socket")
        });
        Self { socket, process }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
