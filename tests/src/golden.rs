//! What the samples of stored formats hold: fixed values, so that a sample
//! made by any build must read back as exactly this.

use nero_journal::v1::{
    Authority, Claimed, Gone, HostSeen, JobExited, JobStarted, Lease, LedgerExited, Owner, Process,
    RecordKind, TreeGone, Unnamed, ledger_exited, unnamed,
};
use nero_wire::v1::{Cancel, EnvVar, Monitor, Output, Param, Resources, Rule, RuleSet, RunSpec};
use prost::Message as _;

/// The run of every sample.
pub const TOKEN: [u8; 16] = *b"a golden  token!";

fn process(pid: i32) -> Option<Process> {
    Some(Process {
        boot_id: vec![7; 16],
        pid_namespace: 4_026_531_836,
        pid,
        start_ticks: 123_456,
    })
}

/// The records of the sample claim, in order.
pub fn claim() -> (Claimed, JobStarted, JobExited, TreeGone) {
    (
        Claimed {
            shim: process(100),
            launcher: process(99),
            time_limit_ms: 60_000,
        },
        JobStarted { job: process(101) },
        JobExited {
            code: 3,
            user_cpu_us: 1500,
            system_cpu_us: 700,
            peak_rss_bytes: 1 << 20,
            disk_free_bytes: Some(0),
            run_ms: 12,
            ..JobExited::default()
        },
        TreeGone {
            strays_killed: 1,
            stdout_bytes: 42,
            stderr_bytes: 0,
            left_alive: vec![5],
            ..TreeGone::default()
        },
    )
}

/// Kinds of those records.
pub const CLAIM_KINDS: [RecordKind; 4] = [
    RecordKind::Claimed,
    RecordKind::JobStarted,
    RecordKind::JobExited,
    RecordKind::TreeGone,
];

/// The sample cancel request.
pub fn cancel() -> Cancel {
    Cancel {
        token: TOKEN.to_vec(),
        cause: 2,
        grace_ms: 5000,
        signal: 15,
        rule: 8,
        author: "somebody".to_owned(),
        asked_ms: 1_795_000_000_000,
    }
}

/// The sample rule set.
pub fn rules() -> RuleSet {
    RuleSet {
        version: 3,
        rules: vec![Rule {
            id: 8,
            action: "abort".to_owned(),
            text: "metric.loss > 5".to_owned(),
            author: "somebody".to_owned(),
            origin: "neronet.yaml:4:5".to_owned(),
            repeat_ms: 600_000,
            argument: String::new(),
        }],
        cohort: Vec::new(),
    }
}

/// The sample spec.
pub fn spec() -> RunSpec {
    RunSpec {
        token: TOKEN.to_vec(),
        experiment: 144,
        number: 2,
        deployment: vec![9; 16],
        name: "train_lr-0.10".to_owned(),
        collection: "lang_exp".to_owned(),
        argv: vec![
            "python3".to_owned(),
            "main.py".to_owned(),
            "0.10".to_owned(),
        ],
        env: vec![EnvVar {
            name: "A".to_owned(),
            value: "$HOME/x".to_owned(),
            unset: false,
            expand: true,
        }],
        resources: Some(Resources {
            cpus: 0.5,
            memory_bytes: 1 << 30,
            time_ms: 7_200_000,
        }),
        tree: vec![4; 32],
        outputs: vec![Output {
            path: "model*.pt".to_owned(),
            fetch: "end".to_owned(),
            max_bytes: 10,
        }],
        metric_patterns: vec![r"loss (?<loss>\S+)".to_owned()],
        rules: Some(rules()),
        monitor: Some(Monitor {
            interval_ms: 10_000,
            grace_ms: 30_000,
            wait_for_strays: true,
            leave_strays: false,
        }),
        params: vec![Param {
            name: "lr".to_owned(),
            text: "0.10".to_owned(),
            json: "0.1".to_owned(),
        }],
        attempt: 2,
        node: "local".to_owned(),
        buffered: false,
        line_buffered: true,
        collections: vec!["lang_exp".to_owned(), "all".to_owned()],
        ..RunSpec::default()
    }
}

/// The sample lease of a shared root.
pub fn lease() -> Lease {
    Lease {
        epoch: 4,
        host: "login2".to_owned(),
        machine: "0123456789abcdef0123456789abcdef".to_owned(),
        process: process(102),
        socket: "/tmp/neronet-1000/abcdefgh/mum.sock".to_owned(),
        relay: vec!["10.0.0.2:40123".to_owned(), "[fd00::2]:40123".to_owned()],
        build: "0.1.0+abcdefgh".to_owned(),
        why: "the neromum of login1 is dead".to_owned(),
        beat_ms: 15_000,
    }
}

/// The sample start of a host.
pub fn host_seen() -> HostSeen {
    HostSeen {
        host: "login2".to_owned(),
        machine: "0123456789abcdef0123456789abcdef".to_owned(),
        boot_id: vec![7; 16],
    }
}

/// The sample authority; no key of anything.
pub fn authority() -> Authority {
    Authority {
        key: b"a golden key".to_vec(),
        certificate: b"a golden certificate".to_vec(),
    }
}

/// The sample owner of a deployment.
pub fn owner() -> Owner {
    Owner {
        tenure: 2,
        host: "laptop".to_owned(),
        since_ms: 1_795_000_000_000,
    }
}

/// The sample of a run that was cleaned.
pub fn gone() -> Gone {
    let (_, _, exited, _) = claim();
    Gone {
        end: Some(LedgerExited {
            token: TOKEN.to_vec(),
            incarnation: 1,
            records: vec![ledger_exited::Copy {
                kind: RecordKind::JobExited as u32,
                payload: exited.encode_to_vec(),
                ..ledger_exited::Copy::default()
            }],
        }),
        cleaned_ms: 1_795_000_000_000,
    }
}

/// The sample of files that nothing names.
pub fn unnamed_files() -> Unnamed {
    let one = |byte| unnamed::One {
        hash: vec![byte; 32],
        since_ms: 1_795_000_000_000,
    };
    Unnamed {
        files: vec![one(1), one(2)],
        trees: vec![one(3)],
    }
}
