//! The verbs about sets of hosts.

use std::collections::HashMap;

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};

fn event(event: node_event::Event) -> NodeEvent {
    NodeEvent { event: Some(event) }
}

fn node(name: &str, address: &str) -> NodeView {
    NodeView {
        name: name.into(),
        address: address.into(),
        connected: true,
        cpus: 16.0,
        memory_bytes: 62 << 30,
        ..NodeView::default()
    }
}

fn answers() -> Answers {
    let names = NodeNames {
        names: vec!["lab-1".into(), "local".into()],
        unbalanced: false,
    };
    let nodes = NodesReply {
        nodes: vec![node("lab-1", "ada@h1"), node("local", ""), node("box", "b")],
        groups: HashMap::from([("lab".to_owned(), names)]),
        default_node: "local".into(),
    };
    let image = Finding {
        level: finding::Level::Good.into(),
        what: "image".into(),
        text: "python:3.12 (podman, sha256:3f9c21ab)".into(),
        ..Finding::default()
    };
    Answers {
        nodes,
        node_events: vec![
            event(node_event::Event::Finding(image)),
            event(node_event::Event::Node(node("lab-1", "ada@h1"))),
        ],
        ..Answers::default()
    }
}

#[test]
fn each_host_is_asked_for_by_its_number() {
    let fake = Fake::new(answers());
    let key = fake.path().join("key");
    std::fs::write(&key, "").unwrap();
    let key = key.display().to_string();
    let words = [
        "infra",
        "up",
        "new",
        "-a",
        "ada@h1,h2,h3",
        "-w",
        "local,1,3",
    ];
    let more = ["-i", &key, "-r", "ML", "--image", "python:3.12", "-m", "1"];
    let ran = fake.run(&[&words[..], &more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ready = "ready: 16 CPUs, 62G memory, python:3.12 (podman, sha256:3f9c21ab)";
    let wanted = format!(
        "local          {ready}\nnew-1  ada@h1  {ready}\nnew-3  h3      {ready}\n\
         new: 3 of 3 hosts ready\n"
    );
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines[..3].sort_unstable();
    assert_eq!(lines.join("\n") + "\n", wanted);
    assert!(ran.err.contains("no master and no broker"), "{}", ran.err);
    let mut asked = fake.requests();
    asked.retain(|line| line.starts_with("node_ready"));
    asked.sort_unstable();
    let same = format!("in new root `~/ML` key `{key}` image `python:3.12` pull `` idle false");
    assert_eq!(
        asked,
        [
            format!("node_ready local `` {same}"),
            format!("node_ready new-1 `ada@h1` {same}"),
            format!("node_ready new-3 `h3` {same}"),
        ]
    );
}

#[test]
fn infra_verbs_without_hosts_mean_all_hosts_of_the_set() {
    let fake = Fake::new(answers());
    for (words, wanted) in [
        (&["infra", "up", "lab"][..], "pull `` idle false"),
        (&["infra", "update", "lab"], "pull `always` idle true"),
        (
            &["infra", "update", "lab", "--now"],
            "pull `always` idle false",
        ),
    ] {
        let before = fake.requests().len();
        fake.ok(words);
        let asked = fake.requests().split_off(before);
        let ready = asked.iter().filter(|line| line.ends_with(wanted));
        assert_eq!(ready.count(), 2, "{words:?}: {asked:?}");
    }
    let ran = fake.run(&["infra", "update", "lob"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("hint: did you mean `lab`?"), "{}", ran.err);
}

#[test]
fn words_that_name_no_hosts_are_refused() {
    let fake = Fake::new(answers());
    for (words, told) in [
        (&["infra", "up", "box", "-a", "h1"][..], "`box` is a node"),
        (&["infra", "up", "a b", "-a", "h1"], "cannot be the name"),
        (&["infra", "up", "x"], "there is no set of hosts `x`"),
        (&["infra", "up", "x", "-a", ""], "no host is given"),
        (
            &["infra", "up", "x", "-f", "c.sh", "-a", "h1"],
            "cannot be used with",
        ),
        (
            &["infra", "up", "x", "-a", "h1", "--warden", "generic"],
            "needs the commands",
        ),
    ] {
        let ran = fake.run(words);
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
        assert!(ran.err.contains(told), "{words:?}: {}", ran.err);
    }
}

#[test]
fn a_set_is_put_away_with_its_default_named() {
    let fake = Fake::new(answers());
    let said = fake.ok(&["infra", "down", "lab", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["infra"], "lab");
    assert_eq!(said["hosts"][0]["name"], "lab-1");
    assert_eq!(said["hosts"][0]["error"], serde_json::Value::Null);
    let asked = fake.requests();
    assert!(
        asked.contains(&"node_put_away lab-1 of lab purge false".to_owned()),
        "{asked:?}"
    );
    let mut answers = answers();
    answers.nodes.default_node = "lab".into();
    let ran = Fake::new(answers).run(&["infra", "down", "lab"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("neroman config set default_node local"),
        "{}",
        ran.err
    );
}
