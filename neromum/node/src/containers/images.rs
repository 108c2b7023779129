//! The images that this node's agent brought into the store of a runtime. Each has a file from
//! before it is brought, so that one that a kill leaves behind is known.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nero_model::paths::make_private;

use super::Containers;
use super::bring::{ANSWER_MAX, ARCHIVES, ask, image_size, remove_image, sif_name};
use crate::clean::measure::{Size, measure};
use crate::clean::remove;
use crate::staging::container::Runtime;
use crate::staging::environment::Base;

impl Containers {
    /// Where it is noted that an image is brought.
    pub fn note_file(&self, runtime: Runtime, image: &str) -> PathBuf {
        let name = blake3::hash(format!("{} {image}", runtime.name()).as_bytes());
        self.folder
            .join("brought")
            .join(&name.to_hex().as_str()[..32])
    }

    /// Notes an image that is about to be brought.
    ///
    /// # Errors
    /// When the disk refuses it.
    pub fn note(&self, runtime: Runtime, image: &str) -> io::Result<()> {
        make_private(&self.folder.join("brought"))?;
        let text = format!("{}\n{image}", runtime.name());
        let path = self.note_file(runtime, image);
        fs::write(&path, text)?;
        fs::File::open(path)?.sync_all()
    }

    /// The images that were brought: those in stores of runtimes, and files.
    fn brought(&self) -> Vec<BroughtImage> {
        let paths = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let notes = self.folder.join("brought");
        let is_image =
            |path: &PathBuf| *path != notes && path.extension() != Some("sha256".as_ref());
        let files = paths(&self.folder).into_iter().filter(is_image);
        let stored = paths(&notes).into_iter().filter_map(|note| {
            let text = fs::read_to_string(&note).ok()?;
            let (runtime, image) = text.split_once('\n')?;
            let runtime = Runtime::of_name(runtime)?;
            let program = self.base.find(runtime.program())?;
            Some(BroughtImage::Stored {
                runtime,
                program,
                image: image.to_owned(),
                note,
            })
        });
        stored.chain(files.map(BroughtImage::File)).collect()
    }

    /// Size of the images that were brought.
    pub async fn brought_size(&self) -> Size {
        let mut size = Size::default();
        for image in self.brought() {
            size += image.size(&self.base).await;
        }
        size
    }

    /// Removes the images that were brought, but for these, or only measures them. Returns what
    /// stays and why, too.
    pub async fn remove_brought(
        &self,
        kept: &HashSet<String>,
        dry_run: bool,
    ) -> (Size, Vec<String>) {
        let (mut size, mut notes) = (Size::default(), Vec::new());
        for image in self.brought().iter().filter(|image| !image.is_kept(kept)) {
            let freed = image.size(&self.base).await;
            let removed = if dry_run {
                Ok(())
            } else {
                image.remove(&self.base).await
            };
            match removed {
                Ok(()) => size += freed,
                Err(why) => notes.push(format!("the image {} stays: {why}", image.name())),
            }
        }
        if !dry_run {
            self.forget();
            if kept.is_empty() && self.pause_note().exists() {
                notes.extend(self.end_pause().await.err());
            }
        }
        (size, notes)
    }
}

impl Containers {
    /// Where it is noted that podman's pause process was begun for us.
    fn pause_note(&self) -> PathBuf {
        self.folder.join("brought/pause")
    }

    /// Notes podman's pause process where the last question began it.
    pub fn note_pause(&self) {
        if has_pause() && make_private(&self.folder.join("brought")).is_ok() {
            // Without a note it stays, as after any command of podman.
            let _ = fs::write(self.pause_note(), "");
        }
    }

    /// Ends podman's pause process, unless a container needs it.
    async fn end_pause(&self) -> Result<(), String> {
        let Some(program) = self.base.find(Runtime::Podman.program()) else {
            return Ok(());
        };
        let why = |why: String| format!("podman's pause process stays: {why}");
        let listed = ask(&self.base, &program, &["ps", "-q"], ANSWER_MAX).await;
        if !listed.map_err(why)?.is_empty() {
            return Ok(());
        }
        let ended = ask(&self.base, &program, &["system", "migrate"], ANSWER_MAX).await;
        ended.map_err(why)?;
        fs::remove_file(self.pause_note()).map_err(|error| why(error.to_string()))
    }
}

/// Whether podman's pause process of this user lives, which keeps the name space of all of the
/// user's containers without root.
pub fn has_pause() -> bool {
    let own = rustix::process::geteuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut of_user =
        processes.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == own));
    of_user.any(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.ends_with(b"catatonit\0-P\0")
    })
}

/// An image that was brought.
enum BroughtImage {
    /// In the store of a runtime, by its note.
    Stored {
        runtime: Runtime,
        program: PathBuf,
        image: String,
        note: PathBuf,
    },
    /// A file or folder of the node.
    File(PathBuf),
}

impl BroughtImage {
    fn name(&self) -> String {
        match self {
            Self::Stored { image, .. } => image.clone(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Whether one of these is this image. An archive is known by its content, which the name
    /// that a waiting run has for it does not tell.
    fn is_kept(&self, kept: &HashSet<String>) -> bool {
        let is_archive = match self {
            Self::Stored { image, .. } => image.starts_with(ARCHIVES),
            Self::File(path) => {
                let is_pulled = |name: &String| path.file_name() == Some(sif_name(name).as_ref());
                if kept.iter().any(is_pulled) {
                    return true;
                }
                path.extension() != Some("sif".as_ref())
            }
        };
        let is_file = |name: &String| name.starts_with(['.', '/', '~']);
        kept.contains(&self.name()) || is_archive && kept.iter().any(is_file)
    }

    async fn size(&self, base: &Base) -> Size {
        match self {
            Self::Stored { program, image, .. } => image_size(base, program, image).await,
            Self::File(path) if path.is_dir() => measure(path).unwrap_or_default(),
            Self::File(path) => Size {
                bytes: fs::metadata(path).map_or(0, |found| found.len()),
                files: 1,
            },
        }
    }

    async fn remove(&self, base: &Base) -> Result<(), String> {
        let removed = match self {
            Self::Stored {
                runtime,
                program,
                image,
                note,
            } => {
                remove_image(base, *runtime, program, image).await?;
                fs::remove_file(note)
            }
            Self::File(path) if path.is_dir() => {
                remove::empty(path).and_then(|()| fs::remove_dir(path))
            }
            Self::File(path) => fs::remove_file(path),
        };
        removed.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;

    use nero_model::DeploymentId;
    use nero_model::paths::NodePaths;
    use nero_wire::v1::Container;

    use super::*;
    use crate::staging::store::Store;

    /// Stands for docker: its images are the files of a folder, and the registry has `tiny` alone.
    const DOCKER: &str = r#"#!/bin/sh
at=$(dirname "$0")
echo "$*" >>"$at/asked"
[ ! -e "$at/down" ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }
case "$1 $2" in
"version "*) echo 1.0 ;;
"image inspect") [ "$4" != '{{.Size}}' ] || { echo 7; exit; }
    cat "$at/images/$5" 2>/dev/null || cat "$at/images/$3" 2>/dev/null || exit 1 ;;
"image rm") [ ! -e "$at/busy" ] || { echo 'image is in use' >&2; exit 1; }
    rm "$at/images/$3" 2>/dev/null || { echo "No such image: $3" >&2; exit 1; } ;;
"pull -q") [ "$3" = tiny ] || { echo "manifest unknown" >&2; exit 1; }
    echo "sha256:$(date +%N)" >"$at/images/$3" ;;
*) exit 1 ;;
esac
"#;

    struct Rig {
        folder: tempfile::TempDir,
        containers: Arc<Containers>,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let bin = folder.path().join("bin");
            fs::create_dir_all(bin.join("images")).unwrap();
            let docker = bin.join("docker");
            fs::write(&docker, DOCKER).unwrap();
            fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
            let path = format!("{}:/usr/bin:/bin", bin.display());
            let containers = Self::agent(folder.path(), &path);
            Self { folder, containers }
        }

        fn agent(folder: &Path, path: &str) -> Arc<Containers> {
            let id = DeploymentId::from_slice(&[7; 16]).unwrap();
            let paths = NodePaths::new(&folder.join("root"), &id, "h1");
            let base = Base::of([("PATH", path)]);
            let store = Store::new(&paths);
            Arc::new(Containers::new(base, &paths, store, false))
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join("bin").join(name)
        }

        async fn bring(&self, image: &str, pull: &str) -> Result<String, String> {
            let container = Container {
                image: image.to_owned(),
                runtime: "docker".to_owned(),
                pull: pull.to_owned(),
                ..Container::default()
            };
            let brought = self.containers.bring_one(&container).await;
            brought.map(|ready| ready.digest).map_err(|lack| lack.why)
        }

        async fn removed(&self) -> Vec<String> {
            removed(&self.containers).await
        }

        fn images(&self) -> usize {
            fs::read_dir(self.at("images")).unwrap().count()
        }
    }

    async fn removed(containers: &Containers) -> Vec<String> {
        containers.remove_brought(&HashSet::new(), false).await.1
    }

    #[tokio::test]
    async fn of_images_that_were_brought_those_that_a_run_names_stay() {
        let rig = Rig::new();
        rig.bring("tiny", "").await.unwrap();
        let folder = &rig.containers.folder;
        fs::create_dir_all(folder.join("0123")).unwrap();
        fs::write(folder.join("0123/file"), "x").unwrap();
        fs::write(folder.join("python-3-12.sif"), "12345").unwrap();
        assert!(rig.containers.brought_size().await.bytes >= 7 + 5);
        let kept = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (names, dry_run, left) in [
            (&[][..], true, [true, true, true]),
            (
                &["tiny", "./env.tar", "python:3.12"],
                false,
                [true, true, true],
            ),
            (&["tiny", "python:3.12"], false, [true, false, true]),
            (&["python:3.12"], false, [false, false, true]),
            (&[], false, [false, false, false]),
        ] {
            let (_, notes) = rig.containers.remove_brought(&kept(names), dry_run).await;
            assert_eq!(notes, Vec::<String>::new());
            let there = [
                rig.at("images/tiny"),
                folder.join("0123"),
                folder.join("python-3-12.sif"),
            ];
            assert_eq!(there.map(|path| path.exists()), left, "{names:?}");
        }
        assert_eq!(rig.containers.brought_size().await, Size::default());
    }

    #[tokio::test]
    async fn what_was_brought_goes_and_what_was_there_stays() {
        let rig = Rig::new();
        fs::write(rig.at("images/mine"), "sha256:mine").unwrap();
        assert_eq!(rig.bring("mine", "").await.unwrap(), "sha256:mine");
        assert!(rig.bring("tiny", "").await.unwrap().starts_with("sha256:"));
        let refused = rig.bring("absent", "").await.unwrap_err();
        assert!(refused.contains("manifest unknown"), "{refused}");
        assert!(rig.bring("other", "never").await.is_err());
        assert_eq!(rig.images(), 2);
        assert_eq!(rig.removed().await, Vec::<String>::new());
        assert!(rig.at("images/mine").exists() && !rig.at("images/tiny").exists());
        let asked = fs::read_to_string(rig.at("asked")).unwrap();
        assert_eq!(asked.matches("image rm").count(), 1, "{asked}");
    }

    #[tokio::test]
    async fn an_image_that_a_kill_left_behind_is_known_to_the_next_agent() {
        let rig = Rig::new();
        rig.bring("tiny", "").await.unwrap();
        fs::write(rig.at("busy"), "").unwrap();
        let path = format!("{}:/usr/bin:/bin", rig.at("").display());
        let next = Rig::agent(rig.folder.path(), &path);
        let stays = removed(&next).await;
        assert_eq!(stays, ["the image tiny stays: image is in use"]);
        fs::remove_file(rig.at("busy")).unwrap();
        assert_eq!(removed(&next).await, Vec::<String>::new());
        assert_eq!(rig.images(), 0);
        // A pull that was cut off: noted, and nothing is there.
        next.note(Runtime::Docker, "tiny").unwrap();
        assert_eq!(removed(&next).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn without_its_daemon_a_runtime_brings_and_removes_nothing() {
        let rig = Rig::new();
        rig.bring("tiny", "").await.unwrap();
        fs::write(rig.at("down"), "").unwrap();
        let stays = rig.removed().await;
        assert!(stays[0].contains("Cannot connect"), "{stays:?}");
        let path = format!("{}:/usr/bin:/bin", rig.at("").display());
        let next = Rig {
            containers: Rig::agent(rig.folder.path(), &path),
            folder: rig.folder,
        };
        let refused = next.bring("tiny", "").await.unwrap_err();
        assert!(
            refused.starts_with("docker does not work here"),
            "{refused}"
        );
    }
}
