//! Files both ways with the real programs: outputs during a run and after it,
//! with every part killed meanwhile; and cleaning.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nero_tests::{Home, Part, until};
use serde_json::Value;

use crate::ssh::Lab;
use crate::story::{added, make_pipe};

/// Everything below a folder: content by path; entries that are no plain files
/// are named.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if about.is_dir() {
                folders.push(path);
            } else if about.is_file() {
                found.insert(name, fs::read(&path).unwrap());
            } else {
                found.insert(format!("{name} is no file"), Vec::new());
            }
        }
    }
    found
}

fn results(home: &Home, id: &str) -> PathBuf {
    PathBuf::from(home.ok(&["path", id]).trim_end())
}

/// Waits until the results of a run are complete.
fn until_home(home: &Home, id: &str) -> PathBuf {
    until("the results to be home", || {
        let ran = home.run(&["path", id]);
        let complete = ran.code == Some(0) && ran.err.is_empty() && !ran.out.trim().is_empty();
        if complete {
            Ok(PathBuf::from(ran.out.trim_end()))
        } else {
            Err((ran, home.logs()))
        }
    })
}

fn run_of(reply: &Value, id: &str) -> Value {
    let all = reply["runs"].as_array().unwrap();
    all.iter().find(|one| one["run"] == id).cloned().unwrap()
}

#[test]
fn files_of_a_live_run_come_when_they_are_asked_for() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: f
outputs: [{{path: 'out/**', fetch: end}}]
+f: {{command: [sh, -c, 'mkdir out; seq 1000 > out/a; echo x > other; echo said; cat {0}; seq 5 > out/b']}}
",
        pipe.display()
    );
    added(&home, "f", &yaml);
    home.ok(&["start", "1"]);
    until("the job to have printed", || {
        let ran = home.run(&["logs", "1"]);
        if ran.out == "said\n" {
            Ok(())
        } else {
            Err(ran)
        }
    });
    let reply = home.json(&["fetch", "1"]);
    let one = run_of(&reply, "1.1");
    assert_eq!(one["failed"], Value::Null, "{reply:#}");
    let folder = PathBuf::from(one["folder"].as_str().unwrap());
    let seq = |last: u32| {
        let lines: String = (1..=last).map(|number| format!("{number}\n")).collect();
        lines.into_bytes()
    };
    assert_eq!(fs::read(folder.join("out/a")).unwrap(), seq(1000));
    assert_eq!(fs::read(folder.join("stdout.log")).unwrap(), b"said\n");
    assert!(!folder.join("other").exists());
    home.ok(&["fetch", "1", "--include", "oth*"]);
    assert_eq!(fs::read(folder.join("other")).unwrap(), b"x\n");
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "1"]);
    assert_eq!(until_home(&home, "1"), folder);
    assert_eq!(fs::read(folder.join("out/b")).unwrap(), seq(5));
    let words = ["fetch", "1", "--include", "oth*", "--include", "out/**"];
    let again = run_of(&home.json(&words), "1.1");
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&0.into(), &3.into()),
        "{again:#}"
    );
}

#[test]
fn a_daemon_that_is_killed_while_results_come_brings_each_once() {
    let home = Home::new();
    let yaml = "collection: k
outputs: ['many/**', big]
+k: {command: [sh, -c, 'mkdir many; i=0; while [ $i -lt 3000 ]; do echo $i > many/$i; i=$((i+1)); done; yes abcdefg | head -c 150000000 > big']}
";
    added(&home, "k", yaml);
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    let work = PathBuf::from(home.ok(&["path", "1", "--remote"]).trim_end());
    let mut kills = 0;
    // Each time a little later: among the many files, and within the big one.
    for wanted in [1, 700, 2500, 3001, 3002] {
        let found = until("files to come, or all to be there", || {
            let path = home.run(&["path", "1"]);
            let folder = PathBuf::from(path.out.trim_end());
            let count = if folder.is_dir() && !path.out.trim().is_empty() {
                tree_names(&folder)
            } else {
                0
            };
            if count >= wanted || (path.err.is_empty() && path.code == Some(0)) {
                Ok(path.err.is_empty())
            } else {
                Err((path, count))
            }
        });
        if !found {
            home.kill(Part::Daemon);
            kills += 1;
        }
    }
    assert!(kills > 0, "nothing was cut short");
    let folder = until_home(&home, "1");
    let mut there = tree(&work);
    there.retain(|path, _| path.starts_with("many/") || path == "big");
    let mut here = tree(&folder);
    here.retain(|path, _| !path.ends_with(".log"));
    assert_eq!(here.len(), there.len(), "nothing half, nothing doubled");
    assert!(here == there, "every byte");
    let left = fs::read_dir(home.base().join("data/fetching")).unwrap();
    assert_eq!(left.count(), 0);
}

fn tree_names(folder: &Path) -> usize {
    let mut count = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => count += 1,
            }
        }
    }
    count
}

#[test]
fn harmful_files_of_a_job_stay_on_its_node() {
    let home = Home::new();
    let secret = home.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let script = format!(
        "mkdir -p d/$(printf 'a%.0s/' $(seq 70)) 'od\td'; ln -s {0} link; ln -s / d/root; \
         mkfifo pipe; cp /bin/true setuid; chmod 4755 setuid; echo good > good; \
         echo hidden > .hidden; printf x > \"$(printf 'es\\033[31mc')\"; echo deep > d/ok; echo s > 'od\td/f'",
        secret.display()
    );
    let yaml = serde_json::json!({
        "collection": "h",
        "outputs": ["**"],
        "+h": {"command": ["sh", "-c", script]},
    });
    added(&home, "h", &yaml.to_string());
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    let folder = until_home(&home, "1");
    let here = tree(&folder);
    assert!(
        !here.keys().any(|name| name.ends_with("is no file")),
        "{:?}",
        here.keys()
    );
    assert_eq!(here["good"], b"good\n");
    assert_eq!(here["d/ok"], b"deep\n");
    assert!(here.values().all(|content| content != b"secret"));
    let plain = |name: &&String| !name.chars().any(char::is_control);
    assert!(here.keys().all(|name| plain(&name)), "{:?}", here.keys());
    for name in here.keys() {
        let mode = folder.join(name).metadata().unwrap().mode();
        assert_eq!(mode & 0o7077, 0, "{name}: {mode:o}");
    }
    let shown = home.run(&["show", "1"]);
    for said in ["link (a link to ", "pipe (a pipe)"] {
        assert!(shown.err.contains(said), "{shown:#?}");
    }
    assert!(!format!("{}{}", shown.out, shown.err).contains('\u{1b}'));
}

#[test]
fn fetched_runs_are_cleaned_and_others_stay() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: c
outputs: [{{path: 'o*', max: 1K}}]
+small: {{command: [sh, -c, 'echo said; echo x > o']}}
+large: {{command: [sh, -c, 'head -c 5000 /dev/zero > o']}}
+live: {{command: [sh, -c, 'cat {}']}}
",
        pipe.display()
    );
    added(&home, "c", &yaml);
    home.ok(&["start", "all"]);
    home.ok(&["wait", "1-2"]);
    home.until_state(3, "running");
    let folder = until_home(&home, "1");
    until_home(&home, "2");
    home.until_settled(1);
    home.until_settled(2);
    let work = |id: &str| PathBuf::from(home.ok(&["path", id, "--remote"]).trim_end());
    let (small, large, live) = (work("1"), work("2"), work("3"));
    let cleaned = until("the runs to be settled", || {
        let reply = home.json(&["clean", "--yes"]);
        let one = run_of(&reply, "1.1");
        if one["skipped"] == Value::Null {
            Ok(reply)
        } else {
            Err(reply)
        }
    });
    let skipped = |id: &str| run_of(&cleaned, id)["skipped"].to_string();
    assert!(
        skipped("2.1").contains("not home as it is there: o"),
        "{cleaned:#}"
    );
    assert!(skipped("3.1").contains("running"), "{cleaned:#}");
    assert!(!small.exists() && large.exists() && live.exists());
    assert_eq!(home.ok(&["logs", "1"]), "said\n");
    assert_eq!(results(&home, "1"), folder);
    assert_eq!(fs::read(folder.join("o")).unwrap(), b"x\n");
    let fetched = home.run(&["fetch", "1"]);
    assert_eq!(fetched.code, Some(1), "{fetched:#?}");
    assert!(fetched.out.contains("was cleaned on"), "{fetched:#?}");
    // Once its results are at home, it goes; files that another run still needs
    // are not swept.
    home.ok(&["fetch", "2"]);
    let cleaned = home.json(&["clean", "2"]);
    assert!(!large.exists(), "{cleaned:#}");
    assert_eq!(tree(&results(&home, "2"))["o"].len(), 5000);
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "3"]);
    home.ok(&["restart", "1"]);
    home.ok(&["wait", "1"]);
    let du = home.json(&["du", "--runs"]);
    let runs = du["nodes"][0]["usage"]["runs"].as_array().unwrap();
    let mut ids: Vec<&str> = runs
        .iter()
        .map(|run| run["run"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["1.2", "3.1"], "{du:#}");
    assert!(du["home"]["store_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn without_outputs_everything_comes_home_under_its_own_name_and_clean_deletes_nothing_else() {
    let home = Home::new();
    let made = "mkdir -p out; echo data > 'out/a b.txt'; echo wert > 'out/ünï.txt'; \
                echo weights > .hidden.pt; ln -s .hidden.pt latest.pt; \
                echo '#!/bin/sh' > tool; chmod +x tool; seq 300000";
    let yaml = format!(
        "collection: c
+all:
  command: [sh, -c, \"{made}\"]
+typo:
  command: [sh, -c, 'echo weights > model.pt']
  outputs: ['modle.pt']
+large:
  command: [sh, -c, 'head -c 3000 /dev/zero > big; echo x > small']
  results_max: 2K
"
    );
    added(&home, "c", &yaml);
    home.ok(&["start", "all"]);
    home.ok(&["wait", "all"]);
    let folder = until_home(&home, "1");
    let here = tree(&folder);
    let names: Vec<&str> = here.keys().map(String::as_str).collect();
    for name in ["out/a b.txt", "out/ünï.txt", ".hidden.pt", "tool"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"neronet.yaml"), "code stays: {names:?}");
    assert_eq!(
        fs::read_link(folder.join("latest.pt")).unwrap(),
        Path::new(".hidden.pt")
    );
    let mode = fs::metadata(folder.join("tool")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(here["stdout.log"].len() > 1024 * 1024, "the log is whole");
    // Every command that shows the run warns of files that stayed on the node.
    until_home(&home, "2");
    until_home(&home, "3");
    let warned = |id: &str, text: &str| {
        let reply = home.json(&["status", id]);
        let warnings = reply["experiments"][0]["warnings"].to_string();
        assert!(warnings.contains(text), "{reply:#}");
    };
    warned("2", "`modle.pt` of `outputs` fits no file");
    warned("2", "model.pt");
    warned("3", "too large to come home, on local: big");
    let work = |id: &str| PathBuf::from(home.ok(&["path", id, "--remote"]).trim_end());
    let folders = [work("1"), work("2"), work("3")];
    for id in 1..=3 {
        home.until_settled(id);
    }
    let would = home.json(&["clean", "all", "--dry-run"]);
    assert_eq!(run_of(&would, "1.1")["skipped"], Value::Null, "{would:#}");
    for (id, lost) in [("2.1", "model.pt"), ("3.1", "big")] {
        let one = run_of(&would, id);
        assert!(one["skipped"].to_string().contains(lost), "{would:#}");
        assert_eq!(one["not_home_files"], 1, "{would:#}");
    }
    home.run(&["clean", "all", "--yes"]);
    assert!(!folders[0].exists() && folders[1].exists() && folders[2].exists());
    let said = home.run(&["clean", "2", "--unfetched", "--dry-run"]);
    assert!(
        said.out
            .contains("deletes of 2.1 what is not home: model.pt"),
        "{said:#?}"
    );
    home.ok(&["clean", "2", "--unfetched"]);
    assert!(!folders[1].exists());
    home.ok(&["fetch", "3"]);
    home.ok(&["clean", "3"]);
    assert!(!folders[2].exists());
    assert_eq!(tree(&results(&home, "3"))["big"].len(), 3000);
}

#[test]
fn a_restarted_run_goes_on_from_its_checkpoints_wherever_they_are() {
    let home = Home::new();
    let yaml = "collection: r
checkpoint: 'ckpt/**'
+r: {command: [sh, -c, 'mkdir -p ckpt; n=$(cat ckpt/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > ckpt/n; echo at $n $(test -n \"$NERO_RESUME\" && echo resumed); [ $n -ge 3 ]']}
";
    added(&home, "r", yaml);
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "at 1\n");
    home.ok(&["restart", "1", "--resume"]);
    home.run(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "at 2 resumed\n");
    // From here on the node has no files of the run: results are laid over from
    // home.
    let folder = until_home(&home, "1");
    assert_eq!(fs::read(folder.join("ckpt/n")).unwrap(), b"2\n");
    home.until_settled(1);
    let cleaned = home.json(&["clean", "1"]);
    assert_eq!(
        run_of(&cleaned, "1.2")["skipped"],
        Value::Null,
        "{cleaned:#}"
    );
    home.ok(&["restart", "1", "--resume"]);
    home.ok(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "at 3 resumed\n");
    home.ok(&["restart", "1"]);
    home.run(&["wait", "1"]);
    assert_eq!(
        home.ok(&["logs", "1"]),
        "at 1\n",
        "without the word it begins anew"
    );
}

#[test]
fn files_go_on_over_a_connection_that_dies() {
    let lab = Lab::new(1);
    lab.warm_up();
    let folder = lab.home.experiment(
        "big",
        "collection: big
outputs: [stdout, out]
+b: {command: [sh, -c, 'cksum < in; cat in in > out'], files: [in]}
",
    );
    let (mut content, mut seed) = (vec![0u8; 150_000_000], 88_172_645_463_325_252_u64);
    for part in content.chunks_mut(8) {
        // Bytes that a compressing connection cannot shrink.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        part.copy_from_slice(&seed.to_le_bytes()[..part.len()]);
    }
    fs::write(folder.join("in"), &content).unwrap();
    let added = lab.home.ok(&["add", &folder.display().to_string()]);
    let id = added.split_whitespace().last().unwrap().to_owned();
    lab.home.ok(&["start", &id, "--node", "h1"]);
    let on_node = lab.hosts.home("h1").join(".neronet");
    let there = |folder: &Path, wanted: fn(&str) -> bool| {
        let mut bytes = 0;
        let mut folders = vec![folder.to_path_buf()];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if wanted(&path.display().to_string()) {
                    bytes += entry.metadata().map_or(0, |about| about.len());
                }
            }
        }
        bytes
    };
    let mut cuts = 0;
    let mut cut = |what: &str, come: &dyn Fn() -> u64, over: &dyn Fn() -> bool| {
        until(what, || {
            let bytes = come();
            if bytes > 5_000_000 || over() {
                Ok(())
            } else {
                Err((bytes, lab.home.logs()))
            }
        });
        if !over() {
            lab.home.kill(Part::Ssh);
            cuts += 1;
        }
    };
    cut(
        "the input to be on its way",
        &|| there(&on_node, |path| path.contains("/store/partial/")),
        &|| there(&on_node, |path| path.contains("/work/out")) > 0,
    );
    lab.home.ok(&["wait", &id]);
    let home_of = |id: &str| {
        let path = lab.home.run(&["path", id]).out;
        PathBuf::from(path.trim_end())
    };
    cut(
        "the output to be on its way",
        &|| there(&home_of(&id), |path| path.ends_with(".part")),
        &|| home_of(&id).join("out").exists(),
    );
    let results = until_home(&lab.home, &id);
    assert!(cuts > 0, "nothing was cut");
    let here = fs::read(results.join("out")).unwrap();
    assert!(here.len() == 2 * content.len(), "{} bytes", here.len());
    assert!(here[..content.len()] == content && here[content.len()..] == content);
    let names: Vec<String> = tree(&results).into_keys().collect();
    assert_eq!(names, ["out", "stdout.log"]);
}
