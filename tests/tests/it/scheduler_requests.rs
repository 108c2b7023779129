//! What a person asks for, as a real scheduler is asked for it: batch scripts that are
//! added, shown before a start and submitted, and the node's own limit.

use nero_tests::Home;
use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;

/// Adds a batch script.
fn add(home: &Home, name: &str, lines: &[&str]) {
    let script = home.path().join(name);
    std::fs::write(&script, lines.join("\n") + "\n").unwrap();
    home.ok(&["add", script.to_str().unwrap()]);
}

#[track_caller]
fn has(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}

#[test]
fn a_batch_script_of_slurm_is_shown_and_asks_slurm_for_the_same_within_the_nodes_limit() {
    let login = Login::new(Scheduler::Slurm);
    let home = &login.home;
    login.tell("sacctmgr", &["-i", "add", "account", "lab"]);
    login.tell("sacctmgr", &["-i", "add", "user", "root", "account=lab"]);
    home.configure("nodes: {local: {warden: slurm, max_running: 2}}\n");
    let go = login.path("go");
    let wait = format!("while ! [ -e {go} ]; do sleep 0.1; done");
    add(
        home,
        "train.slurm",
        &[
            "#!/bin/sh",
            "#SBATCH --time=10 --account=lab",
            "#SBATCH --qos=normal",
            "#SBATCH --constraint=fast",
            "#SBATCH --gres=gpu:1",
            "#SBATCH --array=4-6",
            &wait,
            "exit $SLURM_ARRAY_TASK_ID",
        ],
    );
    let options = [
        "--account=lab",
        "--qos=normal",
        "--constraint=fast",
        "--gres=gpu:1",
        "--array=0-2%2",
        " job ",
    ];
    let shown = home.ok(&["start", "1-3", "--dry-run", "--show-script"]);
    has(&shown, &options);
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "defined", "{seen:#}");

    home.ok(&["start", "1-3"]);
    for id in 1..=2 {
        home.until_state(id, "running");
    }
    login.until(3, "to wait for the node's limit", |seen| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        why.contains("JobArrayTaskLimit")
    });
    let job = login.until_queued(3);
    let said = login.cluster.run("scontrol", &["show", "job", &job]).stdout;
    has(
        &String::from_utf8_lossy(&said),
        &["Account=lab", "QOS=normal", "Features=fast", "gres:gpu:1"],
    );
    // A later submission has no room beside them.
    login.start("later", "exit 3");
    login.until(4, "to wait here", |seen| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        why.contains("2 of yours run or may run in SLURM (`max_running:` of the node)")
    });
    std::fs::write(&go, "").unwrap();
    for (id, code) in [(1, 4), (2, 5), (3, 6), (4, 3)] {
        let seen = home.until_settled(id);
        assert_eq!(seen["exit_code"], code, "{seen:#}");
    }
}

#[test]
fn a_batch_script_of_grid_engine_is_shown_and_asks_it_for_the_same_as_its_complexes_count() {
    let scheduler = Scheduler::GridEngine;
    let login = Login::alone(scheduler);
    let home = &login.home;
    // A request for GPUs counts for the whole job.
    let complexes = login.cluster.run("qconf", &["-sc"]).stdout;
    let complexes = String::from_utf8(complexes).unwrap();
    let of_job = complexes.lines().map(|line| {
        if line.starts_with("gpu ") {
            "gpu gpu INT <= YES JOB 0 0\n".to_owned()
        } else {
            format!("{line}\n")
        }
    });
    let file = login.path("complexes");
    std::fs::write(&file, of_job.collect::<String>()).unwrap();
    login.tell("qconf", &["-Mc", &file]);
    add(
        home,
        "blast.sge",
        &[
            "#!/bin/sh",
            "#$ -pe smp 4",
            "#$ -l h_rt=0:10:00,mem_free=1M,gpu=2",
            "exit $NSLOTS",
        ],
    );
    let shown = home.ok(&["start", "1", "--dry-run", "--show-script"]);
    has(
        &shown,
        &["-pe smp 4", "#$ -l mem_free=1M", "-l gpu=2", " job "],
    );
    assert!(!shown.contains("h_vmem"), "{shown}");
    home.ok(&["start", "1"]);
    let seen = home.until_settled(1);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
}
