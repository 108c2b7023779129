//! The values of the words for a scheduler: names, options, lines of the shell. The
//! configuration reads the same ones as a node's defaults.

use nero_model::safe::quoted;
use nero_warden::{NodeWord, OptionError, Word};
use nero_yaml::{Fields, Kind, Mark, Node};

use super::container;
use crate::definition::{OnNode, OnNodes, SchedulerOptions};

/// Largest `pack` and `at_once`: no array has more tasks, and no task more runs.
const COUNT_MAX: u32 = 10_000;
const NAME: &str = "letters, digits and _ . + - @, beginning with a letter or digit";

/// Reads what the runs of a node ask of its scheduler where they ask nothing else; `full` is the
/// name of the word in messages.
pub fn node_word(
    fields: &mut Fields,
    word: NodeWord,
    full: &str,
    value: &Node,
    defaults: &mut SchedulerOptions,
) {
    match word {
        NodeWord::Partition => defaults.partition = on_all(name(fields, full, value)),
        NodeWord::Account => defaults.account = on_all(name(fields, full, value)),
        NodeWord::Qos => defaults.qos = on_all(name(fields, full, value)),
        NodeWord::Constraint => defaults.constraint = on_all(constraint(fields, full, value)),
        NodeWord::Queue => defaults.queue = on_all(name(fields, full, value)),
        NodeWord::ParallelEnv => defaults.parallel_env = on_all(name(fields, full, value)),
        NodeWord::GpuType => defaults.gpu_type = on_all(name(fields, full, value)),
        NodeWord::Launcher => defaults.launcher = on_all(launcher(fields, full, value)),
        NodeWord::Exclusive => defaults.exclusive = on_all(fields.boolean(full, value)),
        NodeWord::Setup => defaults.setup = on_all(setup(fields, full, value)),
        NodeWord::Container => defaults.container = on_all(container::read(fields, full, value)),
        NodeWord::SbatchArgs => {
            defaults.sbatch_args = on_all(node_options(fields, full, value, SBATCH));
        }
        NodeWord::QsubArgs => defaults.qsub_args = on_all(node_options(fields, full, value, QSUB)),
    }
}

/// The value of a word of a node, as it is shown; `None`: it has none.
pub fn shown_word(word: NodeWord, asks: &SchedulerOptions) -> Option<String> {
    let text = |value: &OnNodes<String>| value.on("").cloned();
    let list = |value: &OnNodes<Vec<String>>| Some(format!("[{}]", value.on("")?.join(", ")));
    match word {
        NodeWord::Partition => text(&asks.partition),
        NodeWord::Account => text(&asks.account),
        NodeWord::Qos => text(&asks.qos),
        NodeWord::Constraint => text(&asks.constraint),
        NodeWord::Queue => text(&asks.queue),
        NodeWord::ParallelEnv => text(&asks.parallel_env),
        NodeWord::GpuType => text(&asks.gpu_type),
        NodeWord::Launcher => text(&asks.launcher),
        NodeWord::Exclusive => asks.exclusive.on("").map(bool::to_string),
        NodeWord::Setup => list(&asks.setup),
        NodeWord::Container => Some(asks.container.on("")?.image.clone()),
        NodeWord::SbatchArgs => list(&asks.sbatch_args),
        NodeWord::QsubArgs => list(&asks.qsub_args),
    }
}

fn on_all<T>(value: Option<T>) -> OnNodes<T> {
    let each = value.map(|value| OnNode { node: None, value });
    OnNodes(each.into_iter().collect())
}

fn node_options(
    fields: &mut Fields,
    full: &str,
    value: &Node,
    of: SubmitOptions,
) -> Option<Vec<String>> {
    let read = options(fields, full, value, of)?;
    for (mark, why) in read.ours {
        fields.wrong(mark, why, "");
    }
    Some(read.words)
}

/// A name of the site.
pub(crate) fn name(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    if Word::new(text).is_ok() {
        return Some(text.to_owned());
    }
    let message = format!("{} of `{key}` is no name of a scheduler", quoted(text));
    fields.wrong(value.mark, message, format!("a name has {NAME}"));
    None
}

/// Features of a host, as SLURM combines them.
pub(crate) fn constraint(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-&|*[]()".contains(c);
    if !text.is_empty() && text.chars().all(fits) {
        return Some(text.to_owned());
    }
    let message = format!("{} of `{key}` is no constraint of SLURM", quoted(text));
    let hint = "for example `ib&avx2` or `[rack1|rack2]`";
    fields.wrong(value.mark, message, hint);
    None
}

/// Millionths of a whole GPU.
pub(crate) const WHOLE_GPU: u32 = 1_000_000;

/// What a run asks of GPUs.
pub(crate) struct GpusAsked {
    /// Number of them; 0 also where the run sees to them itself.
    pub count: u32,
    /// Millionths of each; 0: the run sees to them itself.
    pub share: u32,
}

/// A whole number of GPUs, a part of one, or `unmanaged`.
pub(crate) fn gpus(fields: &mut Fields, key: &str, value: &Node) -> Option<GpusAsked> {
    let text = fields.single(key, value)?;
    if text == "unmanaged" {
        return Some(GpusAsked { count: 0, share: 0 });
    }
    let whole = text.parse::<u32>().ok().filter(|number| *number <= 10_000);
    if let Some(count) = whole {
        let share = WHOLE_GPU;
        return Some(GpusAsked { count, share });
    }
    let part = text.parse::<f64>().ok();
    let share = part.map(|part| (part * f64::from(WHOLE_GPU)).round() as u32);
    let share = share.filter(|share| (1..WHOLE_GPU).contains(share));
    if share.is_none() {
        let message = format!(
            "`{key}` takes a whole number, a part of one GPU or `unmanaged`, not {}",
            quoted(text)
        );
        fields.wrong(value.mark, message, "for example 1, 0.5 or unmanaged");
    }
    Some(GpusAsked {
        count: 1,
        share: share?,
    })
}

/// Programs that start a command on several hosts, or several times on one.
const LAUNCHERS: &[(&str, &str)] = &[
    ("srun", "srun"),
    ("mpirun", "mpirun"),
    ("torchrun", "torchrun"),
    ("none", "none"),
];

/// One of [`LAUNCHERS`].
pub(crate) fn launcher(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    fields.choice(key, value, LAUNCHERS).map(str::to_owned)
}

/// A number of runs, tasks, hosts or processes.
pub(crate) fn count(fields: &mut Fields, key: &str, value: &Node) -> Option<u32> {
    let text = fields.single(key, value)?;
    let number = text.parse::<u32>().ok();
    let number = number.filter(|number| (1..=COUNT_MAX).contains(number));
    if number.is_none() {
        let message = format!(
            "`{key}` takes a whole number from 1 to {COUNT_MAX}, not {}",
            quoted(text)
        );
        fields.wrong(value.mark, message, "for example 8");
    }
    number
}

/// Lines of the shell.
pub(crate) fn setup(fields: &mut Fields, key: &str, value: &Node) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for (text, node) in texts(fields, key, value) {
        if text.contains(['\0', '\r']) {
            let message = format!("a line of `{key}` contains a control character");
            fields.wrong(node.mark, message, "for example `module load cuda`");
            return None;
        }
        lines.extend(text.lines().map(str::to_owned));
    }
    Some(lines)
}

/// How options of a submitting program are written and checked.
#[derive(Clone, Copy)]
pub(crate) struct SubmitOptions {
    /// An option of one letter has its value behind it: `-p a` is `-pa`.
    sticks: bool,
    check: fn(&[String]) -> Result<(), OptionError>,
}

/// Those of `sbatch`.
pub(crate) const SBATCH: SubmitOptions = SubmitOptions {
    sticks: true,
    check: nero_warden::slurm::check_options,
};
/// Those of `qsub`.
pub(crate) const QSUB: SubmitOptions = SubmitOptions {
    sticks: false,
    check: nero_warden::oge::check_options,
};

/// Options that were read.
pub(crate) struct ReadOptions {
    /// Each in one word.
    pub words: Vec<String>,
    /// Why some of them are Neronet's own, and where they stand.
    pub ours: Vec<(Mark, String)>,
}

/// Options of a scheduler, in one text or a list.
pub(crate) fn options(
    fields: &mut Fields,
    key: &str,
    value: &Node,
    of: SubmitOptions,
) -> Option<ReadOptions> {
    let mut read = ReadOptions {
        words: Vec::new(),
        ours: Vec::new(),
    };
    for (text, node) in texts(fields, key, value) {
        let Some(words) = joined(text, of.sticks) else {
            let message = format!("`{key}` has a quote that does not end");
            fields.wrong(node.mark, message, "");
            return None;
        };
        let refused = (of.check)(&words).err();
        match refused.map(|error| (format!("`{key}`: {error}"), error)) {
            None => {}
            Some((why, OptionError::Ours { .. })) => read.ours.push((node.mark, why)),
            Some((why, OptionError::Odd(_))) => fields.wrong(node.mark, why, ""),
        }
        read.words.extend(words);
    }
    Some(read)
}

/// A text or a list of texts.
fn texts<'n>(fields: &mut Fields, what: &str, node: &'n Node) -> Vec<(&'n str, &'n Node)> {
    let items = match &node.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![node],
    };
    let texts = items.into_iter();
    texts
        .filter_map(|item| fields.single(what, item).map(|text| (text, item)))
        .collect()
}

/// The options of a text, each with its value in one word: `--x y` is `--x=y`.
/// `None`: a quote does not end.
fn joined(text: &str, sticks: bool) -> Option<Vec<String>> {
    let mut options: Vec<String> = Vec::new();
    for word in shlex::split(text)? {
        match options.last_mut() {
            Some(option) if !word.starts_with('-') && !option.contains('=') => {
                if !sticks || option.len() > 2 {
                    option.push('=');
                }
                option.push_str(&word);
            }
            Some(_) | None => options.push(word),
        }
    }
    Some(options)
}
