//! Logs and files of runs, hostile ones included, over the wire.

use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{FilePart, ListFilesRequest, LogPart, ReadFileRequest, ReadLogRequest};
use tonic::Streaming;

use crate::rig::{Known, Mum, Node, reference};

async fn read_all(mut parts: Streaming<LogPart>) -> (Vec<u8>, bool, bool) {
    let (mut data, mut truncated, mut end) = (Vec::new(), false, false);
    while let Some(part) = parts.message().await.unwrap() {
        truncated |= part.truncated;
        end |= part.end;
        data.extend_from_slice(&part.data);
    }
    (data, truncated, end)
}

async fn log(mum: &mut Mum, request: ReadLogRequest) -> (Vec<u8>, bool, bool) {
    read_all(mum.client.read_log(request).await.unwrap().into_inner()).await
}

#[tokio::test]
async fn a_log_is_followed_from_before_the_start_to_the_end() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let spec = node.sh(
        2,
        "echo one; while [ ! -e ../go ]; do sleep 0.01; done; echo two; echo err >&2",
    );
    mum.accept(&[&first, &spec]).await;
    let request = ReadLogRequest {
        run: Some(reference(&spec)),
        follow: true,
        ..ReadLogRequest::default()
    };
    let mut parts = mum
        .client
        .read_log(request.clone())
        .await
        .unwrap()
        .into_inner();
    std::fs::write(node.run_dir(&first).join("go"), "").unwrap();
    let part = parts.message().await.unwrap().unwrap();
    assert_eq!(part.data, b"one\n");
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    let (rest, truncated, end) = read_all(parts).await;
    assert_eq!(
        (rest.as_slice(), truncated, end),
        (&b"two\n"[..], false, true)
    );
    let stderr = ReadLogRequest {
        stderr: true,
        ..request.clone()
    };
    assert_eq!(log(&mut mum, stderr).await.0, b"err\n");
    let last = ReadLogRequest {
        last_lines: 1,
        follow: false,
        ..request.clone()
    };
    assert_eq!(log(&mut mum, last).await.0, b"two\n");
    let from_end = ReadLogRequest {
        offset: -3,
        max_bytes: 2,
        follow: false,
        ..request
    };
    assert_eq!(log(&mut mum, from_end).await.0, b"wo");
}

#[tokio::test]
async fn files_are_listed_and_read_and_nothing_leads_out() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let line = "mkdir -p out/deep; echo result > out/deep/r.txt; ln -s /etc/passwd out/p.txt; \
                mkfifo out/f.txt; ln -s / out/root; ln -s . out/loop; \
                printf x > \"$(printf 'out/line\\nfeed.txt')\"";
    let spec = node.sh(1, line);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Ended).await;
    let request = ListFilesRequest {
        run: Some(reference(&spec)),
        globs: vec!["out/**".to_owned(), "../**".to_owned()],
        incarnation: 0,
        made: false,
    };
    let listed = mum.client.list_files(request).await.unwrap().into_inner();
    let paths: Vec<&str> = listed.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["out/deep/r.txt", "out/line\nfeed.txt"]);
    assert_eq!(listed.left_out.len(), 5, "{:?}", listed.left_out);
    assert!(listed.work.ends_with("/work"));
    let read = |path: &str| ReadFileRequest {
        run: Some(reference(&spec)),
        path: path.to_owned(),
        ..ReadFileRequest::default()
    };
    let mut parts = mum
        .client
        .read_file(read("out/deep/r.txt"))
        .await
        .unwrap()
        .into_inner();
    let part: FilePart = parts.message().await.unwrap().unwrap();
    assert_eq!(
        (part.data.as_slice(), part.changed),
        (&b"result\n"[..], false)
    );
    for wrong in [
        "out/p.txt",
        "out/f.txt",
        "out/root/etc/passwd",
        "../spec",
        "/etc/passwd",
        "out",
    ] {
        let mut parts = mum
            .client
            .read_file(read(wrong))
            .await
            .unwrap()
            .into_inner();
        assert!(parts.message().await.is_err(), "{wrong}");
    }
    // Another run's token opens nothing.
    let mut stranger = reference(&spec);
    stranger.token = vec![4; 16];
    let request = ReadFileRequest {
        run: Some(stranger),
        ..read("out/deep/r.txt")
    };
    let refused = mum.client.read_file(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_follower_that_does_not_read_costs_no_memory_and_misses_nothing() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let line =
        "i=0; while [ $i -lt 20000 ]; do echo \"step $i value_with_a_name $i\"; i=$((i+1)); done";
    let specs = [node.sh(1, line), node.sh(2, line)];
    let mut slow = mum.follow(Known::default()).await;
    let mut other = node.connect().await;
    other.accept(&[&specs[0], &specs[1]]).await;
    let mut quick = other.follow(Known::default()).await;
    quick.settled(&[&specs[0], &specs[1]]).await;
    slow.settled(&[&specs[0], &specs[1]]).await;
    for spec in &specs {
        assert_eq!(slow.of(spec).segments, quick.of(spec).segments);
        assert_eq!(slow.of(spec).anew, 0);
    }
}
