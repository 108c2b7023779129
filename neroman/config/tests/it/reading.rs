//! Reading the file, and the texts of its mistakes.

use std::path::Path;

use nero_config::{Config, ConfigError, LOCAL, Listen, Place, Target};

fn read(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("config.yaml"), text).map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_means_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Config::read(&folder.path().join("config.yaml")).unwrap();
    assert_eq!(missing, Config::default());
    for text in [
        "",
        "# nothing\n",
        "nodes:\n",
        "nodes: {}\ngroups:\n",
        "\u{feff}---\n",
        "nodes: {box: {address: b}}\n",
    ] {
        let config = read(text).unwrap();
        assert!(config.node(LOCAL).is_some(), "{text}");
        assert_eq!(config.default_target(), LOCAL, "{text}");
    }
}

#[test]
fn everything_that_is_built_is_read() {
    let config = read(
        "default_node: gpus\n\
         nodes:\n\
         \x20 triton:\n\
         \x20   address: ssh://me@triton.example.org:2222\n\
         \x20   root: $WRKDIR/neronet\n\
         \x20   cpus: 1.5\n\
         \x20   memory: 4G\n\
         \x20   min_free: 1024\n\
         \x20   shared: true\n\
         \x20   listen: never\n\
         \x20   notes: [ask Anna, 'room 3']\n\
         \x20 local: {cpus: 2, gpus: [0, 2], notes: this one}\n\
         \x20 box: {address: box}\n\
         groups: {gpus: [triton, box], one: box, still: {nodes: [box], balance: off}}\n",
    )
    .unwrap();
    let names: Vec<&String> = config.nodes.keys().collect();
    assert_eq!(
        names,
        ["triton", "local", "box"],
        "in the order of the file"
    );
    let triton = config.node("triton").unwrap();
    let address = Some("ssh://me@triton.example.org:2222");
    assert_eq!(triton.address.as_deref(), address);
    assert_eq!(triton.root.as_deref(), Some("$WRKDIR/neronet"));
    assert_eq!(triton.cpus, Some(1.5));
    assert_eq!(triton.memory_bytes, Some(4 << 30));
    assert_eq!(triton.min_free_bytes, Some(1024));
    assert_eq!(triton.shared, Some(true));
    assert_eq!(triton.listen, Listen::Never);
    assert_eq!(triton.notes.as_deref(), Some("[ask Anna, 'room 3']"));
    assert_eq!(triton.place, Some(Place { line: 3, column: 3 }));
    assert_eq!(triton.fields["memory"], Place { line: 7, column: 5 });
    let local = config.local();
    assert_eq!((local.cpus, local.address.as_ref()), (Some(2.0), None));
    assert_eq!(local.notes.as_deref(), Some("this one"));
    assert_eq!(local.gpus.as_deref(), Some("[0,2]"));
    assert_eq!(config.groups["gpus"].nodes, ["triton", "box"]);
    assert_eq!(config.groups["one"].nodes, ["box"]);
    assert_eq!(
        config.groups_of("box").collect::<Vec<_>>(),
        ["gpus", "one", "still"]
    );
    let balanced = [
        ("gpus", true),
        ("one", true),
        ("still", false),
        ("any", false),
        ("box", false),
    ];
    for (word, balanced) in balanced {
        assert_eq!(config.balances(word, "box"), balanced, "{word}");
    }
    assert!(config.balances("any", "triton"), "no group of it is off");
    assert_eq!(config.default_target(), "gpus");
}

#[test]
fn anchors_and_merge_keys_are_followed() {
    let config = read(
        "nodes:\n\
         \x20 a: &base {address: a, cpus: 4, memory: 1G}\n\
         \x20 b: {<<: *base, address: b, cpus: 2}\n",
    )
    .unwrap();
    let b = config.node("b").unwrap();
    assert_eq!(b.address.as_deref(), Some("b"));
    assert_eq!((b.cpus, b.memory_bytes), (Some(2.0), Some(1 << 30)));
}

#[test]
fn mistakes_have_their_place() {
    for (text, expected) in [
        (
            "defaults: {cpus: 1}\n",
            "`cpus` is no field of an experiment (config.yaml:1:12)",
        ),
        (
            "nodes: {local: {gpus: two}}\n",
            "`nodes.local.gpus` is a number of GPUs, or a list of their numbers (config.yaml:1:23)",
        ),
        (
            "nodes: {local: {slots: 2}}\n",
            "not built yet: `nodes.local.slots` (config.yaml:1:17)",
        ),
        (
            "nodes: {local: {root: /x}}\n",
            "not built yet: `nodes.local.root` (config.yaml:1:23)",
        ),
        (
            "nodes: {box: {address: b, warden: pbs}}\n",
            "`nodes.box.warden`",
        ),
        (
            "nodes: {local: {address: me@here}}\n",
            "`local` is this machine and has no address",
        ),
        (
            "nodes:\n  triton: {cpus: 1}\n",
            "the node `triton` has no address (config.yaml:2:3)",
        ),
        ("nodes: {box:}\n", "the node `box` has no address"),
        (
            "nodes: {box: {address: -oProxyCommand=x}}\n",
            "`-oProxyCommand=x` is no address of `ssh` (config.yaml:1:24)",
        ),
        ("nodes: {box: {address: a b}}\n", "`a b` is no address"),
        (
            "nodes: {box: {address: \"a\\eb\"}}\n",
            "`a\\u{1b}b` is no address",
        ),
        (
            "nodes: {box: {address: [b]}}\n",
            "`nodes.box.address` takes a single text, not a list",
        ),
        (
            "nodes: {box: {address: b, root: work}}\n",
            "`nodes.box.root` takes a folder, not `work`",
        ),
        (
            "nodes: {local: {memory: much}}\n",
            "`nodes.local.memory`: `much` is not a number",
        ),
        (
            "nodes: {local: {cpus: 0}}\n",
            "`nodes.local.cpus` takes a number above zero (config.yaml:1:23)",
        ),
        (
            "nodes: {local: {cpus: .nan}}\n",
            "takes a number above zero",
        ),
        (
            "nodes: {local: {shared: maybe}}\n",
            "`nodes.local.shared` takes true or false",
        ),
        (
            "nodes: {local: {listen: always}}\n",
            "`nodes.local.listen` takes auto or never",
        ),
        ("nodes: [a]\n", "`nodes` takes a map, not a list"),
        (
            "- a\n",
            "`config.yaml` takes a map, not a list (config.yaml:1:1)",
        ),
        (
            "nodes: {12: {address: b}}\n",
            "`12` cannot be a node's name: a name of digits alone means an experiment",
        ),
        (
            "nodes: {any: {address: b}}\n",
            "`any` cannot be a node's name: `any` means something else",
        ),
        (
            "groups: {local: [local]}\n",
            "`local` cannot be a group's name: `local` is always this machine",
        ),
        (
            "nodes: {box: {address: b}}\ngroups: {box: [box]}\n",
            "`box` is a node and a group (config.yaml:2:10)",
        ),
        (
            "groups: {g: [local, bax]}\n",
            "the group `g` names the unknown node `bax` (config.yaml:1:21)",
        ),
        (
            "groups: {g: [local], h: [g]}\n",
            "the group `h` names `g`, no node (config.yaml:1:26)",
        ),
        ("groups: {g: [g]}\n", "the group `g` names `g`, no node"),
        ("groups: {g: [any]}\n", "the group `g` names `any`, no node"),
        (
            "groups: {g: [local, local]}\n",
            "`local` is twice in the group `g`",
        ),
        ("groups: {g: []}\n", "the group `g` is empty"),
        (
            "groups: {g: {local: 1, nodes: [local]}}\n",
            "`local` is no word of the configuration (config.yaml:1:14)",
        ),
        (
            "groups: {g: {balance: off}}\n",
            "the group `g` takes a list",
        ),
        (
            "groups: {g: {nodes: [local], balance: never}}\n",
            "`groups.g.balance` takes on or off, not `never`",
        ),
        (
            "default_node: triton\n",
            "`default_node`: no node or group is named `triton` (config.yaml:1:15)",
        ),
        (
            "default_node: [local]\n",
            "`default_node` takes a single text, not a list",
        ),
        (
            "default_node: a\ndefault_node: b\n",
            "`default_node` is given twice",
        ),
        (
            "nodes: !!map {}\n",
            "`!!map` is a YAML tag (config.yaml:1:8)",
        ),
        ("nodes: {\n", "this is not YAML"),
        ("---\n---\n", "a second document begins here"),
        ("? [a]\n: b\n", "a key is text, not a list"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_near_word_is_suggested() {
    for (text, expected) in [
        ("node: {}\n", "did you mean `nodes`?"),
        ("nodes: {local: {cpu: 1}}\n", "did you mean `cpus`?"),
        (
            "nodes: {local: {min-free: 1G}}\n",
            "did you mean `min_free`?",
        ),
        (
            "colour: red\n",
            "known are nodes, groups, default_node, results_max, results_min_free, user, mail, notify, defaults",
        ),
        (
            "nodes: {triton: {address: t}}\ndefault_node: tritom\n",
            "did you mean `triton`?",
        ),
        (
            "nodes: {triton: {address: t}}\ngroups: {g: [tritom]}\n",
            "did you mean `triton`?",
        ),
        (
            "default_node: gpubox\n",
            "known are local; `neroman node add NAME ADDRESS` adds one",
        ),
    ] {
        let error = Config::parse(Path::new("config.yaml"), text).unwrap_err();
        assert_eq!(error.hint(), Some(expected), "{text}: {error}");
    }
}

#[test]
fn all_mistakes_are_said_at_once_in_the_order_of_the_file() {
    let error = read(
        "colour: red\n\
         nodes:\n\
         \x20 box: {address: b, cpus: none}\n\
         \x20 any: {address: b}\n\
         groups: {g: [nobody]}\n\
         mail: {}\n",
    )
    .unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[0], "config.yaml has 5 mistakes");
    let places = ["(config.yaml:1:1)", ":3:27)", ":4:3)", ":5:14)", ":6:1)"];
    assert_eq!(lines.len(), places.len() + 1, "{error}");
    for (line, place) in lines[1..].iter().zip(places) {
        assert!(line.contains(place), "{line}: {place}");
    }
}

#[test]
fn of_very_many_mistakes_the_first_hundred_are_listed() {
    let text: String = (0..150).map(|n| format!("colour{n}: red\n")).collect();
    let error = read(&text).unwrap_err();
    assert!(
        error.starts_with("config.yaml has more than 100 mistakes\n"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 101, "{error}");
}

#[test]
fn bombs_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        text.push_str(&format!("a{level}: &a{level} [{before} x]\n"));
    }
    assert!(read(&text).unwrap_err().contains("more than"));
    let deep = format!("nodes: {}", "[".repeat(10_000));
    assert!(read(&deep).unwrap_err().contains("this is not YAML"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
    let error = Config::read(&path).unwrap_err();
    assert!(matches!(error, ConfigError::TooLarge { .. }), "{error}");
    std::fs::write(&path, [0xff, b'\n']).unwrap();
    let error = Config::read(&path).unwrap_err();
    assert!(matches!(error, ConfigError::Read { .. }), "{error}");
}

#[test]
fn words_name_nodes_groups_and_any() {
    let config =
        read("nodes: {b: {address: x}, a: {address: y}}\ngroups: {g: [a, local]}\n").unwrap();
    assert_eq!(config.resolve("b"), Ok(Target::Node("b".to_owned())));
    assert_eq!(config.resolve("local").unwrap().nodes(), ["local"]);
    assert_eq!(config.resolve("g").unwrap().nodes(), ["a", "local"]);
    assert_eq!(config.resolve("any").unwrap().nodes(), ["local", "b", "a"]);
    let error = config.resolve("\u{1b}c").unwrap_err();
    assert_eq!(error.to_string(), "no node or group is named `\\u{1b}c`");
    assert!(
        error.hint.starts_with("known are local, b, a, g;"),
        "{error:?}"
    );
}

#[test]
fn a_node_with_a_scheduler_says_what_its_runs_ask() {
    let config = read(
        "nodes:\n\
         \x20 triton:\n\
         \x20   address: t\n\
         \x20   warden: slurm\n\
         \x20   max_queued: 400\n\
         \x20   max_running: 20\n\
         \x20   partition: batch\n\
         \x20   account: lab\n\
         \x20   constraint: ib&avx2\n\
         \x20   setup: [module load cuda, 'export A=1']\n\
         \x20   sbatch_args: --reservation r --licenses=x\n",
    )
    .unwrap();
    let node = config.node("triton").unwrap();
    let words = "--warden slurm --max-queued 400 --max-running 20";
    assert_eq!(node.warden_words().join(" "), words);
    let asks = &node.asks;
    assert_eq!(asks.partition.on("x").map(String::as_str), Some("batch"));
    assert_eq!(asks.account.on("x").map(String::as_str), Some("lab"));
    assert_eq!(asks.constraint.on("x").map(String::as_str), Some("ib&avx2"));
    assert_eq!(asks.setup.on("x").unwrap()[1], "export A=1");
    let options = ["--reservation=r", "--licenses=x"];
    assert_eq!(asks.sbatch_args.on("x").unwrap(), &options);
    assert!(config.local().warden_words().is_empty());
}

#[test]
fn words_that_a_nodes_scheduler_does_not_have_are_refused_with_the_one_to_use() {
    for (node, said) in [
        (
            "partition: batch",
            "`nodes.b.partition` is for a node with a scheduler (config.yaml:1:25)",
        ),
        ("max_queued: 5", "is for a node with a scheduler"),
        (
            "warden: oge, partition: batch",
            "`nodes.b.partition` is no word of `warden: oge` (config.yaml:1:38)",
        ),
        ("warden: oge, sbatch_args: --x=1", "`qsub_args:`"),
        ("warden: slurm, queue: all.q", "`partition:`"),
        ("warden: slurm, parallel_env: smp", "SLURM gives CPUs"),
        ("warden: slurm, sbatch_args: --time=5", "use `time:`"),
        ("warden: slurm, sbatch_args: [--output=x]", "`neroman logs`"),
        (
            "warden: slurm, partition: 'a;b'",
            "is no name of a scheduler",
        ),
        ("warden: slurm, max_queued: 0", "above zero"),
        ("warden: slurm, max_running: many", "above zero"),
        ("warden: slurm, partitoin: x", "did you mean `partition`?"),
    ] {
        let text = format!("nodes: {{b: {{address: b, {node}}}}}\n");
        let refused = Config::parse(Path::new("config.yaml"), &text).unwrap_err();
        let shown = match &refused {
            ConfigError::Mistakes { mistakes, .. } => {
                let hints = mistakes.list.iter().map(|one| one.hint.clone());
                format!("{refused} {}", hints.collect::<Vec<_>>().join(" "))
            }
            other => panic!("{other}"),
        };
        assert!(shown.contains(said), "{node}: {shown}");
    }
}
