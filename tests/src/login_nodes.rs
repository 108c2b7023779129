//! Login nodes of a cluster with a real scheduler, reached by `ssh`: they and the
//! compute nodes share one home, and a compute node has no way to them.

use std::path::PathBuf;

use nero_model::ProcessId;
use serde_json::Value;

use crate::cluster::{Cluster, Scheduler};
use crate::home::Home;
use crate::hosts::{Hosts, Plan, isolates};
use crate::processes::{Part, among};
use crate::wait::until;

/// Puts the batch task into a network name space of its own, which has not even an
/// address of its own host: what runs in an allocation reaches nothing but the disk.
const NO_NETWORK: &str =
    r#"[ -n "$NO_NETWORK" ] || NO_NETWORK=1 exec unshare --map-current-user --net sh "$0" "$@""#;

/// Login nodes `h1`, `h2`, … as the node `cluster` of a neroman, whose address is
/// `login`: the first, until another is chosen.
#[derive(Debug)]
pub struct LoginNodes {
    /// Its neroman. Dropped first, so that connections end before the hosts do.
    pub home: Home,
    /// The cluster.
    pub cluster: Cluster,
    /// The hosts.
    pub hosts: Hosts,
}

impl LoginNodes {
    /// Brings up hosts and cluster; `None` where only root can have them.
    pub fn up(scheduler: Scheduler, count: usize, env: &[(&str, &str)]) -> Option<Self> {
        if !isolates() {
            eprintln!("skipped: hosts with name spaces of their own need root");
            return None;
        }
        let names: Vec<String> = (1..=count).map(|number| format!("h{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hosts = Plan::new(count).shared_home(&names).up();
        hosts.alias("login", "h1");
        let cluster = Cluster::behind(&hosts, scheduler, env);
        Some(Self {
            home: Home::with_hosts(&hosts),
            cluster,
            hosts,
        })
    }

    /// Adds the node as a new user does, and then more lines of its configuration, each
    /// `word: value`. Its compute nodes have no network. Returns what `node add` printed.
    #[track_caller]
    pub fn add_node(&self, more: &[&str]) -> String {
        let setup = format!("setup: ['{NO_NETWORK}']");
        self.add_connected_node(&[more, &[&setup]].concat())
    }

    /// The same with compute nodes in the network of the login nodes.
    #[track_caller]
    pub fn add_connected_node(&self, more: &[&str]) -> String {
        let said = self.home.ok(&["node", "add", "cluster", "login"]);
        let path = self.home.base().join("config.yaml");
        let mut text = std::fs::read_to_string(&path).expect("it was written");
        assert!(text.contains("  cluster:\n    address: login\n"), "{text}");
        text = text.trim_end().to_owned();
        for line in more {
            text.push_str(&format!("\n    {line}"));
        }
        text.push('\n');
        self.home.configure(&text);
        said
    }

    /// An empty folder that all hosts and compute nodes have at this path.
    pub fn folder(&self, name: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.hosts.common().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, open).expect("own folder");
        path
    }

    /// Processes of ours on a login node.
    pub fn parts(&self, host: &str, part: Part) -> Vec<ProcessId> {
        let all = among(self.hosts.processes(host).into_iter());
        let of_part = all.into_iter().filter(|(its, _)| *its == part);
        of_part.map(|(_, id)| id).collect()
    }

    /// Waits until the status of each of these experiments fits.
    #[track_caller]
    pub fn until_all(&self, ids: &[u64], what: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let named: Vec<String> = ids.iter().map(u64::to_string).collect();
        until(&format!("experiments {ids:?} {what}"), || {
            let seen = self.home.json(&["status", &named.join(",")]);
            let all = seen["experiments"].as_array().cloned().unwrap_or_default();
            let other = all.iter().find(|one| !fits(one)).cloned();
            match (all.len() == ids.len(), other) {
                (true, None) => Ok(all),
                (_, other) => Err((all.len(), other, self.home.logs())),
            }
        })
    }
}
