//! How long selectors take over 100 000 experiments: median of five, in ms.
//!
//! `cargo run --release -p nero-selector --example selector_speed`

#[path = "../tests/it/crowd.rs"]
mod crowd;
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/lab.rs"]
mod lab;

use std::time::Instant;

fn main() {
    let crowd = crowd::crowd();
    for (text, _) in crowd::BIG_SELECTORS {
        let mut took: Vec<f64> = (0..5)
            .map(|_| {
                let began = Instant::now();
                crowd.ids(text);
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        took.sort_by(f64::total_cmp);
        println!("{:8.2}  {text}", took[2]);
    }
}
