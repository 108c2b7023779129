//! Real runtimes of containers for one test: a Docker daemon and a podman with stores of their
//! own, and images.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::home::Home;
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
        let folder = home.path().join("containers");
        let mut process = Command::new(rig())
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
        let path = std::env::var("PATH").unwrap_or_default();
        home.set_env("PATH", &format!("{}:{path}", folder.join("bin").display()));
        let env = std::fs::read_to_string(folder.join("env")).expect("the script made it");
        for (name, value) in env.lines().filter_map(|line| line.split_once('=')) {
            home.set_env(name, value);
        }
        Self { folder, process }
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

    /// Kills the Docker daemon; its containers go on.
    pub fn kill_docker(&self) {
        self.script("docker-kill");
    }

    /// Starts it again.
    pub fn start_docker(&self) {
        self.script("docker-start");
    }

    fn script(&self, verb: &str) {
        let done = Command::new(rig()).arg(verb).arg(&self.folder).status();
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
