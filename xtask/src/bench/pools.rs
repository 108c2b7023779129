//! Pools of Python: our executor beside others, which pip brings into a folder of the build, and
//! on a host behind ssh. mpi4py needs Open MPI (`apt-get install openmpi-bin`).

use std::fs;
use std::process::Command;

use super::host::Host;
use super::programs::Programs;
use crate::steps::execute;

const PACKAGES: [&str; 5] = [
    "numpy==2.4.6",
    "loky==3.7.0",
    "distributed==2026.8.0",
    "ray==2.60.0",
    "mpi4py==4.1.2",
];

/// Measures all of them, and prints a table.
pub fn run(programs: &Programs, rounds: usize) -> Result<(), String> {
    let folder = nero_pip::packages(&programs.tool("pools"), &PACKAGES)?;
    let home = programs.scratch("pools")?;
    let paths = [programs.root().join("python/src"), folder];
    let paths = std::env::join_paths(paths).map_err(|error| error.to_string())?;
    let host = Host::up(programs.root())?;
    let neroman = |words: &[&str]| {
        let mut neroman = Command::new(programs.path("neroman"));
        neroman
            .args(words)
            .env("NERONET_HOME", &home)
            .env("NERONET_SSH", host.ssh());
        neroman
    };
    execute(neroman(&["node", "add", "h1", "h1", "--warden", "none"]))?;
    let mut script = Command::new("python3");
    script
        .arg(programs.root().join("xtask/bench/pools.py"))
        .arg(rounds.to_string())
        // Open MPI starts three processes on two processors, as any user.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("MPI4PY_MPIABI", "openmpi")
        .current_dir(&home)
        .env("PYTHONPATH", paths)
        .env("NERONET_HOME", &home)
        .env("NERONET_SSH", host.ssh())
        .env("NERONET_PROGRAM", programs.path("neroman"));
    let outcome = execute(script);
    execute(neroman(&["daemon", "stop"]))?;
    outcome?;
    // A leftover does no harm: it lies in the build folder.
    let _ = fs::remove_dir_all(&home);
    Ok(())
}
