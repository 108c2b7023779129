//! Ownership of the configuration: it names the machines to which code and data
//! are sent, so a file that another user may write is refused, as `ssh` refuses
//! its own.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::mistake::ConfigError;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Only the owner of a file in such a folder may replace it.
const STICKY: u32 = 0o1000;

/// Refuses a file with the metadata `found`, or its folder, if a user other than
/// we or root owns it or may write it.
pub(crate) fn check(path: &Path, found: &Metadata) -> Result<(), ConfigError> {
    check_one(path, found)?;
    check_folder(path)
}

/// Refuses the folder of a file under the same conditions; a folder that does not
/// exist yet will be made private.
pub(crate) fn check_folder(path: &Path) -> Result<(), ConfigError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match fs::metadata(folder) {
        Ok(found) if found.mode() & STICKY != 0 && found.uid() == 0 => Ok(()),
        Ok(found) => check_one(folder, &found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ConfigError::Read {
            path: folder.to_path_buf(),
            source,
        }),
    }
}

fn check_one(path: &Path, found: &Metadata) -> Result<(), ConfigError> {
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (found.uid(), found.mode());
    let path = || path.to_path_buf();
    if owner != own && owner != 0 {
        return Err(ConfigError::Stranger {
            path: path(),
            owner,
            own,
        });
    }
    let by = if mode & OTHERS_WRITE != 0 {
        "every user"
    } else if mode & GROUP_WRITES != 0 && !is_private_group(found.gid(), own) {
        "its group"
    } else {
        return Ok(());
    };
    Err(ConfigError::Writable { path: path(), by })
}

/// Whether a group is the private one that many systems give each user (same
/// name, no other member): a umask of 002 is usual there and opens nothing. A
/// group that the files of this system do not list counts as shared.
fn is_private_group(group: u32, user: u32) -> bool {
    let read = |name: &str| fs::read_to_string(PathBuf::from("/etc").join(name));
    match (read("passwd"), read("group")) {
        (Ok(passwd), Ok(groups)) => is_listed_as_private(&passwd, &groups, group, user),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn is_listed_as_private(passwd: &str, groups: &str, group: u32, user: u32) -> bool {
    let number = |field: Option<&&str>| field.and_then(|text| text.parse::<u32>().ok());
    // Every user whose first group it is, by the user's number and name.
    let users: Vec<(Option<u32>, &str)> = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .filter(|fields| number(fields.get(3)) == Some(group))
        .map(|fields| (number(fields.get(2)), fields[0]))
        .collect();
    let [(number_of_user, name)] = users[..] else {
        return false;
    };
    let entry = groups
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| number(fields.get(2)) == Some(group));
    let Some(entry) = entry else {
        return false;
    };
    let members = entry.get(3).copied().unwrap_or("");
    let alone = members
        .split(',')
        .all(|member| member.is_empty() || member == name);
    number_of_user == Some(user) && entry[0] == name && alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_group_is_private_when_it_is_one_users_alone() {
        let passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/h/ada:/bin/sh\nbob:x:1001:100::/h/bob:/bin/sh\n";
        let groups = "root:x:0:\nusers:x:100:\nada:x:1000:\nlab:x:50:ada,bob\n";
        let private = |groups, group, user| is_listed_as_private(passwd, groups, group, user);
        assert!(private(groups, 1000, 1000));
        assert!(private("ada:x:1000:ada\n", 1000, 1000));
        assert!(!private("ada:x:1000:bob\n", 1000, 1000), "bob is in it");
        assert!(!private("lab:x:1000:\n", 1000, 1000), "another name");
        assert!(!private(groups, 100, 1001), "everybody's");
        assert!(!private(groups, 50, 1000), "a lab's");
        assert!(!private("", 1000, 1000), "not listed");
        let twins = format!("{passwd}eve:x:1002:1000::/h/eve:/bin/sh\n");
        assert!(!is_listed_as_private(&twins, groups, 1000, 1000));
    }

    #[test]
    fn a_configuration_that_others_may_write_is_refused_with_its_repair() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::write(&path, "nodes: {}\n").unwrap();
        for (file, above) in [(0o600, 0o700), (0o644, 0o755), (0o444, 0o755)] {
            set(&path, file);
            set(folder.path(), above);
            Config::read(&path).unwrap();
        }
        set(&path, 0o646);
        let error = Config::read(&path).unwrap_err().to_string();
        let repair = format!("chmod go-w {}", path.display());
        assert!(
            error.contains("every user") && error.contains(&repair),
            "{error}"
        );
        set(&path, 0o644);
        set(folder.path(), 0o757);
        let error = Config::read(&path).unwrap_err().to_string();
        let repair = format!("chmod go-w {}", folder.path().display());
        assert!(error.contains(&repair), "{error}");
        // Also before there is a file, where one would be made.
        fs::remove_file(&path).unwrap();
        assert!(crate::ConfigFile::open(&path).is_err());
        set(folder.path(), 0o700);
        crate::ConfigFile::open(&path).unwrap();
        // A link to a file elsewhere: its folder counts.
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("mine.yaml"), "nodes: {}\n").unwrap();
        std::os::unix::fs::symlink("elsewhere/mine.yaml", &path).unwrap();
        set(&elsewhere, 0o757);
        let error = Config::read(&path).unwrap_err().to_string();
        assert!(error.contains("elsewhere"), "{error}");
    }

    #[test]
    fn a_configuration_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        fs::write(&path, "nodes: {}\n").unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
            return;
        }
        let error = Config::read(&path).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("12345") && text.contains("chown"), "{text}");
    }
}
