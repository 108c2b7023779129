//! Processors of outputs, and plots.

use crate::{load, report};
use nero_format::ProcessedUnit;

#[test]
fn processors_and_plots_are_read_with_their_files() {
    let loaded = load(
        "+a:\n  command: prog\n  outputs: [result.txt, 'logs/*']\n  output_line_processor: {stdout: 'example line_reader \"a b\"', result.txt: example line_reader a}\n  output_file_processor: {result.txt: 'mine.read whole', logs/x: os getcwd}\n  plot: {loss.svg: example plot stdout.log b a}\n",
    );
    let definition = &loaded.definitions[0];
    let processing = &definition.processing;
    let outputs = processing.outputs.iter();
    let outputs: Vec<_> = outputs
        .map(|one| (one.file.as_str(), one.unit, one.call.module.as_str()))
        .collect();
    assert_eq!(
        outputs,
        [
            ("result.txt", ProcessedUnit::File, "mine.read"),
            ("logs/x", ProcessedUnit::File, "os"),
            ("stdout.log", ProcessedUnit::Line, "example"),
        ]
    );
    assert_eq!(processing.outputs[2].call.arguments, ["a b"]);
    assert_eq!(processing.plots[0].file, "stdout.log");
    assert_eq!(processing.plots[0].call.arguments, ["b", "a"]);
    // The log comes home whole, and editing a plot is no reason to run again.
    assert!(
        definition
            .outputs
            .iter()
            .any(|one| one.path == "stdout.log")
    );
    let bare = load("+a: {command: prog, outputs: [result.txt, 'logs/*', stdout]}\n");
    assert_eq!(bare.definitions[0].fingerprint(), definition.fingerprint());
    let notes: Vec<_> = loaded.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("there is no `mine/read.py`")),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|note| note.contains("`result.txt` has a processor already")),
        "{notes:?}"
    );
}

#[test]
fn mistakes_in_processors_and_plots_are_told_with_what_to_type() {
    let mistakes = [
        (
            "outputs: [x]\n  output_line_processor: {y: m f}",
            "`y` is not among `outputs`",
        ),
        (
            "output_line_processor: {y: m}",
            "takes `module function arguments`, not `m`",
        ),
        (
            "output_line_processor: {../y: m f}",
            "lies outside of the folder",
        ),
        (
            "output_file_processor: {y: 'm f \"x'}",
            "has a quote that is not closed",
        ),
        (
            "output_file_processor: {y: m.py f-g}",
            "is no function of a Python module",
        ),
        (
            "output_line_processor: {y: example reader}",
            "`example` has no function `reader`",
        ),
        ("output_line_processor: m f", "output_line_processor"),
        (
            "plot: {a.svg: m f x}",
            "`x` has no processor whose values could be drawn",
        ),
        (
            "output_line_processor: {y: m f}\n  plot: {a.svg: m f}",
            "takes `module function file arguments`",
        ),
        (
            "output_line_processor: {y: m f}\n  plot: {a/b.svg: m f y}",
            "is no name for a picture",
        ),
        (
            "output_line_processor: {y: m f}\n  plot: {y: m f y}",
            "is no name for a picture",
        ),
    ];
    for (line, message) in mistakes {
        let said = report(&format!("+a:\n  command: prog\n  {line}\n"));
        assert!(said.contains(message), "{line}: {said}");
    }
}
