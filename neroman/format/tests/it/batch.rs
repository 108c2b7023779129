//! Batch scripts as people have them.

use nero_format::{Defaults, Definition, LoadedSource, read_source};

/// Adds a script of this name.
fn read(name: &str, text: &str) -> LoadedSource {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    read_source(&file, &Defaults::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn notes(loaded: &LoadedSource) -> String {
    let notes = loaded.notes.iter();
    let line = |note: &nero_format::Note| match &note.place {
        Some(place) => format!("{}:{} {}\n", place.line, place.column, note.text),
        None => format!("{}\n", note.text),
    };
    notes.map(line).collect()
}

fn on_any(value: &nero_format::OnNodes<String>) -> Option<&str> {
    value.on("any").map(String::as_str)
}

fn only(loaded: &LoadedSource) -> &Definition {
    match loaded.definitions.as_slice() {
        [one] => one,
        all => panic!("{} experiments", all.len()),
    }
}

#[test]
fn a_training_job_with_a_gpu_becomes_an_experiment() {
    let loaded = read("train.slurm", include_str!("../fixtures/train.slurm"));
    let one = only(&loaded);
    assert_eq!(one.name, "train");
    assert_eq!(one.argv, ["/bin/bash", "-l", "train.slurm"]);
    assert_eq!(one.resources.cpus, 8.0);
    assert_eq!(one.resources.memory_bytes, Some(64 << 30));
    assert_eq!(one.resources.time_ms, Some(36 * 3_600_000));
    let asks = &one.scheduling;
    assert_eq!(asks.gpus.on("any"), Some(&2));
    assert_eq!(on_any(&asks.gpu_type), Some("a100"));
    assert_eq!(on_any(&asks.partition), Some("gpu"));
    assert_eq!(on_any(&asks.account), Some("project_2001234"));
    let mails = ["--mail-type=END", "--mail-user=ada@example.org"];
    assert_eq!(asks.sbatch_args.on("any").unwrap(), &mails);
    let here = ("SLURM_SUBMIT_DIR".to_owned(), Some(".".to_owned()));
    assert_eq!(*one.env, [here]);
    let notes = notes(&loaded);
    assert!(notes.contains("2:9 `--job-name` is left out"), "{notes}");
    assert!(notes.contains("3:9 `--output` is left out"), "{notes}");
    assert!(notes.contains("`neroman logs`"), "{notes}");
    assert!(notes.contains("13:1 executed by a login shell"), "{notes}");
}

#[test]
fn an_array_becomes_one_experiment_for_each_task() {
    let loaded = read("sweep.sh", include_str!("../fixtures/sweep.sh"));
    let names: Vec<&str> = (loaded.definitions.iter())
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "sweep_task-1",
            "sweep_task-4",
            "sweep_task-7",
            "sweep_task-10"
        ]
    );
    let second = &loaded.definitions[1];
    let task = "SLURM_ARRAY_TASK_ID=4";
    assert_eq!(second.argv, ["env", task, "/bin/bash", "-e", "sweep.sh"]);
    assert_eq!(second.resources.time_ms, Some(30 * 60_000));
    assert_eq!(second.resources.memory_bytes, Some(1000 << 20));
    assert_eq!(on_any(&second.scheduling.partition), Some("short"));
    let notes = notes(&loaded);
    assert!(
        notes.contains("a run names one partition: short"),
        "{notes}"
    );
    assert_eq!(second.scheduling.at_once.on("any"), Some(&2));
}

#[test]
fn a_task_is_told_about_the_array_of_its_script() {
    let variables = |name: &str, text: &str| -> Vec<String> {
        let loaded = read(name, text);
        let env = loaded.definitions[0].env.iter();
        let env = env.filter(|(name, _)| name.contains("TASK"));
        env.map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or_default()))
            .collect()
    };
    let slurm = |indexes: &str| {
        let text = format!("#!/bin/sh\n#SBATCH --array={indexes}\n./x\n");
        variables("x.slurm", &text)
            .join(" ")
            .replace("SLURM_ARRAY_TASK_", "")
    };
    assert_eq!(slurm("0-3"), "COUNT=4 MIN=0 MAX=3 STEP=1");
    assert_eq!(slurm("1-9:4%2"), "COUNT=3 MIN=1 MAX=9 STEP=4");
    assert_eq!(slurm("7,2,5-6"), "COUNT=4 MIN=2 MAX=7 STEP=1");
    let engine = variables("x.sge", "#$ -t 2-8:3\n./x\n");
    let expected = ["SGE_TASK_FIRST=2", "SGE_TASK_LAST=8", "SGE_TASK_STEPSIZE=3"];
    assert_eq!(engine, expected);
}

#[test]
fn options_with_quotes_are_left_out_as_those_without() {
    let loaded = read(
        "big.slurm",
        "#!/bin/bash\n\
         #SBATCH --job-name=\"Big simulation\"\n\
         #SBATCH --output=\"log dir/%j.out\"\n\
         #SBATCH --comment=\"a b\"\n\
         #SBATCH --signal=B:USR1@120\n\
         #SBATCH --dependency=afterok:123\n\
         #SBATCH --gres=gpu:2,craynetwork:1\n\
         ./x\n",
    );
    assert_eq!(only(&loaded).scheduling.gpus.on("any"), Some(&2));
    let notes = notes(&loaded);
    for part in [
        "2:9 `--job-name` is left out",
        "3:9 `--output` is left out",
        "4:9 `--comment` is left out",
        "`--signal` is left out: a rule signals the job",
        "`depends_on:` names experiments",
        "only GPUs are asked for, not craynetwork:1",
    ] {
        assert!(notes.contains(part), "{part} is not in {notes}");
    }
}

#[test]
fn what_sbatch_refuses_or_is_several_jobs_is_no_experiment() {
    let refused = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.slurm");
        std::fs::write(&file, text).unwrap();
        let errors = read_source(&file, &Defaults::default()).map(drop);
        errors.unwrap_err().to_string()
    };
    let dos = refused("#!/bin/sh\n#SBATCH -n 1\r\n./x\r\n");
    assert!(
        dos.contains("carriage return") && dos.contains("x.slurm:2"),
        "{dos}"
    );
    let several = refused("#!/bin/sh\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\n./x\n");
    assert!(
        several.contains("heterogeneous") && several.contains("x.slurm:3"),
        "{several}"
    );
}

#[test]
fn a_job_of_several_tasks_is_as_many_processes_with_their_cpus() {
    let loaded = read(
        "mpi.sbatch",
        "#!/usr/bin/env bash\n\
         #SBATCH --nodes=1 --ntasks=16\n\
         #SBATCH --exclusive\n\
         #SBATCH --constraint=\"skl|icl\"\n\
         #SBATCH --licenses=comsol@lm:2\n\
         #SBATCH --mem=0\n\
         srun ./solve mesh.h5\n",
    );
    let one = only(&loaded);
    assert_eq!(one.argv, ["/usr/bin/env", "bash", "mpi.sbatch"]);
    assert_eq!(one.resources.cpus, 16.0);
    assert_eq!(one.resources.memory_bytes, None);
    assert_eq!(one.scheduling.exclusive.on("any"), Some(&true));
    assert_eq!(on_any(&one.scheduling.constraint), Some("skl|icl"));
    let passed = ["--licenses=comsol@lm:2"];
    assert_eq!(one.scheduling.sbatch_args.on("any").unwrap(), &passed);
    assert_eq!(one.scheduling.processes.on("any"), Some(&16));
    assert_eq!(one.scheduling.nodes.on("any"), None);
    let notes = notes(&loaded);
    assert!(notes.contains("all memory of a host is no size"), "{notes}");
}

#[test]
fn a_job_over_several_hosts_keeps_their_number_and_its_processes() {
    for (options, processes, cpus) in [
        ("-N 2 --ntasks-per-node=8 -c 2", 16, 32.0),
        ("--ntasks=4 --nodes=2 --ntasks-per-node=3", 4, 4.0),
        ("--ntasks-per-node=3 --nodes=2", 6, 6.0),
    ] {
        let text = format!("#!/bin/sh\n#SBATCH {options}\nsrun ./solve\n");
        let loaded = read("hosts.slurm", &text);
        let one = only(&loaded);
        assert_eq!(one.scheduling.nodes.on("any"), Some(&2), "{options}");
        assert_eq!(one.scheduling.processes.on("any"), Some(&processes));
        assert_eq!(one.resources.cpus, cpus, "{options}");
    }
    for (options, gpus) in [
        ("-n 4 --gpus-per-task=a100:2", 8),
        ("-N 2 --gpus-per-task=1 --ntasks-per-node=3", 6),
        ("--gpus-per-task=2", 2),
        ("-n 4 --gpus=2", 2),
    ] {
        let text = format!("#!/bin/sh\n#SBATCH {options}\nsrun ./solve\n");
        let loaded = read("cards.slurm", &text);
        let asks = &only(&loaded).scheduling;
        assert_eq!(asks.gpus.on("any"), Some(&gpus), "{options}");
    }
    let loaded = read(
        "four.slurm",
        "#!/bin/sh\n#SBATCH --mem=2G --gres=gpu:a100:2 -N4 -c 8\nsrun ./solve\n",
    );
    let one = only(&loaded);
    assert_eq!(one.resources.memory_bytes, Some(8 << 30));
    assert_eq!(one.scheduling.gpus.on("any"), Some(&8));
    assert_eq!(one.scheduling.nodes.on("any"), Some(&4));
    assert_eq!(one.resources.cpus, 32.0);
}

#[test]
fn a_script_of_grid_engine_becomes_an_experiment() {
    let loaded = read("blast.sge", include_str!("../fixtures/blast.sge"));
    let one = only(&loaded);
    assert_eq!(one.argv, ["/bin/sh", "blast.sge"]);
    assert_eq!(one.resources.cpus, 4.0);
    assert_eq!(one.resources.memory_bytes, Some(16 << 30));
    assert_eq!(one.resources.time_ms, Some(12 * 3_600_000));
    let asks = &one.scheduling;
    assert_eq!(on_any(&asks.parallel_env), Some("smp"));
    assert_eq!(on_any(&asks.queue), Some("all.q"));
    assert_eq!(on_any(&asks.account), Some("genomics"));
    // `mem_free` chooses a host and limits nothing: it does not become `memory`.
    let options = asks.qsub_args.on("any").unwrap();
    assert_eq!(options, &["-l=os=rhel8", "-l=mem_free=8G,virtual_free=9G"]);
    let notes = notes(&loaded);
    for name in ["-N", "-cwd", "-V"] {
        assert!(notes.contains(&format!("`{name}` is left out")), "{notes}");
    }
}

#[test]
fn an_array_of_grid_engine_has_its_own_variable() {
    let loaded = read(
        "many.job",
        "#$ -S /bin/bash\n#$ -t 1-3\n#$ -tc 2\n#$ -o /dev/null\necho $SGE_TASK_ID\n",
    );
    assert_eq!(loaded.definitions.len(), 3);
    let third = &loaded.definitions[2];
    assert_eq!(third.scheduling.at_once.on("any"), Some(&2));
    assert_eq!(
        third.argv,
        ["env", "SGE_TASK_ID=3", "/bin/bash", "many.job"]
    );
}

#[test]
fn what_a_script_says_wrongly_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        read_source(&file, &Defaults::default())
            .unwrap_err()
            .to_string()
    };
    let said = wrong("a.slurm", "#!/bin/sh\n#SBATCH --mem=lots\ntrue\n");
    assert!(said.contains("a.slurm:2:9"), "{said}");
    let said = wrong("b.slurm", "#!/bin/sh\n#SBATCH --partition=a;b\ntrue\n");
    assert!(said.contains("is no name of a scheduler"), "{said}");
    let said = wrong("c.sh", "#!/bin/sh\necho\n");
    assert!(said.contains("no line that begins with #SBATCH"), "{said}");
}
