//! `retry` as a list.

use nero_format::RetryOn::{Crashed, OutOfMemory, Timeout};

use crate::{load, report};

#[test]
fn each_item_of_a_list_has_its_own_ends_codes_and_words() {
    let loaded = load(
        "+a:\n  command: prog\n  resources: {memory: 1G}\n  retry:\n\
         \x20   - {exit: 255, stderr: '^ssh: .*', max: 20, after: 10s}\n\
         \x20   - {on: [out_of_memory], memory: x2}\n    - {on: timeout, exit: [1, 75], max: 0}\n",
    );
    let again = &loaded.definitions[0].again;
    let items: Vec<_> = again
        .retries()
        .map(|one| (one.on.clone(), one.exit.clone(), one.max))
        .collect();
    assert_eq!(
        items,
        [
            (vec![Crashed], vec![255], 20),
            (vec![OutOfMemory], vec![], 1),
            (vec![Timeout], vec![1, 75], 0),
        ]
    );
    let first = again.retry.as_ref().unwrap();
    assert_eq!(first.stderr.as_deref(), Some("^ssh: .*"));
    assert_eq!(first.after_ms, 10_000);
    let one = load("+a: {command: prog, retry: 2}\n");
    assert_eq!(one.definitions[0].again.retries().count(), 1);
    let none = load("+a: {command: prog, retry: 0}\n");
    assert!(none.definitions[0].again.is_none());
}

#[test]
fn codes_and_patterns_that_can_never_fit_are_refused() {
    for (retry, word) in [
        ("[{exit: 0}]", "a code from 1 to 255, not `0`"),
        ("[{exit: 256}]", "a code from 1 to 255"),
        ("{stderr: '(ssh'}", "no regular expression"),
        ("[{exits: 1}]", "did you mean `exit`?"),
        (
            "{on: node_failure, exit: 255}",
            "no `exit` of the job is known",
        ),
        (
            "[{on: [node_failure, timeout], exit: 3}]",
            "after `node_failure` no `exit`",
        ),
        (
            "[{on: [crashed, timeout], stderr: x}]",
            "after `timeout` no `stderr`",
        ),
        ("{exit: []}", "names no code"),
        ("{stderr: ''}", "`retry.stderr` is empty"),
        ("[3, {exit: 255, max: 20}]", "is never asked"),
        (
            "[{on: timeout, memory: x2}]",
            "`retry.memory` counts after `out_of_memory`",
        ),
    ] {
        let text = report(&format!("+a: {{command: prog, retry: {retry}}}\n"));
        assert!(text.contains(word), "{word}\n{text}");
    }
}
