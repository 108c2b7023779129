//! Flows that the original and ours really run: in a folder each, the same files, log and exit code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nero_tests::{Home, Hosts};
use serde_json::{Value, json};

/// The original and what it needs. New releases of setuptools lack a module that it loads.
const PACKAGES: [&str; 4] = [
    "training-noodles==1.2.2",
    "oyaml==0.9",
    "PyYAML==6.0.4",
    "setuptools==65.5.0",
];

/// How many flows are run unless this variable of the environment has another number.
const FLOWS: (&str, u64) = ("NERO_NOODLES_FLOWS", 25);

#[test]
fn flows_run_as_the_original_runs_them() {
    let (name, usual) = FLOWS;
    let count = std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let packages = original();
    let mut home = Home::new();
    home.set_env("USER", "tester");
    let path = std::env::var("PATH").expect("a search path");
    home.set_env("PATH", &path);
    let mut alike = 0;
    for seed in 1..=count {
        let spec = flow(&mut Chance(seed));
        let folders = ["there", "here"].map(|who| {
            let folder = home.path().join(format!("{seed}-{who}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("spec.yml"), spec.to_string()).unwrap();
            folder
        });
        let theirs = theirs(&packages, &home, &path, "run");
        let ours = home.command(&["noodles", "run", "spec.yml"]);
        let [there, here] =
            [(theirs, &folders[0]), (ours, &folders[1])].map(|(mut command, folder)| {
                command.current_dir(folder).stdin(Stdio::null());
                let ran = command.output().expect("it starts");
                let log = String::from_utf8_lossy(&ran.stderr).into_owned();
                Seen::of(ran.status.code(), &log, folder)
            });
        // A list of outputs that is empty, a path that is not there: the table of differences.
        if there.crashed {
            continue;
        }
        assert_eq!(there, here, "flow {seed}:\n{spec:#}");
        alike += 1;
    }
    assert!(alike > count / 2, "{alike} of {count}");
}

fn original() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let packages = nero_pip::packages(&target.join("training-noodles"), &PACKAGES);
    packages.unwrap_or_else(|why| panic!("{why}"))
}

/// The original's command, with what it needs of the caller's environment.
fn theirs(packages: &Path, home: &Home, path: &str, command_type: &str) -> Command {
    let mut theirs = Command::new("python3");
    theirs
        .arg(packages.join("bin/noodles"))
        .args([command_type, "spec.yml"])
        .env_clear()
        .envs([("USER", "tester"), ("PATH", path)])
        .env("HOME", home.path())
        .env("PYTHONPATH", packages)
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONUTF8", "1");
    theirs
}

/// The specs of `examples/noodles`, one for each kind of use, with the types that each is run with.
const EXAMPLES: [(&str, &[&str]); 6] = [
    ("local", &["run"]),
    ("long", &["run"]),
    ("transfer", &["run"]),
    ("sessions", &["run", "stop", "clean"]),
    ("errors", &["run"]),
    ("phases", &["run"]),
];

/// Each program has two servers of its own, which both call `one` and `two`.
#[test]
fn examples_run_as_the_original_runs_them() {
    let packages = original();
    let hosts = Hosts::up(4);
    let mut home = Home::with_hosts(&hosts);
    home.set_env("USER", "tester");
    let usual = std::env::var("PATH").expect("a search path");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/noodles");
    let paths = [("there", ["h1", "h2"]), ("here", ["h3", "h4"])].map(|(who, names)| {
        hosts.alias("one", names[0]);
        hosts.alias("two", names[1]);
        let bin = home.path().join(format!("bin-{who}"));
        fs::create_dir(&bin).unwrap();
        let config = bin.join("config");
        fs::copy(hosts.ssh_config(), &config).unwrap();
        for program in ["ssh", "scp"] {
            let line = format!("exec /usr/bin/{program} -F '{}' \"$@\"", config.display());
            home.script(&bin.join(program), format!("#!/bin/sh\n{line}\n"));
        }
        format!("{}:{usual}", bin.display())
    });
    for (name, types) in EXAMPLES {
        let folders = ["there", "here"].map(|who| {
            let folder = home.path().join(format!("{name}-{who}"));
            fs::create_dir(&folder).unwrap();
            fs::copy(examples.join("code.sh"), folder.join("code.sh")).unwrap();
            let spec = examples.join(format!("{name}.yml"));
            fs::copy(spec, folder.join("spec.yml")).unwrap();
            folder
        });
        for command_type in types {
            let theirs = theirs(&packages, &home, &paths[0], command_type);
            home.set_env("PATH", &paths[1]);
            let ours = home.command(&["noodles", command_type, "spec.yml"]);
            let [there, here] =
                [(theirs, &folders[0]), (ours, &folders[1])].map(|(mut command, folder)| {
                    command.current_dir(folder).stdin(Stdio::null());
                    let ran = command.output().expect("it starts");
                    let log = String::from_utf8_lossy(&ran.stderr).into_owned();
                    (Seen::of(ran.status.code(), &log, folder), log)
                });
            assert_eq!(there.0, here.0, "{name}:\n{}\n{}", there.1, here.1);
            for (there, here) in [("h1", "h3"), ("h2", "h4")] {
                let remote = |host: &str| {
                    let files = "find . -path ./.ssh -prune -o -type f ! -name service.pid ! -name code.tgz -print \
                                 -exec cat {} + | sort";
                    String::from_utf8(hosts.ssh(host, files).stdout).unwrap()
                };
                assert_eq!(remote(there), remote(here), "{name} {command_type}");
            }
        }
        for host in hosts.names() {
            hosts.ssh(&host, "rm -rf work code.tgz prepared order");
        }
    }
}

/// What a program did in its folder.
#[derive(Debug, PartialEq)]
struct Seen {
    code: Option<i32>,
    log: Vec<String>,
    files: BTreeMap<String, String>,
    crashed: bool,
}

impl Seen {
    fn of(code: Option<i32>, log: &str, folder: &Path) -> Self {
        let here = folder.display().to_string();
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
        let files = files.filter(|file| file.path().extension() != Some("tgz".as_ref()));
        let files = files.map(|file| {
            let text = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned();
            let is_time = |line: &&str| {
                ["Start time", "Previous round", "Elapsed"]
                    .iter()
                    .any(|word| line.starts_with(word))
            };
            let text: Vec<&str> = text.lines().filter(|line| !is_time(line)).collect();
            let name = file.file_name().into_string().unwrap();
            // Names in the status file are quoted in another way; archives hold times.
            let text = text.join("\n").replace('\'', "");
            (name, text.replace(&here, "FOLDER"))
        });
        let last = log.trim_end().lines().next_back().unwrap_or_default();
        let crashes = ["IndexError", "TypeError", "FileNotFoundError"];
        Self {
            code,
            log: lines(log, &here),
            files: files.collect(),
            crashed: crashes.iter().any(|name| last.starts_with(name)),
        }
    }
}

/// The lines that both print, without their times. How an error is told differs.
fn lines(log: &str, here: &str) -> Vec<String> {
    let mut kept = Vec::new();
    for line in log.lines() {
        let line = match line.get(..20) {
            Some(stamp) if stamp.starts_with("20") => &line[20..],
            _ => line,
        };
        if line.starts_with("run      ERROR") || line.starts_with("error:") {
            // Here the outputs come before the error, there within it.
            let last = (kept.iter()).rposition(|line: &String| line.contains("Deploy experiment"));
            kept.truncate(last.map_or(0, |at| at + 1));
            break;
        }
        let ours = [
            " waits: ",
            "is written to twice",
            "are called",
            "no experiment has",
        ];
        if line.contains("elapsed time") || ours.iter().any(|words| line.contains(words)) {
            continue;
        }
        kept.push(line.replace(here, "FOLDER"));
    }
    kept
}

/// Random choices that follow from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        // The steps of splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits") % most
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Commands of every kind that ends by itself and reads nothing; `NAME` is the experiment.
const COMMANDS: &[&str] = &[
    "echo NAME $NOODLES_SERVER_NAME >> order",
    "echo out-NAME; echo \"$V $W\" >> order",
    "echo err-NAME >&2",
    "exit 3",
    "false",
    "true",
    "test -e tried || { touch tried; echo again >&2; exit 4; }",
    "printf 'a\\nb'; echo $NOODLES_EXPERIMENT_NAME >> order",
    "cd /; pwd",
    "pwd >> order",
    "V=changed; echo $V >> order",
    "echo many NAME >> order\necho lines >> order",
    "kill -9 $$",
    "echo $NOODLES_SERVER_AUTHORITY,$NOODLES_SERVER_PORT,$NOODLES_SERVER_USERNAME >> order",
    "local:echo asked for local >> order",
    "remote:echo asked for remote >> order",
];

/// A spec in JSON, which is YAML, too.
fn flow(chance: &mut Chance) -> Value {
    let all = [
        json!({"name": "one"}),
        json!({"name": "two words"}),
        json!({"name": "three", "hostname": "localhost"}),
    ];
    let servers = &all[..=chance.below(3)];
    let mut spec = json!({
        "servers": servers,
        "round_interval": 0,
        "experiment_default": {"envs": {"PLACE": "."}},
        "requirements": {
            "tried": "test -e tried && echo -n Yes || echo -n No",
            "number": "echo 1; echo 2",
            "text": "echo -n Yes",
        },
        "error_handlers": handlers(chance),
        "experiments": experiments(chance, 5),
    });
    for stage in ["before_all_experiments", "after_all_experiments"] {
        if chance.one_in(3) {
            spec[stage] = experiments(chance, 2);
        }
    }
    for interval in ["deployment_interval", "commands_interval"] {
        spec[interval] = json!(chance.of(&[0.0, 0.0, 0.02]));
    }
    if chance.one_in(3) {
        spec["write_status_to"] = json!({"run": chance.of(&["status.yml", "$PLACE/status.yml"])});
    }
    if chance.one_in(4) {
        spec["shell_string"] = json!("sh -c");
        spec["shell_stdin"] = json!(chance.of(&["sh -s", "bash -s -l"]));
    }
    spec
}

fn experiments(chance: &mut Chance, most: usize) -> Value {
    let mut made: Vec<Value> = Vec::new();
    let mut paths = 0;
    for number in 0..=chance.below(most) {
        let mut name = chance
            .of(&["a", "s 1", "train", "Exp.3", "it's"])
            .to_owned();
        let _ = write!(name, "{number}");
        let mut one = json!({"name": name});
        let plain = name.replace('\'', "");
        let commands: Vec<String> = (0..chance.below(5))
            .map(|_| chance.of(COMMANDS).replace("NAME", &plain))
            .collect();
        one["commands"] = match &commands[..] {
            [command] => json!({ "run": command }),
            _ => json!({ "run": commands }),
        };
        if chance.one_in(3) {
            let value = chance.of(&["v", "it's \"q\"", "$HOME/x", "a  b", "$W-x"]);
            one["envs"] = json!({"V": value, "W": chance.of(&["w", "`echo sub`", "$(echo sub)"])});
        }
        if !made.is_empty() && chance.one_in(3) {
            one["depends_on"] = json!({"run": made[chance.below(made.len())]["name"]});
        }
        // Without commands, the original looks for the file that nobody made.
        if !commands.is_empty() && chance.one_in(3) {
            paths += 1;
            let path = format!("{}{paths}", chance.of(&["o", "o $PLACE", "$PLACE/o"]));
            one["write_outputs"] = json!({"run": {chance.of(&["stdout_to", "stderr_to"]): path}});
        }
        if chance.one_in(4) {
            let (id, wanted) = chance.of(&[
                ("number", ">0"),
                ("number", "<=3"),
                ("number", "==1.5"),
                ("number", "!=2"),
                ("text", "==Yes"),
                ("tried", "!=Perhaps"),
            ]);
            one["requirements"] = json!({"run": [{ id: wanted }]});
        }
        made.push(one);
    }
    json!(made)
}

fn handlers(chance: &mut Chance) -> Value {
    let all = [
        (json!(3), "", "continue"),
        (json!(0), "err-.*\\n", "continue"),
        (json!(4), "again\\n", "retry"),
        (json!("[1-9]+"), "[\\S\\s]*", "continue"),
        (json!(137), "[\\S\\s]*", "continue"),
        (json!(0), "[\\S\\s]*", "continue"),
        (json!(1), "", "continue"),
    ];
    // Rarely some are missing, and the flow ends.
    let first = if chance.one_in(4) { chance.below(3) } else { 0 };
    let made = all.into_iter().skip(first).map(|(code, pattern, action)| {
        let mut one = json!({"return_code": code, "stderr_pattern": pattern, "action": action});
        if chance.one_in(4) {
            one["commands"] = json!([
                "echo handled $NOODLES_EXPERIMENT_NAME >> order",
                "local:echo more"
            ]);
        }
        one
    });
    made.collect()
}
