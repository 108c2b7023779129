//! `steps`: scripts that a run executes one after the other, each to its end before the next.
//!
//! They are one job: bash starts a bash for each, as for a `script`, and ends with the first that
//! fails. The line that it then prints on standard error names the step, before the last line that
//! this one printed there, which is read back from the log. No number in it is read as a metric.
//! `local` steps are executed by neroman's daemon; the job waits for their ends.

use super::script::{self, Script};
use crate::definition::Param;
use crate::read::block::Setting;
use crate::read::names::Names;
use crate::read::reader::Reader;
use nero_yaml::Kind;

/// Most steps of an experiment.
const STEPS_MAX: usize = 64;
const EXAMPLE: &str = "for example `steps: [{run: tar xf code.tgz}, {run: python3 train.py}]`";

/// Beginnings of the arguments of the two kinds of steps.
const RUN: &str = "run: ";
const LOCAL: &str = "local: ";
/// In a `local` step: what this machine's `ssh` reaches the run's node by, and the folder there in
/// which the job works.
pub const PLACES: [&str; 2] = ["{node.address}", "{run.folder}"];

/// A line that the driver has in each version.
const LOOP: &str = "\nfor __nero_step do\n";

/// Starts its arguments; they get no input, so that none swallows anything. Its variables have
/// names that no parameter has: bash passes on what came with the environment. Standard error is a
/// pipe under `srun` and its like, which is not read. For a `local` step it makes a name in the
/// run's folder, which the watcher tells on, and waits for the answer there, however long: no file
/// system that hosts share would report it.
const DRIVER: &str = r#"__nero_size() { stat -L -c %s "/proc/$$/fd/2" 2> /dev/null || echo 0; }
__nero_start=${NERO_DIR##*/work} __nero_control=${NERO_DIR%/*}/control
__nero_start=${__nero_start#.}
__nero_here() {
  __nero_name=${__nero_start:-1}.$__nero_n
  : >> "$__nero_control/ask.$__nero_name" || return 1
  __nero_how= __nero_gone=0
  until [ -n "$__nero_how" ]; do
    { read -r __nero_how && __nero_out=$(cat); } 2> /dev/null < "$__nero_control/answer.$__nero_name" && continue
    __nero_how=
    if [ -e "$__nero_control/ask.$__nero_name" ]; then __nero_gone=0; else __nero_gone=$((__nero_gone + 1)); fi
    [ $__nero_gone -lt 100 ] || __nero_how='its folder is gone, in which it waited for an answer' __nero_out=
    sleep 0.3 2> /dev/null || sleep 1
  done
  [ "$__nero_how" != 'exit code 0' ] || { [ -z "$__nero_out" ] || echo "$__nero_out"; return 0; }
  [ -z "$__nero_out" ] || echo "$__nero_out" >&2
  case $__nero_how in
  'exit code '*) return "${__nero_how#exit code }" ;;
  'signal '*) return $((128 + ${__nero_how#signal })) ;;
  esac
  echo "$__nero_how" >&2
  return 1
}
__nero_n=0
for __nero_step do
  __nero_n=$((__nero_n + 1)) __nero_before=$(__nero_size) __nero_last=
  case $__nero_step in
  'local: '*) __nero_here ;;
  *) __nero_step=${__nero_step#run: }; bash -e -o pipefail -c "$__nero_step" script < /dev/null ;;
  esac && continue
  __nero_code=$? __nero_new=$(($(__nero_size) - __nero_before))
  if [ -f "/proc/$$/fd/2" ] && [ $__nero_new -gt 0 ]; then
    [ $__nero_new -le 4096 ] || __nero_new=4096
    __nero_last=$(tail -c $__nero_new "/proc/$$/fd/2" | grep -a '[[:alnum:]]' | tail -n 1)
  fi
  __nero_what=${__nero_step%%$'\n'*}
  echo "\`${__nero_what:0:60}\`, no. $__nero_n of $# steps: exit code $__nero_code: $__nero_last" >&2
  exit $__nero_code
done"#;

/// A step before its places are filled.
#[derive(Debug)]
pub(crate) struct StepScript {
    pub(crate) script: Script,
    is_local: bool,
}

/// Reads the field.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    given: &Setting,
) -> Option<Vec<StepScript>> {
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
        let is_local = match entry.key.as_str() {
            "run" => false,
            "local" => true,
            _ => {
                reader.unknown(entry, "is no step", &["run", "local"], &[]);
                continue;
            }
        };
        let place = PLACES.into_iter().find(|place| match &entry.value.kind {
            Kind::Scalar { text, .. } => text.contains(place) && !is_local,
            Kind::List(_) | Kind::Map(_) => false,
        });
        if let Some(place) = place {
            let message = format!("`{place}` is a place of `local` steps alone");
            let hint = "on the node itself, the folder of the run is $NERO_DIR";
            reader.wrong(entry.value.mark, message, hint);
        }
        let script = script::read_at(reader, names, &entry.key, &entry.value);
        steps.extend(script.map(|script| StepScript { script, is_local }));
    }
    (reader.count() == mistakes).then_some(steps)
}

/// Bash with the steps; `None` when a mistake was reported.
pub(crate) fn argv(
    reader: &mut Reader<'_>,
    steps: &[StepScript],
    params: &[Param],
) -> Option<Vec<String>> {
    let mut argv = ["bash", "-c", DRIVER, "steps"].map(str::to_owned).to_vec();
    for StepScript { script, is_local } in steps {
        let text = script.text(reader, params)?;
        if *is_local && nero_model::data::display_text(&text) != text {
            let message = "data lies on the nodes, and a `local` step is executed here";
            let hint = "name the file here, or what `ssh` reaches: `scp a {node.address}:b`";
            reader.wrong(script.mark(), message, hint);
            return None;
        }
        argv.push(format!("{}{text}", if *is_local { LOCAL } else { RUN }));
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    if bytes > script::BYTES_MAX {
        let message = format!("the steps have more than {} bytes", script::BYTES_MAX);
        reader.wrong(steps.first()?.script.mark(), message, "put them into files");
        return None;
    }
    Some(argv)
}

/// The steps of a command line, as people read them; `None`: it has none.
pub fn shown_steps(argv: &[String]) -> Option<String> {
    let steps = all(argv)?.iter().map(|step| {
        let step = step.strip_prefix(RUN).unwrap_or(step);
        nero_model::data::display_text(step.trim())
    });
    Some(steps.collect::<Vec<_>>().join(" && "))
}

/// The script of a `local` step, by its number; `None`: there is no such step.
pub fn local(argv: &[String], number: u32) -> Option<&str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    all(argv)?.get(index)?.strip_prefix(LOCAL)
}

/// The arguments of the driver, of this version or another: its runs live for days.
fn all(argv: &[String]) -> Option<&[String]> {
    match argv {
        [shell, option, driver, name, steps @ ..]
            if [shell, option, name] == ["bash", "-c", "steps"] && driver.contains(LOOP) =>
        {
            Some(steps)
        }
        _ => None,
    }
}
