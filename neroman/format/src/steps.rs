//! `steps`: scripts that a run executes one after the other, each to its end before the next.
//!
//! They are one job: bash starts a bash for each, as for a `script`, and ends with the first that
//! fails. The line that it then prints on standard error names the step, before the last line that
//! this one printed there, which is read back from the log. No number in it is read as a metric.

use crate::block::Given;
use crate::definition::Param;
use crate::names::Names;
use crate::reader::Reader;
use crate::script::{self, Script};
use nero_yaml::Kind;

/// Most steps of an experiment.
const STEPS_MAX: usize = 64;
const EXAMPLE: &str = "for example `steps: [{run: tar xf code.tgz}, {run: python3 train.py}]`";

/// Starts its arguments; they get no input, so that none swallows anything. Its variables have
/// names that no parameter has: bash passes on what came with the environment. Standard error is a
/// pipe under `srun` and its like, which is not read.
const DRIVER: &str = r#"__nero_size() { stat -L -c %s "/proc/$$/fd/2" 2> /dev/null || echo 0; }
__nero_n=0
for __nero_step do
  __nero_n=$((__nero_n + 1)) __nero_before=$(__nero_size) __nero_last=
  bash -e -c "$__nero_step" script < /dev/null && continue
  __nero_code=$? __nero_new=$(($(__nero_size) - __nero_before))
  if [ -f "/proc/$$/fd/2" ] && [ $__nero_new -gt 0 ]; then
    [ $__nero_new -le 4096 ] || __nero_new=4096
    __nero_last=$(tail -c $__nero_new "/proc/$$/fd/2" | grep -a '[[:alnum:]]' | tail -n 1)
  fi
  __nero_what=${__nero_step%%$'\n'*}
  echo "\`${__nero_what:0:60}\`, no. $__nero_n of $# steps: exit code $__nero_code: $__nero_last" >&2
  exit $__nero_code
done"#;

/// Reads the field.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    given: &Given,
) -> Option<Vec<Script>> {
    let Kind::List(items) = &given.value.kind else {
        reader.wrong(given.value.mark, "`steps` takes a list", EXAMPLE);
        return None;
    };
    if items.is_empty() || items.len() > STEPS_MAX {
        let message = format!("`steps` has from 1 to {STEPS_MAX} steps");
        reader.wrong(given.value.mark, message, EXAMPLE);
        return None;
    }
    let mistakes = reader.count();
    let mut steps = Vec::new();
    for item in items {
        let Kind::Map(entries) = &item.kind else {
            reader.wrong(item.mark, "a step is a map of one word", EXAMPLE);
            continue;
        };
        let [entry] = entries.as_slice() else {
            let message = "a step has one word: a step of its own for each";
            reader.wrong(item.mark, message, EXAMPLE);
            continue;
        };
        match entry.key.as_str() {
            "run" => steps.extend(script::read_at(reader, names, "run", &entry.value)),
            "local" => reader.wrong(
                entry.key_mark,
                "`local` steps are not built yet",
                "make it an experiment of its own: `+copy: {node: local, command: …}`, and \
                 `depends_on: [copy]` here",
            ),
            _ => reader.unknown(entry, "is no step", &["run"], &["local"]),
        }
    }
    (reader.count() == mistakes).then_some(steps)
}

/// Bash with the steps; `None` when a mistake was reported.
pub(crate) fn argv(
    reader: &mut Reader<'_>,
    steps: &[Script],
    params: &[Param],
) -> Option<Vec<String>> {
    let mut argv = ["bash", "-c", DRIVER, "steps"].map(str::to_owned).to_vec();
    for step in steps {
        argv.push(step.text(reader, params)?);
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    if bytes > script::BYTES_MAX {
        let message = format!("the steps have more than {} bytes", script::BYTES_MAX);
        reader.wrong(steps.first()?.mark(), message, "put them into files");
        return None;
    }
    Some(argv)
}

/// The steps of a command line, as people read them; `None`: it has none.
pub fn shown(argv: &[String]) -> Option<String> {
    match argv {
        [_, _, driver, _, steps @ ..] if driver == DRIVER => {
            let steps = steps
                .iter()
                .map(|step| nero_model::data::shown(step.trim()));
            Some(steps.collect::<Vec<_>>().join(" && "))
        }
        _ => None,
    }
}
