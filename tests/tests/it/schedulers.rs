//! Login nodes of clusters with a real scheduler.

use nero_tests::Home;
use nero_tests::cluster::{Cluster, Scheduler};

/// What `node doctor` tells of a login node of this cluster.
fn doctor(scheduler: Scheduler) -> String {
    let cluster = Cluster::shared(scheduler);
    let mut home = Home::new();
    cluster.log_in(&mut home);
    let ran = home.run(&["node", "doctor", "local"]);
    ran.out
}

#[track_caller]
fn tells(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}

#[test]
fn the_doctor_finds_slurm_its_partitions_limits_and_accounting() {
    let said = doctor(Scheduler::Slurm);
    tells(
        &said,
        &[
            "SLURM (slurm-wlm ",
            " is here with 3 partitions and accounting; ",
            "main (default): 3 hosts, up to 8 CPUs, 7.8G memory, 2 GPUs, no time limit",
            "short: 2 hosts, up to 2 CPUs, 2.0G memory, 2 GPUs, at most 30m",
            "shut: starts nothing now",
            "arrays of 5000 tasks, 20000 jobs of all users",
            "SLURM's accounting: it keeps the ends of jobs",
            "asking SLURM: 4 commands in ",
        ],
    );
    // Its root lies on a disk of this machine, which a real cluster's hosts do not see.
    tells(&said, &["shared root: its file system looks like"]);
}

#[test]
fn the_doctor_says_that_slurm_without_accounting_forgets_jobs() {
    let said = doctor(Scheduler::SlurmWithoutAccounting);
    tells(&said, &["none: SLURM forgets a job 5m after its end"]);
}

#[test]
fn the_doctor_finds_grid_engine_its_queues_and_limits() {
    let said = doctor(Scheduler::GridEngine);
    tells(
        &said,
        &[
            "Grid Engine (SGE ",
            "all.q: up to 8 CPUs",
            "parallel environments: smp",
            "arrays of 75000 tasks, 2000 tasks of an array at once",
        ],
    );
}

#[test]
fn a_controller_that_does_not_answer_is_quoted() {
    let mut home = Home::new();
    // The packages are there, a cluster is not.
    drop(Cluster::shared(Scheduler::Slurm));
    let nowhere = home.path().join("slurm.conf");
    std::fs::write(
        &nowhere,
        "ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\n",
    )
    .unwrap();
    home.set_env("SLURM_CONF", &nowhere.display().to_string());
    let ran = home.run(&["node", "doctor", "local"]);
    tells(&ran.out, &["SLURM's answer: scontrol "]);
}

#[test]
fn a_cluster_that_only_the_login_shell_knows_is_found_and_its_source_is_named() {
    for (scheduler, variable) in [
        (Scheduler::Slurm, "SLURM_CONF"),
        (Scheduler::GridEngine, "SGE_ROOT"),
    ] {
        let cluster = Cluster::shared(scheduler);
        let mut home = Home::new();
        home.set_env("SHELL", "/bin/bash");
        let exports = cluster.env().into_iter();
        let exports = exports.map(|(name, value)| format!("export {name}='{value}'\n"));
        let lines = format!("echo welcome\n{}", exports.collect::<String>());
        std::fs::write(home.path().join(".bash_profile"), lines).unwrap();
        let ran = home.run(&["node", "doctor", "local"]);
        let found = format!("{variable}=");
        tells(
            &ran.out,
            &[&found, " (by your login shell)", " commands in "],
        );
    }
}
