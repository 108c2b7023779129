//! Every word of the interface works or is refused; none is accepted without
//! effect.

use std::fs;
use std::path::PathBuf;

use nero_tests::{Home, until};

/// Verbs of later versions.
const VERBS_LATER: &[&str] = &["setup"];
const VERBS: &[&str] = &[
    "add", "run", "template", "adopt", "status", "top", "web", "mcp", "show", "start", "restart",
    "abort", "pause", "resume", "set", "copy", "note", "tag", "rm", "wait", "logs", "metrics",
    "plot", "results", "diff", "export", "open", "path", "fetch", "node", "shell", "exec", "clean",
    "du", "backup", "config", "rule", "noodles", "import", "infra", "mail", "daemon",
];

/// Fields of later versions, each with a value that its form allows.
const FIELDS_LATER: &[(&str, &str)] = &[
    ("requires", "load < 4 for 10m"),
    ("progress", "mean(loss, 10m)"),
];

/// The runs for testing the words of expressions, with ids from 1. The first is
/// run twice, the second waits for a pipe during the test.
const RUNS: &str = r#"collection: w
parameters: {x: 7}
+crashes: {command: "sh -c 'echo loss 0.5; exit 3' --x {x}", resources: {time: 1h}}
+lives:
  command: sh -c 'echo [5/10]; echo val loss = 2; read line < PIPE' --y {y}
  parameters: {y: 8}
  resources: {time: 1h}
+killed: {command: "sh -c 'kill -9 $$'"}
+finishes: {command: 'true'}
+limited: {command: sleep 600, resources: {time: 1s}}
+ended: {command: "sh -c 'echo loss 9; sleep 600'", rules: [{abort: loss > 5}]}
+defined: {command: 'true'}
"#;

/// Expressions with the ids of [`RUNS`] that they pick. Each name of a fact
/// begins one of them.
const PICKED: &[(&str, &[u64])] = &[
    ("id>6", &[7]),
    ("note=*x*", &[]),
    ("tag!=x && id>5", &[6, 7]),
    // Of runs that were given no GPU.
    ("gpu>=0", &[]),
    ("gpumem>=0", &[]),
    ("id<=2 && id!=1", &[2]),
    ("name=l*", &[2, 5]),
    ("name=~'^k'", &[3]),
    ("collection==w && id==1", &[1]),
    ("collection==v", &[]),
    ("path=*/runs && id==3", &[3]),
    ("node==local", &[1, 2, 3, 4, 5, 6]),
    ("state==running", &[2]),
    ("attempt==2", &[1]),
    ("runtime<1h", &[1, 2, 3, 4, 5, 6]),
    ("runtime>1h", &[]),
    ("waittime<1h && id<3", &[1, 2]),
    ("timeleft>30m && timeleft<=1h", &[2]),
    ("progress==50%", &[2]),
    ("eta>1000w", &[]),
    ("exit==3", &[1]),
    ("exit=0", &[4]),
    ("signal==KILL && id==3", &[3]),
    ("reason=='exit code' && exit>0", &[1]),
    ("reason==rule", &[6]),
    ("silent>=0", &[2]),
    ("command=*exit*", &[1]),
    ("params=*--y*8*", &[2]),
    ("tmod<1h && id==7", &[7]),
    ("tmod>1h", &[]),
    ("tsub<1h", &[1, 2, 3, 4, 5, 6]),
    ("tstart>yesterday && id==4", &[4]),
    ("tend<1h", &[1, 3, 4, 5, 6]),
    ("cpu>=0", &[2]),
    ("mem>1K", &[2]),
    ("disk>=0", &[2]),
    ("y==8", &[2]),
    ("param.x==7 && !defined", &[1, 2, 3, 4, 5, 6]),
    ("param('y')*2==16", &[2]),
    ("loss==50%", &[1]),
    ("metric.loss - 1 > 7", &[6]),
    ("metric('val loss')==2", &[2]),
    ("VAL_LOSS==2", &[2]),
    ("now - tstart < 1h && id == 1", &[1]),
    ("tmod < today", &[]),
    ("defined", &[7]),
    ("running", &[2]),
    ("finished", &[4]),
    ("crashed", &[1, 3]),
    ("aborted", &[6]),
    ("timeout", &[5]),
    ("live", &[2]),
    ("failed", &[1, 3, 5]),
    ("done", &[4]),
    (
        "queued || staging || submitted || pending || ending || lost || paused",
        &[],
    ),
    ("1-9:2 && !crashed", &[5, 7]),
    ("`lives`, 4", &[2, 4]),
    ("w/e*", &[6]),
    ("not live and id < 3 or id == 7", &[1, 7]),
    ("exit % 2 == 1 && id + 2 * 3 == 7", &[1]),
    (
        "(runtime < 90min) && runtime < 2:00:00 && mem < 100GB",
        &[2],
    ),
    ("last && id > 1", &[]),
    ("min(loss)==0.5 && max(loss)==0.5 && best(loss)<1", &[1]),
    ("mean(loss, 1d)==9 && first(loss)==9 && loss@1==9", &[6]),
    (
        "last(val_loss)==2 && count(val_loss)==1 && age(val_loss)<1h",
        &[2],
    ),
    ("rate(loss)>0 || loss@2>0", &[]),
    ("id in (1, 3, 8) && runtime<inf && loss!=nan", &[1]),
    ("state in (crashed, timeout) && abs(id - 4)==1", &[3, 5]),
    (
        "round(sqrt(y))==3 && log(exp(y))>7 && runtime>0 after 0.001s",
        &[2],
    ),
    ("(tsub>00:00 || tsub<00:00) && id==1", &[1]),
];

/// Conditions that become true in a run, one for each name that a rule can use.
const FIRING: &[&str] = &[
    "id == 1",
    "name=f*",
    "collection == w",
    "node == local",
    "state == running",
    "attempt == 1",
    "runtime > 100ms",
    "timeleft < 1h",
    "progress == 50%",
    "eta > 0",
    "exit == 3",
    "silent > 0",
    "command=*sh*",
    "params=*7*",
    "tstart < 1h",
    "cpu >= 0",
    "mem > 1K",
    "disk >= 0",
    "x == 7",
    "param.x == 7",
    "loss > 0.4",
    "metric('val loss') > 0.4",
    "VALLOSS > 0.4",
    "running",
    "live",
    "loss != loss || loss > 0.4",
    "loss@1 > 0.4",
    "mean(loss, 1m) > 0.4",
    "min(loss) < 1",
    "best(loss) < inf",
    "count(metric.loss) == 1",
    "age(loss) > 100ms",
    "loss > 0.4 for 500ms",
    "running after 500ms",
    "abs(loss) in (nan, 0.5)",
    "waittime >= 0",
    "path=*e*",
    "tmod < 1d",
    "tsub < 1d",
    "tend < 1h",
    "reason == 'exit code'",
    "crashed",
    "state == crashed",
    "failed && param.x == 7",
    "started",
    "ended",
    "queued",
];

/// An experiment for each field of the format, called as the field.
const FIELDS: &str = r#"collection: f
stages: [early, late]
+command: {command: echo one 'two three'}
+parameters: {command: "echo {x} {y}", parameters: {x: 0.10, y: no}}
+combined: {command: "echo {x} {y}", parameters: {x: {linspace: [0, 1, 2]}, y: {logspace: [-1, 0, 2]}}, zip: [x, y], exclude: [x == 0]}
+sampled: {command: "expr {x} : 2", parameters: {x: {sample: [2, 2.5], n: 1}}}
+script: {script: "echo {x} $NERO_PARAM_X {1..2}", parameters: {x: 3}}
+style: {command: cat conf/p.toml, parameters_style: {file: conf/p.toml}, parameters: {x: 3, kind: two}}
+flags: {command: echo, parameters_style: flags, parameters: {x: 3, y: true}}
+render: {command: cat rendered, render: {template.txt: rendered}, parameters: {x: 3}}
+setup: {command: "sh -c 'echo $A_LINE $B_LINE'", setup: [export A_LINE=said B_LINE=lost], env: {B_LINE: env}}
+python: {command: "sh -c 'echo $VIRTUAL_ENV'", python: {local: 'venv:my env', default: system}}
+repeated: {command: "echo {repeat} {seed}", repeat: 1}
+parameters_format: {run_command_prefix: sh, main_code_file: main.sh, parameters_format: "-x {x}", parameters: {x: 1}, files: [main.sh]}
+required_files: {run_command_prefix: sh, main_code_file: main.sh, files: [main.sh], required_files: [a.txt], parameters_format: ''}
+split: {command: "printf %s. {words}", split: true, parameters: {words: one 'two three'}}
+env: {command: "sh -c 'echo $A_WORD'", env: {A_WORD: said}}
+cpus: {command: "sh -c 'echo $NERO_CPUS $OMP_NUM_THREADS'", resources: {cpus: {local: 1, default: 2}, memory: 1M, disk: {local: 1M}}}
+time: {command: sleep 600, resources: {time: {local: 1s, default: 1h}}}
+files: {command: ls, files: [a.txt, 'c*']}
+outputs: {command: "sh -c 'echo kept > kept.txt'", outputs: [stdout, 'kept*']}
+results: {command: echo here, results_dir: elsewhere}
+progress: {command: 'echo epoch 3', progress: epoch / 4}
+metrics: {command: "sh -c 'echo at 3 is 4,5; echo step,acc > m.csv; echo 7,0.5 >> m.csv'", metrics: [{match: 'at (?<step>\d+) is (?<found>\S+)'}, {decimal: ','}, {file: m.csv}, {command: 'awk "{print \"words =\", NF}"'}]}
+rules: {command: "sh -c 'echo loss 3; sleep 600'", rules: [{abort: loss > 2}]}
+cohort: {command: "sh -c 'echo loss 3; sleep 600'", cohort: mixed, rules: [{abort: loss > max(peers.loss)}]}
+peer: {command: echo loss 1, cohort: mixed}
+conditions:
  command: sh -c 'echo loss 3; sleep 600'
  conditions: {big: {variablename: loss, killvalue: 2, comparator: gt, when: immediately, action: kill}}
+monitor: {command: "sh -c 'sleep 600 & echo left'", monitor: {interval: 1s, grace: 1s, strays: kill}}
+buffered: {command: "sh -c 'echo .$PYTHONUNBUFFERED.'", buffered: true}
+unbuffered: {command: "sh -c 'echo .$PYTHONUNBUFFERED.'"}
+node: {command: "sh -c 'echo $NERO_NODE'", node: local}
+requires: {command: 'true', requires: cpus > 100000}
+probed: {command: echo asked, probes: {has: 'echo $NERO_NODE'}, requires: has == local, place: first}
+steps: {steps: [{run: echo one}, {local: 'echo {node.address} $NERO_PARAM_Y'}, {run: 'cat; echo {y} >&2; exit 3'}, {run: echo three}], parameters: {y: no}}
+on_error: {command: "sh -c 'echo noted >&2; exit 3'", on_error: [{exit: 3, stderr: noted, run: 'echo answered > answer.txt', then: continue}], outputs: [answer.txt]}
+data: {command: "echo {data.d}", data: {d: {local: /tmp, default: /nowhere}}}
+message: {command: 'true', custom_msg: hello from the file}
+tagged: {command: 'true', tags: [paper, baseline]}
+first: {command: "sh -c 'sleep 0.2; echo first > $HOME/first'", stage: early, lock: words, settle: 10ms}
+second: {command: "sh -c 'cat $HOME/first'", depends_on: [first], lock: words, settle: 10ms}
+third: {command: "sh -c 'cat $HOME/first'", stage: late}
+checkpoint: {command: "sh -c 'test -e ckpt && echo found $(cat ckpt); echo saved > ckpt; exit 3'", checkpoint: ckpt}
"#;

/// Output of the experiments of [`FIELDS`].
const PRINTED: &[(&str, &str)] = &[
    ("script", "3 3 1 2"),
    ("style", "x = 3\nkind = \"two\""),
    ("flags", "--x 3 --y"),
    ("render", "at 3"),
    ("repeated", "1 1"),
    ("second", "first"),
    ("third", "first"),
    ("setup", "said env"),
    ("python", "found"),
    ("combined_x-1_y-1", "1 1"),
    ("sampled", "1"),
    ("command", "one two three"),
    ("parameters", "0.10 no"),
    ("parameters_format", "main -x 1\nmain.sh"),
    ("required_files", "main\na.txt\nmain.sh"),
    ("env", "said"),
    ("cpus", "1 1"),
    ("split", "one.two three."),
    ("files", "a.txt\nc.txt"),
    ("monitor", "left"),
    ("buffered", ".."),
    ("unbuffered", ".1."),
    ("node", "local"),
    ("probed", "asked"),
    ("steps", "one\nlocalhost no"),
    ("data", "/tmp"),
    ("results", "here"),
];

const NAMES_LATER: &[&str] = &["user"];

/// Words of `config.yaml` with an effect, each with a value.
const CONFIG: &[(&str, &str)] = &[
    ("default_node", "default_node: a"),
    ("groups.g", "groups: {g: [a, local]}"),
    ("nodes.a.root", "nodes: {a: {address: h, root: /tmp}}"),
    ("nodes.a.cpus", "nodes: {a: {address: h, cpus: 2}}"),
    ("nodes.a.memory", "nodes: {a: {address: h, memory: 4G}}"),
    ("nodes.a.gpus", "nodes: {a: {address: h, gpus: [0, 2]}}"),
    ("nodes.a.min_free", "nodes: {a: {address: h, min_free: 1G}}"),
    ("nodes.a.shared", "nodes: {a: {address: h, shared: true}}"),
    ("nodes.a.listen", "nodes: {a: {address: h, listen: never}}"),
    ("nodes.a.warden", "nodes: {a: {address: h, warden: slurm}}"),
    ("nodes.a.notes", "nodes: {a: {address: h, notes: mine}}"),
    (
        "nodes.a.max_queued",
        "nodes: {a: {address: h, warden: slurm, max_queued: 9}}",
    ),
    (
        "nodes.a.max_running",
        "nodes: {a: {address: h, warden: oge, max_running: 9}}",
    ),
    (
        "nodes.a.setup",
        "nodes: {a: {address: h, warden: slurm, setup: module load x}}",
    ),
    (
        "nodes.a.sbatch_args",
        "nodes: {a: {address: h, warden: slurm, sbatch_args: --x=y}}",
    ),
    (
        "nodes.a.qsub_args",
        "nodes: {a: {address: h, warden: oge, qsub_args: [-l=mem_free=8G]}}",
    ),
    ("defaults.resources", "defaults: {resources: {cpus: 2}}"),
    ("user.name", "user: {name: Ada}"),
    ("user.email", "user: {email: a@b}"),
    (
        "mail.security",
        "mail: {smtp: s, security: tls}\nuser: {email: a@b}",
    ),
    (
        "mail.ca",
        "mail: {smtp: s, ca: /ca.pem}\nuser: {email: a@b}",
    ),
    (
        "mail.password_command",
        "mail: {smtp: s, password_command: pass show mail}\nuser: {email: a@b}",
    ),
    ("mail.smtp", "mail: {smtp: s}\nuser: {email: a@b}"),
    (
        "mail.login",
        "mail: {smtp: s, login: me, password_command: x}\nuser: {email: a@b}",
    ),
    (
        "mail.sendmail",
        "mail: {sendmail: /usr/sbin/sendmail}\nuser: {email: a@b}",
    ),
    (
        "mail.from",
        "mail: {smtp: s, from: a@b}\nuser: {email: a@b}",
    ),
    (
        "mail.relay",
        "mail: {smtp: s, relay: a}\nuser: {email: a@b}",
    ),
    (
        "mail.relay_after",
        "mail: {smtp: s, relay: a, relay_after: 20m}\nuser: {email: a@b}",
    ),
    (
        "notify.to",
        "notify: {to: [c@d]}\nmail: {smtp: s}\nuser: {email: a@b}",
    ),
    (
        "notify.digest",
        "notify: {digest: 8h}\nmail: {smtp: s}\nuser: {email: a@b}",
    ),
    (
        "notify.quiet",
        "notify: {quiet: '22:00-07:00'}\nmail: {smtp: s}\nuser: {email: a@b}",
    ),
    (
        "notify.limit",
        "notify: {limit: 5}\nmail: {smtp: s}\nuser: {email: a@b}",
    ),
    ("notify.events", "notify: {events: [done]}"),
    ("notify.webhook", "notify: {webhook: http://h/}"),
    ("notify.command", "notify: {command: ./tell}"),
];
/// Words of nodes in `config.yaml` of later versions.
const CONFIG_NODE_LATER: &[&str] = &["slots"];

#[test]
fn each_word_of_the_configuration_is_in_force_or_refused_with_its_place() {
    let home = Home::new();
    for (key, line) in CONFIG {
        let node = if line.starts_with("nodes:") {
            String::new()
        } else {
            "nodes: {a: {address: h}}\n".to_owned()
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
    for word in CONFIG_NODE_LATER {
        refused(&format!("nodes: {{local: {{{word}: 1}}}}\n"));
    }
}

#[test]
fn each_verb_is_listed_or_said_to_be_of_a_later_version() {
    let home = Home::new();
    let help = home.ok(&["help"]);
    let listed = |verb: &str| {
        // A purpose, a verb, and what it does; or `also` and further verbs.
        help.lines().filter_map(|line| line.get(14..)).any(|line| {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("also") => words.any(|word| word.trim_end_matches(',') == verb),
                first => first == Some(verb),
            }
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
fn a_template_is_added_and_started_as_it_is() {
    let home = Home::new();
    let text = home.ok(&[
        "template",
        "fit",
        "--dry-run",
        "--",
        "echo",
        "it's {x}",
        "{n:02d}",
    ]);
    let folder = home.experiment("template", &text);
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "it's 1 01\n");
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

/// The names of the facts that `help` and the manual list.
fn names_of_facts() -> Vec<&'static str> {
    nero_expr::Fact::ALL.map(nero_expr::Fact::as_str).to_vec()
}

#[test]
fn each_name_of_an_expression_picks_by_what_real_runs_did() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    crate::story::make_pipe(&pipe);
    let yaml = RUNS.replace("PIPE", &pipe.display().to_string());
    crate::story::added(&home, "runs", &yaml);
    assert_eq!(home.run(&["start", "1", "--wait"]).code, Some(1));
    home.ok(&["start", "2-6"]);
    home.ok(&["restart", "1"]);
    for id in [1, 3, 4, 5, 6] {
        home.until_settled(id);
    }
    until("the live run to be measured", || {
        let seen = home.experiment_json(2);
        let known = |key: &str| !seen[key].is_null();
        let is_read = !seen["metrics"]["val loss"].is_null() && known("progress");
        if known("rss_bytes") && is_read {
            Ok(())
        } else {
            Err(seen)
        }
    });
    for fact in names_of_facts() {
        let used = PICKED.iter().any(|(text, _)| text.starts_with(fact));
        assert!(used, "`{fact}` is asked of no run");
    }
    for (text, ids) in PICKED {
        let ran = home.run(&["status", text, "--json"]);
        assert_eq!(ran.code, Some(0), "{text}: {ran:#?}");
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let views = document["experiments"].as_array().unwrap();
        let picked: Vec<u64> = views
            .iter()
            .filter_map(|view| view["id"].as_u64())
            .collect();
        assert_eq!(picked, *ids, "{text}: {:#}\n{}", document, ran.err);
    }
    let columns = "id,mean(loss, 1d),loss@1 > 5";
    let table = home.ok(&["status", "6", "--csv", "--columns", columns]);
    assert_eq!(table, "id,\"mean(loss, 1d)\",loss@1 > 5\n6,9,true\n");
    fs::write(&pipe, "\n").unwrap();
    home.ok(&["wait", "2"]);
}

#[test]
fn each_name_of_a_rule_fires_in_a_real_run_or_is_refused() {
    let home = Home::new();
    let mut yaml = "collection: w
+fires:
  command: sh -c 'sleep 0.1; echo [5/10]; echo loss 0.5; echo val loss = 0.5; sleep 3; exit 3' --x {x}
  parameters: {x: 7}
  resources: {time: 1h}
  monitor: {interval: 100ms}
  rules:
"
    .to_owned();
    for (text, action) in FIRING.iter().zip(["notify", "warn"].iter().cycle()) {
        yaml.push_str(&format!("    - {action}: \"{text}\"\n"));
    }
    yaml.push_str(
        "+killed: {command: \"sh -c 'kill -9 $$'\", rules: [{notify: signal == KILL}]}\n",
    );
    yaml.push_str("+plain: {command: 'true'}\n");
    crate::story::added(&home, "e", &yaml);
    home.ok(&["start", "1,2"]);
    home.until_settled(1);
    home.until_settled(2);
    let listed = home.json(&["rule", "list", "1,2"]);
    let rules = listed["rules"].as_array().unwrap();
    assert_eq!(rules.len(), FIRING.len() + 1, "{listed:#}");
    for rule in rules {
        assert!(rule["fired"].as_u64() > Some(0), "never fired: {rule:#}");
    }
    for fact in names_of_facts() {
        let fires = FIRING.iter().any(|text| text.starts_with(fact))
            || ["signal", "gpu", "gpumem", "note", "tag"].contains(&fact);
        let ran = home.run(&["rule", "add", "3", &format!("warn: {fact} != 5")]);
        let taken = ran.code == Some(0) || !ran.err.contains("known to");
        assert_eq!(taken, fires, "{fact}: {ran:#?}");
    }
    for word in nero_expr::State::words() {
        let seen = !["defined", "changed", "gone"].contains(&word);
        let ran = home.run(&["rule", "add", "3", &format!("notify: {word}")]);
        assert_eq!(ran.code == Some(0), seen, "{word}: {ran:#?}");
    }
}

#[test]
fn each_field_of_the_format_has_its_effect_in_a_real_run() {
    let home = Home::new();
    let folder = home.experiment("f", FIELDS);
    for name in ["a.txt", "b.txt", "c.txt"] {
        fs::write(folder.join(name), name).unwrap();
    }
    fs::create_dir_all(folder.join("my env/bin")).unwrap();
    fs::write(
        folder.join("my env/bin/activate"),
        "export VIRTUAL_ENV=found\n",
    )
    .unwrap();
    fs::write(folder.join("template.txt"), "at {x}\n").unwrap();
    fs::write(folder.join("main.sh"), "echo \"main $*\"; ls\n").unwrap();
    let folder = folder.display().to_string();
    home.ok(&["add", &folder]);
    home.ok(&["start", "f/*"]);
    let document = home.json(&["status", "f/*"]);
    for view in document["experiments"].as_array().unwrap() {
        if view["name"] != "requires" {
            home.until_settled(view["id"].as_u64().unwrap());
        }
    }
    let document = home.json(&["status", "f/*"]);
    let views = document["experiments"].as_array().unwrap();
    let named = |name: &str| {
        let found = views.iter().find(|view| view["name"] == name);
        found.unwrap_or_else(|| panic!("no `{name}`: {document:#}"))
    };
    for (name, printed) in PRINTED {
        let id = named(name)["id"].to_string();
        let log = home.ok(&["logs", &id]);
        let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
        assert_eq!(lines.join("\n"), *printed, "{name}: {:#}", named(name));
    }
    assert_eq!(named("time")["state"], "timeout");
    assert_eq!(named("rules")["state"], "aborted");
    assert_eq!(named("on_error")["state"], "finished");
    let line = named("steps")["stderr_line"].as_str().unwrap_or_default();
    assert!(line.starts_with("`cat; "), "{line}");
    assert!(
        line.ends_with("`, no. 3 of 4 steps: exit code 3: no"),
        "{line}"
    );
    assert_eq!(named("steps")["metrics"], serde_json::json!({}));
    assert_eq!(named("conditions")["state"], "aborted");
    assert_eq!(named("cohort")["state"], "aborted");
    assert_eq!(named("progress")["progress"], 0.75);
    let metrics = &named("metrics")["metrics"];
    assert_eq!(metrics["found"]["last"], 4.5, "{metrics:#}");
    assert_eq!(metrics["found"]["step"], 3.0, "{metrics:#}");
    assert_eq!(metrics["acc"]["step"], 7.0, "{metrics:#}");
    assert_eq!(metrics["words"]["last"], 4.0, "{metrics:#}");
    let tried = home.ok(&["metrics", "--try", &named("metrics")["id"].to_string()]);
    assert!(
        tried.contains("found") && tried.contains("stdout"),
        "{tried}"
    );
    let requires = named("requires");
    let waits = requires["waiting_for"].as_str().unwrap_or_default();
    assert!(waits.contains("100000"), "{requires:#}");
    let shown = home.run(&["show", &named("message")["id"].to_string()]);
    assert!(shown.err.contains("hello from the file"), "{shown:#?}");
    let results = |name: &str| {
        let id = named(name)["id"].to_string();
        until("the results to be at home", || {
            let ran = home.run(&["path", &id]);
            match ran.code {
                Some(0) => Ok(PathBuf::from(ran.out.trim())),
                _ => Err(ran),
            }
        })
    };
    let answer = fs::read_to_string(results("on_error").join("answer.txt"));
    assert_eq!(answer.unwrap(), "answered\n");
    let kept = fs::read_to_string(results("outputs").join("kept.txt"));
    assert_eq!(kept.unwrap(), "kept\n");
    assert!(
        results("results")
            .display()
            .to_string()
            .contains("/elsewhere/")
    );
    let tagged = home.json(&["status", "tag:paper"]);
    assert_eq!(tagged["experiments"][0]["name"], "tagged");
    home.ok(&["abort", &requires["id"].to_string()]);
    let id = named("checkpoint")["id"].to_string();
    home.run(&["restart", &id, "--resume", "--wait"]);
    assert_eq!(home.ok(&["logs", &id]), "found saved\n");
}

#[test]
fn each_name_of_a_later_version_is_refused() {
    let home = Home::new();
    crate::story::added(&home, "e", "collection: e\n+e: {command: 'true'}\n");
    let names = NAMES_LATER.iter().map(|name| format!("{name}>0"));
    for text in names {
        let ran = home.run(&["status", &text]);
        assert_eq!(ran.code, Some(2), "{text}: {ran:#?}");
        assert!(ran.err.contains("not built yet"), "{text}: {}", ran.err);
        let is_told = ran.err.contains("a home answers its owner alone");
        assert!(is_told, "{text}: {}", ran.err);
        let ran = home.run(&["rule", "add", "1", &format!("warn: {text}")]);
        assert_eq!(ran.code, Some(2), "{text}: {ran:#?}");
    }
}
