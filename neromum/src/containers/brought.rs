//! The images that this node's agent brought into the store of a runtime. Each has a file from
//! before it is brought, so that one that a kill leaves behind is known.

use std::fs;
use std::io;
use std::path::PathBuf;

use nero_model::paths::make_private;

use super::Containers;
use super::bring::remove_image;
use crate::staging::container::Runtime;

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

    /// Removes the images that were brought, and returns what stays and why. No run may be live.
    pub async fn remove_brought(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let files = fs::read_dir(self.folder.join("brought"));
        for file in files.into_iter().flatten().flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let Some((runtime, image)) = text.split_once('\n') else {
                continue;
            };
            let runtime = Runtime::of_name(runtime);
            let program = runtime.and_then(|runtime| self.base.find(runtime.program()));
            let (Some(runtime), Some(program)) = (runtime, program) else {
                continue;
            };
            if let Err(why) = remove_image(&self.base, runtime, &program, image).await {
                notes.push(format!("the image {image} stays: {why}"));
            }
        }
        self.forget();
        if notes.is_empty()
            && let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            notes.push(format!("{} stays: {error}", self.folder.display()));
        }
        notes
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
    use crate::staging::environment::Base;
    use crate::staging::store::Store;

    /// Stands for docker: its images are the files of a folder, and the registry has `tiny` alone.
    const DOCKER: &str = r#"#!/bin/sh
at=$(dirname "$0")
echo "$*" >>"$at/asked"
[ ! -e "$at/down" ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }
case "$1 $2" in
"version "*) echo 1.0 ;;
"image inspect") cat "$at/images/$5" 2>/dev/null || cat "$at/images/$3" 2>/dev/null || exit 1 ;;
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

        fn images(&self) -> usize {
            fs::read_dir(self.at("images")).unwrap().count()
        }
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
        assert_eq!(rig.containers.remove_brought().await, Vec::<String>::new());
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
        let stays = next.remove_brought().await;
        assert_eq!(stays, ["the image tiny stays: image is in use"]);
        fs::remove_file(rig.at("busy")).unwrap();
        assert_eq!(next.remove_brought().await, Vec::<String>::new());
        assert_eq!(rig.images(), 0);
        // A pull that was cut off: noted, and nothing is there.
        next.note(Runtime::Docker, "tiny").unwrap();
        assert_eq!(next.remove_brought().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn without_its_daemon_a_runtime_brings_and_removes_nothing() {
        let rig = Rig::new();
        rig.bring("tiny", "").await.unwrap();
        fs::write(rig.at("down"), "").unwrap();
        let stays = rig.containers.remove_brought().await;
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
