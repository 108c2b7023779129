//! `cargo xtask wheel`: the packages of Python with the programs inside, in
//! `target/wheel`. Installed with pip they are the whole product: `neroman` and
//! `neroman-office` lie beside the interpreter, the agents lie in `share/neronet/agents`.
//!
//! Besides what `portable` needs this needs python3 with pip, which brings
//! hatchling into a folder below `target/`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::elf::{self, Glibc};
use crate::portable::{self, AGENT, Arch, GLIBC, HEAD};
use crate::steps::Steps;

/// The package that builds wheels.
const HATCHLING: &str = "hatchling==1.27.0";

/// Builds both wheels for a kind of machine, into `out`.
///
/// With `programs`, a folder with all programs, nothing is compiled, and the
/// wheel's tag names the C library that they need.
pub fn run(
    steps: &mut Steps,
    arch: Option<Arch>,
    programs: Option<&Path>,
    out: Option<PathBuf>,
) -> Result<(), String> {
    let arch = arch.map_or_else(Arch::own, Ok)?;
    pack(steps, arch, out, |steps, inside| match programs {
        Some(programs) => given(programs, arch, inside),
        None => built(steps, arch, inside),
    })
}

/// Builds both wheels of the programs that `fill` puts into a folder: [`HEAD`], and the agents in
/// `agents/ARCH-linux`.
pub fn pack(
    steps: &mut Steps,
    arch: Arch,
    out: Option<PathBuf>,
    fill: impl FnOnce(&mut Steps, &Path) -> Result<(), String>,
) -> Result<(), String> {
    let folder = steps.target().join("wheel");
    let out = out.unwrap_or_else(|| folder.clone());
    let hatchling = nero_pip::packages(&folder.join("tools"), &[HATCHLING])?;
    let inside = folder.join(format!("inside-{}", std::process::id()));
    let outcome = fill(steps, &inside).and_then(|()| {
        let python = steps.root().join("python");
        wheel(
            steps,
            &hatchling,
            &python,
            &out,
            Some((&inside, &tag(arch, &inside)?)),
        )?;
        wheel(steps, &hatchling, &python.join("drop-in"), &out, None)
    });
    // A leftover does no harm: it lies in the build folder.
    let _ = fs::remove_dir_all(&inside);
    outcome
}

/// Compiles what the wheel has: [`HEAD`] for one kind of machine, agents for all.
fn built(steps: &mut Steps, arch: Arch, inside: &Path) -> Result<(), String> {
    portable::run(steps, &[])?;
    let head = portable::head(steps, arch)?;
    place_all(&HEAD.map(|name| head.join(name)), inside)?;
    for arch in Arch::all() {
        let agents = steps.target().join("agents").join(arch.folder());
        place_all(
            &AGENT.map(|name| agents.join(name)),
            &inside.join("agents").join(arch.folder()),
        )?;
    }
    Ok(())
}

/// Takes the programs of one folder.
fn given(programs: &Path, arch: Arch, inside: &Path) -> Result<(), String> {
    place_all(&HEAD.map(|name| programs.join(name)), inside)?;
    place_all(
        &AGENT.map(|name| programs.join(name)),
        &inside.join("agents").join(arch.folder()),
    )
}

/// Copies programs into a folder, without their symbols.
pub(crate) fn place_all(programs: &[PathBuf], folder: &Path) -> Result<(), String> {
    programs
        .iter()
        .try_for_each(|program| place(program, folder))
}

fn place(program: &Path, folder: &Path) -> Result<(), String> {
    let refused = |error| format!("{}: {error}", program.display());
    fs::create_dir_all(folder).map_err(refused)?;
    let to = folder.join(program.file_name().unwrap_or_default());
    fs::copy(program, &to).map_err(refused)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(refused)?;
    // Release builds have none; those of tests would be ten times as large. A strip that
    // knows no such machine leaves the file as it is.
    let _ = Command::new("strip").arg(&to).output();
    Ok(())
}

/// The tag of a wheel: the machine, and the oldest glibc that its programs run with there.
fn tag(arch: Arch, inside: &Path) -> Result<String, String> {
    let agents = inside.join("agents").join(arch.folder());
    let paths = AGENT.map(|program| agents.join(program));
    let mut oldest = GLIBC;
    for path in paths
        .iter()
        .chain(&HEAD.map(|program| inside.join(program)))
    {
        let at = |why: String| format!("{}: {why}", path.display());
        let needs = elf::needs(path).map_err(|error| at(error.to_string()))?;
        if needs.arch != Some(arch.name()) {
            return Err(at(format!("is not for {}", arch.name())));
        }
        oldest = oldest.max(needs.glibc.unwrap_or(GLIBC));
    }
    let Glibc(major, minor) = oldest;
    Ok(format!(
        "py3-none-manylinux_{major}_{minor}_{}",
        arch.name()
    ))
}

/// Builds one wheel.
fn wheel(
    steps: &mut Steps,
    hatchling: &Path,
    package: &Path,
    out: &Path,
    inside: Option<(&Path, &str)>,
) -> Result<(), String> {
    let described = fs::read_to_string(package.join("pyproject.toml"))
        .map_err(|error| format!("{}: {error}", package.display()))?;
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    if !described.lines().any(|line| line == version) {
        return Err(format!("{} is not of {version}", package.display()));
    }
    let mut build = Command::new("python3");
    build
        .args([
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
        ])
        .arg(out)
        .current_dir(package)
        .env("PYTHONPATH", hatchling);
    if let Some((folder, tag)) = inside {
        build
            .env("NERONET_WHEEL", folder)
            .env("NERONET_WHEEL_TAG", tag);
    }
    steps.command(&format!("wheel of {}", package.display()), build)
}
