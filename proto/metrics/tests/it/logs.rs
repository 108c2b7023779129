//! Whole logs as programs print them, and outputs that hold no metrics: what is found
//! in each is a table under `tests/snapshots`.

use std::fmt::Write as _;
use std::path::Path;

use nero_metrics::finder::{Context, Finder, FinderOptions};
use nero_metrics::found::LinePairs;
use nero_metrics::recipe;
use nero_metrics::survey::Survey;

/// One line per metric of each log: points, first to last step and value; then what
/// was missed.
fn surveys(folder: &str, reading: impl Fn(&str) -> FinderOptions) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() > 5);
    let mut text = String::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy();
        writeln!(text, "{name}").unwrap();
        let (finder, wrong) = Finder::new(&reading(&name));
        assert!(wrong.is_empty(), "{wrong:?}");
        let mut survey = Survey::new(finder);
        survey.feed(&std::fs::read(path).unwrap());
        survey.finish();
        for seen in survey.seen() {
            writeln!(
                text,
                "  {}: {} @{}..{} = {}..{}",
                seen.name, seen.points, seen.steps.0, seen.steps.1, seen.values.0, seen.values.1
            )
            .unwrap();
        }
        if let Some(told) = survey.progress() {
            let (first, last) = told.shares;
            let (source, lines) = (told.source, told.lines);
            writeln!(
                text,
                "  progress by {source:?}: {lines} lines, {first:.4}..{last:.4}"
            )
            .unwrap();
        }
        match survey.missed_lines() {
            0 => {}
            lines => writeln!(text, "  ({lines} lines with digits gave nothing)").unwrap(),
        }
    }
    text
}

#[test]
fn logs_give_their_metrics() {
    insta::assert_snapshot!(surveys("logs", |_| FinderOptions::default()));
}

#[test]
fn recipes_read_what_no_default_reads() {
    let by_recipe = |name: &str| FinderOptions {
        patterns: recipe::patterns(name)
            .unwrap()
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect(),
        ..FinderOptions::default()
    };
    insta::assert_snapshot!(surveys("recipes", by_recipe));
}

#[test]
fn outputs_without_metrics_give_little() {
    insta::assert_snapshot!(surveys("outputs", |_| FinderOptions::default()));
}

/// Outputs of programs that report no metric, and the names that are found in them: those of
/// tables of names and numbers cannot be told from metrics, others would be false.
#[test]
fn outputs_of_other_programs_give_few_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quiet");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let (mut text, mut outputs, mut names) = (String::new(), 0, 0);
    for path in paths {
        let all = std::fs::read_to_string(path).unwrap();
        for one in all.split("=== ").skip(1) {
            let (title, output) = one.split_once('\n').unwrap();
            let mut survey = Survey::new(Finder::new(&FinderOptions::default()).0);
            survey.feed(output.as_bytes());
            survey.finish();
            outputs += 1;
            let seen: Vec<&str> = survey.seen().iter().map(|seen| &*seen.name).collect();
            names += seen.len();
            if !seen.is_empty() {
                writeln!(text, "{title}: {}", seen.join(", ")).unwrap();
            }
        }
    }
    writeln!(text, "{names} names in {outputs} outputs").unwrap();
    insta::assert_snapshot!(text);
}

/// The points of a log, line by line: `name=value@step`.
fn points(log: &str) -> Vec<String> {
    points_by(&FinderOptions::default(), log)
}

fn points_by(reading: &FinderOptions, log: &str) -> Vec<String> {
    let mut finder = Finder::new(reading).0;
    let mut context = Context::default();
    let mut points = Vec::new();
    for line in log.lines() {
        let found: &LinePairs = finder.find(line.as_bytes(), &mut context);
        let step = match (found.step, found.carried) {
            (Some(step), _) => format!("@{step}"),
            (None, Some(step)) => format!("@{step} carried"),
            (None, None) => String::new(),
        };
        points.extend(
            found
                .pairs()
                .map(|(name, value)| format!("{name}={value}{step}")),
        );
    }
    points
}

#[test]
fn a_line_that_begins_with_a_step_gives_it_to_the_lines_after_it() {
    for (log, want) in [
        (
            "Epoch 2/3\nloss: 0.5",
            &["Epoch=2@2", "loss=0.5@2 carried"][..],
        ),
        (
            "iter 10: loss 9.8\nval 3",
            &["iter=10@10", "loss=9.8@10", "val=3@10 carried"],
        ),
        (
            "Time = 0.01\np = 3",
            &["Time=0.01@0.01", "p=3@0.01 carried"],
        ),
        (
            "---- Step 50 ----\nE = 3",
            &["Step=50@50", "E=3@50 carried"],
        ),
        (
            "loss=0.5 epoch=3\nacc=1",
            &["loss=0.5@3", "epoch=3@3", "acc=1"],
        ),
        ("epochs: 10\nacc=1", &["epochs=10", "acc=1"]),
        ("{\"epoch\": 3}\nacc=1", &["epoch=3@3", "acc=1"]),
        (
            "Epoch 2\n\nnoise\nloss 1\nloss 2",
            &["Epoch=2@2", "loss=1@2 carried", "loss=2@2 carried"],
        ),
        (
            "Epoch 2\nepoch 3: a = 1\nb 2",
            &["Epoch=2@2", "a=1@3", "epoch=3@3", "b=2@3 carried"],
        ),
    ] {
        assert_eq!(points(log), want, "{log:?}");
    }
}

#[test]
fn a_step_of_an_earlier_line_begins_no_segment() {
    let mut found = LinePairs::default();
    found.carried = Some(3.0);
    assert_eq!(found.step_after(None), (3.0, false));
    assert_eq!(found.step_after(Some(3.0)), (3.0, false));
    assert_eq!(
        found.step_after(Some(7.0)),
        (8.0, false),
        "the series counts on"
    );
    found.give_step(3.0, true);
    assert_eq!(found.step_after(Some(7.0)), (3.0, true));
}

#[test]
fn a_reader_that_goes_on_in_a_table_knows_its_names() {
    for (table, rest) in [
        // Whether a line ends the table, or is a remark in it, depends on its names.
        ("Step e\n0 8", "e\n0 0"),
        ("e t\n1 8", "to save e\n0 1"),
        // The first row tells where the names end, and the second one is shorter.
        ("p   T  e\n0 100000", "9 5"),
        // The names are read without the colour and the rank in front.
        ("\x1b[1mstep loss\x1b[0m\n1 0.5", "2 0.25"),
        ("[rank0] step loss\n[rank0] 1 0.5", "[rank0] 2 0.25"),
    ] {
        let mut finder = Finder::new(&FinderOptions::default()).0;
        let mut before = Context::default();
        for line in table.lines() {
            finder.find(line.as_bytes(), &mut before);
        }
        let tables = [None, Some((table.as_bytes(), before.stage()))];
        let mut anew = finder.resumed(before.step(), before.outer(), before.scope(), tables);
        for line in rest.lines().map(str::as_bytes) {
            let mut numbers = |context: &mut Context| format!("{:?}", finder.find(line, context));
            let [goes_on, is_resumed] = [&mut before, &mut anew].map(&mut numbers);
            assert_eq!(goes_on, is_resumed, "{table:?}");
        }
        assert_eq!(before.stage(), anew.stage(), "{table:?}");
    }
}

#[test]
fn tables_name_their_columns() {
    for (log, want) in [
        ("a,b\n1,2\n3,4", &["a=1", "b=2", "a=3", "b=4"][..]),
        ("a;b\n1;2", &["a=1", "b=2"]),
        (
            "epoch,loss,val\n1,0.5,\n2,,0.25",
            &["epoch=1@1", "loss=0.5@1", "epoch=2@2", "val=0.25@2"],
        ),
        ("\"\",\"x\",\"y\"\n\"1\",2,3", &["x=2", "y=3"]),
        ("# step  loss\n7 0.5", &["step=7@7", "loss=0.5@7"]),
        (
            "| step | acc |\n|------|-----|\n| 1 | 45 % |",
            &["step=1@1", "acc=0.45@1"],
        ),
        (
            "step loss\n----------\n\n1 0.5",
            &["step=1@1", "loss=0.5@1"],
        ),
        (
            "step val loss acc\n1 2 3 4",
            &["step=1@1", "val=2@1", "loss=3@1", "acc=4@1"],
        ),
        ("step  val loss\n1  2", &["step=1@1", "val loss=2@1"]),
        (
            " Temperature Pressure (bar)\n       300.0          1.013",
            &["Temperature=300", "Pressure (bar)=1.013"],
        ),
        (
            "a b c\n1 2 3\nWARNING: slow, 12 s\n4 5 6",
            &["a=1", "b=2", "c=3", "a=4", "b=5", "c=6"],
        ),
        (
            "a,b\n1,2\nSaving it now\n3,4",
            &["a=1", "b=2", "a=3", "b=4"],
        ),
        (
            "a b c\n1 2 3\nd e f\n4 5 6",
            &["a=1", "b=2", "c=3", "d=4", "e=5", "f=6"],
        ),
        ("a b\n1 2\nnot now: 3\n3 4", &["a=1", "b=2", "not now=3"]),
        ("a b c\n1 2", &[]),
        ("a b c\nd: 1\n1 2 3", &["d=1"]),
        ("Hello you two.\n1 2 3", &[]),
        ("only\n1", &[]),
        ("a b\n1 x", &[]),
    ] {
        assert_eq!(points(log), want, "{log:?}");
    }
    let reading = FinderOptions {
        no_tables: true,
        ..FinderOptions::default()
    };
    assert!(points_by(&reading, "a,b\n1,2").is_empty());
}

#[test]
fn other_ranks_are_series_of_their_own() {
    let log = "[rank0]: step 10 loss 1.2\n[rank1]: step 10 loss 1.3\n[1,2]<stdout>:loss = 0.9";
    let want = [
        "step=10@10",
        "loss=1.2@10",
        "step[1]=10@10",
        "loss[1]=1.3@10",
        "loss[2]=0.9",
    ];
    assert_eq!(points(log), want);
}

#[test]
fn what_an_experiment_says_of_its_output_holds() {
    let only = FinderOptions {
        only: vec!["^RESULT".to_owned()],
        skip: vec!["old".to_owned()],
        ..FinderOptions::default()
    };
    let log = "loss=1\nRESULT loss=2\nRESULT old loss=3";
    assert_eq!(points_by(&only, log), ["RESULT loss=2"]);
    let comma = FinderOptions {
        decimal_comma: true,
        ..FinderOptions::default()
    };
    let log = "loss = 0,25\nx = 1.234,5\nacc: 0,5, n: 3\na;b\n0,5;1,5";
    let want = ["loss=0.25", "acc=0.5", "n=3", "a=0.5", "b=1.5"];
    assert_eq!(points_by(&comma, log), want);
    let heading = FinderOptions {
        patterns: vec![r"^Cycle (?<step>\d+)$".to_owned()],
        ..FinderOptions::default()
    };
    assert_eq!(points_by(&heading, "Cycle 7\nE = 3"), ["E=3@7 carried"]);
}

/// Numbers of the lines that were read in part.
fn partly_read(log: &str) -> Vec<u64> {
    let mut survey = Survey::new(Finder::default());
    survey.feed(log.as_bytes());
    survey.finish();
    let lines = survey.partly_read().iter();
    lines.map(|line| line.line).collect()
}

#[test]
fn lines_that_were_read_in_part_are_told() {
    let log = "loss 0.5\nstep 10 | loss 2.3 | 1.2M tok/s\nloss: 0.5 size: 12GB/s\n\
               Epoch: [0] eta: 0:25:10 loss: 0.5\nepoch loss time\n1 0.5 00:12\nnothing 3 here\n\
               | epoch 1 | 200/ 2983 batches | loss 7.1 | ppl 12.0\n";
    assert_eq!(partly_read(log), [2, 3, 6, 8]);
}

#[test]
fn signs_and_bars_are_read_together() {
    let log = "500 | loss 6.0 | 1.2M tok/s | D(x): 0.5";
    assert_eq!(points(log), ["loss=6@500", "D(x)=0.5@500"]);
}

#[test]
fn averages_in_brackets_are_no_points_of_the_series_they_sum_up() {
    for head in ["Avg", "Average"] {
        let log = format!("epoch 1\nloss: 0.4\n[{head}] loss: 0.5 acc: 0.9\n");
        let sums = [
            format!("{head} loss=0.5@1 carried"),
            format!("{head} acc=0.9@1 carried"),
        ];
        assert_eq!(points(&log)[2..], sums);
    }
}
