//! What a job finds in its environment on a node with a scheduler.

use std::collections::BTreeMap;

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;

/// Variables of the agent that are no job's.
const LEAKS: [&str; 2] = ["LC_LEAK", "NERONET_HOME"];

/// A login node with variables that are no job's, of a person whose login files define a
/// function, as `module` is one.
fn login(scheduler: Scheduler) -> Login {
    let mut login = Login::new(scheduler);
    let lines = "module() { export LOADED=$1; }\n\
                 export LANG=de_DE.UTF-8 API_TOKEN=leaked MODULEPATH=/opt/modules\n";
    std::fs::write(login.home.path().join(".bash_profile"), lines).unwrap();
    login.home.set_env("SHELL", "/bin/bash");
    login.home.set_env("LC_LEAK", "leaked");
    login
}

/// What the run of an experiment with these fields finds, and what `lines` print, all of
/// it as `NAME=value`.
fn found(login: &Login, id: u64, lines: &str, fields: &str) -> BTreeMap<String, String> {
    let yaml = format!("command: [sh, -c, 'env; {lines}']\n{fields}\n");
    let folder = login.home.experiment(&format!("e{id}"), &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let seen = login.home.until_settled(id);
    assert_eq!(seen["exit_code"], 0, "{seen:#}");
    let said = login.home.ok(&["logs", &id.to_string()]);
    let pairs = said.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pairs.collect()
}

/// The agent has each of the variables that no job may find.
#[track_caller]
fn nothing_leaks(login: &Login, found: &BTreeMap<String, String>) {
    let leader = login.leaders()[0].pid;
    let own = std::fs::read(format!("/proc/{leader}/environ")).unwrap();
    let own = String::from_utf8_lossy(&own).into_owned();
    for name in LEAKS {
        assert!(own.contains(name), "{own}");
        assert!(!found.contains_key(name), "{found:#?}");
    }
}

#[test]
fn a_job_of_slurm_begins_with_the_variables_of_a_login_and_setup_with_all_that_its_files_do() {
    let login = login(Scheduler::Slurm);
    let inner = "echo INNER=$(srun --overlap printenv LANG)";
    let job = found(&login, 1, inner, "");
    nothing_leaks(&login, &job);
    let home = login.home.path().display().to_string();
    for (name, value) in [
        ("LANG", "de_DE.UTF-8"),
        ("INNER", "de_DE.UTF-8"),
        ("TZ", "Pacific/Chatham"),
        ("TMPDIR", "/tmp"),
        ("HOME", &*home),
        ("SHELL", "/bin/bash"),
    ] {
        assert_eq!(job.get(name).map(String::as_str), Some(value), "{job:#?}");
    }
    assert!(job["PATH"].split(':').any(|folder| folder == "/usr/bin"));
    let of_login = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PATH"];
    let others = [
        // SLURM's.
        "TMPDIR",
        "ENVIRONMENT",
        "HOSTNAME",
        // The shell's.
        "PWD",
        "OLDPWD",
        "_",
        // Ours.
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
        "PYTHONUNBUFFERED",
        "GFORTRAN_UNBUFFERED_PRECONNECTED",
        "INNER",
    ];
    let is_known = |name: &&String| {
        let begins = ["SLURM_", "SLURMD_", "NERO_"];
        of_login.contains(&name.as_str())
            || others.contains(&name.as_str())
            || begins.iter().any(|begin| name.starts_with(begin))
    };
    let odd: Vec<&String> = job.keys().filter(|name| !is_known(name)).collect();
    assert!(odd.is_empty(), "{odd:?} of {job:#?}");

    let with_setup = found(&login, 2, "true", "setup: [module cuda]");
    nothing_leaks(&login, &with_setup);
    assert_eq!(with_setup["LOADED"], "cuda", "{with_setup:#?}");
    assert_eq!(with_setup["MODULEPATH"], "/opt/modules", "{with_setup:#?}");
}

#[test]
fn a_job_of_grid_engine_finds_nothing_of_the_agent_and_setup_is_a_login_of_bash() {
    let login = login(Scheduler::GridEngine);
    let job = found(&login, 1, "true", "");
    nothing_leaks(&login, &job);
    assert!(!job["TMP"].is_empty(), "{job:#?}");
    let setup = "setup: ['[[ $BASH_VERSION ]] && shopt -q login_shell && export LOADED=yes']";
    let with_setup = found(&login, 2, "true", setup);
    nothing_leaks(&login, &with_setup);
    assert_eq!(with_setup["LOADED"], "yes", "{with_setup:#?}");
}

#[test]
fn what_setup_prints_is_in_the_standard_error_of_a_run_and_a_line_that_fails_is_a_warning() {
    for scheduler in [Scheduler::Slurm, Scheduler::GridEngine] {
        let login = login(scheduler);
        let setup = "setup: ['echo loading', 'no-such-module load x']";
        found(&login, 1, "true", setup);
        let said = login.home.ok(&["logs", "1", "--stderr"]);
        assert!(said.starts_with("loading\n"), "{said}");
        let seen = login.home.until_settled(1);
        let warnings = seen["warnings"].to_string();
        assert!(warnings.contains("no-such-module load x"), "{seen:#}");
    }
}

#[test]
fn setup_that_ends_the_script_is_no_cancellation_where_slurm_keeps_no_accounts() {
    let login = Login::new(Scheduler::SlurmWithoutAccounting);
    let yaml = "command: 'true'\nsetup: ['set -e', 'no-such-module load x']\n";
    let folder = login.home.experiment("e", yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    let seen = login.home.until_state(1, "crashed");
    let reason = seen["reason"].as_str().unwrap();
    assert!(
        reason.contains("before the run began") && reason.contains("no-such-module"),
        "{reason}"
    );
}
