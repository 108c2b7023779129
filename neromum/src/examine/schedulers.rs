//! Schedulers that guard a cluster. Runs are not submitted to them yet, so a
//! node that has one is most likely a machine for logging in.

use super::Findings;
use super::programs::{ask, find};
use crate::staging::environment::Base;

const HINT: &str = "small things only: a login node is not for computing, and its administrators \
                    end what is heavy";

pub async fn look(base: &Base) -> Findings {
    let mut findings = Findings::default();
    let there = |program: &str| find(base, program).map(|path| path.display().to_string());
    let mut found = Vec::new();
    if let Some(sbatch) = there("sbatch") {
        found.push(("SLURM", ask(&sbatch, &["--version"]).await));
    }
    if let Some(qstat) = there("qstat") {
        found.push(grid(&qstat).await);
    }
    if let Some(bsub) = there("bsub") {
        found.push(("LSF", ask(&bsub, &["-V"]).await));
    }
    if let Some(condor) = there("condor_version") {
        found.push(("HTCondor", ask(&condor, &[]).await));
    }
    for (name, version) in found {
        let version = version.map_or(String::new(), |version| format!(" ({version})"));
        findings.warning(
            "scheduler",
            format!(
                "{name}{version} is here; wardens are not built yet: runs go to this machine \
                 itself, past the scheduler"
            ),
            HINT,
        );
    }
    findings
}

/// Several schedulers have a `qstat`.
async fn grid(qstat: &str) -> (&'static str, Option<String>) {
    let help = ask(qstat, &["-help"]).await;
    let is_grid = |said: &String| {
        let words = ["SGE", "GE ", "UGE", "OGS", "Grid Engine"];
        words.iter().any(|word| said.starts_with(word))
    };
    if help.as_ref().is_some_and(is_grid) || std::env::var_os("SGE_ROOT").is_some() {
        return ("Grid Engine", help);
    }
    ("PBS", ask(qstat, &["--version"]).await)
}
