//! Pages of the manual that need hosts behind `ssh`, or a cluster.

use nero_tests::cluster::Scheduler;
use nero_tests::login_nodes::LoginNodes;
use nero_tests::{Home, Hosts};

use crate::manual::{Stage, play};

fn with_hosts() -> Option<Stage> {
    let hosts = Hosts::up(2);
    hosts.alias("alpha.example.org", "h1");
    hosts.alias("beta.example.org", "h2");
    Some(Stage::of(Home::with_hosts(&hosts), hosts))
}

fn with_a_cluster(scheduler: Scheduler) -> Option<Stage> {
    let nodes = LoginNodes::up(scheduler, 1, &[])?;
    nodes.hosts.alias("login.example.org", "h1");
    Some(Stage::of(nodes.home, (nodes.cluster, nodes.hosts)))
}

#[test]
fn pages_with_hosts_do_what_they_show() {
    play(&[("hosts", with_hosts)], |_| true);
}

#[test]
fn pages_with_slurm_do_what_they_show() {
    play(&[("slurm", || with_a_cluster(Scheduler::Slurm))], |_| true);
}

#[test]
fn pages_with_grid_engine_do_what_they_show() {
    let opening = || with_a_cluster(Scheduler::GridEngine);
    play(&[("gridengine", opening)], |_| true);
}
