//! Runs on machines reached by ssh: the user's view from start to results, and
//! runs of several users.

use std::fs;
use std::path::{Path, PathBuf};

use nero_model::process::ProcessId;
use nero_tests::{Home, Hosts, Part, until};
use serde_json::Value;

use crate::story::make_pipe;

/// A home whose nodes are hosts.
pub struct Lab {
    // Dropped first, so that connections end before the hosts do.
    pub home: Home,
    pub hosts: Hosts,
    pub notes: PathBuf,
    job: PathBuf,
}

impl Lab {
    /// `count` hosts, all in the group `lab`.
    pub fn new(count: usize) -> Self {
        Self::of(Hosts::up(count))
    }

    /// With these hosts.
    pub fn of(hosts: Hosts) -> Self {
        let home = Home::with_hosts(&hosts);
        let mut text = "nodes:\n".to_owned();
        for host in hosts.names() {
            text.push_str(&format!("  {host}: {{address: {host}, cpus: 2}}\n"));
        }
        text.push_str(&format!(
            "groups: {{lab: [{}]}}\n",
            hosts.names().join(", ")
        ));
        home.configure(&text);
        let notes = hosts.common().join("notes");
        fs::write(&notes, "").unwrap();
        open_to_all(&notes);
        let job = hosts.program("nero-job");
        Self {
            home,
            hosts,
            notes,
            job,
        }
    }

    /// Hosts with all faults; `None` where only root can have them.
    pub fn isolated(count: usize) -> Option<Self> {
        if nero_tests::hosts::isolates() {
            return Some(Self::new(count));
        }
        eprintln!("skipped: hosts with name spaces of their own need root");
        None
    }

    /// A named pipe that every host has at this path.
    pub fn pipe(&self, name: &str) -> PathBuf {
        let pipe = self.hosts.common().join(name);
        make_pipe(&pipe);
        open_to_all(&pipe);
        pipe
    }

    /// Adds an experiment with one command of `nero-job`.
    pub fn add(&self, name: &str, actions: &str) {
        let yaml = format!(
            "collection: {name}\noutputs: [stdout]\n+{name}:\n  command: {} {actions}\n",
            self.job.display()
        );
        let folder = self.home.experiment(name, &yaml).display().to_string();
        self.home.ok(&["add", &folder]);
    }

    /// Adds an experiment that notes its start, prints, waits for the pipe,
    /// prints again, notes its end and exits 7; returns the pipe.
    pub fn add_held(&self, name: &str) -> PathBuf {
        let pipe = self.pipe(&format!("pipe-{name}"));
        let actions = format!(
            "note {0} start-{name} -- print loss 1 -- hold {1} -- print loss 2 -- note {0} end-{name} -- exit 7",
            self.notes.display(),
            pipe.display()
        );
        self.add(name, &actions);
        pipe
    }

    /// The first word of every note.
    pub fn noted(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.notes).unwrap();
        text.lines()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    }

    /// Starts experiment 1 on a node and waits until its first line is at home.
    pub fn start_held(&self, node: &str) {
        self.home.ok(&["start", "1", "--node", node]);
        until("the first metric", || {
            let seen = self.home.experiment_json(1);
            let there =
                seen["state"] == "running" && seen["metrics"]["loss"]["last"].as_f64() == Some(1.0);
            if there {
                Ok(())
            } else {
                Err((seen, self.home.logs()))
            }
        });
    }

    /// The held experiment 1 ran once, and everything about it is at home.
    pub fn ran_once_and_crashed_with_7(&self, name: &str) {
        let seen = self.home.until_state(1, "crashed");
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
        assert_eq!(
            self.noted(),
            [format!("start-{name}"), format!("end-{name}")]
        );
        assert_eq!(self.home.ok(&["logs", "1"]), "loss 1\nloss 2\n");
        let series = self.home.json(&["metrics", "1", "loss"])["series"][0].clone();
        assert_eq!(series["values"], serde_json::json!([1.0, 2.0]), "{series}");
        let results = until("the results", || {
            let seen = self.home.experiment_json(1);
            let path = seen["results"].as_str().map(PathBuf::from);
            path.and_then(|path| fs::read_to_string(path.join("stdout.log")).ok())
                .filter(|text| !text.is_empty())
                .ok_or((seen, self.home.logs()))
        });
        assert_eq!(results, "loss 1\nloss 2\n");
    }

    /// Runs a short job on every host, so that each is connected and known.
    pub fn warm_up(&self) {
        let folder = self
            .home
            .experiment("warm", "collection: warm\n+warm: {command: 'true'}\n");
        self.home.ok(&["add", &folder.display().to_string()]);
        for host in self.hosts.names() {
            self.home
                .ok(&["restart", "warm", "--node", &host, "--wait"]);
        }
    }

    /// The entry of a node in `node list`.
    pub fn node(&self, name: &str) -> Value {
        let all = self.home.json(&["node", "list"]);
        let nodes = all["nodes"].as_array().unwrap();
        nodes
            .iter()
            .find(|node| node["name"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// Waits until the entry of a node in `node list` fits.
    pub fn until_node(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{name} {what}"), || {
            let seen = self.node(name);
            if fits(&seen) {
                Ok(seen)
            } else {
                Err((seen, self.home.logs()))
            }
        })
    }

    /// Processes of ours on a host.
    pub fn parts(&self, host: &str, part: Part) -> Vec<ProcessId> {
        let all = nero_tests::processes::among(self.hosts.processes(host).into_iter());
        all.into_iter()
            .filter(|(its, _)| *its == part)
            .map(|(_, id)| id)
            .collect()
    }
}

/// Lets a held job go on.
pub fn release(pipe: &Path) {
    fs::write(pipe, "").unwrap();
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

#[test]
fn a_folder_runs_on_a_node_from_start_to_results() {
    let lab = Lab::new(1);
    lab.home.configure("nodes: {}\n");
    let said = lab
        .home
        .ok(&["node", "add", "box", "h1", "--warden", "none"]);
    assert!(said.contains("box"), "{said}");
    let pipe = lab.add_held("a");
    lab.start_held("box");
    let seen = lab.home.experiment_json(1);
    assert_eq!(seen["node"], "box", "{seen:#}");
    let node = lab.node("box");
    assert_eq!(
        (&node["connected"], &node["live"]),
        (&true.into(), &1.into()),
        "{node:#}"
    );
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
    if lab.hosts.isolated() {
        let claims = lab
            .hosts
            .enter("h1", &["find", "/home/tester/.neronet", "-name", "claim"]);
        assert_eq!(claims.lines().count(), 1, "it ran there: {claims}");
    }
}

#[test]
fn a_deployment_does_not_see_the_runs_of_another_on_the_same_node() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");

    let other = Home::with_hosts(&lab.hosts);
    other.configure("nodes: {shared: {address: h1}}\n");
    let folder = other.experiment("b", "collection: b\n+b: {command: sleep 600}\n");
    other.ok(&["add", &folder.display().to_string()]);
    other.ok(&["start", "1", "--node", "shared"]);
    other.until_state(1, "running");
    let all = other.json(&["status", "all"]);
    assert_eq!(all["experiments"].as_array().unwrap().len(), 1, "{all:#}");
    other.ok(&["abort", "all", "--yes"]);
    other.until_state(1, "aborted");
    other.ok(&["daemon", "stop"]);

    assert_eq!(lab.home.experiment_json(1)["state"], "running");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_new_build_replaces_the_agent_and_touches_no_job() {
    let mut lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    let before = lab.node("h1")["build"].clone();
    let agent = lab.parts("h1", Part::Mum);
    let programs = lab.home.other_build(1);
    lab.home.ok(&["daemon", "stop"]);
    lab.home.use_programs(&programs);
    let node = lab.until_node("h1", "to have the new build", |node| {
        node["connected"] == true && node["build"] != before
    });
    assert!(!node["build"].is_null(), "{node:#}");
    let now = lab.parts("h1", Part::Mum);
    assert!(
        now.iter().all(|id| !agent.contains(id)),
        "{agent:?} {now:?}"
    );
    assert_eq!(lab.home.experiment_json(1)["state"], "running");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}
