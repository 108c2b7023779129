//! Every word of the interface is built or refused, never accepted without
//! effect.

use std::fs;

use nero_tests::Home;

/// Verbs of later versions.
const VERBS_LATER: &[&str] = &[
    "template", "run", "set", "note", "tag", "copy", "pause", "resume", "plot", "open", "diff",
    "export", "backup", "top", "web", "setup", "mail", "import",
];
const VERBS: &[&str] = &[
    "add", "status", "show", "start", "restart", "abort", "rm", "wait", "logs", "metrics",
    "results", "path", "fetch", "node", "shell", "exec", "clean", "du", "config", "rule", "daemon",
];

/// Fields of later versions, each with a value that its form allows.
const FIELDS_LATER: &[(&str, &str)] = &[
    ("script", "'echo hi'"),
    ("setup", "[module load x]"),
    ("python", "conda:myenv"),
    ("requires", "load < 4 for 10m"),
    ("progress", "epoch / 50"),
    ("retry", "{on: [node_failure], max: 2}"),
    ("render", "{a.in: a}"),
    ("repeat", "5"),
    ("split", "true"),
    ("parameters_style", "flags"),
    ("partition", "gpu"),
    ("account", "a"),
    ("qos", "q"),
    ("constraint", "c"),
    ("queue", "q"),
    ("parallel_env", "smp"),
    ("launcher", "srun"),
    ("resources", "{gpus: 1}"),
    ("resources", "{disk: {triton: 20G}}"),
    ("resources", "{nodes: 2}"),
    ("resources", "{gpu_type: a100}"),
    ("resources", "{exclusive: true}"),
    ("metrics", "[{file: metrics.csv}]"),
    ("metrics", "[{command: ./reader.py}]"),
    ("rules", "[{pause: loss > 1}]"),
    ("rules", "[{restart: loss > 1}]"),
    ("rules", "[{requeue: loss > 1}]"),
    ("rules", "[{signal: loss > 1}]"),
    ("rules", "[{run: ./x.sh, on: crashed}]"),
    ("rules", "[{on: crashed, run_local: ./tell.sh}]"),
    ("rules", "[{abort: loss > 1 for 10m}]"),
    ("rules", "[{notify: 'mean(loss, 10m) > 1'}]"),
    ("parameters", "{x: {linspace: [0, 1, 3]}}"),
    ("parameters", "{x: {logspace: [0, 1, 3]}}"),
    ("parameters", "{x: {sample: [0, 1], n: 3}}"),
    ("parameters", "{x: {zip: [[1, 2], [3, 4]]}}"),
];

const NAMES: &[&str] = &[
    "id",
    "name",
    "collection",
    "path",
    "node",
    "state",
    "attempt",
    "runtime",
    "waittime",
    "timeleft",
    "exit",
    "signal",
    "reason",
    "silent",
    "command",
    "params",
    "tmod",
    "tsub",
    "tstart",
    "tend",
    "cpu",
    "mem",
    "disk",
];
const NAMES_LATER: &[&str] = &["progress", "eta", "gpu", "gpumem", "note", "tag", "user"];

/// Words of `config.yaml` with an effect, each with a value.
const CONFIG: &[(&str, &str)] = &[
    ("default_node", "default_node: a"),
    ("groups.g", "groups: {g: [a, local]}"),
    ("nodes.a.root", "nodes: {a: {address: h, root: /tmp}}"),
    ("nodes.a.cpus", "nodes: {a: {address: h, cpus: 2}}"),
    ("nodes.a.memory", "nodes: {a: {address: h, memory: 4G}}"),
    ("nodes.a.min_free", "nodes: {a: {address: h, min_free: 1G}}"),
    ("nodes.a.shared", "nodes: {a: {address: h, shared: true}}"),
    ("nodes.a.listen", "nodes: {a: {address: h, listen: never}}"),
    ("nodes.a.notes", "nodes: {a: {address: h, notes: mine}}"),
];
/// Words of it of later versions.
const CONFIG_LATER: &[&str] = &["user", "mail", "notify", "defaults"];
const CONFIG_NODE_LATER: &[&str] = &[
    "warden",
    "setup",
    "slots",
    "gpus",
    "max_running",
    "max_queued",
    "sbatch_args",
    "qsub_args",
];

#[test]
fn each_word_of_the_configuration_is_in_force_or_refused_with_its_place() {
    let home = Home::new();
    for (key, line) in CONFIG {
        let node = match line.starts_with("nodes:") {
            true => String::new(),
            false => "nodes: {a: {address: h}}\n".to_owned(),
        };
        let place = format!("config.yaml:{}", 1 + node.lines().count());
        home.configure(&format!("{node}{line}\n"));
        let shown = home.json(&["config", "show"]);
        let values = shown["values"].as_array().unwrap();
        let found = values.iter().find(|value| value["key"] == *key);
        assert_eq!(found.unwrap()["from"], place, "{line}: {shown:#}");
    }
    let refused = |text: &str| {
        home.configure(text);
        for verb in [&["config", "show"][..], &["start", "all"]] {
            let ran = home.run(verb);
            assert_eq!(ran.code, Some(2), "{text}: {ran:#?}");
            let said = ran.err.contains("not built yet") && ran.err.contains("config.yaml:1:");
            assert!(said, "{text}: {}", ran.err);
        }
    };
    for word in CONFIG_LATER {
        refused(&format!("{word}: {{x: y}}\n"));
    }
    for word in CONFIG_NODE_LATER {
        refused(&format!("nodes: {{local: {{{word}: 1}}}}\n"));
    }
}

#[test]
fn each_verb_is_listed_or_said_to_be_of_a_later_version() {
    let home = Home::new();
    let help = home.ok(&["help"]);
    let listed = |verb: &str| {
        help.lines().any(|line| {
            line.split_whitespace()
                .next()
                .is_some_and(|word| word.trim_end_matches(',') == verb)
        })
    };
    for verb in VERBS {
        assert!(listed(verb), "{verb} is not in help: {help}");
    }
    for verb in VERBS_LATER {
        assert!(!listed(verb), "{verb} is listed: {help}");
        for words in [vec![(*verb).to_owned()], vec![format!("--{verb}")]] {
            let ran = home.run(&words);
            assert_eq!(ran.code, Some(2), "{ran:#?}");
            assert!(ran.err.contains("not built yet"), "{ran:#?}");
        }
    }
}

#[test]
fn each_field_of_a_later_version_is_kept_and_refused_at_start_with_its_place() {
    let home = Home::new();
    let mut yaml = "collection: later\n".to_owned();
    let mut kept = Vec::new();
    for (index, (field, value)) in FIELDS_LATER.iter().enumerate() {
        yaml.push_str(&format!(
            "+f{index}:\n  command: 'true'\n  {field}: {value}\n"
        ));
        kept.push((field, value));
    }
    let folder = home.experiment("later", &yaml);
    fs::write(folder.join("reader.py"), "").unwrap();
    let added = home.run(&["add", &folder.display().to_string()]);
    assert_eq!(added.code, Some(0), "{added:#?}");
    for (index, (field, value)) in kept.iter().enumerate() {
        let ids = (index + 1).to_string();
        let ran = home.run(&["start", &ids]);
        let said = format!("{}{}", ran.out, ran.err);
        if said.contains("started 1") {
            panic!("`{field}: {value}` was accepted without effect: {said}");
        }
        assert_eq!(ran.code, Some(1), "{field}: {value}: {ran:#?}");
        assert!(said.contains("not built yet"), "{field}: {value}: {said}");
        assert!(
            said.contains("neronet.yaml:"),
            "{field}: {value}: its place: {said}"
        );
    }
}

#[test]
fn each_name_of_an_expression_is_built_or_said_to_be_of_a_later_version() {
    let home = Home::new();
    crate::story::added(&home, "e", "collection: e\n+e: {command: 'true'}\n");
    for name in NAMES {
        let text = match *name {
            "name" | "collection" | "path" | "node" | "reason" | "command" | "params" => {
                format!("{name}=*x*")
            }
            "state" => "state==defined".to_owned(),
            "tmod" | "tsub" | "tstart" | "tend" => format!("{name}<1h"),
            _ => format!("{name}>0"),
        };
        let ran = home.run(&["status", &text]);
        assert_eq!(ran.code, Some(0), "{text}: {ran:#?}");
    }
    for name in NAMES_LATER {
        let ran = home.run(&["status", &format!("{name}>0")]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:#?}");
        assert!(ran.err.contains("not built yet"), "{name}: {}", ran.err);
    }
    for text in [
        "loss@10 > 1",
        "mean(loss) > 1",
        "runtime > 1 for 10m",
        "tag:x",
    ] {
        let ran = home.run(&["status", text]);
        assert_eq!(ran.code, Some(2), "{text}: {ran:#?}");
        assert!(ran.err.contains("not built yet"), "{text}: {}", ran.err);
    }
}
