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

#[test]
fn handlers_of_errors_are_asked_in_their_order_before_retry() {
    use nero_format::AfterError::{Abort, Continue, Retry};
    let loaded = load(
        "+a:\n  command: prog\n  retry: 2\n  on_error:\n\
         \x20   - {exit: 0, stderr: '^Cloning .*', then: continue}\n\
         \x20   - {stderr: '^ssh: ', then: retry, max: 20, after: 10s}\n\
         \x20   - {exit: [3, 4], then: abort}\n+b: {command: prog, on_error: []}\n\
         +c: {command: prog, on_error: {exit: 3, then: continue}}\n",
    );
    let again = &loaded.definitions[0].again;
    let then: Vec<_> = again
        .on_error
        .iter()
        .flatten()
        .map(|one| one.then)
        .collect();
    assert_eq!(then, [Continue, Retry, Abort]);
    let items: Vec<_> = again
        .retries()
        .map(|one| (one.exit.clone(), one.max, one.after_ms))
        .collect();
    let own = [(vec![], 20, 10_000), (vec![3, 4], 0, 0), (vec![], 2, 0)];
    assert_eq!(items, own);
    for name in [1, 2] {
        let again = &loaded.definitions[name].again;
        assert!(again.on_error.is_some() && again.retries().count() == 0);
    }
    for (handlers, word) in [
        ("[{exit: 256, then: abort}]", "a code from 0 to 255"),
        ("[{exit: 3}]", "does not tell what follows"),
        ("[{exit: 3, then: ignore}]", "ignore"),
        (
            "[{exit: 3, then: continue, max: 2}]",
            "`on_error.max` goes with `then: retry`",
        ),
        (
            "[{then: retry}, {exit: 3, then: continue}]",
            "is never asked",
        ),
        ("[{stderr: '(', then: retry}]", "no regular expression"),
        ("[{run: [], then: retry}]", "`on_error.run` is empty"),
    ] {
        let text = report(&format!("+a: {{command: prog, on_error: {handlers}}}\n"));
        assert!(text.contains(word), "{word}\n{text}");
    }
    let kept =
        load("+a: {command: prog, on_error: [{exit: 1, then: retry, run: date}, {then: abort}]}\n");
    let again = &kept.definitions[0].again;
    assert!(again.responds() && kept.definitions[0].not_built.is_empty());
    assert_eq!(again.on_error.as_ref().unwrap()[0].run, ["date"]);
}
