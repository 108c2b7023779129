//! The file system of the node's root: its kind, its abilities, tried in a folder
//! of our own, and its free room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nero_model::units::short_bytes as shown;

use super::programs::ask;
use super::{Findings, Subject};

/// Time above which a sync is reported as slow.
const SLOW: Duration = Duration::from_millis(200);
/// Free bytes below which a warning is given.
const SPACE_LITTLE: u64 = 1_000_000_000;
/// Free inodes below which a warning is given.
const INODES_FEW: u64 = 10_000;

pub fn judge(findings: &mut Findings, subject: &Subject, quota: Option<String>) {
    mount(findings, &subject.root);
    tries(findings, &subject.folder);
    room(findings, subject);
    if let Some(quota) = quota {
        findings.good("quota", quota);
    }
}

/// Warns about a root that hosts of a cluster can hardly see: its file system is of a
/// kind that one machine has.
pub fn is_shared_with_hosts(findings: &mut Findings, root: &Path) {
    if nero_model::paths::may_be_shared(root).unwrap_or(true) {
        return;
    }
    findings.warning(
        "shared root",
        "its file system looks like one of this machine alone; where the hosts of the cluster do \
         not see this root, no run of theirs begins",
        "choose a root: that all hosts of the cluster see, as a home on NFS; where this machine \
         exports it to them, or is the only host, all is well",
    );
}

/// Output of the quota programs, where there are any.
pub async fn quota(folder: &Path) -> Option<String> {
    let user = std::env::var("USER").ok()?;
    let folder = folder.to_string_lossy().into_owned();
    let lustre = ["quota", "-h", "-q", "-u", &user, &folder];
    if let Some(said) = ask("lfs", &lustre).await {
        return Some(said);
    }
    ask("quota", &["-w", "-s", "-q"]).await
}

/// A mount.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: String,
    kind: String,
    source: String,
    options: Vec<String>,
}

fn mount(findings: &mut Findings, root: &Path) {
    const WHAT: &str = "file system";
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let whole = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let Some(mount) = find(&table, &whole) else {
        return findings.warning(
            WHAT,
            "its mount cannot be found in /proc/self/mountinfo",
            "",
        );
    };
    let option = |name: &str| mount.options.iter().any(|option| option == name);
    let version = mount
        .options
        .iter()
        .find(|option| option.starts_with("vers="));
    let version = version
        .map(|version| format!(" ({version})"))
        .unwrap_or_default();
    let words = format!(
        "{}{version} at {} from {}",
        mount.kind, mount.point, mount.source
    );
    if option("ro") {
        findings.bad(
            WHAT,
            format!("{words} is read-only"),
            "choose another root: for the node",
        );
    } else if option("noexec") {
        findings.bad(
            WHAT,
            format!("{words} forbids programs (noexec)"),
            "choose a root: on a file system that allows them",
        );
    } else {
        findings.good(WHAT, words);
    }
    if nero_model::paths::may_be_shared(root).unwrap_or(false) {
        findings.good(
            "shared root",
            "other hosts may see it: one host leads at a time, by lease",
        );
    }
}

/// The mount that contains a path: the longest mount point, and the last one
/// mounted there.
fn find(table: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<Mount> = None;
    for line in table.lines() {
        let Some(mount) = parse(line) else { continue };
        let longer = best
            .as_ref()
            .is_none_or(|best| mount.point.len() >= best.point.len());
        if path.starts_with(&mount.point) && longer {
            best = Some(mount);
        }
    }
    best
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    let (kind, source) = (back.next()?, back.next()?);
    let options = [*front.get(5)?, back.next().unwrap_or_default()];
    Some(Mount {
        point: front.get(4)?.replace("\\040", " "),
        kind: kind.to_owned(),
        source: source.replace("\\040", " "),
        options: options
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect(),
    })
}

fn tries(findings: &mut Findings, folder: &Path) {
    const HINT: &str = "choose a root: on another file system; runs would be lost or started twice";
    let name = nero_model::ids::hex(&nero_model::ids::random::<8>());
    let place = folder.join(format!(".examine-{name}"));
    let made = fs::create_dir(&place);
    let tried = made.and_then(|()| attempts(&place));
    // The folder is ours, made a moment ago.
    let _ = fs::remove_dir_all(&place);
    match tried {
        Ok(tried) => {
            for (what, why) in &tried.failed {
                findings.bad(
                    "file operations",
                    format!("{what} does not work: {why}"),
                    HINT,
                );
            }
            let words = format!(
                "making a file takes {:.1} ms, a sync {:.1} ms",
                tried.create.as_secs_f64() * 1e3,
                tried.sync.as_secs_f64() * 1e3
            );
            if tried.sync > SLOW || tried.create > SLOW {
                findings.warning(
                    "file operations",
                    words,
                    "the disk is slow or busy: starts and ends of runs wait for it",
                );
            } else if tried.failed.is_empty() {
                findings.good("file operations", words);
            }
        }
        Err(error) => findings.bad(
            "file operations",
            format!("cannot write {}: {error}", folder.display()),
            "see to permissions, space and quota there",
        ),
    }
}

#[derive(Debug, Default)]
struct DiskTrial {
    failed: Vec<(&'static str, String)>,
    create: Duration,
    sync: Duration,
}

fn attempts(place: &Path) -> io::Result<DiskTrial> {
    let at = |name: &str| place.join(name);
    let begun = Instant::now();
    let mut file = File::create_new(at("a"))?;
    let create = begun.elapsed();
    file.write_all(&[7; 4096])?;
    let begun = Instant::now();
    let synced = file.sync_all();
    let mut tried = DiskTrial {
        create,
        sync: begun.elapsed(),
        ..DiskTrial::default()
    };
    let mut check = |what: &'static str, done: io::Result<bool>| match done {
        Ok(true) => {}
        Ok(false) => tried.failed.push((what, "it had no effect".to_owned())),
        Err(error) => tried.failed.push((what, error.to_string())),
    };
    check("fsync", synced.map(|()| true));
    check("link", link(&at("a"), &at("b")));
    check("exclusive create", exclusive(&at("a")));
    check("rename", rename(&at("c"), &at("a")));
    check("append", append(&at("d")));
    check("lock", lock(&at("a")));
    Ok(tried)
}

fn link(from: &Path, to: &Path) -> io::Result<bool> {
    fs::hard_link(from, to)?;
    let taken = fs::hard_link(from, to);
    let exclusive = taken.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
    Ok(exclusive && fs::metadata(from)?.ino() == fs::metadata(to)?.ino())
}

fn exclusive(path: &Path) -> io::Result<bool> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        made => made.map(|_| false),
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<bool> {
    fs::write(from, "new")?;
    fs::rename(from, to)?;
    Ok(fs::read(to)? == b"new")
}

fn append(path: &Path) -> io::Result<bool> {
    let open = || OpenOptions::new().append(true).create(true).open(path);
    let (mut one, mut other) = (open()?, open()?);
    one.write_all(b"one")?;
    other.write_all(b"two")?;
    one.write_all(b"three")?;
    Ok(fs::read(path)? == b"onetwothree")
}

fn lock(path: &Path) -> io::Result<bool> {
    let open = || OpenOptions::new().write(true).open(path);
    let (one, other) = (open()?, open()?);
    one.lock()?;
    Ok(matches!(
        other.try_lock(),
        Err(fs::TryLockError::WouldBlock)
    ))
}

fn room(findings: &mut Findings, subject: &Subject) {
    let found = match rustix::fs::statvfs(&subject.folder) {
        Ok(found) => found,
        Err(error) => {
            return findings.warning("space", format!("cannot be asked: {error}"), "");
        }
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let total = found.f_blocks.saturating_mul(found.f_frsize);
    let words = format!("{} of {} free", shown(free), shown(total));
    const HINT: &str = "make room there, or: neroman clean; or choose another root: for the node";
    if free < subject.min_free {
        let words = format!(
            "{words}, {} are kept back: nothing starts",
            shown(subject.min_free)
        );
        findings.bad("space", words, HINT);
    } else if free < SPACE_LITTLE.max(2 * subject.min_free) {
        findings.warning("space", words, HINT);
    } else {
        findings.good("space", words);
    }
    // A file system without a fixed number of files reports 0.
    if found.f_files > 0 && found.f_favail < INODES_FEW {
        findings.warning(
            "files",
            format!("{} more files can be made (inodes)", found.f_favail),
            "remove files there that are not needed",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        31 25 0:40 / /home rw,nosuid - nfs4 server:/home rw,vers=4.2,hard\n\
        32 25 0:41 / /home/me\\040too ro,noexec - tmpfs tmpfs rw\n\
        rubbish\n";

    #[test]
    fn a_path_is_found_in_the_table() {
        let of = |path: &str| find(TABLE, Path::new(path)).unwrap();
        assert_eq!(of("/var").kind, "ext4");
        let home = of("/home/me");
        assert_eq!((&*home.kind, &*home.source), ("nfs4", "server:/home"));
        assert!(home.options.iter().any(|option| option == "vers=4.2"));
        assert!(of("/home/me too/x").options.contains(&"noexec".to_owned()));
        assert_eq!(of("/homes").point, "/");
    }

    #[test]
    fn what_neromum_needs_of_a_disk_is_tried_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut findings = Findings::default();
        tries(&mut findings, folder.path());
        assert_eq!(findings.0.len(), 1, "{findings:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        tries(&mut findings, Path::new("/proc"));
        let last = findings.0.last().unwrap();
        assert_eq!(last.level(), nero_wire::v1::finding::Level::Bad);
    }
}
