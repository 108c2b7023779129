//! What the samples of stored formats hold: fixed values, so that a sample
//! made by any build must read back as exactly this.

use nero_journal::v1::{
    Authority, CardShare, Claimed, Gone, GpuCard, GpuPage, GpuProcess, GpuTrouble, HostSeen,
    JobExited, JobStarted, Lease, LedgerCards, LedgerExited, Owner, Process, RecordKind, TreeGone,
    Unnamed, ledger_exited, unnamed,
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

/// The sample page of the helper for GPUs.
pub fn gpu_page() -> GpuPage {
    GpuPage {
        helper: process(103),
        number: 7,
        boot_ns: 9_000_000_000,
        since_ns: 2_000_000_000,
        driver: "NVIDIA 570.00".to_owned(),
        trouble: GpuTrouble::Mismatched.into(),
        detail: "a mismatch".to_owned(),
        cards: vec![
            GpuCard {
                uuid: "GPU-0".to_owned(),
                name: "NVIDIA A100".to_owned(),
                index: 0,
                memory_bytes: Some(80 << 30),
                used_bytes: Some(1 << 30),
                utilisation: Some(0.4),
                power_w: Some(250.0),
                temperature_c: Some(60.0),
                processes: vec![GpuProcess {
                    pid: 42,
                    name: "python".to_owned(),
                    user: "anna".to_owned(),
                    is_foreign: true,
                    bytes: Some(500 << 20),
                }],
                foreign_ns: 8_000_000_000,
                unseen_bytes: 524_288,
                ..GpuCard::default()
            },
            GpuCard {
                uuid: "MIG-a".to_owned(),
                index: 1,
                is_amd: true,
                is_slice: true,
                is_lost: true,
                ..GpuCard::default()
            },
        ],
        lacks: vec!["memory".to_owned()],
    }
}

/// The record in the ledger of the cards that a start got.
pub fn ledger_cards() -> LedgerCards {
    LedgerCards {
        token: TOKEN.to_vec(),
        incarnation: 2,
        cards: vec![CardShare {
            uuid: "GPU-0".to_owned(),
            start: 500_000,
            length: 400_000,
        }],
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
