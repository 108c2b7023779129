//! Options of `sbatch` as fields of an experiment.

use nero_warden::OptionError;

use super::options::{Directive, indexes, slurm_seconds, step};
use super::{ScriptRequest, ScriptValue, left_out};

/// Names of one letter.
const SHORT: &[(&str, &str)] = &[
    ("-A", "--account"),
    ("-C", "--constraint"),
    ("-G", "--gpus"),
    ("-N", "--nodes"),
    ("-a", "--array"),
    ("-c", "--cpus-per-task"),
    ("-n", "--ntasks"),
    ("-p", "--partition"),
    ("-q", "--qos"),
    ("-t", "--time"),
];

/// CPUs and memory, which several options make together.
#[derive(Default)]
struct Size {
    per_task: Option<ScriptValue<u64>>,
    tasks: Option<ScriptValue<u64>>,
    /// Whether `tasks` are those of each host.
    tasks_each: bool,
    hosts: u64,
    /// MiB of each CPU.
    per_cpu: Option<ScriptValue<String>>,
    /// GPUs of each task.
    gpus: Option<Directive>,
}

/// What the options ask for.
pub(crate) fn wanted(options: &[Directive]) -> ScriptRequest {
    let mut wanted = ScriptRequest::default();
    let mut size = Size {
        hosts: hosts(options),
        ..Size::default()
    };
    for one in options {
        take(one, &mut wanted, &mut size);
    }
    size.into_resources(&mut wanted);
    wanted
}

/// `-N 4`; a range, as `2-4`, is reported where the field is read.
fn hosts(options: &[Directive]) -> u64 {
    let named = options.iter().rev();
    let mut named = named.filter(|one| ["-N", "--nodes"].contains(&one.name.as_str()));
    let hosts = named.next().and_then(|one| one.value.parse::<u32>().ok());
    u64::from(hosts.unwrap_or(1).max(1))
}

fn take(one: &Directive, wanted: &mut ScriptRequest, size: &mut Size) {
    let mark = one.mark;
    let short = SHORT.iter().find(|(short, _)| *short == one.name);
    let name = short.map_or(one.name.as_str(), |(_, long)| long);
    let number = || {
        let value = one.value.parse::<u32>().ok()?;
        Some(ScriptValue {
            value: u64::from(value),
            mark,
        })
    };
    match name {
        "--time" => match slurm_seconds(&one.value) {
            Some(seconds) if seconds > 0 => wanted.resource("time", mark, format!("{seconds}s")),
            _ => wanted.note(mark, left_out(one, "it sets no limit")),
        },
        "--cpus-per-task" => size.per_task = number(),
        "--ntasks" => {
            size.tasks = number();
            size.tasks_each = false;
        }
        "--ntasks-per-node" if size.tasks.is_none() || size.tasks_each => {
            size.tasks = number();
            size.tasks_each = true;
        }
        // With `--ntasks` it is a limit, which follows from an even spread.
        "--ntasks-per-node" => {}
        "--mem" => memory(one, wanted, size.hosts),
        "--mem-per-cpu" => size.per_cpu = Some(said(one)),
        "--gres" | "--gpus-per-node" => gpus(one, wanted, size.hosts),
        "--gpus" => gpus(one, wanted, 1),
        "--gpus-per-task" => size.gpus = Some(one.clone()),
        "--nodes" => match one.value.as_str() {
            "1" => {}
            hosts => wanted.resource("nodes", mark, hosts),
        },
        "--exclusive" => wanted.resource("exclusive", mark, "true"),
        "--partition" => partition(one, wanted),
        "--account" => wanted.field("account", mark, &*one.value),
        "--qos" => wanted.field("qos", mark, &*one.value),
        "--constraint" => wanted.field("constraint", mark, &*one.value),
        "--array" => array(one, wanted),
        _ => other(one, wanted),
    }
}

fn said(one: &Directive) -> ScriptValue<String> {
    ScriptValue {
        value: one.value.clone(),
        mark: one.mark,
    }
}

/// SLURM takes the first partition of a list that can start the job.
fn partition(one: &Directive, wanted: &mut ScriptRequest) {
    let first = one.value.split(',').next().unwrap_or_default();
    if first != one.value {
        let why = format!("a run names one partition: {first}");
        wanted.note(one.mark, left_out(one, &why));
    }
    wanted.field("partition", one.mark, first);
}

/// SLURM counts memory for each host, and an experiment for all.
fn memory(one: &Directive, wanted: &mut ScriptRequest, hosts: u64) {
    match in_units(&one.value).as_str() {
        "0M" => wanted.note(one.mark, left_out(one, "all memory of a host is no size")),
        size => wanted.resource("memory", one.mark, times(size, hosts)),
    }
}

/// So many times a size. The reader reports a text that is no size.
fn times(size: &str, count: u64) -> String {
    match nero_model::units::parse_bytes(size) {
        Ok(bytes) if count > 1 => nero_model::units::print_bytes(bytes.saturating_mul(count)),
        Ok(_) | Err(_) => size.to_owned(),
    }
}

/// A size of SLURM, whose bare numbers are MiB.
fn in_units(text: &str) -> String {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare {
        format!("{text}M")
    } else {
        text.to_owned()
    }
}

/// `gpu:2`, `gpu:a100:2`, and for `--gpus` the same without `gpu:`.
fn gpus(one: &Directive, wanted: &mut ScriptRequest, parts: u64) {
    let mut text = one.value.as_str();
    if one.name == "--gres" {
        let all = text.split(',');
        let (gpus, others): (Vec<&str>, Vec<&str>) =
            all.partition(|part| *part == "gpu" || part.starts_with("gpu:"));
        if let Some(other) = others.first() {
            let why = format!("of resources only GPUs are asked for, not {other}");
            wanted.note(one.mark, left_out(one, &why));
        }
        let Some(found) = gpus.first() else { return };
        if gpus.len() > 1 {
            let why = format!("a run asks for GPUs of one kind: {found}");
            wanted.note(one.mark, left_out(one, &why));
        }
        text = found.strip_prefix("gpu").unwrap_or_default();
        text = text.strip_prefix(':').unwrap_or(text);
    }
    let (kind, count) = match text.rsplit_once(':') {
        Some((kind, count)) => (kind, count),
        None if text.is_empty() => ("", "1"),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => ("", text),
        None => (text, "1"),
    };
    let all = count
        .parse::<u64>()
        .map(|count| count.saturating_mul(parts));
    let all = all.map_or_else(|_| count.to_owned(), |all| all.to_string());
    wanted.resource("gpus", one.mark, all);
    if !kind.is_empty() {
        wanted.resource("gpu_type", one.mark, kind);
    }
}

fn array(one: &Directive, wanted: &mut ScriptRequest) {
    let Some((tasks, at_once)) = indexes(&one.value) else {
        let why = "its indexes are not understood";
        return wanted.note(one.mark, left_out(one, why));
    };
    if let Some(at_once) = at_once {
        wanted.field("at_once", one.mark, at_once);
    }
    wanted.step = step(&one.value);
    wanted.tasks = Some(ScriptValue {
        value: tasks,
        mark: one.mark,
    });
}

/// An option that is no field: it is passed on, unless it is ours.
fn other(one: &Directive, wanted: &mut ScriptRequest) {
    let word = if one.value.is_empty() {
        one.name.clone()
    } else if one.name.starts_with("--") {
        format!("{}={}", one.name, one.value)
    } else {
        format!("{}{}", one.name, one.value)
    };
    match nero_warden::slurm::check_options(std::slice::from_ref(&word)) {
        Err(OptionError::Ours { instead, .. }) => wanted.note(one.mark, left_out(one, instead)),
        // A word that cannot be an option is reported by the reader.
        Ok(()) | Err(OptionError::Odd(_)) => wanted.passed.push(ScriptValue {
            value: word,
            mark: one.mark,
        }),
    }
}

impl Size {
    fn into_resources(self, wanted: &mut ScriptRequest) {
        let tasks = match &self.tasks {
            Some(said) if self.tasks_each => said.value.max(1).saturating_mul(self.hosts),
            Some(said) => said.value.max(1),
            None => self.hosts,
        };
        let each = self.per_task.as_ref().map_or(1, |said| said.value.max(1));
        let cpus = tasks.saturating_mul(each);
        if let Some(said) = self.per_task.as_ref().or(self.tasks.as_ref()) {
            wanted.resource("cpus", said.mark, cpus.to_string());
        }
        if let Some(said) = &self.tasks
            && tasks > 1
        {
            wanted.resource("processes", said.mark, tasks.to_string());
        }
        if let Some(each) = &self.gpus {
            gpus(each, wanted, tasks);
        }
        let Some(per_cpu) = self.per_cpu else { return };
        let size = times(&in_units(&per_cpu.value), cpus);
        wanted.resource("memory", per_cpu.mark, size);
    }
}
