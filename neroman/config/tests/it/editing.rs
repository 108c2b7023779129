//! One thing changes, everything else stays as it was written.

use std::path::Path;

use nero_config::{Config, Edit, EditError};

fn path() -> &'static Path {
    Path::new("config.yaml")
}

fn add(name: &str, fields: &[(&str, &str)]) -> Edit {
    Edit::AddNode {
        name: name.to_owned(),
        fields: fields
            .iter()
            .map(|(word, value)| ((*word).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn remove(name: &str) -> Edit {
    Edit::RemoveNode {
        name: name.to_owned(),
    }
}

fn set(key: &str, value: &str) -> Edit {
    Edit::Set {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn check(edit: &Edit, before: &str, after: &str) {
    let got = edit.on(path(), before).unwrap_or_else(|error| {
        panic!("{edit:?} of\n{before}\n{error}: {:?}", error.hint());
    });
    assert_eq!(got, after, "{edit:?} of\n{before}");
}

fn refused(edit: &Edit, before: &str) -> EditError {
    match edit.on(path(), before) {
        Err(error) => error,
        Ok(after) => panic!("{edit:?} of\n{before}\ngave\n{after}"),
    }
}

#[test]
fn a_node_is_added_behind_the_last() {
    let edit = add("b", &[("address", "me@b"), ("memory", "16G")]);
    for (before, after) in [
        ("", "nodes:\n  b:\n    address: me@b\n    memory: 16G\n"),
        (
            "# mine",
            "# mine\nnodes:\n  b:\n    address: me@b\n    memory: 16G\n",
        ),
        (
            "default_node: local # here\n",
            "default_node: local # here\nnodes:\n  b:\n    address: me@b\n    memory: 16G\n",
        ),
        (
            "nodes: # all\ndefault_node: local\n",
            "nodes: # all\n  b:\n    address: me@b\n    memory: 16G\ndefault_node: local\n",
        ),
        (
            "nodes:\n  # first\n  a: {address: x}  # why\n\n# later\ngroups: {g: [a]}\n",
            "nodes:\n  # first\n  a: {address: x}  # why\n  b:\n    address: me@b\n    memory: 16G\n\n# later\ngroups: {g: [a]}\n",
        ),
        (
            "nodes:\n    a:\n        address: x",
            "nodes:\n    a:\n        address: x\n    b:\n      address: me@b\n      memory: 16G",
        ),
        (
            "nodes: {a: {address: x}} # one line\n",
            "nodes: {a: {address: x}, b: {address: me@b, memory: 16G}} # one line\n",
        ),
        (
            "nodes:\r\n  a: {address: x}\r\n",
            "nodes:\r\n  a: {address: x}\r\n  b:\r\n    address: me@b\r\n    memory: 16G\r\n",
        ),
    ] {
        check(&edit, before, after);
    }
}

#[test]
fn a_node_is_removed_with_its_own_lines_alone() {
    let edit = remove("a");
    for (before, after) in [
        (
            "nodes:\n  # about a\n  a: {address: x}\n  # about b\n  b:\n    address: y\n",
            "nodes:\n  # about a\n  # about b\n  b:\n    address: y\n",
        ),
        (
            "nodes:\n  b: {address: y}\n  a:\n    # inside\n    address: x\n\n    notes: |\n      long\n# end\n",
            "nodes:\n  b: {address: y}\n# end\n",
        ),
        ("nodes:\n  a: {address: x}\n# end\n", "nodes: {}\n# end\n"),
        (
            "nodes: {a: {address: x}, b: {address: y}}\n",
            "nodes: {b: {address: y}}\n",
        ),
    ] {
        check(&edit, before, after);
    }
}

#[test]
fn a_value_is_set_where_it_stands_or_behind() {
    check(
        &set("nodes.a.cpus", "8"),
        "nodes:\n  a:\n    address: x # here\n    cpus: 4  # few\n",
        "nodes:\n  a:\n    address: x # here\n    cpus: 8  # few\n",
    );
    check(
        &set("nodes.a.b.notes", "it's #1"),
        "nodes:\n  a.b: {address: x}\n",
        "nodes:\n  a.b: {address: x, notes: 'it''s #1'}\n",
    );
    check(
        &set("nodes.local.cpus", "2"),
        "# none\n",
        "# none\nnodes:\n  local:\n    cpus: 2\n",
    );
    check(
        &set("default_node", "a"),
        "nodes: {a: {address: x}}\n# which\ndefault_node: local # this\n",
        "nodes: {a: {address: x}}\n# which\ndefault_node: a # this\n",
    );
    let groups = "nodes: {a: {address: x}}\ngroups:\n  g:\n    - a\n    - local\n  h: [a]\n";
    check(
        &set("groups.h", "a, local"),
        groups,
        "nodes: {a: {address: x}}\ngroups:\n  g:\n    - a\n    - local\n  h: [a, local]\n",
    );
    let changed = set("groups.g", "[local]").on(path(), groups).unwrap();
    let config = Config::parse(path(), &changed).unwrap();
    assert_eq!(config.groups["g"].nodes, ["local"]);
    assert!(changed.ends_with("  h: [a]\n"), "{changed}");
}

#[test]
fn a_node_joins_and_leaves_a_group_with_its_own_lines_alone() {
    let member = |joins: bool, node: &str| {
        let (group, node) = ("lab".to_owned(), node.to_owned());
        if joins {
            Edit::JoinGroup { group, node }
        } else {
            Edit::LeaveGroup { group, node }
        }
    };
    let both = Edit::Several(vec![
        add("lab-1", &[("address", "h1")]),
        member(true, "lab-1"),
    ]);
    let one = "# mine\nnodes:\n  lab-1:\n    address: h1\ngroups:\n  lab: [lab-1]\n";
    check(&both, "# mine\n", one);
    check(&member(true, "lab-1"), one, one);
    check(
        &member(true, "local"),
        "nodes: {a: {address: x}}\ngroups:\n  lab: {nodes: [a], balance: off} # here\n",
        "nodes: {a: {address: x}}\ngroups:\n  lab: {nodes: [a, local], balance: off} # here\n",
    );
    check(&member(false, "local"), one, one);
    let away = Edit::Several(vec![member(false, "lab-1"), remove("lab-1")]);
    let left = away.on(path(), one).unwrap();
    let config = Config::parse(path(), &left).unwrap();
    assert!(
        config.groups.is_empty() && config.node("lab-1").is_none(),
        "{left}"
    );
    assert!(left.starts_with("# mine\n"), "{left}");
    let default = format!("{one}default_node: lab\n");
    refused(&away, &default);
}

#[test]
fn a_group_is_balanced_or_not_and_keeps_its_nodes() {
    let before = "nodes: {a: {address: x}}\ngroups:\n  g: [a, local] # both\n";
    let off = set("groups.g.balance", "off").on(path(), before).unwrap();
    let group = |text: &str| Config::parse(path(), text).unwrap().groups["g"].clone();
    assert_eq!(
        (group(&off).balance, group(&off).nodes),
        (false, group(before).nodes),
        "{off}"
    );
    let fewer = set("groups.g", "a").on(path(), &off).unwrap();
    assert_eq!(
        (group(&fewer).balance, group(&fewer).nodes),
        (false, vec!["a".to_owned()]),
        "{fewer}"
    );
    for word in ["on", ""] {
        let on = set("groups.g.balance", word).on(path(), &fewer).unwrap();
        assert!(group(&on).balance, "{on}");
    }
    let error = refused(&set("groups.g.balance", "maybe"), before).to_string();
    assert_eq!(error, "`groups.g.balance` takes on or off, not `maybe`");
    let error = refused(&set("groups.h.balance", "off"), before).to_string();
    assert_eq!(error, "there is no group `h`");
}

#[test]
fn a_value_that_is_not_valid_is_refused_in_words() {
    let lab = "nodes: {a: {address: x}}\ngroups: {g: [a]}\n";
    for (edit, before, expected) in [
        (
            add("a", &[("address", "y")]),
            lab,
            "`a` is there already (line 1 of the configuration)",
        ),
        (
            add("g", &[("address", "y")]),
            lab,
            "`g` is there already (line 2 of the configuration)",
        ),
        (
            add("any", &[("address", "y")]),
            lab,
            "`any` cannot be a node's name",
        ),
        (add("b", &[]), lab, "the node `b` has no address"),
        (
            add("b", &[("address", "y"), ("cpus", "x")]),
            lab,
            "`nodes.b.cpus` takes a number above zero",
        ),
        (
            add("b", &[("address", "-oX")]),
            lab,
            "`-oX` is no address of `ssh`",
        ),
        (
            remove("a"),
            lab,
            "the node `a` is named by the group `g` (line 2 of the configuration)",
        ),
        (
            remove("a"),
            "nodes: {a: {address: x}}\ndefault_node: a\n",
            "the node `a` is named by `default_node` (line 2 of the configuration)",
        ),
        (remove("b"), lab, "config.yaml has no node `b`"),
        (remove("local"), lab, "config.yaml has no node `local`"),
        (remove("g"), lab, "config.yaml has no node `g`"),
        (
            set("default_node", "b"),
            lab,
            "`default_node`: no node or group is named `b`",
        ),
        (set("nodes.b.cpus", "1"), lab, "there is no node `b`"),
        (
            set("nodes.a.colour", "red"),
            lab,
            "`colour` is no word of the configuration",
        ),
        (
            set("nodes.a.slots", "1"),
            lab,
            "not built yet: `nodes.a.slots`",
        ),
        (
            set("groups.g", "a b"),
            lab,
            "the group `g` names the unknown node `b`",
        ),
        (set("groups.h", ","), lab, "the group `h` is empty"),
        (set("nodes", "x"), lab, "there is no setting `nodes`"),
        (
            set("mail.relay", "x"),
            lab,
            "`mail` has neither `smtp` nor `sendmail`",
        ),
        (set("mail.smtp", "x"), lab, "`mail` has no sender"),
        (
            set("default_node", "local"),
            "colour: red\n",
            "`colour` is no word of the configuration (config.yaml:1:1)",
        ),
    ] {
        let error = refused(&edit, before);
        assert_eq!(error.to_string(), expected, "{edit:?}");
        assert!(error.hint().is_none_or(|hint| !hint.is_empty()), "{edit:?}");
    }
}

#[test]
fn a_setting_that_is_misspelt_is_suggested() {
    for (key, meant) in [("mail.smpt", "mail.smtp"), ("default-nod", "default_node")] {
        let hint = refused(&set(key, "x"), "").hint();
        assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{key}");
    }
}

#[test]
fn an_unsafe_edit_is_refused_with_the_line_to_type() {
    // The anchor would move into another node's line.
    let shared = "nodes:\n  a: &x {address: x}\n  b: *x\n";
    let error = refused(&remove("a"), shared);
    assert_eq!(
        error.hint().as_deref(),
        Some("edit it by hand: remove `nodes: a`")
    );
    // What is set here would change the other node, too.
    let error = refused(&set("nodes.a.cpus", "4"), shared);
    assert_eq!(
        error.hint().as_deref(),
        Some("edit it by hand: `cpus: 4` below `nodes: a:`")
    );
    // The file holds one value behind an alias.
    let merged = "nodes:\n  a: &x {address: x}\n  b:\n    <<: *x\n    address: y\n";
    check(
        &set("nodes.b.address", "z"),
        merged,
        "nodes:\n  a: &x {address: x}\n  b:\n    <<: *x\n    address: z\n",
    );
}

#[test]
fn an_empty_value_takes_away_what_is_set() {
    let file = "nodes:\n  a:\n    address: x # here\n    cpus: 2\ngroups:\n  g: [a] # one\n  h: [a]\ndefault_node: a\n";
    let table = [
        ("groups.g", "  g: [a] # one\n"),
        ("nodes.a.cpus", "    cpus: 2\n"),
        ("default_node", "default_node: a\n"),
    ];
    for (key, gone) in table {
        for empty in ["", " "] {
            check(&set(key, empty), file, &file.replace(gone, ""));
        }
    }
    let only = "nodes:\n  a:\n    address: x\ngroups:\n  g: [a]\n";
    let left = set("groups.g", "").on(path(), only).expect("it goes");
    let config = Config::parse(path(), &left).expect("it is read");
    assert!(config.groups.is_empty(), "{left}");
    for key in ["groups.i", "nodes.a.memory"] {
        let error = refused(&set(key, ""), file);
        assert!(error.to_string().contains("is not set"), "{key}: {error}");
    }
    let needed = refused(&set("nodes.a.address", ""), file);
    assert!(needed.to_string().contains("address"), "{needed}");
    let used = file.replace("default_node: a", "default_node: g");
    let error = refused(&set("groups.g", ""), &used);
    assert!(error.to_string().contains("default_node"), "{error}");
}

#[test]
fn words_for_a_scheduler_are_set_and_taken_away() {
    let before = "nodes:\n  a: # mine\n    address: x\n    warden: slurm # of the site\n";
    let after = "nodes:\n  a: # mine\n    address: x\n    warden: slurm # of the site\n    max_queued: 100\n";
    check(&set("nodes.a.max_queued", "100"), before, after);
    check(&set("nodes.a.max_queued", ""), after, before);
    let refused = refused(&set("nodes.a.queue", "all.q"), before);
    assert!(refused.to_string().contains("no word of `warden: slurm`"));
    assert!(refused.hint().unwrap().contains("`partition:`"));
}

/// Every key with a valid and an invalid value; the second is empty where every value is valid.
const KEYS: &[(&str, &str, &str)] = &[
    ("default_node", "local", "nowhere"),
    ("results_max", "10M", "lots"),
    ("results_min_free", "1G", "lots"),
    ("groups.both", "a, local", "a, nowhere"),
    ("groups.two.balance", "off", "maybe"),
    ("user.name", "Ada L.", ""),
    ("user.email", "ada@example.org", "ada"),
    ("mail.smtp", "smtp.example.org:587", "smtp:port"),
    ("mail.security", "tls", "perhaps"),
    ("mail.ca", "/etc/ca.pem", ""),
    ("mail.sendmail", "/usr/sbin/sendmail", ""),
    ("mail.from", "me@example.org", "me"),
    ("mail.relay", "a", "nowhere"),
    ("notify.events", "crashed, done", "crushed"),
    ("notify.to", "b@example.org", "b"),
    ("notify.digest", "8h", "often"),
    ("notify.quiet", "22:00-07:00", "at night"),
    ("notify.limit", "5", "few"),
    ("notify.webhook", "http://hooks.example.org/", "hooks"),
    ("notify.command", "./tell", ""),
    ("nodes.a.address", "me@there", ""),
    ("nodes.a.key", "~/.ssh/lab", "lab"),
    ("nodes.a.root", "/scratch/me", "here"),
    ("nodes.a.cpus", "8", "many"),
    ("nodes.a.memory", "64G", "much"),
    ("nodes.a.gpus", "[0, 2]", "[0, 2"),
    ("nodes.a.gpus", "4", "[x]"),
    ("nodes.a.min_free", "1G", "some"),
    ("nodes.a.shared", "true", "perhaps"),
    ("nodes.a.listen", "never", "often"),
    ("nodes.a.setup", "[module load a, 'export B=1']", "{a: b}"),
    ("nodes.a.notes", "[mine]: it's #1", ""),
    ("nodes.c.max_queued", "9", "x"),
    ("nodes.c.max_running", "9", "x"),
    ("nodes.c.partition", "gpu", "no such; name"),
    ("nodes.c.account", "lab", ""),
    ("nodes.c.exclusive", "true", "perhaps"),
    (
        "nodes.c.sbatch_args",
        "[--hint=nomultithread, --nice=5]",
        "{a: b}",
    ),
];

#[test]
fn every_key_can_be_set_and_a_wrong_value_changes_nothing() {
    let before = "# mine\nnodes:\n  # the box\n  a: {address: me@a}\n  c:\n    address: me@c # far\n    warden: slurm\ngroups:\n  two: [a, local]\nuser: {email: x@y.z} # me\n";
    let wrong: Vec<String> = KEYS
        .iter()
        .filter_map(|(key, good, bad)| {
            let with = match *key {
                "mail.security" | "mail.ca" | "mail.from" | "mail.relay" => {
                    set("mail.smtp", "s").on(path(), before).unwrap()
                }
                "notify.to" | "notify.digest" | "notify.quiet" | "notify.limit" => {
                    set("mail.smtp", "s").on(path(), before).unwrap()
                }
                _ => before.to_owned(),
            };
            match set(key, good).on(path(), &with) {
                Err(error) => return Some(format!("{key} {good}: {error}")),
                Ok(after) => {
                    for comment in ["# mine", "# the box", "# far", "# me"] {
                        if !after.contains(comment) {
                            return Some(format!("{key}: {comment} is gone: {after}"));
                        }
                    }
                }
            }
            if bad.is_empty() {
                return None;
            }
            match set(key, bad).on(path(), &with) {
                Ok(after) => Some(format!("{key} {bad} was taken: {after}")),
                Err(_) => None,
            }
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}
