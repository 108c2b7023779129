//! Files on their way: to a node before a run, home while it goes on and after
//! it, over connections that break and from nodes that lie.

use std::path::{Path, PathBuf};

use nero_wire::v1;
use nero_wire::v1::fetch_event::{Event, One};

use super::files::Lie;
use super::{Rig, select};
use crate::failure::Failure;

const OUTPUTS: &str = "collection: lab\ncommand: echo\noutputs: ['*']\n";

/// A run that began.
async fn begun(yaml: &str) -> (Rig, Vec<u8>) {
    let rig = Rig::new();
    rig.write(yaml);
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    (rig, token)
}

/// The folder of results, once everything is home.
async fn home(rig: &Rig, token: &[u8]) -> PathBuf {
    rig.mum.closed(token).await;
    PathBuf::from(rig.view(1).await.results)
}

async fn notes(rig: &Rig) -> Vec<String> {
    let show = v1::ShowRequest {
        what: "1".to_owned(),
        zone: String::new(),
    };
    rig.man.show(show).await.unwrap().notes
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_big_file_goes_on_where_each_cut_left_it() {
    let (rig, token) = begun(OUTPUTS).await;
    let content: Vec<u8> = (0..40).collect();
    rig.mum.file("big", &content);
    rig.mum.file("a", b"first");
    rig.mum.file("z", b"last");
    // Whatever is asked for comes in order: every cut falls somewhere else.
    let cuts: Vec<usize> = (0..14).collect();
    let broken = cuts.len();
    rig.mum.files(|files| files.cuts = cuts);
    rig.mum.end(&token, 0, b"");
    let folder = home(&rig, &token).await;
    assert_eq!(std::fs::read(folder.join("big")).unwrap(), content);
    assert_eq!(names(&folder), ["a", "big", "z"]);
    let (sent, left) = rig.mum.files(|files| (files.sent, files.cuts.len()));
    assert_eq!(
        sent, 49,
        "every byte travelled once, in spite of {broken} cuts"
    );
    assert!(left > 0, "the last of the cuts were not needed");
    assert!(notes(&rig).await.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn a_daemon_that_is_ended_between_goes_on() {
    let (mut rig, token) = begun(OUTPUTS).await;
    let content: Vec<u8> = (0..40).collect();
    rig.mum.file("big", &content);
    rig.mum.files(|files| files.cuts = vec![9; 100]);
    rig.mum.end(&token, 0, b"");
    for round in 1..4 {
        rig.mum
            .until_files("sent some", |files| files.sent >= round * 9)
            .await;
        rig = rig.restart().await;
    }
    rig.mum.files(|files| files.cuts.clear());
    let folder = home(&rig, &token).await;
    assert_eq!(std::fs::read(folder.join("big")).unwrap(), content);
    // What was on its way when the daemon ended comes again.
    let sent = rig.mum.files(|files| files.sent);
    assert!((40..=40 + 3 * 9).contains(&sent), "{sent}");
    assert_eq!(names(&folder), ["big"]);
    assert_eq!(
        std::fs::read_dir(rig.home.data.join("fetching"))
            .unwrap()
            .count(),
        0,
        "nothing is remembered of what is complete"
    );
    rig.stop().await;
}

#[tokio::test]
async fn outputs_come_while_the_run_goes_on_and_only_what_changed() {
    let (rig, token) =
        begun("collection: lab\ncommand: echo\noutputs: [live, {path: end, fetch: end}]\n").await;
    rig.mum.file("live", b"one");
    rig.mum.file("end", b"at the end");
    rig.mum
        .until_files("sent it", |files| files.sent == 3)
        .await;
    let folder = PathBuf::from(
        rig.until(1, "had a folder", |view| !view.results.is_empty())
            .await
            .results,
    );
    assert_eq!(rig.view(1).await.state, "running");
    rig.mum.file("live", b"two!");
    rig.mum
        .until_files("sent it", |files| files.sent == 7)
        .await;
    rig.mum.end(&token, 0, b"");
    assert_eq!(home(&rig, &token).await, folder);
    assert_eq!(rig.mum.files(|files| files.sent), 17);
    assert_eq!(std::fs::read(folder.join("live")).unwrap(), b"two!");
    assert_eq!(names(&folder), ["end", "live"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_lies_about_files_is_refused_and_that_is_said() {
    for (lie, said) in [
        (Lie::OtherName, "something else"),
        (Lie::OtherOffset, "something else"),
        (Lie::OtherHash, "something else"),
        (Lie::Nothing, "ended its answer"),
    ] {
        let (rig, token) = begun(OUTPUTS).await;
        rig.mum.file("f", b"content");
        rig.mum.files(|files| files.lie = Some(lie));
        rig.mum.end(&token, 0, b"");
        let folder = home(&rig, &token).await;
        let view = rig.view(1).await;
        assert!(
            view.warnings.iter().any(|warning| warning.contains(said)),
            "{lie:?}: {:?}",
            view.warnings
        );
        assert!(!folder.join("f").exists(), "{lie:?}");
        assert!(!rig.base.path().join("evil").exists());
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_log_that_is_not_whole_is_told_and_keeps_nothing_else_away() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.files(|files| files.logs_gone = true);
    rig.mum.end(&token, 0, b"said");
    let folder = home(&rig, &token).await;
    assert_eq!(std::fs::read(folder.join("f")).unwrap(), b"content");
    let warnings = rig.view(1).await.warnings;
    let told = "results are not complete: stdout.log is not whole on its node: 0 of 4 bytes came";
    assert!(warnings.contains(&told.to_owned()), "{warnings:?}");
    rig.mum.files(|files| files.logs_gone = false);
    fetch(&rig, "1", &[], false).await.unwrap();
    assert_eq!(std::fs::read(folder.join("stdout.log")).unwrap(), b"said");
    assert!(rig.view(1).await.warnings.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn what_is_home_of_a_log_stays_when_its_node_lost_it() {
    for yaml in [
        OUTPUTS,
        "collection: lab\ncommand: echo\noutputs: [stdout]\n",
    ] {
        let (rig, token) = begun(yaml).await;
        rig.mum.end(&token, 0, b"said");
        let folder = home(&rig, &token).await;
        rig.mum.files(|files| files.logs_gone = true);
        let told = fetch(&rig, "1", &[], false).await.unwrap().remove(0);
        assert!(told.failed.contains("0 of 4 bytes"), "{told:?}");
        assert_eq!(std::fs::read(folder.join("stdout.log")).unwrap(), b"said");
        // No half of another one lies beside it.
        let names = names(&folder);
        assert!(names.iter().all(|name| name.ends_with(".log")), "{names:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn places_in_a_copy_are_those_of_the_log() {
    let (rig, token) = begun("collection: lab\ncommand: echo\n").await;
    let log: Vec<u8> = (0..1024 * 1024 + 10_u32).map(|at| at as u8).collect();
    rig.mum.end(&token, 0, &log);
    home(&rig, &token).await;
    rig.mum.cut(true);
    let away = |node: &v1::NodeView| !node.connected;
    rig.until_node("local", away).await;
    for (from, first, said) in [(4, 10, "without 6 bytes before it"), (20, 20, "came home")] {
        let (tx, mut rx) = tokio::sync::mpsc::channel(100);
        let logs = v1::LogsRequest {
            what: "1".to_owned(),
            use_offset: true,
            offset: from,
            ..v1::LogsRequest::default()
        };
        rig.man.logs(logs, tx).await.unwrap();
        let notice = rx.recv().await.unwrap().unwrap().notice;
        assert!(notice.ends_with(said), "{notice}");
        let chunk = rx.recv().await.unwrap().unwrap();
        assert_eq!((chunk.offset, chunk.data[0]), (first, first as u8));
    }
    rig.stop().await;
}

#[tokio::test]
async fn latest_stays_with_the_newest_run_that_has_results() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.end(&token, 1, b"");
    let first = home(&rig, &token).await;
    rig.restart_runs("1").await;
    let token = rig.mum.token(1, 2).await;
    rig.mum.begin(&token);
    rig.mum.end(&token, 0, b"");
    let second = home(&rig, &token).await;
    fetch(&rig, "1.1", &[], false).await.unwrap();
    let latest = std::fs::read_link(first.with_file_name("latest")).unwrap();
    assert_eq!(Some(latest.as_os_str()), second.file_name());
    rig.stop().await;
}

#[tokio::test]
async fn what_a_node_may_say_is_noted() {
    for (lie, content, said) in [
        (Lie::More, Some("content"), None),
        (Lie::Changing, Some("content"), Some("changed while")),
        (Lie::Unreadable, None, Some("f: \\u{1b}[31mno such file")),
        (Lie::Endless, None, Some("grew beyond")),
    ] {
        let (rig, token) = begun(OUTPUTS).await;
        rig.mum.file("f", b"content");
        rig.mum.files(|files| files.lie = Some(lie));
        rig.mum.end(&token, 0, b"");
        let folder = home(&rig, &token).await;
        let notes = notes(&rig).await;
        match said {
            Some(said) => assert!(
                notes.iter().any(|note| note.contains(said)),
                "{lie:?}: {notes:?}"
            ),
            None => assert!(notes.is_empty(), "{lie:?}: {notes:?}"),
        }
        let here = std::fs::read_to_string(folder.join("f")).ok();
        assert_eq!(here.as_deref(), content, "{lie:?}");
        assert!(names(&folder).iter().all(|name| name == "f"), "{lie:?}");
        rig.stop().await;
    }
}

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
    };
    assert_eq!(rig.man.list(request).await.unwrap().experiments.len(), 2);
    rig.stop().await;
}

/// What a fetch said at last of each run, or why it failed.
async fn fetch(
    rig: &Rig,
    text: &str,
    include: &[&str],
    dry_run: bool,
) -> Result<Vec<One>, Failure> {
    let (tx, mut rx) = tokio::sync::mpsc::channel(100);
    let request = v1::FetchRequest {
        selection: select(text),
        include: include.iter().map(|&glob| glob.to_owned()).collect(),
        dry_run,
    };
    rig.man.fetch(request, tx).await?;
    let mut done = Vec::new();
    while let Some(event) = rx.recv().await {
        if let Some(Event::Done(one)) = event.unwrap().event {
            done.push(one);
        }
    }
    Ok(done)
}

#[tokio::test]
async fn a_fetch_brings_what_a_live_run_has_and_only_what_is_new() {
    let (rig, token) =
        begun("collection: lab\ncommand: echo\noutputs: [{path: f, fetch: end}]\n").await;
    rig.mum.file("f", b"some");
    rig.mum.file("other", b"else");
    let would = fetch(&rig, "1", &[], true).await.unwrap();
    assert_eq!(
        (would[0].files, would[0].bytes, would[0].folder.as_str()),
        (3, 4, "")
    );
    let came = fetch(&rig, "1", &[], false).await.unwrap();
    let folder = PathBuf::from(&came[0].folder);
    assert_eq!((came[0].bytes, came[0].unchanged), (4, 0));
    assert_eq!(names(&folder), ["f", "stderr.log", "stdout.log"]);
    let again = fetch(&rig, "1", &["*"], false).await.unwrap();
    assert_eq!((again[0].files, again[0].unchanged), (1, 1));
    assert_eq!(std::fs::read(folder.join("other")).unwrap(), b"else");
    rig.mum.end(&token, 0, b"said");
    assert_eq!(home(&rig, &token).await, folder);
    assert_eq!(std::fs::read(folder.join("stdout.log")).unwrap(), b"said");
    assert_eq!(rig.mum.files(|files| files.sent), 8);
    rig.stop().await;
}

#[tokio::test]
async fn what_was_too_large_comes_when_it_is_asked_for() {
    let (rig, token) =
        begun("collection: lab\ncommand: echo\noutputs: [{path: f, max: 1K}]\n").await;
    rig.mum.file("f", &[7; 2000]);
    rig.mum.end(&token, 0, b"");
    let folder = home(&rig, &token).await;
    let said = notes(&rig).await;
    assert!(
        said.iter()
            .any(|note| note.ends_with("neroman fetch 1.1 --include 'f'")),
        "{said:?}"
    );
    assert!(!folder.join("f").exists());
    fetch(&rig, "1.1", &[], false).await.unwrap();
    assert_eq!(std::fs::read(folder.join("f")).unwrap(), [7; 2000]);
    assert!(notes(&rig).await.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn a_node_out_of_reach_fails_a_fetch_with_its_words() {
    let (rig, token) = begun("collection: lab\ncommand: echo {x}\nparameters: {x: [1, 2]}\n").await;
    rig.mum.end(&token, 0, b"x");
    home(&rig, &token).await;
    let none = fetch(&rig, "2", &[], false).await.unwrap();
    assert!(none.is_empty(), "it never ran: {none:?}");
    rig.mum.cut(true);
    let mut now = rig.man.nodes.watch();
    while rig.man.nodes.now("local").connected() {
        now.changed().await.unwrap();
    }
    let failure = fetch(&rig, "1", &[], false).await.unwrap_err();
    assert!(failure.to_string().contains("local"), "{failure}");
    rig.stop().await;
}

async fn clean(rig: &Rig, text: &str, unfetched: bool, dry_run: bool) -> v1::CleanAskReply {
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
    assert!(moved.runs[0].skipped.contains("no longer in"), "{moved:?}");
    std::fs::rename(folder.with_extension("elsewhere"), &folder).unwrap();
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
async fn what_is_cleaned_is_written_down_when_whoever_asked_has_left() {
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
    let cleaned = |state: &std::sync::Arc<crate::core::state::State>| {
        let run = state.run("1.1".parse().unwrap()).unwrap();
        run.desk.cleaned_ms.is_some()
    };
    let mut states = rig.man.ledger.watch();
    let known = tokio::time::timeout(super::DEADLINE, states.wait_for(cleaned)).await;
    assert!(known.expect("it is written down").is_ok());
    rig.stop().await;
}

#[tokio::test]
async fn files_that_cannot_come_home_are_not_cleaned_unsaid() {
    let (rig, token) = begun(OUTPUTS).await;
    // Its name is that of the log at home.
    rig.mum.file("stdout.log", b"another");
    rig.mum
        .files(|files| files.left_out = vec!["l (a link)".to_owned()]);
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    let kept = clean(&rig, "1", false, false).await;
    let why = &kept.runs[0].skipped;
    assert!(why.starts_with("1 of its files cannot come home"), "{why}");
    assert!(rig.mum.files(|files| files.cleaned.is_empty()));
    assert_eq!(clean(&rig, "1", true, false).await.runs[0].skipped, "");
    rig.stop().await;
}

#[tokio::test]
async fn what_never_came_home_goes_only_when_that_is_said() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.files(|files| files.lie = Some(Lie::Nothing));
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    let kept = clean(&rig, "1", false, false).await;
    assert!(
        kept.runs[0].skipped.contains("did not come home"),
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
    let rig = Rig::new();
    rig.write(yaml);
    rig.add().await;
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

const APART: &str = "collection: lab
+a: {command: echo, files: [a]}
+b: {command: echo, files: [b]}
";

#[tokio::test]
async fn a_wish_does_not_wait_for_files_on_their_way() {
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
    // Nor does the wish that ends the very run whose files are on their way;
    // it never gets there afterwards.
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
    let rig = Rig::new();
    rig.write(APART);
    for name in ["a", "b"] {
        std::fs::write(rig.folder.join(name), name).unwrap();
    }
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.mum.files(|files| files.full = true);
    rig.start("2").await;
    let view = rig
        .until(2, "said why", |view| view.waiting_for.contains("no room"))
        .await;
    assert_eq!(view.state, "staging");
    assert!(rig.man.nodes.now("local").connected());
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.mum.files(|files| files.full = false);
    // Whatever looks at everything tries it again, a new connection too.
    rig.mum.cut(false);
    rig.mum.token(2, 1).await;
    rig.stop().await;
}
