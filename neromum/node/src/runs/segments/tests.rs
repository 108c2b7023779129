use super::read::last_four;
use super::*;
use nero_journal::v1::{
    Claimed, JobExited, JobNotStarted, JobStarted, Metrics, RecordKind, TreeGone, WatchEnded,
    WatchStarted,
};
use nero_journal::{Clocks, Segment, Writer};

fn claim(folder: &Path) -> Segment {
    std::fs::create_dir_all(folder.join("1")).unwrap();
    let path = folder.join("1/claim");
    let mut segment = Segment::create(&path, Writer::Shim, &[1; 16], 1).unwrap();
    segment
        .append(RecordKind::Claimed, Clocks::now(), &Claimed::default())
        .unwrap();
    segment
}

fn place(run_dir: &Path) -> StartFolder<'_> {
    StartFolder {
        run_dir,
        token: RunToken::from_bytes([1; 16]),
        incarnation: 1,
    }
}

#[test]
fn records_are_folded_once_however_often_one_looks() {
    let run = tempfile::tempdir().unwrap();
    let mut segment = claim(run.path());
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    let first = scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(first.grew && facts.claimed && !facts.started);
    let now = Clocks::now();
    segment
        .append(RecordKind::JobStarted, now, &JobStarted::default())
        .unwrap();
    segment
        .append(RecordKind::JobExited, now, &JobExited::default())
        .unwrap();
    let second = scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(facts.started && facts.leader_ended && !facts.ended());
    assert_eq!(second.ends.len(), 1);
    let third = scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(!third.grew && third.ends.is_empty());
    assert_eq!(
        (segments[0].len, segments[0].chain),
        (segment.offset(), segment.chain())
    );
}

#[test]
fn foreign_files_between_the_segments_delay_no_reader() {
    let run = tempfile::tempdir().unwrap();
    drop(claim(run.path()));
    let of = |name: &str| run.path().join("1").join(name);
    std::fs::create_dir(of("folder.seg")).unwrap();
    std::os::unix::fs::symlink("claim", of("link.seg")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(of("pipe.seg"))
        .status();
    assert!(made.unwrap().success());
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(facts.claimed && segments.len() == 1);
    std::fs::remove_file(of("claim")).unwrap();
    std::fs::rename(of("pipe.seg"), of("claim")).unwrap();
    let mut look = Look::default();
    look_at_claim(place(run.path()), &mut segments, &mut facts, &mut look).unwrap();
}

#[test]
fn a_segment_that_nobody_may_read_keeps_nothing_else_from_being_read() {
    use std::os::unix::fs::PermissionsExt;
    let run = tempfile::tempdir().unwrap();
    let mut claimed = claim(run.path());
    let now = Clocks::now();
    let gone = TreeGone::default();
    claimed.append(RecordKind::TreeGone, now, &gone).unwrap();
    let path = run.path().join("1/watch-1.seg");
    let mut shut = Segment::create(&path, Writer::Watcher, &[1; 16], 1).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(&path, 0);
    mode(run.path(), 0o755);
    mode(&run.path().join("1"), 0o755);
    mode(&run.path().join("1/claim"), 0o644);
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    let mut looked = |mayread: bool, append: &mut dyn FnMut()| {
        append();
        mode(&path, if mayread { 0o644 } else { 0 });
        as_nobody(|| scan(place(run.path()), &mut segments, &mut facts).unwrap())
    };
    let first = looked(false, &mut || {});
    let shut_file = |look: &Look| {
        look.passed_over
            .iter()
            .map(|file| file.path.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(shut_file(&first), std::slice::from_ref(&path));
    assert!(first.ends.len() == 1 && first.grew);
    // While it cannot be read, it adds nothing, known before or not.
    assert!(looked(true, &mut || {}).grew);
    let ended = WatchEnded::default();
    let third = looked(false, &mut || {
        shut.append(RecordKind::WatchEnded, now, &ended).unwrap();
    });
    assert_eq!(shut_file(&third), std::slice::from_ref(&path));
    assert!(!third.grew);
    assert!(looked(true, &mut || {}).grew);
    // Of a claim whose end is known nothing more is needed.
    mode(&run.path().join("1/claim"), 0);
    assert!(shut_file(&looked(true, &mut || {})).is_empty());
    // Nothing follows from a claim that cannot be read.
    let error =
        as_nobody(|| scan(place(run.path()), &mut Vec::new(), &mut Facts::default()).unwrap_err());
    assert!(error.to_string().contains("1/claim"), "{error}");
}

/// Runs `work` on a thread that a file's mode binds, unlike root.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_uid(nobody).unwrap();
            }
            work()
        });
        worker.join().unwrap()
    })
}

#[test]
fn segments_found_together_are_in_the_order_of_their_beginning() {
    let run = tempfile::tempdir().unwrap();
    drop(claim(run.path()));
    // Neither names nor the folder show the order.
    for name in ["c", "a", "d", "b"] {
        let path = run.path().join("1").join(format!("{name}.seg"));
        Segment::create(&path, Writer::Watcher, &[1; 16], 1).unwrap();
    }
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    scan(place(run.path()), &mut segments, &mut facts).unwrap();
    let names: Vec<&str> = segments.iter().map(|seg| &*seg.name).collect();
    assert_eq!(names, ["claim", "c.seg", "a.seg", "d.seg", "b.seg"]);
}

#[test]
fn a_torn_record_is_not_there_yet_and_a_claim_without_a_record_is_unreadable() {
    let run = tempfile::tempdir().unwrap();
    let mut segment = claim(run.path());
    let claimed = segment.offset() as usize;
    let now = Clocks::now();
    segment
        .append(RecordKind::JobStarted, now, &JobStarted::default())
        .unwrap();
    let path = run.path().join("1/claim");
    let whole = std::fs::read(&path).unwrap();
    for length in claimed..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (mut segments, mut facts) = (Vec::new(), Facts::default());
        scan(place(run.path()), &mut segments, &mut facts).unwrap();
        assert!(facts.claimed && !facts.started);
        assert_eq!(segments[0].len, claimed as u64);
    }
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    let cut = (0..claimed).map(|length| whole[..length].to_vec());
    for content in cut.chain([vec![0; 200]]) {
        std::fs::write(&path, content).unwrap();
        (segments, facts) = (Vec::new(), Facts::default());
        let refused = scan(place(run.path()), &mut segments, &mut facts).unwrap_err();
        assert!(refused.is_cut_off() && refused.path == path, "{refused}");
    }
    // A file server may show the content later than the name.
    std::fs::write(&path, &whole).unwrap();
    scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(facts.started);
}

#[test]
fn the_end_of_a_long_segment_is_found_without_reading_it() {
    let run = tempfile::tempdir().unwrap();
    std::fs::create_dir(run.path().join("1")).unwrap();
    let path = run.path().join("1/mum-1.seg");
    let mut segment = Segment::create(&path, Writer::Watcher, &[1; 16], 1).unwrap();
    let now = Clocks::now();
    segment
        .append(RecordKind::WatchStarted, now, &WatchStarted::default())
        .unwrap();
    let metrics = Metrics {
        values: vec![1.5; 50_000],
        ..Metrics::default()
    };
    for _ in 0..4 {
        segment.append(RecordKind::Metrics, now, &metrics).unwrap();
    }
    let ended = WatchEnded {
        complete: true,
        ..WatchEnded::default()
    };
    segment.append(RecordKind::WatchEnded, now, &ended).unwrap();
    let (mut segments, mut facts) = (Vec::new(), Facts::default());
    scan(place(run.path()), &mut segments, &mut facts).unwrap();
    assert!(facts.watched && facts.watch_complete);
    assert_eq!(
        (segments[0].len, segments[0].chain),
        (segment.offset(), segment.chain())
    );
}

#[test]
fn parts_are_whole_records_and_join_to_the_file() {
    let run = tempfile::tempdir().unwrap();
    let mut segment = claim(run.path());
    let path = run.path().join("1/claim");
    let now = Clocks::now();
    for values in [10, 60_000, 3, 3, 3] {
        let metrics = Metrics {
            values: vec![0.5; values],
            ..Metrics::default()
        };
        segment.append(RecordKind::Metrics, now, &metrics).unwrap();
    }
    let end = segment.offset();
    let (mut at, mut joined) = (0u64, Vec::new());
    while at < end {
        let (chain, data) = read_part(&path, at, end, 1000, None).unwrap();
        assert!(!data.is_empty(), "stuck at {at}");
        assert_eq!(chain, if at == 0 { 0 } else { last_four(&joined) });
        let (wrong, none) = read_part(&path, at, end, 1000, Some(chain ^ 1)).unwrap();
        assert!(none.is_empty() && wrong == chain);
        at += data.len() as u64;
        joined.extend_from_slice(&data);
    }
    assert_eq!(joined, std::fs::read(&path).unwrap());
}

#[test]
fn of_a_claim_with_a_flipped_bit_nothing_is_told_but_its_damage() {
    let run = tempfile::tempdir().unwrap();
    let mut segment = claim(run.path());
    let now = Clocks::now();
    segment
        .append(RecordKind::JobStarted, now, &JobStarted::default())
        .unwrap();
    segment
        .append(RecordKind::TreeGone, now, &TreeGone::default())
        .unwrap();
    let path = run.path().join("1/claim");
    let whole = std::fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, flipped).unwrap();
        let refused = scan(place(run.path()), &mut Vec::new(), &mut Facts::default());
        let refused = refused.expect_err("a flipped bit is damage");
        assert_eq!(refused.path, path);
    }
}

#[test]
fn files_of_another_run_and_a_missing_claim_are_no_evidence() {
    let run = tempfile::tempdir().unwrap();
    drop(claim(run.path()));
    let look_now = || scan(place(run.path()), &mut Vec::new(), &mut Facts::default());
    let path = run.path().join("1/claim");
    for (token, incarnation) in [([2; 16], 1), ([1; 16], 2)] {
        std::fs::remove_file(&path).unwrap();
        Segment::create(&path, Writer::Shim, &token, incarnation).unwrap();
        assert_eq!(look_now().unwrap_err().what, FileFault::Foreign);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(look_now().is_ok(), "nothing was started");
    std::fs::write(run.path().join("1/stdout.log"), "").unwrap();
    let missing = look_now().unwrap_err();
    assert!(
        matches!(missing.what, FileFault::Missing { .. }),
        "{missing}"
    );
    assert_eq!(missing.path, path);
}

/// Kinds of records with this payload of which `is_read` returns true.
fn kinds(payload: &[u8], is_read: impl Fn(&Record<'_>) -> bool) -> Vec<&'static str> {
    let kinds = (0..=100).filter(|kind| {
        is_read(&Record {
            offset: 80,
            sequence: 0,
            kind: *kind,
            mono_ns: 9_000_000,
            wall_ns: 2_000_000,
            payload,
            chain: 0,
        })
    });
    let name = |kind| RecordKind::try_from(kind).map_or("?", |kind| kind.as_str_name());
    let names = kinds.map(|kind| name(i32::from(kind)).trim_start_matches("RECORD_KIND_"));
    names.collect()
}

#[test]
fn a_record_changes_the_facts_also_if_its_payload_cannot_be_decoded() {
    let process = nero_model::ProcessId::own().unwrap();
    let known = Facts {
        shim: Some(process),
        job: Some(process),
        watcher: Some(process),
        ..Facts::default()
    };
    let changes = |record: &Record<'_>| {
        let mut facts = known;
        take(record, &mut facts, &mut Look::default());
        facts != known
    };
    let of_facts = [
        "CLAIMED",
        "JOB_STARTED",
        "JOB_NOT_STARTED",
        "STOP_ASKED",
        "JOB_EXITED",
        "TREE_GONE",
        "TAKEN_OVER",
        "WATCH_STARTED",
        "WATCH_ENDED",
        "LOST",
    ];
    assert_eq!(kinds(&[], changes), of_facts);
    assert_eq!(kinds(&[0], changes), of_facts);
    let ends = |record: &Record<'_>| {
        let mut look = Look::default();
        take(record, &mut Facts::default(), &mut look);
        !look.ends.is_empty()
    };
    let of_ends = [
        "JOB_NOT_STARTED",
        "STOP_ASKED",
        "JOB_EXITED",
        "TREE_GONE",
        "LOST",
        "TASK_OVER",
    ];
    assert_eq!(kinds(&[], ends), of_ends);
    assert_eq!(kinds(&[0], ends), of_ends);
    // A closed gate is no end: the run is started again.
    let gate = JobNotStarted {
        stage: job_not_started::Stage::Gate.into(),
        ..JobNotStarted::default()
    };
    let gate = prost::Message::encode_to_vec(&gate);
    assert!(!kinds(&gate, ends).contains(&"JOB_NOT_STARTED"));
}
