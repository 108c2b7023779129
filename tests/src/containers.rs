//! Real runtimes of containers for one test: a Docker daemon and a podman with stores of their
//! own, images, and a registry that has some.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nero_model::ProcessId;

use crate::home::Home;
use crate::hosts::Hosts;
use crate::wait::until;

/// The runtimes; dropping them ends every container and daemon of theirs.
#[derive(Debug)]
pub struct Containers {
    folder: PathBuf,
    process: Child,
}

/// The script, which tells what it does.
fn rig() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/containers.sh")
}

impl Containers {
    /// Brings them up below the folder of a home, whose later commands use them.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn start(home: &mut Home) -> Self {
        let containers = Self::held(Command::new(rig()), home.path().join("containers"));
        containers.lend_to(home);
        containers
    }

    /// Brings up a Docker daemon on a host, where each user may speak to it. It knows what an
    /// earlier one on the same host knew.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn on_host(hosts: &Hosts, host: &str) -> Self {
        let script = hosts.common().join("containers.sh");
        std::fs::copy(rig(), &script).expect("a copy");
        let mut command = hosts.entering(host);
        command.arg(script);
        let folder = hosts.common().join("docker").join(host);
        let socket = folder.join("docker.sock");
        let containers = Self::held(command, folder);
        let lines = "chmod 666 \"$0\"; ln -sfn \"$0\" /run/docker.sock";
        let socket = socket.to_str().expect("UTF-8");
        hosts.enter(host, &["sh", "-ec", lines, socket]);
        containers
    }

    fn held(mut script: Command, folder: PathBuf) -> Self {
        let mut process = script
            .arg("hold")
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script is here");
        let mut line = String::new();
        let told = process.stdout.take().expect("it is piped");
        BufReader::new(told).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "the runtimes come up");
        Self { folder, process }
    }

    /// Lets later commands of a home use them.
    pub fn lend_to(&self, home: &mut Home) {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.join("bin");
        home.set_env("PATH", &format!("{}:{path}", bin.display()));
        let env = std::fs::read_to_string(self.folder.join("env")).expect("the script made it");
        for (name, value) in env.lines().filter_map(|line| line.split_once('=')) {
            home.set_env(name, value);
        }
    }

    /// Makes the archive of an image with a shell and a few programs.
    pub fn image(path: &Path) {
        let made = Command::new(rig()).arg("image").arg(path).status();
        assert!(made.expect("the script is here").success());
    }

    /// Names of the containers that a runtime has, whatever state they are in.
    pub fn listed(&self, home: &Home, runtime: &str) -> Vec<String> {
        let said = self.said(home, runtime, &["ps", "-a", "--format", "{{.Names}}"]);
        said.lines().map(str::to_owned).collect()
    }

    /// Waits until a runtime has no container.
    #[track_caller]
    pub fn until_empty(&self, home: &Home, runtime: &str) {
        until(&format!("{runtime} to have no container"), || {
            let listed = self.listed(home, runtime);
            if listed.is_empty() {
                Ok(())
            } else {
                Err((listed, home.logs()))
            }
        });
    }

    /// What a runtime prints.
    #[track_caller]
    pub fn said(&self, home: &Home, runtime: &str, words: &[&str]) -> String {
        let output = home.in_environment(runtime).args(words).output();
        let output = output.expect("it is installed");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The mounts where the runtimes are, but for the one that a Docker daemon makes for itself.
    pub fn mounts(&self) -> BTreeSet<String> {
        let space = std::fs::read_to_string(self.folder.join("space.pid")).expect("it is held");
        let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", space.trim()));
        let mounts = mounts.expect("its process lives");
        let of_daemon = |line: &&str| line.contains("/docker-run/netns/");
        let mounts = mounts.lines().filter(|line| !of_daemon(line));
        mounts.map(str::to_owned).collect()
    }

    /// The Docker daemon, if it runs.
    pub fn daemon(&self) -> Option<ProcessId> {
        let pid = std::fs::read_to_string(self.folder.join("docker.pid")).ok()?;
        ProcessId::of(pid.trim().parse().ok()?).ok()
    }

    /// Kills the Docker daemon; its containers go on.
    pub fn kill_docker(&self) {
        self.script("docker-kill", &[]);
    }

    /// Starts it again.
    pub fn start_docker(&self) {
        self.script("docker-start", &[]);
    }

    /// Starts it again as one that leaves containers alive which an earlier one has started.
    pub fn start_docker_with_live_restore(&self) {
        self.script("docker-start", &["--live-restore"]);
    }

    fn script(&self, verb: &str, more: &[&str]) {
        let mut script = Command::new(rig());
        let done = script.arg(verb).arg(&self.folder).args(more).status();
        assert!(done.expect("the script is here").success(), "{verb}");
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        // Its standard input ends, and it takes everything down.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A registry of images on the loopback interface, which ends with this value.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
    process: Child,
}

impl Registry {
    /// Starts it below the folder of a home, whose podman may speak to it without encryption.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(home: &mut Home) -> Self {
        let folder = home.path().join("registry");
        std::fs::create_dir_all(&folder).expect("a folder");
        let layer = folder.join("layer.tar");
        Containers::image(&layer);
        let script = rig().with_file_name("registry.py");
        let process = Command::new("python3")
            .arg(script)
            .arg(&folder)
            .arg(&layer)
            .stdin(Stdio::piped())
            .spawn()
            .expect("python3 is here");
        let registry = Self { folder, process };
        let host = registry.host();
        let text = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
        std::fs::write(registry.configuration(), text).expect("a file");
        registry.lend_to(home);
        registry
    }

    /// Lets later commands of a home use it.
    pub fn lend_to(&self, home: &mut Home) {
        let path = self.configuration();
        home.set_env("CONTAINERS_REGISTRIES_CONF", path.to_str().expect("UTF-8"));
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("registries.conf")
    }

    fn host(&self) -> String {
        let port = until("the registry's port", || {
            std::fs::read_to_string(self.folder.join("port"))
        });
        format!("127.0.0.1:{port}")
    }

    /// The name of one of its images; the script tells which there are.
    pub fn image(&self, name: &str) -> String {
        format!("{}/lab/{name}:1", self.host())
    }

    /// Lets go of the layer of `held`.
    pub fn let_go(&self) {
        std::fs::write(self.folder.join("go"), "").expect("a file");
    }

    /// How often contents of an image were asked for: each of its two once, for one transfer.
    pub fn transfers(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.folder.join("requests")).unwrap_or_default();
        let wanted = format!("GET /v2/lab/{name}/blobs/");
        text.lines()
            .filter(|line| line.starts_with(&wanted))
            .count()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Its standard input ends, and it with that.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
