//! Texts that are no specs, and values of the wrong kind.

use nero_noodles::read;

#[track_caller]
fn told(text: &str) -> String {
    let mistakes = read(text, "run", None).expect_err(text);
    let lines = mistakes.list.iter();
    let line = |mistake: &nero_yaml::Mistake| {
        format!(
            "{}:{} {}",
            mistake.place.line, mistake.place.column, mistake.message
        )
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_empty_text_is_a_spec() {
    for text in ["", "# nothing\n", "---\n", "~", "{}", "false"] {
        let spec = read(text, "run", None).expect(text);
        assert!(spec.servers.is_empty() && spec.round_interval == 10.0);
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_its_place() {
    for (text, message) in [
        ("a", "1:1 a spec is a map, not text"),
        ("- a", "1:1 a spec is a map, not a list"),
        (
            "experiments: 5",
            "1:14 `experiments` is a list, not a number",
        ),
        (
            "experiments: [5]",
            "1:15 an experiment is a map, not a number",
        ),
        (
            "experiments:\n- envs: [a]",
            "2:9 `envs` is a map, not a list",
        ),
        (
            "experiments:\n- commands: x",
            "2:13 `commands` is a map, not text",
        ),
        (
            "experiments:\n- commands:\n    run:\n    - echo: a",
            "4:7 a command is text, not a map",
        ),
        ("servers: {a: b}", "1:10 `servers` is a list, not a map"),
        ("servers: [a]", "1:11 a server is a map, not text"),
        (
            "server_default: 5",
            "1:17 `server_default` is a map, not a number",
        ),
        (
            "round_interval: ten",
            "1:17 `round_interval` is a number of seconds, not `ten`",
        ),
        (
            "round_interval: .inf",
            "1:17 `round_interval` is a number of seconds, not a number",
        ),
        (
            "error_handlers: {a: 1}",
            "1:17 `error_handlers` is a list, not a map",
        ),
        (
            "write_status_to: x",
            "1:18 `write_status_to` is a map, not text",
        ),
        (
            "error_handlers:\n- {return_code: 1, stderr_pattern: '(a'}",
            "2:36 the pattern `(a`: a `(` without its `)` at character 2",
        ),
        (
            "a: !!python/tuple [1]",
            "1:4 the tag `!!python/tuple` is none that fits this value",
        ),
        ("? [a]\n: b", "1:3 a key is text, not a list"),
        (
            "a: &x [*x]",
            "1:8 an alias stands inside of what it repeats",
        ),
        ("a: 1\n---\nb: 2", "2:1 a second document begins here"),
        (
            "experiments:\n- commands: {run: x}\n  requirements: {run: [{often:a: '==1'}]}",
            "3:25 `often` is no prefix of a requirement",
        ),
    ] {
        assert_eq!(told(text), message, "of {text:?}");
    }
    for text in ["a:\n\t- b", "a: [", "a: 'b", "- echo a: b: c", "@a"] {
        assert!(told(text).contains("this is not YAML"), "{text:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = "
experiments:
- commands: {run: ['echo:a', 'http://x']}
- commands: {run: x}
  depends_on: {run: [[a]]}
- envs: 5
round_interval: x
";
    let told = told(text);
    assert_eq!(told.lines().count(), 5, "{told}");
}
