//! As many experiments as the budget of selectors names.

use crate::lab::{Experiment, Lab, experiment};

/// As many experiments as the budget names, each with parameters and metrics.
pub fn crowd() -> Lab {
    let states = ["finished", "crashed", "running", "defined"];
    let experiments = (0..100_000_u64).map(|row| Experiment {
        state: states[row as usize % 4],
        age_s: row as i64,
        runtime_s: row as f64,
        attempts: 1,
        params: vec![
            ("lr", 0.1),
            ("batch", 32.0),
            ("seed", row as f64),
            ("n", 10.0),
        ],
        metrics: vec![
            ("loss", 0.5),
            ("val loss", 0.6),
            ("error_rate", row as f64 / 1e5),
        ],
        ..experiment(row + 1, "grid", &format!("grid_lr-0.1_batch-32_seed-{row}"))
    });
    Lab::new(experiments.collect())
}

/// Selectors over the crowd, with the number of experiments that each picks.
pub const BIG_SELECTORS: [(&str, usize); 7] = [
    ("1-100000", 100_000),
    ("crashed,144-149,170,175", 25_006),
    ("runtime>7200&&errorrate>0.40", 59_999),
    ("tmod<1h", 3600),
    ("*seed-9999?", 10),
    ("124-186 && crashed", 16),
    (
        "name =~ 'seed-\\d{3}$' && params = x* || metric.valloss < 0.5 || seed == 7",
        1,
    ),
];
