//! Completions that know nodes and experiments: they read the configuration and ask a
//! daemon that runs.

mod picks;

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use nero_config::{ANY, Config, NotifyEvent};
use nero_model::Home;

pub use picks::{
    metric_name, param_name, param_to_set, picked, picked_or_path, picked_or_removed, rule_text,
    value_name,
};

/// Completes the name of a node.
pub fn node_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(nodes)))
}

/// Completes the name of a group.
pub fn group_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(groups)))
}

/// Completes a node, a group, or `any`.
pub fn target_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(targets)))
}

/// Completes what `status` shows: experiments, `nodes`, a node, a group.
pub fn status_word() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let all = ("nodes".to_owned(), "all nodes and how they do".to_owned());
        let config = config();
        let named = config.iter().flat_map(|config| {
            let groups = groups(config);
            nodes(config).chain(groups)
        });
        picks::last_element(begun, [all].into_iter().chain(named).collect())
    })
}

/// Completes a node, or a run or experiment on one.
pub fn node_or_run() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let nodes = config().iter().flat_map(nodes).collect();
        picks::last_element(begun, nodes)
    })
}

/// Completes a key of `config set`.
pub fn config_key() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let own = KEYS.map(|(key, about)| (key.to_owned(), about.to_owned()));
        let config = config();
        let others = config.iter().flat_map(|config| {
            let groups = groups(config).map(|(name, of)| (format!("groups.{name}"), of));
            let fields = config.nodes.iter().flat_map(|(name, node)| {
                let local = node.address.is_none();
                let fields = FIELDS
                    .iter()
                    .filter(move |(field, _)| !(local && ["address", "key"].contains(field)));
                fields.map(move |(field, about)| {
                    (format!("nodes.{name}.{field}"), (*about).to_owned())
                })
            });
            groups.chain(fields)
        });
        fitting(begun, own.into_iter().chain(others))
    })
}

/// What can be set beside nodes and groups.
const KEYS: [(&str, &str); 21] = [
    ("default_node", "where runs go"),
    ("results_max", "how much of a run comes home, as 100M"),
    ("results_min_free", "how much stays free where results lie"),
    ("user.name", "your name"),
    ("user.email", "your address"),
    ("mail.smtp", "the mail server, as smtp.example.org:587"),
    ("mail.security", "starttls, tls or none"),
    (
        "mail.ca",
        "certificates to trust beside those of the system",
    ),
    ("mail.login", "your account there"),
    (
        "mail.password_command",
        "prints the password, as pass show mail",
    ),
    ("mail.sendmail", "a program in place of a server"),
    ("mail.from", "the sender, unless it is user.email"),
    (
        "mail.relay",
        "the node that writes while this machine is away",
    ),
    ("mail.relay_after", "how long it is away by then, as 15m"),
    ("notify.events", "what is told, as crashed,done"),
    ("notify.to", "who gets mail, unless it is user.email"),
    ("notify.digest", "how often a digest goes out, as 8h"),
    ("notify.quiet", "no mail meanwhile, as 22:00-07:00"),
    ("notify.limit", "most mails in an hour"),
    ("notify.webhook", "a server that is told of each event"),
    ("notify.command", "a program that gets each event"),
];

/// Every key and every field of a node, for the test of help.
#[cfg(test)]
pub fn keys() -> Vec<&'static str> {
    let all = KEYS.iter().chain(FIELDS);
    all.map(|(key, _)| *key).collect()
}

/// The settings of a node.
const FIELDS: &[(&str, &str)] = &[
    ("address", "whatever ssh accepts"),
    ("root", "folder for our files there"),
    ("key", "a private key that ssh tries, too"),
    ("cpus", "CPUs that runs may use"),
    ("memory", "memory that runs may use, as 64G"),
    (
        "gpus",
        "GPUs that runs may have: the first 4, or [0, 2] by number",
    ),
    ("min_free", "nothing new starts below this much free disk"),
    ("shared", "whether other machines use the same root"),
    ("listen", "auto or never"),
    ("warden", "its scheduler: none, slurm, oge or generic"),
    (
        "scheduler",
        "how a generic one is asked: a recipe such as pbs",
    ),
    ("max_queued", "most jobs and tasks of yours in its queue"),
    ("max_running", "most tasks of one array that run at once"),
    (
        "partition",
        "partition of its runs, unless they name one (SLURM)",
    ),
    ("account", "account of its runs, unless they name one"),
    ("qos", "quality of service of its runs (SLURM)"),
    ("constraint", "features of the hosts of its runs (SLURM)"),
    (
        "queue",
        "queue of its runs, unless they name one (Grid Engine)",
    ),
    (
        "parallel_env",
        "parallel environment of its runs (Grid Engine)",
    ),
    ("gpu_type", "type of GPU, for runs that ask for GPUs"),
    (
        "launcher",
        "program that starts the command of its runs: srun, mpirun",
    ),
    ("exclusive", "true: no other job on the hosts of its runs"),
    ("setup", "lines of the shell before each of its runs"),
    ("sbatch_args", "further options of its jobs (SLURM)"),
    ("qsub_args", "further options of its jobs (Grid Engine)"),
    ("notes", "whatever you like"),
];

/// Completes the value of `config set`, as the key before it wants it.
pub fn config_value() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let words: Vec<String> = std::env::args().collect();
        let config = config();
        let config = config.iter();
        match key_of(&words) {
            Some("default_node") => fitting(begun, config.flat_map(targets)),
            Some(key) if key.starts_with("groups.") => fitting(begun, config.flat_map(nodes)),
            Some("mail.security") => fixed(begun, &["starttls", "tls", "none"]),
            Some("notify.events") => {
                let events = NotifyEvent::ALL.map(NotifyEvent::as_str);
                fixed(begun, &events)
            }
            Some(key) if key.ends_with(".shared") => fixed(begun, &["true", "false"]),
            Some(key) if key.ends_with(".listen") => fixed(begun, &["auto", "never"]),
            _ => Vec::new(),
        }
    })
}

/// The key in the words of a line: what follows `config set`.
fn key_of(words: &[String]) -> Option<&str> {
    let at = words.windows(2).position(|two| two == ["config", "set"])?;
    words.get(at + 2).map(String::as_str)
}

/// A word, and its explanation.
type CompletionWord = (String, String);

/// The configuration. One that cannot be read completes nothing; the verb
/// reports why.
fn config() -> Option<Config> {
    let home = Home::find().ok()?;
    Config::read(&home.config).ok()
}

fn nodes(config: &Config) -> impl Iterator<Item = CompletionWord> {
    config.nodes.iter().map(|(name, node)| {
        let address = node.address.clone();
        (
            name.clone(),
            address.unwrap_or_else(|| "this machine".into()),
        )
    })
}

fn groups(config: &Config) -> impl Iterator<Item = CompletionWord> {
    let groups = config.groups.iter();
    groups.map(|(name, group)| (name.clone(), group.nodes.join(", ")))
}

fn targets(config: &Config) -> impl Iterator<Item = CompletionWord> {
    let any = (ANY.to_owned(), "whichever has most room".to_owned());
    nodes(config).chain(groups(config)).chain([any])
}

fn fixed(begun: &OsStr, words: &[&str]) -> Vec<CompletionCandidate> {
    let word = |word: &&str| ((*word).to_owned(), String::new());
    fitting(begun, words.iter().map(word))
}

/// The words that begin so.
pub fn fitting(
    begun: &OsStr,
    words: impl Iterator<Item = CompletionWord>,
) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    words
        .filter(|(word, _)| word.starts_with(&*begun))
        .map(|(word, about)| {
            let about = nero_model::safe::Safe::line(&about).to_string();
            let help = (!about.is_empty()).then(|| about.into());
            CompletionCandidate::new(word).help(help)
        })
        .collect()
}
