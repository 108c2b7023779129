//! Command lines that are wrong as people get them wrong.

use std::fs;

use crate::start::TempHome;

/// One per line; single quotes as in a shell.
const LINES: &str = "
frobnicate
strat 1
start
start 99
start 5-9
start 3-1
start crashd
start 1 --nodes alpha
start 1 --node nowhere
start 1 --at-most 0
start 1 --priority high
start 1 --order 'x >'
start 1 then
abort
abort 'loss = 5'
abort 'loss => 5'
abort 'loss > '
abort '(loss > 5'
abort 'loss > 5 and runtime > 1h'
abort 'runtime > 5 hours'
abort 'lr > 0,25'
abort 1.7
restart 1 --set lr
restart 1 --set nope=3 --yes
restart 1 --same-code --set lr=1
set 1
set 1 lr
set 1 resources.memory=lots
copy 1
copy 1 t_lr-1
tag 1
tag 1 old
tag 1 '+a b'
note 1
rm
rm --undo 1
wait 1 --timeout soon
logs 1 --lines 0
metrics
metrics 1 --csv --parquet
plot 1 loss -o x.gif
results all --best
results all -o x.doc
results all --by
status 1 --wtach
status --sort
status --columns 'lr >'
show
show all
rule add 1 'loss > 5'
rule add 1 'abort: loss => 5'
rule rm 1
rule rm 1 x
node add
node doctor nowhere
config set
config set nope 1
config set default_node nowhere
config set nodes.local.cpus many
help nonsense
completions tcsh
daemon
add
add /nowhere
run
run -p lr -- true
diff 1
export 1
pause 99
exec nowhere ls
";

/// The words of a line.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn a_wrong_line_is_told_with_its_place_and_what_to_type_and_changes_nothing() {
    let home = TempHome::new();
    let folder = home.base().join("e");
    fs::create_dir_all(&folder).expect("a folder");
    let yaml = "collection: c\n+t:\n  command: 'true {lr}'\n  parameters: {lr: [1, 2, 3]}\n";
    fs::write(folder.join("neronet.yaml"), yaml).expect("a file");
    let added = home.run(&["add", &folder.display().to_string()]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let all = || {
        let seen = ["status", "rule", "config"].map(|verb| match verb {
            "status" => home.run(&["status", "--json"]).out,
            "rule" => home.run(&["rule", "list", "--json"]).out,
            _ => home.run(&["config", "show"]).out,
        });
        seen.join("\n")
    };
    let before = all();
    let (mut told, mut accepted) = (String::new(), Vec::new());
    for line in LINES.lines().filter(|line| !line.is_empty()) {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = home.run(&words);
        let text = ran.err.replace(&home.base().display().to_string(), "~");
        told.push_str(&format!("$ neroman {line}\n{}{text}\n", ran.out));
        if ran.code != Some(2) || !text.contains("error: ") {
            accepted.push((line, ran));
        }
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
    assert_eq!(all(), before, "none of them changed anything");
    assert!(told.lines().filter(|line| line.starts_with("$ ")).count() >= 50);
    insta::assert_snapshot!("lines", told);
}
