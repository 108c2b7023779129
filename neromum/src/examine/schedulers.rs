//! Schedulers that guard a cluster: which one, its limits, its partitions, its
//! accounting.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nero_model::safe::Safe;
use nero_model::units::{print_duration_ms, short_bytes};
use nero_node::staging::environment::Base;
use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{AccountingAccess, Kind, Partition, Site, Warden};
use nero_wire::v1::finding::Level;

use super::programs::ask;
use super::{Findings, description};
use crate::warden::login::Login;
use crate::warden::runner::Runner;

const HINT: &str = "small things only: a login node is not for computing, and its administrators \
                    end what is heavy";
/// Time limit of one command; a controller that is busy answers late.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// Partitions that are described; more are counted.
const PARTITIONS_MAX: usize = 24;

pub async fn examine(base: &Base, described: Option<&dyn Warden>) -> Findings {
    let mut findings = Findings::default();
    let login = &Login::ask(base).await;
    if let Some(warden) = described {
        description::examine(&mut findings, login, warden).await;
        is_silent(&mut findings, login);
        return findings;
    }
    let there = |program: &str| {
        login
            .find(program)
            .map(|found| found.path.display().to_string())
    };
    let mut others = Vec::new();
    if let Some(sbatch) = there("sbatch") {
        let said = ask(&sbatch, &["--version"]).await;
        guarded(&mut findings, login, said, &Slurm::default()).await;
    }
    if let Some(qstat) = there("qstat") {
        let (name, said) = grid(&qstat, there("qconf").is_some()).await;
        if name == nero_warden::oge::NAME {
            guarded(&mut findings, login, said, &Oge::default()).await
        } else {
            is_here(&mut findings, name, said)
        }
    }
    if let Some(bsub) = there("bsub") {
        others.push(("LSF", ask(&bsub, &["-V"]).await));
    }
    if let Some(condor) = there("condor_version") {
        others.push(("HTCondor", ask(&condor, &[]).await));
    }
    for (name, said) in others {
        is_here(&mut findings, name, said);
    }
    is_silent(&mut findings, login);
    findings
}

fn is_silent(findings: &mut Findings, login: &Login) {
    if let Some(why) = &login.silent {
        findings.warning(
            "login shell",
            format!(
                "{}: a scheduler that only it knows is not found",
                Safe::line(why)
            ),
            "look at what your login files there do without a terminal, e.g. \
             `ssh NODE 'bash -lc true'`",
        );
    }
}

/// Where the programs lie and which variables name the cluster, as in
/// "/opt/slurm/bin (by your login shell), SLURM_CONF=/etc/slurm.conf".
fn programs(login: &Login, program: &str) -> String {
    let by = |by_login| {
        if by_login {
            " (by your login shell)"
        } else {
            ""
        }
    };
    let found = login.find(program);
    let folder = found.as_ref().and_then(|found| found.path.parent());
    let folder = folder.map_or(String::new(), |folder| folder.display().to_string());
    let mut each = vec![folder + by(found.is_some_and(|found| found.by_login))];
    each.extend(login.vars().iter().map(|var| {
        let value = var.value.to_string_lossy();
        format!("{}={}{}", var.name, Safe::line(&*value), by(var.by_login))
    }));
    each.join(", ")
}

/// A scheduler that did not answer, or that is asked by commands of the configuration.
fn is_here(findings: &mut Findings, name: &str, version: Option<String>) {
    let version = version.map_or(String::new(), |version| format!(" ({version})"));
    let text = format!(
        "{name}{version} is here; without `warden:` in the configuration runs go to this machine \
         itself, past the scheduler"
    );
    findings.warning("scheduler", text, HINT);
}

/// A scheduler that answered: runs can be submitted to it.
fn can_be_asked(findings: &mut Findings, warden: &dyn Warden, version: Option<String>, with: &str) {
    let text = format!("{} is here{with}", with_version(warden, version));
    findings.scheduler(Level::Good, wire_kind(warden), text, HINT);
}

/// A scheduler that is there and does not answer: the machine is its login node all the same.
fn is_silent_here(findings: &mut Findings, warden: &dyn Warden, version: Option<String>) {
    let text = format!(
        "{} is here, and does not answer",
        with_version(warden, version)
    );
    findings.scheduler(Level::Warning, wire_kind(warden), text, HINT);
}

fn with_version(warden: &dyn Warden, version: Option<String>) -> String {
    let version = version.map_or(String::new(), |version| format!(" ({version})"));
    format!("{}{version}", warden.name())
}

fn wire_kind(warden: &dyn Warden) -> nero_wire::v1::Warden {
    match warden.kind() {
        Kind::None => nero_wire::v1::Warden::Unspecified,
        Kind::Slurm => nero_wire::v1::Warden::Slurm,
        Kind::Oge => nero_wire::v1::Warden::Oge,
        Kind::Generic => nero_wire::v1::Warden::Generic,
    }
}

/// Several schedulers have a `qstat`.
async fn grid(qstat: &str, has_qconf: bool) -> (&'static str, Option<String>) {
    let help = ask(qstat, &["-help"]).await;
    let is_grid = |said: &String| {
        let words = ["SGE", "GE ", "UGE", "OGS", "Grid Engine"];
        words.iter().any(|word| said.starts_with(word))
    };
    if has_qconf || help.as_ref().is_some_and(is_grid) {
        return (nero_warden::oge::NAME, help);
    }
    ("PBS", ask(qstat, &["--version"]).await)
}

/// Asks the scheduler for its limits and partitions.
async fn guarded(
    findings: &mut Findings,
    login: &Login,
    version: Option<String>,
    warden: &dyn Warden,
) {
    let name = &*warden.name();
    let Some(runner) = Runner::find(login, warden, PATIENCE) else {
        return is_silent_here(findings, warden, version);
    };
    findings.good(
        &format!("{name}'s programs"),
        programs(login, &warden.program()),
    );
    let begun = Instant::now();
    let calls = warden.site_calls();
    let said = join_all(calls.iter().map(|call| runner.run(call))).await;
    let took = print_duration_ms(begun.elapsed().as_millis() as u64);
    match warden.read_site(&said) {
        Ok(site) => {
            can_be_asked(findings, warden, version, &summary(&site));
            describe(findings, name, &site);
            let asked = format!("{} commands in {took}", runner.executed());
            findings.good(&format!("asking {name}"), asked);
        }
        Err(error) => {
            is_silent_here(findings, warden, version);
            findings.warning(
                &format!("{name}'s answer"),
                Safe::line(&error.to_string()).to_string(),
                "see what this command says in your own shell there; the scheduler may be down, or \
                 be reached from another machine only",
            );
        }
    }
}

/// " with 3 partitions and accounting".
fn summary(site: &Site) -> String {
    let count = site.partitions.len() + site.odd_names;
    let partitions = if count == 1 {
        "partition"
    } else {
        "partitions"
    };
    let accounting = match site.accounting {
        AccountingAccess::Present => " and accounting",
        AccountingAccess::Absent => ", without accounting",
        AccountingAccess::Unknown => "",
    };
    format!(" with {count} {partitions}{accounting}")
}

fn describe(findings: &mut Findings, name: &str, site: &Site) {
    let each = site.partitions.iter().take(PARTITIONS_MAX).map(partition);
    let mut each: Vec<String> = each.collect();
    let more = site.partitions.len().saturating_sub(PARTITIONS_MAX) + site.odd_names;
    if more > 0 {
        each.push(format!("{more} more"));
    }
    if each.is_empty() {
        each.push("none".to_owned());
    }
    findings.good(&format!("{name}'s partitions"), each.join("; "));
    if !site.environments.is_empty() {
        let names = site.environments.iter().map(ToString::to_string);
        findings.good(
            &format!("{name}'s parallel environments"),
            names.collect::<Vec<_>>().join(", "),
        );
    }
    findings.good(&format!("{name}'s limits"), limits(site));
    let what = format!("{name}'s accounting");
    match site.accounting {
        AccountingAccess::Present => findings.good(&what, "it keeps the ends of jobs"),
        AccountingAccess::Absent => {
            let kept = site.ended_kept_s.unwrap_or(0);
            let kept = print_duration_ms(kept.saturating_mul(1000));
            findings.good(
                &what,
                format!("none: {name} forgets a job {kept} after its end"),
            );
        }
        AccountingAccess::Unknown => findings.good(&what, "not told"),
    }
}

fn limits(site: &Site) -> String {
    let mut each = Vec::new();
    if let Some(cluster) = &site.cluster {
        each.push(format!("cluster {cluster}"));
    }
    if let Some(end) = site.array_index_end {
        each.push(format!("arrays of {} tasks", end.saturating_sub(1)));
    }
    if let Some(running) = site.array_running_max {
        each.push(format!("{running} tasks of an array at once"));
    }
    if let Some(own) = site.own_jobs_max {
        each.push(format!("{own} jobs of yours"));
    }
    if let Some(all) = site.jobs_max {
        each.push(format!("{all} jobs of all users"));
    }
    if each.is_empty() {
        "none told".to_owned()
    } else {
        each.join(", ")
    }
}

fn partition(partition: &Partition) -> String {
    let mut facts = Vec::new();
    if !partition.is_open {
        facts.push("starts nothing now".to_owned());
    }
    if let Some(hosts) = partition.hosts {
        facts.push(format!(
            "{hosts} {}",
            if hosts == 1 { "host" } else { "hosts" }
        ));
    }
    if let Some(cpus) = partition.cpus {
        facts.push(format!("up to {cpus} CPUs"));
    }
    if let Some(memory) = partition.memory_bytes {
        facts.push(format!("{} memory", short_bytes(memory)));
    }
    for gpus in &partition.gpus {
        let kind = gpus.kind.as_ref();
        let kind = kind.map_or(String::new(), |kind| format!("{kind} "));
        facts.push(format!("{} {kind}GPUs", gpus.count));
    }
    facts.push(match partition.time_max_s {
        Some(seconds) => format!(
            "at most {}",
            print_duration_ms(seconds.saturating_mul(1000))
        ),
        None => "no time limit".to_owned(),
    });
    let default = if partition.is_default {
        " (default)"
    } else {
        ""
    };
    format!("{}{default}: {}", partition.name, facts.join(", "))
}
