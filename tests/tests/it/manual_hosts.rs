//! Pages of the manual that need hosts behind `ssh`, or a cluster.

use nero_tests::cluster::Scheduler;
use nero_tests::login_nodes::LoginNodes;
use nero_tests::{Home, Hosts};

use crate::manual::{Stage, play};

#[test]
fn pages_with_hosts_do_what_they_show() {
    let hosts = Hosts::up(2);
    hosts.alias("alpha.example.org", "h1");
    hosts.alias("beta.example.org", "h2");
    let open = || Stage::of(Home::with_hosts(&hosts));
    play(&[("hosts", &open)], |_| true);
}

/// Plays the blocks whose stage is the login node of a cluster.
fn play_at(scheduler: Scheduler, stage: &'static str) {
    let Some(nodes) = LoginNodes::up(scheduler, 1, &[]) else {
        return;
    };
    nodes.hosts.alias("login.example.org", "h1");
    let open = || Stage::of(Home::with_hosts(&nodes.hosts));
    play(&[(stage, &open)], |_| true);
}

#[test]
fn pages_with_slurm_do_what_they_show() {
    play_at(Scheduler::Slurm, "slurm");
}

#[test]
fn pages_with_grid_engine_do_what_they_show() {
    play_at(Scheduler::GridEngine, "gridengine");
}
