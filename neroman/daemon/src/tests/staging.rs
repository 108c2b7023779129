//! Files on their way to a node, and who waits for them.

use super::Rig;

const APART: &str = "\
collection: lab
+a: {command: echo, files: [a]}
+b: {command: echo, files: [b]}
+c: {command: echo, files: [a]}
";
/// Bytes that take long.
const LONG: usize = 3 * 1024 * 1024;

#[tokio::test]
async fn a_run_with_small_files_does_not_wait_for_the_large_ones_of_another() {
    let rig = Rig::new();
    rig.write(APART);
    std::fs::write(rig.folder.join("a"), vec![7; LONG]).unwrap();
    std::fs::write(rig.folder.join("b"), "b").unwrap();
    rig.add().await;
    rig.mum.files(|files| {
        files.stalled = true;
        files.stalls_after = LONG / 2;
    });
    rig.start("1").await;
    rig.mum
        .until_files("took a part", |files| files.came >= LONG / 2)
        .await;
    rig.start("2").await;
    rig.mum.token(2, 1).await;
    // A run that needs the same large file waits for it and does not send it
    // again.
    rig.start("3").await;
    rig.state(3, "staging").await;
    assert_eq!(rig.view(1).await.state, "staging");
    rig.mum.files(|files| files.stalled = false);
    for id in [1, 3] {
        let token = rig.mum.token(id, 1).await;
        rig.mum.begin(&token);
        rig.state(id, "running").await;
    }
    let came = rig.mum.files(|files| files.came);
    assert!((LONG..LONG + LONG / 2).contains(&came), "{came}");
    rig.stop().await;
}
