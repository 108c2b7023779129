//! Brings one image: pulls a name, loads an archive, unpacks a folder.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_model::ids::hex;
use nero_wire::v1::{Container, RunSpec};
use tokio::process::Command;

use super::{Containers, ImageLack, ReadyImage, refusal};
use crate::clean::measure::Size;
use crate::staging::container::Runtime;
use crate::staging::environment::Base;
use crate::staging::store::Store;
use crate::staging::tree;

/// Time limit of a question.
pub const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Time limit of a pull, or of an archive that is loaded.
const BRING_MAX: Duration = Duration::from_secs(6 * 3600);
/// Pause between two looks whether another neromum brings the same image.
const TURN_PAUSE: Duration = Duration::from_millis(250);
/// Free bytes below which a disk without room is the reason why an archive is not unpacked.
const ROOM_MIN: u64 = 1 << 20;
/// Name of images that were made of archives.
pub const ARCHIVES: &str = "localhost/nero-archive";

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A registry, by its name.
    Name(String),
    /// A file or folder of the node.
    Path(PathBuf),
    /// A file that travels with the run, by its content.
    Frozen([u8; 32]),
}

/// The content of an image that travels with the run: a path below the experiment's folder.
pub fn frozen(image: &str, spec: &RunSpec, store: &Store) -> Option<[u8; 32]> {
    let name = image.strip_prefix("./")?;
    let tree = tree::load(&store.view(), &spec.tree).ok()?;
    let entry = tree.entries.into_iter().find(|entry| entry.path == name)?;
    entry.hash.try_into().ok()
}

impl ImageSource {
    /// Of what a run asks for.
    pub fn of(image: &str, content: Option<[u8; 32]>) -> Result<Self, ImageLack> {
        if let Some(content) = content {
            return Ok(Self::Frozen(content));
        }
        if image.starts_with("./") {
            return Err(refusal(format!(
                "the image {image} did not travel with the run"
            )));
        }
        if let Some(rest) = image.strip_prefix("~/") {
            let home = std::env::var("HOME").unwrap_or_default();
            return Ok(Self::Path(Path::new(&home).join(rest)));
        }
        Ok(if image.starts_with('/') {
            Self::Path(image.into())
        } else {
            Self::Name(image.to_owned())
        })
    }

    /// Whether hosts that share files share the image.
    pub fn is_file(&self) -> bool {
        !matches!(self, Self::Name(_))
    }

    /// Whether a runtime can take it.
    pub fn fits(&self, runtime: Runtime) -> bool {
        let is = |extension: &str| match self {
            Self::Path(path) => path.extension().is_some_and(|found| found == extension),
            Self::Name(_) | Self::Frozen(_) => false,
        };
        let is_folder = matches!(self, Self::Path(path) if path.is_dir());
        match runtime {
            Runtime::Podman | Runtime::Docker => !is("sif") && !is("sqfs") && !is_folder,
            Runtime::Apptainer | Runtime::Singularity => true,
            Runtime::Charliecloud => !is("sif") && !matches!(self, Self::Name(_)),
        }
    }
}

/// The version of a runtime that does what it is asked.
///
/// # Errors
/// Its complaint.
pub async fn version(base: &Base, runtime: Runtime, program: &Path) -> Result<String, String> {
    let words: &[&str] = match runtime {
        Runtime::Docker => &["version", "--format", "{{.Server.Version}}"],
        Runtime::Podman => &["info", "--format", PODMAN_FACTS],
        Runtime::Apptainer | Runtime::Singularity | Runtime::Charliecloud => &["--version"],
    };
    let (said, beside) = answer(base, program, words, ANSWER_MAX).await?;
    // Charliecloud prints it on standard error.
    let said = if said.is_empty() { beside } else { said };
    match runtime {
        Runtime::Podman => podman_version(&said),
        Runtime::Docker | Runtime::Apptainer | Runtime::Singularity | Runtime::Charliecloud => {
            Ok(said)
        }
    }
}

/// The version of podman, and the sizes of the ranges of user ids that it has without root. The
/// question begins its pause process as well, outside of any run.
const PODMAN_FACTS: &str = "{{.Version.Version}}{{range .Host.IDMappings.UIDMap}} {{.Size}}{{end}}";

/// The version, unless podman has no ids but the user's own: an image with files of others cannot
/// be unpacked then, and none is started with that user's id.
fn podman_version(facts: &str) -> Result<String, String> {
    let (version, sizes) = facts.split_once(' ').unwrap_or((facts, ""));
    if sizes.trim() == "1" {
        return Err(
            "this user has no range of subordinate ids: have lines `USER:100000:65536` put into \
             /etc/subuid and /etc/subgid, then type `podman system migrate`"
                .to_owned(),
        );
    }
    Ok(version.to_owned())
}

/// Waits until no other neromum of this user brings this image, whichever home it serves: then it
/// is there. The file is the turn's lock. Without it an image is brought twice, which does no harm.
async fn turn(runtime: Runtime, source: &ImageSource) -> Option<File> {
    let image = match source {
        ImageSource::Name(name) => name.clone(),
        ImageSource::Path(path) => path.display().to_string(),
        ImageSource::Frozen(content) => hex(content),
    };
    let folder = nero_journal::gpus::folder().with_file_name("images");
    nero_journal::gpus::make_folder(&folder).ok()?;
    let name = blake3::hash(format!("{} {image}", runtime.name()).as_bytes());
    let path = folder.join(&hex(name.as_bytes())[..32]);
    let file = File::create(path).ok()?;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(TURN_PAUSE).await,
            Err(TryLockError::Error(_)) => return None,
        }
    }
}

/// Makes an image ready.
pub async fn bring(
    containers: &Containers,
    runtime: Runtime,
    program: &Path,
    source: &ImageSource,
    container: &Container,
) -> Result<ReadyImage, ImageLack> {
    let _turn = turn(runtime, source).await;
    let (name, digest) = match runtime {
        Runtime::Podman | Runtime::Docker => {
            in_store(containers, (runtime, program), source, container).await?
        }
        Runtime::Apptainer | Runtime::Singularity => {
            as_sif(containers, program, source, container).await?
        }
        Runtime::Charliecloud => as_folder(containers, source, container).await?,
    };
    Ok(ReadyImage {
        runtime,
        program: program.to_path_buf(),
        name,
        digest,
    })
}

/// An image in the store of podman or docker.
async fn in_store(
    containers: &Containers,
    (runtime, program): (Runtime, &Path),
    source: &ImageSource,
    container: &Container,
) -> Result<(String, String), ImageLack> {
    let base = &containers.base;
    let id = async |name: &str| {
        let words = ["image", "inspect", "--format", "{{.Id}}", name];
        let id = ask(base, program, &words, ANSWER_MAX).await?;
        // Podman leaves out what the digest is made with.
        Ok::<_, String>(format!("sha256:{}", id.trim_start_matches("sha256:")))
    };
    let failed = |what: &str, why: String| {
        refusal(format!(
            "the image {} cannot be {what}: {why}",
            container.image
        ))
    };
    let (name, archive) = match source {
        ImageSource::Name(name) => {
            let before = id(name).await.ok();
            if let Some(id) = before.clone().filter(|_| container.pull != "always") {
                return Ok((name.clone(), id));
            }
            if container.pull == "never" {
                return Err(failed(
                    "had",
                    "it is not here, and `pull: never`".to_owned(),
                ));
            }
            pull(containers, (runtime, program), name, before)
                .await
                .map_err(|why| failed("pulled", why))?;
            (name.clone(), None)
        }
        ImageSource::Frozen(hash) => {
            let path =
                frozen_file(containers, hash).map_err(|error| failed("read", error.to_string()))?;
            (format!("{ARCHIVES}:{}", &hex(hash)[..32]), Some(path))
        }
        ImageSource::Path(path) => {
            let stamp = stamp(path)
                .map_err(|error| failed("read", format!("{}: {error}", path.display())))?;
            (format!("{ARCHIVES}:{stamp}"), Some(path.clone()))
        }
    };
    if let Some(path) = archive
        && id(&name).await.is_err()
    {
        let noted = containers.note(runtime, &name);
        noted.map_err(|error| failed("noted", error.to_string()))?;
        load(base, program, &path, &name)
            .await
            .map_err(|why| failed("loaded", why))?;
    }
    let id = id(&name).await.map_err(|why| failed("had", why))?;
    Ok((name, id))
}

/// Pulls an image, and notes before that it is brought. `before`: the one of this name that is here.
async fn pull(
    containers: &Containers,
    (runtime, program): (Runtime, &Path),
    name: &str,
    before: Option<String>,
) -> Result<(), String> {
    let note = containers.note_file(runtime, name);
    let noted = match &before {
        None => containers.note(runtime, name),
        // An older one, which has no name when a newer one is here.
        Some(id) if note.exists() => containers.note(runtime, id),
        Some(_) => Ok(()),
    };
    noted.map_err(|error| format!("cannot note that: {error}"))?;
    let pulled = ask(&containers.base, program, &["pull", "-q", name], BRING_MAX).await;
    if pulled.is_err() && before.is_none() {
        // What stays is looked for in vain when images are removed.
        let _ = std::fs::remove_file(note);
    }
    pulled.map(drop)
}

/// Size of an image in a runtime's store; nothing when it is not there.
pub async fn image_size(base: &Base, program: &Path, image: &str) -> Size {
    let words = ["image", "inspect", "--format", "{{.Size}}", image];
    let told = ask(base, program, &words, ANSWER_MAX).await;
    let bytes = told.ok().and_then(|told| told.parse().ok());
    bytes.map_or_else(Size::default, |bytes| Size { bytes, files: 1 })
}

/// Removes an image, unless a container uses it.
///
/// # Errors
/// The runtime's complaint.
pub async fn remove_image(
    base: &Base,
    runtime: Runtime,
    program: &Path,
    image: &str,
) -> Result<(), String> {
    let Err(why) = ask(base, program, &["image", "rm", image], ANSWER_MAX).await else {
        return Ok(());
    };
    let is_there = ask(base, program, &["image", "inspect", image], ANSWER_MAX).await;
    if is_there.is_err() && version(base, runtime, program).await.is_ok() {
        return Ok(());
    }
    Err(why)
}

/// The path of a file that travelled with a run.
fn frozen_file(containers: &Containers, hash: &[u8; 32]) -> std::io::Result<PathBuf> {
    let path = containers.store.path(hash);
    if path.exists() {
        return Ok(path);
    }
    // Small files lie in packs.
    std::fs::create_dir_all(&containers.folder)?;
    let copy = containers.folder.join(hex(hash));
    if !copy.exists() {
        containers.store.view().copy(hash, &copy, 0o600)?;
    }
    Ok(copy)
}

/// Loads an archive of an image, or of a root file system, under a name.
async fn load(base: &Base, program: &Path, path: &Path, name: &str) -> Result<(), String> {
    let file = path.display().to_string();
    let why = match ask(base, program, &["load", "-i", &file], BRING_MAX).await {
        Ok(said) => {
            let loaded = said
                .rsplit_once(": ")
                .map_or(said.as_str(), |(_, loaded)| loaded);
            return ask(base, program, &["tag", loaded.trim(), name], ANSWER_MAX)
                .await
                .map(drop);
        }
        Err(why) => why,
    };
    // A root file system has no list of layers.
    let imported = ask(base, program, &["import", &file, name], BRING_MAX).await;
    let both = |other: String| format!("{why}; as a root file system: {other}");
    imported.map(drop).map_err(both)
}

/// An image file of apptainer.
async fn as_sif(
    containers: &Containers,
    program: &Path,
    source: &ImageSource,
    container: &Container,
) -> Result<(String, String), ImageLack> {
    let base = &containers.base;
    let failed = |why: String| {
        refusal(format!(
            "the image {} cannot be had: {why}",
            container.image
        ))
    };
    match source {
        ImageSource::Path(path) => {
            stamp(path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
            Ok((path.display().to_string(), digest(containers, path).await))
        }
        ImageSource::Frozen(hash) => {
            let path = frozen_file(containers, hash).map_err(|error| failed(error.to_string()))?;
            Ok((path.display().to_string(), digest(containers, &path).await))
        }
        ImageSource::Name(name) => {
            let file = sif_name(name);
            let path = containers.folder.join(&file);
            if !path.exists() && container.pull == "never" {
                return Err(failed("it is not here, and `pull: never`".to_owned()));
            }
            if !path.exists() || container.pull == "always" {
                let private = containers
                    .folder
                    .join(format!(".{file}-{}", std::process::id()));
                make_folder(&containers.folder).map_err(failed)?;
                let (to, from) = (private.display().to_string(), uri(name));
                ask(base, program, &["pull", "--force", &to, &from], BRING_MAX)
                    .await
                    .map_err(failed)?;
                std::fs::rename(&private, &path).map_err(|error| failed(error.to_string()))?;
            }
            Ok((path.display().to_string(), digest(containers, &path).await))
        }
    }
}

/// The file of an image of a registry.
pub fn sif_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
    format!("{}.sif", name.chars().map(plain).collect::<String>())
}

fn uri(name: &str) -> String {
    if name.contains("://") {
        name.to_owned()
    } else {
        format!("docker://{name}")
    }
}

/// A folder for charliecloud.
async fn as_folder(
    containers: &Containers,
    source: &ImageSource,
    container: &Container,
) -> Result<(String, String), ImageLack> {
    let image = &container.image;
    let failed = |why: String| refusal(format!("the image {image} cannot be had: {why}"));
    let (archive, stamp) = match source {
        ImageSource::Name(name) => {
            return Err(refusal(format!(
                "charliecloud here takes a folder or an archive, not {name}"
            )));
        }
        ImageSource::Path(path) if path.is_dir() => {
            mount_point(containers, path).map_err(failed)?;
            return Ok((path.display().to_string(), String::new()));
        }
        ImageSource::Path(path) => {
            let stamp =
                stamp(path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
            (path.clone(), stamp)
        }
        ImageSource::Frozen(hash) => {
            let path = frozen_file(containers, hash).map_err(|error| failed(error.to_string()))?;
            (path, hex(hash)[..32].to_owned())
        }
    };
    let folder = containers.folder.join(&stamp);
    if !folder.is_dir() {
        let private = containers.folder.join(format!(".{stamp}"));
        // It is our turn: what lies there was left by an agent that died at it.
        let _ = std::fs::remove_dir_all(&private);
        make_folder(&private).map_err(failed)?;
        let (from, to) = (archive.display().to_string(), private.display().to_string());
        let unpacked = ask(
            &containers.base,
            Path::new("tar"),
            &["-C", &to, "-xf", &from, "--exclude=./dev/*"],
            BRING_MAX,
        )
        .await;
        let unpacked = unpacked.map(drop).and_then(|()| complete(&private));
        let unpacked = unpacked
            .and_then(|()| std::fs::rename(&private, &folder).map_err(|error| error.to_string()));
        if let Err(mut why) = unpacked {
            let disk = rustix::fs::statvfs(&private);
            if disk.is_ok_and(|disk| disk.f_bavail * disk.f_frsize < ROOM_MIN) {
                why = format!("the disk is full: {why}");
            }
            // Half an image is of no use; what stays is not used.
            let _ = std::fs::remove_dir_all(&private);
            return Err(failed(why));
        }
    }
    mount_point(containers, &folder).map_err(failed)?;
    let digest = digest(containers, &archive).await;
    Ok((folder.display().to_string(), digest))
}

/// The digest of an image file, which is read once as long as the file stays as it is: large ones
/// take minutes. Empty: it cannot be had, which keeps no run from its start.
async fn digest(containers: &Containers, path: &Path) -> String {
    /// Characters of a SHA-256 in hexadecimal.
    const CHARS: usize = 64;
    let Ok(stamp) = stamp(path) else {
        return String::new();
    };
    if path.is_dir() {
        return String::new();
    }
    let known = containers.folder.join(format!("{stamp}.sha256"));
    let found = std::fs::read_to_string(&known).unwrap_or_default();
    if found.len() == CHARS {
        return format!("sha256:{found}");
    }
    let file = path.display().to_string();
    let words = ["--", file.as_str()];
    let said = ask(&containers.base, Path::new("sha256sum"), &words, BRING_MAX).await;
    let said = said.unwrap_or_default();
    // It begins with a backslash where the name has odd characters.
    let sum: String = said.trim_start_matches('\\').chars().take(CHARS).collect();
    if sum.len() < CHARS {
        return String::new();
    }
    // It is computed anew where it cannot be kept.
    let _ = make_folder(&containers.folder).map(|()| std::fs::write(&known, &sum));
    format!("sha256:{sum}")
}

/// What `ch-run` wants to find in an image.
fn complete(folder: &Path) -> Result<(), String> {
    for name in [
        "home", "root", "mnt", "run", "var/tmp", "tmp", "proc", "sys", "dev", "etc",
    ] {
        make_folder(&folder.join(name))?;
    }
    for name in ["etc/group", "etc/hosts", "etc/passwd", "etc/resolv.conf"] {
        let made = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(name));
        made.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Makes the one folder in an image that the folders of all runs are seen below.
fn mount_point(containers: &Containers, image: &Path) -> Result<(), String> {
    let root = containers
        .root
        .strip_prefix("/")
        .unwrap_or(&containers.root);
    // What the host's own folders cover needs no folder in the image.
    if root.starts_with("tmp") {
        Ok(())
    } else {
        make_folder(&image.join(root))
    }
}

fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A name for the content of a file, as it is now.
fn stamp(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path)?;
    let text = format!(
        "{} {} {} {}",
        path.display(),
        found.len(),
        found.mtime(),
        found.mtime_nsec()
    );
    Ok(hex(&blake3::hash(text.as_bytes()).as_bytes()[..16]))
}

/// Output of a command.
///
/// # Errors
/// The line of its complaint that tells most.
pub async fn ask(
    base: &Base,
    program: &Path,
    words: &[&str],
    limit: Duration,
) -> Result<String, String> {
    let (said, _) = answer(base, program, words, limit).await?;
    Ok(said)
}

/// The same, with what it printed on standard error.
async fn answer(
    base: &Base,
    program: &Path,
    words: &[&str],
    limit: Duration,
) -> Result<(String, String), String> {
    let asked = Command::new(program)
        .args(words)
        .envs(base.each())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let said = tokio::time::timeout(limit, asked.wait_with_output())
        .await
        .map_err(|_| format!("{} gives no answer", program.display()))?
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let complaint = text(&said.stderr);
    if said.status.success() {
        return Ok((text(&said.stdout), complaint));
    }
    // These lines tell only that there were others, and formats that the file might have had.
    let others = ["tar: Exiting", "tar: Error is not recoverable", " * "];
    let tells = |line: &&str| {
        !line.trim().is_empty() && !others.iter().any(|begin| line.starts_with(begin))
    };
    let line = complaint.lines().rfind(tells);
    Err(nero_model::safe::Safe::line(line.unwrap_or("no reason was given")).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_needs_ids_beside_the_users_own() {
        assert_eq!(podman_version("4.3.1"), Ok("4.3.1".to_owned()));
        assert_eq!(podman_version("4.3.1 1 65536"), Ok("4.3.1".to_owned()));
        let why = podman_version("4.3.1 1").unwrap_err();
        assert!(why.contains("/etc/subuid"), "{why}");
    }
}
