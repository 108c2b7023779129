//! How fast printed lines are read: `cargo run --release -p nero-metrics --example speed`.

use std::hint::black_box;
use std::time::Instant;

use nero_metrics::finder::{Context, Finder, Reading};
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
    measure("pairs with signs", "", pairs);
    measure("pairs without signs", "", words);
    measure("rows of a table", "Step Temp Energy Press Drift\n", table);
    measure("text", "", text);
}

fn measure(what: &str, head: &str, line: impl Fn(usize) -> String) {
    let mut log = head.to_owned();
    for n in 1.. {
        log.push_str(&line(n));
        if log.len() >= BYTES {
            break;
        }
    }
    let mut best = f64::MAX;
    let mut points = 0;
    for _ in 0..5 {
        let mut finder = Finder::new(&Reading::default()).0;
        let mut context = Context::default();
        let mut lines = Lines::default();
        points = 0;
        let start = Instant::now();
        for block in log.as_bytes().chunks(64 * 1024) {
            lines.feed(block, |line, _| {
                points += finder.find(black_box(line), &mut context).len()
            });
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{what:<20} {:>6.0} MB/s, {:.1} M points/s",
        log.len() as f64 / best / 1e6,
        points as f64 / best / 1e6
    );
}
