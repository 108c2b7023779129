//! Submitting and cancelling.

use super::state;
use crate::options::{self, OptionError, RefusedOption};
use crate::order::{Order, OrderError};
use crate::submit::SubmissionResult;
use crate::{Call, CallOutput, End, JobId, QueueRow};

/// Options of `sbatch` that are ours.
#[rustfmt::skip] // An option is one row.
const OURS: &[RefusedOption] = &[
    ("--array -a", "start several experiments; they become one array"),
    ("--job-name -J --comment", "the job's name is how the submission is found again"),
    ("--wrap --uid --gid --chdir -D --get-user-env --container",
     "`command:` and `env:` of the experiment say what runs, and how"),
    ("--export --export-file --propagate", "use `env:` of the experiment, or `setup:`"),
    ("--output -o --error -e --input -i --open-mode",
     "the output of each run is kept in its folder: `neroman logs`"),
    ("--requeue --no-requeue -k --no-kill", "`on_lost:` and `retry:` say what happens again"),
    ("--signal", "a rule signals the job: `rules: [{on: 'timeleft < 120', signal: USR1}]`"),
    ("--parsable --wait -W --test-only --quiet -Q --verbose -v --help -h --usage --version -V",
     "it changes what sbatch prints"),
    ("--hold -H --begin -b --deadline", options::WHEN),
    ("--dependency -d", options::AFTER),
    ("--clusters -M --cluster-constraint", "a node is one cluster"),
    ("--cpus-per-task -c --cpus-per-gpu --mincpus", "use `cpus:`"),
    ("--ntasks -n --ntasks-per-node --ntasks-per-gpu --ntasks-per-core --ntasks-per-socket \
     --overcommit -O",
     "use `processes:`, or `cpus:`"),
    // They may set the number of tasks, too.
    ("--threads-per-core --cores-per-socket --sockets-per-node --extra-node-info -B",
     "use `cpus:` and `processes:`, and `constraint:` for a kind of host; \
      `--hint=nomultithread` leaves second threads of cores alone"),
    // They take whole hosts.
    ("--core-spec -S --thread-spec", "use `cpus:` and `exclusive: yes`"),
    ("--tres-per-task", "use `cpus:`, `memory:` and `gpus:`"),
    ("--mem --mem-per-cpu --mem-per-gpu", "use `memory:`"),
    ("--time -t --time-min", "use `time:`"),
    ("--gres --gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket",
     "use `gpus:` and `gpu_type:`"),
    ("--nodes -N", "use `nodes:`"),
    ("--partition -p", "use `partition:`"),
    ("--account -A", "use `account:`"),
    ("--qos -q", "use `qos:`"),
    ("--constraint -C", "use `constraint:`"),
    ("--exclusive", "use `exclusive: yes`"),
];

/// Checks a person's own options of `sbatch`, each one word.
///
/// # Errors
/// The first that is ours, with the field to use, or that is none.
pub fn check_options(given: &[String]) -> Result<(), OptionError> {
    options::check(given, OURS)?;
    // `-sa1-9` is `-s -a 1-9`.
    let is_bundle = |option: &&String| {
        let mut letters = option.chars().skip(1);
        letters
            .next()
            .is_some_and(|one| WITHOUT_VALUE.contains(one))
            && letters.next().is_some()
    };
    match given.iter().find(is_bundle) {
        Some(bundle) => Err(OptionError::Odd(bundle.clone())),
        None => Ok(()),
    }
}

/// Short options of `sbatch` that take no value (22.05).
const WITHOUT_VALUE: &str = "hHIkOQsvVW";

/// The script. `SLURM_EXPORT_ENV` of a submission would act on every `srun` of the user.
pub(super) fn script(order: &Order) -> Result<String, OrderError> {
    let other = |field| OrderError::Field {
        field,
        of: "Grid Engine",
        here: super::NAME,
    };
    if order.fields.queue.is_some() {
        return Err(other("queue"));
    }
    if order.fields.parallel_env.is_some() {
        return Err(other("parallel_env"));
    }
    order.fields.check_constraint()?;
    check_options(&order.fields.options)?;
    // `module` is a function of login shells.
    let shell = if order.setup.is_empty() {
        "#!/bin/sh\n"
    } else {
        "#!/bin/bash -l\n"
    };
    let mut script = shell.to_owned();
    for option in &order.fields.options {
        script.push_str(&format!("#SBATCH {option}\n"));
    }
    script.push_str("unset SLURM_EXPORT_ENV\n");
    let share = order.resources.share()?;
    if order.resources.is_spread() {
        // `srun` of 22.05 and later gives each process one CPU otherwise.
        let line = format!("export SRUN_CPUS_PER_TASK={}\n", share.cpus_each);
        script.push_str(&line);
    }
    script.push_str(&order.lines(
        "${SLURM_ARRAY_TASK_ID:-0}",
        "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}",
    )?);
    Ok(script)
}

pub(super) fn call(order: &Order, script: &str) -> Call {
    // Jobs begin with the environment of this call, which is a login's. With `NONE`, `NIL`
    // or a list SLURM executes a whole login (`su -`) before each task: 0.1 s of a CPU.
    let mut call = Call::new(
        "sbatch",
        [
            "--parsable",
            "--export=ALL",
            "--chdir=/",
            "--open-mode=append",
            "--requeue",
        ],
    );
    let mut give = |option: &str, value: &dyn std::fmt::Display| {
        call.words.push(format!("--{option}={value}").into());
    };
    give("job-name", &order.name);
    let resources = &order.resources;
    let share = resources.share().expect("the order passed `script`");
    give("nodes", &resources.hosts());
    if resources.is_spread() {
        give("ntasks-per-node", &share.processes)
    } else {
        give("ntasks", &1)
    }
    give("cpus-per-task", &share.cpus_each);
    if let Some(bytes) = share.memory_bytes {
        give("mem", &format_args!("{}M", bytes.div_ceil(1 << 20).max(1)));
    }
    if let Some(seconds) = resources.time_s {
        // Whole minutes; 0 would mean no limit.
        give("time", &seconds.div_ceil(60).max(1));
    }
    match (&resources.gpu_type, share.gpus) {
        (_, 0) => {}
        (None, count) => give("gres", &format_args!("gpu:{count}")),
        (Some(kind), count) => give("gres", &format_args!("gpu:{kind}:{count}")),
    }
    if let Some(last) = order.tasks.map(|tasks| tasks.saturating_sub(1)) {
        let at_once = order
            .at_once
            .map_or(String::new(), |n| format!("%{}", n.max(1)));
        give("array", &format_args!("0-{last}{at_once}"));
        give("output", &order.remarks("%a"));
    } else {
        give("output", &order.remarks("0"));
    }
    let fields = &order.fields;
    for (option, word) in [
        ("partition", &fields.partition),
        ("account", &fields.account),
        ("qos", &fields.qos),
    ] {
        if let Some(word) = word {
            give(option, word);
        }
    }
    if let Some(constraint) = &fields.constraint {
        give("constraint", constraint);
    }
    if resources.exclusive {
        call.words.push("--exclusive".into());
    }
    call.input = script.as_bytes().to_vec();
    call
}

/// Endings of sbatch's complaint with which the controller refused for good (texts of
/// 22.05). Any other failure may have been accepted, or passes.
const REFUSALS: &[&str] = &[
    "Access denied to requested reservation",
    "Access/permission denied",
    "Batch script contains DOS line breaks (\\r\\n)",
    "Batch script is empty!",
    "Burst Buffer permission denied",
    "Burst Buffer request invalid",
    "CPU count specification invalid",
    "Container runtime not configured or invalid",
    "Container support is not configured",
    "Duplicate generic resource (gres) specification",
    "Environment is missing in job",
    "Invalid account or account/partition combination specified",
    "Invalid GRES specification (with and without type identification)",
    "Invalid Trackable RESource (TRES) specification",
    "Invalid cluster feature specification",
    "Invalid feature specification",
    "Invalid generic resource (gres) specification",
    "Invalid job array specification",
    "Invalid license specification",
    "Invalid mcs_label specified",
    "Invalid node name specified",
    "Invalid partition name specified",
    "Invalid preferred feature specification",
    "Invalid qos specification",
    "Invalid time specified",
    "Invalid wckey specification",
    "Job --batch option is invalid or not a subset of --constraints",
    "Job dependency problem",
    "Memory required by task is not available",
    "More processors requested than permitted",
    "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job",
    "Multiple partition job request not supported when a partition is set in the association",
    "No partition specified or system default partition",
    "Node count specification invalid",
    "Pathname of a file, directory or other parameter too long",
    "Requested more tasks than available processors",
    "Requested node configuration is not available",
    "Requested nodes not in this partition",
    "Requested operation not supported on this system",
    "Requested partition configuration not available now",
    "Requested reservation is invalid",
    "Requested reservation not usable now",
    "Requested time limit is invalid (missing or exceeds some limit)",
    "Requested topology configuration is not available",
    "Requested GRES option unsupported by configured SelectType plugin",
    "Task count specification invalid",
    "Task distribution specification invalid",
    "Time limit specification required, but not provided",
    "User's group not permitted to use this partition",
    "Job size specification needs to be provided",
];

/// What the controller answers at a limit of submitted jobs of a user, an account or a
/// QOS, and where one job is above a limit of such a job.
const FULL: &str =
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";

/// Beginnings of the last line of `sbatch` where it refuses an option itself, with exit
/// code 1 and before it calls the controller (22.05).
const OWN_REFUSALS: &[&str] = &[
    "Invalid --",
    "Invalid generic resource (gres) specification",
    "Invalid numeric value ",
    "unrecognized --",
];

pub(super) fn read(said: &CallOutput) -> SubmissionResult {
    let out = String::from_utf8_lossy(&said.out);
    let id = out.lines().last().and_then(|line| {
        // `7;cluster` where several clusters share the database.
        JobId::read(line.trim().split(';').next()?)
    });
    match (&said.end, id) {
        (End::Code(0), Some(id)) => SubmissionResult::Accepted(id),
        (End::NotExecuted(why), _) => SubmissionResult::NotSent(why.clone()),
        // A bad option is found before anything is sent.
        (End::Code(255), None) => SubmissionResult::Refused(said.complaint()),
        (End::Code(1), None) if is_refusal(said) => SubmissionResult::Refused(said.complaint()),
        (End::Code(1), None) if is_full(said) => SubmissionResult::Full(said.complaint()),
        (End::Code(_) | End::Signal(_) | End::TimedOut | End::TooMuch, _) => {
            SubmissionResult::Ambiguous(said.complaint())
        }
    }
}

fn is_full(said: &CallOutput) -> bool {
    let text = String::from_utf8_lossy(&said.err);
    last_line(&text).and_then(of_controller) == Some(FULL)
}

/// Whether a line above names a limit of one job: `sbatch: error: QOSMaxGRESPerJob`.
fn names_a_limit_of_one_job(text: &str) -> bool {
    let mut words = text.lines().filter_map(|line| line.split(' ').next_back());
    words.any(state::never_passes)
}

fn is_refusal(said: &CallOutput) -> bool {
    let text = String::from_utf8_lossy(&said.err);
    let Some(last) = last_line(&text) else {
        return false;
    };
    match of_controller(last) {
        Some(FULL) => names_a_limit_of_one_job(&text),
        Some(reason) => REFUSALS.contains(&reason),
        None => {
            let own = last.strip_prefix("sbatch: error: ");
            own.is_some_and(|own| OWN_REFUSALS.iter().any(|text| own.starts_with(text)))
        }
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().find(|line| !line.trim().is_empty())
}

fn of_controller(line: &str) -> Option<&str> {
    let (_, reason) = line.split_once("Batch job submission failed: ")?;
    Some(reason.trim())
}

/// Cancels a job or one of its tasks. `scancel --name` cancels only if the name fits
/// too, which guards against ids that were reused; but for one of several tasks that
/// wait in one row it cancels the whole row, so that one goes by its id alone. What
/// `scancel` answers says nothing.
pub(super) fn cancel(seen: &QueueRow, task: Option<u32>) -> Call {
    let mut call = Call::new("scancel", []);
    let is_one_of_several = seen.tasks.as_ref().is_some_and(|tasks| tasks.count() > 1);
    if task.is_none() || !is_one_of_several {
        call.words.push(format!("--name={}", seen.name).into());
    }
    call.words.push(id(seen, task));
    call
}

/// Cancels several by their ids alone: `--name` would have to fit all of them.
pub(super) fn cancel_all(seen: &[(&QueueRow, Option<u32>)]) -> Call {
    let mut call = Call::new("scancel", []);
    call.words
        .extend(seen.iter().map(|(row, task)| id(row, *task)));
    call
}

fn id(row: &QueueRow, task: Option<u32>) -> std::borrow::Cow<'static, str> {
    match task {
        Some(task) => format!("{}_{task}", row.job).into(),
        None => row.job.to_string().into(),
    }
}

/// A word of `scontrol` about jobs, or tasks of them.
pub(super) fn control(word: &'static str, seen: &[(&QueueRow, Option<u32>)]) -> Call {
    let mut call = Call::new("scontrol", [word]);
    let ids: Vec<_> = seen.iter().map(|(row, task)| id(row, *task)).collect();
    call.words.push(ids.join(",").into());
    call
}

/// Signals the batch tasks alone: `neromum job`, which looks into the control folders
/// of its runs.
pub(super) fn ring(seen: &[(&QueueRow, Option<u32>)]) -> Call {
    let mut call = Call::new("scancel", ["--batch", "--signal=USR1"]);
    call.words
        .extend(seen.iter().map(|(row, task)| id(row, *task)));
    call
}
