//! Login nodes of a real scheduler behind a real sshd, as their user meets them.

use std::fs;
use std::time::Instant;

use nero_tests::cluster::Scheduler;
use nero_tests::login_nodes::LoginNodes;
use nero_tests::{Part, end, until};
use serde_json::Value;

/// Waits until this many names are in a folder.
fn until_files(nodes: &LoginNodes, folder: &std::path::Path, count: usize) {
    until(&format!("{count} files in {}", folder.display()), || {
        let found = fs::read_dir(folder).map_or(0, Iterator::count);
        if found >= count {
            Ok(())
        } else {
            Err((found, nodes.home.logs()))
        }
    });
}

/// Ports on which a host listens to others.
fn listening(nodes: &LoginNodes, host: &str) -> Vec<String> {
    let said = nodes
        .hosts
        .enter(host, &["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
    let lines = said
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let open = lines.filter(|words| words.get(3) == Some(&"0A"));
    let ports = open.filter_map(|words| Some(words.get(1)?.rsplit(':').next()?.to_owned()));
    ports.filter(|port| port != "0016").collect()
}

fn is_aborted(seen: &Value) -> bool {
    seen["state"] == "aborted"
}

/// The number of tasks of an array, when it is given by hand.
const TASKS: &str = "NERO_TASKS";

/// An array of tasks on compute nodes without any network, watched and ended from a
/// laptop: a rule ends some, their owner others, the leader is killed, its login node
/// crashes and another one follows, and everything comes home once.
fn an_array_without_a_route(scheduler: Scheduler, found: &str) {
    let tasks: u64 = std::env::var(TASKS).map_or(24, |text| text.parse().expect("a number"));
    let (slots, cpus, memory) = (tasks, tasks.div_ceil(3), tasks.div_ceil(3) * 1000);
    let [slots, cpus, memory] = [slots, cpus, memory].map(|number| number.to_string());
    let room = [
        ("SLOTS_EACH", &*slots),
        ("CPUS", &cpus),
        ("MEMORY", &memory),
    ];
    let Some(nodes) = LoginNodes::up(scheduler, 2, &room) else {
        return;
    };
    let ended_by_a_rule: Vec<u64> = (tasks - 2..=tasks).collect();
    let ended_by_their_owner: Vec<u64> = (tasks - 7..=tasks - 3).collect();
    let live: Vec<u64> = (1..tasks - 7).collect();
    let said = nodes.add_node(&["listen: never"]);
    assert!(said.contains(found), "{said}");
    let (began, go) = (nodes.folder("began"), nodes.folder("go"));
    let lines = format!(
        "echo x >> {began}/{{n}}; echo interfaces=$(($(wc -l < /proc/self/net/dev) - 2)); \
         echo error_rate=0.$((100 + {{n}})); \
         while ! [ -e {go}/1 ]; do sleep 0.2; done; echo loss={{n}}; \
         while ! [ -e {go}/2 ]; do sleep 0.2; done; echo made > made.txt; exit $(({{n}} % 3))",
        began = began.display(),
        go = go.display(),
    );
    let numbers: Vec<String> = (0..tasks).map(|n| n.to_string()).collect();
    let yaml = format!(
        "+a:\n  node: cluster\n  command: [sh, -c, '{lines}']\n  parameters: {{n: [{}]}}\n  \
         rules:\n    - abort: error_rate > 0.{}\n",
        numbers.join(", "),
        tasks + 96
    );
    let folder = nodes.home.experiment("sweep", &yaml);
    nodes.home.ok(&["start", folder.to_str().unwrap()]);
    let started = Instant::now();
    until_files(&nodes, &began, numbers.len());
    eprintln!("{tasks} tasks began within {:?}", started.elapsed());

    // The rule in the file, beside each run.
    for seen in nodes.until_all(&ended_by_a_rule, "to be ended by the rule", is_aborted) {
        let reason = seen["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("error_rate > 0."), "{seen:#}");
    }
    let others = [&live[..], &ended_by_their_owner].concat();
    let seen = nodes.until_all(&others, "to be read", |seen| {
        seen["metrics"]["error_rate"]["count"] == 1
    });
    for one in &seen {
        assert_eq!(one["metrics"]["interfaces"]["last"], 1.0, "{one:#}");
    }
    assert_eq!(listening(&nodes, "h1"), Vec::<String>::new());

    let asked = Instant::now();
    let which = format!("errorrate>0.{}&&runtime>0.1", tasks + 91);
    let said = nodes.home.ok(&["--abort", &which]);
    nodes.until_all(&ended_by_their_owner, "to be aborted", is_aborted);
    eprintln!("aborted {:?} after the command: {said}", asked.elapsed());

    let leaders = nodes.parts("h1", Part::Mum);
    assert_eq!(leaders.len(), 1);
    end(&leaders);
    fs::write(go.join("1"), "").unwrap();
    nodes.until_all(&live, "to have a loss", |seen| {
        seen["metrics"]["loss"]["last"].as_f64() == seen["parameters"]["n"].as_f64()
    });

    nodes.hosts.kill("h1");
    nodes.hosts.alias("login", "h2");
    fs::write(go.join("2"), "").unwrap();
    let changed = Instant::now();
    let all = nodes.until_all(&live, "to be settled", |seen| {
        let is_over = seen["state"] == "finished" || seen["state"] == "crashed";
        is_over && seen["settled"] == true && seen["results"].is_string()
    });
    eprintln!(
        "settled {:?} after the login node was lost",
        changed.elapsed()
    );
    for seen in all {
        let n = seen["id"].as_u64().unwrap() - 1;
        assert_eq!(seen["exit_code"], n % 3, "{seen:#}");
        // The folder is named when its first file is on the way.
        let results = std::path::PathBuf::from(seen["results"].as_str().unwrap());
        until(&format!("the files of run {n}"), || {
            let of = |name| fs::read_to_string(results.join(name)).unwrap_or_default();
            let (log, made) = (of("stdout.log"), of("made.txt"));
            let home = log.ends_with(&format!("loss={n}\n")) && made == "made\n";
            home.then_some(()).ok_or((log, made, nodes.home.logs()))
        });
    }
    for n in 0..tasks {
        let starts = fs::read_to_string(began.join(n.to_string())).unwrap();
        assert_eq!(starts, "x\n", "run {n}");
    }
}

#[test]
fn an_array_of_slurm_without_a_route_is_watched_and_ended_over_ssh_and_comes_home() {
    an_array_without_a_route(Scheduler::Slurm, "`warden: slurm`");
}

#[test]
fn an_array_of_grid_engine_without_a_route_is_watched_and_ended_over_ssh_and_comes_home() {
    an_array_without_a_route(Scheduler::GridEngine, "`warden: oge`");
}
