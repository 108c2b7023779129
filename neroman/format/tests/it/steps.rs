//! Steps: scripts of one job, one after the other.

use std::process::Command;

use crate::{load, report};

/// Executes the steps of an experiment; its code and what it printed on both streams.
fn executed(steps: &str) -> (Option<i32>, String, String) {
    answered(steps, &[])
}

/// The same where the ends of `local` steps lie in the run's folder, by their numbers.
fn answered(steps: &str, answers: &[(u32, &str)]) -> (Option<i32>, String, String) {
    let loaded = load(&format!("+a:\n  parameters: {{x: 3}}\n  steps: {steps}\n"));
    let argv = &loaded.definitions[0].argv;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("stderr.log");
    let control = folder.path().join("control");
    std::fs::create_dir(&control).unwrap();
    for (number, answer) in answers {
        std::fs::write(control.join(format!("answer.2.{number}")), answer).unwrap();
    }
    let ran = Command::new(&argv[0])
        .args(&argv[1..])
        .env("NERO_DIR", folder.path().join("work.2"))
        .stderr(std::fs::File::create(&log).unwrap())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let errors = std::fs::read_to_string(log).unwrap();
    let asked = |number: &u32| control.join(format!("ask.2.{number}")).exists();
    let asked: Vec<u32> = (1..=64).filter(asked).collect();
    let told: Vec<u32> = answers.iter().map(|(number, _)| *number).collect();
    assert_eq!(asked, told);
    (ran.status.code(), text(&ran.stdout), errors)
}

#[test]
fn each_step_runs_to_its_end_and_none_swallows_the_others() {
    let ran = executed("[{run: 'cat; echo one {x}'}, {run: 'echo two; exit 0'}, {run: 'echo 3'}]");
    assert_eq!(ran, (Some(0), "one 3\ntwo\n3\n".to_owned(), String::new()));
}

#[test]
fn the_first_step_that_fails_ends_them_and_is_named_before_its_last_line() {
    let (code, out, errors) =
        executed("[{run: echo one}, {run: 'echo no such x >&2; exit 3'}, {run: echo 3}]");
    assert_eq!((code, out.as_str()), (Some(3), "one\n"));
    let last = "`echo no such x >&2; exit 3`, no. 2 of 3 steps: exit code 3: no such x";
    assert_eq!(errors.lines().last(), Some(last));
    let (code, out, errors) = executed("[{run: 'false; echo on'}, {run: echo 3}]");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        errors.starts_with("`false; echo on`, no. 1 of 2 steps: exit code 1"),
        "{errors}"
    );
}

#[test]
fn a_silent_failure_is_not_told_with_words_of_another_step_and_variables_are_the_job_s() {
    let steps = "[{run: echo Cloning >&2}, {run: 'exit 3'}]";
    let (_, _, errors) = executed(steps);
    let last = "`exit 3`, no. 2 of 2 steps: exit code 3: ";
    assert_eq!(errors.lines().last(), Some(last));
    // Under srun standard error is a pipe, which has no end to read to.
    let loaded = load("+a: {steps: [{run: 'echo n=$n step=$step'}, {run: 'exit 4'}]}\n");
    let argv = &loaded.definitions[0].argv;
    let ran = Command::new(&argv[0])
        .args(&argv[1..])
        .env("n", "10")
        .env("step", "500")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "n=10 step=500\n");
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(errors, "`exit 4`, no. 2 of 2 steps: exit code 4: \n");
}

#[test]
fn a_local_step_is_asked_for_and_its_end_is_that_of_the_step() {
    let steps = "[{run: echo one}, {local: 'scp a {node.address}:{x}'}, {run: echo 3}, {local: b}]";
    let loaded = load(&format!("+a: {{parameters: {{x: 3}}, steps: {steps}}}\n"));
    let definition = &loaded.definitions[0];
    let local = |number| nero_format::local_step(&definition.argv, number);
    let found = [0, 1, 2, 3, 4, 5].map(local);
    let step = "scp a {node.address}:3";
    assert_eq!(found, [None, None, Some(step), None, Some("b"), None]);
    let shown = "echo one && local: scp a {node.address}:3 && echo 3 && local: b";
    assert_eq!(definition.command_text, shown);

    let (code, out, errors) = answered(steps, &[(2, "exit code 0\n"), (4, "exit code 0\nsaid\n")]);
    assert_eq!((code, out.as_str()), (Some(0), "one\n3\nsaid\n"));
    assert_eq!(errors, "");
    for (answer, code, last) in [
        ("exit code 3\nno such host\n\n", 3, "no such host"),
        ("signal 9\n", 137, ""),
        (
            "interrupted: it was killed\n",
            1,
            "interrupted: it was killed",
        ),
    ] {
        let (found, out, errors) = answered(steps, &[(2, answer)]);
        assert_eq!((found, out.as_str()), (Some(code), "one\n"), "{answer}");
        let line = format!(
            "`local: scp a {{node.address}}:{{x}}`, no. 2 of 4 steps: exit code {code}: {last}"
        );
        let line = line.replace("{x}", "3");
        assert_eq!(errors.lines().last(), Some(line.as_str()));
    }
}

#[test]
fn what_is_no_step_is_refused_with_what_to_do() {
    let shown = load("+a: {steps: [{run: tar xf a.tgz}, {run: ./b}]}\n");
    assert_eq!(shown.definitions[0].command_text, "tar xf a.tgz && ./b");
    let inner = load("steps: [{run: a}]\n+a: {command: b}\n+b: {}\n");
    assert_eq!(inner.definitions[0].argv, ["b"]);
    for (fields, says) in [
        ("steps: [{loca: scp x}]", "did you mean `local`?"),
        ("steps: [{local: ''}]", "the script is empty"),
        (
            "steps: [{run: 'cp a {node.address}'}]",
            "`{node.address}` is a place of `local` steps alone",
        ),
        (
            "data: {d: /d}, steps: [{local: 'scp {data.d} x:'}]",
            "data lies on the nodes, and a `local` step is executed here",
        ),
        ("steps: [{rnu: x}]", "did you mean `run`?"),
        ("steps: [x]", "a step is a map of one word"),
        ("steps: {run: x}", "`steps` takes a list"),
        ("steps: []", "from 1 to 64 steps"),
        ("steps: [{run: x, local: y}]", "a step has one word"),
        (
            "steps: [{run: x}], command: y",
            "`steps` and `command` exclude each other",
        ),
        (
            "steps: [{run: x}], script: y",
            "`script` and `steps` exclude each other",
        ),
    ] {
        let text = report(&format!("+a: {{{fields}}}\n"));
        assert!(text.contains(says), "{says}\n{text}");
    }
}

/// Jobs live for days, in which neroman may become another version.
#[test]
fn the_driver_of_another_version_is_known() {
    let driver = "__nero_n=0\nfor __nero_step do\n  bash -e -c \"$__nero_step\" script\ndone";
    let argv = ["bash", "-c", driver, "steps", "echo a", "local: echo b"].map(str::to_owned);
    assert_eq!(nero_format::local_step(&argv, 2), Some("echo b"));
    assert_eq!(nero_format::local_step(&argv, 1), None);
    assert_eq!(
        nero_format::shown_steps(&argv).as_deref(),
        Some("echo a && local: echo b")
    );
}
