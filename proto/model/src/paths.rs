//! Where things lie on a node, and folders that belong to us alone.
//!
//! Below a node's root every deployment has a folder of its own. Outside it we
//! touch only `bin/`, in which each name is the hash of the content.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::ids::{DeploymentId, RunId, SubmissionId, base32};

/// Longest path that fits a Unix socket address, with its final zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// A deployment's folders on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePaths {
    root: PathBuf,
    own: PathBuf,
    node: String,
}

impl NodePaths {
    /// For a node whose root (`~/.neronet` unless set) is `root`. `node` is
    /// the node's name as the user gave it; it is never used raw.
    pub fn new(root: &Path, deployment: &DeploymentId, node: &str) -> Self {
        Self {
            root: root.to_path_buf(),
            own: root.join(deployment.short()),
            node: file_name(node),
        }
    }

    /// The node's root, shared by deployments.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Programs, by content.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// This deployment's folder.
    pub fn deployment(&self) -> &Path {
        &self.own
    }

    /// Content-addressed files.
    pub fn store(&self) -> PathBuf {
        self.own.join("store")
    }

    /// Read-only trees, one per code version, for large inputs.
    pub fn trees(&self) -> PathBuf {
        self.own.join("trees")
    }

    /// neromum's own folder: lock, ledger, log.
    pub fn mum(&self) -> PathBuf {
        self.own.join("mum").join(&self.node)
    }

    /// Folder of one submission to a scheduler.
    pub fn submission(&self, submission: &SubmissionId) -> PathBuf {
        self.mum().join("submissions").join(submission.to_string())
    }

    /// Leases of a node whose root several hosts share.
    pub fn lease(&self) -> PathBuf {
        self.mum().join("lease")
    }

    /// Whether several hosts may share the root: its file system is a network one,
    /// or an earlier start decided so and made the folder of leases.
    ///
    /// # Errors
    /// When the type of the root's file system cannot be read.
    pub fn is_shared(&self) -> io::Result<bool> {
        // A neromum that leads by a lease holds no file lock, so a reader of file
        // locks would miss it.
        Ok(self.lease().is_dir() || may_be_shared(&self.root)?)
    }

    /// The key that signs the certificates of this deployment's relays.
    pub fn authority(&self) -> PathBuf {
        self.own.join("ca")
    }

    /// Folder of one run.
    pub fn run(&self, run: RunId) -> PathBuf {
        self.own
            .join("runs")
            .join(run.experiment.to_string())
            .join(run.number.to_string())
    }

    /// Folder for the Unix sockets of this deployment's neromum: in
    /// `mum/<node>/` itself where the path is short enough, else a private
    /// folder of the user, named after the path.
    pub fn sockets(&self) -> PathBuf {
        socket_folder(&self.mum())
    }

    /// Folder in which a neromum of an earlier version, started in this session,
    /// may listen; `None` when that is [`NodePaths::sockets`].
    pub fn earlier_sockets(&self) -> Option<PathBuf> {
        earlier_socket_folder(&self.mum())
    }

    /// Makes the folder for sockets of a node whose root several hosts share:
    /// never in the root, and another one after each start of the host.
    ///
    /// # Errors
    /// When neither folder can be made; the error is that of the folder below
    /// `/tmp`.
    pub fn make_shared_sockets(&self, boot_id: &[u8; 16]) -> io::Result<PathBuf> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.mum().as_os_str().as_encoded_bytes());
        hasher.update(boot_id);
        let name = base32(&hasher.finalize().as_bytes()[..10]);
        // Not the session's folder first: it is removed when the last session
        // ends, and launchers go on.
        let first = temporary_runtime().join(&name);
        let refused = match make_socket_folder(&first) {
            Ok(()) => return Ok(first),
            Err(error) => error,
        };
        let Some(second) = session_runtime().map(|folder| folder.join(&name)) else {
            return Err(refused);
        };
        make_socket_folder(&second).map_err(|_| refused)?;
        Ok(second)
    }
}

/// Names inside the folder of one firing of a rule whose command is run.
pub mod act {
    /// Locked while the command is supervised.
    pub const LOCK: &str = "lock";
    /// Made before the command is begun, once.
    pub const BEGUN: &str = "begun";
    /// How the command ended, in its first line, and the end of what it printed; complete or
    /// absent.
    pub const END: &str = "end";
    /// The end of an output that is kept.
    pub const KEPT_BYTES: usize = 2000;
    /// Limit of a command in seconds.
    pub const LIMIT_S: u64 = 600;

    /// The name of a firing's folder.
    pub fn folder(rule: u64, times: u32) -> String {
        format!("{rule}.{times}")
    }

    /// How a command ended and the end of what it printed, by its file [`END`].
    pub fn read_end(bytes: &[u8]) -> (String, String) {
        let text = String::from_utf8_lossy(bytes);
        let (how, output) = text.split_once('\n').unwrap_or((&text, ""));
        (how.to_owned(), output.to_owned())
    }
}

/// Names inside a run's folder.
pub mod run {
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};

    use crate::RunId;

    /// The frozen spec, a checksummed `nero.v1.RunSpec`.
    pub const SPEC: &str = "spec";
    /// The spec of a recalled run. No run is started from this name.
    pub const RECALLED: &str = "withdrawn";
    /// A second name of the spec. On a disk that can make no new name, it is
    /// renamed to a cancel request.
    pub const SPARE: &str = "spare";
    /// Cancel requests and rule sets.
    pub const CONTROL: &str = "control";
    /// The highest version of a rule set. neroman counts versions one by one, so a
    /// higher number stands in no name of ours, and above each one there is another.
    pub const RULES_VERSION_MAX: u64 = 1 << 48;
    /// The job's working folder.
    pub const WORK: &str = "work";
    /// In an incarnation's folder: the claim, which is the shim's segment.
    pub const CLAIM: &str = "claim";
    /// The job's standard output.
    pub const STDOUT: &str = "stdout.log";
    /// The job's standard error.
    pub const STDERR: &str = "stderr.log";
    /// What the job logged: a JSON object a line. Its path is `NERO_METRICS`.
    pub const LOGGED: &str = "metrics.jsonl";
    /// Limit of the files of metrics that a run's spec names.
    pub const METRIC_FILES_MAX: usize = 8;
    /// Limit of the programs that read a run's output for metrics.
    pub const METRIC_READERS_MAX: usize = 4;
    /// Beginning of the names of what such a program prints and says.
    pub const READER_PREFIX: &str = "reader-";
    /// The variable that such a program lacks: with it, it would count as a process of the job.
    pub const READER_LACKS: &str = "NERO_DIR";
    /// In the run's folder: a folder for each firing of a rule that runs a command here.
    pub const ACTS: &str = "acts";
    /// Locked by the watcher as long as it lives.
    pub const WATCH_LOCK: &str = "watch.lock";
    /// Beginning of the name of what the helper of a host measured.
    pub const HOST_PREFIX: &str = "host.";
    /// Ending of every other segment's name.
    pub const SEGMENT_SUFFIX: &str = ".seg";

    /// The work folder of one incarnation.
    pub fn work_folder(run_dir: &Path, incarnation: u32) -> PathBuf {
        match incarnation {
            0 | 1 => run_dir.join(WORK),
            later => run_dir.join(format!("{WORK}.{later}")),
        }
    }

    /// In the results of a run: the folder for what an earlier start of it left.
    pub fn start_results(incarnation: u32) -> String {
        format!("start-{incarnation}")
    }

    /// In the run's folder: the environment of the programs that read the output of one
    /// incarnation, `NAME=value` with a NUL behind each.
    pub fn reader_environment(run_dir: &Path, incarnation: u32) -> PathBuf {
        run_dir.join(format!("{READER_PREFIX}{incarnation}.env"))
    }

    /// In the run's folder: how the container of one incarnation is spoken to. The path of the
    /// runtime's program, the container's name, then variables, with a NUL behind each.
    pub fn container(run_dir: &Path, incarnation: u32) -> PathBuf {
        run_dir.join(format!("container.{incarnation}"))
    }

    /// In the incarnation's folder: state, exit code, and whether memory ran out, as the runtime
    /// told them once the job's main process was gone; empty: it told of no end.
    pub const CONTAINER_END: &str = "container";
    /// In the incarnation's folder: why the container could not be removed at the last try.
    pub const CONTAINER_FAULT: &str = "container.fault";

    /// Path of [`CONTAINER_END`].
    pub fn container_end(run_dir: &Path, incarnation: u32) -> PathBuf {
        run_dir.join(incarnation.to_string()).join(CONTAINER_END)
    }

    /// Path of [`CONTAINER_FAULT`].
    pub fn container_fault(run_dir: &Path, incarnation: u32) -> PathBuf {
        run_dir.join(incarnation.to_string()).join(CONTAINER_FAULT)
    }

    /// What `nerokid-shim container` does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ContainerVerb {
        /// Removes the containers of earlier starts, then executes the job.
        Start,
        /// Stops its processes where no signal reaches them.
        Pause,
        /// Continues them.
        Resume,
        /// Notes how the job ended, and removes the container.
        Close,
    }

    impl ContainerVerb {
        /// All of them.
        pub const ALL: [Self; 4] = [Self::Start, Self::Pause, Self::Resume, Self::Close];

        /// The verb as an argument.
        pub const fn as_str(self) -> &'static str {
            match self {
                Self::Start => "start",
                Self::Pause => "pause",
                Self::Resume => "resume",
                Self::Close => "close",
            }
        }

        /// The verb that an argument names.
        pub fn from_word(word: &str) -> Option<Self> {
            Self::ALL.into_iter().find(|verb| verb.as_str() == word)
        }
    }

    /// Variables in the environment of the processes of one start of a run, and of no
    /// other's, even if its spec sets them: `NAME=value`.
    pub fn marks(id: RunId, work: &Path) -> Vec<Vec<u8>> {
        let run = format!("NERO_RUN={id}").into_bytes();
        let folder = [b"NERO_DIR=", work.as_os_str().as_encoded_bytes()].concat();
        vec![run, folder]
    }

    /// Name of the rule set of this version, in [`CONTROL`].
    pub fn rules(version: u64) -> String {
        format!("rules.{version}")
    }

    /// Version of the rule set in a file of [`CONTROL`] with this name; `None` for
    /// every other file, and for a version above [`RULES_VERSION_MAX`].
    pub fn rules_version(name: &OsStr) -> Option<u64> {
        let name = name.to_str()?;
        let version = name.strip_prefix("rules.")?.parse().ok()?;
        let is_ours = (1..=RULES_VERSION_MAX).contains(&version) && name == rules(version);
        is_ours.then_some(version)
    }
}

/// A folder in which sockets for `wanted` fit: `wanted` itself when a socket
/// name of up to 24 bytes still fits, else [`short_socket_folder`].
pub fn socket_folder(wanted: &Path) -> PathBuf {
    if socket_fits(wanted) {
        wanted.to_path_buf()
    } else {
        short_socket_folder(wanted)
    }
}

/// The user's own folder below `/tmp` for the sockets of `wanted`, named by
/// hash. It is the same in every session of the user: `$XDG_RUNTIME_DIR` is
/// not set under cron or `su`, and logind removes it at the last logout.
pub fn short_socket_folder(wanted: &Path) -> PathBuf {
    temporary_runtime().join(hash_of(wanted))
}

/// Folder into which an earlier version, in this session, put the sockets of
/// `wanted`; `None` when that is [`socket_folder`].
pub fn earlier_socket_folder(wanted: &Path) -> Option<PathBuf> {
    let runtime = session_runtime().filter(|_| !socket_fits(wanted))?;
    Some(runtime.join(hash_of(wanted)))
}

fn socket_fits(folder: &Path) -> bool {
    folder.as_os_str().len() + 25 <= SOCKET_PATH_MAX
}

fn hash_of(path: &Path) -> String {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    base32(&hash.as_bytes()[..10])
}

/// `$XDG_RUNTIME_DIR/neronet`, where the session has one and paths in it are short.
pub(crate) fn session_runtime() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.as_os_str().len() < 60)
        .map(|path| path.join("neronet"))
}

fn temporary_runtime() -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/tmp/neronet-{uid}"))
}

/// Makes a folder for sockets. Below a folder that several programs of the user
/// share (`/tmp/neronet-UID`, `$XDG_RUNTIME_DIR/neronet`) every level is ours
/// and private, so that no other user can put another folder in its place.
///
/// # Errors
/// As [`make_private`], for each level.
pub fn make_socket_folder(path: &Path) -> io::Result<()> {
    let shared = [Some(temporary_runtime()), session_runtime()];
    let in_shared = |folder: &&Path| {
        let mut roots = shared.iter().flatten();
        roots.any(|root| folder.starts_with(root))
    };
    let levels: Vec<&Path> = path.ancestors().take_while(in_shared).collect();
    for level in levels.iter().rev() {
        make_private(level)?;
    }
    make_private(path)
}

/// Whether a path lies on a file system that other hosts may share, judged by the
/// type of the file system.
///
/// # Errors
/// When the file system of neither the path nor a folder above it can be read.
pub fn may_be_shared(path: &Path) -> io::Result<bool> {
    const NETWORK: [u32; 15] = [
        0x6969,      // NFS
        0x0bd0_0bd0, // Lustre
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
        0x00c3_6400, // CephFS
        0x6573_5546, // FUSE, whatever is behind it
        0x517b,      // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB 2
        0x5346_414f, // AFS
        0x7375_7245, // Coda
        0xaad7_aaea, // PanFS
        0x2003_0528, // OrangeFS
        0x7461_636f, // OCFS2
        0x0116_1970, // GFS2
    ];
    let mut asked = path;
    loop {
        match rustix::fs::statfs(asked) {
            Ok(found) => return Ok(NETWORK.contains(&(found.f_type as u32))),
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        asked = asked.parent().ok_or(io::ErrorKind::NotFound)?;
    }
}

/// Makes a folder and its parents. The folder must belong to us and be closed to
/// others.
///
/// # Errors
/// When the folder cannot be made, belongs to another user, or is a link. The error
/// names the folder, the reason and the remedy.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    let refuse = |why: &str| {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} {why}; remove it or choose another place",
                path.display()
            ),
        )
    };
    if !found.is_dir() {
        return Err(refuse("is not a folder"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refuse("belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}

/// Syncs the folders above a path, as far as they are the user's own: with that
/// the names of new folders survive a power cut.
///
/// # Errors
/// When a folder cannot be synced.
pub fn sync_parents(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied};
    let own = rustix::process::geteuid().as_raw();
    for folder in path.ancestors().skip(1) {
        // A folder of another user was there before ours.
        if fs::metadata(folder)?.uid() != own {
            break;
        }
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // The folder is not readable, or its file system syncs no folders.
            Err(error) if matches!(error.kind(), PermissionDenied | InvalidInput) => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// A file name for text that people chose: itself when it is plain, else a
/// readable part and a hash. Never empty, hidden, or longer than 80 bytes.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '=');
    let ok = !text.is_empty()
        && text.len() <= 80
        && text.chars().all(plain)
        && !text.starts_with(['.', '-']);
    if ok {
        return text.to_owned();
    }
    let hash = blake3::hash(text.as_bytes());
    let readable: String = text
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .skip_while(|c| matches!(c, '.' | '-'))
        .take(48)
        .collect();
    format!("{readable}~{}", base32(&hash.as_bytes()[..5]))
}

/// The last bytes of a file, at most so many.
///
/// # Errors
/// When the file cannot be read.
pub fn tail(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_and_odd_ones_become_safe() {
        assert_eq!(
            file_name("fib_breaktime-0.1_n-10"),
            "fib_breaktime-0.1_n-10"
        );
        for odd in ["", "..", ".", "-rf", "a/b", "a b", "x\ny", "😀", "~"] {
            assert_ne!(file_name(odd), odd, "{odd:?}");
        }
        assert_ne!(file_name("a/b"), file_name("a b"));
    }

    #[test]
    fn long_places_get_a_short_socket_folder() {
        let long = PathBuf::from(format!("/{}", "x".repeat(120)));
        assert!(socket_folder(&long).as_os_str().len() + 25 <= SOCKET_PATH_MAX);
        assert_eq!(socket_folder(Path::new("/a/b")), Path::new("/a/b"));
    }

    #[test]
    fn every_level_of_a_socket_folder_below_tmp_is_private() {
        let long = PathBuf::from(format!("/{}", "y".repeat(120)));
        let folder = socket_folder(&long).join("ssh");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let open = |path: &Path| {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        make_socket_folder(&folder).unwrap();
        let middle = folder.parent().unwrap();
        let top = middle.parent().unwrap();
        assert!(top.starts_with("/tmp"), "{}", top.display());
        for level in [&folder, middle, top] {
            open(level);
            make_socket_folder(&folder).unwrap();
            assert_eq!(mode(level), 0o700, "{}", level.display());
        }
        fs::remove_dir_all(middle).unwrap();
        std::os::unix::fs::symlink("/", middle).unwrap();
        let refused = make_socket_folder(&folder).unwrap_err().to_string();
        fs::remove_file(middle).unwrap();
        assert!(refused.contains("is not a folder"), "{refused}");
    }

    #[test]
    fn sockets_of_a_shared_root_lie_outside_of_it_and_change_with_the_boot() {
        let root = Path::new("/home/somebody/.neronet");
        let paths = NodePaths::new(root, &DeploymentId::random(), "login");
        let first = paths.make_shared_sockets(&[1; 16]).unwrap();
        let again = paths.make_shared_sockets(&[1; 16]).unwrap();
        let rebooted = paths.make_shared_sockets(&[2; 16]).unwrap();
        assert_eq!(first, again);
        assert_ne!(first, rebooted);
        for folder in [first, rebooted] {
            assert!(!folder.starts_with(root), "{}", folder.display());
            assert!(folder.as_os_str().len() + 25 <= SOCKET_PATH_MAX);
            let mode = fs::metadata(&folder).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700);
            fs::remove_dir(folder).unwrap();
        }
    }

    #[test]
    fn a_file_with_a_number_that_no_rule_set_gets_is_no_rule_set() {
        let version = |name: &str| run::rules_version(name.as_ref());
        for known in [1, 12, run::RULES_VERSION_MAX] {
            assert_eq!(version(&run::rules(known)), Some(known));
        }
        for odd in [
            "rules.0",
            "rules.07",
            "rules.+7",
            "rules.",
            "rules.7.new",
            "cancel.7",
            "rules.281474976710657",
            "rules.18446744073709551615",
        ] {
            assert_eq!(version(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_yet_is_judged_by_what_it_will_lie_in() {
        assert!(!may_be_shared(Path::new("/proc/none/such")).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_gives_one_safe_name(text in any::<String>()) {
            let name = file_name(&text);
            prop_assert!(!name.is_empty() && name.len() <= 80);
            prop_assert!(!name.starts_with(['.', '-']) && !name.contains(['/', '\0', '\n']));
        }
    }
}
