//! Runs whose places a real SLURM gives to the jobs of a better partition.

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;

/// Counts its starts in a checkpoint, and goes on until its second start; saves when it is
/// asked to end.
const SAVING: &str = "mkdir -p ckpt; n=$(cat ckpt/n 2>/dev/null || echo 0); n=$((n+1)); \
                      trap \"echo $n > ckpt/n; exit 0\" TERM; \
                      echo $n > made-$n; echo at $n $(test -n \"$NERO_RESUME\" && echo resumed); \
                      while [ $n -lt 2 ]; do sleep 0.1; done";

#[test]
fn a_preempted_run_goes_on_from_its_checkpoint_where_slurm_requeues_and_where_it_cancels() {
    let scheduler = Scheduler::Slurm;
    let login = Login::alone_with(scheduler, &[("PREEMPT", "1")]);
    let fields = |partition: &str| {
        format!(
            "checkpoint: 'ckpt/*'\nmonitor: {{grace: 2s}}\npartition: {partition}\n\
             resources: {{exclusive: true}}"
        )
    };
    login.submit("requeued", SAVING, &fields("requeue"));
    let retried = format!("{}\nretry: {{on: [preempted]}}", fields("cancel"));
    login.submit("cancelled", SAVING, &retried);
    for id in ["1", "2"] {
        nero_tests::until("the run to count its start", || {
            let log = login.home.run(&["logs", id]).out;
            if log.contains("at 1") {
                Ok(())
            } else {
                Err((log, login.home.logs()))
            }
        });
    }
    let all = ["--partition=high", "--exclusive", "--nodes=3"];
    let job = ["--output=/dev/null", "--wrap=sleep 1"];
    login.tell("sbatch", &[&all[..], &job].concat());

    let seen = login.home.until_state(1, "finished");
    assert_eq!(seen["run"], "1.1", "{seen:#}");
    let seen = login.home.until_state(2, "finished");
    assert_eq!(seen["run"], "2.2", "{seen:#}");
    let follows = "retry 1 of 1 after a preemption";
    assert_eq!(seen["follows"]["text"], follows, "{seen:#}");
    for id in ["1", "2"] {
        let log = login.home.ok(&["logs", id]);
        assert!(log.contains("at 2 resumed"), "{log}");
    }
    what_the_first_start_left_is_reached(&login);
    let shown = login.home.ok(&["show", "2"]);
    let reason = "SLURM gave its place to other jobs";
    assert!(shown.contains(reason), "{shown}");
}

/// Its output is in a log of its own, here and there; `clean` tells of its files, which did not
/// come home.
fn what_the_first_start_left_is_reached(login: &Login) {
    let first = login.home.ok(&["logs", "1.1", "--start", "1"]);
    assert!(first.contains("at 1") && !first.contains("at 2"), "{first}");
    let seen = login.home.until_settled(1);
    let results = std::path::PathBuf::from(seen["results"].as_str().unwrap());
    let home = std::fs::read_to_string(results.join("start-1/stdout.log")).unwrap();
    assert!(home.contains("at 1"), "{home}");
    let refused = login.home.run(&["clean", "1"]);
    let told = refused.out + &refused.err;
    assert!(told.contains("start-1/made-1"), "{told}");
    login.home.ok(&["fetch", "1"]);
    assert_eq!(
        std::fs::read_to_string(results.join("start-1/made-1")).unwrap(),
        "1\n"
    );
    login.home.ok(&["clean", "1", "--yes"]);
    let first = login.home.ok(&["logs", "1.1", "--start", "1"]);
    assert!(first.contains("at 1"), "{first}");
}
