//! Scripts that shells read as a whole.

use std::io::Write as _;
use std::process::Command;

use nero_noodles::whole_script;

/// Exit code, standard output and standard error of a shell that reads this text.
fn read_by(shell: &str, text: &str) -> (Option<i32>, String, String) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let mut words = shell.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(file).env("LC_ALL", "C.UTF-8");
    let ran = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ran.status.code(), text(ran.stdout), text(ran.stderr))
}

const SCRIPTS: &[&str] = &[
    "",
    "# nothing",
    "echo a\nnosuch\necho $LINENO",
    "f() {\n  nosuch\n}\n\nf",
    "cd /nowhere\nls /nowhere",
    "echo \"it's\"; echo 'a\\nb' \\'é\\'\t\nprintf '\\x41\\n'\necho $'a\\tb' # c",
    "export A=\"x \\\"y\\\"\"\necho $A",
    "exit 5",
    "false",
    "kill -9 $$",
    "trap 'echo bye' EXIT\necho a",
    "set -e\nfalse\necho never",
    "set -x\necho a",
    "set -euxo pipefail\necho a",
    "echo a \\\nb",
    "echo a \\",
    "exec true",
    "( exit 4 )",
    "for i in 1 2; do\nnosuch $i\ndone",
];
/// Of these the usual shells but bash stop at another place, or say it in other words.
const BASH: &[&str] = &[
    "cat <<END\nx $((1 + 1))\nEND\nnosuch",
    "alias ll='echo al'\nshopt -s expand_aliases\nll x",
    "set -o pipefail\nfalse | true\necho $?",
    "echo $((1 / 0))\necho after",
    "readonly r=1\nr=2\necho after",
    "source /nowhere\necho after",
    "echo a\nif true\nthen echo b",
    "echo a\nfi\necho never",
    "echo a\necho \"b",
];

#[test]
fn a_script_ends_as_without_what_keeps_its_commands_from_reading_it() {
    let mut spec = nero_noodles::read("", "run", None).unwrap();
    for (shell, scripts) in [
        ("bash -s", [SCRIPTS, BASH].concat()),
        ("sh -s", SCRIPTS.to_vec()),
    ] {
        spec.shell_stdin = shell.to_owned();
        for script in scripts {
            let (code, out, err) = read_by(shell, &whole_script(&spec, script));
            // Where a script is no script, bash says who read it.
            let here = (code, out, err.replace("bash: eval: line", "bash: line"));
            assert_eq!(here, read_by(shell, script), "{shell}: {script}");
        }
    }
}

#[test]
fn a_command_that_reads_standard_input_gets_nothing_and_the_rest_runs() {
    let mut spec = nero_noodles::read("", "run", None).unwrap();
    for (shell, script) in [
        ("bash -s", "cat\necho a"),
        ("bash -s", "cat <<END\na\nEND\ncat\ncat <<END\nb\nEND"),
        ("/bin/bash -s -l", "set -o pipefail; cat | cat\necho a"),
        ("sh -s", "cat\necho a"),
    ] {
        spec.shell_stdin = shell.to_owned();
        let (code, out, _) = read_by(shell, &whole_script(&spec, script));
        assert!(code == Some(0) && out.starts_with('a'), "{script}: {out}");
    }
}
