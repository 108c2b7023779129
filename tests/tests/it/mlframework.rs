//! A project of mlframework, from its own files to the lines that it would have written.

use std::fs;

use nero_tests::Home;

const TASKS: &str = r#"from .celery import app
from lib.worker_functions import *

@app.task(bind=True,acks_late=True)
def default(self, pars):
    # Report hostname
    cmd = "echo hostname=$(hostname)"
    sync_exec(self, cmd)

    par = unjsonify(pars)
    cmd = ["sh", "chainer/echo.sh"]
    for key in par:
        cmd.append(str("--"+key))
        if type(par[key]) is not bool:
            cmd.append(str(par[key]))
    sync_exec(self, cmd)
"#;

const PARAMETERS: &str =
    "lr: !!python/tuple [0,0.3,0.1]\nword: [a, 'b c']\nfast: true\nslow: false\n";

const ECHO: &str =
    "#!/bin/sh\nprintf 'got\\t%s\\n' \"$*\"\nprintf '\\033[1mloss=%s\\n' \"$2\"\necho oops >&2\n";

#[test]
fn a_project_runs_with_its_matrix_and_gives_the_lines_of_the_original() {
    let home = Home::new();
    let framework = home.path().join("framework");
    let project = framework.join("chainer");
    fs::create_dir_all(&project).unwrap();
    for (name, text) in [
        ("tasks.py", TASKS),
        ("parameters.yml", PARAMETERS),
        ("echo.sh", ECHO),
    ] {
        fs::write(project.join(name), text).unwrap();
    }
    let file = framework.join("neronet.yaml").display().to_string();
    let said = home.ok(&["import", &project.display().to_string()]);
    assert!(said.contains(&format!("neroman add {file}")), "{said}");
    home.ok(&["add", &file]);
    home.ok(&["start", "default", "--wait"]);

    let output = framework.join("output.csv").display().to_string();
    let like = ["results", "all", "-o", &output, "--like", "mlframework"];
    home.ok(&like);
    // By hand, from the original's rules: first row slowest, half-open, a true one has no value.
    let matrix = [
        ("0.0", "a"),
        ("0.0", "b c"),
        ("0.1", "a"),
        ("0.1", "b c"),
        ("0.2", "a"),
        ("0.2", "b c"),
    ];
    let host = hostname();
    let (mut heads, mut lines) = (String::new(), String::new());
    for ((lr, word), run) in matrix.iter().zip(1..) {
        heads.push_str(&format!("{run}.1,lr={lr},word={word},fast=,\n"));
        lines.push_str(&format!(
            "{run}.1,hostname={host}\n{run}.1,got--lr {lr} --word {word} --fast\n{run}.1,[1mloss={lr}\n"
        ));
    }
    let wrote = fs::read_to_string(&output).unwrap();
    assert_eq!(wrote, format!("{heads}{lines}"));
    // Written again it replaces what we wrote, and never what another hand did.
    home.ok(&like);
    fs::write(&output, "mine\n").unwrap();
    let refused = home.run(&like);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine\n");
    assert_eq!(home.ok(&["results", "all", "--like", "mlframework"]), wrote);
}

fn hostname() -> String {
    let output = std::process::Command::new("hostname").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
