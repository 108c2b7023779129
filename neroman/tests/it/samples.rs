//! Answers of daemons, with everything in them that could go wrong on a screen.

use nero_wire::v1::*;

/// Text that would clear a terminal, set its title and turn its lines around.
pub const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}\n\t\u{7f}y";

pub fn param(name: &str, text: &str, json: &str) -> Param {
    Param {
        name: name.into(),
        text: text.into(),
        json: json.into(),
    }
}

pub fn metric(name: &str, last: f64, min: f64, max: f64) -> MetricSummary {
    MetricSummary {
        name: name.into(),
        last,
        step: 12.0,
        min,
        max,
        count: 13,
    }
}

/// A plain experiment.
pub fn experiment(id: u64, name: &str, state: &str) -> ExperimentView {
    ExperimentView {
        id,
        name: name.into(),
        collection: "sweep".into(),
        state: state.into(),
        phase: state.into(),
        node: "local".into(),
        run: 1,
        created_ms: 1_700_000_000_000,
        modified_ms: 1_700_000_000_000,
        path: "/home/ada/sweep".into(),
        collections: vec!["sweep".into()],
        ..ExperimentView::default()
    }
}

/// Four experiments in four states.
pub fn four() -> Vec<ExperimentView> {
    let running = ExperimentView {
        params: vec![param("lr", "0.10", "0.1"), param("opt", "sgd", "\"sgd\"")],
        metrics: vec![metric("loss", 0.31, 0.25, 2.5)],
        runtime_s: Some(12.5),
        submitted_ms: 1_700_000_001_000,
        started_ms: 1_700_000_002_000,
        cpu_cores: Some(1.5),
        rss_bytes: Some(3 << 30),
        progress: Some(0.4),
        eta_s: Some(18.75),
        run: 2,
        ..experiment(144, "lr-0.10", "running")
    };
    let finished = ExperimentView {
        params: vec![param("lr", "1e-3", "0.001"), param("opt", "sgd", "\"sgd\"")],
        metrics: vec![
            metric("loss", f64::NAN, 0.125, f64::INFINITY),
            metric("acc", 0.9, 0.1, 0.95),
        ],
        runtime_s: Some(8040.0),
        exit_code: Some(0),
        reason: "exit code 0".into(),
        submitted_ms: 1_700_000_001_000,
        started_ms: 1_700_000_002_000,
        ended_ms: 1_700_008_042_250,
        results: "/home/ada/sweep/results/latest".into(),
        settled: true,
        ..experiment(145, "lr-1e-3", "finished")
    };
    let crashed = ExperimentView {
        params: vec![param("lr", "no", "false"), param("opt", "sgd", "\"sgd\"")],
        runtime_s: Some(0.25),
        signal: Some(9),
        reason: "killed by SIGKILL".into(),
        submitted_ms: 1_700_000_001_000,
        started_ms: 1_700_000_002_000,
        ended_ms: 1_700_000_002_250,
        warnings: vec!["its log was truncated".into()],
        settled: true,
        ..experiment(146, "lr-no", "crashed")
    };
    let defined = ExperimentView {
        params: vec![param("lr", "12", "12"), param("opt", "sgd", "\"sgd\"")],
        node: String::new(),
        phase: String::new(),
        run: 0,
        not_built: vec!["script (neronet.yaml:3:5)".into()],
        ..experiment(147, "lr-12", "defined")
    };
    vec![running, finished, crashed, defined]
}

/// One experiment whose texts all come from an enemy.
pub fn hostile() -> ExperimentView {
    ExperimentView {
        id: 1,
        name: HOSTILE.into(),
        collection: HOSTILE.into(),
        state: HOSTILE.into(),
        phase: HOSTILE.into(),
        node: HOSTILE.into(),
        run: 1,
        params: vec![param(HOSTILE, HOSTILE, HOSTILE)],
        metrics: vec![metric(HOSTILE, 1.0, 1.0, 1.0)],
        reason: HOSTILE.into(),
        path: HOSTILE.into(),
        warnings: vec![HOSTILE.into()],
        cancel: HOSTILE.into(),
        waiting_for: HOSTILE.into(),
        results: HOSTILE.into(),
        not_built: vec![HOSTILE.into()],
        collections: vec![HOSTILE.into(), HOSTILE.into()],
        contact: HOSTILE.into(),
        ..ExperimentView::default()
    }
}

pub fn rule(experiment: u64) -> RuleState {
    RuleState {
        rule: Some(Rule {
            id: 3,
            action: "abort".into(),
            text: "(runtime > 7200) && (error_rate > 0.4)".into(),
            author: "ada".into(),
            origin: "neronet.yaml:12".into(),
            repeat_ms: 0,
            argument: String::new(),
        }),
        place: "job".into(),
        experiment,
        fired: 1,
        last_values: "runtime 7201, error_rate 0.41".into(),
        last_fired_ms: 1_700_000_002_000,
        fired_ms: Vec::new(),
        bound: vec!["errorrate → error_rate".into()],
        names: vec![rule_state::Bound {
            written: "errorrate".into(),
            exact: "error_rate".into(),
        }],
        problem: String::new(),
        ran: Vec::new(),
    }
}

/// What one start made, with this many runs.
pub fn batch(batch: &str, text: &str) -> BatchView {
    BatchView {
        batch: batch.into(),
        runs: 200,
        ended: 61,
        left_s: Some(32_400.0),
        text: text.into(),
    }
}

/// Everything about the crashed one.
pub fn show() -> ShowReply {
    let run = |number: u32| RunView {
        priority: 0,
        number,
        state: "crashed".into(),
        reason: "exit code 3".into(),
        node: "local".into(),
        created_ms: 1_700_000_001_000,
        started_ms: 1_700_000_002_000,
        ended_ms: 1_700_000_002_250,
        exit_code: Some(3),
        signal: None,
        runtime_s: Some(0.25),
        progress: Some(0.5),
        image: String::new(),
        eta_s: None,
        incarnations: 1,
        results: "/home/ada/sweep/results/latest".into(),
        token: "abcdefghijklmnopqrstuvwxyz".into(),
        stderr_line: "ValueError: lr".into(),
        batch: "1.1".into(),
        follows: None,
        strays: Some(Strays {
            ended: 1,
            left: 0,
            waited_s: 10.1,
            named: vec![strays::One {
                pid: 71,
                name: "sleep".into(),
            }],
        }),
    };
    let var = |name: &str, value: &str| EnvVar {
        name: name.into(),
        value: value.into(),
        unset: false,
        expand: false,
    };
    ShowReply {
        experiment: four().into_iter().nth(2),
        run: Some(run(2)),
        runs: vec![run(1), run(2)],
        argv: vec![
            "python3".into(),
            "main.py".into(),
            "--name".into(),
            "it's a".into(),
        ],
        env: vec![
            var("OMP_NUM_THREADS", "4"),
            var("API_KEY", "should have been masked"),
        ],
        facts: vec!["host: box7".into(), "python: 3.12.1".into()],
        resources: Some(Resources {
            cpus: 2.0,
            memory_bytes: 4 << 30,
            time_ms: 7_200_000,
        }),
        scheduler: Some(SchedulerRequest {
            gpus: 2,
            gpu_type: "a100".into(),
            partition: "gpu".into(),
            ..SchedulerRequest::default()
        }),
        rules: vec![rule(146)],
        tree: "3f9c".into(),
        git: "1234567 (3 files changed)".into(),
        history: vec!["2023-11-15 00:13:21 queued by ada".into()],
        stdout_tail: b"epoch 1\r\x1b[31mloss = 3\nlast".to_vec(),
        stderr_tail: b"Traceback\n\xff".to_vec(),
        work: "/home/ada/.neronet/abc/runs/146/2/work".into(),
        notes: Vec::new(),
        missing: String::new(),
        metric_patterns: Vec::new(),
        metric_reading: None,
        user_cpu_s: 0.2,
        system_cpu_s: 0.05,
        peak_rss_bytes: 512 << 20,
        gpu_use: Some(GpuUse {
            utilisation: Some(0.83),
            memory_bytes: Some(12 << 30),
            power_w: Some(250.4),
            temperature_c: Some(61.0),
        }),
        outputs: vec![Output {
            path: "model*.pt".into(),
            fetch: "end".into(),
            max_bytes: 2 << 30,
        }],
    }
}

pub fn series() -> MetricsReply {
    MetricsReply {
        series: vec![metrics_reply::Series {
            experiment: 144,
            run: 2,
            name: "loss".into(),
            steps: vec![1.0, 2.0],
            values: vec![0.5, f64::NAN],
            times_ms: vec![1_700_000_002_000, 1_700_000_003_500],
            generation: vec![0, 0],
            folded: 0,
        }],
        notes: Vec::new(),
    }
}

pub fn started() -> StartReply {
    let one = |id: u64, run: u32, label: &str, skipped: &str| start_reply::One {
        experiment: id,
        name: format!("e{id}"),
        run,
        skipped: skipped.into(),
        skipped_as: label.into(),
    };
    StartReply {
        experiments: vec![
            one(1, 1, "", ""),
            one(2, 3, "", ""),
            one(3, 0, "running", "running"),
            one(4, 0, "running", "running"),
            one(5, 0, "finished", "finished"),
            one(
                6,
                0,
                "not built yet",
                "not built yet: script (neronet.yaml:3:5)",
            ),
        ],
        notes: vec!["2: lr 0.01 → 0.003".into()],
        folders: vec![taken()],
        scripts: Vec::new(),
        batch: "1.1".into(),
        costs: String::new(),
    }
}

/// A folder with files that stay behind.
pub fn taken() -> FolderTaken {
    FolderTaken {
        folder: "/home/ada/lang".into(),
        files: 14,
        bytes: 2_202_009,
        left_out: vec!["data/ (.gitignore)".into(), "3 × *.pt (.gitignore)".into()],
    }
}

pub fn removed() -> RemoveReply {
    let one = |id: u64, label: &str, skipped: &str| remove_reply::One {
        experiment: id,
        name: format!("exp-{id}"),
        skipped: skipped.into(),
        skipped_as: label.into(),
    };
    RemoveReply {
        experiments: vec![
            one(1, "", ""),
            one(2, "", ""),
            one(
                3,
                "running",
                "running: 3.1 has not ended; `neroman abort 3.1` ends it",
            ),
        ],
        notes: Vec::new(),
        explicit: true,
    }
}

pub fn aborted(explicit: bool) -> AbortReply {
    use abort_reply::Outcome;
    let one = |id: u64, became: Outcome, outcome: &str, why: &str| abort_reply::One {
        experiment: id,
        name: format!("e{id}"),
        run: 1,
        outcome: outcome.into(),
        why: why.into(),
        became: became.into(),
    };
    AbortReply {
        experiments: vec![
            one(1, Outcome::Asked, "asked", ""),
            one(2, Outcome::Asked, "asked", ""),
            one(3, Outcome::TakenAway, "taken away", ""),
            one(4, Outcome::Skipped, "skipped", "finished"),
        ],
        notes: Vec::new(),
        explicit,
    }
}

pub fn nodes() -> NodesReply {
    NodesReply {
        nodes: vec![NodeView {
            name: "local".into(),
            warden: "none".into(),
            connected: true,
            contact_ms: 1_700_000_002_000,
            load_15: 0.75,
            memory_used: 0.5,
            disk_used: 0.25,
            live: 3,
            waiting: 12,
            cpus: 16.0,
            cpus_free: 13.5,
            memory_bytes: 64 << 30,
            root: "/home/ada/.neronet".into(),
            ..NodeView::default()
        }],
        ..NodesReply::default()
    }
}

/// A table that is open elsewhere, with this text for every word.
pub fn workbook(text: &str) -> Workbook {
    Workbook {
        file: text.to_owned(),
        live: text.to_owned(),
        lock: Some(WorkbookLock {
            program: text.to_owned(),
            path: text.to_owned(),
            owner: text.to_owned(),
            host: text.to_owned(),
            since_ms: 1_700_000_000_000,
            left_behind: Some(true),
        }),
        why: text.to_owned(),
        hint: text.to_owned(),
        left: 2,
    }
}

/// A mail that a server put off.
pub fn mail() -> MailListReply {
    MailListReply {
        deliveries: vec![MailDelivery {
            way: "mail".to_owned(),
            to: "ada@example.org".to_owned(),
            subject: "digits: 144.1 crashed".to_owned(),
            made_ms: 1_790_000_000_000,
            state: "waiting".to_owned(),
            words: "451 try again later".to_owned(),
            at_ms: 1_790_000_120_000,
            tries: 2,
            message_id: "<a@example.org>".to_owned(),
        }],
        notices: 1,
        waits: "quiet hours".to_owned(),
        off: false,
    }
}
