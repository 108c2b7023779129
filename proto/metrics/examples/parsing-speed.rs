//! How fast lines are read: `cargo run --release -p nero-metrics --example parsing-speed`.
//! The last column is the time relative to a count of the same lines, which tells how
//! fast the machine is.

use std::hint::black_box;

use nero_metrics::file::FileForm;
use nero_metrics::finder::{Context, Finder, FinderOptions};
use nero_metrics::lines::Lines;

/// Bytes of each kind of log.
const BYTES: usize = 32 << 20;

fn main() {
    let pairs = |n: usize| {
        format!(
            "step {n}: loss = {}, acc = 0.{n}, lr=1e-4\n",
            1.0 / n as f64
        )
    };
    let words = |n: usize| format!("step {n}: train loss 0.{n}, time 142.5ms, mfu 38.1%\n");
    let table = |n: usize| format!("{n} 0.{n} -10.5 300.{n} 1e-5\n");
    let text = |_: usize| {
        "Downloading the files of the corpus from the mirror, please wait a moment\n".to_owned()
    };
    // A heading every fifth line, and values that carry its step.
    let carried = |n: usize| match n % 5 {
        0 => format!("Epoch {}/100000\n", n / 5),
        _ => format!("val_loss: 0.{n}  val_acc: 0.{n}\n"),
    };
    let printed = FileForm::Printed;
    let columns = FileForm::Columns(None);
    measure("pairs with signs", printed, "", pairs);
    measure("pairs without signs", printed, "", words);
    measure("carried steps", printed, "", carried);
    measure(
        "rows of a table",
        printed,
        "Step Temp Energy Press Drift\n",
        table,
    );
    measure("text", printed, "", text);
    measure(
        "rows of a csv file",
        columns,
        "step,loss,acc,note,lr\n",
        |n| format!("{n},0.{n},-10.5,ok,1e-5\n"),
    );
}

fn measure(what: &str, form: FileForm, head: &str, line: impl Fn(usize) -> String) {
    // For a profile of one kind: its name.
    if std::env::args().nth(1).is_some_and(|only| only != what) {
        return;
    }
    let mut log = head.to_owned();
    for n in 1.. {
        log.push_str(&line(n));
        if log.len() >= BYTES {
            break;
        }
    }
    let (mut best, mut floor) = (f64::MAX, f64::MAX);
    let mut points = 0;
    for _ in 0..5 {
        let mut finder = Finder::new(&FinderOptions::default()).0;
        let mut context = Context::of_file(form, false);
        points = 0;
        let start = processor_s();
        each_line(&log, |line| {
            points += finder.find(black_box(line), &mut context).len();
        });
        best = best.min(processor_s() - start);
        let mut count = 0_u64;
        let start = processor_s();
        each_line(&log, |line| {
            let sum = |sum: u64, byte: &u8| sum + u64::from(*byte);
            count += black_box(line).iter().fold(0, sum);
        });
        black_box(count);
        floor = floor.min(processor_s() - start);
    }
    println!(
        "{what:<20} {:>6.0} MB/s, {:>4.1} M points/s, {:>5.1} x",
        log.len() as f64 / best / 1e6,
        points as f64 / best / 1e6,
        best / floor
    );
}

/// Processor time of this thread: other programs of the machine do not count.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok());
    ns.map_or(f64::NAN, |ns: f64| ns / 1e9)
}

fn each_line(log: &str, mut each: impl FnMut(&[u8])) {
    let mut lines = Lines::default();
    for block in log.as_bytes().chunks(64 * 1024) {
        lines.feed(block, |line, _| each(line));
    }
}
