//! Sources that change under their experiments, with the real programs: what
//! leaves its source, is removed, is copied, moved or edited; and files that a
//! job misses since they were left out.

use std::fs;

use nero_tests::{Home, until};

use crate::story::added;

fn grid(n: u64) -> String {
    format!(
        "collection: g\n+fib:\n  command: 'true {{n}}'\n  parameters: {{n: {{range: [0, {n}, 1]}}}}\n"
    )
}

#[test]
fn an_experiment_deleted_from_its_file_is_started_by_its_number_alone() {
    let home = Home::new();
    added(&home, "g", &grid(6));
    let folder = added(&home, "g", &grid(2));
    let dry = home.run(&["start", "all", "--dry-run"]);
    assert!(dry.out.contains("would start 2"), "{dry:#?}");
    assert!(
        dry.err.contains("no longer in their source: 4 (3-6)"),
        "{dry:#?}"
    );
    for (asked, made) in [("all", "started 2"), ("fib_n-*", "started 0")] {
        let ran = home.run(&["start", asked]);
        assert!(ran.out.contains(made), "{asked}: {ran:#?}");
        home.run(&["wait", "all"]);
    }
    let seen = home.json(&["status"]);
    assert_eq!(seen["experiments"].as_array().unwrap().len(), 2, "{seen:#}");
    assert!(
        seen["notes"][0].as_str().unwrap().contains("(3-6)"),
        "{seen:#}"
    );
    let gone = home.json(&["status", "gone"]);
    assert_eq!(gone["experiments"][0]["gone"], true, "{gone:#}");
    let by_number = home.run(&["start", "5"]);
    assert!(by_number.out.contains("started 1"), "{by_number:#?}");
    assert!(
        by_number.err.contains("5: no longer in its source"),
        "{by_number:#?}"
    );
    home.ok(&["wait", "5"]);

    // Removed: not even by number; numbers are never given again.
    let removed = home.ok(&["rm", "gone", "--yes"]);
    assert!(removed.starts_with("removed 4\n"), "{removed}");
    for words in [["show", "5"], ["start", "1,5"], ["status", "fib_n-4"]] {
        let ran = home.run(&words);
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        let named = words[1].trim_start_matches("1,");
        let brings_back = format!("`neroman rm --undo {named}`");
        assert!(ran.err.contains(&brings_back), "{words:?}: {ran:#?}");
    }
    let daemon = home.ok(&["daemon", "status"]);
    assert!(daemon.contains("6 experiments (4 removed)"), "{daemon}");
    assert_eq!(home.json(&["status"])["notes"], serde_json::json!([]));
    assert!(home.ok(&["rm", "--undo", "5"]).contains("brought back 1"));
    assert_eq!(home.experiment_json(5)["state"], "finished");
    home.kill(nero_tests::Part::Daemon);
    assert!(home.ok(&["rm", "--undo", "3-4"]).contains("brought back 2"));
    home.experiment("g", &format!("{}+new: {{command: 'true'}}\n", grid(2)));
    home.ok(&["add", &folder]);
    assert_eq!(home.experiment_json(7)["name"], "new");
}

#[test]
fn a_live_run_keeps_its_experiment_from_being_removed() {
    let home = Home::new();
    added(
        &home,
        "l",
        "collection: l\n+a: {command: sleep 600}\n+b: {command: 'true'}\n",
    );
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    let ran = home.run(&["rm", "1"]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.out.contains("neroman abort 1.1"), "{ran:#?}");
    let both = home.json(&["rm", "1-2"]);
    assert_eq!(both["touched"], 1, "{both:#}");
    home.ok(&["abort", "1"]);
    home.until_state(1, "aborted");
    home.ok(&["rm", "--undo", "2"]);
    assert_eq!(home.run(&["rm", "all"]).code, Some(2), "all is asked for");
    assert!(home.ok(&["--delexp", "1"]).contains("removed 1"));
}

#[test]
fn a_copy_is_a_source_of_its_own_and_a_moved_folder_the_same_one() {
    let home = Home::new();
    let yaml = "collection: lang\n+small: {command: sh -c 'echo loss = 1'}\n";
    let folder = added(&home, "exp", yaml);
    home.ok(&["start", "1", "--wait"]);
    until("results", || {
        let ran = home.run(&["path", "1"]);
        if ran.out.contains("results/small") {
            Ok(())
        } else {
            Err(ran)
        }
    });
    let copy = added(&home, "exp2", &yaml.replace("= 1", "= 2"));
    let both = home.run(&["start", "small", "--wait"]);
    assert!(both.err.contains("name of 2 experiments: 1-2"), "{both:#?}");
    assert!(both.out.contains("started 1"), "{both:#?}");

    let moved = format!("{folder}-renamed");
    fs::rename(&folder, &moved).unwrap();
    let said = home.run(&["add", &moved]);
    assert!(
        said.err.contains("moved from") && said.out.contains("same 1"),
        "{said:#?}"
    );
    let path = home.ok(&["path", "1"]);
    assert!(path.starts_with(&moved), "{path}");
    home.ok(&["fetch", "1"]);
    assert!(
        !std::path::Path::new(&folder).exists(),
        "the old folder was made again"
    );
    assert_eq!(
        home.experiment_json(2)["path"].as_str(),
        Some(copy.as_str())
    );
}

#[test]
fn changed_sees_an_edited_program_and_an_edited_source_without_add() {
    let home = Home::new();
    let yaml = "collection: c\n+a: {command: sh job.sh}\n+b: {command: sh job.sh b}\n";
    let folder = home.experiment("c", yaml);
    fs::write(folder.join("job.sh"), "echo loss = 1\n").unwrap();
    home.ok(&["start", folder.to_str().unwrap(), "--wait"]);
    let changed = || {
        home.json(&["status", "changed"])["experiments"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(changed(), 0);
    assert!(
        home.run(&["restart", "changed"])
            .out
            .contains("restarted 0")
    );
    fs::write(folder.join("job.sh"), "echo loss = 2\n").unwrap();
    assert_eq!(changed(), 2);
    let ran = home.run(&["restart", "changed", "--wait"]);
    assert!(ran.out.contains("restarted 2"), "{ran:#?}");
    assert!(ran.err.contains("1-2: files of"), "{ran:#?}");
    assert_eq!(changed(), 0);
    home.experiment("c", &yaml.replace("job.sh b", "job.sh c"));
    let ran = home.run(&["restart", "changed && !1", "--wait"]);
    assert!(ran.out.contains("2.3"), "{ran:#?}");
    assert!(ran.err.contains("2: command changed"), "{ran:#?}");
}

#[test]
fn files_that_were_left_out_are_told_before_and_after_a_job_misses_them() {
    let home = Home::new();
    let yaml = "collection: m\n+a: {command: cat data2/y.csv}\n+b: {command: cat ../outside.csv}\n+c: {command: cat never.csv}\n";
    let folder = home.experiment("m", yaml);
    fs::create_dir(folder.join("data2")).unwrap();
    fs::write(folder.join("data2/y.csv"), "1").unwrap();
    fs::write(folder.join("w.pt"), "1").unwrap();
    fs::write(folder.join(".gitignore"), "data2/\n*.pt\n").unwrap();
    fs::write(folder.parent().unwrap().join("outside.csv"), "1").unwrap();
    let told =
        "each run takes 2 files along, 136B; leaves out data2/ (.gitignore), w.pt (.gitignore)";
    let path = folder.to_str().unwrap();
    let size: u64 = ["neronet.yaml", ".gitignore"]
        .iter()
        .map(|name| fs::metadata(folder.join(name)).unwrap().len())
        .sum();
    let told = told.replace("136", &size.to_string());
    for command in [
        &["add", path][..],
        &["start", "all", "--dry-run"],
        &["start", "all"],
    ] {
        let ran = home.run(command);
        assert!(ran.err.contains(&told), "{told}: {ran:#?}");
    }
    let waited = home.run(&["wait", "1"]);
    assert!(
        waited.out.contains(
            "exit code 1: cat: data2/y.csv: No such file or directory; `data2/y.csv` lies in the folder and was left out by .gitignore"
        ),
        "{waited:#?}"
    );
    let seen = until("the hint", || {
        let seen = home.experiment_json(2);
        if seen["hints"][0].is_string() {
            Ok(seen)
        } else {
            Err(seen)
        }
    });
    let hint = seen["hints"][0].as_str().unwrap();
    assert!(
        hint.starts_with("`../outside.csv` lies outside of the folder"),
        "{hint}"
    );
    assert!(
        home.ok(&["show", "1"])
            .contains("was left out by .gitignore")
    );
    let status = home.ok(&["status"]);
    assert!(status.contains("hint 1: `data2/y.csv` lies"), "{status}");
    home.until_settled(3);
    assert_eq!(home.experiment_json(3)["hints"], serde_json::json!([]));
}

#[test]
fn processors_and_plots_of_an_old_folder_make_metrics_and_pictures() {
    let home = Home::new();
    let folder = home.experiment(
        "old",
        "collection: old\noutputs: [stdout, shapes.txt]\n\
         output_line_processor: {stdout.log: example line_reader 'epoch err'}\n\
         output_file_processor: {shapes.txt: mine widths}\n\
         plot: {err.svg: example plot stdout.log err epoch, w.txt: mine draw shapes.txt w}\n\
         +a:\n  command: sh run.sh {n}\n  parameters: {n: [1, 2]}\n",
    );
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "run.sh",
        "for i in 1 2 3; do echo \"$i, 0.$i$1\"; done\necho $1$1$1 > shapes.txt\n",
    );
    let mine = |factor: u32| {
        format!(
            "def widths(file):\n    return {{'w': [float(line) * {factor} for line in file]}}\n\
             def draw(name, feedback, save, w):\n    feedback = (feedback or '') + str(w)\n    \
             if save:\n        open(name, 'w').write(feedback)\n    return feedback\n"
        )
    };
    write("mine.py", &mine(1));
    home.ok(&["add", folder.to_str().unwrap()]);
    home.ok(&["start", "all"]);
    // Not the function that the run was started with: it is frozen.
    write("mine.py", &mine(10));
    home.ok(&["wait", "all"]);
    let until_last = |id: u64, name: &str, want: f64| {
        until(&format!("{name} of {id} to be {want}"), || {
            let seen = home.experiment_json(id);
            match seen["metrics"][name]["last"].as_f64() {
                Some(last) if last == want => Ok(()),
                _ => Err(seen),
            }
        });
    };
    until_last(1, "err", 0.31);
    until_last(2, "w", 222.0);
    assert_eq!(home.experiment_json(1)["metrics"]["err"]["step"], 3.0);
    let picked = home.ok(&["status", "err > 0.315"]);
    assert!(
        picked.contains("old/a_n-2") || picked.contains("a_n-2"),
        "{picked}"
    );
    assert!(home.ok(&["metrics", "1", "err"]).contains("0.31"));
    let results = folder.join("results/latest");
    assert!(
        std::fs::read_to_string(results.join("err.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    // A person who asks gets the functions as they are now, in metrics, too.
    home.ok(&["plot", "2"]);
    until_last(2, "w", 2220.0);
    let ran = home.run(&["plot", "all"]);
    assert!(ran.err.contains("wrote 1_2_w.txt"), "{ran:#?}");
    // A daemon that starts again makes nothing twice, and has it all.
    home.ok(&["daemon", "stop"]);
    until_last(2, "w", 2220.0);
    write("mine.py", "def widths(file):\n    return 1 / 0\n");
    let ran = home.run(&["plot", "2"]);
    assert!(
        ran.err.contains("ZeroDivisionError") && ran.err.contains("mine.py\", line 2"),
        "{ran:#?}"
    );
    assert!(home.ok(&["status"]).contains("ZeroDivisionError"));
}
