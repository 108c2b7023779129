//! What can be set, with a line about each: completion, help and the manual take it from here.

/// What can be set beside nodes and groups: key, and what it is.
pub const SETTINGS: [(&str, &str); 21] = [
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

/// What can be set of a group, as `groups.NAME.WORD`: word, and what it is.
pub const GROUP_SETTINGS: [(&str, &str); 2] = [
    ("nodes", "its nodes"),
    ("balance", "on: runs that wait move to a node with room"),
];

/// What can be set of a node, as `nodes.NAME.WORD`: word, and what it is.
pub const NODE_SETTINGS: [(&str, &str); 27] = [
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
    ("container", "container of its runs, unless they name one"),
    ("sbatch_args", "further options of its jobs (SLURM)"),
    ("qsub_args", "further options of its jobs (Grid Engine)"),
    ("notes", "whatever you like"),
];

#[cfg(test)]
mod tests {
    use nero_warden::NodeWord;

    use super::*;
    use crate::{mail, notify, read};

    #[test]
    fn every_word_that_is_read_is_a_setting() {
        let of = |outer: &str, words: &[&str]| -> Vec<String> {
            words.iter().map(|word| format!("{outer}{word}")).collect()
        };
        let known: Vec<&str> = SETTINGS.map(|(key, _)| key).into();
        let inner = [
            of("user.", mail::USER_WORDS),
            of("mail.", mail::MAIL_WORDS),
            of("notify.", notify::NOTIFY_WORDS),
        ];
        let mut all = inner.concat();
        let maps = ["nodes", "groups", "user", "mail", "notify", "defaults"];
        let plain = read::WORDS.iter().filter(|word| !maps.contains(word));
        all.extend(plain.map(|word| (*word).to_owned()));
        for word in &all {
            assert!(known.contains(&&**word), "{word}");
        }
        assert_eq!(known.len(), all.len());
        assert_eq!(GROUP_SETTINGS.map(|(word, _)| word), read::GROUP_WORDS);
        let of_nodes: Vec<&str> = NODE_SETTINGS.map(|(word, _)| word).into();
        let scheduler = NodeWord::ALL.map(NodeWord::as_str);
        let read = read::NODE_WORDS.iter().chain(&scheduler);
        for word in read {
            assert!(of_nodes.contains(word), "{word}");
        }
    }
}
