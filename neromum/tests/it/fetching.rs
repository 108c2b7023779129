//! Files of jobs on their way home, out of hostile work folders; a node's
//! description.

use nero_wire::v1::read_files_request::Want;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{DescribeRequest, FilePart, ListFilesRequest, ReadFilesRequest, RunSpec};

use crate::gpus::FakeHost;
use crate::rig::{Known, Mum, Node, reference};
use crate::setup::hash;

async fn ended(mum: &mut Mum, spec: &RunSpec) {
    mum.accept(&[spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(spec, Stage::Ended).await;
}

#[tokio::test]
async fn many_files_come_in_the_order_asked_and_a_hostile_tree_gives_nothing_else() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let line = "mkdir -p out/deep; echo result > out/deep/r.txt; : > out/empty; \
                ln -s /etc/passwd out/p.txt; ln -s / out/root; mkfifo out/f.txt; \
                ln /etc/hostname out/h.txt 2>/dev/null; \
                printf x > \"$(printf 'out/line\\nfeed\\033[31m.txt')\"; \
                printf y > \"$(printf 'out/bad\\377.txt')\"; \
                truncate -s 1T out/giant; \
                d=out; for i in $(seq 100); do d=$d/d; done; mkdir -p $d; echo > $d/x";
    let spec = node.sh(1, line);
    ended(&mut mum, &spec).await;
    let request = ListFilesRequest {
        run: Some(reference(&spec)),
        globs: ["/etc/*", "out/**", "**/*.txt"].map(str::to_owned).to_vec(),
        incarnation: 0,
        made: false,
    };
    let listed = mum.client.list_files(request).await.unwrap().into_inner();
    let of = |path: &str| listed.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!(of("out/deep/r.txt").globs, [1, 2]);
    assert_eq!(of("out/giant").globs, [1]);
    assert_eq!(of("out/giant").size, 1 << 40);
    let left_out = listed.left_out.join("\n");
    for expected in [
        "p.txt (a link)",
        "root (a link)",
        "f.txt (a pipe)",
        "not UTF-8",
        "too deep",
    ] {
        assert!(left_out.contains(expected), "{left_out}");
    }
    let want = |path: &str, offset, max_bytes| Want {
        path: path.to_owned(),
        offset,
        max_bytes,
        log: false,
    };
    let files = vec![
        want("out/p.txt", 0, 0),
        want("out/line\nfeed\u{1b}[31m.txt", 0, 0),
        want("out/giant", 1 << 39, 1_000_000),
        want("out/root/etc/passwd", 0, 0),
        want("out/f.txt", 0, 0),
        want("out/empty", 0, 0),
        want("../spec", 0, 0),
        want("out/deep/r.txt", 2, 0),
    ];
    let request = ReadFilesRequest {
        run: Some(reference(&spec)),
        incarnation: 0,
        files: files.clone(),
        hash_only: false,
    };
    let mut stream = mum.client.read_files(request).await.unwrap().into_inner();
    let mut came: Vec<(FilePart, Vec<u8>)> = Vec::new();
    while let Some(part) = stream.message().await.unwrap() {
        if part.path.is_empty() {
            let (last, data) = came.last_mut().unwrap();
            data.extend_from_slice(&part.data);
            *last = FilePart {
                path: last.path.clone(),
                ..part
            };
        } else {
            let data = part.data.clone();
            came.push((part, data));
        }
    }
    assert_eq!(came.len(), files.len());
    for ((part, data), want) in came.iter().zip(&files) {
        assert_eq!(part.path, want.path);
        assert!(part.last && !part.changed);
        let readable = ["feed", "giant", "empty", "r.txt"];
        let readable = readable.iter().any(|name| want.path.contains(name));
        assert_eq!(part.problem.is_empty(), readable, "{part:?}");
        if readable {
            assert_eq!(part.hash, hash(data));
        } else {
            assert!(data.is_empty());
        }
    }
    assert_eq!(came[2].1, vec![0; 1_000_000]);
    assert_eq!(came[7].1, b"sult\n");
}

#[tokio::test]
async fn readers_that_do_not_read_stop_nobody() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "truncate -s 200M big");
    ended(&mut mum, &spec).await;
    let request = ReadFilesRequest {
        run: Some(reference(&spec)),
        incarnation: 0,
        files: vec![Want {
            path: "big".to_owned(),
            ..Want::default()
        }],
        hash_only: false,
    };
    let mut idle = Vec::new();
    for _ in 0..12 {
        // Unread data takes room of its own connection.
        let mut reader = node.connect().await;
        let stream = reader.client.read_files(request.clone()).await.unwrap();
        idle.push(stream.into_inner());
    }
    let mut other = node.connect().await;
    let next = node.sh(2, "echo quick");
    ended(&mut other, &next).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.mum_pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let peak_kb: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak_kb < 120_000, "{line}");
    // A late reader gets all of it.
    let mut bytes = 0;
    let mut stream = idle.remove(5);
    while let Some(part) = stream.message().await.unwrap() {
        bytes += part.data.len();
    }
    assert_eq!(bytes, 200 * 1024 * 1024);
}

#[tokio::test]
async fn a_node_says_what_it_is() {
    let mut node = Node::with(&["--cpus", "2", "--memory", "1000000000"]);
    let host = FakeHost::new(&["Fake GPU;GPU-1;50;0;24;1024;1;1;"]);
    let mut mum = host.start(&mut node).await;
    let asked = mum.client.describe(DescribeRequest {}).await;
    let told = asked.unwrap().into_inner();
    assert_eq!((&*told.os, &*told.arch), ("linux", std::env::consts::ARCH));
    assert!(!told.kernel.is_empty() && !told.libc.is_empty(), "{told:?}");
    assert!(told.memory_free_bytes > 0 && told.memory_free_bytes <= 1_000_000_000);
    assert_eq!(told.gpus.len(), 1);
    assert_eq!(told.gpus[0].name, "Fake GPU");
    assert_eq!(
        (told.gpus[0].utilisation, told.gpus[0].memory_bytes),
        (0.5, 1 << 30)
    );
}
