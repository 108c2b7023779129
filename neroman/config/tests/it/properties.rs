//! Every edit of any file that a person may have written.

use std::path::Path;

use nero_config::{Config, Edit, LOCAL, Node, Place};
use proptest::prelude::*;

/// How a person wrote the file.
#[derive(Debug, Clone)]
struct Style {
    indent: usize,
    flow_nodes: bool,
    crlf: bool,
    last_line_end: bool,
    blank_lines: bool,
    groups_first: bool,
}

#[derive(Debug, Clone)]
struct Written {
    names: Vec<String>,
    /// For each name: whether it stands in brackets, and whether it has notes.
    shapes: Vec<(bool, bool)>,
    grouped: Vec<String>,
    style: Style,
}

fn written() -> impl Strategy<Value = Written> {
    let style = (1_usize..5, any::<[bool; 5]>()).prop_map(|(indent, flags)| Style {
        indent,
        flow_nodes: flags[0],
        crlf: flags[1],
        last_line_end: flags[2],
        blank_lines: flags[3],
        groups_first: flags[4],
    });
    let names = proptest::collection::btree_set("[a-z][a-z0-9._-]{0,6}", 0..6).prop_shuffle_names();
    (
        names,
        proptest::collection::vec(any::<(bool, bool, bool)>(), 6),
        style,
    )
        .prop_map(|(names, flags, style)| Written {
            grouped: names
                .iter()
                .zip(&flags)
                .filter(|(_, flag)| flag.2)
                .map(|(name, _)| name.clone())
                .collect(),
            shapes: flags.iter().map(|flag| (flag.0, flag.1)).collect(),
            names,
            style,
        })
}

/// Names in any order, none of them with a meaning of its own.
trait ShuffleNames {
    fn prop_shuffle_names(self) -> BoxedStrategy<Vec<String>>;
}

impl<S> ShuffleNames for S
where
    S: Strategy<Value = std::collections::BTreeSet<String>> + 'static,
{
    fn prop_shuffle_names(self) -> BoxedStrategy<Vec<String>> {
        self.prop_map(|names| {
            names
                .into_iter()
                .filter(|name| nero_config::check_name(name).is_ok() && !name.starts_with("grp"))
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
        .boxed()
    }
}

impl Written {
    fn text(&self) -> String {
        let pad = " ".repeat(self.style.indent);
        let mut nodes = String::new();
        if self.style.flow_nodes && !self.names.is_empty() {
            let inner: Vec<String> = self
                .names
                .iter()
                .map(|name| format!("{name}: {{address: at-{name}}}"))
                .collect();
            nodes.push_str(&format!("nodes: {{{}}} # all nodes\n", inner.join(", ")));
        } else {
            nodes.push_str("nodes: # all nodes\n");
            for (index, name) in self.names.iter().enumerate() {
                let (flow, notes) = self.shapes[index];
                nodes.push_str(&format!("{pad}# before {name}\n"));
                if flow {
                    nodes.push_str(&format!(
                        "{pad}{name}: {{address: at-{name}}} # beside {name}\n"
                    ));
                } else {
                    nodes.push_str(&format!("{pad}'{name}':\n{pad}{pad}address: at-{name}\n"));
                    if notes {
                        nodes
                            .push_str(&format!("{pad}{pad}notes: |\n{pad}{pad}  note of {name}\n"));
                    }
                }
                if self.style.blank_lines {
                    nodes.push('\n');
                }
            }
        }
        let groups = if self.grouped.is_empty() {
            "# no groups\n".to_owned()
        } else {
            format!("groups: {{grp: [{}]}} # groups\n", self.grouped.join(", "))
        };
        let body = if self.style.groups_first {
            format!("# head\n{groups}{nodes}# tail\n")
        } else {
            format!("# head\n{nodes}{groups}# tail\n")
        };
        let body = if self.style.last_line_end {
            body
        } else {
            body.trim_end().to_owned()
        };
        if self.style.crlf {
            body.replace('\n', "\r\n")
        } else {
            body
        }
    }
}

fn parse(text: &str) -> Config {
    Config::parse(Path::new("config.yaml"), text).unwrap()
}

const NOWHERE: Place = Place { line: 0, column: 0 };

/// The configuration apart from where it stands, and the order of its nodes.
fn meaning(config: &Config) -> (Vec<String>, Config) {
    let mut config = config.clone();
    for node in config.nodes.values_mut() {
        node.place = None;
        node.fields.values_mut().for_each(|place| *place = NOWHERE);
    }
    for group in config.groups.values_mut() {
        group.place = NOWHERE;
        group.nodes_place = group.nodes_place.map(|_| NOWHERE);
        group.balance_place = group.balance_place.map(|_| NOWHERE);
    }
    (config.nodes.keys().cloned().collect(), config)
}

/// Every line of `before` but those that speak of `name` is in `after`, in order.
fn other_lines_stay(before: &str, after: &str, touched: impl Fn(&str) -> bool) -> bool {
    let mut after = after.split('\n');
    before
        .split('\n')
        .filter(|line| !line.trim().is_empty() && !touched(line))
        .all(|line| after.any(|other| other.trim_end_matches('\r') == line.trim_end_matches('\r')))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn adding_changes_nothing_else(file in written(), notes in "[ -~]{1,20}") {
        prop_assume!(!notes.trim().is_empty());
        let before = file.text();
        let edit = Edit::AddNode {
            name: "fresh".to_owned(),
            fields: vec![
                ("address".to_owned(), "me@fresh".to_owned()),
                ("notes".to_owned(), notes.clone()),
            ],
        };
        if file.names.contains(&"fresh".to_owned()) {
            return Ok(());
        }
        let after = edit.on(Path::new("config.yaml"), &before).unwrap();
        let mut expected = parse(&before);
        let fields = ["address", "notes"];
        expected.nodes.insert("fresh".to_owned(), Node {
            address: Some("me@fresh".to_owned()),
            notes: Some(notes),
            fields: fields.map(|word| (word, NOWHERE)).into(),
            ..Node::default()
        });
        prop_assert_eq!(meaning(&parse(&after)), meaning(&expected));
        let one_line = file.style.flow_nodes && !file.names.is_empty();
        let touched = |line: &str| one_line && line.starts_with("nodes:");
        prop_assert!(other_lines_stay(&before, &after, touched), "{}\n{}", before, after);
        prop_assert_eq!(after.contains('\r'), file.style.crlf);
    }

    #[test]
    fn removing_takes_that_node_alone(file in written(), index in any::<prop::sample::Index>()) {
        if file.names.is_empty() {
            return Ok(());
        }
        let name = index.get(&file.names).clone();
        let before = file.text();
        let edit = Edit::RemoveNode { name: name.clone() };
        let outcome = edit.on(Path::new("config.yaml"), &before);
        if file.grouped.contains(&name) {
            prop_assert!(outcome.is_err());
            return Ok(());
        }
        let after = outcome.unwrap();
        let mut expected = parse(&before);
        expected.nodes.shift_remove(&name);
        prop_assert_eq!(meaning(&parse(&after)), meaning(&expected));
        let own = [
            format!("{name}: {{"), format!("'{name}':"), format!("note of {name}"),
        ];
        let touched = |line: &str| {
            let line = line.trim();
            line.starts_with("nodes:")
                || line == format!("address: at-{name}")
                || line == "notes: |"
                || own.iter().any(|own| line == own || line.starts_with(&own[..]) && own.ends_with('{'))
        };
        prop_assert!(other_lines_stay(&before, &after, touched), "{}\n{}", before, after);
    }

    #[test]
    fn setting_changes_one_value(file in written(), cpus in 1_u32..999) {
        let before = file.text();
        for name in file.names.iter().map(String::as_str).chain([LOCAL]) {
            let edit = Edit::Set {
                key: format!("nodes.{name}.cpus"),
                value: cpus.to_string(),
            };
            let after = edit.on(Path::new("config.yaml"), &before).unwrap();
            let mut expected = parse(&before);
            if name == LOCAL {
                // It moves to where it now stands.
                expected.nodes.shift_remove(LOCAL);
            }
            let node = expected.nodes.entry(name.to_owned()).or_default();
            node.cpus = Some(f64::from(cpus));
            node.fields.insert("cpus", NOWHERE);
            prop_assert_eq!(meaning(&parse(&after)), meaning(&expected));
        }
    }

    #[test]
    fn no_text_makes_it_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("nodes:"), Just("groups:"), Just("default_node: local"), Just("\n"), Just("\n  "),
                Just("a:"), Just(" {address: x}"), Just("address: x"), Just("&x "), Just("*x"),
                Just("<<: "), Just("{"), Just("}"), Just("["), Just("]"), Just(", "), Just("# c"),
                Just("'"), Just("\""), Just("|\n"), Just("? "), Just("---\n"), Just("\t"), Just("\r\n"),
                Just("ä"), Just("!t "), Just("\u{feff}"), Just("%YAML 1.2\n"),
            ],
            0..14,
        ),
    ) {
        let text = parts.concat();
        let path = Path::new("config.yaml");
        let _ = Config::parse(path, &text);
        for edit in [
            Edit::RemoveNode { name: "a".to_owned() },
            Edit::Set { key: "nodes.a.cpus".to_owned(), value: "2".to_owned() },
            Edit::Set { key: "default_node".to_owned(), value: "local".to_owned() },
        ] {
            if let Ok(after) = edit.on(path, &text) {
                prop_assert!(Config::parse(path, &after).is_ok(), "{:?}\n{}", text, after);
            }
        }
    }
}
