//! The flows of `examples/flows`: those of `examples/noodles` in our own words.

use std::fs;
use std::path::Path;

use nero_tests::Part;

use crate::ssh::Lab;

/// The files in the order in which they are added, each with its experiments and how they end.
const FLOWS: &[(&str, &[(&str, &str)])] = &[
    (
        "errors",
        &[
            ("clone", "finished"),
            ("data", "finished"),
            ("refused", "crashed"),
            ("never", "queued"),
        ],
    ),
    ("local", &[("", "finished"); 3]),
    ("long", &[("report", "finished")]),
    ("phases", &[("", "finished"); 7]),
    ("transfer", &[("train", "finished")]),
    ("sessions", &[("service", "running"), ("check", "finished")]),
];

#[test]
fn flows_in_our_own_words_do_what_their_specs_do() {
    let lab = Lab::new(2);
    let home = &lab.home;
    home.ok(&["config", "set", "groups.boxes", "[h1, h2]"]);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/flows");
    let folder = home.path().join("flows");
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(examples).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    for (name, _) in FLOWS {
        let file = folder.join(format!("{name}.yaml"));
        home.ok(&["add", &file.display().to_string()]);
    }
    home.ok(&["start", "all"]);
    home.until_state(1, "finished");
    home.kill(Part::Daemon);
    // The service alone has no end.
    home.run(&["wait", "1-16,18"]);
    let expected: Vec<_> = FLOWS.iter().flat_map(|(_, each)| each.iter()).collect();
    for (id, (name, state)) in (1..).zip(&expected) {
        let seen = home.experiment_json(id);
        assert_eq!(seen["state"], *state, "{seen:#}");
        assert!(name.is_empty() || seen["name"] == *name, "{seen:#}");
    }
    assert_eq!(
        home.experiment_json(4)["held"],
        "needs refused, which crashed"
    );
    assert_eq!(
        home.experiment_json(2)["run"],
        "2.2",
        "its handler tried again"
    );
    assert!(home.ok(&["logs", "6"]).contains("step=3 loss=0.3 lr=0.01"));
    let report = home.ok(&["logs", "8"]);
    assert!(
        report.starts_with("It's \"done\" for /") && report.ends_with("\ntotal: 6\n"),
        "{report}"
    );
    let mut order = home.ok(&["logs", "14"]) + &home.ok(&["logs", "15"]);
    order.truncate(order.trim_end().len());
    let mut words: Vec<&str> = order.lines().collect();
    words.sort_unstable();
    assert_eq!(words, ["first", "second", "third"]);
    let result = home.ok(&["path", "16"]);
    let result = Path::new(result.trim()).join("result.txt");
    assert_eq!(
        fs::read_to_string(result).unwrap(),
        "loss=0.5 on a server\n"
    );
    assert_eq!(
        home.experiment_json(17)["node"],
        home.experiment_json(18)["node"]
    );
    home.ok(&["abort", "17", "--yes"]);
    home.until_state(17, "aborted");
}
