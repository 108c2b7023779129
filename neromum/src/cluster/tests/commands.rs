//! How often the scheduler is asked, and how much it is given at once.

use super::*;

/// Commands of each minute, from the third on, while 200 tasks wait and nothing
/// changes.
async fn commands_a_minute(node: &Node, mut agent: Agent<Cluster>) -> Vec<usize> {
    let limits = Site {
        jobs_max: Some(2000),
        ..Site::default()
    };
    let cluster = &mut agent.driver;
    cluster.site = Some((Instant::now(), Arc::new(limits)));
    let begin = Instant::now();
    let mut commands = vec![0; 20];
    while begin.elapsed() < Duration::from_secs(1200) {
        let now = Instant::now();
        Cluster::make_submissions(&mut agent, now);
        if let Some((ask, calls)) = Cluster::next_ask(&mut agent, now) {
            commands[begin.elapsed().as_secs() as usize / 60] += calls.len();
            let said = vec![node.answer(&ask, 200)];
            Cluster::answered(
                &mut agent,
                CommandAnswers {
                    ask,
                    said,
                    site: None,
                    users: HashMap::new(),
                },
            );
        } else {
            tokio::time::advance(Duration::from_millis(500)).await;
        }
    }
    commands.split_off(2)
}

#[tokio::test(start_paused = true)]
async fn two_hundred_waiting_runs_cost_two_commands_a_minute_at_most() {
    let node = Node::new();
    let runs: Vec<TaskRun> = (1..=200).map(planned).collect();
    node.submit(&runs, 7);
    let (agent, _boxes) = node.agent();
    let commands = commands_a_minute(&node, agent).await;
    assert!(
        commands.iter().all(|count| (0..=2).contains(count)),
        "{commands:?}"
    );
    assert!(
        commands.iter().sum::<usize>() >= 10,
        "it is asked: {commands:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_scheduler_refuses_is_asked_for_ever_more_seldom() {
    let node = Node::new();
    let runs: Vec<TaskRun> = (1..=3).map(planned).collect();
    node.submit(&runs, 7);
    let (mut agent, _boxes) = node.agent();
    agent.core.set_paused(runs[0].token, true);
    let cluster = &mut agent.driver;
    cluster.hold_at_scheduler(runs[0].token, PauseState::Paused);
    let commands = commands_a_minute(&node, agent).await;
    let later: usize = commands[8..].iter().sum();
    // Pauses between listings are up to 84 s by chance.
    assert!((7..=25).contains(&later), "{commands:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_room_cost_two_commands_a_minute_at_most() {
    let node = Node::new();
    let runs: Vec<TaskRun> = (1..=200).map(planned).collect();
    node.submit(&runs, 7);
    let more: Vec<TaskRun> = (201..=260).map(planned).collect();
    more.iter().for_each(|run| node.wait(run));
    let (agent, _boxes) = node.agent_with(Some(200));
    assert_eq!(agent.core.waiting(), 60);
    let commands = commands_a_minute(&node, agent).await;
    assert!(
        commands.iter().all(|count| (0..=2).contains(count)),
        "{commands:?}"
    );
}

/// A listing that is wanted at once, a moment after the last one.
#[tokio::test(start_paused = true)]
async fn the_agent_rests_until_it_may_list_again() {
    let node = Node::new();
    node.submit(&[planned(1)], 7);
    let (mut agent, _boxes) = node.agent();
    let now = Instant::now();
    let cluster = &mut agent.driver;
    cluster.site = Some((now, Arc::new(Site::default())));
    cluster.list_soon(now);
    while let Some((ask, _)) = Cluster::next_ask(&mut agent, now) {
        let said = vec![node.answer(&ask, 1)];
        Cluster::answered(
            &mut agent,
            CommandAnswers {
                ask,
                said,
                site: None,
                users: HashMap::new(),
            },
        );
    }
    let cluster = &mut agent.driver;
    assert!(cluster.counted.is_some());
    cluster.look_at = None;
    cluster.list_soon(now);
    Cluster::turn_ends(&mut agent);
    assert_eq!(agent.timers.driver, Some(now + LIST_APART));
}

/// A scheduler that takes so many tasks of this user, none of which ends, and no array
/// that is larger: the sizes of the calls until the time is over, and what it took.
async fn sizes_of_calls(
    agent: &mut Agent<Cluster>,
    boxes: &mut Mailboxes<ClusterResult>,
    limit: u64,
) -> (Vec<u64>, u64) {
    let full = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: \
                Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n";
    let said = |code, out: String, err: &str| CallOutput {
        end: End::Code(code),
        out: out.into_bytes(),
        err: err.as_bytes().to_vec(),
    };
    let (mut sizes, mut taken, mut rows) = (Vec::new(), 0, Vec::new());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(600) {
        let now = Instant::now();
        Cluster::make_submissions(agent, now);
        while agent.driver.is_making {
            let done = boxes.done.recv().await.expect("the maker answers");
            agent.done(done);
        }
        let ids: Vec<SubmissionId> = agent.driver.submissions.keys().copied().collect();
        agent.driver.intended(&ids);
        let Some((ask, _)) = Cluster::next_ask(agent, now) else {
            tokio::time::advance(Duration::from_millis(500)).await;
            continue;
        };
        let said = match &ask {
            Ask::Submit(id) => {
                let submission = &agent.driver.submissions[id];
                let tasks = submission.tasks.len() as u64;
                sizes.push(tasks);
                if taken + tasks > limit {
                    said(1, String::new(), full)
                } else {
                    taken += tasks;
                    let job = sizes.len();
                    let task = match tasks {
                        1 => String::new(),
                        tasks => format!(r#", "array_task_string": "0-{}""#, tasks - 1),
                    };
                    rows.push(format!(
                        r#"{{"name": "{}", "job_id": {job}, "array_job_id": {job}, "array_task_id": null,
                        "job_state": "PENDING", "state_reason": "Priority"{task}}}"#,
                        submission.name
                    ));
                    said(0, format!("{job}\n"), "")
                }
            }
            Ask::List(_) => said(0, format!(r#"{{"jobs": [{}]}}"#, rows.join(",")), ""),
            other => panic!("{other:?}"),
        };
        Cluster::answered(
            agent,
            CommandAnswers {
                ask,
                said: vec![said],
                site: None,
                users: HashMap::new(),
            },
        );
    }
    (sizes, taken)
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_submitted_jobs_is_learnt_and_filled_and_never_a_doubt() {
    let node = Node::new();
    let runs: Vec<TaskRun> = (1..=50).map(planned).collect();
    runs.iter().for_each(|run| node.wait(run));
    let (mut agent, mut boxes) = node.agent();
    let limits = Site {
        array_index_end: Some(1001),
        ..Site::default()
    };
    agent.driver.site = Some((Instant::now(), Arc::new(limits)));
    let (sizes, taken) = sizes_of_calls(&mut agent, &mut boxes, 20).await;
    assert_eq!(taken, 20, "{sizes:?}");
    assert_eq!(sizes[..3], [50, 25, 12], "{sizes:?}");
    assert!(sizes.len() < 40, "once a minute when it is full: {sizes:?}");
    assert_eq!(agent.core.waiting(), 30);
    let waits = agent.core.queue().next().unwrap();
    let why = &agent.core.run(&waits).unwrap().why;
    assert!(
        why.contains("AssocMaxSubmitJobLimit") && why.contains("`max_queued:`"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_an_empty_queue_does_not_take_waits_for_a_person_and_is_tried_again() {
    let (node, run) = (Node::new(), planned(1));
    node.wait(&run);
    let (mut agent, mut boxes) = node.agent();
    let cluster = &mut agent.driver;
    cluster.site = Some((Instant::now(), Arc::new(Site::default())));
    let (sizes, _) = sizes_of_calls(&mut agent, &mut boxes, 0).await;
    assert!(
        sizes.len() > 1 && sizes.iter().all(|size| *size == 1),
        "{sizes:?}"
    );
    assert_eq!(Cluster::stage(&agent, &run), Stage::Waiting);
    assert!(agent.core.run(&run.token).unwrap().needs_person);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_as_many_tasks_may_run_beside_an_array_as_before() {
    let node = Node::new();
    let runs: Vec<TaskRun> = (1..=10).map(planned).collect();
    runs.iter().for_each(|run| node.wait_as(run, 0, 2));
    let (mut agent, mut boxes) = node.agent_limited(None, Some(6));
    let limits = Site {
        array_index_end: Some(1001),
        ..Site::default()
    };
    agent.driver.site = Some((Instant::now(), Arc::new(limits)));
    let (sizes, _) = sizes_of_calls(&mut agent, &mut boxes, 10).await;
    assert_eq!(sizes, [10]);
    let left = |agent: &Agent<Cluster>| agent.driver.running_left();
    assert_eq!(left(&agent), Some(4));
    drop((agent, boxes));
    let (agent, _boxes) = node.agent_limited(None, Some(6));
    assert_eq!(left(&agent), Some(4));
}

#[tokio::test(start_paused = true)]
async fn no_job_is_held_before_the_disk_has_that_we_hold_it() {
    let (node, run) = (Node::new(), planned(1));
    node.submit(&[run], 7);
    let control = node.paths.run(run.id).join(names::CONTROL);
    std::fs::remove_dir(&control).unwrap();
    let (mut agent, _boxes) = node.agent();
    agent.core.set_paused(run.token, true);
    let cluster = &mut agent.driver;
    cluster.hold_at_scheduler(run.token, PauseState::Paused);
    let is_hold = |calls: &[Call]| {
        let words = calls.iter().flat_map(|call| &call.words);
        words.into_iter().any(|word| *word == "uhold")
    };
    let mut holds = 0;
    for has_folder in [false, true] {
        if has_folder {
            make_private(&control).unwrap();
        }
        for _ in 0..120 {
            if let Some((ask, calls)) = Cluster::next_ask(&mut agent, Instant::now()) {
                holds += usize::from(is_hold(&calls));
                assert!(!is_hold(&calls) || control.join("held").exists());
                let said = vec![node.answer(&ask, 1)];
                let site = None;
                Cluster::answered(
                    &mut agent,
                    CommandAnswers {
                        ask,
                        said,
                        site,
                        users: HashMap::new(),
                    },
                );
            }
            tokio::time::advance(Duration::from_millis(500)).await;
        }
        assert_eq!(holds > 0, has_folder, "{holds} commands");
    }
}
