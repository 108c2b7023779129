//! How the cost of a call grows with the number of experiments that it does not concern.

use std::thread;
use std::time::Duration;

use super::Row;
use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds};

/// How many experiments there are.
const COUNTS: [usize; 3] = [1000, 10_000, 100_000];
/// How often each call is made.
const CALLS: usize = 50;
/// CPU below which a clock tick decides.
const LEAST_MS: f64 = 0.2;
/// How long the daemon is left alone.
const REST: Duration = Duration::from_secs(10);

/// Lines that concern one experiment, and what the row is called.
const LINES: [(&str, &[&str]); 5] = [
    ("`status 7`", &["status", "7"]),
    ("`status` by a name", &["status", "t_i-6"]),
    ("`wait` of an ended run", &["wait", "7"]),
    ("`set` of a note", &["note", "7", "seen"]),
    ("`restart` of one, until it ended", &["restart", "7"]),
];

/// The daemon's CPU for each of those calls, and at rest while one run is live.
pub fn growth(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    let mut costs = vec![Vec::new(); LINES.len() + 1];
    for count in COUNTS {
        let stage = home(programs, count)?;
        let daemon = stage.daemon()?;
        for ((_, line), costs) in LINES.iter().zip(&mut costs) {
            let before = cpu_seconds(daemon);
            for _ in 0..CALLS {
                stage.ok(line)?;
                if line[0] == "restart" {
                    stage.ok(&["wait", "7"])?;
                }
            }
            costs.push((cpu_seconds(daemon) - before) / CALLS as f64 * 1e3);
        }
        stage.ok(&["start", "c/talker"])?;
        thread::sleep(Duration::from_secs(3));
        let before = cpu_seconds(daemon);
        thread::sleep(REST);
        costs[LINES.len()].push((cpu_seconds(daemon) - before) / REST.as_secs_f64() * 1e3);
    }
    let names = LINES
        .iter()
        .map(|(name, _)| *name)
        .chain(["rest, a second"]);
    let rows = names.zip(costs).map(|(what, costs)| Row {
        what,
        ours: format!(
            "{} ms of the daemon's CPU with 1000, 10 000, 100 000 experiments: {:.1} ×",
            costs
                .iter()
                .map(|cost| format!("{cost:.1}"))
                .collect::<Vec<_>>()
                .join(", "),
            costs[COUNTS.len() - 1].max(LEAST_MS) / costs[0].max(LEAST_MS)
        ),
        beside: "-".to_owned(),
        goal: "1.3 ×",
    });
    Ok(rows.collect())
}

fn home(programs: &Programs, count: usize) -> Result<BenchHome, String> {
    let stage = BenchHome::new(programs, &format!("growth{count}"))?;
    let yaml = format!(
        "collection: c
resources: {{cpus: 0.1}}
+t: {{command: /bin/true, parameters: {{i: {{range: [2, {count}, 1]}}}}}}
+talker: {{command: \"while sleep 1; do echo loss=0.5; done\"}}
"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "7"])?;
    stage.ok(&["wait", "7"])?;
    // What follows from the first run and from adding is over then.
    thread::sleep(Duration::from_secs(3));
    Ok(stage)
}
