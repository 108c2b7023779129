//! `cargo xtask dist`: what a release consists of, in `target/dist`: a tarball and a package of
//! Debian for each kind of machine, the wheels, `install.sh` and `SHA256SUMS`.
//!
//! A tarball is a prefix: `bin/neroman` with `neroman-office` beside it, the agents where neroman looks for them, pages for `man`,
//! completions, the manual as text, and the licences of all that is linked. Equal programs give
//! equal bytes, wherever and whenever they are packed.

pub mod check;
mod deb;
mod licences;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::elf;
use crate::portable::{self, AGENT, Arch, HEAD};
use crate::steps::{Steps, execute};
use crate::wheel::{self, place_all};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where a prefix has the agents of all kinds of machines.
const AGENTS: &str = "share/neronet/agents";
/// Where a prefix has the manual.
const MANUAL: &str = "share/doc/neronet";
/// Completions: the shell, and where a prefix has them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/neroman"),
    ("zsh", "share/zsh/site-functions/_neroman"),
    ("fish", "share/fish/vendor_completions.d/neroman.fish"),
];

/// Where the programs of a release come from.
pub enum ProgramSource<'a> {
    /// They are compiled for old systems.
    Sources,
    /// All of them lie in this folder, for this kind of machine.
    Folder(&'a Path),
}

/// Packs a release for these kinds of machines, all when none is named. What this machine lacks is
/// named, and the rest is packed.
pub fn run(
    steps: &mut Steps,
    archs: &[Arch],
    programs: &ProgramSource<'_>,
    out: Option<PathBuf>,
) -> Result<(), String> {
    let out = out.unwrap_or_else(|| steps.target().join("dist"));
    fs::create_dir_all(&out).map_err(at(&out))?;
    let work = tempfile::tempdir_in(&out).map_err(at(&out))?;
    let (built, mut left_out) = built(steps, archs, programs)?;
    let own = Arch::own()?;
    let neroman = built.iter().find(|set| set.arch == own);
    let neroman = neroman.ok_or("the pages of the manual need programs for this machine")?;
    let common = work.path().join("common");
    steps.run("manual, completions, licences", |steps| {
        fill(steps, &neroman.head[0], &common)
    })?;
    let mut files = Vec::new();
    for set in &built {
        let arch = set.arch.name();
        let name = format!("neronet-{VERSION}-{arch}-linux.tar.gz");
        let prefix = work.path().join(arch).join(format!("neronet-{VERSION}"));
        copy_folder(&common, &prefix)?;
        place_all(&set.head, &prefix.join("bin"))?;
        place_agents(&built, &prefix.join(AGENTS))?;
        steps.run(&name, |_| {
            let folder = prefix.parent().unwrap_or(&prefix);
            tarball(folder, &format!("neronet-{VERSION}"), &out.join(&name))
        })?;
        let package = deb::name(set.arch);
        steps.run(&package, |steps| {
            deb::write(steps.root(), set.arch, &prefix, &out.join(&package))
        })?;
        files.extend([name, package]);
    }
    for set in &built {
        let wheels = wheel::pack(steps, set.arch, Some(out.clone()), |_, inside| {
            place_all(&set.head, inside)?;
            place_agents(&built, &inside.join("agents"))
        });
        if let Err(why) = wheels {
            left_out.push(format!("the wheel for {}: {why}", set.arch.name()));
        }
    }
    files.extend(ending(&out, ".whl")?);
    let script = out.join("install.sh");
    fs::copy(steps.root().join("deploy/install.sh"), &script).map_err(at(&script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(at(&script))?;
    files.push("install.sh".to_owned());
    recipe(steps.root(), &out)?;
    sums(&out, files)?;
    println!("\nthis release is in {}", out.display());
    for line in left_out {
        println!("left out: {line}");
    }
    Ok(())
}

/// Installs what these sources are, as a release is installed: with agents for old systems where
/// their linker can be had, else with those that this machine links.
pub fn install(steps: &mut Steps, prefix: Option<&Path>) -> Result<(), String> {
    let out = steps.target().join("dist");
    let own = Arch::own()?;
    if let Err(why) = run(steps, &[own], &ProgramSource::Sources, Some(out.clone())) {
        println!("programs for old systems cannot be built here: {why}");
        let build = steps.build(&["--release"]);
        steps.command("programs for this machine", build)?;
        let folder = steps.target().join("release");
        run(
            steps,
            &[],
            &ProgramSource::Folder(&folder),
            Some(out.clone()),
        )?;
        let neromum = folder.join("neromum");
        if let Some(version) = elf::needs(&neromum).map_err(at(&neromum))?.glibc {
            println!(
                "nodes whose C library is older than glibc {version} will refuse these agents"
            );
        }
    }
    let mut script = Command::new("sh");
    script.arg(out.join("install.sh"));
    if let Some(prefix) = prefix {
        script.arg("--prefix").arg(prefix);
    }
    execute(script)
}

/// Programs for one kind of machine.
struct ProgramSet {
    arch: Arch,
    /// As [`HEAD`].
    head: [PathBuf; 2],
    agent: [PathBuf; 3],
}

/// The programs, and a line for each kind of machine that there can be none for here.
fn built(
    steps: &mut Steps,
    archs: &[Arch],
    programs: &ProgramSource<'_>,
) -> Result<(Vec<ProgramSet>, Vec<String>), String> {
    let of = |arch, head: &Path, folder: &Path| ProgramSet {
        arch,
        head: HEAD.map(|name| head.join(name)),
        agent: AGENT.map(|name| folder.join(name)),
    };
    if let ProgramSource::Folder(folder) = programs {
        let set = of(Arch::own()?, folder, folder);
        return Ok((vec![set], Vec::new()));
    }
    let archs = if archs.is_empty() { Arch::all() } else { archs };
    let (mut sets, mut left_out) = (Vec::new(), Vec::new());
    for arch in archs {
        let agents = steps.target().join("agents").join(arch.folder());
        let made = portable::run(steps, &[*arch])
            .and_then(|()| portable::head(steps, *arch))
            .map(|head| of(*arch, &head, &agents));
        match made {
            Ok(set) => sets.push(set),
            Err(why) => left_out.push(format!("programs for {}: {why}", arch.name())),
        }
    }
    if sets.is_empty() {
        return Err(left_out.join("\n"));
    }
    Ok((sets, left_out))
}

/// A head sends agents to machines of all kinds.
fn place_agents(built: &[ProgramSet], folder: &Path) -> Result<(), String> {
    for set in built {
        place_all(&set.agent, &folder.join(set.arch.folder()))?;
    }
    Ok(())
}

/// What is the same for all kinds of machines.
fn fill(steps: &Steps, neroman: &Path, prefix: &Path) -> Result<(), String> {
    let man = prefix.join("share/man/man1");
    fs::create_dir_all(&man).map_err(at(&man))?;
    let mut help = Command::new(neroman);
    execute({
        help.args(["help", "--man"]).arg(&man).stdout(Stdio::null());
        help
    })?;
    for (shell, place) in COMPLETIONS {
        let file = prefix.join(place);
        let output = Command::new(neroman).args(["completions", shell]).output();
        let output = output.map_err(at(neroman))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        write(&file, &output.stdout)?;
    }
    copy_folder(&steps.root().join("docs"), &prefix.join(MANUAL))?;
    let module = fs::read(steps.root().join("deploy/modulefile"));
    let place = prefix.join("share/modulefiles/neronet").join(VERSION);
    write(&place, &module.map_err(at(&place))?)?;
    for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let from = steps.root().join(name);
        write(
            &prefix.join(MANUAL).join(name),
            &fs::read(&from).map_err(at(&from))?,
        )?;
    }
    let texts = licences::collected(steps)?;
    write(
        &prefix.join(MANUAL).join("LICENSES-LINKED"),
        texts.as_bytes(),
    )
}

/// The recipe of EasyBuild, for this release.
fn recipe(root: &Path, out: &Path) -> Result<(), String> {
    let tarball = out.join(format!("neronet-{VERSION}-x86_64-linux.tar.gz"));
    if !tarball.is_file() {
        return Ok(());
    }
    let from = root.join("deploy/neronet.eb");
    let text = fs::read_to_string(&from).map_err(at(&from))?;
    let text = text
        .replace("@VERSION@", VERSION)
        .replace("@SHA256@", &sum(&tarball)?);
    write(&out.join(format!("neronet-{VERSION}.eb")), text.as_bytes())
}

fn sums(out: &Path, mut files: Vec<String>) -> Result<(), String> {
    files.sort();
    files.dedup();
    let lines: Result<Vec<String>, String> = files
        .iter()
        .map(|name| Ok(format!("{}  {name}\n", sum(&out.join(name))?)))
        .collect();
    write(&out.join("SHA256SUMS"), lines?.concat().as_bytes())
}

/// The SHA-256 of a file, by the program of coreutils.
fn sum(file: &Path) -> Result<String, String> {
    let output = Command::new("sha256sum").arg(file).output();
    let output = output.map_err(|error| format!("sha256sum: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // A name with a backslash or a line break has a `\` before the sum.
    let sum = said.trim_start_matches('\\').get(..64);
    sum.map(str::to_owned)
        .ok_or_else(|| format!("sha256sum of {}: {}", file.display(), output.status))
}

/// Packs a folder, with names in order, and no time, owner or umask of this machine.
fn tarball(folder: &Path, name: &str, to: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--format=gnu",
        "--sort=name",
        "--owner=root:0",
        "--group=root:0",
        "--numeric-owner",
        "--mtime=@0",
        "--mode=u=rwX,go=rX",
        "--directory",
    ]);
    let output = tar.arg(folder).arg(name).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("tar: {error}"))?;
    if !output.status.success() {
        return Err(format!("tar of {}: {}", folder.display(), output.status));
    }
    // All at once: what is packed in pieces depends on where they end.
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&output.stdout).map_err(at(to))?;
    let packed = packed.finish().map_err(at(to))?;
    fs::write(to, packed).map_err(at(to))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let path = entry.map_err(at(from))?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &place)?;
        } else {
            fs::copy(&path, &place).map_err(at(&path))?;
        }
    }
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::write(file, bytes).map_err(at(file))
}

fn ending(folder: &Path, ending: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // An earlier version may lie there, too.
    Ok(names
        .filter(|name| name.ends_with(ending) && name.contains(VERSION))
        .collect())
}

/// Puts a path before an error.
pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}
