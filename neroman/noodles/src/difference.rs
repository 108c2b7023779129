//! Where a spec is read differently from the original, on purpose.
//!
//! The table is what the comparison with the original allows, and what `docs/noodles.md` shows.

use nero_yaml::Mark;

/// A kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// A date or a time.
    Time,
    /// Digits that are no number, a day that does not exist, `=`.
    NoSuchValue,
    /// `<<` with several maps that share a key.
    MergeOrder,
    /// Nothing where something is expected.
    Nothing,
    /// A number or the like where text is expected.
    NotText,
    /// A key that YAML reads as a number or a truth.
    KeyIsNoText,
    /// A name that is no text.
    NameIsNoText,
    /// A requirement in a form that the original cannot read.
    RequirementForm,
    /// `static:`, `dynamic:`
    ProbeScheme,
    /// The end of the last line that a probe prints.
    EndOfLine,
    /// Blanks behind an operator.
    Blanks,
    /// A comparison of a number with text.
    Incomparable,
    /// A server with `hostname:` and nothing behind it.
    NoHostname,
    /// Dependencies of the stages before and after.
    StageDependencies,
    /// Mistakes in what the run would have come to later.
    EarlyRefusal,
    /// Characters of `NOODLES_…` values.
    ExactValues,
    /// Tags and numbers of rare kinds.
    RareValues,
    /// What the parser accepts.
    Syntax,
    /// The built-in probe of that name.
    DiskUsage,
    /// The built-in probes of GPUs.
    NoGpu,
    /// No servers, or experiments that need each other.
    NeverEnds,
    /// What no spec shows and each flow may meet: tells nothing about a spec.
    Running,
}

/// A difference in a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Its kind.
    pub difference: Difference,
    /// Its place.
    pub mark: Mark,
}

/// A row of the table.
#[derive(Debug)]
pub struct IntendedDifference {
    /// The kind.
    pub difference: Difference,
    /// What a spec holds.
    pub case: &'static str,
    /// What the original does.
    pub original: &'static str,
    /// What happens here.
    pub here: &'static str,
    /// Why.
    pub why: &'static str,
}

const CRASH: &str = "crash";
const CRASHED: &str = "it crashed there, and has a plain meaning";

/// All intended differences.
pub const INTENDED: &[IntendedDifference] = &[
    IntendedDifference {
        difference: Difference::Time,
        case: "a date or time: `DAY: 2026-11-20`",
        original: CRASH,
        here: "text, as Python writes it",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::NoSuchValue,
        case: "`2026-02-30`, `0b_`, `=` without quotes",
        original: CRASH,
        here: "text, as written",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::MergeOrder,
        case: "`<<: [*a, *b]`, both with a key",
        original: "the value of `b` or of `a`, by the release of PyYAML",
        here: "the value of `a`",
        why: "it is YAML's rule",
    },
    IntendedDifference {
        difference: Difference::Nothing,
        case: "`commands:`, `run:`, `requirements:`, `depends_on:` or an item of a list with nothing behind it",
        original: CRASH,
        here: "as if it were not there",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::NotText,
        case: "a number, a truth or a date as command, expression, dependency or path",
        original: CRASH,
        here: "text; an expression `5` means `==5`",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::KeyIsNoText,
        case: "`on:` as a command type, `NO:` as a variable, without quotes",
        original: "a type is never found, a variable crashes",
        here: "the key as written",
        why: "YAML's truths are not meant",
    },
    IntendedDifference {
        difference: Difference::NameIsNoText,
        case: "`name: 3`",
        original: "no filter finds it, `depends_on: ['3']` neither",
        here: "names are compared as text",
        why: "the name is typed as text",
    },
    IntendedDifference {
        difference: Difference::RequirementForm,
        case: "two ids in one item; a map in place of a list; `- cpu_load<2`",
        original: CRASH,
        here: "all of them are required",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::ProbeScheme,
        case: "`static:cpu_load: <2`, `dynamic:…`",
        original: "abort: `Requirement ID does not exist`",
        here: "once per round and server; for each experiment",
        why: "its documentation promises it",
    },
    IntendedDifference {
        difference: Difference::EndOfLine,
        case: "a probe `echo Yes` with `==Yes`",
        original: "never satisfied, `echo -n Yes` is",
        here: "both are",
        why: "waiting for ever is not meant",
    },
    IntendedDifference {
        difference: Difference::Blanks,
        case: "`== Yes`",
        original: "compares with ` Yes`",
        here: "blanks around an operator do not count",
        why: "waiting for ever is not meant",
    },
    IntendedDifference {
        difference: Difference::Incomparable,
        case: "`<2` and a probe that prints text",
        original: CRASH,
        here: "unsatisfied, with the reason",
        why: "one odd server must not end a flow",
    },
    IntendedDifference {
        difference: Difference::NoHostname,
        case: "`hostname:` with nothing behind it",
        original: "ssh to a host `None`",
        here: "the own machine, as without the key",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::StageDependencies,
        case: "`depends_on` before or after all experiments; more of these than of `experiments`",
        original: "crash, or names of the wrong stage",
        here: "`depends_on` holds names of the stage itself",
        why: "it is what the key says",
    },
    IntendedDifference {
        difference: Difference::NeverEnds,
        case: "no servers; experiments that need each other",
        original: "rounds for ever, in silence",
        here: "told at once; ends when nothing else is left to do",
        why: "it can never be",
    },
    IntendedDifference {
        difference: Difference::EarlyRefusal,
        case: "an unknown prefix of a command, an expression or pattern that cannot be read, a wrong type",
        original: "abort when the run comes to it",
        here: "refused at the start, with its place",
        why: "nothing has run in vain",
    },
    IntendedDifference {
        difference: Difference::ExactValues,
        case: "a name of an experiment or server with `$`, backticks, `\\`, quotes or other signs of the shell",
        original: "executed or eaten by the shell",
        here: "`NOODLES_…` have the exact text",
        why: "a name is no program",
    },
    IntendedDifference {
        difference: Difference::RareValues,
        case: "`!!binary`, `!!set`, `!!omap`, `!!pairs`; a probe that prints complex numbers",
        original: "Python's values",
        here: "refused with the place; such numbers are text",
        why: "no spec has them",
    },
    IntendedDifference {
        difference: Difference::DiskUsage,
        case: "the built-in `disk_usage`",
        original: "abort: its `\\/` is unescaped by YAML, and awk refuses the program",
        here: "the used part of `/`",
        why: "it is what its name says",
    },
    IntendedDifference {
        difference: Difference::NoGpu,
        case: "the built-in `cuda_…` on a server without a GPU",
        original: "abort: awk divides by zero",
        here: "the text `no GPU`, which satisfies no `<`, and is said",
        why: "servers with and without may stand in one list",
    },
    IntendedDifference {
        difference: Difference::Syntax,
        case: "a text in quotes that goes on in a line with less indentation",
        original: "read",
        here: "refused, with its place",
        why: "one parser reads all files, and it is no YAML",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "a command that reads standard input",
        original: "swallows the commands behind it",
        here: "gets nothing; the rest runs",
        why: "a program is never meant as input",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "an error of syntax in a command",
        original: "`bash: line 3: syntax error …`; what stands before it has run",
        here: "`bash: eval: line 3: …`; with `set -x` in the group, or in another shell than bash, none of it runs",
        why: "so that no command reads those behind it",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "a probe without an end",
        original: "the flow waits for ever",
        here: "unsatisfied after 60 s (`--probe-limit`), and said",
        why: "one hung server must not hold the others",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "several servers to ask",
        original: "one after the other",
        here: "all at once",
        why: "the answers are the same",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "an experiment that waits",
        original: "silence",
        here: "a line says what it waits for, one per change",
        why: "silence looks like a hang",
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "`stdout_to` with a variable in whose value `$` stands; in a folder that is missing",
        original: "crash, after the commands have run",
        here: "as written; the error of the shell, and its handlers",
        why: CRASHED,
    },
    IntendedDifference {
        difference: Difference::Running,
        case: "an error without a handler",
        original: "a traceback; what was deployed is not known any more",
        here: "error, cause, and `--resume`, which tries it again",
        why: "a flow of days is not begun anew",
    },
];

/// The table as Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| a spec has | the original | here | why |\n|---|---|---|---|\n");
    for row in INTENDED {
        let cells = [row.case, row.original, row.here, row.why];
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
