//! Flows that the original and ours really run: in a folder each, the same files, log and exit code.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nero_tests::{Home, Hosts};
use serde_json::{Value, json};

/// The original and what it needs. New releases of setuptools lack a module that it loads.
const PACKAGES: [&str; 4] = [
    "training-noodles==1.2.2",
    "oyaml==0.9",
    "PyYAML==6.0.4",
    "setuptools==65.5.0",
];

/// Flows that are run unless this variable has their number, or the first and the last: `41-60`.
const FLOWS: &str = "NERO_NOODLES_FLOWS";
/// Flows that are run at once.
const AT_ONCE: usize = 3;

#[test]
fn flows_run_as_the_original_runs_them() {
    let packages = original();
    let homes: Vec<Home> = (0..AT_ONCE).map(|_| Home::new()).collect();
    let path = std::env::var("PATH").expect("a search path");
    let pairs = homes.into_iter().map(|home| {
        let paths = [path.clone(), path.clone()];
        Pair::new(&packages, home, paths, "", Vec::new())
    });
    compare(pairs.collect(), (1, 60), &flow);
}

/// As above, with servers on two hosts, other ones for each program.
#[test]
fn flows_over_ssh_run_as_the_original_runs_them() {
    let packages = original();
    let hosts = Hosts::up(4 * AT_ONCE);
    let pairs = (0..AT_ONCE).map(|at| {
        let names: Vec<String> = (1..=4).map(|host| format!("h{}", 4 * at + host)).collect();
        let mut home = Home::with_hosts(&hosts);
        let paths = two_ways(&mut home, &hosts, [&names[..2], &names[2..]]);
        let key = hosts.path().join("id").display().to_string();
        let folders = names.iter().map(|host| hosts.home(host)).collect();
        Pair::new(&packages, home, paths, &key, folders)
    });
    let pairs: Vec<Pair> = pairs.collect();
    compare(pairs, (1, 15), &|chance| {
        flow_over_ssh(chance, hosts.isolated())
    });
}

/// What both programs need to run a flow beside one another.
struct Pair {
    packages: PathBuf,
    home: Home,
    /// Where programs are searched, there and here.
    paths: [String; 2],
    /// A file with the key for the hosts.
    key: String,
    /// The homes of the hosts: two there, two here.
    remote: Vec<PathBuf>,
}

impl Pair {
    fn new(
        packages: &Path,
        mut home: Home,
        paths: [String; 2],
        key: &str,
        remote: Vec<PathBuf>,
    ) -> Self {
        home.set_env("USER", "tester");
        home.set_env("PATH", &paths[1]);
        home.set_env("KEY", key);
        let (packages, key) = (packages.to_owned(), key.to_owned());
        Self {
            packages,
            home,
            paths,
            key,
            remote,
        }
    }

    /// What the flow of a seed did there and here.
    fn run(&self, seed: u64, case: &Case) -> [Seen; 2] {
        let folders = ["there", "here"].map(|who| {
            let folder = self.home.path().join(format!("{seed}-{who}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("spec.yml"), case.spec.to_string()).unwrap();
            folder
        });
        let mut theirs = theirs(&self.packages, &self.home, &self.paths[0], &case.words);
        theirs.env("KEY", &self.key);
        let words = case.words.iter().map(String::as_str);
        let ours = self
            .home
            .command(&["noodles"].into_iter().chain(words).collect::<Vec<_>>());
        let halves = self.remote.split_at(self.remote.len() / 2);
        let [there, here] = [
            (theirs, &folders[0], halves.0),
            (ours, &folders[1], halves.1),
        ]
        .map(|(mut command, folder, remote)| {
            command.current_dir(folder).stdin(Stdio::null());
            let ran = command.output().expect("it starts");
            let log = String::from_utf8_lossy(&ran.stderr).into_owned();
            let mut seen = Seen::of(ran.status.code(), &log, folder);
            for (host, home) in remote.iter().enumerate() {
                // Without name spaces the hosts have paths of their own.
                let at = home.display().to_string();
                seen.log = (seen.log.iter())
                    .map(|line| line.replace(&at, "HOME"))
                    .collect();
                for (name, text) in taken(home) {
                    let text = text.replace(&at, "HOME");
                    seen.files.insert(format!("{host}/{name}"), text);
                }
            }
            seen
        });
        [there, here]
    }
}

/// The files of a host's user, which are taken away.
fn taken(home: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(home).unwrap().map(|file| file.unwrap());
    let files = files.filter(|file| file.file_name() != ".ssh");
    let taken = files.map(|file| {
        let text = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned();
        fs::remove_file(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), text)
    });
    taken.collect()
}

/// The first seed and the last, as usual or as a variable has them: a number, or `41-60`.
pub fn seeds(variable: &str, usual: (u64, u64)) -> RangeInclusive<u64> {
    let Ok(text) = std::env::var(variable) else {
        return usual.0..=usual.1;
    };
    let (first, last) = text.split_once('-').unwrap_or(("1", &text));
    let number = |text: &str| text.parse().expect("a number");
    number(first)..=number(last)
}

/// Runs flows, several at once. `usual` are the first and the last.
fn compare(pairs: Vec<Pair>, usual: (u64, u64), flow: &(dyn Fn(&mut Chance) -> Case + Sync)) {
    let (first, last) = seeds(FLOWS, usual).into_inner();
    let next = AtomicU64::new(first);
    let (alike, differ) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let (next, alike, differ) = (&next, &alike, &differ);
    std::thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    let case = flow(&mut Chance(seed));
                    let [there, here] = pair.run(seed, &case);
                    // A list of outputs that is empty, a path that is not there: the table of
                    // differences.
                    if there.crashed {
                        continue;
                    }
                    if there == here {
                        alike.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let Case { spec, words } = case;
                    let told =
                        format!("flow {seed} {words:?}:\n{spec}\nthere {there:#?}\nhere {here:#?}");
                    // A long run is looked at while it goes on.
                    eprintln!("{told}");
                    differ.lock().unwrap().push(told);
                }
            });
        }
    });
    let (alike, count) = (alike.load(Ordering::Relaxed), last + 1 - first);
    let differ = differ.lock().unwrap();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[0]);
    assert!(alike > count / 2, "{alike} of {count}");
}

fn original() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let packages = nero_pip::packages(&target.join("training-noodles"), &PACKAGES);
    packages.unwrap_or_else(|why| panic!("{why}"))
}

/// The original's command, with what it needs of the caller's environment.
fn theirs<S: AsRef<OsStr>>(packages: &Path, home: &Home, path: &str, words: &[S]) -> Command {
    // Where experiments wait for ever, it does.
    let mut theirs = Command::new("timeout");
    theirs
        .args(["300", "python3"])
        .arg(packages.join("bin/noodles"))
        .args(words)
        .env_clear()
        .envs([("USER", "tester"), ("PATH", path)])
        .env("HOME", home.path())
        .env("PYTHONPATH", packages)
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONUTF8", "1");
    theirs
}

/// Where programs are searched there and here: the hosts `one` and `two` are other ones.
fn two_ways(home: &mut Home, hosts: &Hosts, names: [&[String]; 2]) -> [String; 2] {
    let usual = std::env::var("PATH").expect("a search path");
    [("there", names[0]), ("here", names[1])].map(|(who, names)| {
        hosts.alias("one", &names[0]);
        hosts.alias("two", &names[1]);
        let bin = home.path().join(format!("bin-{who}"));
        fs::create_dir(&bin).unwrap();
        let config = bin.join("config");
        fs::copy(hosts.ssh_config(), &config).unwrap();
        for program in ["ssh", "scp"] {
            let line = format!("exec /usr/bin/{program} -F '{}' \"$@\"", config.display());
            home.script(&bin.join(program), format!("#!/bin/sh\n{line}\n"));
        }
        format!("{}:{usual}", bin.display())
    })
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
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/noodles");
    let paths = two_ways(
        &mut home,
        &hosts,
        [&hosts.names()[..2], &hosts.names()[2..]],
    );
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
            let theirs = theirs(&packages, &home, &paths[0], &[command_type, "spec.yml"]);
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
            "is called",
            "is left out",
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

/// Commands of every kind that ends by itself and reads nothing; `WHO` is the experiment.
const COMMANDS: &[&str] = &[
    "echo WHO $NOODLES_SERVER_NAME >> order",
    "echo out-WHO; echo \"$V $W\" >> order",
    "echo err-WHO >&2",
    "exit 3",
    "false",
    "true",
    "test -e tried || { touch tried; echo again >&2; exit 4; }",
    "printf 'a\\nb'; echo $NOODLES_EXPERIMENT_NAME >> order",
    "cd /; pwd; cd - >> order",
    "pwd >> order",
    "nosuch WHO",
    "cat <<END >> order\n$NOODLES_EXPERIMENT_NAME in $PLACE\nEND",
    "local:echo WHO; pwd >> order",
    "V=changed; echo $V >> order",
    "echo many WHO >> order\necho lines >> order",
    "kill -9 $$",
    "echo $NOODLES_SERVER_AUTHORITY,$NOODLES_SERVER_PORT,$NOODLES_SERVER_USERNAME >> order",
    "local:echo asked for local >> order",
    "remote:echo asked for remote >> order",
];

/// What is run.
struct Case {
    /// A spec in JSON, which is YAML, too.
    spec: Value,
    /// The words behind the program's name.
    words: [String; 2],
}

/// A flow on this machine.
fn flow(chance: &mut Chance) -> Case {
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
        "experiments": experiments(chance, 5, true),
    });
    for stage in ["before_all_experiments", "after_all_experiments"] {
        if chance.one_in(3) {
            spec[stage] = experiments(chance, 2, false);
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
    if chance.one_in(8) {
        spec["check_any_errors"] = json!(false);
    }
    // Several servers are asked at once here, and their answers have no order.
    if servers.len() == 1 && chance.one_in(2) {
        let failing = ["echo err-p >&2", "exit 3", "echo 1; echo err-p >&2; exit 9"];
        spec["requirements"]["fails"] = if chance.one_in(2) {
            json!(chance.of(&failing))
        } else {
            json!(["echo 1", format!("local:{}", chance.of(&failing))])
        };
        let first = &mut spec["experiments"][0];
        first["requirements"] = json!({"run": [{ "fails": chance.of(&["!=5", "!=x"]) }]});
    }
    let mut target = "spec.yml".to_owned();
    if chance.one_in(6) {
        let all = spec["experiments"].as_array().expect("a list").iter();
        let mut names: Vec<&str> = all.filter_map(|one| one["name"].as_str()).collect();
        names.retain(|_| chance.one_in(2));
        target = format!("{target}:{}", names.join(","));
    }
    let words = ["run".to_owned(), target];
    Case { spec, words }
}

/// A flow with servers behind ssh. `has_ports`: each host has the usual port, and a user `tester`.
fn flow_over_ssh(chance: &mut Chance, has_ports: bool) -> Case {
    let mut case = flow(chance);
    let all = [
        json!({"name": "first", "hostname": "one"}),
        json!({"name": "second", "hostname": "two"}),
        json!({"name": "here"}),
    ];
    let (first, count) = match case.spec["requirements"].get("fails") {
        Some(_) => (chance.below(2), 1),
        None => (chance.below(3), 1 + chance.below(3)),
    };
    let count = if first == 2 { count.max(2) } else { count };
    let servers = (first..first + count).map(|at| all[at % 3].clone());
    case.spec["servers"] = servers.collect();
    let given = |chance: &mut Chance, value: Value| {
        if has_ports && chance.one_in(2) {
            value
        } else {
            Value::Null
        }
    };
    case.spec["server_default"] = json!({
        "private_key_path": chance.of(&[None, Some("$KEY")]),
        "username": given(chance, json!("tester")),
        "port": given(chance, json!(22)),
    });
    case
}

/// `may_need`: the original looks for what an experiment needs among those of the main stage alone.
fn experiments(chance: &mut Chance, most: usize, may_need: bool) -> Value {
    let mut made: Vec<Value> = Vec::new();
    let mut needed = Vec::new();
    let mut paths = 0;
    for number in 0..=chance.below(most) {
        let mut name = chance
            .of(&["a", "s 1", "train", "Exp.3", "it's"])
            .to_owned();
        // What has no number may be there twice: to need it may be to need oneself.
        let is_one = !chance.one_in(8);
        if is_one {
            let _ = write!(name, "{number}");
        }
        let mut one = json!({"name": name});
        let plain = name.replace('\'', "");
        let commands: Vec<String> = (0..chance.below(5))
            .map(|_| chance.of(COMMANDS).replace("WHO", &plain))
            .collect();
        one["commands"] = match &commands[..] {
            [command] => json!({ "run": command }),
            _ => json!({ "run": commands }),
        };
        if chance.one_in(3) {
            let value = chance.of(&["v", "it's \"q\"", "$HOME/x", "a  b", "$W-x"]);
            one["envs"] = json!({"V": value, "W": chance.of(&["w", "`echo sub`", "$(echo sub)"])});
        }
        if !needed.is_empty() && chance.one_in(3) {
            one["depends_on"] = json!({"run": needed[chance.below(needed.len())]});
        }
        // Without commands, the original looks for the file that nobody made.
        if !commands.is_empty() && chance.one_in(3) {
            let outputs = chance.of(&[
                &["stdout_to"][..],
                &["stderr_to"],
                &["stdout_to", "stderr_to"],
            ]);
            for stream in outputs {
                paths += 1;
                let path = format!("{}{paths}", chance.of(&["o", "o $PLACE", "$PLACE/o"]));
                one["write_outputs"]["run"][stream] = json!(path);
            }
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
            if chance.one_in(3) {
                one["requirements"]["run"] = json!([{ id: wanted }, { "number": "<2" }]);
            }
        }
        if is_one && may_need {
            needed.push(one["name"].clone());
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
