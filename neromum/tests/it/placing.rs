//! The things that a run finds in its folder and environment besides its code:
//! data that stays on the node, checkpoints of an earlier run.

use nero_journal::frame::{self, FrameKind};
use nero_model::data::place;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    CancelRequest, CleanRequest, DataPath, EnvVar, Param, RunSpec, SchedulerRequest, Tree,
    TreeEntry,
};
use prost::Message as _;

use crate::rig::{Known, Mum, Node, reference, wait_until_forgotten};
use crate::setup::{put, settled};

async fn refused(mum: &mut Mum, spec: &RunSpec) -> String {
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert_eq!(reply.accepted.len(), 0);
    assert!(!reply.refused[0].hint.is_empty());
    reply.refused[0].why.clone()
}

fn stdout(node: &Node, spec: &RunSpec) -> String {
    let path = node.run_dir(spec).join("1/stdout.log");
    std::fs::read_to_string(path).unwrap()
}

fn lies(name: &str, path: &str) -> DataPath {
    DataPath {
        name: name.to_owned(),
        path: path.to_owned(),
    }
}

#[tokio::test]
async fn data_that_stays_on_the_node_is_found_or_refused() {
    let mut node = Node::new();
    let work = node.root.with_file_name("scratch $x");
    std::fs::create_dir_all(work.join("corpus")).unwrap();
    std::fs::create_dir_all(work.join("home")).unwrap();
    let text = work.display().to_string();
    let home = work.join("home").display().to_string();
    let env = [
        ("WRKDIR", &*text),
        ("HOME", &*home),
        ("PATH", "/usr/bin:/bin"),
    ];
    let mut mum = node.start_with_env(&env).await;
    let line = "echo \"$0\"; echo \"$IN\"; echo \"$NERO_DATA_MY_CORPUS\"; echo \"$NERO_PARAM_P\"; \
                cat \"$NERO_PARAMS\"";
    let corpus = place("my-corpus");
    let spec = RunSpec {
        argv: ["sh", "-c", line, &format!("a:{corpus}")]
            .map(str::to_owned)
            .to_vec(),
        env: vec![EnvVar {
            name: "IN".to_owned(),
            value: format!("$HOME+$WRKDIR+{corpus}"),
            expand: true,
            unset: false,
        }],
        params: vec![Param {
            name: "p".to_owned(),
            text: corpus.clone(),
            json: format!("\"{corpus}\""),
        }],
        data: vec![lies("my-corpus", "${WRKDIR}/corpus"), lies("h", "~")],
        ..node.run(1, &["x"])
    };
    settled(&mut mum, &[&spec]).await;
    let expected = format!(
        "a:{text}/corpus\n{home}+{text}+{text}/corpus\n{text}/corpus\n{text}/corpus\n\
         {{\"p\":\"{text}/corpus\"}}\n"
    );
    assert_eq!(stdout(&node, &spec), expected);
    let other = |data: Vec<DataPath>, experiment| RunSpec {
        experiment,
        token: nero_model::RunToken::random().to_vec(),
        data,
        ..spec.clone()
    };
    for (data, expected) in [
        (vec![lies("my-corpus", "$WRKDIR/nope")], "nope"),
        (vec![lies("my-corpus", "$NOT_SET/x")], "NOT_SET"),
        (vec![lies("my-corpus", "relative")], "absolute"),
        (vec![lies("another", "/")], "my-corpus"),
    ] {
        let spec = other(data, 2);
        let why = refused(&mut mum, &spec).await;
        assert!(
            why.contains(expected) && why.contains("node n: ") && !why.contains("os error"),
            "{why}"
        );
        assert!(!node.run_dir(&spec).exists());
    }
    let mut spec = other(spec.data.clone(), 3);
    spec.env[0].value = "$NOT_SET/x".to_owned();
    let why = refused(&mut mum, &spec).await;
    assert!(
        why.contains("`IN` in `env:` is made of `$NOT_SET`"),
        "{why}"
    );
}

#[tokio::test]
async fn a_run_that_this_node_cannot_start_is_refused_with_the_reason() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let folder = node.root.with_file_name("corpus");
    let path = folder.display().to_string();
    let lacking = RunSpec {
        data: vec![lies("c", &path)],
        ..node.sh(1, "true")
    };
    let nowhere = RunSpec {
        argv: vec!["echo".to_owned(), place("d")],
        ..node.run(2, &["x"])
    };
    let reply = mum.hand_over(vec![lacking.clone(), nowhere]).await;
    let only_here: Vec<bool> = reply.refused.iter().map(|no| no.only_here).collect();
    assert_eq!(only_here, [true, false], "{reply:?}");
    // Another node may have it by now, whatever this one finds.
    std::fs::create_dir(&folder).unwrap();
    let reply = mum.hand_over(vec![lacking.clone()]).await;
    assert!(
        reply.accepted.is_empty() && reply.refused[0].only_here,
        "{reply:?}"
    );
    mum.accept(&[&node.sh(3, "true")]).await;
    // No file lies there that a later start or owner would take for a run.
    assert!(!node.run_dir(&lacking).exists());
    for restart in [false, true] {
        if restart {
            node.kill_mum();
            mum = node.start().await;
        }
        let mut known = Known::default();
        known.name(&[&lacking]);
        let mut follower = mum.follow(known).await;
        follower.stage(&lacking, Stage::UnknownRun).await;
    }
}

#[tokio::test]
async fn a_run_whose_spec_cannot_be_read_now_is_not_refused_for_good() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "true");
    settled(&mut mum, &[&spec]).await;
    let path = node.run_dir(&spec).join("spec");
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    // A known run is accepted without a look at its folder.
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.close(&[&spec]).await;
    wait_until_forgotten(&mut mum).await;
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(reply.accepted.is_empty(), "{reply:?}");
    let no = &reply.refused[0];
    assert!(no.later && !no.only_here, "{reply:?}");
    assert!(no.why.contains("/spec: "), "{reply:?}");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    settled(&mut mum, &[&spec]).await;
    let found = std::fs::read_dir(node.run_dir(&spec)).unwrap();
    let names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.contains(&"2".into()), "{names:?}");
}

#[tokio::test]
async fn a_passing_shortage_of_the_system_refuses_no_run_for_good() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let mut node = Node::new();
    let mut mum = node.start().await;
    settled(&mut mum, &[&node.sh(1, "true")]).await;
    let pid = Pid::from_raw(node.mum_pid());
    let none = Rlimit {
        current: Some(3),
        ..getrlimit(Resource::Nofile)
    };
    let spec = node.sh(2, "true");
    let before = prlimit(pid, Resource::Nofile, none).unwrap();
    let reply = mum.hand_over(vec![spec.clone()]).await;
    prlimit(pid, Resource::Nofile, before).unwrap();
    let no = &reply.refused[0];
    assert!(no.later && !no.only_here, "{reply:?}");
    assert!(no.why.contains("Too many open files"), "{reply:?}");
    settled(&mut mum, &[&spec]).await;
}

#[tokio::test]
async fn a_run_that_was_taken_is_not_refused_for_what_is_missing_since() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let folder = node.root.with_file_name("corpus");
    std::fs::create_dir(&folder).unwrap();
    let taken = RunSpec {
        data: vec![lies("c", &folder.display().to_string())],
        ..node.sh(1, "true")
    };
    settled(&mut mum, &[&taken]).await;
    std::fs::remove_dir(&folder).unwrap();
    // neroman never got the answer and asks again; after a crash, too.
    mum.accept(&[&taken]).await;
    node.kill_mum();
    let mut mum = node.start().await;
    settled(&mut mum, &[&taken]).await;
}

#[tokio::test]
async fn a_missing_program_refuses_only_a_run_that_may_go_elsewhere() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let code = tree(
        &mut mum,
        &[("run.py", "#!/usr/bin/env no-such-python\n")],
        &[],
    )
    .await;
    let script = RunSpec {
        tree: code,
        ..node.run(1, &["./run.py"])
    };
    let bound = node.run(2, &["/no/such/program"]);
    for (run, part) in [(&script, "no-such-python"), (&bound, "/no/such/program")] {
        let run = RunSpec {
            movable: true,
            token: nero_model::RunToken::random().to_vec(),
            ..run.clone()
        };
        let reply = mum.hand_over(vec![run.clone()]).await;
        let no = &reply.refused[0];
        assert!(no.only_here && no.why.contains(part), "{reply:?}");
        assert!(!node.run_dir(&run).exists());
    }
    settled(&mut mum, &[&bound]).await;
}

async fn tree(mum: &mut Mum, files: &[(&str, &str)], links: &[(&str, &str)]) -> Vec<u8> {
    let mut tree = Tree::default();
    for (path, content) in files {
        tree.entries.push(TreeEntry {
            path: (*path).to_owned(),
            hash: put(mum, content.as_bytes()).await,
            size: content.len() as u64,
            ..TreeEntry::default()
        });
    }
    for (path, to) in links {
        tree.entries.push(TreeEntry {
            path: (*path).to_owned(),
            link: (*to).to_owned(),
            ..TreeEntry::default()
        });
    }
    put(mum, &tree.encode_to_vec()).await
}

fn resuming(node: &Node, experiment: u64, earlier: &RunSpec, line: &str) -> RunSpec {
    RunSpec {
        resume: Some(reference(earlier)),
        checkpoint: vec!["ckpt/**".to_owned()],
        ..node.sh(experiment, line)
    }
}

#[tokio::test]
async fn a_run_goes_on_from_the_checkpoints_of_an_earlier_one() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let code = tree(
        &mut mum,
        &[("ckpt/old", "code"), ("main", "v1")],
        &[("l", "main")],
    )
    .await;
    let first = RunSpec {
        tree: code.clone(),
        ..node.sh(
            1,
            "echo step9 > ckpt/9.pt; ln -s 9.pt ckpt/last.pt; echo new > ckpt/old; \
             ln -s / ckpt/root; ln -s /etc/passwd ckpt/p; mkfifo ckpt/fifo; echo no > log; exit 1",
        )
    };
    settled(&mut mum, &[&first]).await;
    let line = "cat ckpt/last.pt ckpt/old main l; [ \"$NERO_RESUME\" = \"$PWD\" ] && echo resumed; \
                [ -e log ] || echo no log; readlink ckpt/root; echo step10 > ckpt/9.pt";
    let second = RunSpec {
        tree: code.clone(),
        ..resuming(&node, 2, &first, line)
    };
    settled(&mut mum, &[&second]).await;
    assert_eq!(
        stdout(&node, &second),
        "step9\nnew\nv1v1resumed\nno log\n/\n"
    );
    let earlier = node.run_dir(&first).join("work/ckpt/9.pt");
    assert_eq!(std::fs::read_to_string(earlier).unwrap(), "step9\n");
    // If no checkpoint matches, the run begins at its beginning, and its
    // environment shows that.
    let none = RunSpec {
        checkpoint: vec!["none/**".to_owned()],
        ..resuming(&node, 3, &first, "echo \"[${NERO_RESUME-unset}]\"")
    };
    settled(&mut mum, &[&none]).await;
    assert_eq!(stdout(&node, &none), "[unset]\n");
    // From another node they come as files laid over the code.
    let over = tree(
        &mut mum,
        &[("ckpt/old", "other node"), ("l/x", "deep")],
        &[],
    )
    .await;
    let third = RunSpec {
        tree: code,
        overlay: over,
        ..node.sh(
            4,
            "cat ckpt/old l/x main; [ -n \"$NERO_RESUME\" ] && echo resumed",
        )
    };
    settled(&mut mum, &[&third]).await;
    assert_eq!(stdout(&node, &third), "other nodedeepv1resumed\n");
}

#[tokio::test]
async fn an_earlier_run_that_is_live_absent_or_cleaned_refuses() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let line = "mkdir ckpt; echo 1 > ckpt/a; while [ ! -e ../go ]; do sleep 0.01; done";
    let first = node.sh(1, line);
    let waiting = node.sh(2, "true");
    mum.accept(&[&first, &waiting]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    for earlier in [&first, &waiting] {
        let why = refused(&mut mum, &resuming(&node, 3, earlier, "true")).await;
        assert!(why.contains("not over"), "{why}");
    }
    let why = refused(&mut mum, &resuming(&node, 4, &node.sh(99, "true"), "true")).await;
    assert!(why.contains("run 99.1 is not on n"), "{why}");
    std::fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.settled(&[&first, &waiting]).await;
    follower.close(&[&first, &waiting]).await;
    wait_until_forgotten(&mut mum).await;
    // A run that waits to begin with them keeps them from being cleaned.
    let block = node.sh(5, "while [ ! -e ../go ]; do sleep 0.01; done");
    let next = resuming(&node, 6, &first, "cat ckpt/a");
    mum.accept(&[&block, &next]).await;
    let clean = CleanRequest {
        runs: vec![reference(&first)],
        ..CleanRequest::default()
    };
    for restart in [false, true] {
        if restart {
            node.kill_mum();
            mum = node.start().await;
        }
        let asked = mum.client.clean(clean.clone()).await;
        let reply = asked.unwrap().into_inner();
        assert!(reply.refused[0].why.contains("run 6.1"), "{reply:?}");
    }
    std::fs::write(node.run_dir(&block).join("go"), "").unwrap();
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&next]).await;
    assert_eq!(stdout(&node, &next), "1\n");
    let asked = mum.client.clean(clean).await.unwrap();
    assert_eq!(asked.into_inner().cleaned.len(), 1);
    let why = refused(&mut mum, &resuming(&node, 7, &first, "true")).await;
    assert!(why.contains("run 1.1 was cleaned"), "{why}");
}

#[tokio::test]
async fn a_run_that_comes_when_everything_is_taken_is_told_what_it_waits_for() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    mum.accept(&[&first]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    let second = node.sh(2, "true");
    mum.accept(&[&second]).await;
    let token = second.token.clone();
    let told = |known: &Known| {
        let run = known.runs.get(&token);
        run.is_some_and(|run| run.why.starts_with("waits for CPUs: "))
    };
    follower.until(told).await;
    std::fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.settled(&[&first, &second]).await;
}

#[tokio::test]
async fn neroman_asks_for_a_run_that_it_cannot_send_and_a_late_hand_over_brings_it_no_more() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let first = |spec: RunSpec| RunSpec {
        generation: 1,
        ..spec
    };
    let (has, lacks) = (first(node.sh(1, "true")), first(node.sh(2, "true")));
    mum.accept(&[&has]).await;
    let question = |spec: &RunSpec| RunSpec {
        token: spec.token.clone(),
        experiment: spec.experiment,
        number: spec.number,
        generation: spec.generation,
        ..RunSpec::default()
    };
    let reply = mum.send_again(&question(&has)).await;
    assert_eq!(reply.accepted, std::slice::from_ref(&has.token));
    let reply = mum.send_again(&question(&lacks)).await;
    assert!(reply.refused[0].unknown_run, "{reply:?}");
    // Its first hand-over was on its way all the time.
    let reply = mum.hand_over(vec![lacks.clone()]).await;
    assert!(reply.refused[0].unknown_run, "{reply:?}");
    assert!(!node.run_dir(&lacks).exists());
    // No other request brings in a run without a command.
    let reply = mum.hand_over(vec![question(&lacks)]).await;
    assert!(reply.accepted.is_empty(), "{reply:?}");
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&has]).await;
}

#[tokio::test]
async fn a_node_without_a_scheduler_refuses_runs_that_need_one_and_another_node_may_have_them() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let asks = |number: u64, request: SchedulerRequest| RunSpec {
        scheduler: Some(request),
        ..node.sh(number, "true")
    };
    let srun = SchedulerRequest {
        launcher: "srun".to_owned(),
        ..SchedulerRequest::default()
    };
    let partition = SchedulerRequest {
        partition: "gpu".to_owned(),
        ..SchedulerRequest::default()
    };
    let (needs, passes) = (asks(1, srun), asks(2, partition));
    let reply = mum.hand_over(vec![needs, passes.clone()]).await;
    assert_eq!(reply.accepted, [passes.token]);
    let [refusal] = &reply.refused[..] else {
        panic!("{reply:?}");
    };
    assert!(refusal.only_here && !refusal.later, "{refusal:?}");
    assert_eq!(
        refusal.why,
        "`launcher: srun` needs a scheduler, and this node has none"
    );
}

/// The folder and spec of a run, as a hand-over leaves them that came no farther.
fn half_handed_over(node: &Node, spec: &RunSpec) {
    let run_dir = node.run_dir(spec);
    std::fs::create_dir_all(run_dir.join("control")).unwrap();
    frame::create(FrameKind::Spec, &run_dir.join("spec"), spec).unwrap();
}

fn of_generation(generation: u32, spec: &RunSpec) -> RunSpec {
    RunSpec {
        generation,
        ..spec.clone()
    }
}

#[tokio::test]
async fn what_an_earlier_hand_over_left_does_not_keep_a_run_from_its_node() {
    let mut node = Node::new();
    let spec = node.sh(1, "true");
    half_handed_over(&node, &of_generation(1, &spec));
    let mut mum = node.start().await;
    let again = of_generation(2, &spec);
    let reply = mum.hand_over(vec![again.clone()]).await;
    assert!(reply.refused[0].later, "{reply:?}");
    // The earlier hand-over may still be on its way.
    let late = mum.hand_over(vec![of_generation(1, &spec)]).await;
    assert!(late.refused[0].unknown_run, "{late:?}");
    settled(&mut mum, &[&again]).await;
}

#[tokio::test]
async fn a_run_whose_claim_cannot_be_read_is_not_called_unknown() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = of_generation(1, &node.sh(1, "true"));
    let recall = CancelRequest {
        request: nero_model::RequestId::random().to_vec(),
        runs: vec![reference(&spec)],
        recall: 1,
        ..CancelRequest::default()
    };
    mum.client.cancel(recall).await.unwrap();
    half_handed_over(&node, &spec);
    let start = node.run_dir(&spec).join("1");
    std::os::unix::fs::symlink(&start, &start).unwrap();
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(
        reply.refused[0].later && !reply.refused[0].unknown_run,
        "{reply:?}"
    );
    std::fs::remove_file(&start).unwrap();
    let reply = mum.hand_over(vec![spec]).await;
    assert!(reply.refused[0].unknown_run, "{reply:?}");
}

#[tokio::test]
async fn every_report_of_a_run_names_the_hand_over_that_it_concerns() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = of_generation(3, &node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done"));
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    assert!(follower.of(&spec).generations.iter().all(|one| *one == 3));
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    // neroman counts a later one, and the node has the run all the time.
    mum.accept(&[&of_generation(4, &spec)]).await;
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    follower.settled(&[&spec]).await;
    let told = follower.of(&spec).generations;
    assert_eq!(
        (told.first(), told.last()),
        (Some(&3), Some(&4)),
        "{told:?}"
    );
}

#[tokio::test]
async fn many_runs_of_one_request_are_answered_in_its_order_though_threads_make_their_folders() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let mut specs: Vec<RunSpec> = (1..=150)
        .map(|number| node.sh(number, "sleep 60"))
        .collect();
    // All are of one experiment, so that the threads share its folder.
    for (number, spec) in (1..).zip(&mut specs) {
        (spec.experiment, spec.number) = (1, number);
    }
    specs[100].resources.as_mut().unwrap().cpus = 64.0;
    let reply = mum.hand_over(specs.clone()).await;
    let never = specs.remove(100);
    let tokens = |specs: &[RunSpec]| specs.iter().map(|spec| spec.token.clone()).collect();
    let expected: Vec<Vec<u8>> = tokens(&specs);
    assert_eq!(reply.accepted, expected);
    assert_eq!(reply.refused.len(), 1);
    assert_eq!(reply.refused[0].token, never.token);
    for spec in &specs {
        let path = node.run_dir(spec).join("spec");
        let kept: RunSpec = frame::read(FrameKind::Spec, &path).unwrap();
        assert_eq!(kept.token, spec.token);
    }
    assert!(!node.run_dir(&never).exists());
}
