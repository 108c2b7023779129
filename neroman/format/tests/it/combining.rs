//! Values that are computed, and which combinations of values become experiments.

use crate::{commands, load, names, report, texts, value};
use nero_format::Value;

#[test]
fn series_give_their_values_in_the_shortest_form() {
    let loaded = load(
        "\
+a: {command: 'p {x}', parameters: {x: {linspace: [0, 1, 5]}}}
+b: {command: 'p {x}', parameters: {x: {logspace: [-4, -1, 4]}}}
",
    );
    assert_eq!(
        texts(&loaded, "x"),
        [
            "0", "0.25", "0.5", "0.75", "1", "0.0001", "0.001", "0.01", "0.1"
        ]
    );
    assert_eq!(names(&loaded)[1], "a_x-0.25");
    assert_eq!(value(&loaded.definitions[4], "x"), &Value::Int(1));
}

#[test]
fn a_sample_is_the_same_at_each_reading_and_grows_at_its_end() {
    let sample = |rest: &str| {
        let loaded = load(&format!(
            "+a: {{command: 'p {{x}}', parameters: {{x: {{sample: [1e-4, 1e-1], log: true, {rest}}}}}}}"
        ));
        texts(&loaded, "x")
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let five = sample("n: 5, seed: 1");
    assert_eq!(five, sample("n: 5, seed: 1"));
    assert_eq!(five, sample("n: 9, seed: 1")[..5]);
    assert_ne!(five, sample("n: 5, seed: 2"));
    let number = |text: &String| text.parse::<f64>().unwrap();
    assert!(
        five.iter().map(number).all(|x| (1e-4..=1e-1).contains(&x)),
        "{five:?}"
    );
}

#[test]
fn zipped_parameters_advance_together() {
    let loaded = load(
        "\
command: p {x} {y} {z}
parameters: {x: [1, 2], z: [a, b], y: [10, 20]}
zip: [y, x]
+a:
+b: {parameters: {y: 7}}
+c: {zip: null}
",
    );
    let of = |block: &str| {
        let mine = loaded.definitions.iter().filter(|one| *one.block == block);
        mine.map(|one| one.argv[1..].join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), ["1 10 a", "1 10 b", "2 20 a", "2 20 b"]);
    assert_eq!(of("b"), ["1 7 a", "1 7 b", "2 7 a", "2 7 b"]);
    assert_eq!(of("c").len(), 8);
    let two = load(
        "+a: {command: 'p {a}{b}{c}{d}', parameters: {a: [1, 2], b: [3, 4], c: [5, 6], d: [7, 8]}, zip: [[a, b], [c, d]]}",
    );
    assert_eq!(commands(&two), ["p|1357", "p|1368", "p|2457", "p|2468"]);
}

#[test]
fn excluded_combinations_are_left_out_and_names_stay() {
    let loaded = load(
        "\
+a:
  command: p {x} {opt}
  parameters: {x: [1, 2, 3], opt: [sgd, adam]}
  exclude: [\"x > 1 && opt == 'sgd'\", x == 3]
",
    );
    assert_eq!(
        names(&loaded),
        ["a_opt-sgd_x-1", "a_opt-adam_x-1", "a_opt-adam_x-2"]
    );
}

#[test]
fn repeats_have_a_number_and_a_seed() {
    let loaded = load(
        "\
+a: {command: 'p {x} --seed {seed}', parameters: {x: [1, 2]}, repeat: 2}
+b: {command: 'p {repeat} {seed}', parameters: {seed: 5}, repeat: 2}
+c: {run_command_prefix: python3, main_code_file: main.py, repeat: 2}
",
    );
    assert_eq!(
        names(&loaded)[..3],
        ["a_repeat-1_x-1", "a_repeat-2_x-1", "a_repeat-1_x-2"]
    );
    assert_eq!(
        commands(&loaded)[..6],
        [
            "p|1|--seed|1",
            "p|1|--seed|2",
            "p|2|--seed|1",
            "p|2|--seed|2",
            "p|1|5",
            "p|2|5"
        ]
    );
    assert_eq!(*loaded.definitions[0].varied, ["x", "repeat"]);
    assert_eq!(loaded.notes, []);
}

#[test]
fn mistakes_of_combinations_are_told_at_their_place() {
    let table = [
        (
            "parameters: {x: {linspace: [0, 1]}}",
            "`linspace` of `x` takes three numbers, not 2",
        ),
        (
            "parameters: {x: {linspace: [0, 1, 0]}}",
            "is a whole number from 1",
        ),
        (
            "parameters: {x: {linspace: [0, b, 3]}}",
            "an element of `linspace` of `x` is no number",
        ),
        (
            "parameters: {x: {linspace: [1, 1, 3]}}",
            "begins and ends with the same value",
        ),
        (
            "parameters: {x: {linspace: 3}}",
            "`linspace` takes a list, not a single value",
        ),
        (
            "parameters: {x: {logspace: [1e-4, 1, 5]}}",
            "write [-4, 0, 5]",
        ),
        (
            "parameters: {x: {logspace: [-400, 1, 5]}}",
            "leads to numbers that are none",
        ),
        (
            "parameters: {x: {linspac: [0, 1, 3]}}",
            "did you mean `linspace`?",
        ),
        (
            "parameters: {x: {sample: [0, 1]}}",
            "`sample` of `x` has no `n`",
        ),
        (
            "parameters: {x: {sample: [1, 0], n: 3}}",
            "the first end is not below the second",
        ),
        (
            "parameters: {x: {sample: [0, 1], n: 3, log: true}}",
            "a logarithmic scale begins above zero",
        ),
        (
            "parameters: {x: {sample: [0, 1], n: 3, sead: 1}}",
            "did you mean `seed`?",
        ),
        (
            "parameters: {x: {sample: [0, 1], n: 3, seed: a}}",
            "`seed` is a whole number",
        ),
        (
            "parameters: {x: {sample: [0, 1, 2], n: 3}}",
            "`sample` of `x` takes the two ends",
        ),
        (
            "parameters: {x: {zip: [[1, 2], [3, 4]]}}",
            "`zip: [x, y]` and",
        ),
        (
            "parameters: {x: 1, exclude: ['x > 1']}",
            "`exclude` stands beside `parameters`",
        ),
        (
            "zip: {x: [1, 2]}",
            "`zip` takes names of parameters, not a map",
        ),
        ("zip: [x, z]", "`z` of `zip` is no parameter"),
        ("zip: [x, x]", "`x` is in `zip` twice"),
        ("zip: [x, y]", "`x` has 2 values and `y` has 3"),
        ("exclude: ['z > 1']", "no parameter or metric is called `z`"),
        ("exclude: ['x >']", ":5:"),
        (
            "exclude: ['runtime > 1h']",
            "`exclude` compares parameters, and `runtime` belongs to a run",
        ),
        (
            "exclude: ['x > 0']",
            "`exclude` drops every combination of `a`",
        ),
        (
            "repeat: many",
            "`repeat` takes a whole number from 1, not `many`",
        ),
        ("repeat: 0", "`repeat` takes a whole number from 1, not `0`"),
    ];
    for (line, message) in table {
        let text = format!(
            "command: p {{x}} {{y}}\nparameters: {{x: [1, 2], y: [1, 2, 3]}}\n+a:\n  env: {{A: 1}}\n  {line}\n"
        );
        let said = report(&text);
        assert!(said.contains(message), "{line}: {said}");
    }
    let own = "+a: {command: 'p {repeat}', parameters: {repeat: 1}, repeat: 3}";
    assert!(report(own).contains("a parameter is called `repeat`"));
}

#[test]
fn dates_sizes_and_durations_are_compared_as_what_they_are() {
    let loaded = load(
        "+d:
  command: 'p {when} {n}'
  parameters: {when: [2018-11-25, 2018-11-26, 2019-01-01], n: [1, 2]}
  exclude: ['when >= 2018-11-26 && n == 2']
+e:
  command: 'p {memory} {limit}'
  parameters: {memory: [4G, 500M, 16G], limit: [90min, '2:00:00']}
  exclude: [memory >= 4G && limit > 1h40m, memory == 16384M]
+f:
  command: 'p {seed}'
  parameters: {seed: [18446744073709551614, 18446744073709551615, 18446744073709551616]}
  exclude: [seed == 18446744073709551615]
",
    );
    assert_eq!(
        commands(&loaded),
        [
            "p|2018-11-25|1",
            "p|2018-11-25|2",
            "p|2018-11-26|1",
            "p|2019-01-01|1",
            "p|4G|90min",
            "p|500M|90min",
            "p|500M|2:00:00",
            "p|18446744073709551614",
            "p|18446744073709551616",
        ]
    );
}

#[test]
fn a_comparison_that_no_value_can_meet_is_refused_with_its_place() {
    let of = |values: &str, exclude: &str| {
        format!(
            "+a:\n  command: 'p {{x}} {{n}}'\n  parameters: {{x: {values}, n: [1, 2]}}\n  exclude: [{exclude}]\n"
        )
    };
    for (values, exclude, wanted) in [
        ("[adam, sgd]", "'n == 2 && x > 3'", "4:24\n"),
        (
            "[adam, sgd]",
            "x > 2018-11-20",
            "`x` is text (`adam`), and is compared with a date",
        ),
        (
            "[2018, 2019]",
            "x > 2018-11-20",
            "`x` is a number (`2018`), and is compared with a date",
        ),
        (
            "[true, false]",
            "x == 1",
            "`x` is true or false (`true`), and is compared with a number",
        ),
    ] {
        let found = report(&of(values, exclude));
        assert!(found.contains(wanted), "{found}");
    }
    let loaded = load(&of("[2018-11-21, never]", "x > 2018-11-20"));
    assert_eq!(commands(&loaded), ["p|never|1", "p|never|2"]);
    assert!(
        loaded.notes[0].text.contains("`x` is text (`never`)"),
        "{:?}",
        loaded.notes
    );
}
