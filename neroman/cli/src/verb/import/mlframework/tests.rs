//! Projects of mlframework in our own words: the command lines are those of the original, by its
//! rules: first row slowest, `--name value` in the order of the file.

use nero_format::scalar;
use proptest::prelude::*;

use super::*;
use crate::fault::code;

const TRAIN: &str = "@app.task(bind=True,acks_late=True)\ndef train(self, pars):\n\
    \x20   cmd = [\"python\", \"-u\", \"chainer/train.py\"]\n    for key in par:\n\
    \x20       cmd.append(str(\"--\"+key))\n        if type(par[key]) is not bool:\n\
    \x20           cmd.append(str(par[key]))\n    sync_exec(self, cmd)\n";

/// The command lines that a project has here, and what is told of it.
fn command_lines(python: &str, yaml: &str) -> (Vec<Vec<String>>, ImportedText) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("chainer");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("tasks.py"), python).unwrap();
    fs::write(project.join("parameters.yml"), yaml).unwrap();
    let imported = Project::find(&project).unwrap().imported();
    let imported = imported.unwrap_or_else(|stop| panic!("{stop:?}"));
    let file = folder.path().join("neronet.yaml");
    fs::write(&file, &imported.text).unwrap();
    let loaded = nero_format::read_source(&file, &nero_format::Defaults::default());
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:?}\n{}", imported.text));
    let lines = loaded.definitions.into_iter().map(|one| one.argv).collect();
    (lines, imported)
}

/// The same as lines, with the program left out.
fn arguments(yaml: &str) -> Vec<String> {
    let (lines, _) = command_lines(TRAIN, yaml);
    let arguments = lines.iter().map(|line| {
        let arguments = line.strip_prefix(&["python", "-u", "chainer/train.py"].map(String::from));
        arguments.expect("the command comes first").join(" ")
    });
    arguments.collect()
}

#[test]
fn the_sample_projects_have_the_matrix_of_the_original() {
    let chainer = "epoch: !!python/tuple [5,20,5]\nbatchsize: 100\ngpu: \"-1\"\nunit: [1000]\n";
    assert_eq!(
        arguments(chainer),
        [5, 10, 15].map(|epoch| format!("--epoch {epoch} --batchsize 100 --gpu -1 --unit 1000"))
    );
    let bow = "model: [fasttext,mlp3l]\nmaxiter: !!python/tuple [1,6,2]\n\
        decay: !!python/tuple [0,0.8,0.2]\ntfdif: True\nnodif: False\n";
    let mut expected = Vec::new();
    for model in ["fasttext", "mlp3l"] {
        for iterations in [1, 3, 5] {
            for decay in ["0.0", "0.2", "0.4", "0.6"] {
                let line =
                    format!("--model {model} --maxiter {iterations} --decay {decay} --tfdif");
                expected.push(line);
            }
        }
    }
    assert_eq!(arguments(bow), expected);
}

#[test]
fn values_are_those_that_pyyaml_reads() {
    for (yaml, expected) in [
        ("x: 0.10\n", vec!["--x 0.1"]),
        ("x: [1e-3, 2.0e-4]\n", vec!["--x 1e-3", "--x 0.0002"]),
        (
            "x: [yes, 'no', null]\n",
            vec!["--x True", "--x no", "--x None"],
        ),
        ("x: [010, 1_000]\n", vec!["--x 8", "--x 1000"]),
        (
            "x: [[1, 2], [a, 0.5]]\n",
            vec!["--x [1, 2]", "--x ['a', 0.5]"],
        ),
        ("x: 'a {b} c'\n", vec!["--x a {b} c"]),
        ("x: \u{fc}ber\n", vec!["--x \u{fc}ber"]),
        ("x: 2017-01-01\n", vec!["--x 2017-01-01"]),
        (
            "x: !!python/tuple [1,1.3,0.1]\n",
            vec!["--x 1.0", "--x 1.1", "--x 1.2"],
        ),
        (
            "x: !!python/tuple [3,0,-1]\n",
            vec!["--x 3", "--x 2", "--x 1"],
        ),
        ("x: true\ny: false\n", vec!["--x"]),
        ("", vec![""]),
    ] {
        assert_eq!(arguments(yaml), expected, "{yaml}");
    }
}

#[test]
fn what_has_no_counterpart_is_told_and_a_comment() {
    let python = format!("@app.task(bind=True)\ndef echo(self, dic):\n    return dic\n\n{TRAIN}");
    let (lines, imported) = command_lines(&python, "x: 1\ny: {a: 1}\nz:\n");
    assert_eq!(lines.len(), 1);
    let expected = [
        "`y` (parameters.yml:2): a map is no parameter",
        "`z` (parameters.yml:3): it has no value",
        "`echo` (tasks.py:2): it is Python alone",
    ];
    assert_eq!(imported.warnings, expected);
    for what in expected {
        assert!(imported.text.contains(&format!("# not imported: {what}\n")));
    }
}

#[test]
fn commands_before_the_last_one_run_before_it_and_a_line_for_a_shell_stays_one() {
    let first = TRAIN.replacen(
        "    cmd",
        "    cmd = \"echo hostname=$(hostname)\"\n    sync_exec(self, cmd)\n    cmd",
        1,
    );
    let (lines, imported) = command_lines(&first, "x: [1, 2]\n");
    let script = "(\necho hostname=$(hostname)\n)\nexec python -u chainer/train.py \"$@\"\n";
    assert_eq!(
        lines[1],
        ["sh", "-c", script, "sh", "--x", "2"],
        "{}",
        imported.text
    );
    for (python, expected) in [
        (
            "'python -u run.py'",
            vec!["python", "-u", "run.py", "--x", "1"],
        ),
        (
            "'A=1 python run.py'",
            vec!["sh", "-c", "A=1 python run.py \"$@\"\n", "sh", "--x", "1"],
        ),
        (
            "'echo ${A} {x}|cat'",
            vec!["sh", "-c", "echo ${A} {x}|cat \"$@\"\n", "sh", "--x", "1"],
        ),
        ("['a b', '{x}', '']", vec!["a b", "{x}", "", "--x", "1"]),
    ] {
        let python = TRAIN.replace("[\"python\", \"-u\", \"chainer/train.py\"]", python);
        assert_eq!(command_lines(&python, "x: 1\n").0, [expected], "{python}");
    }
    // Without a loop over the parameters the program gets none.
    let alone = "def default(self, pars):\n    cmd = ['true']\n    sync_exec(self, cmd)\n";
    assert_eq!(command_lines(alone, "x: [1, 2]\n").0, [["true"], ["true"]]);
}

#[test]
fn hosts_are_a_group_and_the_framework_is_imported_by_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("chainer");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("tasks.py"), TRAIN).unwrap();
    let text = |folder: &Path| {
        let imported = Project::find(folder).unwrap().imported();
        imported.unwrap_or_else(|stop| panic!("{stop:?}"))
    };
    assert!(!text(&project).text.contains("node:"));
    let config = folder.path().join("config.sh");
    let mut hosts =
        String::from("PROJ_FOLDER=\"chainer\"\nREMOTE=\"a@h1,h2\"\nSTART_MASTER=\"1\"\n");
    for (workers, expected) in [
        ("local", "node: local\n"),
        (
            "1,2",
            "# Its workers: neroman infra up chainer -f config.sh\nnode: chainer\n",
        ),
    ] {
        fs::write(&config, format!("{hosts}START_WORKER=\"{workers}\"\n")).unwrap();
        for folder in [&project, folder.path()] {
            let imported = text(folder);
            assert!(imported.text.contains(expected), "{}", imported.text);
            assert_eq!(
                imported.warnings,
                ["the master and the broker of config.sh: none is needed"]
            );
        }
    }
    hosts.push_str("X=$(id)\n");
    fs::write(&config, hosts).unwrap();
    let fault = Project::find(&project).err().unwrap();
    assert!(fault.text().contains("config.sh"), "{}", fault.text());
    fs::remove_file(&config).unwrap();
    let table = "hosts,localhost,h1\nworkers,0,1\nfolder,chainer\n";
    fs::write(folder.path().join("infra.csv"), table).unwrap();
    assert!(
        text(folder.path())
            .text
            .contains("infra up chainer -f infra.csv\nnode: chainer\n")
    );
}

#[test]
fn a_folder_without_tasks_is_no_project() {
    let folder = tempfile::tempdir().unwrap();
    let fault = Project::find(folder.path()).err().unwrap();
    assert_eq!(fault.exit_code, code::USAGE);
    assert_eq!(fault.causes, ["it has no tasks.py"]);
}

/// A row: its text in YAML, and the arguments of each of its values.
fn row() -> impl Strategy<Value = (String, Vec<String>)> {
    let whole = (-50_i64..50, 1_i64..9, 1_i64..5).prop_map(|(start, step, count)| {
        let values = (0..count)
            .map(|at| (start + at * step).to_string())
            .collect();
        let end = start + (count - 1) * step + 1;
        (format!("!!python/tuple [{start}, {end}, {step}]"), values)
    });
    let tenths = (-50_i64..50, 1_i64..9, 1_i64..5).prop_map(|(start, step, count)| {
        let text = |tenths: i64| {
            let sign = if tenths < 0 { "-" } else { "" };
            format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
        };
        let values = (0..count).map(|at| text(start + at * step)).collect();
        let (from, end) = (text(start), text(start + count * step));
        (
            format!("!!python/tuple [{from}, {end}, {}]", text(step)),
            values,
        )
    });
    let list = prop::collection::btree_set("[a-z][a-z ,:{}#'\"-]{0,6}", 1..4).prop_map(|texts| {
        let quoted: Vec<String> = texts.iter().map(|text| scalar(text)).collect();
        (
            format!("[{}]", quoted.join(", ")),
            texts.into_iter().collect(),
        )
    });
    prop_oneof![whole, tenths, list]
}

proptest! {
    #[test]
    fn every_combination_comes_once_in_the_order_of_the_original(
        rows in prop::collection::vec(row(), 1..4)
    ) {
        let mut yaml = String::new();
        let mut expected: Vec<Vec<String>> = vec![["python", "-u", "chainer/train.py"].map(String::from).to_vec()];
        for (at, (text, values)) in rows.iter().enumerate() {
            let _ = writeln!(yaml, "p{at}: {text}");
            expected = expected.iter().flat_map(|line| values.iter().map(move |value| {
                let mut line = line.clone();
                line.extend([format!("--p{at}"), value.clone()]);
                line
            })).collect();
        }
        prop_assert_eq!(command_lines(TRAIN, &yaml).0, expected, "{}", yaml);
    }
}
