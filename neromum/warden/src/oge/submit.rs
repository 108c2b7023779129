//! Submitting and cancelling.

use crate::job::QueueRow;
use crate::options::{self, OptionError, RefusedOption};
use crate::order::{Order, OrderError};
use crate::submit::SubmissionResult;
use crate::{Call, CallOutput, End, GpusPer, JobId};

/// Options of `qsub` that are ours.
#[rustfmt::skip] // An option is one row.
const OURS: &[RefusedOption] = &[
    ("-t -tc", "start several experiments; they become one array"),
    ("-N -ac -dc -sc", "the job's name is how the submission is found again"),
    ("-b -S -C -wd -cwd -shell -@", "`command:` of the experiment says what runs"),
    ("-V -v", "use `env:` of the experiment, or `setup:`"),
    ("-o -e -j -i", "the output of each run is kept in its folder: `neroman logs`"),
    ("-r -notify -ckpt", "`on_lost:` and `retry:` say what happens again"),
    ("-terse -sync -now -verify -w -help -clear", "it changes what qsub does or prints"),
    ("-hold_jid -hold_jid_ad", options::AFTER),
    ("-h -a -dl", options::WHEN),
    ("-soft -hard", "a job has to get all that its run asks for"),
    ("-jsv", "it may change the submission"),
    ("-pe", "use `parallel_env:` and `cpus:`"),
    ("-q", "use `queue:`"),
    ("-P", "use `account:`"),
];

pub(super) fn script(order: &Order, gpus_per: Option<GpusPer>) -> Result<String, OrderError> {
    let fields = &order.fields;
    let slurm = [
        ("partition", fields.partition.is_some()),
        ("qos", fields.qos.is_some()),
        ("constraint", fields.constraint.is_some()),
        ("gpu_type", order.resources.gpu_type.is_some()),
    ];
    if let Some((field, _)) = slurm.into_iter().find(|(_, given)| *given) {
        return Err(OrderError::Field {
            field,
            of: "SLURM",
            here: super::NAME,
        });
    }
    let resources = &order.resources;
    resources.share()?;
    if fields.parallel_env.is_none() {
        match (resources.hosts(), resources.cpus_in_all()) {
            (1, 1) => {}
            (1, cpus) => return Err(OrderError::ParallelEnv(cpus)),
            (hosts, _) => return Err(OrderError::HostsEnv(hosts)),
        }
    }
    let (slots, hosts) = (resources.cpus_in_all().max(1), resources.hosts());
    match (resources.gpus, gpus_per) {
        (gpus, Some(GpusPer::Slot)) if !gpus.is_multiple_of(slots) => {
            return Err(OrderError::UnevenSlots { gpus, slots });
        }
        (1.., Some(GpusPer::Job)) if hosts > 1 => return Err(OrderError::GpusOfJob(hosts)),
        (_, Some(GpusPer::Slot | GpusPer::Host | GpusPer::Job) | None) => {}
    }
    // `-l` is the one option whose value is a word of its own.
    check_options(&fields.options)?;
    asks_once(order)?;
    let mut script = String::new();
    for option in &fields.options {
        script.push_str(&format!("#$ {}\n", option.replacen('=', " ", 1)));
    }
    if !order.setup.is_empty() {
        // `module` is a function of login shells, and sites decide which shells are ones.
        script.push_str("shopt -q login_shell || exec /bin/bash -l \"$0\"\n");
    }
    // Without an array the variable is `undefined`.
    script.push_str("task=$SGE_TASK_ID\n[ \"$task\" != undefined ] || task=0\n");
    script.push_str(&order.lines("$task", "$JOB_ID")?);
    Ok(script)
}

/// Refuses `-l` options about what a field asks for: Grid Engine would take the last.
fn asks_once(order: &Order) -> Result<(), OrderError> {
    let resources = &order.resources;
    let ours = [
        ("h_vmem", "memory", resources.memory_bytes.is_some()),
        ("h_rt", "time", resources.time_s.is_some()),
        ("gpu", "gpus", resources.gpus > 0),
        ("exclusive", "exclusive", resources.exclusive),
    ];
    for option in &order.fields.options {
        let Some(list) = option.strip_prefix("-l=") else {
            continue;
        };
        let names = list.split(',').filter_map(|one| one.split('=').next());
        for name in names {
            let field = ours
                .iter()
                .find(|(complex, _, asked)| *asked && *complex == name);
            if let Some((_, field, _)) = field {
                return Err(OrderError::Twice {
                    option: option.clone(),
                    field,
                });
            }
        }
    }
    Ok(())
}

/// Checks a person's own options of `qsub`, each one word. They have one dash and
/// whole names: `-tc` is no `-t` with a value.
///
/// # Errors
/// The first that is ours, with the field to use, or that is none.
pub fn check_options(given: &[String]) -> Result<(), OptionError> {
    options::check(given, &[])?;
    for option in given {
        let name = option.split('=').next().unwrap_or_default();
        let refused = OURS
            .iter()
            .find(|(names, _)| names.split(' ').any(|one| one == name));
        if let Some((_, instead)) = refused {
            return Err(OptionError::Ours {
                option: name.to_owned(),
                instead,
            });
        }
    }
    Ok(())
}

pub(super) fn call(order: &Order, script: &str, gpus_per: GpusPer) -> Call {
    let mut call = Call::new(
        "qsub",
        ["-terse", "-wd", "/", "-r", "y", "-notify", "-j", "y", "-S"],
    );
    call.words.push(if order.setup.is_empty() {
        "/bin/sh".into()
    } else {
        "/bin/bash".into()
    });
    let mut give = |option: &'static str, value: String| {
        call.words.push(option.into());
        call.words.push(value.into());
    };
    give("-N", order.name.to_string());
    let resources = &order.resources;
    let slots = u64::from(resources.cpus_in_all());
    if let Some(environment) = &order.fields.parallel_env {
        give("-pe", environment.to_string());
        call.words.push(slots.to_string().into());
    }
    let mut give = |option: &'static str, value: String| {
        call.words.push(option.into());
        call.words.push(value.into());
    };
    // Memory counts for each slot.
    if let Some(bytes) = resources.memory_bytes {
        let each = bytes.div_ceil(slots).div_ceil(1 << 20).max(1);
        give("-l", format!("h_vmem={each}M"));
    }
    if let Some(seconds) = resources.time_s {
        give("-l", format!("h_rt={}", seconds.max(1)));
    }
    if resources.gpus > 0 {
        let each = match gpus_per {
            GpusPer::Slot => u64::from(resources.gpus) / slots,
            GpusPer::Host => u64::from(resources.gpus / resources.hosts()),
            GpusPer::Job => u64::from(resources.gpus),
        };
        give("-l", format!("gpu={each}"));
    }
    if resources.exclusive {
        give("-l", "exclusive=true".to_owned());
    }
    match order.tasks {
        Some(tasks) => {
            give("-t", format!("1-{}", tasks.max(1)));
            if let Some(at_once) = order.at_once {
                give("-tc", at_once.max(1).to_string());
            }
            give("-o", order.remarks("$TASK_ID"));
        }
        None => give("-o", order.remarks("0")),
    }
    if let Some(queue) = &order.fields.queue {
        give("-q", queue.to_string());
    }
    if let Some(project) = &order.fields.account {
        give("-P", project.to_string());
    }
    call.input = script.as_bytes().to_vec();
    call
}

/// Beginnings of refusals. Any other failure may have been accepted.
const REFUSALS: &[&str] = &[
    "Job was rejected",
    "denied:",
    "job rejected:",
    "unknown resource",
];

pub(super) fn read(said: &CallOutput) -> SubmissionResult {
    let out = String::from_utf8_lossy(&said.out);
    // `7`, or `9.1-3:1` of an array. Remarks of the site may stand before it.
    let id = out.lines().last().and_then(|line| {
        let line = line.trim();
        JobId::read(line.split_once('.').map_or(line, |(id, _)| id))
    });
    match (&said.end, id) {
        (End::Code(0), Some(id)) => SubmissionResult::Accepted(id),
        (End::NotExecuted(why), _) => SubmissionResult::NotSent(why.clone()),
        // A bad option is found before anything is sent.
        (End::Code(2), None) => SubmissionResult::Refused(said.complaint()),
        // So is one of its neighbours, which its parser knows (`qalter -ot`).
        (End::Code(5), None) if said.complaint().contains("Unknown option") => {
            SubmissionResult::Refused(said.complaint())
        }
        (End::Code(1), None) if is_full(said) => SubmissionResult::Full(said.complaint()),
        (End::Code(1), None) if is_refusal(said) => SubmissionResult::Refused(said.complaint()),
        (End::Code(_) | End::Signal(_) | End::TimedOut | End::TooMuch, _) => {
            SubmissionResult::Ambiguous(said.complaint())
        }
    }
}

/// `max_u_jobs` and `max_jobs`: it passes when other jobs end.
fn is_full(said: &CallOutput) -> bool {
    is_refusal(said) && said.complaint().contains("jobs are allowed per")
}

fn is_refusal(said: &CallOutput) -> bool {
    let complaint = said.complaint();
    let reason = complaint.split_once("Unable to run job: ");
    reason.is_some_and(|(_, reason)| REFUSALS.iter().any(|begin| reason.starts_with(begin)))
}

/// Cancels a job, or one of its tasks, that a listing has just shown with its name.
pub(super) fn cancel(seen: &QueueRow, task: Option<u32>) -> Call {
    let mut call = Call::new("qdel", []);
    call.words.push(seen.job.to_string().into());
    if let Some(task) = task {
        call.words.extend(["-t".into(), task.to_string().into()]);
    }
    call
}

/// A command about several: `12.3` is a task of an array.
pub(super) fn of_jobs(program: &'static str, seen: &[(&QueueRow, Option<u32>)]) -> Call {
    let mut call = Call::new(program, []);
    call.words.extend(seen.iter().map(|(row, task)| match task {
        Some(task) => format!("{}.{task}", row.job).into(),
        None => row.job.to_string().into(),
    }));
    call
}
