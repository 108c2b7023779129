//! Files of projects, and what is refused in them, with its place.

use nero_mlframework::{TaskCommand, Values, parameters, tasks};
use nero_yaml::Mistakes;
use proptest::prelude::*;

fn places(mistakes: &Mistakes) -> Vec<String> {
    let place = |one: &nero_yaml::Mistake| {
        format!("{}:{}: {}", one.place.line, one.place.column, one.message)
    };
    mistakes.list.iter().map(place).collect()
}

/// A task with these lines.
fn task(lines: &str) -> String {
    let body: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("def train(self, pars):\n{body}")
}

fn words(words: &[&str]) -> TaskCommand {
    TaskCommand::Words(words.iter().map(|&word| word.to_owned()).collect())
}

#[test]
fn a_command_is_a_literal_however_it_is_written() {
    for (lines, expected) in [
        (
            "cmd = ['python', \"-u\", 'run.py']",
            words(&["python", "-u", "run.py"]),
        ),
        (
            "cmd = [\n  'python',  # 3\n  'a' 'b',\n]",
            words(&["python", "ab"]),
        ),
        (
            "cmd = ([u'a', r'\\d', 'x\\n'])",
            words(&["a", "\\d", "x\n"]),
        ),
        ("x = 1; cmd = ['a']", words(&["a"])),
        (
            "cmd = \\\n  'python -u run.py'",
            TaskCommand::Shell("python -u run.py".to_owned()),
        ),
        (
            "cmd = '''a; b # c'''  # d",
            TaskCommand::Shell("a; b # c".to_owned()),
        ),
        ("cmd = ['a']\r", words(&["a"])),
        (
            "print 'cmd = [x]'\n# cmd = y\ncmd = ['a']\nif cmd == x: pass",
            words(&["a"]),
        ),
    ] {
        let found = tasks(&task(lines)).unwrap_or_else(|wrong| panic!("{lines}: {wrong:?}"));
        assert_eq!(found.tasks[0].command, expected, "{lines}");
        assert!(found.tasks[0].before.is_empty(), "{lines}");
    }
}

#[test]
fn what_is_no_literal_is_refused_with_its_place() {
    for (lines, expected) in [
        (
            "cmd = shlex.split('a')",
            "2:11: `cmd`: `shlex` is a name, not a text",
        ),
        ("cmd = build('a')", "2:11: `cmd`: `build` is called"),
        ("cmd = ['a', str(1)]", "2:17: `cmd`: `str` is called"),
        (
            "cmd = ['a',\n       os.path.join('b')]",
            "3:12: `cmd`: `os` is a name, not a text",
        ),
        (
            "cmd = ['a', f'{x}']",
            "2:17: `cmd`: `f'{x}'` holds expressions, which Python fills in",
        ),
        (
            "cmd = ['a', 1]",
            "2:17: `cmd`: `1` is a number, not a text: quote it",
        ),
        (
            "cmd = ['a'] + ['b']",
            "2:15: `cmd`: `]` makes it an expression",
        ),
        (
            "cmd = 'a %s' % x",
            "2:18: `cmd`: `%` makes it an expression",
        ),
        ("cmd = <>", "2:11: `cmd`: `<` makes it an expression"),
        ("cmd = []", "2:11: `cmd`: it is empty"),
        ("cmd = ''", "2:11: `cmd`: it is empty"),
        ("cmd =", "2:9: `cmd`: it has no value"),
        ("cmd = b'a'", "2:11: `cmd`: `b'a'` is bytes, not text"),
        (
            "if x:\n  cmd = ['a']",
            "3:7: this value of `cmd` depends on what the program does",
        ),
        (
            "if x: cmd = ['a']",
            "2:11: this value of `cmd` depends on what the program does",
        ),
        (
            "cmd = ['a']\ncmd += ['b']",
            "3:5: the command is changed here",
        ),
        (
            "cmd = ['a']\ncmd[0] = 'b'",
            "3:5: the command is changed here",
        ),
        (
            "cmd = ['a']\ncmd.append('-x')",
            "3:5: the command is changed here",
        ),
        (
            "cmd = ['a']\ncmd.append('--' + key + x)",
            "3:5: the command is changed here",
        ),
        (
            "cmd = ['a']\nfor cmd in x:\n  pass",
            "3:9: the command is changed here",
        ),
        ("cmd: list = ['a']", "2:5: the command is changed here"),
        (
            "a = cmd = ['a']",
            "2:9: this value of `cmd` depends on what the program does",
        ),
        ("cmd = ['a", "2:12: the text that begins here is not closed"),
        (
            "cmd = ['a'",
            "2:11: the bracket that begins here is not closed",
        ),
        ("return 1", "1:1: no task has a command"),
    ] {
        let wrong = tasks(&task(lines)).expect_err(lines);
        assert_eq!(places(&wrong)[0], expected, "{lines}");
    }
    let twice = format!("{0}\n{0}", task("cmd = ['a']"));
    assert_eq!(
        places(&tasks(&twice).expect_err("two")),
        ["4:5: there are two tasks `train`"]
    );
    let outside = "cmd = ['a']\n";
    let wrong = tasks(outside).expect_err("no function");
    assert_eq!(places(&wrong), ["1:1: no task has a command"]);
}

#[test]
fn the_template_has_a_task_with_a_line_before_its_command() {
    let template = include_str!("tasks.py");
    let found = tasks(template).expect("a tasks.py");
    let [task] = found.tasks.as_slice() else {
        panic!("{:?}", found.tasks);
    };
    assert_eq!(task.name, "default");
    assert_eq!(
        task.before,
        [TaskCommand::Shell("echo hostname=$(hostname)".to_owned())]
    );
    assert_eq!(
        task.command,
        words(&["python", "-u", "my_proj/runnable/run.py"])
    );
    assert!(task.takes_parameters);
    let in_python: Vec<_> = found
        .in_python
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(in_python, ["echo"]);
}

#[test]
fn parameters_that_mean_nothing_are_refused_with_their_places() {
    for (yaml, expected) in [
        ("x: []\n", "1:4: `x` has an empty list, which makes no task"),
        ("x: [1, 1]\n", "1:8: `x` has `1` twice"),
        ("x: [0.1, 0.10]\n", "1:10: `x` has `0.1` twice"),
        ("x: 1\ny: 2\nx: 3\n", "3:1: `x` is given twice"),
        ("- x\n", "1:1: the file is a list, not a map of parameters"),
        (
            "x: !!python/tuple [1]\n",
            "1:19: the interval of `x` takes two or three numbers, not 1",
        ),
        (
            "x: !!python/tuple [1, a]\n",
            "1:23: an element of the interval of `x` is no number",
        ),
        (
            "x: !!python/tuple [1, 2, 0]\n",
            "1:19: the interval of `x` has no value",
        ),
        (
            "x: !!python/tuple [2, 1]\n",
            "1:19: the interval of `x` has no value",
        ),
        (
            "x: !!python/tuple [0, 1, 0.0000001]\n",
            "1:19: the interval of `x` has 10000000 values",
        ),
        (
            "x: !!python/tuple [0, 1000000000000]\n",
            "1:19: the interval of `x` has 1000000000000 values",
        ),
        (
            "x: !!python/tuple [0, 1.0e+300, 1]\n",
            "1:19: the interval of `x` has numbers that are too far apart to be exact",
        ),
        (
            "x: [!!python/tuple [1, 2]]\n",
            "1:20: an interval stands within a list",
        ),
        (
            "x: !!python/object/apply:os.system [ls]\n",
            "1:4: the tag `!!python/object/apply:os.system` is not read",
        ),
        (
            "x: !!python/tuple 3\n",
            "1:4: the tag `!!python/tuple` is not read",
        ),
        ("x: 2017-13-45\n", "1:4: `2017-13-45` is no value"),
    ] {
        let wrong = parameters(yaml).expect_err(yaml);
        assert_eq!(places(&wrong)[0], expected, "{yaml}");
    }
    let windows = "x: [1, 2]\r\ny: a\r\n";
    let read = parameters(windows).expect("other line ends mean the same");
    assert!(matches!(&read[1].values, Values::One(one) if one.text == "a"));
}

proptest! {
    #[test]
    fn no_text_is_read_as_something_that_it_does_not_have(lines in "(cmd|=|\\[|\\]|'a'|\"|,|\n|def f\\(\\):|:|\\.append\\(|\\)| |#|\\\\|if x){0,24}") {
        // Whatever is taken for a command stands in the file as a literal.
        if let Ok(found) = tasks(&lines) {
            for task in found.tasks {
                match task.command {
                    TaskCommand::Words(words) => prop_assert!(words.iter().all(|word| word.bytes().all(|b| b == b'a'))),
                    TaskCommand::Shell(_) => {}
                }
            }
        }
    }

    #[test]
    fn no_file_of_parameters_stops_the_program(yaml in "\\PC{0,60}") {
        let _ = parameters(&yaml);
    }
}
