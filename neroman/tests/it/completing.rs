//! Words that a shell completes.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};
use crate::samples;

#[test]
fn node_names_are_completed() {
    let fake = Fake::new(Answers::default());
    let home = fake.path().join("home");
    std::fs::write(
        home.join("config.yaml"),
        "nodes: {alpha: {address: a}, beta: {address: b}}\ngroups: {boxes: [alpha, beta]}\n",
    )
    .expect("written");
    let complete = |words: &[&str]| completed(fake.command(&[&["--"], words].concat()), words);
    assert_eq!(complete(&["neroman", "node", "doctor", "al"]), "alpha");
    let targets = complete(&["neroman", "start", "1", "--node", ""]);
    assert_eq!(targets, "local\nalpha\nbeta\nboxes\nany");
    let shown = complete(&["neroman", "status", ""]);
    assert!(
        shown.starts_with("nodes\nlocal\nalpha\nbeta\nboxes"),
        "{shown}"
    );
    let keys = complete(&["neroman", "config", "set", "nodes.al"]);
    assert!(
        keys.starts_with("nodes.alpha.address\nnodes.alpha.root"),
        "{keys}"
    );
    let keys = complete(&["neroman", "config", "set", ""]);
    assert!(
        keys.starts_with(
            "default_node\nresults_max\nresults_min_free\nuser.name\nuser.email\nmail.smtp"
        ) && keys.contains("\nnotify.command\ngroups.boxes\nnodes.local.root"),
        "{keys}"
    );
    let set = |key: &str| {
        let words = complete(&["neroman", "config", "set", key, ""]);
        let values = words.lines().filter(|word| !word.starts_with('-'));
        values.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(set("default_node"), "local\nalpha\nbeta\nboxes\nany");
    assert_eq!(set("groups.boxes"), "local\nalpha\nbeta");
    assert_eq!(set("nodes.alpha.shared"), "true\nfalse");
    assert_eq!(set("nodes.alpha.root"), "");
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            fake.ok(&["completions", shell])
                .contains("NERONET_COMPLETE")
        );
    }
    let asked = fake.requests();
    let lists = asked.iter().filter(|call| call.starts_with("list "));
    assert_eq!(lists.count(), asked.len(), "{asked:?}");
}

#[test]
fn selectors_are_completed() {
    let mut one = samples::experiment(14, "fit_a", "crashed");
    one.collection = "lab".to_owned();
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![one, samples::experiment(15, "fit_b", "running")],
            ..ListReply::default()
        },
        hides: RemoveReply {
            experiments: vec![remove_reply::One {
                experiment: 3,
                name: "gone".into(),
                ..remove_reply::One::default()
            }],
            ..RemoveReply::default()
        },
        ..Answers::default()
    });
    let complete = |words: &[&str]| completed(fake.command(&[&["--"], words].concat()), words);
    assert_eq!(complete(&["neroman", "restart", "cr"]), "crashed");
    assert_eq!(complete(&["neroman", "show", "1"]), "14\n15");
    assert_eq!(
        complete(&["neroman", "abort", "live,fit_"]),
        "live,fit_a\nlive,fit_b"
    );
    assert_eq!(complete(&["neroman", "logs", "lab/"]), "lab/\nlab/fit_a");
    assert_eq!(complete(&["neroman", "status", "--json", "fit_b"]), "fit_b");
    assert_eq!(complete(&["neroman", "rule", "rm", "fit_a"]), "fit_a");
    assert_eq!(complete(&["neroman", "exec", "1"]), "14\n15");
    assert_eq!(complete(&["neroman", "logs", "14."]), "14.1");
    assert_eq!(complete(&["neroman", "rm", "--undo", "3"]), "3");
    assert_eq!(complete(&["neroman", "rm", "--undo", "go"]), "gone");
    let asked = fake.requests();
    let mut removals = asked.iter().filter(|call| call.starts_with("rm "));
    assert!(
        removals.all(|call| call.ends_with("undo true dry true")),
        "{asked:?}"
    );
    assert_eq!(complete(&["neroman", "help", "sel"]), "selectors");
    assert_eq!(complete(&["neroman", "help", "sho"]), "show");
}

/// The output for a shell that asks to complete the last of these words.
pub fn completed(mut asking: std::process::Command, words: &[&str]) -> String {
    asking
        .env("NERONET_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_IFS", "\n");
    String::from_utf8(asking.output().expect("it runs").stdout).expect("text")
}
