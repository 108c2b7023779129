//! Words that a shell completes.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};

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
    let words = asked.iter().filter(|call| call.starts_with("complete "));
    assert_eq!(words.count(), asked.len(), "{asked:?}");
}

#[test]
fn selectors_are_completed() {
    let said = |words: &[&str]| CompleteReply {
        words: words
            .iter()
            .map(|word| complete_reply::Word {
                word: (*word).to_owned(),
                about: String::new(),
            })
            .collect(),
    };
    let fake = Fake::new(Answers {
        complete: said(&[
            "14",
            "15",
            "14.1",
            "fit_a",
            "fit_b",
            "lab/",
            "lab/fit_a",
            "loss",
            "lr",
        ]),
        ..Answers::default()
    });
    let complete = |words: &[&str]| completed(fake.command(&[&["--"], words].concat()), words);
    assert_eq!(complete(&["neroman", "restart", "cr"]), "crashed");
    assert_eq!(complete(&["neroman", "show", "1"]), "14\n15\n14.1");
    assert_eq!(
        complete(&["neroman", "abort", "live,fit_"]),
        "live,fit_a\nlive,fit_b"
    );
    assert_eq!(complete(&["neroman", "logs", "lab/"]), "lab/\nlab/fit_a");
    assert_eq!(complete(&["neroman", "status", "--json", "fit_b"]), "fit_b");
    assert_eq!(complete(&["neroman", "rm", "--undo", "fit_b"]), "fit_b");
    // Names within expressions, and where a name is asked for.
    let last = complete(&["neroman", "abort", "done,runtime > 1h && lo"]);
    assert_eq!(last, "done,runtime > 1h && lost\ndone,runtime > 1h && loss");
    assert_eq!(complete(&["neroman", "abort", "!runt"]), "!runtime");
    assert_eq!(complete(&["neroman", "metrics", "14", "lo"]), "loss");
    assert_eq!(complete(&["neroman", "status", "--sort", "-los"]), "-loss");
    assert_eq!(
        complete(&["neroman", "results", "all", "--best", "min:lo"]),
        "min:loss"
    );
    assert_eq!(
        complete(&["neroman", "results", "all", "--columns", "id,lr"]),
        "id,lr"
    );
    assert_eq!(complete(&["neroman", "set", "14", "lr"]), "lr=");
    assert_eq!(complete(&["neroman", "set", "14", "lr=0"]), "");
    assert_eq!(complete(&["neroman", "rule", "add", "all", "wa"]), "warn:");
    assert_eq!(
        complete(&["neroman", "rule", "add", "all", "warn: max(los"]),
        "warn: max(lost\nwarn: max(loss"
    );
    let asked = fake.requests();
    let asks = |what: &str| asked.iter().any(|call| call.as_str() == what);
    assert!(
        asks("complete `fit_` [Experiments, Params, Metrics]"),
        "{asked:?}"
    );
    assert!(
        asks("complete `fit_b` [Removed, Params, Metrics]"),
        "{asked:?}"
    );
    assert!(asks("complete `lo` [Metrics]"), "{asked:?}");
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
