//! Runs that go on from the checkpoints of earlier ones.

use nero_wire::v1;

use super::cleaning::clean;
use super::stories::{added, begun};
use super::transfers::{home, names};
use super::{Rig, select};

async fn resume(rig: &Rig, text: &str) -> v1::StartReply {
    let request = v1::StartRequest {
        selection: select(text),
        restart: true,
        resume: true,
        ..v1::StartRequest::default()
    };
    rig.man.start(request).await.unwrap()
}

#[tokio::test]
async fn a_run_goes_on_from_the_checkpoints_of_the_one_before() {
    let yaml = "collection: lab
+a: {command: echo, checkpoint: 'c*'}
+b: {command: echo}
+c: {command: echo, checkpoint: 'c*'}
";
    let rig = added(yaml).await;
    let said = |reply: &v1::StartReply| reply.experiments[0].skipped.clone();
    assert!(said(&resume(&rig, "3").await).contains("no run of it was ever started"));
    rig.start("1-2").await;
    let (token, other) = (rig.mum.token(1, 1).await, rig.mum.token(2, 1).await);
    rig.mum.begin(&token);
    rig.mum.begin(&other);
    rig.state(2, "running").await;
    assert!(said(&resume(&rig, "2").await).contains("names no `checkpoint`"));
    rig.mum.file("c*", b"state");
    rig.mum.end(&token, 1, b"");
    let folder = home(&rig, &token).await;
    let name = names(&folder).remove(0);
    assert_eq!(std::fs::read(folder.join(&name)).unwrap(), b"state");
    assert_eq!(resume(&rig, "1").await.experiments[0].run, 2);
    let second = rig.mum.token(1, 2).await;
    let spec = rig.mum.spec(&second);
    assert_eq!(
        spec.resume.unwrap().token,
        token,
        "it lies on that very node"
    );
    assert_eq!(
        (spec.checkpoint, spec.overlay),
        (vec!["c*".to_owned()], vec![])
    );
    let kept = clean(&rig, "1.1", true, false).await;
    assert_eq!(kept.runs[0].skipped, "1.2 is to begin with its checkpoints");
    rig.mum.begin(&second);
    rig.state(1, "running").await;
    let gone = clean(&rig, "1.1", true, false).await;
    assert_eq!(gone.runs[0].skipped, "");
    rig.mum.files(|files| files.files.clear());
    rig.mum.end(&second, 1, b"");
    // Nothing came home of the second one.
    rig.mum.closed(&second).await;
    assert_eq!(clean(&rig, "1.2", false, false).await.runs[0].skipped, "");
    resume(&rig, "1").await;
    let third = rig.mum.token(1, 3).await;
    let spec = rig.mum.spec(&third);
    assert!(spec.resume.is_none() && spec.overlay.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn checkpoints_that_came_home_are_laid_over_the_code() {
    let (rig, token) = begun("collection: lab\ncommand: echo\ncheckpoint: '*'\n").await;
    rig.mum.file("c1", b"state");
    rig.mum.end(&token, 1, b"");
    home(&rig, &token).await;
    assert_eq!(clean(&rig, "1", false, false).await.runs[0].skipped, "");
    resume(&rig, "1").await;
    let second = rig.mum.token(1, 2).await;
    let spec = rig.mum.spec(&second);
    assert!(spec.resume.is_none());
    let blobs = rig.mum.files(|files| files.blobs.clone());
    let tree = <v1::Tree as prost::Message>::decode(blobs[&spec.overlay].as_slice()).unwrap();
    let paths: Vec<&str> = tree.entries.iter().map(|entry| &*entry.path).collect();
    assert_eq!(paths, ["c1"]);
    assert_eq!(blobs[&tree.entries[0].hash], b"state");
    rig.stop().await;
}

#[tokio::test]
async fn checkpoints_that_cannot_be_used_end_their_run_and_no_connection() {
    use std::os::unix::ffi::OsStrExt as _;
    let yaml = "collection: lab
+a: {command: echo, checkpoint: '*'}
+b: {command: echo}
";
    let (rig, token) = begun(yaml).await;
    rig.mum.file("c1", b"state");
    rig.mum.end(&token, 1, b"");
    let folder = home(&rig, &token).await;
    assert_eq!(clean(&rig, "1", false, false).await.runs[0].skipped, "");
    rig.start("2").await;
    let other = rig.mum.token(2, 1).await;
    rig.mum.begin(&other);
    rig.state(2, "running").await;
    let tries = rig.mum.tries();
    let bad = folder.join(std::ffi::OsStr::from_bytes(b"c\xff"));
    std::fs::write(&bad, "no text").unwrap();
    resume(&rig, "1").await;
    let view = rig.state(1, "crashed").await;
    assert!(view.reason.contains("cannot be frozen"), "{view:?}");
    std::fs::rename(&folder, folder.with_extension("moved")).unwrap();
    resume(&rig, "1").await;
    let view = rig
        .until(1, "crashed anew", |view| {
            view.state == "crashed" && view.run == 3
        })
        .await;
    assert!(view.reason.contains("no longer in"), "{view:?}");
    assert_eq!(rig.mum.tries(), tries, "the connection stays");
    rig.stop().await;
}
