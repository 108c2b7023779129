//! The environment of a job: clean, then the run's own variables in their
//! order, then ours. `$NAME` is expanded here and never by a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nero_model::RunId;
use nero_model::names::{self, variable};
use nero_wire::v1::{EnvVar, RunSpec};
use rustix::fs::{Access, access};

pub use nero_model::paths::run::marks;

use super::hosts::{AllocationHosts, is_free, processes};

/// Names that a job gets from the node.
const FROM_NODE: [&str; 7] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"];
/// Value of `PATH` when the node's login sets none.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// A variable: name and value.
pub type Var = (Vec<u8>, Vec<u8>);

/// Longest name of a user.
const USER_CHARS_MAX: usize = 64;

/// Variables with which every job on this node begins.
#[derive(Clone, Default)]
pub struct Base {
    vars: Vec<Var>,
    /// The hosts of the allocation; empty outside one.
    hosts: AllocationHosts,
    /// Whether these are of an allocation, whose batch script had the lines of `setup`.
    pub of_allocation: bool,
}

/// The name of a user, where `/etc/passwd` or this process knows it.
pub fn local_user(uid: u32) -> Option<String> {
    let own = rustix::process::geteuid().as_raw() == uid;
    let name = std::env::var("USER").ok();
    name.filter(|name| own && !name.is_empty()).or_else(|| {
        let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
        user_in(&passwd, uid)
    })
}

/// The name of a user by lines of the form of `/etc/passwd`.
pub fn user_in(passwd: &[u8], uid: u32) -> Option<String> {
    let name = String::from_utf8_lossy(passwd_entry(passwd, uid)?.name).into_owned();
    (name.chars().count() <= USER_CHARS_MAX).then_some(name)
}

impl std::fmt::Debug for Base {
    // An environment may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Base({} variables)", self.vars.len())
    }
}

impl Base {
    /// From this process's own environment, filled up from `/etc/passwd`.
    pub fn of_node() -> Self {
        let own = |name: &str| {
            std::env::var_os(name)
                .map(|value| value.as_bytes().to_vec())
                .filter(|value| !value.is_empty())
        };
        let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
        Self::new(own, &passwd, rustix::process::geteuid().as_raw())
    }

    /// The whole environment of this process, for an allocation: its scheduler's
    /// variables, those of the person's `setup` lines, and the GPUs that it may use.
    pub fn of_allocation(devices: Option<&str>, hosts: AllocationHosts) -> Self {
        let mut base = Self {
            hosts,
            of_allocation: true,
            ..Self::of_node()
        };
        for (name, value) in std::env::vars_os() {
            if let Some(name) = name.to_str() {
                set(&mut base.vars, name, value.as_bytes());
            }
        }
        if let Some(devices) = devices {
            set_unless(&mut base.vars, "CUDA_VISIBLE_DEVICES", devices);
        }
        base
    }

    /// Names this program and the submission's folder, by which a worker of Python calls has a
    /// way to it opened (`neromum door`).
    pub fn name_ways(&mut self, program: &Path, submission: &Path) {
        set(&mut self.vars, "NERO_AGENT", program.as_os_str().as_bytes());
        let submission = submission.as_os_str().as_bytes();
        set(&mut self.vars, "NERO_SUBMISSION", submission);
    }

    /// All variables, as an environment.
    pub fn each(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let os = |bytes| OsStr::from_bytes(bytes);
        self.vars
            .iter()
            .map(move |(name, value)| (os(name), os(value)))
    }

    /// A base with these variables alone.
    pub fn of<const N: usize>(vars: [(&str, &str); N]) -> Self {
        let vars = vars.map(|(name, value)| (name.into(), value.into()));
        Self {
            vars: vars.into(),
            ..Self::default()
        }
    }

    /// One variable that every job begins with.
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        value(&self.vars, name)
    }

    /// Path of a program, found as jobs find it.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            let is_absolute = |path: &PathBuf| path.is_absolute() && is_program(path);
            return Some(PathBuf::from(name)).filter(is_absolute);
        }
        let path = self.value(b"PATH").unwrap_or_default();
        find_in(OsStr::from_bytes(path), name)
    }

    fn new(own: impl Fn(&str) -> Option<Vec<u8>>, passwd: &[u8], uid: u32) -> Self {
        let entry = passwd_entry(passwd, uid);
        let fallback = |name: &str| match name {
            "HOME" => entry.map(|entry| entry.home.to_vec()),
            "USER" | "LOGNAME" => entry.map(|entry| entry.name.to_vec()),
            "SHELL" => Some(entry.map_or(b"/bin/sh".to_vec(), |entry| entry.shell.to_vec())),
            "LANG" => Some(b"C.UTF-8".to_vec()),
            "PATH" => Some(PATH_DEFAULT.into()),
            _ => None,
        };
        let vars = FROM_NODE
            .iter()
            .chain(&["PATH"])
            .filter_map(|name| {
                let value = own(name).or_else(|| fallback(name))?;
                Some((name.as_bytes().to_vec(), value))
            })
            .collect();
        Self {
            vars,
            ..Self::default()
        }
    }
}

/// Path of a program in the first of these folders that has it.
pub fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders = path.as_bytes().split(|byte| *byte == b':');
    let folders = folders.map(|folder| PathBuf::from(OsStr::from_bytes(folder)));
    let absolute = folders.filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(is_program)
}

fn is_program(path: &PathBuf) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

#[derive(Clone, Copy)]
struct Passwd<'a> {
    name: &'a [u8],
    home: &'a [u8],
    shell: &'a [u8],
}

fn passwd_entry(passwd: &[u8], uid: u32) -> Option<Passwd<'_>> {
    passwd.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [name, _, of, _, _, home, shell] = fields[..] else {
            return None;
        };
        let found: u32 = std::str::from_utf8(of).ok()?.parse().ok()?;
        (found == uid).then_some(Passwd { name, home, shell })
    })
}

/// Facts about the node for a job.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// The run.
    pub id: RunId,
    /// The node's name.
    pub node: &'a str,
    /// The folder it starts in.
    pub work: &'a Path,
    /// The JSON file of its parameters.
    pub params: &'a Path,
    /// Where it may log metrics.
    pub logged: &'a Path,
    /// Checkpoints of an earlier run lie in its folder.
    pub resumed: bool,
    /// Whether it starts in an allocation of a scheduler.
    pub in_allocation: bool,
}

/// The whole environment; later entries of a name replace earlier ones.
///
/// # Errors
/// See [`of_run`].
pub fn build(
    base: &Base,
    spec: &RunSpec,
    place: &JobContext<'_>,
) -> Result<Vec<Var>, UnsetVariable> {
    let mut vars = of_run(base, spec)?;
    set_ours(&mut vars, spec, place);
    for (name, value) in base.hosts.vars(place.id, is_free).into_iter().flatten() {
        if name.starts_with("NERO_") {
            set(&mut vars, name, value)
        } else {
            set_unless(&mut vars, name, &value)
        }
    }
    Ok(vars)
}

/// The base with the run's own variables.
///
/// # Errors
/// A value is made of a variable that is not set here, and would be another one without it.
pub fn of_run(base: &Base, spec: &RunSpec) -> Result<Vec<Var>, UnsetVariable> {
    let mut vars = base.vars.clone();
    for var in &spec.env {
        if var.unset {
            vars.retain(|(name, _)| name != var.name.as_bytes());
            continue;
        }
        let value = if var.expand {
            expand(var, &vars)?
        } else {
            var.value.clone().into_bytes()
        };
        set(&mut vars, &var.name, value);
    }
    Ok(vars)
}

/// A name of `env:`, and the variable that its value names and that is not set on this node.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` in `env:` is made of `${1}`, which is not set on this node")]
pub struct UnsetVariable(String, String);

/// How many GPUs the run was given, as it asked for them.
fn gpus(spec: &RunSpec) -> String {
    match spec.scheduler.as_ref() {
        Some(asks) if asks.gpus_unmanaged => "unmanaged".to_owned(),
        Some(asks) if asks.gpu_micro > 0 => (f64::from(asks.gpu_micro) / 1e6).to_string(),
        asks => asks.map_or(0, |asks| asks.gpus).to_string(),
    }
}

fn set_ours(vars: &mut Vec<Var>, spec: &RunSpec, place: &JobContext<'_>) {
    let cpus = spec
        .resources
        .as_ref()
        .map_or(1.0, |resources| resources.cpus);
    let cpus = if cpus > 0.0 { cpus } else { 1.0 };
    let work = place.work.as_os_str().as_bytes();
    set(vars, "NERO_RUN", place.id.to_string());
    set(vars, "NERO_ID", place.id.experiment.to_string());
    set(vars, "NERO_NAME", &*spec.name);
    set(vars, "NERO_COLLECTION", &*spec.collection);
    set(vars, "NERO_ATTEMPT", spec.attempt.max(1).to_string());
    set(vars, "NERO_NODE", place.node);
    set(vars, "NERO_DIR", work);
    set(vars, "NERO_OUT", work);
    set(vars, "NERO_PARAMS", place.params.as_os_str().as_bytes());
    set(vars, "NERO_METRICS", place.logged.as_os_str().as_bytes());
    match spec.resources.as_ref().map_or(0, |asks| asks.time_ms) {
        0 => vars.retain(|(name, _)| name != b"NERO_TIME"),
        limit_ms => set(vars, "NERO_TIME", (limit_ms as f64 / 1e3).to_string()),
    }
    for param in &spec.params {
        set(vars, &variable("NERO_PARAM_", &param.name), &*param.text);
    }
    set(vars, "NERO_CPUS", cpus.to_string());
    set(vars, "NERO_GPUS", gpus(spec));
    if place.resumed {
        set(vars, "NERO_RESUME", work);
    } else {
        vars.retain(|(name, _)| name != b"NERO_RESUME");
    }
    let each = (cpus / f64::from(processes(spec))) as u64;
    set_unless(vars, "OMP_NUM_THREADS", &each.max(1).to_string());
    if !spec.buffered {
        set_unless(vars, "PYTHONUNBUFFERED", "1");
        set_unless(vars, "GFORTRAN_UNBUFFERED_PRECONNECTED", "1");
    }
}

/// Sets `NERO_DATA_<NAME>` to the path of the run's data.
pub fn set_data(vars: &mut Vec<Var>, name: &str, path: &str) {
    set(vars, &variable("NERO_DATA_", name), path);
}

/// The value of a variable.
pub fn value<'a>(vars: &'a [Var], name: &[u8]) -> Option<&'a [u8]> {
    vars.iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_slice())
}

fn set(vars: &mut Vec<Var>, name: &str, value: impl Into<Vec<u8>>) {
    let value = value.into();
    match vars.iter_mut().find(|(known, _)| known == name.as_bytes()) {
        Some((_, old)) => *old = value,
        None => vars.push((name.as_bytes().to_vec(), value)),
    }
}

fn set_unless(vars: &mut Vec<Var>, name: &str, to: &str) {
    if value(vars, name.as_bytes()).is_none() {
        vars.push((name.as_bytes().to_vec(), to.as_bytes().to_vec()));
    }
}

/// Replaces `$NAME` and `${NAME}` by variables of the job, else of this process, which has those
/// of the node's start-up files. `$$` is one `$`, and a `$` before anything else stays.
fn expand(var: &EnvVar, vars: &[Var]) -> Result<Vec<u8>, UnsetVariable> {
    let text = var.value.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(behind) = after.strip_prefix(b"$") {
            out.push(b'$');
            rest = behind;
            continue;
        }
        let braced = after.first() == Some(&b'{');
        let name_from = &after[usize::from(braced)..];
        let length = name_length(name_from);
        let closed = !braced || name_from.get(length) == Some(&b'}');
        if length == 0 || !closed {
            out.push(b'$');
            rest = after;
            continue;
        }
        let name = String::from_utf8_lossy(&name_from[..length]);
        rest = &name_from[length + usize::from(braced)..];
        let of_process = || std::env::var_os(&*name).map(OsString::into_vec);
        let known = value(vars, name.as_bytes()).map(<[u8]>::to_vec);
        // The value that this one adds to, as in `FLAGS: $FLAGS -v`.
        let is_added_to = name == var.name && var.value.trim_matches(['$', '{', '}']) != name;
        match known.or_else(of_process) {
            Some(value) => out.extend_from_slice(&value),
            None if is_added_to || names::may_be_given(&name) => {}
            None => return Err(UnsetVariable(var.name.clone(), name.into_owned())),
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn name_length(text: &[u8]) -> usize {
    let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    if !text.first().is_some_and(starts) {
        return 0;
    }
    text.iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::ExperimentId;
    use nero_wire::v1::{Param, Resources, SchedulerRequest};

    fn var(name: &str, value: &str) -> EnvVar {
        EnvVar {
            name: name.to_owned(),
            value: value.to_owned(),
            unset: false,
            expand: true,
        }
    }

    fn text(vars: &[Var], name: &str) -> Option<String> {
        value(vars, name.as_bytes()).map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    fn built(base: &Base, spec: &RunSpec) -> Vec<Var> {
        let place = JobContext {
            id: RunId {
                experiment: ExperimentId(144),
                number: 2,
            },
            node: "local",
            work: Path::new("/r/work"),
            params: Path::new("/r/params.json"),
            logged: Path::new("/r/2/metrics.jsonl"),
            resumed: false,
            in_allocation: false,
        };
        build(base, spec, &place).unwrap()
    }

    #[test]
    fn the_marks_of_a_run_are_of_its_environment() {
        let base = Base::new(|_| None, b"", 7);
        let spec = RunSpec {
            env: vec![var("NERO_RUN", "forged"), var("NERO_DIR", "forged")],
            ..RunSpec::default()
        };
        let built: Vec<Vec<u8>> = built(&base, &spec)
            .into_iter()
            .map(|(name, value)| [name, value].join(&b'='))
            .collect();
        let id = RunId {
            experiment: ExperimentId(144),
            number: 2,
        };
        let marks = marks(id, Path::new("/r/work"));
        assert_eq!(marks.len(), 2);
        assert!(marks.iter().all(|mark| built.contains(mark)), "{built:?}");
    }

    #[test]
    fn an_empty_node_is_filled_up_from_passwd_and_a_full_one_is_kept() {
        let passwd = b"root:x:0:0::/root:/bin/bash\nme:x:7:7:Me:/home/me:/bin/zsh\n";
        let base = Base::new(|_| None, passwd, 7);
        let vars = built(&base, &RunSpec::default());
        assert_eq!(text(&vars, "HOME").as_deref(), Some("/home/me"));
        assert_eq!(text(&vars, "USER").as_deref(), Some("me"));
        assert_eq!(text(&vars, "SHELL").as_deref(), Some("/bin/zsh"));
        assert_eq!(text(&vars, "PATH").as_deref(), Some(PATH_DEFAULT));
        assert_eq!(text(&vars, "TZ"), None);
        let own = |name: &str| (name == "TZ" || name == "PATH").then(|| b"/x".to_vec());
        let vars = built(&Base::new(own, b"", 7), &RunSpec::default());
        assert_eq!(text(&vars, "TZ").as_deref(), Some("/x"));
        assert_eq!(text(&vars, "PATH").as_deref(), Some("/x"));
        assert_eq!(text(&vars, "HOME"), None);
    }

    #[test]
    fn values_are_expanded_in_order_without_a_shell() {
        let base = Base::new(|_| None, b"me:x:7:7:Me:/home/me:/bin/zsh", 7);
        let mut literal = var("LITERAL", "$HOME");
        literal.expand = false;
        let mut gone = var("LANG", "");
        gone.unset = true;
        let spec = RunSpec {
            env: vec![
                var("A", "$HOME/a:${HOME}b$PYTHONPATH."),
                var("PW", "pa$$word$$$HOME$"),
                var("B", "$A;$(id)`id`$1${A$ ${}"),
                var("PATH", "/mine:$PATH"),
                literal,
                gone,
                var("OMP_NUM_THREADS", "9"),
                var("NERO_RESUME", ""),
            ],
            ..RunSpec::default()
        };
        let vars = built(&base, &spec);
        assert_eq!(text(&vars, "A").unwrap(), "/home/me/a:/home/meb.");
        assert_eq!(text(&vars, "PW").unwrap(), "pa$word$/home/me$");
        assert_eq!(
            text(&vars, "B").unwrap(),
            "/home/me/a:/home/meb.;$(id)`id`$1${A$ ${}"
        );
        assert!(text(&vars, "PATH").unwrap().starts_with("/mine:/usr"));
        assert_eq!(text(&vars, "LITERAL").unwrap(), "$HOME");
        assert_eq!(text(&vars, "LANG"), None);
        assert_eq!(text(&vars, "OMP_NUM_THREADS").unwrap(), "9");
        assert_eq!(text(&vars, "NERO_RESUME"), None);
    }

    #[test]
    fn a_value_made_of_a_variable_that_is_not_set_is_refused_by_name() {
        let base = Base::of([("HOME", "/home/me")]);
        let of = |name: &str, value: &str| {
            let spec = RunSpec {
                env: vec![var(name, value)],
                ..RunSpec::default()
            };
            of_run(&base, &spec).map(|vars| text(&vars, name).unwrap_or_default())
        };
        for (name, value) in [
            ("HF", "$NERO_NOWHERE/hf"),
            ("HF", "a${NERO_NOWHERE}"),
            ("NERO_NOWHERE", "$NERO_NOWHERE"),
            ("NERO_NOWHERE", "${NERO_NOWHERE}"),
        ] {
            let error = of(name, value).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{name}` in `env:` is made of `$NERO_NOWHERE`, which is not set on this node"
                )
            );
        }
        // What the node's start-up files gave this process, as for `data`.
        let path = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        assert_eq!(of("A", "$CARGO_MANIFEST_DIR/a"), Ok(format!("{path}/a")));
        assert_eq!(of("FLAGS", "$FLAGS -v").as_deref(), Ok(" -v"));
        assert_eq!(of("PYTHONPATH", "src:$PYTHONPATH").as_deref(), Ok("src:"));
        assert_eq!(of("ENV", "$CONDA_PREFIX").as_deref(), Ok(""));
    }

    #[test]
    fn ours_come_last_and_name_the_run() {
        let base = Base::new(|_| None, b"", 7);
        let spec = RunSpec {
            name: "fib".to_owned(),
            collection: "lang".to_owned(),
            env: vec![var("NERO_RUN", "forged")],
            params: vec![Param {
                name: "learning.rate".to_owned(),
                text: "0.10".to_owned(),
                json: "0.1".to_owned(),
            }],
            resources: Some(Resources {
                cpus: 2.5,
                time_ms: 5_400_000,
                ..Resources::default()
            }),
            attempt: 3,
            ..RunSpec::default()
        };
        let spread = RunSpec {
            resources: Some(Resources {
                cpus: 32.0,
                ..Resources::default()
            }),
            scheduler: Some(SchedulerRequest {
                nodes: 2,
                processes: 8,
                ..SchedulerRequest::default()
            }),
            ..spec.clone()
        };
        let threads = text(&built(&base, &spread), "OMP_NUM_THREADS");
        assert_eq!(threads.as_deref(), Some("4"), "of each process");
        let vars = built(&base, &spec);
        for (name, expected) in [
            ("NERO_RUN", "144.2"),
            ("NERO_ID", "144"),
            ("NERO_NAME", "fib"),
            ("NERO_COLLECTION", "lang"),
            ("NERO_ATTEMPT", "3"),
            ("NERO_NODE", "local"),
            ("NERO_DIR", "/r/work"),
            ("NERO_OUT", "/r/work"),
            ("NERO_PARAMS", "/r/params.json"),
            ("NERO_METRICS", "/r/2/metrics.jsonl"),
            ("NERO_TIME", "5400"),
            ("NERO_PARAM_LEARNING_RATE", "0.10"),
            ("NERO_CPUS", "2.5"),
            ("NERO_GPUS", "0"),
            ("OMP_NUM_THREADS", "2"),
            ("PYTHONUNBUFFERED", "1"),
            ("GFORTRAN_UNBUFFERED_PRECONNECTED", "1"),
        ] {
            assert_eq!(text(&vars, name).as_deref(), Some(expected), "{name}");
        }
        let buffered = RunSpec {
            buffered: true,
            ..spec
        };
        assert_eq!(text(&built(&base, &buffered), "PYTHONUNBUFFERED"), None);
    }
}
