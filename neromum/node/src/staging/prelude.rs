//! Lines of bash before a job: `setup` on a node without a scheduler, and `python:` on
//! every node. bash gives way to the command (`exec`), so that the job is one process.

use nero_model::setup::{TRAP, UNTRAP};
use nero_wire::v1::{EnvVar, RunSpec};

use super::environment::{self, Var};

/// The lines, and whether bash reads the login files first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    text: String,
    is_login: bool,
    /// Whether the launch sets the variables in [`OF_CARDS`] to the cards that the run is given.
    gives_cards: bool,
}

/// Variables that show a job its GPUs.
const OF_CARDS: [&str; 3] = [
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
];

/// The lines before a run's command; `None`: there are none.
pub fn lines(spec: &RunSpec, in_allocation: bool) -> Option<Lines> {
    let asks = spec.scheduler.as_ref()?;
    let mut text = String::new();
    // The batch script of an allocation had them.
    let setup = if in_allocation {
        &[]
    } else {
        asks.setup.as_slice()
    };
    if !setup.is_empty() {
        text.push_str(TRAP);
        for line in setup {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(UNTRAP);
    }
    text.push_str(&python(&asks.python));
    let is_login = !setup.is_empty();
    let is_given_gpus = asks.gpus > 0 || asks.gpu_micro > 0;
    (!text.is_empty()).then_some(Lines {
        text,
        is_login,
        gives_cards: is_given_gpus && !asks.gpus_unmanaged && !in_allocation,
    })
}

/// The command with its lines before it. What `env:` sets holds after them, but for
/// values that were made of other variables, such as `PATH: /x:$PATH`, and for the cards that
/// the run is given.
pub fn wrapped(lines: &Lines, spec: &RunSpec, argv: Vec<String>, vars: &[Var]) -> Vec<String> {
    let mut text = String::new();
    if lines.is_login {
        // `module` is a function of login shells, whose files set PATH anew.
        let path = environment::value(vars, b"PATH").unwrap_or_default();
        let path = String::from_utf8_lossy(path).replace('\'', r"'\''");
        text.push_str(&format!("export PATH='{path}'\n"));
    }
    text.push_str(&lines.text);
    text.push_str("exec env \"$@\"\n");
    let mut words = vec!["bash".to_owned()];
    words.extend(lines.is_login.then(|| "-l".to_owned()));
    words.extend(["-c".to_owned(), text, "bash".to_owned()]);
    let env = spec.env.iter();
    let env: Vec<&EnvVar> = env
        .filter(|var| !(lines.gives_cards && OF_CARDS.contains(&var.name.as_str())))
        .collect();
    for var in &env {
        if var.unset {
            words.extend(["-u".to_owned(), var.name.clone()]);
        }
    }
    for var in &env {
        if var.expand && !var.value.contains('$') {
            let value = environment::value(vars, var.name.as_bytes()).unwrap_or_default();
            words.push(format!("{}={}", var.name, String::from_utf8_lossy(value)));
        }
    }
    if spec.line_buffered {
        words.extend(["stdbuf", "-oL"].map(str::to_owned));
    }
    words.extend(argv);
    words
}

/// Lines that make a Python the one of the job. The format lets only letters, digits and
/// `_ . / - + @ ~ $` and blanks into names and paths.
fn python(asked: &str) -> String {
    let (kind, name) = asked.split_once(':').unwrap_or((asked, ""));
    let name = match name.strip_prefix("~/") {
        Some(rest) => format!("$HOME/{rest}"),
        None => name.to_owned(),
    };
    let lines = match kind {
        "conda" => CONDA,
        "venv" => VENV,
        "uv" => UV,
        "system" => SYSTEM,
        _ => "",
    };
    lines.replace("NAME", &name)
}

const CONDA: &str = r#"for nero_conda in "$CONDA_EXE" "$(command -v conda)" "$HOME"/{miniconda3,miniforge3,mambaforge,anaconda3}/bin/conda /opt/{conda,miniconda3,miniforge3,anaconda3}/bin/conda; do
  [ -x "$nero_conda" ] && break
  nero_conda=
done
[ -n "$nero_conda" ] || { echo "python: conda:NAME: there is no conda on this node" >&2; exit 127; }
eval "$("$nero_conda" shell.bash hook)" && conda activate "NAME" || { echo "python: conda:NAME cannot be activated" >&2; exit 127; }
unset nero_conda
"#;

const VENV: &str = r#"[ -f "NAME/bin/activate" ] || { echo "python: venv:NAME: there is no environment at this path" >&2; exit 127; }
. "NAME/bin/activate"
"#;

/// The environment lies in the folder of the run, beside its working directory.
const UV: &str = r#"PATH="$PATH:$HOME/.local/bin:$HOME/.cargo/bin"
command -v uv > /dev/null || { echo "python: uv: there is no uv on this node" >&2; exit 127; }
export UV_PROJECT_ENVIRONMENT="${NERO_DIR%/*}/python"
uv sync --quiet || { echo "python: uv sync failed" >&2; exit 127; }
. "$UV_PROJECT_ENVIRONMENT/bin/activate"
"#;

const SYSTEM: &str = r#"for nero_bin in "$VIRTUAL_ENV/bin" "$CONDA_PREFIX/bin" "$CONDA_PREFIX/condabin"; do
  case $nero_bin in /bin | /condabin) continue ;; esac
  PATH=:$PATH:
  PATH=${PATH//":$nero_bin:"/:}
  PATH=${PATH#:}
  PATH=${PATH%:}
done
unset nero_bin VIRTUAL_ENV PYTHONHOME PYTHONPATH ${!CONDA_@}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::SchedulerRequest;
    use std::process::Command;

    fn asks(setup: &[&str], python: &str) -> RunSpec {
        RunSpec {
            scheduler: Some(SchedulerRequest {
                setup: setup.iter().map(|line| (*line).to_owned()).collect(),
                python: python.to_owned(),
                ..SchedulerRequest::default()
            }),
            ..RunSpec::default()
        }
    }

    /// Output and errors of a command with its lines, in these variables.
    fn run(spec: &RunSpec, vars: &[(&str, &str)], argv: &[&str]) -> String {
        let mut all = vec![("PATH", "/usr/bin:/bin")];
        all.retain(|(name, _)| vars.iter().all(|(other, _)| name != other));
        all.extend(vars);
        let of =
            |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let vars: Vec<Var> = all.iter().map(of).collect();
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let words = wrapped(&lines(spec, false).unwrap(), spec, argv, &vars);
        let ran = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .envs(all)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        text(&ran.stdout) + &text(&ran.stderr)
    }

    #[test]
    fn lines_of_setup_act_on_the_command_and_env_beats_them() {
        let mut spec = asks(&["export A=1", "export B=1"], "");
        spec.env = [("B", "2"), ("C", "$A")]
            .map(|(name, value)| EnvVar {
                name: name.to_owned(),
                value: value.to_owned(),
                unset: false,
                expand: true,
            })
            .to_vec();
        // Login files of a person print what they want.
        let home = tempfile::tempdir().unwrap();
        let home = home.path().to_str().unwrap();
        let path = "/odd dir:/usr/bin:/bin";
        let vars = [("HOME", home), ("B", "2"), ("C", "x"), ("PATH", path)];
        let said = run(
            &spec,
            &vars,
            &["sh", "-c", "echo $A $B $C $PATH $1", "sh", "two  words"],
        );
        assert_eq!(said, "1 2 x /odd dir:/usr/bin:/bin two words");
        assert_eq!(lines(&spec, true), None, "the batch script had them");
        assert_eq!(lines(&RunSpec::default(), false), None);
    }

    #[test]
    fn a_line_of_setup_that_fails_is_reported_and_the_command_runs() {
        // As of Environment Modules and Lmod.
        let module = "module() { eval \"$(echo 'false; return 3')\"; }";
        let lines = [
            module,
            "no-such-module load x",
            "false || true",
            "trap - EXIT",
            "module load y",
            "(exit 4)",
        ];
        let said = run(&asks(&lines, ""), &[], &["echo", "done"]);
        assert!(said.starts_with("done"), "{said}");
        let reports = said.split('\n').filter(|line| line.starts_with("setup: "));
        let want = [
            "127: no-such-module load x",
            "3: module load y",
            "4: ( exit 4 )",
        ];
        let want = want.map(|report| format!("setup: exit code {report}"));
        assert_eq!(reports.collect::<Vec<_>>(), want, "{said}");
    }

    #[test]
    fn the_cards_that_a_run_is_given_beat_those_in_its_env() {
        let mut spec = asks(&["export A=1"], "");
        let of = |name: &str, value: &str| EnvVar {
            name: name.to_owned(),
            value: value.to_owned(),
            unset: value.is_empty(),
            expand: !value.is_empty(),
        };
        spec.env = vec![
            of("CUDA_VISIBLE_DEVICES", "7"),
            of("CUDA_DEVICE_ORDER", ""),
            of("B", "2"),
        ];
        let said = |spec: &RunSpec| {
            let argv = vec!["true".to_owned()];
            let vars: Vec<Var> = [("CUDA_VISIBLE_DEVICES", "7"), ("B", "2")]
                .map(|(name, value)| (name.into(), value.into()))
                .to_vec();
            wrapped(&lines(spec, false).unwrap(), spec, argv, &vars)[5..].join(" ")
        };
        assert_eq!(
            said(&spec),
            "-u CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES=7 B=2 true"
        );
        spec.scheduler.as_mut().unwrap().gpus = 1;
        assert_eq!(said(&spec), "B=2 true");
        let asks = spec.scheduler.as_mut().unwrap();
        (asks.gpus, asks.gpu_micro) = (0, 500_000);
        assert_eq!(said(&spec), "B=2 true");
    }

    #[test]
    fn the_environment_of_python_comes_first_on_the_path_or_is_said_to_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let venv = folder.path().join("my env");
        std::fs::create_dir_all(venv.join("bin")).unwrap();
        let activate = format!(
            "export VIRTUAL_ENV='{0}' PATH=\"{0}/bin:$PATH\"\n",
            venv.display()
        );
        std::fs::write(venv.join("bin/activate"), activate).unwrap();
        let vars = [("HOME", home)];
        let said = run(
            &asks(&[], "venv:~/my env"),
            &vars,
            &["sh", "-c", "echo $PATH"],
        );
        assert_eq!(said, format!("{}/bin:/usr/bin:/bin", venv.display()));
        let said = run(&asks(&[], "venv:$HOME/none"), &vars, &["true"]);
        assert_eq!(
            said,
            format!("python: venv:{home}/none: there is no environment at this path")
        );
        let said = run(
            &asks(&[], "uv"),
            &[("HOME", home), ("PATH", "/bin-of-none:/bin")],
            &["true"],
        );
        assert!(said.contains("python: uv"), "{said}");
    }

    #[test]
    fn the_python_of_the_system_is_that_of_no_environment() {
        let vars = [
            ("VIRTUAL_ENV", "/v"),
            ("CONDA_PREFIX", "/c"),
            ("CONDA_EXE", "/c/bin/conda"),
            ("PATH", "/v/bin:/c/condabin:/usr/bin:/bin"),
        ];
        let said = run(
            &asks(&[], "system"),
            &vars,
            &["sh", "-c", "echo $PATH; env | grep -c -e CONDA -e VIRTUAL"],
        );
        assert_eq!(said, "/usr/bin:/bin\n0");
    }

    #[test]
    fn conda_is_found_and_activated() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("miniforge3/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let conda = bin.join("conda");
        let script = "#!/bin/sh\necho 'conda() { echo \"$@\"; }'\n";
        std::fs::write(&conda, script).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&conda, std::fs::Permissions::from_mode(0o755)).unwrap();
        let vars = [("HOME", folder.path().to_str().unwrap())];
        assert_eq!(
            run(&asks(&[], "conda:torch"), &vars, &["true"]),
            "activate torch"
        );
    }
}
