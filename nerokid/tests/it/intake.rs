//! From bytes to records: the split of the bytes does not matter, a new
//! watcher goes on exactly where the records end, and too much is folded.

use nero_journal::v1::Metrics;
use nero_metrics::file::FileForm;
use nero_metrics::finder::{Finder, FinderOptions};
use nerokid::core::fold::WINDOW_MS;
use nerokid::core::history::History;
use nerokid::core::intake::{Begin, BegunLog, Intake, LogForm, TableAt};
use nerokid::core::log::Log;
use nerokid::core::record::Record;
use nerokid::core::rows::KnownRows;
use nerokid::core::series::AllSeries;
use proptest::prelude::*;

type Point = (String, f64, u32, u64);

fn fresh() -> Intake {
    with_credit(1_000_000)
}

fn with_credit(points: u64) -> Intake {
    let begin = Begin {
        logs: vec![BegunLog::default(), BegunLog::default()],
        series: AllSeries::default(),
        kept: 1_000_000 - points,
    };
    Intake::new(begin, Finder::new(&FinderOptions::default()).0, 0, 0)
}

fn feed(intake: &mut Intake, log: Log, bytes: &[u8], now_ms: u64, out: &mut Vec<Record>) {
    intake.feed(log, bytes, now_ms, out, |_, _| {});
}

/// The points of a segment's records: name, step, generation, value's bits.
fn points(records: &[Record]) -> Vec<Point> {
    let mut names = Vec::new();
    let mut points = Vec::new();
    for metrics in records.iter().filter_map(metrics) {
        names.extend(metrics.names.iter().cloned());
        for (at, index) in metrics.series.iter().enumerate() {
            points.push((
                names[*index as usize].clone(),
                metrics.steps[at],
                metrics.generation.get(at).copied().unwrap_or(0),
                metrics.values[at].to_bits(),
            ));
        }
    }
    points
}

fn metrics(record: &Record) -> Option<&Metrics> {
    match record {
        Record::Metrics(metrics) => Some(metrics),
        _ => None,
    }
}

/// Writes records into a real segment file and folds them as the next watcher does.
fn reborn(segments: &[Vec<Record>]) -> History {
    let folder = tempfile::tempdir().unwrap();
    let mut history = History::default();
    for (number, records) in segments.iter().enumerate() {
        let path = folder.path().join(format!("watch-{number}.seg"));
        let writer = nero_journal::Writer::Watcher;
        let mut segment = nero_journal::Segment::create(&path, writer, &[7; 16], 1).unwrap();
        for record in records {
            record
                .append(&mut segment, nero_journal::Clocks::now())
                .unwrap();
        }
        history.begin_segment(false);
        nerokid::folder::segments::for_each(&path, |record| history.fold(record)).unwrap();
    }
    history
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..20u32, any::<f32>()).prop_map(|(step, value)| format!("epoch {step}: loss = {value}")),
        any::<f32>().prop_map(|value| format!("acc {value}")),
        (0..9u32).prop_map(|value| format!("{{\"a\": {{\"b\": {value}}}, \"n\": {value}}}")),
        Just("step energy temp".to_owned()),
        Just("  Temperature Pressure (bar)".to_owned()),
        Just("a,b".to_owned()),
        (0..20u32, 0..9u32).prop_map(|(a, b)| format!("{a} {b} -1.5")),
        (0..20u32).prop_map(|a| format!("{a:>13}{a:>15}")),
        (0..20u32, 0..9u32).prop_map(|(a, b)| format!("{a},{b}")),
        (0..5u32).prop_map(|epoch| format!("Epoch {epoch}/5")),
        // What tells the set of the lines behind it, and remarks between rows.
        prop_oneof![
            Just("Training:"),
            Just("=== Validation ==="),
            Just("A V E R A G E S   O V E R   5 S T E P S"),
            Just("saving the checkpoint"),
            Just("Iteration 3, Testing net (#0)"),
            Just("Test: [ 10/196] Loss 3.5 (4.5)"),
            Just(" * Acc@1 55.0 Acc@5 78.1"),
            Just("0: hello"),
            Just("1: loss 0.5"),
            Just("| eval/    |     |"),
        ]
        .prop_map(str::to_owned),
        (0..3u32).prop_map(|fold| format!("Fold {fold}/3")),
        (0..5u32).prop_map(|value| format!("train loss: {value} acc: 0.{value}")),
        Just(String::new()),
        "[ -~]{0,40}",
    ]
}

fn log() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![Just("\n"), Just("\r"), Just("\r\n")];
    proptest::collection::vec((line(), end), 0..40).prop_map(|lines| {
        let text: String = lines.into_iter().map(|(line, end)| line + end).collect();
        text.into_bytes()
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_points(
        bytes in log(),
        sizes in proptest::collection::vec(1..50usize, 1..20),
    ) {
        let mut whole = Vec::new();
        let mut one = fresh();
        feed(&mut one, Log::Stdout, &bytes, 0, &mut whole);
        one.finish(Log::Stdout, 0, &mut whole, |_, _| {});
        one.flush(&mut whole);

        let mut pieces = Vec::new();
        let mut many = fresh();
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            feed(&mut many, Log::Stdout, piece, 0, &mut pieces);
            rest = behind;
        }
        many.finish(Log::Stdout, 0, &mut pieces, |_, _| {});
        many.flush(&mut pieces);
        prop_assert_eq!(points(&pieces), points(&whole));
        prop_assert_eq!(many.position(Log::Stdout), one.position(Log::Stdout));
    }

    /// A watcher dies again and again: after any record, having read any further
    /// bytes. The next one reads from the position in the records.
    #[test]
    fn deaths_lose_nothing_and_tell_nothing_twice(
        bytes in log(),
        lives in proptest::collection::vec((1..200usize, 0..4usize), 0..12),
    ) {
        let all = points_of_lives(&bytes, &lives);
        prop_assert_eq!(all, points_of_one_life(&bytes));
    }
}

/// A watcher may die at any byte of a log with two tables. The next watcher goes on in the newer
/// table, and in the former one where its rows come back.
#[test]
fn a_table_behind_another_goes_on_wherever_a_watcher_dies() {
    for log in [
        "a,b\n1,2\na,b\nstep energy temp\n{\"n\": 0}\n3 0 -1.5\n4 0 -2.5\n",
        "a,b\n1,2\nc,d\nof the\n\n3 4\n",
        "loss time of\n1 2 3\nstep a b\nloss the time\n4 5 6\nstep a b\n7 8 9\n",
        "a,b\n1,2\nstep\tof\n\nsome words of it\n3,4\n",
    ] {
        let whole = points_of_one_life(log.as_bytes());
        for reads in 1..log.len() {
            let all = points_of_lives(log.as_bytes(), &[(reads, usize::MAX)]);
            assert_eq!(all, whole, "{reads} bytes of {log:?} were read");
        }
    }
}

/// The points of a log that one watcher reads to its end.
fn points_of_one_life(bytes: &[u8]) -> Vec<Point> {
    let mut records = Vec::new();
    let mut intake = fresh();
    feed(&mut intake, Log::Stdout, bytes, 0, &mut records);
    intake.flush(&mut records);
    points(&records)
}

/// The points that all watchers of a log wrote. Each of `lives` is a watcher that reads a number of
/// bytes, writes a number of its records, and dies. A last watcher reads the rest.
fn points_of_lives(bytes: &[u8], lives: &[(usize, usize)]) -> Vec<Point> {
    let mut segments: Vec<Vec<Record>> = Vec::new();
    for (reads, written) in lives {
        let mut records = live(&segments, bytes, *reads);
        records.truncate(*written);
        segments.push(records);
    }
    segments.push(live(&segments, bytes, bytes.len()));
    segments
        .iter()
        .flat_map(|records| points(records))
        .collect()
}

/// Records of a watcher that begins after `segments` and reads the next `reads`
/// bytes.
fn live(segments: &[Vec<Record>], bytes: &[u8], reads: usize) -> Vec<Record> {
    let history = reborn(segments);
    let from = history.positions[0].offset as usize;
    let position = history.positions[0];
    // As the watcher does: the first lines of a table are read from the log once more.
    let text = |table: TableAt| &bytes[table.header as usize..position.offset as usize];
    let texts = [position.former, position.table].map(|table| table.map(text));
    let mut finder = Finder::new(&FinderOptions::default()).0;
    let stdout = BegunLog {
        position,
        size: bytes.len() as u64,
        context: position.context(&mut finder, texts),
        ..BegunLog::default()
    };
    let begin = Begin {
        logs: vec![stdout, BegunLog::default()],
        series: history.series,
        kept: history.kept,
    };
    let mut intake = Intake::new(begin, finder, 0, 0);
    let mut records = Vec::new();
    let until = (from + reads).min(bytes.len());
    for piece in bytes[from..until].chunks(7) {
        feed(&mut intake, Log::Stdout, piece, 0, &mut records);
        intake.flush(&mut records);
    }
    records
}

#[test]
fn a_record_claims_no_more_than_what_is_written() {
    let mut intake = fresh();
    let mut out = Vec::new();
    feed(&mut intake, Log::Stdout, b"loss=1\nlo", 0, &mut out);
    feed(&mut intake, Log::Stderr, b"noise\nacc=2\n", 0, &mut out);
    intake.flush(&mut out);
    let read_to = &metrics(&out[0]).unwrap().read_to;
    assert_eq!((read_to[0].offset, read_to[0].lines), (7, 1));
    assert_eq!((read_to[1].offset, read_to[1].lines), (12, 2));
    feed(&mut intake, Log::Stdout, b"ss=2\n", 0, &mut out);
    intake.flush(&mut out);
    assert_eq!(metrics(&out[1]).unwrap().read_to[0].offset, 14);
    intake.mark(&mut out);
    assert_eq!(out.len(), 2, "nothing new is to be said");
    feed(&mut intake, Log::Stdout, b"noise\n", 0, &mut out);
    intake.flush(&mut out);
    assert_eq!(out.len(), 2, "noise waits for the next mark");
    intake.mark(&mut out);
    assert_eq!(metrics(&out[2]).unwrap().read_to[0].offset, 20);
}

#[test]
fn much_in_one_piece_becomes_several_records_that_fit() {
    let mut intake = fresh();
    let mut out = Vec::new();
    let names: Vec<String> = (0..5000).map(|n| format!("{n:0>190}")).collect();
    let line: String = names.iter().map(|name| format!("_{name}=1 ")).collect();
    for piece in line.as_bytes().chunks(60_000) {
        let cut = piece.iter().rposition(|b| *b == b' ').unwrap();
        feed(&mut intake, Log::Stdout, &piece[..cut], 0, &mut out);
        feed(&mut intake, Log::Stdout, b"\n", 0, &mut out);
    }
    intake.flush(&mut out);
    let mut json = String::from("{\"p\": {");
    json.extend((0..4000).map(|n| format!("\"{n}\": 1, ")));
    json.push_str("\"x\": 1}}\n");
    feed(&mut intake, Log::Stdout, json.as_bytes(), 0, &mut out);
    intake.flush(&mut out);
    assert!(out.len() > 5);
    reborn(&[out]);
}

#[test]
fn too_many_points_are_folded_and_the_position_waits_for_them() {
    let mut intake = with_credit(100_000);
    let mut out = Vec::new();
    let mut expected = 0;
    for number in 0..150_000 {
        let text = format!("loss={}\n", number % 1000);
        feed(&mut intake, Log::Stdout, text.as_bytes(), 5, &mut out);
        expected += text.len() as u64;
        intake.flush(&mut out);
    }
    let exact = points(&out).len();
    assert!((100_000..101_000).contains(&exact), "{exact}");
    let said = out.iter().filter_map(metrics).next_back().unwrap();
    assert!(
        said.read_to[0].offset < expected,
        "the folded lines are not claimed"
    );
    intake.mark(&mut out);
    assert_eq!(intake.window_due_ms(), Some(5 + WINDOW_MS));
    intake.tick(5 + WINDOW_MS, &mut out);
    let said = out.iter().filter_map(metrics).next_back().unwrap();
    assert_eq!(said.read_to[0].offset, expected);
    assert_eq!(said.series.len(), 3, "lowest, highest, last");
    assert_eq!(
        *said.steps.last().unwrap(),
        150_000.0,
        "the count goes on through it"
    );
    let Some(Record::Folded(folded)) = out.last() else {
        panic!("no word about folding");
    };
    assert_eq!(folded.points as usize, 150_000 - exact);
    feed(&mut intake, Log::Stdout, b"loss=1\n", 200, &mut out);
    intake.flush(&mut out);
    assert_eq!(points(&out).last().unwrap().1, 150_001.0);
}

#[test]
fn names_above_the_limit_are_counted() {
    let mut intake = fresh();
    let mut out = Vec::new();
    for number in 0..4200 {
        feed(
            &mut intake,
            Log::Stdout,
            format!("m{number}=1\n").as_bytes(),
            0,
            &mut out,
        );
    }
    intake.tell_refused_at_the_end(&mut out);
    intake.flush(&mut out);
    assert_eq!(points(&out).len(), 4096);
    let notices: Vec<&Record> = out
        .iter()
        .filter(|record| matches!(record, Record::Notice(_)))
        .collect();
    assert_eq!(notices.len(), 2);
    let Record::Notice(last) = notices[1] else {
        unreachable!()
    };
    assert_eq!(
        last.text,
        "more than 4096 names of metrics: 104 points of further names were not kept"
    );
}

#[test]
fn a_cut_log_is_a_new_part_and_its_last_half_line_is_dropped() {
    let mut intake = fresh();
    let mut out = Vec::new();
    feed(&mut intake, Log::Stdout, b"loss=1\nloss=0.1", 0, &mut out);
    intake.truncated(Log::Stdout, &mut out);
    feed(&mut intake, Log::Stdout, b"23\nloss=3\n", 0, &mut out);
    intake.flush(&mut out);
    let values: Vec<f64> = points(&out).iter().map(|p| f64::from_bits(p.3)).collect();
    assert_eq!(values, [1.0, 3.0]);
    let Some(Record::Truncated(truncated)) = out.get(1) else {
        panic!("no word about the cut: {out:?}");
    };
    assert_eq!((truncated.part, truncated.lost_from), (1, 7));
    let history = reborn(&[out]);
    let position = history.positions[0];
    assert_eq!((position.part, position.offset, position.lines), (1, 10, 3));
}

/// An intake of both logs and a file of JSON lines, after what an earlier watcher left.
fn with_file(history: History) -> Intake {
    let form = LogForm {
        form: FileForm::JsonLines,
        decimal_comma: false,
    };
    let position = history.positions[Log::File(0).index()].anew();
    let file = BegunLog {
        position,
        context: form.context(),
        form,
        rows: Some(KnownRows::resumed(form.form, position.rows)),
        ..BegunLog::default()
    };
    let begin = Begin {
        logs: vec![BegunLog::default(), BegunLog::default(), file],
        series: history.series,
        kept: history.kept,
    };
    Intake::new(begin, Finder::new(&FinderOptions::default()).0, 0, 0)
}

#[test]
fn rows_of_a_file_that_were_read_before_are_no_progress() {
    let mut out = Vec::new();
    let mut intake = with_file(History::default());
    let rows = b"{\"step\": 1, \"progress\": 0.25}\n{\"step\": 2, \"progress\": 0.5}\n";
    feed(&mut intake, Log::File(0), rows, 0, &mut out);
    let done: Vec<f64> = intake.take_done().map(|done| done.share).collect();
    assert_eq!(done, [0.5]);
    intake.truncated(Log::File(0), &mut out);
    let first = rows.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    feed(&mut intake, Log::File(0), &rows[..first], 0, &mut out);
    assert_eq!(intake.take_done().count(), 0);
    feed(&mut intake, Log::File(0), &rows[first..], 0, &mut out);
    let row = b"{\"step\": 3, \"progress\": 0.75}\n";
    feed(&mut intake, Log::File(0), row, 0, &mut out);
    let done: Vec<f64> = intake.take_done().map(|done| done.share).collect();
    assert_eq!(done, [0.75]);
}

#[test]
fn a_new_watcher_knows_whose_steps_the_latest_ones_are() {
    let printed = |step: u32| format!("epoch {step}: loss = 1\n");
    let row = |step: u32| format!("{{\"epoch\": {step}, \"loss\": 1}}\n");
    for (first, first_text, then, then_text) in [
        (Log::Stdout, printed(5), Log::File(0), row(4)),
        (Log::Stderr, printed(5), Log::File(0), row(4)),
    ] {
        let mut out = Vec::new();
        let mut intake = with_file(History::default());
        feed(&mut intake, first, first_text.as_bytes(), 0, &mut out);
        intake.flush(&mut out);
        let mut intake = with_file(reborn(&[out]));
        let mut out = Vec::new();
        feed(&mut intake, then, then_text.as_bytes(), 0, &mut out);
        intake.flush(&mut out);
        let points = points(&out);
        assert!(!points.is_empty());
        let is_first = |(_, _, segment, _): &Point| *segment == 0;
        assert!(points.iter().all(is_first), "{then:?}: {points:?}");
    }
}
