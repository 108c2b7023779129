//! Where a run may go and what it finds there.

use crate::{commands, load, named, report};
use nero_format::{DataPath, Definition, SourceText};
use nero_model::data;

fn text(placed: Option<&SourceText>) -> Option<&str> {
    placed.map(|placed| placed.text.as_str())
}

/// What a definition makes of its environment on a node.
fn env(definition: &Definition) -> Vec<(&str, String)> {
    let shown = |value: &Option<String>| data::display_text(value.as_deref().unwrap_or("unset"));
    definition
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), shown(value)))
        .collect()
}

/// Where the data of an experiment lies on a node, or the first that has no path there.
fn data_on<'d>(definition: &'d Definition, node: &str) -> Result<Vec<(&'d str, &'d str)>, &'d str> {
    let paths = definition.data.iter().map(|data| {
        let path = data.path_on(node).ok_or(data.name.as_str())?;
        Ok((data.name.as_str(), path))
    });
    paths.collect()
}

#[test]
fn node_and_requirement_are_kept_with_their_place() {
    let loaded = load(
        "node: triton\nrequires: GPU-mem > 20G && load < 4\n+a: {command: prog}\n+b:\n  command: prog\n  node: any\n  requires: null\n",
    );
    let a = named(&loaded, "a");
    assert_eq!(text(a.node.as_ref()), Some("triton"));
    assert_eq!(
        a.node
            .as_ref()
            .unwrap()
            .place
            .to_string()
            .split_once(':')
            .unwrap()
            .1,
        "1:7"
    );
    let requires = a.requires.as_ref().unwrap();
    assert_eq!(requires.text, "(gpumem > 20G) && (load < 4)");
    assert_eq!((requires.place.line, requires.place.column), (2, 11));
    assert_eq!(*a.not_built, []);
    let b = named(&loaded, "b");
    assert_eq!(text(b.node.as_ref()), Some("any"));
    assert_eq!(b.requires, None);
}

#[test]
fn a_mistake_in_a_requirement_has_its_caret() {
    let said = report("+a:\n  command: prog\n  requires: load < 4 && gpumen > 20G\n");
    assert!(
        said.contains("no fact of a node is called `gpumen`"),
        "{said}"
    );
    assert!(said.contains("config.yaml:3:25"), "{said}");
    assert!(said.contains("hint: did you mean `gpumem`?"), "{said}");
    let line = "   3 |   requires: load < 4 && gpumen > 20G\n     |                         ^";
    assert!(said.contains(line), "{said}");
    for (yaml, expected) in [
        (
            "requires: runtime > 2h",
            "no fact of a node is called `runtime`",
        ),
        ("requires: memory", "`memory` is a number, not a condition"),
        (
            "requires: [load < 4]",
            "`requires` takes a single text, not a list",
        ),
        ("requires: ''", "the expression is empty"),
        ("node: [a, b]", "`node` takes a single text, not a list"),
        ("node: a b", "`a b` is no name of a node or a group"),
        ("node: ''", "`` is no name of a node or a group"),
        (
            "checkpoint: ../x",
            "`../x` of `checkpoint` lies outside of the folder",
        ),
        ("checkpoint: '['", "`[` is no glob"),
        ("resources: {disk: much}", "`disk`: `much` is not a number"),
        ("resources: {disk: 0}", "`disk` is zero"),
    ] {
        let said = report(&format!("+a:\n  command: prog\n  {yaml}\n"));
        assert!(said.contains(expected), "{yaml}: {said}");
        assert!(said.contains("config.yaml:3:"), "{yaml}: {said}");
    }
}

#[test]
fn checkpoints_and_disk_are_read() {
    let loaded = load(
        "+a: {command: prog, checkpoint: 'ckpt/*.pt', resources: {disk: 20G}}\n+b: {command: prog, checkpoint: [a.pt, b/]}\n",
    );
    let a = named(&loaded, "a");
    assert_eq!(*a.checkpoint, ["ckpt/*.pt"]);
    assert_eq!(a.resources.disk_bytes, Some(20 << 30));
    let b = named(&loaded, "b");
    assert_eq!(*b.checkpoint, ["a.pt", "b/"]);
    assert_eq!(b.resources.disk_bytes, None);
}

#[test]
fn each_resource_is_given_for_all_nodes_or_for_each() {
    let loaded = load(
        "+a:\n  command: prog\n  resources:\n    cpus: {triton: 8, local: 0.5}\n    \
         memory: {triton: 64G, default: 4G}\n    time: {triton: 2h}\n    disk: 1G\n",
    );
    let resources = &named(&loaded, "a").resources;
    let on = |node| {
        let there = resources.on(node);
        (
            there.cpus,
            there.memory_bytes,
            there.time_ms,
            there.disk_bytes,
        )
    };
    let disk = Some(1 << 30);
    assert_eq!(on("triton"), (8.0, Some(64 << 30), Some(7_200_000), disk));
    assert_eq!(on("local"), (0.5, Some(4 << 30), None, disk));
    assert_eq!(on("box"), (1.0, Some(4 << 30), None, disk));
    let named = resources.on_nodes.named_nodes();
    let wanted = [
        ("cpus", "triton"),
        ("cpus", "local"),
        ("memory", "triton"),
        ("time", "triton"),
    ];
    assert_eq!(named, wanted);
    for (value, said) in [
        (
            "cpus: {triton: many}",
            "`cpus.triton` takes a number above zero",
        ),
        ("time: {triton: 0}", "`time.triton` is zero"),
        ("memory: {triton: {a: 1}}", "`memory.triton`"),
        ("disk: [1G, 2G]", "`disk`"),
    ] {
        let text = report(&format!("+a:\n  command: prog\n  resources: {{{value}}}\n"));
        assert!(text.contains(said), "{value}: {text}");
    }
}

#[test]
fn data_is_inherited_key_by_key_and_found_by_node() {
    let loaded = load(
        "command: prog\n\
         data:\n  corpus: {triton: $WRKDIR/corpus, default: ~/corpus}\n  \
         words: /usr/share/dict/words\n\
         +a: {}\n\
         +b:\n  data: {words: null, extra: {box: /x}}\n\
         +c: {data: null}\n",
    );
    let a = named(&loaded, "a");
    assert_eq!(
        data_on(a, "triton"),
        Ok(vec![
            ("corpus", "$WRKDIR/corpus"),
            ("words", "/usr/share/dict/words")
        ])
    );
    assert_eq!(data_on(a, "box").unwrap()[0], ("corpus", "~/corpus"));
    let b = named(&loaded, "b");
    assert_eq!(data_on(b, "triton"), Err("extra"));
    assert_eq!(
        data_on(b, "box"),
        Ok(vec![("corpus", "~/corpus"), ("extra", "/x")])
    );
    let extra = DataPath {
        node: Some("box".to_owned()),
        path: "/x".to_owned(),
    };
    assert_eq!(b.data[1].paths, [extra]);
    assert_eq!(*named(&loaded, "c").data, []);
}

#[test]
fn places_of_data_stay_until_the_node_is_known() {
    let loaded = load(
        "+a:\n\
         \x20 command: prog --in={data.corpus}/{x} '{data.my-set} {{y}}'\n\
         \x20 parameters: {x: [1, 2]}\n\
         \x20 data: {corpus: /c, my-set: {box: '/my sets/a'}}\n\
         \x20 env: {CORPUS: '{data.corpus}:$HOME', JSON: '{\"a\": 1}', OLD: null}\n",
    );
    let first = named(&loaded, "a_x-1");
    let marked = [
        "prog".to_owned(),
        format!("--in={}/1", data::place("corpus")),
        format!("{} {{y}}", data::place("my-set")),
    ];
    assert_eq!(first.argv, marked);
    assert_eq!(
        first.command_text,
        "prog '--in={data.corpus}/1' '{data.my-set} {y}'"
    );
    assert_eq!(
        env(first),
        [
            ("CORPUS", "{data.corpus}:$HOME".to_owned()),
            ("JSON", "{\"a\": 1}".to_owned()),
            ("OLD", "unset".to_owned()),
        ]
    );
    let on_box = data_on(first, "box").unwrap();
    let lies = |name: &str| {
        on_box
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, path)| *path)
    };
    assert_eq!(
        data::fill(&first.argv[2], lies).as_deref(),
        Ok("/my sets/a {y}")
    );
}

#[test]
fn the_original_s_format_knows_data_too() {
    let loaded = load(
        "+a:\n\
         \x20 run_command_prefix: python3\n\
         \x20 main_code_file: main.py\n\
         \x20 parameters_format: '{x} --data {data.corpus}'\n\
         \x20 parameters: {x: 1}\n\
         \x20 data: {corpus: '/with blank/c'}\n",
    );
    assert_eq!(
        commands(&loaded),
        [format!(
            "python3|main.py|1|--data|{}",
            data::place("corpus")
        )]
    );
}

#[test]
fn a_program_may_lie_in_data() {
    let loaded = load("+a: {command: '{data.tools}/bin/prog x', data: {tools: /opt}}\n");
    assert_eq!(
        commands(&loaded),
        [format!("{}/bin/prog|x", data::place("tools"))]
    );
}

#[test]
fn mistakes_in_data_have_their_place() {
    for (yaml, expected, hint) in [
        (
            "command: prog {data.corpsu}",
            "`data.corpsu` names no parameter",
            "did you mean `data.corpus`?",
        ),
        (
            "command: prog\n  env: {A: 'x{data.other}'}",
            "`data.other` names no data",
            "`data` has `corpus`",
        ),
        (
            "command: prog\n  data: {a b: /x}",
            "`a b` is no name for data",
            "",
        ),
        (
            "command: prog\n  data: {x: here}",
            "`here` is no place on a node",
            "`files`",
        ),
        (
            "command: prog\n  data: {x: {box: ../x}}",
            "`../x` is no place on a node",
            "",
        ),
        (
            "command: prog\n  data: {x: {}}",
            "no path is given for the data `x`",
            "",
        ),
        (
            "command: prog\n  data: {x: [/a]}",
            "`data.x` takes a single text, not a list",
            "",
        ),
        (
            "command: prog\n  data: /x",
            "`data` takes a map",
            "data: {corpus:",
        ),
    ] {
        let said = report(&format!("data: {{corpus: /c}}\n+a:\n  {yaml}\n"));
        assert!(said.contains(expected), "{yaml}: {said}");
        assert!(said.contains(hint), "{yaml}: {said}");
    }
    let said = report("+a: {command: 'prog {data.corpus}'}\n");
    assert!(
        said.contains("say where it lies: `data: {corpus:"),
        "{said}"
    );
}

#[test]
fn private_characters_are_refused_wherever_they_stand() {
    for yaml in [
        "command: \"prog \\uE0D0x\\uE0D1\"",
        "command: [prog, \"\\uE0D0\"]",
        "command: prog {x}\n  parameters: {x: \"\\uE0D1\"}",
        "command: prog\n  parameters: {\"\\uE0D1\": 1}",
        "command: prog\n  env: {A: \"\\uE0D0corpus\\uE0D1\"}",
        "command: prog\n  data: {x: \"/\\uE0D0\"}",
    ] {
        let said = report(&format!("+a:\n  {yaml}\n"));
        assert!(said.contains("U+E0D0 or U+E0D1"), "{yaml}: {said}");
    }
}

#[test]
fn stored_definitions_stay_readable_and_equal() {
    let plain = load("+a: {command: prog}\n").definitions.remove(0);
    let json = serde_json::to_value(&plain).unwrap();
    for field in ["node", "requires", "data", "checkpoint"] {
        assert!(json.get(field).is_none(), "{field}: {json}");
    }
    assert!(json["resources"].get("disk_bytes").is_none(), "{json}");
    let back: Definition = serde_json::from_value(json).unwrap();
    assert_eq!(back.fingerprint(), plain.fingerprint());

    let full = "command: prog {data.c}\n  node: box\n  requires: load < 4\n  data: {c: {box: /c}}\n  checkpoint: x\n  resources: {disk: 1G}\n";
    let full = load(&format!("+a:\n  {full}")).definitions.remove(0);
    let back: Definition = serde_json::from_str(&serde_json::to_string(&full).unwrap()).unwrap();
    assert_eq!(back, full);
    let moved = "# a remark\n+a:\n  command: prog {data.c}\n  node:   box\n  requires:  load < 4\n  data: {c: {box: /c}}\n  checkpoint: x\n  resources: {disk: 1G}\n";
    let mut moved = load(moved).definitions.remove(0);
    moved.folder.clone_from(&full.folder);
    assert_eq!(moved.fingerprint(), full.fingerprint());
    assert_ne!(moved.node, full.node, "the place differs");
    moved.requires = None.into();
    assert_ne!(moved.fingerprint(), full.fingerprint());
}
