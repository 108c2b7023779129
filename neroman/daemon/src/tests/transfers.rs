//! Files on their way home while a run goes on and after it, over connections
//! that break and from nodes that lie.

use std::path::{Path, PathBuf};

use nero_wire::v1;
use nero_wire::v1::fetch_event::{Event, One};

use super::files::Lie;
use super::stories::{begun, notes};
use super::{Rig, select};
use nero_home::failure::Failure;

pub(super) const OUTPUTS: &str = "collection: lab\ncommand: echo\noutputs: ['*']\n";

/// The folder of results, once everything is home.
pub(super) async fn home(rig: &Rig, token: &[u8]) -> PathBuf {
    rig.mum.closed(token).await;
    PathBuf::from(rig.view(1).await.results)
}

pub(super) fn names(folder: &Path) -> Vec<String> {
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
    assert!(notes(&rig, "1").await.is_empty());
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
async fn a_log_that_a_node_streams_without_end_is_refused_at_its_length() {
    let whole = "collection: lab\ncommand: echo\noutputs: [stdout]\n";
    let end_alone = "collection: lab\ncommand: echo\nresults_max: 1\n";
    for yaml in [whole, end_alone] {
        let (rig, token) = begun(yaml).await;
        rig.mum.files(|files| files.endless_logs = true);
        rig.mum.end(&token, 0, &vec![b'x'; 3 * 1024 * 1024]);
        let folder = home(&rig, &token).await;
        let warnings = rig.view(1).await.warnings;
        let told = "stdout.log is longer than was asked for";
        assert!(
            warnings.iter().any(|one| one.contains(told)),
            "{warnings:?}"
        );
        let bytes: u64 = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes <= 3 * 1024 * 1024, "{bytes}");
        // Three tries of 48 parts, and what was on its way.
        let parts = rig.mum.files(|files| files.log_parts);
        assert!(parts < 1000, "{parts}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_log_at_home_stays_when_its_node_lost_it() {
    for yaml in [
        OUTPUTS,
        "collection: lab\ncommand: echo\noutputs: [stdout]\n",
    ] {
        let (rig, token) = begun(yaml).await;
        rig.mum.end(&token, 0, b"said");
        let folder = home(&rig, &token).await;
        rig.mum.files(|files| files.logs_gone = true);
        let told = fetch(&rig, "1", &[], false).await.unwrap().remove(0);
        assert_eq!((told.failed.as_str(), told.unchanged), ("", 1));
        // A log that is not as long as the job left it is requested.
        std::fs::write(folder.join("stdout.log"), b"said more").unwrap();
        let told = fetch(&rig, "1", &[], false).await.unwrap().remove(0);
        assert!(told.failed.contains("0 of 4 bytes"), "{told:?}");
        let kept = std::fs::read(folder.join("stdout.log")).unwrap();
        assert_eq!(kept, b"said more");
        // No half of another one lies beside it.
        let names = names(&folder);
        assert!(names.iter().all(|name| name.ends_with(".log")), "{names:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn places_in_a_copy_are_those_of_the_log() {
    let (rig, token) = begun("collection: lab\ncommand: echo\nresults_max: 1\n").await;
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
async fn lies_of_a_node_about_its_files_are_noted() {
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
        let notes = notes(&rig, "1").await;
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

/// What a fetch said at last of each run, or why it failed.
pub(super) async fn fetch(
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
    // Everything of a run that ended is home: nothing travels, whatever asks.
    for dry_run in [true, false] {
        let all = fetch(&rig, "1", &[], dry_run).await.unwrap().remove(0);
        assert_eq!((all.files, all.bytes, all.unchanged), (0, 0, 2), "{all:?}");
    }
    std::fs::remove_file(folder.join("stdout.log")).unwrap();
    let all = fetch(&rig, "1", &[], false).await.unwrap().remove(0);
    assert_eq!((all.files, all.bytes, all.unchanged), (1, 4, 1), "{all:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_glob_that_is_none_is_refused() {
    let (rig, token) = begun("collection: lab\ncommand: echo\n").await;
    rig.mum.end(&token, 0, b"x");
    for (glob, why) in [
        ("[", "is no glob: "),
        ("{a", "is no glob: "),
        ("", "names no file"),
        ("./", "names no file"),
        ("../x", "outside of the run's folder"),
        ("/etc/passwd", "outside of the run's folder"),
        ("!a", "excludes files"),
    ] {
        let refused = fetch(&rig, "1", &["*", glob], false).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{glob}: {refused}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_file_too_large_comes_when_it_is_asked_for() {
    let (rig, token) =
        begun("collection: lab\ncommand: echo\noutputs: [{path: f, max: 1K}]\n").await;
    rig.mum.file("f", &[7; 2000]);
    rig.mum.end(&token, 0, b"");
    let folder = home(&rig, &token).await;
    let said = notes(&rig, "1").await;
    assert!(
        said.iter()
            .any(|note| note.ends_with("neroman fetch 1.1 --include 'f'")),
        "{said:?}"
    );
    assert!(!folder.join("f").exists());
    fetch(&rig, "1.1", &[], false).await.unwrap();
    assert_eq!(std::fs::read(folder.join("f")).unwrap(), [7; 2000]);
    assert!(notes(&rig, "1").await.is_empty());
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

#[tokio::test]
async fn results_that_wait_for_room_are_told_until_they_came() {
    // No disk has that much. A fetch from the live run would go on by what it read before.
    let rig = Rig::configured("results_min_free: 1000000T\n");
    rig.write(OUTPUTS);
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.mum.file("model.bin", &[7; 5000]);
    rig.mum.end(&token, 0, b"");
    let told = |view: &v1::ExperimentView| {
        let mut warnings = view.warnings.iter();
        warnings.find(|line| line.contains("no room")).cloned()
    };
    let view = rig
        .until(1, "told that there is no room", |view| {
            view.state == "finished" && told(view).is_some()
        })
        .await;
    let warning = told(&view).unwrap();
    for part in [
        "model.bin",
        "results_min_free",
        "come by themselves",
        &view.results,
    ] {
        assert!(
            !part.is_empty() && warning.contains(part),
            "{part}: {warning}"
        );
    }
    let ends = rig.wait("1", true).await;
    assert!(
        ends.iter()
            .flat_map(|end| &end.ended)
            .any(|end| told(end).is_some())
    );
    // Another daemon tells it, too.
    let rig = rig.restart().await;
    assert_eq!(told(&rig.view(1).await), Some(warning));

    std::fs::write(&rig.home.config, "results_min_free: 0\n").unwrap();
    let folder = home(&rig, &token).await;
    assert_eq!(std::fs::read(folder.join("model.bin")).unwrap(), [7; 5000]);
    assert_eq!(told(&rig.view(1).await), None);
    rig.stop().await;
}
