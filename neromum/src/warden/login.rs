//! What the person's login shell knows and a connection by `ssh` does not: the
//! folder of the scheduler's programs, the variables that name the cluster, and those
//! with which a job begins. It is asked once. What its files print is passed over; a
//! shell that hangs is ended.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_model::SubmissionId;
use nero_model::units::print_duration_ms;
use nero_node::staging::environment::{Base, find_in};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::process_group::ProcessGroup;

/// Variables that name the cluster.
pub const CLUSTER: [&str; 13] = [
    "SLURM_CONF",
    "SGE_ROOT",
    "SGE_CELL",
    "SGE_ARCH",
    "SGE_CLUSTER_NAME",
    "SGE_QMASTER_PORT",
    "SGE_EXECD_PORT",
    "LSF_ENVDIR",
    "LSF_SERVERDIR",
    "PBS_CONF_FILE",
    "PBS_DEFAULT",
    "PBS_HOME",
    "CONDOR_CONFIG",
];
/// Variables with which each job begins at a scheduler, beside `PATH` and those that name
/// the cluster. `TMPDIR` is the compute node's own.
const JOB: [&str; 6] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"];
/// Those of them that the files of the login shell set.
const JOB_BY_LOGIN: [&str; 2] = ["LANG", "TZ"];
/// Time limit of the login shell: its files may ask slow disks.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest output, what its files print included.
const OUT_BYTES_MAX: usize = 4 << 20;

/// Environment in which the scheduler's programs are found and executed: our own
/// first, and what the login shell adds to it.
#[derive(Clone, Debug)]
pub struct Login {
    /// The shell.
    pub shell: PathBuf,
    /// Name of the user.
    pub user: String,
    /// Why it did not answer.
    pub silent: Option<String>,
    path: OsString,
    login_path: OsString,
    vars: Vec<Variable>,
    job: Vec<(OsString, OsString)>,
}

/// A variable that names the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OsString,
    /// Whether only the login shell has it.
    pub by_login: bool,
}

/// A program of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it lies.
    pub path: PathBuf,
    /// Whether only the login shell's PATH has it.
    pub by_login: bool,
}

impl Login {
    /// Asks the person's login shell.
    pub async fn ask(base: &Base) -> Self {
        Self::ask_within(base, PATIENCE).await
    }

    async fn ask_within(base: &Base, patience: Duration) -> Self {
        let shell = base.value(b"SHELL").unwrap_or(b"/bin/sh");
        let shell = PathBuf::from(OsStr::from_bytes(shell));
        let path = base.value(b"PATH").unwrap_or_default();
        let user = base.value(b"USER").unwrap_or_default();
        let mut login = Self {
            user: String::from_utf8_lossy(user).into_owned(),
            silent: None,
            path: OsStr::from_bytes(path).to_owned(),
            login_path: OsString::new(),
            vars: Vec::new(),
            job: Vec::new(),
            shell,
        };
        let mut told = match read_variables(base, &login.shell, patience).await {
            Ok(told) => told,
            Err(why) => {
                login.silent = Some(why);
                Vec::new()
            }
        };
        let mut take = |name: &str| {
            let at = told.iter().position(|(known, _)| known == name.as_bytes());
            at.map(|at| OsString::from_vec(told.swap_remove(at).1))
        };
        login.login_path = take("PATH").unwrap_or_default();
        for name in JOB {
            let own = || base.value(name.as_bytes()).map(OsStr::from_bytes);
            if let Some(value) = take(name).or_else(|| own().map(OsStr::to_owned)) {
                login.job.push((name.into(), value));
            }
        }
        for name in CLUSTER {
            let own = std::env::var_os(name).filter(|value| !value.is_empty());
            let by_login = own.is_none();
            if let Some(value) = own.or_else(|| take(name)) {
                login.vars.push(Variable {
                    name,
                    value,
                    by_login,
                });
            }
        }
        login
    }

    /// A program, as runs find it, else as the login shell does.
    pub fn find(&self, name: &str) -> Option<Program> {
        let program = |path, by_login| Program { path, by_login };
        let own = find_in(&self.path, name).map(|path| program(path, false));
        own.or_else(|| {
            let path = find_in(&self.login_path, name)?;
            Some(program(path, true))
        })
    }

    /// The variables that name the cluster.
    pub fn vars(&self) -> &[Variable] {
        &self.vars
    }

    /// The environment of a submission, with which its jobs begin: of this process only
    /// what a job on a node without a scheduler gets, too. The scheduler's programs are
    /// on its `PATH`.
    pub fn of_jobs(&self, programs: &Path) -> Vec<(OsString, OsString)> {
        let path = if self.login_path.is_empty() {
            &self.path
        } else {
            &self.login_path
        };
        let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
        if !folders.iter().any(|folder| folder == programs) {
            folders.push(programs.to_path_buf());
        }
        let path = std::env::join_paths(folders).unwrap_or_else(|_| path.clone());
        let cluster = self.vars.iter();
        let cluster = cluster.map(|var| (OsString::from(var.name), var.value.clone()));
        let job = self.job.iter().cloned();
        job.chain(cluster).chain([("PATH".into(), path)]).collect()
    }
}

/// Has the shell print the variables as `NAME=value`, each with a zero byte behind
/// it, between two marks. `exec` keeps what a shell prints when it ends away.
async fn read_variables(
    base: &Base,
    shell: &Path,
    patience: Duration,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, String> {
    let mark = format!("nero-{}", SubmissionId::random());
    let names = CLUSTER.iter().chain(&JOB_BY_LOGIN);
    let each: Vec<String> = names.map(|name| format!(r#""{name}=${name}""#)).collect();
    let each = each.join(" ");
    let print = format!(r#"printf "%s\0" "" {mark} "PATH=$PATH" {each} {mark}"#);
    let name = shell.file_name().and_then(OsStr::to_str).unwrap_or("sh");
    let mut command = Command::new(shell);
    match name {
        // Called as a login shell by its name alone, bash reads no file here.
        "bash" | "zsh" | "fish" => command.arg("-l"),
        // csh takes `-l` only alone, and old shells of Debian do not know it.
        _ => command.arg0(format!("-{name}")),
    };
    let mut child = command
        .args(["-c", &format!("exec /bin/sh -c '{print}'")])
        .env_clear()
        .envs(base.each())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{} cannot be executed: {error}", shell.display()))?;
    let mut group = ProcessGroup::of(&child);
    let out = child.stdout.take().expect("it is piped");
    let read = tokio::time::timeout(patience, between(out, mark.as_bytes())).await;
    let took = print_duration_ms(patience.as_millis() as u64);
    match read {
        Err(_) => Err(format!("{} did not answer within {took}", shell.display())),
        Ok(None) => Err(format!("{} does not execute commands", shell.display())),
        Ok(Some(answer)) => {
            // Processes that the person's files started go on.
            group.leave();
            Ok(pairs(&answer))
        }
    }
}

/// What stands between the two marks.
async fn between(mut out: impl AsyncRead + Unpin, mark: &[u8]) -> Option<Vec<u8>> {
    let mark = [b"\0", mark, b"\0"].concat();
    let mut read = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    let find = |read: &[u8]| read.windows(mark.len()).position(|at| at == mark);
    while read.len() < OUT_BYTES_MAX {
        let got = out.read(&mut buffer).await.ok().filter(|got| *got > 0)?;
        read.extend_from_slice(&buffer[..got]);
        let Some(begin) = find(&read) else { continue };
        // The last zero byte of the first mark is the first one of the answer.
        let answer = &read[begin + mark.len() - 1..];
        if let Some(end) = find(answer) {
            return Some(answer[..end].to_vec());
        }
    }
    None
}

/// Variables that are set.
fn pairs(answer: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |text: &[u8]| {
        let at = text.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&text[..at], &text[at + 1..]);
        (!value.is_empty()).then(|| (name.to_vec(), value.to_vec()))
    };
    answer.split(|byte| *byte == 0).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base with this home and shell.
    fn base(home: &Path, shell: &str) -> Base {
        Base::of([
            ("HOME", home.to_str().unwrap()),
            ("SHELL", shell),
            ("PATH", "/usr/bin:/bin"),
        ])
    }

    /// The answer of `shell` with these lines in its file.
    async fn ask(shell: &str, file: &str, lines: &str, patience: Duration) -> Login {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, lines).unwrap();
        Login::ask_within(&base(home.path(), shell), patience).await
    }

    const LONG: Duration = Duration::from_secs(60);

    fn sge_root(login: &Login) -> Option<&Variable> {
        login.vars().iter().find(|var| var.name == "SGE_ROOT")
    }

    #[tokio::test]
    async fn a_login_shell_tells_where_the_scheduler_is_whatever_its_files_print() {
        let sh = "echo hello\nprintf 'no line end'\necho oops >&2\nset -x\n\
                  export SGE_ROOT='/opt/s g\ne' PATH=$PATH:/opt/sge/bin\n";
        let csh = "echo hello\nsetenv SGE_ROOT '/opt/s g\\\ne'\nsetenv PATH ${PATH}:/opt/sge/bin\n";
        let fish = "echo hello\nset -x SGE_ROOT '/opt/s g\ne'\nset -x PATH $PATH /opt/sge/bin\n";
        for (shell, file, lines) in [
            ("/bin/bash", ".bash_profile", sh),
            ("/bin/sh", ".profile", sh),
            ("/bin/tcsh", ".login", csh),
            ("/usr/bin/fish", ".config/fish/config.fish", fish),
        ] {
            if !Path::new(shell).exists() {
                continue;
            }
            let login = ask(shell, file, lines, LONG).await;
            assert_eq!(login.silent, None, "{shell}");
            let found = sge_root(&login).unwrap_or_else(|| panic!("{shell}: {login:?}"));
            assert_eq!(found.value, "/opt/s g\ne", "{shell}");
            assert!(found.by_login);
            assert!(login.login_path.as_bytes().ends_with(b":/opt/sge/bin"));
        }
    }

    #[tokio::test]
    async fn a_program_of_the_login_shells_path_is_found() {
        let programs = tempfile::tempdir().unwrap();
        let path = programs.path().join("sbatch-here");
        std::fs::copy("/bin/true", &path).unwrap();
        let lines = format!("export PATH=$PATH:{}\n", programs.path().display());
        let login = ask("/bin/bash", ".bash_profile", &lines, LONG).await;
        let found = login.find("sbatch-here").unwrap();
        assert_eq!((found.path, found.by_login), (path, true));
        assert!(!login.find("true").unwrap().by_login);
        assert_eq!(login.find("there-is-no-such"), None);
    }

    #[tokio::test]
    async fn jobs_begin_with_the_variables_of_a_login_and_no_others() {
        let lines = "export LANG=de_DE.UTF-8 API_TOKEN=x SGE_CELL=c PATH=/opt/mine:/usr/bin\n";
        let login = ask("/bin/bash", ".bash_profile", lines, LONG).await;
        let of = |programs: &str| -> Vec<(String, String)> {
            let all = login.of_jobs(Path::new(programs)).into_iter();
            let text = |text: OsString| text.into_string().unwrap();
            let mut all: Vec<_> = all.map(|(name, value)| (text(name), text(value))).collect();
            all.sort();
            all
        };
        let all = of("/opt/slurm");
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["HOME", "LANG", "PATH", "SGE_CELL", "SHELL"]);
        let value = |name: &str| &all.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(value("LANG"), "de_DE.UTF-8");
        assert_eq!(value("PATH"), "/opt/mine:/usr/bin:/opt/slurm");
        let path = ("PATH".to_owned(), "/opt/mine:/usr/bin".to_owned());
        assert!(of("/usr/bin").contains(&path), "{all:?}");
        let silent = ask("/bin/false", ".profile", "", LONG).await;
        let path = silent.of_jobs(Path::new("/bin"));
        assert!(
            path.contains(&("PATH".into(), "/usr/bin:/bin".into())),
            "{path:?}"
        );
    }

    #[tokio::test]
    async fn a_login_shell_that_hangs_is_ended_and_named() {
        let lines = "echo $$ > $HOME/pid; sleep 1000\n";
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".bash_profile"), lines).unwrap();
        let base = base(home.path(), "/bin/bash");
        let login = Login::ask_within(&base, Duration::from_millis(700)).await;
        let why = login.silent.as_deref().unwrap();
        assert!(why.contains("did not answer within"), "{why}");
        assert!(login.find("true").is_some(), "our own PATH goes on");
        let pid = std::fs::read_to_string(home.path().join("pid")).unwrap();
        let pid = pid.trim().parse().unwrap();
        let deadline = std::time::Instant::now() + LONG;
        while nero_model::process::Stat::read(pid).is_ok_and(|stat| stat.state != b'Z') {
            assert!(std::time::Instant::now() < deadline, "{pid} lives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_shell_that_executes_nothing_is_named() {
        let login = ask("/bin/false", ".profile", "", LONG).await;
        let why = login.silent.as_deref().unwrap();
        assert!(
            why.contains("/bin/false does not execute commands"),
            "{why}"
        );
        let login = ask("/no/shell", ".profile", "", LONG).await;
        assert!(login.silent.unwrap().contains("cannot be executed"));
    }
}
