//! Folders that are taken away from nodes once everything is home, and frozen
//! files that no run names.

use super::files::Lie;
use super::stories::begun;
use super::transfers::{OUTPUTS, fetch, home};
use nero_home::ledger::Audience;
use std::path::Path;

use nero_wire::v1;

use super::{Rig, select};

pub(super) async fn clean(
    rig: &Rig,
    text: &str,
    unfetched: bool,
    dry_run: bool,
) -> v1::CleanAskReply {
    let request = v1::CleanAskRequest {
        request: nero_model::RequestId::random().to_vec(),
        selection: select(text),
        unfetched,
        dry_run,
        ..v1::CleanAskRequest::default()
    };
    rig.man.clean(request).await.unwrap()
}

#[tokio::test]
async fn only_what_is_home_is_cleaned_and_everything_says_so_then() {
    let (rig, token) =
        begun("collection: lab\ncommand: echo {x}\noutputs: ['*']\nparameters: {x: [1, 2]}\n")
            .await;
    let live = clean(&rig, "", false, false).await;
    assert_eq!(live.runs[0].skipped, "running");
    rig.mum.file("f", b"content");
    rig.mum.end(&token, 0, b"said\n");
    let folder = home(&rig, &token).await;
    let would = clean(&rig, "1", false, true).await;
    assert_eq!(
        (would.runs[0].bytes, would.runs[0].skipped.as_str()),
        (1000, "")
    );
    assert_eq!(would.nodes[0].freed_bytes, 1000);
    assert!(rig.mum.files(|files| files.cleaned.is_empty()));
    // What is here is held against what is there.
    rig.mum.file("f", b"changed later");
    let differs = clean(&rig, "1", false, false).await;
    assert!(differs.runs[0].skipped.contains("fetch 1.1"), "{differs:?}");
    fetch(&rig, "1", &[], false).await.unwrap();
    std::fs::rename(&folder, folder.with_extension("elsewhere")).unwrap();
    let moved = clean(&rig, "1", false, false).await;
    assert_eq!(moved.runs[0].not_home_files, 2, "{moved:?}");
    std::fs::rename(folder.with_extension("elsewhere"), &folder).unwrap();
    // The same size and time are not the same bytes.
    let (copy, whole) = (folder.join("f"), b"changed later");
    let time = std::fs::metadata(&copy).unwrap().modified().unwrap();
    let write = |content: &[u8]| {
        std::fs::write(&copy, content).unwrap();
        let file = std::fs::File::options().write(true).open(&copy).unwrap();
        file.set_modified(time).unwrap();
    };
    write(b"changed here!");
    let differs = clean(&rig, "1", false, true).await;
    assert_eq!(differs.runs[0].not_home, ["f (13 bytes)"], "{differs:?}");
    write(whole);
    let done = clean(&rig, "1.1", false, false).await;
    assert_eq!(done.runs[0].skipped, "");
    assert_eq!(rig.mum.files(|files| files.cleaned.clone()), [token]);
    let rig = rig.restart().await;
    assert!(clean(&rig, "", false, false).await.runs.is_empty());
    let again = fetch(&rig, "1", &[], false).await.unwrap();
    assert!(again[0].failed.contains("was cleaned on"), "{again:?}");
    let paths = v1::PathsRequest {
        selection: select("1"),
        work: true,
    };
    let path = rig.man.paths(paths.clone()).await.unwrap().paths.remove(0);
    assert!(
        path.path.is_empty() && path.note.contains("was cleaned on"),
        "{path:?}"
    );
    let here = v1::PathsRequest {
        work: false,
        ..paths
    };
    let path = rig.man.paths(here).await.unwrap().paths.remove(0);
    assert_eq!(Path::new(&path.path), folder);
    let (tx, mut rx) = tokio::sync::mpsc::channel(8);
    let logs = v1::LogsRequest {
        what: "1".to_owned(),
        ..v1::LogsRequest::default()
    };
    rig.man.logs(logs, tx).await.unwrap();
    let notice = rx.recv().await.unwrap().unwrap().notice;
    assert!(notice.contains("was cleaned on"), "{notice}");
    assert_eq!(rx.recv().await.unwrap().unwrap().data, b"said\n");
    rig.stop().await;
}

#[tokio::test]
async fn a_clean_is_recorded_when_its_client_has_left() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    rig.mum.files(|files| files.stalled = true);
    let (man, request) = (
        rig.man.clone(),
        v1::CleanAskRequest {
            selection: select("1"),
            ..v1::CleanAskRequest::default()
        },
    );
    let asking = tokio::spawn(async move { man.clean(request).await });
    rig.mum
        .until_files("cleaned", |files| !files.cleaned.is_empty())
        .await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    rig.mum.files(|files| files.stalled = false);
    let cleaned = |state: &nero_life::state::State| {
        let run = state.run("1.1".parse().unwrap()).unwrap();
        run.cleaned_ms().is_some()
    };
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    let known = tokio::time::timeout(super::DEADLINE, states.wait_for(cleaned)).await;
    assert!(known.expect("it is written down").is_ok());
    rig.stop().await;
}

#[tokio::test]
async fn files_that_cannot_come_home_are_not_cleaned_unsaid() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("../x", b"another");
    rig.mum
        .files(|files| files.left_out = vec![("l (a link)".to_owned(), v1::LeftOut::Link)]);
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    let kept = clean(&rig, "1", false, false).await;
    let why = &kept.runs[0].skipped;
    assert!(
        why.starts_with("not home as it is there: ../x (7 bytes)"),
        "{why}"
    );
    assert!(rig.mum.files(|files| files.cleaned.is_empty()));
    assert_eq!(clean(&rig, "1", true, false).await.runs[0].skipped, "");
    rig.stop().await;
}

#[tokio::test]
async fn runs_that_never_came_home_are_cleaned_only_on_request() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.files(|files| files.lie = Some(Lie::Nothing));
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    let kept = clean(&rig, "1", false, false).await;
    assert!(
        kept.runs[0].skipped.contains("not home as it is there"),
        "{kept:?}"
    );
    let gone = clean(&rig, "1", true, false).await;
    assert_eq!(gone.runs[0].skipped, "");
    assert_eq!(rig.mum.files(|files| files.cleaned.len()), 1);
    rig.stop().await;
}

#[tokio::test]
async fn frozen_files_that_no_run_names_go_after_a_week() {
    let rig = Rig::new();
    rig.write("collection: lab\ncommand: echo\n");
    std::fs::write(rig.folder.join("used"), "used").unwrap();
    rig.add().await;
    rig.mum.cut(true);
    rig.start("1").await;
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(8 * 24 * 3600);
    let store = rig.home.store();
    let age = |path: &Path| {
        let file = std::fs::File::open(path).unwrap();
        file.set_modified(old).unwrap();
    };
    let mut used = Vec::new();
    for folder in std::fs::read_dir(&store).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            age(&path);
            used.push(path);
        }
    }
    let unused = store.join("ab").join("ab".repeat(32));
    std::fs::create_dir_all(unused.parent().unwrap()).unwrap();
    std::fs::write(&unused, "12345").unwrap();
    let here = |reply: &v1::CleanAskReply| {
        let node = reply.nodes.iter().find(|node| node.node == "(here)");
        node.map_or(0, |node| node.freed_bytes)
    };
    rig.mum.cut(false);
    rig.mum.token(1, 1).await;
    assert_eq!(here(&clean(&rig, "", false, false).await), 0, "it is new");
    age(&unused);
    assert_eq!(here(&clean(&rig, "", false, true).await), 5);
    assert!(unused.exists());
    assert_eq!(here(&clean(&rig, "", false, false).await), 5);
    assert!(!unused.exists());
    assert!(used.len() >= 3 && used.iter().all(|path| path.exists()));
    let du = rig.man.du(v1::DuRequest::default()).await.unwrap();
    assert!(du.home_store_bytes > 0 && du.home_database_bytes > 0);
    assert_eq!(du.nodes[0].usage.as_ref().unwrap().runs_bytes, 77);
    rig.stop().await;
}
