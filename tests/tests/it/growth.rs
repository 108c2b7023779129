//! What a command about one experiment costs does not grow with the others: counts of calls of the
//! system, not times.

use std::fs;

use nero_tests::Home;
use nero_tests::processes::Part;

/// Lines that concern one experiment.
const LINES: [&[&str]; 5] = [
    &["status", "7"],
    &["status", "t_i-6"],
    &["wait", "7"],
    &["note", "7", "seen"],
    &["restart", "7"],
];
/// How often each is typed.
const ROUNDS: usize = 10;

/// How often each line makes the daemon read and write at least, with so many experiments.
fn costs(count: usize) -> Vec<u64> {
    let home = Home::new();
    let yaml = format!(
        "collection: c\n+t: {{command: /bin/true, parameters: {{i: {{range: [2, {count}, 1]}}}}}}\n"
    );
    let folder = home.experiment("e", &yaml);
    home.ok(&["add", folder.to_str().unwrap()]);
    home.ok(&["start", "7", "--wait"]);
    home.until_settled(7);
    let daemon = home.until_alive(Part::Daemon);
    let calls = || -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/io", daemon.pid)).unwrap();
        let counts = text.lines().filter_map(|line| line.strip_prefix("sysc"));
        let count = |line: &str| line.split(": ").nth(1)?.parse::<u64>().ok();
        counts.filter_map(count).sum()
    };
    let cost = |line: &&[&str]| {
        let once = |_| {
            home.until_settled(7);
            let before = calls();
            home.ok(line);
            if line[0] == "restart" {
                home.ok(&["wait", "7"]);
            }
            calls() - before
        };
        (0..ROUNDS).map(once).min().unwrap()
    };
    LINES.iter().map(cost).collect()
}

#[test]
fn a_line_about_one_experiment_calls_the_system_as_often_beside_many() {
    let (few, many) = (costs(20), costs(2000));
    for ((few, many), line) in few.into_iter().zip(many).zip(LINES) {
        // Behind a quiet second the log of the database is emptied, page by page. A walk over all
        // rows would read hundreds of them.
        assert!(
            many <= few + few / 3 + 100,
            "{line:?}: {few}, {many} of many"
        );
    }
}
