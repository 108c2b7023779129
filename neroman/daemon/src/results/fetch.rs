//! Fetching one run's logs and files into a folder of its own.

use std::collections::HashSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use nero_format::{Definition, Stream};
use nero_model::ids::{hex, random};
use nero_model::paths::file_name;
use nero_model::paths::run::{STDERR, STDOUT};
use nero_model::safe::Safe;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::io::AsyncWriteExt as _;
use tonic::transport::Channel;

use crate::core::run::Run;
use crate::failure::Failure;

/// Of a log that nobody asked for, the end is kept.
const LOG_BYTES: u64 = 1024 * 1024;
/// Larger files stay on the node unless `max:` says otherwise.
const FILE_BYTES: u64 = 1 << 30;
/// Files of one run.
const FILES_MAX: usize = 100_000;
/// Levels of folders below the results.
const DEPTH_MAX: usize = 64;
/// How long a list of files may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Notes kept of one run.
const NOTES_MAX: usize = 200;

/// Fetches everything that is to come home; returns what is to be said.
///
/// # Errors
/// When something failed that may succeed later.
pub(super) async fn all(
    client: MumClient<Channel>,
    definition: &Definition,
    run: &Run,
    folder: &Path,
) -> Result<Vec<String>, Failure> {
    let mut fetch = Fetch {
        client,
        run: v1::RunRef {
            token: run.made.token.to_vec(),
            experiment: run.made.id.experiment.0,
            number: run.made.id.number,
        },
        folder: folder.to_path_buf(),
        notes: Vec::new(),
    };
    let gone = run.journal.newest().and_then(|(_, one)| one.gone.as_ref());
    let named = |stream: Stream| {
        definition
            .outputs
            .iter()
            .any(|output| output.stream == Some(stream))
    };
    for (stream, stderr, bytes) in [
        (
            Stream::Stdout,
            false,
            gone.map_or(0, |gone| gone.stdout_bytes),
        ),
        (
            Stream::Stderr,
            true,
            gone.map_or(0, |gone| gone.stderr_bytes),
        ),
    ] {
        if bytes > 0 || named(stream) {
            fetch.log(stderr, bytes, named(stream)).await?;
        }
    }
    let globs: Vec<String> = definition
        .outputs
        .iter()
        .filter(|output| output.stream.is_none())
        .map(|output| output.path.clone())
        .collect();
    if !globs.is_empty() {
        fetch.files(globs, definition, run).await?;
    }
    fetch.notes.truncate(NOTES_MAX);
    Ok(fetch.notes)
}

struct Fetch {
    client: MumClient<Channel>,
    run: v1::RunRef,
    folder: PathBuf,
    notes: Vec<String>,
}

impl Fetch {
    async fn log(&mut self, stderr: bool, bytes: u64, whole: bool) -> Result<(), Failure> {
        let name = if stderr { STDERR } else { STDOUT };
        let cut = !whole && bytes > LOG_BYTES;
        let request = v1::ReadLogRequest {
            run: Some(self.run.clone()),
            stderr,
            offset: if cut { -(LOG_BYTES as i64) } else { 0 },
            max_bytes: if whole { 0 } else { LOG_BYTES },
            ..v1::ReadLogRequest::default()
        };
        let mut parts = self
            .client
            .read_log(request)
            .await
            .map_err(|status| Failure::node(format!("cannot fetch {name}")).status(&status))?
            .into_inner();
        let mut file = Whole::begin(&self.folder, name).await?;
        while let Some(part) = parts
            .message()
            .await
            .map_err(|status| Failure::node(format!("cannot fetch {name}")).status(&status))?
        {
            file.write(&part.data).await?;
            if part.end {
                break;
            }
        }
        file.finish().await?;
        if cut {
            self.notes.push(format!(
                "{name} holds the last {LOG_BYTES} of {bytes} bytes; `outputs: [{}]` brings it whole",
                if stderr { "stderr" } else { "stdout" }
            ));
        }
        Ok(())
    }

    async fn files(
        &mut self,
        globs: Vec<String>,
        definition: &Definition,
        run: &Run,
    ) -> Result<(), Failure> {
        let mut request = tonic::Request::new(v1::ListFilesRequest {
            run: Some(self.run.clone()),
            globs,
            incarnation: 0,
        });
        request.set_timeout(PATIENCE);
        let list = self
            .client
            .list_files(request)
            .await
            .map_err(|status| Failure::node("cannot list the outputs").status(&status))?
            .into_inner();
        for left_out in list.left_out.iter().take(NOTES_MAX) {
            self.note(format!("left on the node: {}", Safe::line(left_out)));
        }
        // The largest bound that any output gives holds for all: a glob does
        // not say here which files it found.
        let most = definition
            .outputs
            .iter()
            .filter(|output| output.stream.is_none())
            .map(|output| output.max_bytes.unwrap_or(FILE_BYTES))
            .max()
            .unwrap_or(FILE_BYTES);
        if list.files.len() > FILES_MAX {
            self.note(format!(
                "{} files are too many; the first {FILES_MAX} came home",
                list.files.len()
            ));
        }
        let mut taken: HashSet<PathBuf> = HashSet::new();
        for entry in list.files.iter().take(FILES_MAX) {
            let shown = Safe::line(&entry.path).to_string();
            if entry.size > most {
                self.note(format!(
                    "{shown} has {} bytes and stays on {}: cp '{}' .",
                    entry.size,
                    run.node_word(),
                    Safe::line(&format!("{}/{}", list.work, entry.path)),
                ));
                continue;
            }
            let Some(path) = safe_path(&entry.path).filter(|path| taken.insert(path.clone()))
            else {
                self.note(format!("{shown} has no name that can be kept"));
                continue;
            };
            self.file(entry, &path, most).await?;
        }
        Ok(())
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text);
        }
    }

    async fn file(&mut self, entry: &v1::FileEntry, path: &Path, most: u64) -> Result<(), Failure> {
        let shown = Safe::line(&entry.path).to_string();
        let folder = self.subfolder(path).await?;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| Failure::bug("a safe path has no name"))?;
        let there = tokio::fs::symlink_metadata(folder.join(name)).await;
        if there.is_ok_and(|found| {
            found.is_file() && found.len() == entry.size && resumed(&found, entry)
        }) {
            return Ok(());
        }
        let request = v1::ReadFileRequest {
            run: Some(self.run.clone()),
            path: entry.path.clone(),
            ..v1::ReadFileRequest::default()
        };
        let failed =
            |status: tonic::Status| Failure::node(format!("cannot fetch {shown}")).status(&status);
        let mut parts = match self.client.read_file(request).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if status.code() == tonic::Code::NotFound => {
                self.note(format!("{shown} vanished before it came home"));
                return Ok(());
            }
            Err(status) => return Err(failed(status)),
        };
        let mut file = Whole::begin(&folder, name).await?;
        let mut bytes = 0;
        let mut changed = false;
        while let Some(part) = parts.message().await.map_err(failed)? {
            bytes += part.data.len() as u64;
            if bytes > most {
                file.give_up().await;
                self.note(format!(
                    "{shown} grew beyond {most} bytes and stays on the node"
                ));
                return Ok(());
            }
            file.write(&part.data).await?;
            changed |= part.changed;
        }
        file.keep_time(entry.modified_ms);
        file.finish().await?;
        if changed {
            self.note(format!("{shown} changed while it was fetched"));
        }
        Ok(())
    }

    /// Makes the folders of a safe path, none of them a link.
    async fn subfolder(&self, path: &Path) -> Result<PathBuf, Failure> {
        let mut folder = self.folder.clone();
        let parent = path.parent().unwrap_or(Path::new(""));
        for part in parent.components() {
            folder.push(part);
            match tokio::fs::create_dir(&folder).await {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(unwritten(&folder, &error));
                }
                _ => {}
            }
            let found = tokio::fs::symlink_metadata(&folder)
                .await
                .map_err(|error| unwritten(&folder, &error))?;
            if !found.is_dir() {
                return Err(Failure::failed(format!(
                    "{} is no folder, and a result has to go below it",
                    folder.display()
                )));
            }
        }
        Ok(folder)
    }
}

/// A file that came whole in an earlier try has the time of the original.
fn resumed(found: &std::fs::Metadata, entry: &v1::FileEntry) -> bool {
    found
        .modified()
        .ok()
        .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
        .is_some_and(|since| i64::try_from(since.as_millis()).ok() == Some(entry.modified_ms))
}

/// A path below the results, made of safe names; none when it leads elsewhere.
fn safe_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    if text.is_empty() || path.components().count() > DEPTH_MAX {
        return None;
    }
    path.components()
        .map(|part| match part {
            Component::Normal(name) => Some(file_name(name.to_str()?)),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}", path.display())).caused_by(error)
}

/// A file that appears under its name only when it is whole.
struct Whole {
    file: tokio::fs::File,
    private: PathBuf,
    path: PathBuf,
    modified_ms: Option<i64>,
}

impl Whole {
    async fn begin(folder: &Path, name: &str) -> Result<Self, Failure> {
        let private = folder.join(format!(".{}.part", hex(&random::<8>())));
        let file = tokio::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&private)
            .await
            .map_err(|error| unwritten(&private, &error))?;
        Ok(Self {
            file,
            private,
            path: folder.join(name),
            modified_ms: None,
        })
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.file
            .write_all(data)
            .await
            .map_err(|error| unwritten(&self.path, &error))
    }

    /// Gives the file the time of the original.
    fn keep_time(&mut self, modified_ms: i64) {
        self.modified_ms = Some(modified_ms);
    }

    async fn finish(mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| unwritten(&self.path, &error);
        self.file.flush().await.map_err(failed)?;
        let file = self.file.into_std().await;
        let at = self
            .modified_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .and_then(|ms| std::time::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        if let Some(at) = at {
            file.set_modified(at)
                .map_err(|error| unwritten(&self.path, &error))?;
        }
        drop(file);
        tokio::fs::rename(&self.private, &self.path)
            .await
            .map_err(|error| unwritten(&self.path, &error))
    }

    async fn give_up(self) {
        // Nothing but a hidden name would be left.
        let _ = tokio::fs::remove_file(&self.private).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_folder() {
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert_eq!(safe_path(bad), None, "{bad}");
        }
        assert_eq!(safe_path("a/model.pt"), Some(PathBuf::from("a/model.pt")));
        let odd = safe_path("a b/\u{1b}[31m").unwrap();
        assert!(odd.to_str().unwrap().chars().all(|c| c.is_ascii_graphic()));
        assert_eq!(odd.components().count(), 2);
    }
}
