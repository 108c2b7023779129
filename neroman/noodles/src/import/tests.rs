//! Specs of Training Noodles in our own words.

use std::fs;

use super::*;

/// A spec in our words, as the format reads it.
fn read(spec: &str, command_type: &str) -> (nero_format::LoadedSource, ImportedText) {
    let spec = crate::read(spec, command_type, None).expect("a spec");
    let imported = imported(
        &spec,
        command_type,
        "spec.yml",
        "/home/me/it's here",
        Some("me"),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neronet.yaml");
    fs::write(&file, &imported.text).unwrap();
    let loaded = nero_format::read_source(&file, &nero_format::Defaults::default());
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:?}\n{}", imported.text));
    (loaded, imported)
}

fn definition<'l>(
    loaded: &'l nero_format::LoadedSource,
    name: &str,
) -> &'l nero_format::Definition {
    let mut all = loaded.definitions.iter();
    all.find(|one| one.name == name).unwrap()
}

const LONG: &str = "servers: [{name: gpu 1, hostname: gpu1.example.org, username: ada}, {name: here}]\n\
    experiments:\n- name: train\n  requirements: {run: [cpu_usage: <0.3, cpu_load: <=2, ready: ==Yes]}\n\
    \x20 commands: {run: tmux new-session -d 'python3 train.py'}\nrequirements: {ready: echo Yes}\n";

const FILES: &str = "servers: [{name: s1, hostname: s1}, {name: s2, hostname: s2}]\n\
    before_all_experiments:\n- name: init\n  commands:\n    run:\n    - local:tar czf code.tgz src\n\
    \x20   - 'local:scp code.tgz $NOODLES_SERVER_AUTHORITY:'\n    - tar xf code.tgz\n\
    experiments:\n- {name: '7', envs: {A: 'it''s \"$B\"'}, commands: {run: echo $A}}\n\
    - {name: b*, depends_on: {run: ['7', nobody]}, commands: {run: [echo 1, 'local:echo 2', echo 3]}}\n";

const ERRORS: &str = "servers: [{name: s, hostname: s}]\nwrite_status_to: {run: status.yml}\nerror_handlers:\n\
    - {name: ssh, return_code: 255, stderr_pattern: '[\\S\\s]*', action: retry}\n\
    - {name: odd, return_code: '[0-3]', stderr_pattern: 'Cloning .*\\n', commands: [date, 'echo $NOODLES_SERVER_NAME'], action: continue}\n\
    - {name: here, return_code: 9, stderr_pattern: x, commands: ['local:date'], action: abort}\n\
    - {name: none, action: continue}\n- {name: back, return_code: 1, stderr_pattern: '(a)\\1', action: abort}\n\
    experiments:\n- {name: a, commands: {run: git clone x}, write_outputs: {run: {stdout_to: out}}}\n";

#[test]
fn a_spec_of_each_kind_of_use_is_one_that_the_format_takes() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/noodles");
    let files = fs::read_dir(examples)
        .unwrap()
        .map(|file| file.unwrap().path());
    let specs = files.filter(|file| file.extension().is_some_and(|of| of == "yml"));
    let mut count = 0;
    for spec in specs.map(|file| fs::read_to_string(file).unwrap()) {
        let (loaded, _) = read(&spec, "run");
        assert!(!loaded.definitions.is_empty());
        count += 1;
    }
    assert_eq!(count, 6);
}

#[test]
fn places_requirements_and_errors_keep_their_meaning() {
    let (loaded, imported) = read(LONG, "run");
    let one = &loaded.definitions[0];
    let requires = one.requires.as_ref().unwrap();
    let wanted = "(cpu_usage < 0.3) && (cpu_load <= 2) && (ready == 'Yes')";
    assert_eq!(requires.text, wanted);
    assert_eq!(one.probes.len(), 3);
    assert!(one.precedence.place.in_order && one.precedence.lock.is_some());
    assert!(
        imported
            .text
            .contains("neroman node add gpu_1 ada@gpu1.example.org")
    );
    let (loaded, imported) = read(FILES, "run");
    let of = |name: &str| definition(&loaded, name);
    let node = |name: &str| of(name).node.as_ref().unwrap().text.clone();
    assert_eq!(
        (node("init"), node("b_")),
        ("servers".to_owned(), "servers".to_owned())
    );
    let local = |name: &str, step| nero_format::local_step(&of(name).argv, step);
    assert!(local("init", 1).is_some_and(|step| step.contains("\ns2) export ")));
    assert_eq!((local("init", 2), local("b_", 1)), (None, None));
    assert!(
        local("b_", 2).is_some_and(
            |step| step.starts_with(": 'b_, group 2'\n") && step.contains("\necho 2\n)")
        )
    );
    assert_eq!(of("b_").precedence.needs[0].on, "e7");
    let lost = imported.warnings.join("\n");
    assert!(lost.contains("`nobody`, which nobody defines"), "{lost}");
    // A group that fails and counts as none keeps those behind it from nothing.
    let goes_on =
        "error_handlers: [{return_code: 3, stderr_pattern: '[\\S\\s]*', action: continue}]\n";
    let (loaded, imported) = read(&format!("{FILES}{goes_on}"), "run");
    let of = |name: &str| definition(&loaded, name);
    let node = |name: &str| of(name).node.as_ref().unwrap().text.clone();
    assert_eq!(
        (node("init-1"), node("init")),
        ("local".to_owned(), "s1".to_owned())
    );
    let same_as = of("b_").precedence.place.same_as.as_ref().unwrap();
    assert_eq!(same_as.on, "b_-1");
    let lost = imported.warnings.join("\n");
    assert!(lost.contains("so it goes to `s1`"), "{lost}");
    let (loaded, imported) = read(ERRORS, "run");
    let again = &loaded.definitions[0].again;
    let handlers = again.on_error.as_ref().unwrap();
    assert_eq!(handlers.len(), 3, "{}", imported.text);
    let [run] = handlers[1].run.as_slice() else {
        panic!("{handlers:?}");
    };
    assert!(
        run.starts_with("exec bash -c 'cd ~\ncase $NERO_NODE in\ns) export "),
        "{run}"
    );
    assert!(
        run.ends_with("\nesac\ndate\necho $NOODLES_SERVER_NAME'"),
        "{run}"
    );
    assert!(handlers[0].run.is_empty() && handlers[2].run.is_empty());
    assert_eq!(
        (&*handlers[0].exit, &handlers[0].stderr),
        (&[255][..], &None)
    );
    assert_eq!(handlers[1].exit, [0, 1, 2, 3]);
    assert_eq!(handlers[1].stderr.as_deref(), Some("^(?:Cloning .*)$"));
    for what in [
        "`none`",
        "`back`",
        "the commands of the error handler `here`: some of them run on this machine",
        "status file",
        "stdout_to",
        "longer than 10 minutes",
    ] {
        let told = imported.warnings.iter().filter(|one| one.contains(what));
        assert_eq!(told.count(), 1, "{what}: {:#?}", imported.warnings);
        assert!(imported.text.contains(what), "{}", imported.text);
    }
}

#[test]
fn a_probe_of_any_lines_is_their_mean_or_their_text() {
    let asked = |commands: &[&str]| {
        let (code, printed, _) = bash(&["sh", "-c", &mean(commands)], &[]);
        (code, printed)
    };
    let is = |code, text: &str| (code, text.to_owned());
    assert_eq!(asked(&["echo 10; echo 20"]), is(0, "15\n"));
    assert_eq!(asked(&["echo 1e1", "echo; echo 0"]), is(0, "5\n"));
    assert_eq!(asked(&["echo Yes"]), is(0, "Yes\n"));
    assert_eq!(asked(&["echo 1", "echo busy"]), is(0, "1\nbusy\n"));
    assert_eq!(asked(&["echo 1; exit 3"]).0, 3);
}

/// The exit code, and what was printed.
fn bash(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = std::process::Command::new(arguments[0]);
    command
        .args(&arguments[1..])
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn a_probe_has_the_variables_of_its_experiment_and_bash() {
    let spec = "servers: [{name: s, hostname: s}, {name: t, hostname: t}]\n\
        experiment_default: {envs: {MARK: /mark_$EXPERIMENT}}\nexperiments:\n\
        - {name: a, envs: {EXPERIMENT: \"it's\"}, requirements: {run: [free: ==1, cpu_load: <2]}, commands: {run: 'true'}}\n\
        - {name: b, envs: {EXPERIMENT: two}, requirements: {run: [free: ==1]}, commands: {run: 'true'}}\n\
        - {name: c, envs: {EXPERIMENT: two}, requirements: {run: [free: ==1, where: ==s]}, commands: {run: 'true'}}\n\
        requirements: {free: '[[ x == x ]] && echo $MARK', where: 'echo $NOODLES_SERVER_NAME'}\n";
    let (loaded, imported) = read(spec, "run");
    let mut asked = Vec::new();
    for definition in &loaded.definitions {
        for probe in definition
            .probes
            .iter()
            .filter(|one| one.name != "cpu_load")
        {
            asked.push(bash(&["sh", "-c", &probe.command], &[("NERO_NODE", "t")]).1);
        }
    }
    assert_eq!(asked, ["/mark_it's\n", "/mark_two\n", "/mark_two\n", "t\n"]);
    let own = ["  free: ", "  free_2: ", "  where: "];
    assert!(
        own.iter()
            .all(|name| imported.text.matches(name).count() == 1)
    );
    assert!(!imported.text.contains("free_3"), "{}", imported.text);
    // A probe without variables finds a file beside the spec by its relative path.
    let here = "servers: [{name: here}]\nrequirements: {ready: test -e tried && echo Yes}\n\
        experiments: [{name: a, requirements: {run: [ready: ==Yes]}, commands: {run: 'true'}}]\n";
    let (_, imported) = read(here, "run");
    let probe = imported
        .text
        .lines()
        .find(|line| line.starts_with("  ready: "));
    assert!(
        probe.is_some_and(|probe| probe.contains("cd '")),
        "{probe:?}"
    );
    // `add` would refuse a file with so long a probe.
    let spec = spec.replace(
        "EXPERIMENT: two",
        &format!("EXPERIMENT: {}", "x".repeat(4096)),
    );
    let (_, imported) = read(&spec, "run");
    let lost = imported.warnings.join("\n");
    assert!(
        lost.contains("`b` requires `free`: with its variables"),
        "{lost}"
    );
}

#[test]
fn a_handler_has_the_names_of_the_spec_and_bash() {
    let spec = "servers: [{name: s, username: ada, hostname: $GPU_HOST}]\n\
        error_handlers: [{return_code: 1, stderr_pattern: '[\\S\\s]*', action: retry, commands: \
        ['[[ a == a ]] && echo \"it''s $NOODLES_EXPERIMENT_NAME at $NOODLES_SERVER_AUTHORITY\"']}]\n\
        experiments:\n- {name: '7', commands: {run: 'true'}}\n- {name: x, commands: {run: 'true'}}\n\
        - {name: 'a/$b', commands: {run: 'true'}}\n";
    let (loaded, imported) = read(spec, "run");
    let handlers = loaded.definitions[0].again.on_error.as_ref().unwrap();
    let run = &*handlers[0].run[0];
    for (own, name) in [("e7", "7"), ("x", "x"), ("a_$b", "a/$b")] {
        let variables = [("NERO_NAME", own), ("NERO_NODE", "s"), ("GPU_HOST", "gpu")];
        let (code, stdout, stderr) = bash(&["sh", "-c", run], &variables);
        let printed = format!("it's {name} at ada@gpu\n");
        assert_eq!((code, stdout, stderr), (0, printed, String::new()), "{run}");
    }
    let lost = imported.warnings.join("\n");
    assert!(lost.contains("in the server `s`"), "{lost}");
}

#[test]
fn groups_of_one_machine_all_run_and_the_first_that_fails_gives_the_exit_code() {
    let spec = "servers: [{name: a, hostname: localhost}, {name: b, hostname: localhost}]\n\
        error_handlers: [{return_code: 3, stderr_pattern: '[\\S\\s]*', action: continue}]\nexperiments:\n- name: x\n  commands:\n    run:\n\
        \x20   - echo 1; exit 3\n    - 'local:echo 2; exit 4'\n    - echo $NOODLES_SERVER_NAME\n";
    let folder = tempfile::tempdir().unwrap();
    let spec = crate::read(spec, "run", None).unwrap();
    let imported = imported(
        &spec,
        "run",
        "spec.yml",
        folder.path().to_str().unwrap(),
        Some("me"),
    );
    let file = folder.path().join("neronet.yaml");
    fs::write(&file, &imported.text).unwrap();
    let loaded = nero_format::read_source(&file, &nero_format::Defaults::default()).unwrap();
    let argv: Vec<&str> = loaded.definitions[0]
        .argv
        .iter()
        .map(|one| &**one)
        .collect();
    let (code, stdout, stderr) = bash(&argv, &[]);
    assert_eq!((code, &*stdout, &*stderr), (3, "1\n2\na\n", ""), "{argv:?}");
    for what in ["the servers of this machine", "the exit code of the first"] {
        let told = imported.warnings.iter().filter(|one| one.contains(what));
        assert_eq!(told.count(), 1, "{what}: {:#?}", imported.warnings);
    }
}

#[test]
fn what_a_local_group_prints_on_standard_error_is_an_error_that_no_handler_takes() {
    let spec = |handler: &str, command: &str| {
        format!(
            "servers: [{{name: s, hostname: s}}]\nerror_handlers: [{{return_code: {handler}, \
             stderr_pattern: '[\\S\\s]*', action: abort}}]\n\
             experiments: [{{name: x, commands: {{run: ['local:{command}', pwd]}}}}]\n"
        )
    };
    for (handler, command, expected) in [
        ("1", "echo a; echo b >&2", (2, "a\n", "b\n")),
        ("1", "echo a", (0, "a\n", "")),
        ("1", "echo b >&2; exit 7", (7, "", "b\n")),
        ("0", "echo b >&2", (0, "", "b\n")),
    ] {
        let (loaded, imported) = read(&spec(handler, command), "run");
        let step = nero_format::local_step(&loaded.definitions[0].argv, 1).unwrap();
        let step = step.replace("cd '/home/me/it'\\''s here'", "cd /");
        let (code, stdout, stderr) = bash(&["bash", "-e", "-c", &step], &[]);
        assert_eq!((code, &*stdout, &*stderr), expected, "{step}");
        let lost = imported.warnings.join("\n");
        assert_eq!(lost.contains("with exit code 0 print"), handler == "0");
        assert!(lost.contains("behind one that ends the flow"), "{lost}");
    }
}
