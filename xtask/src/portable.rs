//! `cargo xtask portable`: the agents for machines that are older than this one.
//! neromum and nerokid are linked against glibc 2.17 with the linker and the
//! headers of zig; the shim is static. The result is checked, and refused when it
//! needs more.
//!
//! Besides the Rust toolchain this needs python3 with pip, which brings zig and
//! cargo-zigbuild into a folder below `target/`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::elf::{self, Glibc, Needs};
use crate::steps::{Steps, execute};
use crate::tools::{self, Tools};

/// The oldest C library that programs run with: that of Enterprise Linux 7.
pub const GLIBC: Glibc = Glibc(2, 17);
/// Limit of one push, compressed.
const BYTES_MAX: u64 = 12 * 1000 * 1000;
/// Libraries that every system with glibc has.
const LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];
/// Programs of an agent.
pub const AGENT: [&str; 3] = ["neromum", "nerokid", SHIM];
const DYNAMIC: [&str; 2] = ["neromum", "nerokid"];
const SHIM: &str = "nerokid-shim";
/// Programs of the researcher's machine; they lie side by side.
pub const HEAD: [&str; 2] = ["neroman", "neroman-office"];

/// A kind of machine, named as `uname -m` names it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// Intel and AMD.
    #[value(name = "x86_64")]
    X86_64,
    /// ARM, 64 bits.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// All kinds.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// That of this machine.
    pub fn own() -> Result<Self, String> {
        let own = std::env::consts::ARCH;
        let found = Self::all().iter().find(|arch| arch.name() == own);
        found
            .copied()
            .ok_or_else(|| format!("there are no programs for {own}"))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The target of its programs for a C library, as Rust names it.
    pub fn triple(self, libc: &str) -> String {
        format!("{}-unknown-linux-{libc}", self.name())
    }

    /// The folder of its agents.
    pub fn folder(self) -> String {
        format!("{}-linux", self.name())
    }
}

/// Builds and checks the agents of these machines; all of them when none is named.
pub fn run(steps: &mut Steps, archs: &[Arch]) -> Result<(), String> {
    let target = steps.target();
    let tools = Tools::ensure(&target.join("portable/tools"))?;
    let archs = if archs.is_empty() { Arch::all() } else { archs };
    for arch in archs {
        steps.run(&format!("agents for {}", arch.name()), |steps| {
            build(steps, &tools, *arch, &target)
        })?;
    }
    Ok(())
}

/// Builds and checks the programs of [`HEAD`] for a kind of machine; returns their folder.
pub fn head(steps: &mut Steps, arch: Arch) -> Result<PathBuf, String> {
    let target = steps.target();
    let tools = Tools::ensure(&target.join("portable/tools"))?;
    let out = target.join("portable/build");
    let triple = arch.triple("gnu");
    tools::need_std(&triple)?;
    let mut build = compiler(
        steps,
        "zigbuild",
        "dist",
        &format!("{triple}.{GLIBC}"),
        &out,
    );
    for program in HEAD {
        build.args(["-p", program]);
    }
    tools.lend(&mut build);
    steps.command(&format!("{} for {}", HEAD.join(", "), arch.name()), build)?;
    let folder = out.join(&triple).join("dist");
    let mut refused = Vec::new();
    for program in HEAD {
        let built = folder.join(program);
        let needs = elf::needs(&built).map_err(|error| format!("{}: {error}", built.display()))?;
        refused.extend(faults(arch, program, &needs));
    }
    if refused.is_empty() {
        Ok(folder)
    } else {
        Err(refused.join("\n"))
    }
}

fn build(steps: &Steps, tools: &Tools, arch: Arch, target: &Path) -> Result<(), String> {
    let out = target.join("portable/build");
    let (gnu, musl) = (arch.triple("gnu"), arch.triple("musl"));
    tools::need_std(&gnu)?;
    tools::need_std(&musl)?;
    let mut dynamic = compiler(steps, "zigbuild", "kid", &format!("{gnu}.{GLIBC}"), &out);
    for program in DYNAMIC {
        dynamic.args(["-p", program]);
    }
    tools.lend(&mut dynamic);
    execute(dynamic)?;
    // The toolchain alone links a static program for the machine it runs on.
    let own = std::env::consts::ARCH == arch.name();
    let verb = if own { "build" } else { "zigbuild" };
    let mut shim = compiler(steps, verb, "kid", &musl, &out);
    shim.args(["-p", SHIM]);
    if !own {
        tools.lend(&mut shim);
    }
    execute(shim)?;

    let built = |triple: &str, name: &str| out.join(triple).join("kid").join(name);
    let mut programs: Vec<(PathBuf, &str)> = DYNAMIC
        .iter()
        .map(|name| (built(&gnu, name), *name))
        .collect();
    programs.push((built(&musl, SHIM), SHIM));
    check(arch, &programs)?;
    let folder = target.join("agents").join(arch.folder());
    place(&programs, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("these agents are in {}", folder.display());
    Ok(())
}

/// A call of cargo for this target. Programs name no folder of this machine, so that they are equal
/// wherever they are built.
fn compiler(steps: &Steps, verb: &str, profile: &str, target: &str, out: &Path) -> Command {
    let mut build = steps.cargo(&[verb, "--locked", "--profile", profile]);
    build.args(["--target", target, "--target-dir"]).arg(out);
    let home = |name: &str, beside: &str| {
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(beside));
        std::env::var_os(name).map(PathBuf::from).or(own)
    };
    let folders = [
        (Some(out.to_path_buf()), "/target"),
        (Some(steps.root().to_path_buf()), "/neronet"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
    ];
    let flags = folders.into_iter().filter_map(|(folder, name)| {
        Some(format!("--remap-path-prefix={}={name}", folder?.display()))
    });
    // Of two prefixes that fit the later one counts.
    let flags: Vec<String> = flags.collect();
    let flags: Vec<&str> = flags.iter().rev().map(String::as_str).collect();
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    build
}

/// Prints the needs and the size of each program; refuses those that old systems
/// cannot run.
fn check(arch: Arch, programs: &[(PathBuf, &str)]) -> Result<(), String> {
    let mut bytes = 0;
    let mut refused = Vec::new();
    println!(
        "{:<14}{:>12}{:>12}  needs",
        "program", "bytes", "compressed"
    );
    for (path, name) in programs {
        let at = |error: io::Error| format!("{}: {error}", path.display());
        let needs = elf::needs(path).map_err(at)?;
        let (raw, compressed) = sizes(path).map_err(at)?;
        bytes += compressed;
        let shown = match (&needs.interpreter, needs.glibc) {
            (None, _) => "nothing: it is static".to_owned(),
            (Some(_), Some(version)) => format!("glibc {version}"),
            (Some(interpreter), None) => interpreter.clone(),
        };
        println!("{name:<14}{raw:>12}{compressed:>12}  {shown}");
        refused.extend(faults(arch, name, &needs));
    }
    println!("{:<14}{:>12}{bytes:>12}", "together", "");
    if bytes > BYTES_MAX {
        refused.push(format!(
            "one push would send {bytes} bytes, and {BYTES_MAX} are the most"
        ));
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(refused.join("\n"))
    }
}

/// Reasons why a program cannot be sent to old systems.
fn faults(arch: Arch, name: &str, needs: &Needs) -> Vec<String> {
    let mut faults = Vec::new();
    if needs.arch != Some(arch.name()) {
        faults.push(format!("{name} is not for {}", arch.name()));
    }
    if name == SHIM {
        if let Some(interpreter) = &needs.interpreter {
            faults.push(format!(
                "{name} is loaded by {interpreter}, and must be static"
            ));
        }
        return faults;
    }
    if let Some(version) = needs.glibc.filter(|version| *version > GLIBC) {
        faults.push(format!(
            "{name} needs glibc {version}, newer than {GLIBC}: look with `objdump -T` for its symbols"
        ));
    }
    let foreign = needs
        .libraries
        .iter()
        .filter(|library| !LIBRARIES.contains(&library.as_str()));
    faults.extend(
        foreign.map(|library| format!("{name} needs {library}, which not every system has")),
    );
    faults
}

/// Bytes of a file, as it is and compressed.
fn sizes(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let raw = io::copy(&mut file, &mut packed)?;
    Ok((raw, packed.finish()?.len() as u64))
}

/// Copies the programs under their names; each appears whole.
fn place(programs: &[(PathBuf, &str)], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (path, name) in programs {
        let new = folder.join(format!(".{name}.new"));
        fs::copy(path, &new)?;
        fs::rename(&new, folder.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Needs {
        Needs {
            arch: Some("x86_64"),
            interpreter: Some("/lib64/ld-linux-x86-64.so.2".to_owned()),
            libraries: vec!["libc.so.6".to_owned()],
            glibc: Some(Glibc(2, 17)),
        }
    }

    #[test]
    fn programs_that_ask_for_more_are_refused() {
        let faults = |name, needs: &Needs| faults(Arch::X86_64, name, needs);
        assert!(faults("neromum", &sound()).is_empty());
        let newer = Needs {
            glibc: Some(Glibc(2, 34)),
            ..sound()
        };
        assert!(faults("neromum", &newer)[0].contains("glibc 2.34"));
        let foreign = Needs {
            libraries: vec!["libgcc_s.so.1".to_owned()],
            ..sound()
        };
        assert!(faults("nerokid", &foreign)[0].contains("libgcc_s.so.1"));
        let other = Needs {
            arch: Some("aarch64"),
            ..sound()
        };
        assert!(faults("nerokid", &other)[0].contains("not for x86_64"));
        assert!(faults(SHIM, &sound())[0].contains("must be static"));
        let fixed = Needs {
            interpreter: None,
            libraries: Vec::new(),
            glibc: None,
            ..sound()
        };
        assert!(faults(SHIM, &fixed).is_empty());
    }

    #[test]
    fn the_needs_of_a_real_program_are_read() {
        let own = std::env::current_exe().unwrap();
        let needs = elf::needs(&own).unwrap();
        assert_eq!(needs.arch, Some(std::env::consts::ARCH));
        assert!(needs.libraries.iter().any(|name| name == "libc.so.6"));
        assert!(needs.interpreter.unwrap().contains("ld-linux"));
        assert!(needs.glibc.unwrap() >= Glibc(2, 2));
        assert!(elf::needs(Path::new("/proc/self/status")).is_err());
        assert!(Glibc(2, 9) < Glibc(2, 17));
        assert_eq!(Glibc::parse("2.3.4"), Some(Glibc(2, 3)));
        assert_eq!(Glibc::parse("PRIVATE"), None);
    }
}
