//! Environment variables. The list stands here, and is compared with the names in the sources of
//! the product: one that is missing on either side is refused. A line has a name, and what it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Chapter, table, typed};

/// What a job finds.
const OF_A_JOB: &str = "
NERO_RUN the run, as 144.2
NERO_ID the number of the experiment, as 144
NERO_NAME the name of the experiment
NERO_COLLECTION its collection
NERO_ATTEMPT how often the run was started, from 1
NERO_NODE the node's name
NERO_DIR the working folder, where the job starts
NERO_OUT the same folder: what is left there can come home
NERO_PARAMS a JSON file of all parameters
NERO_PARAM_<NAME> the value of one parameter
NERO_DATA_<NAME> the path of one `data` on this node
NERO_METRICS a file for metrics: a JSON object of names and numbers in each line
NERO_TIME the time limit in seconds; not set without one
NERO_CPUS the CPUs that were asked for
NERO_GPUS the GPUs that were asked for, or `unmanaged`
NERO_RESUME the working folder, when checkpoints were copied into it; else not set
NERO_HOSTS hosts of an allocation, with commas between them
NERO_NNODES their number
NERO_AGENT on a scheduler: the agent's program, for workers of Python calls
NERO_SUBMISSION on a scheduler: the folder of the submission
CUDA_VISIBLE_DEVICES the cards of the run
CUDA_DEVICE_ORDER `PCI_BUS_ID`: the order in which cards have numbers
OMP_NUM_THREADS the CPUs of each process, unless the job sets it
PYTHONUNBUFFERED 1, unless `buffered: true`: output reaches the log when it is printed
GFORTRAN_UNBUFFERED_PRECONNECTED the same for Fortran
MASTER_ADDR the first host of an allocation, for programs on several hosts
MASTER_PORT a port of the run there
";

/// What a command of a rule finds beside some of these.
const OF_A_RULE: &str = "
NERO_RULE the condition
NERO_VALUE the values in it, as `loss = 7.3`
NERO_STATE the state of the run (`run_local`)
NERO_RESULTS the folder of its results; empty before there are any (`run_local`)
";

/// What our programs read.
const OURS: &str = "
NERONET_HOME the folder for everything of Neronet on this machine
NERONET_NODE the node of a start that names none
NERONET_SSH the command in place of `ssh`
NERONET_AGENTS the folder of the agents, in place of that beside `neroman`
NERONET_LOG what the daemon logs, as `debug` or, of what goes on with nodes, `nero_link=trace`; `info` unless set
NERONET_GPUS on a node: the folder in which users of its cards agree, the same for all
NERONET_PROGRAM the path of `neroman` for the Python package
NO_COLOR when set: no colours
COLUMNS the width of what is printed
SSH_AUTH_SOCK the agent of `ssh`, which the daemon takes over from each command
";

/// What is for our own processes alone.
const INNER: &str = "NERONET_ NERONET_WHEEL NERONET_WHEEL_TAG NERO_ NERONET_AUTHOR NERONET_COMPLETE NERONET_OWNER NERONET_REVISION NERONET_TARGET NERO_ACT NERO_CRASH_AT NERO_PARAM NERO_TWINS_FIRST NERO_TWINS_WORLDS";

/// Where the product's sources lie.
const SOURCES: &[&str] = &["neroman", "neromum", "nerokid", "proto", "python"];

/// `variables.md`.
///
/// # Errors
/// When the code has a variable that is not listed here, or lacks one that is.
pub fn page(root: &Path) -> Result<Chapter, String> {
    let lists = [OF_A_JOB, OF_A_RULE, OURS];
    let mut texts = String::new();
    for folder in SOURCES {
        read(&root.join(folder), &mut texts).map_err(|error| format!("{folder}: {error}"))?;
    }
    let found = names(&texts);
    let listed = lists.iter().flat_map(|list| pairs(list));
    let listed = listed.map(|(name, _)| name).chain(INNER.split(' '));
    let listed: BTreeSet<&str> = listed.map(stem).collect();
    let unlisted: Vec<&str> = found
        .iter()
        .copied()
        .filter(|name| !listed.contains(name))
        .collect();
    let is_gone = |name: &&str| !texts.contains(&format!("\"{name}"));
    let gone: Vec<&str> = listed.into_iter().filter(is_gone).collect();
    if !unlisted.is_empty() || !gone.is_empty() {
        return Err(format!(
            "xtask/manual/src/variables.rs lacks {unlisted:?}, and the code has no {gone:?}"
        ));
    }
    let rows = |list| {
        let row = |(name, about): (&str, &str)| [typed(name), about.to_owned()];
        table(["variable", "is"], pairs(list).map(row))
    };
    let body = format!(
        "## What a job finds\n\nBeside `HOME USER LOGNAME SHELL LANG TZ TMPDIR PATH` of the node, and \
         `env:`. [The format](../jobs.md#what-a-job-finds) tells more.\n\n{}\n\
         ## What a command of a rule finds\n\nBeside those of the run. \
         [Rules](../selectors.md#rules) tell more.\n\n{}\n\
         ## What our programs read\n\n{}",
        rows(OF_A_JOB),
        rows(OF_A_RULE),
        rows(OURS),
    );
    Ok(Chapter::new("variables.md", "Environment variables", &body))
}

/// The lines of a list.
fn pairs(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines().filter_map(|line| line.split_once(' '))
}

/// A listed name without the part that differs.
fn stem(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

/// Names of ours in quotes.
fn names(texts: &str) -> BTreeSet<&str> {
    let quoted = texts
        .match_indices("\"NERO")
        .map(|(at, _)| &texts[at + 1..]);
    let quoted = quoted.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_')?;
        // A name alone, and not the beginning of a text.
        rest[end..].starts_with('"').then_some(&rest[..end])
    });
    quoted.filter(|name| name.contains('_')).collect()
}

/// The sources below a folder, each up to its tests.
fn read(folder: &Path, into: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_test = name.is_none_or(|name| {
            ["tests", "tests.rs", "examples", "build.rs", "facts.rs"].contains(&name)
        });
        if is_test {
            continue;
        }
        if path.is_dir() {
            read(&path, into)?;
        } else if path
            .extension()
            .is_some_and(|ending| ending == "rs" || ending == "py")
        {
            let text = fs::read_to_string(&path)?;
            let code = text.split("#[cfg(test)]\nmod tests").next();
            into.push_str(code.unwrap_or_default());
        }
    }
    Ok(())
}
