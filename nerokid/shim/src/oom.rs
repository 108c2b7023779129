//! How often the kernel's out-of-memory killer ended a process of our memory
//! cgroup.
//!
//! The launcher finds the file once and counts before each fork; the keeper of
//! a run counts again when the main process was killed. Jobs begin in the
//! launcher's cgroup. A count that rose does not name the killed process.

use std::ffi::{CStr, CString};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// The file with the count; `None` where the kernel, or a container, shows
/// none.
#[derive(Clone, Copy, Debug)]
pub struct OomEvents {
    file: Option<&'static CStr>,
}

impl OomEvents {
    /// The file of this process's cgroup. Called once: the path is leaked, so
    /// that shims need no copy.
    pub fn find() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let found = events_file(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let path = found.and_then(|path| CString::new(path).ok());
        Self {
            file: path.map(|path| &*Box::leak(path.into_boxed_c_str())),
        }
    }

    /// The count so far. Allocates nothing.
    pub fn count(self) -> Option<u64> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(CWD, self.file?, flags, Mode::empty()).ok()?;
        let mut text = [0; 512];
        let read = rustix::io::read(&file, &mut text).ok()?;
        killed(&text[..read])
    }
}

/// The file of the memory cgroup, from the texts of `/proc/PID/cgroup` and
/// `/proc/PID/mountinfo`. Version 1 goes before: where both are mounted, the
/// memory controller belongs to one of them only.
fn events_file(cgroups: &str, mounts: &str) -> Option<String> {
    let cgroup = |of_version_1: bool| {
        cgroups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let fits = if of_version_1 {
                controllers.split(',').any(|one| one == "memory")
            } else {
                controllers.is_empty()
            };
            fits.then_some(path)
        })
    };
    let (path, of_version_1) = match cgroup(true) {
        Some(path) => (path, true),
        None => (cgroup(false)?, false),
    };
    let below = mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let fits = if of_version_1 {
            kind == "cgroup" && options.split(',').any(|one| one == "memory")
        } else {
            kind == "cgroup2"
        };
        let mut mount = mount.split(' ').skip(3);
        // In a container the mount may begin at the container's own cgroup.
        let (root, point) = (mount.next()?, mount.next()?);
        let rest = path.strip_prefix(root.trim_end_matches('/'))?;
        let inside = rest.is_empty() || rest.starts_with('/');
        (fits && inside).then(|| format!("{point}/{}", rest.trim_matches('/')))
    })?;
    // The cgroup is outside of this container's view.
    if below.split('/').any(|name| name == "..") {
        return None;
    }
    let name = if of_version_1 {
        "memory.oom_control"
    } else {
        "memory.events"
    };
    Some(format!("{}/{name}", below.trim_end_matches('/')))
}

/// The number in the line `oom_kill N`, which both versions have.
fn killed(text: &[u8]) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let digits = lines.find_map(|line| line.strip_prefix(b"oom_kill "))?;
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V2_MOUNTS: &str = "\
24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
    const CONTAINER_MOUNTS: &str = "\
90 80 0:32 /docker/0a1b /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory
";

    #[test]
    fn the_file_of_the_memory_cgroup_is_found_in_both_versions() {
        let table = [
            (
                "4:memory:/batch/7\n1:cpu:/other\n0::/\n",
                V1_MOUNTS,
                Some("/sys/fs/cgroup/memory/batch/7/memory.oom_control"),
            ),
            (
                "3:cpu,memory:/\n",
                V1_MOUNTS,
                Some("/sys/fs/cgroup/memory/memory.oom_control"),
            ),
            (
                "0::/user.slice/user-1000.slice/session-3.scope\n",
                V2_MOUNTS,
                Some("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.events"),
            ),
            (
                "0::/a:b\n",
                V2_MOUNTS,
                Some("/sys/fs/cgroup/a:b/memory.events"),
            ),
            (
                "4:memory:/docker/0a1b/job\n",
                CONTAINER_MOUNTS,
                Some("/sys/fs/cgroup/memory/job/memory.oom_control"),
            ),
            ("4:memory:/docker/0a1bc\n", CONTAINER_MOUNTS, None),
            ("4:memory:/elsewhere\n", CONTAINER_MOUNTS, None),
            ("0::/../neighbour\n", V2_MOUNTS, None),
            ("0::/\n", "", None),
            ("", V2_MOUNTS, None),
        ];
        for (cgroups, mounts, expected) in table {
            assert_eq!(
                events_file(cgroups, mounts).as_deref(),
                expected,
                "{cgroups}"
            );
        }
    }

    #[test]
    fn the_count_is_read_from_the_files_of_both_versions() {
        let v1 = b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let v2 = b"low 0\nhigh 5\nmax 91\noom 2\noom_kill 12\noom_group_kill 1\n";
        assert_eq!((killed(v1), killed(v2)), (Some(3), Some(12)));
        // Before Linux 4.13.
        assert_eq!(killed(b"oom_kill_disable 0\nunder_oom 0\n"), None);
        assert_eq!(killed(b""), None);
    }
}
