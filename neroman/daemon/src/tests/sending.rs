//! Files on their way to a node before a run.

use nero_wire::v1;

use super::{Rig, select};

#[tokio::test]
async fn frozen_files_go_on_where_a_cut_left_them() {
    let rig = Rig::new();
    rig.write("collection: lab\ncommand: echo\n");
    std::fs::write(rig.folder.join("data"), vec![9; 700_000]).unwrap();
    rig.add().await;
    // The first cuts fall into the small file, whichever comes first.
    rig.mum
        .files(|files| files.cuts = vec![10, 300_000, 500_000]);
    rig.start("1").await;
    rig.mum.token(1, 1).await;
    let (came, blobs) = rig.mum.files(|files| (files.came, files.blobs.clone()));
    let whole: usize = blobs.values().map(Vec::len).sum();
    assert_eq!(blobs.len(), 3);
    assert!(
        came <= whole + 3 * 256 * 1024,
        "{came} bytes came of {whole}: no more than a part again for each cut"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_frozen_file_that_is_damaged_ends_its_runs_and_no_others() {
    let rig = Rig::new();
    rig.write(
        "collection: lab\n+a: {command: 'echo', files: [a]}\n+b: {command: 'echo', files: [b]}\n",
    );
    std::fs::write(rig.folder.join("a"), "content of a").unwrap();
    std::fs::write(rig.folder.join("b"), "content of b").unwrap();
    rig.add().await;
    rig.mum.cut(true);
    rig.start("1-2").await;
    let hash = blake3::hash(b"content of a").to_hex().to_string();
    let frozen = rig.home.store().join(&hash[..2]).join(&hash);
    std::fs::remove_file(&frozen).unwrap();
    std::fs::write(&frozen, "content of A").unwrap();
    rig.mum.cut(false);
    rig.mum.token(2, 1).await;
    let view = rig.state(1, "crashed").await;
    assert!(view.reason.contains(&hash), "{}", view.reason);
    assert!(!rig.mum.has(1, 1));
    std::fs::remove_file(&frozen).unwrap();
    rig.restart_runs("1").await;
    let token = rig.mum.token(1, 2).await;
    assert!(!rig.mum.spec(&token).tree.is_empty());
    let request = v1::ListRequest {
        selection: select("live"),
        settle: false,
        ..v1::ListRequest::default()
    };
    assert_eq!(rig.man.list(request).await.unwrap().experiments.len(), 2);
    rig.stop().await;
}

const APART: &str = "collection: lab
+a: {command: echo, files: [a]}
+b: {command: echo, files: [b]}
+c: {command: echo, files: [a]}
+d: {command: echo, files: [a]}
";

/// A node on which the first of them runs, and its token.
async fn apart() -> (Rig, Vec<u8>) {
    let rig = Rig::new();
    rig.write(APART);
    for name in ["a", "b"] {
        std::fs::write(rig.folder.join(name), name).unwrap();
    }
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    (rig, token)
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_files_on_their_way() {
    let (rig, token) = apart().await;
    rig.mum.files(|files| files.stalled = true);
    rig.start("2").await;
    rig.state(2, "staging").await;
    let abort = |text: &str| v1::AbortRequest {
        selection: select(text),
        author: "me".to_owned(),
        ..v1::AbortRequest::default()
    };
    rig.man.abort(abort("1")).await.unwrap();
    rig.mum.cancelled(&token).await;
    // Nor does the cancel request that ends the very run whose files are on their
    // way; it never gets there afterwards.
    rig.man.abort(abort("2")).await.unwrap();
    rig.state(2, "aborted").await;
    rig.mum.files(|files| files.stalled = false);
    rig.mum
        .until_files("took it", |files| files.blobs.len() == 4)
        .await;
    rig.restart_runs("2").await;
    rig.mum.token(2, 2).await;
    assert!(!rig.mum.has(2, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_node_without_room_keeps_its_connection_and_the_run_says_why() {
    let full = tonic::Status::resource_exhausted("no room in /node");
    goes_on_when_the_node_takes_files_again(full, "no room").await;
}

#[tokio::test]
async fn a_node_whose_disk_fails_keeps_its_connection_and_the_run_says_why() {
    let failing = tonic::Status::internal("cannot write /node/store: Input/output error");
    goes_on_when_the_node_takes_files_again(failing, "Input/output error").await;
}

async fn goes_on_when_the_node_takes_files_again(refused: tonic::Status, why: &str) {
    let (rig, token) = apart().await;
    let tries = rig.mum.files(|files| {
        files.refused = Some(refused);
        files.tries
    });
    rig.start("2").await;
    let view = rig
        .until(2, "said why", |view| view.waiting_for.contains(why))
        .await;
    assert_eq!(view.state, "staging");
    assert!(rig.man.nodes.now("local").connected());
    // Its own changes are no reason to try it again: those of others that
    // came later are through by the second one.
    for id in [3, 4] {
        rig.start(&id.to_string()).await;
        rig.mum.token(id, 1).await;
    }
    assert_eq!(rig.mum.files(|files| files.tries), tries + 1);
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.mum.files(|files| files.refused = None);
    // Whatever looks at everything tries it again, a new connection too.
    rig.mum.cut(false);
    rig.mum.token(2, 1).await;
    rig.stop().await;
}
