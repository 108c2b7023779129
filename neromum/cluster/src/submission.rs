//! The files of one submission to a scheduler: plan, script, and the news of its
//! starts, which are names. The leader makes and reads them, `neromum job` reads
//! the plan and adds the news. See `docs/design/schedulers.md`.

mod news;
mod plan;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1;
use nero_model::paths::make_private;
use rustix::fs::{FlockOperation, flock};

pub use news::{News, StartId, began, launched_by};
pub use plan::{AdoptedJob, Plan, PlanError, Task, TaskRun};

/// A submission's folder.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// The submission in this folder.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of the news.
    pub fn starts(&self) -> PathBuf {
        self.folder.join("starts")
    }

    /// Log of one task: of all its starts, and of their launchers.
    pub fn log(&self, task: u32) -> PathBuf {
        self.folder.join(format!("{task}.log"))
    }

    /// The file of a piece of news.
    pub fn path(&self, news: News) -> PathBuf {
        self.starts().join(news.to_string())
    }

    /// Makes the folder with plan and script, all of it synced. A repetition after
    /// a crash makes what is missing.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn make(&self, plan: &Plan, script: &str) -> io::Result<()> {
        make_private(&self.starts())?;
        let path = self.folder.join("script");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(script.as_bytes())?;
        file.sync_all()?;
        match frame::create_synced(FrameKind::Plan, &self.plan(), &plan.encoded()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        sync_folder(&self.folder)?;
        nero_model::paths::sync_parents(&self.folder)
    }

    /// The file that the processes of a call keep locked.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn lock_for_a_call(&self) -> io::Result<File> {
        let file = File::open(self.folder.join("script"))?;
        // Without locks on this file server it is never seen to be free, either.
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockShared) {
            tracing::info!(%error, "the script of a submission cannot be locked");
        }
        Ok(file)
    }

    /// Whether no process of a call is left, on any host.
    pub fn is_call_over(&self) -> bool {
        let file = File::open(self.folder.join("script"));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
    }

    /// The plan, which is as old as the submission.
    pub fn plan(&self) -> PathBuf {
        self.folder.join("plan")
    }

    /// Reads the plan.
    ///
    /// # Errors
    /// When it cannot be used; it is left untouched.
    pub fn read_plan(&self) -> Result<Plan, PlanError> {
        let path = self.plan();
        let read = frame::read::<v1::Plan>(FrameKind::Plan, &path);
        let encoded = read.map_err(|source| PlanError::Read {
            path: path.clone(),
            source,
        })?;
        Plan::decoded(&encoded, &path)
    }

    /// All news. Names of others are left out.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn news(&self) -> io::Result<Vec<News>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.starts())? {
            let name = entry?.file_name();
            all.extend(name.to_str().and_then(|name| name.parse::<News>().ok()));
        }
        Ok(all)
    }

    /// Gives tasks up: from now on no start of them launches anything. Returns the news
    /// that lie there after that.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn close(&self, tasks: &[u32]) -> io::Result<Vec<News>> {
        for task in tasks {
            self.note(News::Closed(*task), false)?;
        }
        sync_folder(&self.starts())?;
        self.news()
    }

    /// Whether the leader gave this task up. A caller that has just made a name here
    /// sees every one that was made before, also on a file server.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn is_closed(&self, task: u32) -> io::Result<bool> {
        self.path(News::Closed(task)).try_exists()
    }

    /// Makes a name without content; it may be there already. With `synced` the
    /// name survives a power cut.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn note(&self, news: News, synced: bool) -> io::Result<()> {
        let made = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path(news));
        made?;
        if synced {
            sync_folder(&self.starts())
        } else {
            Ok(())
        }
    }
}

/// Syncs the names in a folder.
///
/// # Errors
/// When the disk refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
