//! Loose comparison of names, and suggestions for misspelt ones.

/// The end of the address of a node that joined: nothing but the connection that it made leads there.
/// No name server knows such names.
pub const JOINED: &str = ".joined.invalid";

/// Whether two names are the same without regard to case, blanks, `_ - / .`.
/// Takes no memory.
pub fn same_loosely(left: &str, right: &str) -> bool {
    significant(left).eq(significant(right))
}

fn significant(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '_' | '-' | '/' | '.'))
        .flat_map(char::to_lowercase)
}

/// The name of a variable such as `NERO_PARAM_<NAME>`: in upper case, with `_` for
/// characters that a shell refuses.
pub fn variable(prefix: &str, name: &str) -> String {
    let mut variable = prefix.to_owned();
    variable.extend(name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    }));
    variable
}

/// Whether a job may have this variable before those of its `env:`, from its node, from the shell
/// of `start` or from a scheduler. Where it has not, nothing comes in place of `$NAME`.
pub fn may_be_given(name: &str) -> bool {
    const ALL: &str =
        " HOME USER LOGNAME SHELL LANG TZ TMPDIR PATH VIRTUAL_ENV PYTHONPATH LD_LIBRARY_PATH ";
    let mut beginnings = ["CONDA_", "SLURM_", "PBS_", "SGE_", "LSB_"].iter();
    ALL.contains(&format!(" {name} ")) || beginnings.any(|begin| name.starts_with(begin))
}

/// Longer names are no typing errors, and comparing them costs a square.
const SUGGEST_CHARS_MAX: usize = 100;

/// Something shorter is the beginning of too many names.
const FORM_CHARS_MIN: usize = 4;

/// The candidate that `written` was most likely meant to be; the first of several
/// that are equally near. A name in the singular or plural and one that begins so come
/// first. A candidate of two letters differs in case and joiners only, one of up to
/// four in one letter, of up to eight in two, else in three.
pub fn suggest<T: AsRef<str>>(written: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    nearest(written, candidates, true)
}

/// As [`suggest`], for names that are written out: several begin alike, so a
/// beginning alone stands for none of them.
pub fn misspelt<T: AsRef<str>>(
    written: &str,
    candidates: impl IntoIterator<Item = T>,
) -> Option<T> {
    nearest(written, candidates, false)
}

/// Whether `written` is `word` but for one letter: one more, one less, another, or two that
/// changed places.
pub fn is_slip(written: &str, word: &str) -> bool {
    let [one, other] = [written, word].map(|name| significant(name).collect::<String>());
    one.len().abs_diff(other.len()) <= 4 && strsim::osa_distance(&one, &other) == 1
}

fn nearest<T: AsRef<str>>(
    written: &str,
    candidates: impl IntoIterator<Item = T>,
    forms: bool,
) -> Option<T> {
    if written.len() > SUGGEST_CHARS_MAX {
        return None;
    }
    let key: String = significant(written).collect();
    let mut best: Option<(usize, T)> = None;
    for candidate in candidates {
        let name = candidate.as_ref();
        if name.len() > SUGGEST_CHARS_MAX || name == written {
            continue;
        }
        let other: String = significant(name).collect();
        let allowed = match other.chars().count() {
            0..=2 => 0,
            3..=4 => 1,
            5..=8 => 2,
            _ => 3,
        };
        let is_form = forms && (other.starts_with(&key) || singular(&key) == singular(&other));
        let distance = match strsim::osa_distance(&key, &other) {
            0 => 0,
            _ if is_form && key.chars().count() >= FORM_CHARS_MIN => 1,
            distance if distance <= allowed => 1 + distance,
            _ => continue,
        };
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `retries` is `retry`, and `paths` is `path`.
fn singular(word: &str) -> String {
    match (word.strip_suffix("ies"), word.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.to_owned(),
        (None, None) => word.to_owned(),
    }
}

/// "did you mean", or the list of the `known` words. The `later` ones are suggested,
/// too, and not listed.
pub fn word_hint(written: &str, known: &[&str], later: &[&str]) -> String {
    match suggest(written, known.iter().chain(later)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// Name of the finding with the versions of an NVIDIA driver, CUDA and cuDNN.
pub const TOOLKITS: &str = "toolkits for GPUs";

/// Variables by which the runtimes of containers find their stores and daemons, beside their
/// names in small letters. They are taken from the login of a node.
pub const OF_RUNTIMES: [&str; 19] = [
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINER_HOST",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "REGISTRY_AUTH_FILE",
    "APPTAINER_CACHEDIR",
    "APPTAINER_TMPDIR",
    "SINGULARITY_CACHEDIR",
    "SINGULARITY_TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_blanks_and_joiners_do_not_matter() {
        for name in [
            "error_rate",
            "Error rate",
            "ERROR-RATE",
            "error/rate",
            "error.rate",
        ] {
            assert!(same_loosely("errorrate", name), "{name}");
        }
        assert!(!same_loosely("errorrate", "error_rates"));
    }

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["error_rate", "loss", "lr", "gpu-box"];
        assert_eq!(suggest("GPU_BOX", known), Some("gpu-box"));
        assert_eq!(suggest("gpu", known), None);
        assert_eq!(suggest("eror_rate", known), Some("error_rate"));
        assert_eq!(suggest("lsos", known), Some("loss"));
        assert_eq!(suggest("temperature", known), None);
        assert_eq!(suggest("xy", known), None);
        let verbs = ["start", "status", "wait", "path", "retry"];
        for (written, meant) in [
            ("stat", "status"),
            ("strat", "start"),
            ("paths", "path"),
            ("retries", "retry"),
        ] {
            assert_eq!(suggest(written, verbs), Some(meant), "{written}");
        }
        assert_eq!(suggest("st", verbs), None);
    }
}
