//! Files with the slips that people make who come from other tools: none is read as something
//! else. The reports are one page to read.

use crate::read;

/// Each with a word about the slip.
const SLIPS: &[(&str, &str)] = &[
    (
        "a sweep of Weights and Biases",
        "method: grid\nparameters:\n  lr:\n    values: [0.1, 0.01]\n+a: {command: 'prog {lr}'}\n",
    ),
    (
        "a sweep with min and max",
        "+a:\n  command: prog {lr}\n  parameters: {lr: {min: 0.001, max: 0.1}}\n",
    ),
    (
        "a range in words",
        "+a:\n  command: prog {n}\n  parameters: {n: {range: 1..5}}\n",
    ),
    (
        "a range with one end",
        "+a:\n  command: prog {n}\n  parameters: {n: {range: [10]}}\n",
    ),
    (
        "linspace of one number",
        "+a:\n  command: prog {n}\n  parameters: {n: {linspace: [0, 1]}}\n",
    ),
    (
        "sample without n",
        "+a:\n  command: prog {n}\n  parameters: {n: {sample: [0, 1]}}\n",
    ),
    (
        "logspace from zero as a sample",
        "+a:\n  command: prog {n}\n  parameters: {n: {sample: [0, 1], n: 3, log: true}}\n",
    ),
    (
        "zip of an unknown name",
        "+a:\n  command: prog {n} {m}\n  parameters: {n: [1, 2], m: [3, 4]}\n  zip: [n, k]\n",
    ),
    (
        "zip of lists that differ",
        "+a:\n  command: prog {n} {m}\n  parameters: {n: [1, 2], m: [3, 4, 5]}\n  zip: [n, m]\n",
    ),
    (
        "exclude with one sign",
        "+a:\n  command: prog {n}\n  parameters: {n: [1, 2]}\n  exclude: [n => 2]\n",
    ),
    ("repeat in words", "+a: {command: prog, repeat: twice}\n"),
    (
        "hours as a clock",
        "+a: {command: prog, resources: {time: '24:00'}}\n",
    ),
    (
        "a decimal comma",
        "+a: {command: prog, resources: {cpus: '1,5'}}\n",
    ),
    (
        "memory with a blank",
        "+a: {command: prog, resources: {memory: 4 gigs}}\n",
    ),
    (
        "mem for memory",
        "+a: {command: prog, resources: {mem: 4G}}\n",
    ),
    ("gpu for gpus", "+a: {command: prog, resources: {gpu: 1}}\n"),
    (
        "resources at the top of the block",
        "+a: {command: prog, cpus: 4, memory: 8G}\n",
    ),
    (
        "a rule as a text",
        "+a: {command: prog, rules: 'abort if loss > 3'}\n",
    ),
    (
        "=> for >=",
        "+a:\n  command: prog\n  rules: [{abort: loss => 3}]\n",
    ),
    (
        "a rule that is a tag",
        "+a:\n  command: prog\n  rules:\n    - abort: !finished\n",
    ),
    ("env as a list", "+a:\n  command: prog\n  env: [A=1, B=2]\n"),
    ("retry with a sign", "+a: {command: prog, retry: -1}\n"),
    ("retry for ever", "+a: {command: prog, retry: {max: inf}}\n"),
    ("python as a version", "+a: {command: prog, python: 3.12}\n"),
    (
        "outputs above the folder",
        "+a: {command: prog, outputs: ['../results/*']}\n",
    ),
    (
        "a style that is none",
        "+a: {command: prog, parameters_style: argparse}\n",
    ),
    (
        "a block below parameters",
        "+a:\n  command: prog {x}\n  parameters:\n    +b: {x: 1}\n",
    ),
    (
        "a parameter with a dollar",
        "+a:\n  command: prog $lr\n  parameters: {lr: [1, 2]}\n  resources: {cpu: 1}\n",
    ),
    (
        "a node in a list",
        "+a: {command: prog, node: [alpha, beta]}\n",
    ),
    (
        "resources of a node without a map",
        "+a: {command: prog, resources: {cpus: {alpha: 4, beta: }, time: {alpha: [1h]}}}\n",
    ),
    (
        "the parent of a block",
        "+a: {command: prog}\n+b: {parent: a, command: prog}\n",
    ),
];

#[test]
fn slips_of_people_are_mistakes_with_what_to_type() {
    let mut page = String::new();
    let mut taken = Vec::new();
    for (slip, yaml) in SLIPS {
        let said = match read(yaml) {
            Ok(_) => {
                taken.push(*slip);
                continue;
            }
            Err(said) => said,
        };
        page.push_str(&format!("## {slip}\n{said}\n"));
    }
    assert!(taken.is_empty(), "read as something else: {taken:?}");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("slips", page);
    });
}
