//! GPUs, and what a scheduler is asked.

use crate::{load, report};

#[test]
fn gpus_are_whole_ones_a_part_of_one_or_unmanaged_on_each_node() {
    let loaded = load(
        "\
+a: {command: 'true', resources: {gpus: {a: 2, b: 0.5, default: unmanaged}, gpumem: 20G}}
+b: {command: 'true', resources: {gpus: 2}}
",
    );
    let asks = &loaded.definitions[0].scheduling;
    let on = |node| {
        (
            asks.gpus.on(node).copied(),
            asks.gpu_share.on(node).copied(),
        )
    };
    assert_eq!(on("a"), (Some(2), Some(1_000_000)));
    assert_eq!(on("b"), (Some(1), Some(500_000)));
    assert_eq!(on("other"), (Some(0), Some(0)));
    assert_eq!(asks.gpumem.on("a"), Some(&(20 << 30)));
    assert!(loaded.definitions[1].scheduling.gpu_share.is_empty());
}

#[test]
fn what_chooses_gpus_is_refused_where_none_is_asked_for() {
    for asks in [
        "gpumem: 20G",
        "gpu_type: a100",
        "gpus: unmanaged, gpumem: {a: 20G}",
    ] {
        let problems = report(&format!("+a: {{command: prog, resources: {{{asks}}}}}\n"));
        let message = "chooses among GPUs, and the run is given none";
        assert!(problems.contains(message), "{asks}: {problems}");
        assert!(problems.contains("hint: add `gpus: 1`"), "{problems}");
    }
    load("+a: {command: prog, resources: {gpumem: 20G, gpus: {a: unmanaged, b: 0.5}}}\n");
    load("+a: {command: prog, resources: {gpus: 0, gpu_type: a100}}\n");
}

#[test]
fn what_a_scheduler_is_asked_holds_for_all_nodes_or_for_each() {
    let loaded = load(
        "\
+a:
  command: 'true'
  resources: {gpus: {triton: 2, default: 1}, gpu_type: a100, nodes: 2, processes: {triton: 8}, exclusive: true}
  launcher: {triton: srun, default: none}
  partition: {triton: gpu-short, default: batch}
  account: proj@lab
  constraint: 'ib&avx2'
  setup: {triton: [module load cuda/12.4, 'export A=\"b c\"'], box: []}
  sbatch_args: [--reservation=r1, '--mail-type END', '-x n[1-3]']
  qsub_args: {oge: '-l h_rss=1G -soft'}
  on_lost: {triton: rerun, default: wait}
  python: {triton: 'conda:my env', local: venv:.venv, default: uv}
",
    );
    let asks = &loaded.definitions[0].scheduling;
    assert_eq!(asks.gpus.on("triton"), Some(&2));
    assert_eq!(asks.gpus.on("box"), Some(&1));
    assert_eq!(asks.nodes.on("box"), Some(&2));
    assert_eq!(asks.processes.on("triton"), Some(&8));
    assert_eq!(asks.processes.on("box"), None);
    assert_eq!(asks.launcher.on("triton").unwrap(), "srun");
    assert_eq!(asks.launcher.on("box").unwrap(), "none");
    assert_eq!(asks.partition.on("triton").unwrap(), "gpu-short");
    assert_eq!(asks.partition.on("other").unwrap(), "batch");
    assert_eq!(asks.account.on("any").unwrap(), "proj@lab");
    assert_eq!(asks.exclusive.on("any"), Some(&true));
    assert_eq!(asks.qos.on("any"), None);
    assert_eq!(asks.reruns_lost.on("triton"), Some(&true));
    assert_eq!(asks.reruns_lost.on("box"), Some(&false));
    assert_eq!(asks.python.on("triton").unwrap(), "conda:my env");
    assert_eq!(asks.python.on("other").unwrap(), "uv");
    assert!(asks.python.on("local").unwrap().ends_with("/lab/.venv"));
    for (python, message) in [
        ("python: conda", "`python` takes no `conda`"),
        ("python: uv:x", "`python` takes no `uv:x`"),
        (
            "python: 'conda:a$(rm)'",
            "write conda:NAME, venv:PATH, uv or system",
        ),
        ("python: venv:.venv", "`python: {local: venv:.venv}`"),
    ] {
        let said = report(&format!("+a: {{command: p, {python}}}\n"));
        assert!(said.contains(message), "{python}: {said}");
    }
    let inside = report("+a: {command: p, resources: {cpus: 2, partition: gpu}}\n");
    assert!(
        inside.contains("`partition` is no part of `resources`")
            && inside.contains("write `partition` beside `resources`"),
        "{inside}"
    );
    let lines = ["module load cuda/12.4", "export A=\"b c\""];
    assert_eq!(asks.setup.on("triton").unwrap(), &lines);
    assert!(asks.setup.on("box").unwrap().is_empty());
    assert_eq!(asks.setup.on("other"), None);
    let options = ["--reservation=r1", "--mail-type=END", "-xn[1-3]"];
    assert_eq!(asks.sbatch_args.on("any").unwrap(), &options);
    let options = ["-l=h_rss=1G", "-soft"];
    assert_eq!(asks.qsub_args.on("oge").unwrap(), &options);
    assert!(loaded.definitions[0].not_built.is_empty());
    let note = "`partition` is for nodes with a scheduler; elsewhere it does nothing";
    assert!(
        loaded.notes.iter().any(|found| found.text == note),
        "{:?}",
        loaded.notes
    );
}

#[test]
fn a_container_holds_for_all_nodes_or_for_each() {
    let loaded = load(
        "\
command: 'true'
container: {image: 'docker.io/lab/env:2', runtime: docker, mounts: ['~/data:/data:ro'], pull: always, options: [--shm-size=8g]}
+a: {}
+b: {container: none}
+c: {container: {triton: /images/env.sif, default: python@sha256:0f}}
+d: {container: ~}
",
    );
    let on = |at: usize, node: &str| loaded.definitions[at].scheduling.container.on(node);
    let of_a = on(0, "any").unwrap();
    assert_eq!(
        (of_a.image.as_str(), of_a.runtime.as_str()),
        ("docker.io/lab/env:2", "docker")
    );
    assert_eq!(
        (of_a.mounts.concat(), of_a.pull.as_str()),
        ("~/data:/data:ro".to_owned(), "always")
    );
    assert_eq!(of_a.options, ["--shm-size=8g"]);
    assert_eq!(on(3, "any"), None, "null unsets what stands above");
    assert_eq!(on(1, "any").unwrap().image, "", "whatever the node has");
    assert_eq!(on(2, "triton").unwrap().image, "/images/env.sif");
    assert_eq!(on(2, "box").unwrap().image, "python@sha256:0f");
}

#[test]
fn what_is_no_container_is_told_with_its_place() {
    for (container, message) in [
        ("--privileged", "`--privileged` of `container` is no image"),
        ("'a b'", "is no image"),
        ("../env.tar", "is no image"),
        ("./../env.tar", "is no image"),
        ("{runtime: docker}", "container"),
        ("{image: a, runtime: lxc}", "lxc"),
        ("{image: a, mount: [/x]}", "`mounts`"),
        ("{image: a, mounts: [data:/x]}", "is no mount"),
        ("{image: a, mounts: ['/a:b']}", "is no mount"),
        (
            "{image: a, options: [--rm]}",
            "`--rm` of `container.options` is Neronet's own",
        ),
        (
            "{image: a, options: ['--cpus 2']}",
            "is no option in one word",
        ),
        ("{image: a, network: --x}", "takes no"),
    ] {
        let said = report(&format!("+a: {{command: p, container: {container}}}\n"));
        assert!(said.contains(message), "{container}: {said}");
    }
}
