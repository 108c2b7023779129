//! What a node must be for a run to go there.

use std::collections::BTreeMap;

use nero_expr::{ErrorKind, NodeFact, NodeScope, Requirement, Truth, Value};

use crate::run::context;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A node made by hand.
#[derive(Default)]
struct Box {
    facts: BTreeMap<NodeFact, Value<'static>>,
    probes: BTreeMap<&'static str, Value<'static>>,
}

/// Probes that requirements of tests may name.
const PROBES: [&str; 3] = ["has_env", "users", "silent"];

impl Box {
    fn lab() -> Self {
        let facts = [
            (NodeFact::Cpus, Value::number(16.0)),
            (NodeFact::CpusFree, Value::number(2.5)),
            (NodeFact::Gpumem, Value::number(8.0 * GIB)),
            (NodeFact::Load, Value::number(7.25)),
            (NodeFact::Os, Value::Text("linux")),
            (NodeFact::Arch, Value::Text("x86_64")),
            (NodeFact::Kernel, Value::Text("5.14.0-362.el9")),
            (NodeFact::Glibc, Value::Text("2.9")),
            (NodeFact::Name, Value::Text("box")),
            (NodeFact::Group, Value::Text("gpus lab")),
        ];
        let probes = [
            ("has_env", Value::Text("yes")),
            ("users", Value::Number(3.0, Some("3.0"))),
        ];
        Self {
            facts: facts.into(),
            probes: probes.into(),
        }
    }

    fn meets(&self, text: &str) -> Truth {
        require(text).check(self)
    }

    fn unmet(&self, text: &str) -> Vec<String> {
        let unmet = require(text).unmet(self);
        unmet.into_iter().map(|part| part.text).collect()
    }
}

impl NodeScope for Box {
    fn fact(&self, fact: NodeFact) -> Value<'_> {
        self.facts.get(&fact).copied().unwrap_or_default()
    }

    fn probe(&self, name: &str) -> Value<'_> {
        self.probes.get(name).copied().unwrap_or_default()
    }

    fn about_probe(&self, name: &str) -> String {
        if self.probes.contains_key(name) {
            " since 14:02".to_owned()
        } else {
            ": it did not end within 60s".to_owned()
        }
    }
}

fn require(text: &str) -> Requirement {
    match Requirement::parse(text, &context().with_probes(PROBES.into_iter())) {
        Ok(requirement) => requirement,
        Err(error) => panic!("{}", error.render(text)),
    }
}

#[test]
fn facts_of_nodes_are_compared_as_what_they_are() {
    let lab = Box::lab();
    for (text, truth) in [
        ("cpus >= 16 && cpus_free < 3", Truth::True),
        ("gpumem > 20G", Truth::False),
        ("gpumem == 8G", Truth::True),
        ("CPUs-Free > 2 && GPU_mem > 1", Truth::True),
        ("os == linux && arch != aarch64", Truth::True),
        ("arch = x86*", Truth::True),
        ("name =~ '^b.x$'", Truth::True),
        ("name == name", Truth::False),
        ("glibc < 2.17", Truth::True),
        ("2.17 > glibc", Truth::True),
        ("glibc == '2.9.0'", Truth::True),
        ("kernel >= 5.3", Truth::True),
        ("kernel >= '5.14.1'", Truth::False),
        ("kernel = 5.14*", Truth::True),
        ("glibc == musl", Truth::Unknown),
        ("group == gpus && group == lab", Truth::True),
        ("group != gpus", Truth::False),
        ("group != other", Truth::True),
        ("group = g*", Truth::True),
        ("group =~ '^lab$'", Truth::True),
        ("cpus_free / cpus < 0.2", Truth::True),
        ("!(load < 4) && true", Truth::True),
    ] {
        assert_eq!(lab.meets(text), truth, "{text}");
    }
}

#[test]
fn answers_to_probes_are_compared_as_numbers_or_as_text() {
    let lab = Box::lab();
    for (text, truth) in [
        ("has_env == yes && load < 8", Truth::True),
        ("has_env != yes", Truth::False),
        ("has_env = y*", Truth::True),
        ("has_env in (no, 'yes')", Truth::True),
        ("users == 3 && users < cpus", Truth::True),
        ("users < 2.5", Truth::False),
        ("users == cpus", Truth::False),
        ("has_env > 2", Truth::Unknown),
        ("silent == yes", Truth::Unknown),
        ("silent != yes", Truth::Unknown),
        ("!(silent == yes)", Truth::Unknown),
    ] {
        assert_eq!(lab.meets(text), truth, "{text}");
        let canonical = require(text).canonical();
        assert_eq!(require(&canonical), require(text), "{canonical}");
    }
    assert_eq!(
        lab.unmet("has_env == no && silent != yes && cpus > 1"),
        [
            "has_env == 'no' (has_env is 'yes' since 14:02)",
            "silent != 'yes' (silent is unknown: it did not end within 60s)"
        ]
    );
    assert!(
        require("cpus < 2 || users > 4")
            .unmet(&lab)
            .iter()
            .all(|one| !one.for_good)
    );
    assert_eq!(
        require("users > 1 && has_env == users").probes(),
        ["users", "has_env"]
    );
    for (text, says) in [
        ("has_evn == yes", "did you mean `has_env`?"),
        ("has_env", "is the answer to a probe, not a condition"),
    ] {
        let context = context().with_probes(PROBES.into_iter());
        let error = Requirement::parse(text, &context).unwrap_err().render(text);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_condition_on_an_unknown_fact_is_not_met() {
    let lab = Box::lab();
    for text in ["gpus >= 1", "disk_free > 1G", "gpus < 1", "live == 0"] {
        assert_eq!(lab.meets(text), Truth::Unknown, "{text}");
    }
    assert_eq!(lab.meets("gpus >= 1 || cpus > 1"), Truth::True);
    assert_eq!(Box::default().meets("group != gpus"), Truth::Unknown);
    assert_eq!(lab.unmet("gpus >= 1"), ["gpus >= 1 (gpus is unknown)"]);
}

#[test]
fn unmet_parts_are_shown_with_their_values() {
    let lab = Box::lab();
    assert_eq!(
        lab.unmet("gpumem > 20G && load < 4 && cpus > 1"),
        ["gpumem > 20G (gpumem is 8G)", "load < 4 (load is 7.25)"]
    );
    assert_eq!(
        lab.unmet("os == darwin || kernel >= 6"),
        ["(os == 'darwin') || (kernel >= 6) (os is 'linux', kernel is 5.14.0-362.el9)"]
    );
    assert_eq!(
        lab.unmet("group == big"),
        ["group == 'big' (group is gpus lab)"]
    );
    assert_eq!(
        lab.unmet("cpus_free / cpus > 0.5"),
        ["(cpus_free / cpus) > 0.5 (cpus_free is 2.5, cpus is 16)"]
    );
    assert_eq!(lab.unmet("cpus > 1"), [""; 0]);
    let mut alone = Box::default();
    alone.facts.insert(NodeFact::Group, Value::Text(""));
    assert_eq!(
        alone.unmet("group == big"),
        ["group == 'big' (group is none)"]
    );
}

#[test]
fn only_lasting_facts_are_unmet_for_good() {
    let lab = Box::lab();
    for (text, for_good) in [
        ("gpumem > 20G", true),
        ("arch == aarch64", true),
        ("load < 4", false),
        ("gpumem > 20G || load < 4", false),
        // The fact is not known yet.
        ("gpus >= 1", false),
    ] {
        let unmet = require(text).unmet(&lab);
        assert_eq!(unmet[0].for_good, for_good, "{text}");
    }
}

#[test]
fn canonical_texts_read_back() {
    for text in [
        "GPUmem>20G&&load<4",
        "os == linux || group != gpus",
        "kernel >= '5.14.1'",
        "name == cpus",
        "!(arch == aarch64)",
        "glibc >= 2.28 && name = box*",
    ] {
        let requirement = require(text);
        let again = require(&requirement.canonical());
        assert_eq!(again, requirement, "{text}");
        assert_eq!(again.canonical(), requirement.canonical(), "{text}");
    }
    assert_eq!(
        require("GPU-mem > 20G && load < 4").canonical(),
        "(gpumem > 20G) && (load < 4)"
    );
}

#[test]
fn mistakes_are_found_when_it_is_read() {
    for (text, place, message, hint) in [
        (
            "gpumen > 20G",
            "gpumen",
            "no fact of a node is called `gpumen`",
            "did you mean `gpumem`?",
        ),
        (
            "cpus > 1 && runtime > 2h",
            "runtime",
            "no fact of a node is called `runtime`",
            "facts of a node are cpus cpus_free",
        ),
        (
            "param.lr > 1",
            "param.lr",
            "no fact of a node",
            "facts of a node",
        ),
        (
            "param('a') > 1",
            "param",
            "no fact of a node",
            "facts of a node",
        ),
        ("`cpus` > 1", "`cpus`", "no fact of a node", ""),
        ("load > 2026-11-20", "2026-11-20", "no fact of a node", ""),
        ("now > 1", "now", "no fact of a node", ""),
        (
            "live",
            "live",
            "`live` is a number, not a condition",
            "compare it: `live > …`",
        ),
        ("cpus", "cpus", "`cpus` is a number, not a condition", ""),
        ("os > 3", "os > 3", "text and a number have no order", ""),
        (
            "kernel + 1 > 6",
            "kernel",
            "`kernel` is a version, not a number",
            "",
        ),
        ("os + 1 == 6", "os", "`os` is text, not a number", ""),
        (
            "memory = big",
            "= big",
            "`memory` is a number, `big` is not",
            "",
        ),
        (
            "load < 4 for 10m",
            "for 10m",
            "`for` here is not built yet",
            "",
        ),
    ] {
        let error = Requirement::parse(text, &context()).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error}");
        if error.kind != ErrorKind::Kind || message.contains("version") {
            assert_eq!(error.span.of(text), place, "{text}: {error}");
        }
        let given = error.hint.unwrap_or_default();
        assert!(given.contains(hint), "{text}: {given}");
    }
}

#[test]
fn the_facts_of_a_hostile_node_are_shown_as_text() {
    let mut node = Box::default();
    node.facts
        .insert(NodeFact::Kernel, Value::Text("6 (x\u{1b}[2J"));
    let unmet = node.unmet("kernel < 5");
    assert_eq!(unmet, ["kernel < 5 (kernel is '6 (x\u{1b}[2J')"]);
}
