//! The agents that can be sent, each with the machines that it runs on.

use std::path::{Path, PathBuf};

use nero_model::builds::{self, PROGRAMS};

use crate::elf::{self, Glibc};
use crate::facts::Facts;
use crate::fault::NodeFault;
use crate::install::refused;
use crate::libc::Libc;
use crate::{AGENTS, AgentError};

/// Folders of agents that were built for sending.
const TARGETS: [&str; 2] = ["x86_64-linux", "aarch64-linux"];

/// Where a wheel of Python puts agents, beside the folder of its programs.
const SHARED: &str = "share/neronet/agents";

/// One set of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Supply {
    /// The name of the build.
    pub build: String,
    /// As [`PROGRAMS`].
    pub programs: [PathBuf; 3],
    /// Machine, as `uname -m` prints it.
    pub arch: &'static str,
    /// The oldest C library that they run with; `None`: any.
    pub glibc: Option<Glibc>,
    /// Size of all programs together.
    pub bytes: u64,
    /// Name of neromum in greetings.
    pub mum: String,
}

/// Folders that may contain programs, the preferred first: those built for sending.
///
/// # Errors
/// When the path of this program is unknown.
pub(crate) fn folders() -> Result<Vec<PathBuf>, AgentError> {
    Ok(match given() {
        Some(folder) => folders_in(&folder),
        None => folders_beside(&own_folder()?),
    })
}

/// The folders for a neroman in `own`. In cargo's layout the agents built for
/// sending lie beside `own` and may be older than the last build: then they come
/// last, for machines that run nothing newer.
fn folders_beside(own: &Path) -> Vec<PathBuf> {
    let above = own.parent().unwrap_or(own);
    let beside = sent_from(&above.join("agents"));
    let built = builds::inside(own)
        .iter()
        .filter_map(|path| age(path))
        .max();
    let (old, new): (Vec<_>, Vec<_>) = beside
        .into_iter()
        .partition(|folder| age(&folder.join("neromum")) < built);
    let mut folders = sent_from(&own.join("agents")).to_vec();
    folders.extend(sent_from(&above.join(SHARED)));
    folders.extend(new);
    folders.push(own.to_path_buf());
    folders.extend(old);
    folders
}

/// Time of the last write to a file; `None` when it cannot be read.
fn age(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}

/// The same for one given folder.
pub(crate) fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let sent = sent_from(folder).into_iter();
    sent.chain([folder.to_path_buf()]).collect()
}

fn sent_from(folder: &Path) -> [PathBuf; 2] {
    TARGETS.map(|target| folder.join(target))
}

fn given() -> Option<PathBuf> {
    std::env::var_os(AGENTS)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
}

/// The folder of this program.
fn own_folder() -> Result<PathBuf, AgentError> {
    let own =
        std::env::current_exe().map_err(refused("find", Path::new("the path of this program")))?;
    Ok(own.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// The folder of the programs for this machine.
pub(crate) fn for_this_machine() -> Result<PathBuf, AgentError> {
    let base = match given() {
        Some(folder) => folder,
        None => own_folder()?,
    };
    let own = format!("{}-linux", std::env::consts::ARCH);
    let whole = |folder: &PathBuf| builds::inside(folder).iter().all(|path| path.is_file());
    // A release has no programs beside neroman, only agents to send.
    let above = base.parent().unwrap_or(&base);
    let sent = [
        base.join(&own),
        base.join("agents").join(&own),
        above.join(SHARED).join(&own),
    ];
    if whole(&base) {
        Ok(base)
    } else {
        Ok(sent.into_iter().find(whole).unwrap_or(base))
    }
}

/// All agents in these folders, the preferred first. Blocks.
///
/// # Errors
/// When there are none, or a program cannot be read.
pub(crate) fn all(folders: &[PathBuf]) -> Result<Vec<Supply>, AgentError> {
    let mut found = Vec::new();
    for folder in folders {
        let programs = builds::inside(folder);
        if programs.iter().all(|path| path.is_file()) {
            found.extend(look_at(programs)?);
        }
    }
    if found.is_empty() {
        Err(AgentError::Missing {
            names: PROGRAMS.to_vec(),
            folder: folders.last().cloned().unwrap_or_default(),
        })
    } else {
        Ok(found)
    }
}

/// Reads one set of programs; `None` when they are for no machine that we know.
fn look_at(programs: [PathBuf; 3]) -> Result<Option<Supply>, AgentError> {
    let (mut glibc, mut archs, mut bytes) = (None, Vec::new(), 0);
    for path in &programs {
        let needs = elf::needs(path).map_err(refused("read", path))?;
        glibc = glibc.max(needs.glibc);
        archs.push(needs.arch);
        bytes += path.metadata().map_err(refused("look at", path))?.len();
    }
    let Some(arch) = archs[0].filter(|arch| archs.iter().all(|other| *other == Some(*arch))) else {
        return Ok(None);
    };
    let build =
        builds::name_of(&programs).map_err(|(path, source)| refused("read", &path)(source))?;
    let mum = builds::program(&programs[0]).map_err(refused("read", &programs[0]))?;
    Ok(Some(Supply {
        build,
        programs,
        arch,
        glibc,
        bytes,
        mum,
    }))
}

/// The agents that a machine can run.
///
/// # Errors
/// The reason why no agent can run there.
pub(crate) fn choose<'a>(supplies: &'a [Supply], facts: &Facts) -> Result<&'a Supply, NodeFault> {
    let fitting = supplies.iter().filter(|one| one.arch == facts.arch);
    let fitting: Vec<&Supply> = fitting.collect();
    if let Some(runs) = fitting
        .iter()
        .find(|supply| runs(supply.glibc, &facts.libc))
    {
        return Ok(runs);
    }
    match fitting.iter().filter_map(|supply| supply.glibc).min() {
        // Without agents for it, or with agents that need no C library, the machine
        // is at fault.
        None => Err(NodeFault::Arch {
            arch: facts.arch.clone(),
            have: have(supplies),
        }),
        Some(needed) => Err(match facts.libc {
            Libc::Glibc(_) => NodeFault::OldLibc {
                libc: facts.libc.clone(),
                needed,
            },
            Libc::Musl | Libc::Unknown(_) => NodeFault::OtherLibc {
                libc: facts.libc.clone(),
                needed,
            },
        }),
    }
}

/// Whether programs that need this glibc run with that library. A machine that did
/// not report its library is tried.
fn runs(needed: Option<Glibc>, libc: &Libc) -> bool {
    match (needed, libc) {
        (None, _) => true,
        (Some(needed), Libc::Glibc(has)) => *has >= needed,
        (Some(_), Libc::Musl) => false,
        (Some(_), Libc::Unknown(said)) => said.is_empty(),
    }
}

fn have(supplies: &[Supply]) -> Vec<String> {
    let mut archs: Vec<String> = supplies
        .iter()
        .map(|supply| supply.arch.to_owned())
        .collect();
    archs.sort();
    archs.dedup();
    archs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(build: &str, arch: &'static str, glibc: Option<Glibc>) -> Supply {
        Supply {
            build: build.to_owned(),
            programs: Default::default(),
            arch,
            glibc,
            bytes: 0,
            mum: String::new(),
        }
    }

    fn facts(arch: &str, libc: &str) -> Facts {
        let printed = format!("os=Linux\narch={arch}\nlibc={libc}\nroot=/r\nend=yes\n");
        crate::facts::read(printed.as_bytes(), b"", 0).unwrap()
    }

    #[test]
    fn agents_built_for_sending_come_first_unless_they_are_older() {
        let temp = tempfile::tempdir().unwrap();
        let own = temp.path().join("debug");
        let sent = temp.path().join("agents/x86_64-linux");
        let write = |folder: &Path, age_s: u64| {
            std::fs::create_dir_all(folder).unwrap();
            let file = std::fs::File::create(folder.join("neromum")).unwrap();
            let now = std::time::SystemTime::now();
            file.set_modified(now - std::time::Duration::from_secs(age_s))
                .unwrap();
        };
        let place = |folder: &Path| {
            let folders = folders_beside(&own);
            folders.iter().position(|found| found == folder).unwrap()
        };
        write(&sent, 100);
        assert!(place(&sent) < place(&own), "with nothing beside neroman");
        write(&own, 200);
        assert!(place(&sent) < place(&own));
        write(&own, 50);
        assert!(place(&sent) > place(&own));
        assert!(place(&own.join("agents/x86_64-linux")) < place(&own));
        let of_wheel = temp.path().join("share/neronet/agents/x86_64-linux");
        assert!(place(&of_wheel) < place(&own));
    }

    #[test]
    fn the_first_that_runs_there_is_taken() {
        let supplies = [
            supply("old", "x86_64", Some(Glibc(2, 17))),
            supply("arm", "aarch64", Some(Glibc(2, 17))),
            supply("new", "x86_64", Some(Glibc(2, 34))),
        ];
        let chosen = |arch, libc| choose(&supplies, &facts(arch, libc)).map(|it| &*it.build);
        assert_eq!(chosen("x86_64", "glibc 2.36"), Ok("old"));
        assert_eq!(chosen("aarch64", "glibc 2.17"), Ok("arm"));
        assert_eq!(chosen("x86_64", ""), Ok("old"));
        let old = chosen("x86_64", "glibc 2.12").unwrap_err();
        assert!(old.to_string().contains("(glibc 2.12) is older"), "{old}");
        assert!(old.to_string().contains("glibc 2.17"), "{old}");
        let musl = chosen("x86_64", "musl libc (x86_64)").unwrap_err();
        assert!(matches!(musl, NodeFault::OtherLibc { .. }), "{musl}");
        let other = chosen("ppc64le", "glibc 2.36").unwrap_err();
        assert_eq!(
            other.to_string(),
            "there are no agents for ppc64le here, only for aarch64, x86_64"
        );
        assert!(other.hint().contains("cargo xtask portable"));
    }
}
