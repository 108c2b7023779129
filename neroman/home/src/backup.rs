//! A copy of the whole home in one file, consistent while the daemon works.
//!
//! `state.db` is copied first. What it names was in the store before, and stays there: only what
//! no run names is ever removed. `series.db` may be newer, which adds no point twice.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::Home;
use nero_wire::v1;
use serde::{Deserialize, Serialize};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::failure::Failure;

/// What lies in the data folder and is no part of a backup: copies of the databases are made
/// anew, locks and looks at transfers are of this process.
const LEFT_OUT: &[&str] = &[
    "backups",
    "daemon.lock",
    "start.lock",
    "fetching",
    "restored",
    "restoring",
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "state.db.open",
    "series.db",
    "series.db-wal",
    "series.db-shm",
    "series.db.open",
];

/// How often the store is listed anew, since packs were joined meanwhile.
const LISTINGS_MAX: usize = 32;

/// What a backup tells of itself; lies in it as `backup.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BackupNote {
    /// Counts up with changes that an older build cannot restore.
    pub format: u32,
    pub made_ms: i64,
    pub host: String,
    /// `/etc/machine-id`; empty where there is none.
    pub machine: String,
    /// The root of the node `local`.
    pub local_root: PathBuf,
    pub version: String,
}

impl BackupNote {
    /// The note of a backup that is made now.
    pub(crate) fn new(home: &Home, now_ms: i64) -> Self {
        let name = rustix::system::uname();
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Self {
            format: 1,
            made_ms: now_ms,
            host: name.nodename().to_string_lossy().into_owned(),
            machine: machine.trim().to_owned(),
            local_root: home.local_root.clone(),
            version: nero_model::VERSION.to_owned(),
        }
    }
}

/// Writes a copy of the home into the file at `path`, which appears when it is whole; `now_ms` is
/// the time that it tells. Blocks.
///
/// # Errors
/// When a file cannot be read or written; then nothing lies at `path` that was not there before.
pub fn write(home: &Home, path: &Path, now_ms: i64) -> Result<v1::BackupReply, Failure> {
    let cannot = || Failure::failed(format!("cannot write the backup {}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".new{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fill(home, &beside, now_ms).and_then(|reply| {
        fs::rename(&beside, path).map_err(|error| cannot().caused_by(&error))?;
        Ok(reply)
    });
    if written.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&beside);
    }
    written.map_err(|failure| {
        if failure.to_string().starts_with("cannot") {
            failure
        } else {
            cannot().because(failure.to_string())
        }
    })
}

fn fill(home: &Home, beside: &Path, now_ms: i64) -> Result<v1::BackupReply, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::failed(error.to_string());
    let note = BackupNote::new(home, now_ms);
    let note = serde_json::to_vec(&note).map_err(|error| failed(&error))?;
    let state = nero_store::backup(home, now_ms).map_err(|error| failed(&error))?;
    let series = home.data.join(format!(".series-{}.db", std::process::id()));
    nero_store::copy_series(home, &series).map_err(|error| failed(&error))?;
    let archived = (|| -> io::Result<v1::BackupReply> {
        // It holds what its owner alone may read.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut archive = Archive {
            zip: ZipWriter::new(options.open(beside)?),
            reply: v1::BackupReply::default(),
        };
        archive.begin("backup.json", 0o600)?;
        archive.zip.write_all(&note)?;
        archive.add(&state, "data/state.db")?;
        archive.add(&series, "data/series.db")?;
        if home.config.exists() {
            archive.add(&home.config, "config.yaml")?;
        }
        archive.add_all(&home.data)?;
        archive.zip.finish()?.sync_all()?;
        Ok(archive.reply)
    })();
    // A copy of ours, which the next start would find in the data folder.
    let _ = fs::remove_file(&series);
    archived.map_err(|error| failed(&error))
}

struct Archive {
    zip: ZipWriter<File>,
    reply: v1::BackupReply,
}

impl Archive {
    fn begin(&mut self, name: &str, mode: u32) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(1))
            .large_file(true)
            .unix_permissions(mode & 0o777);
        self.zip.start_file(name, options)?;
        self.reply.files += 1;
        Ok(())
    }

    fn add(&mut self, path: &Path, name: &str) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode();
        self.begin(name, mode)?;
        self.reply.bytes += io::copy(&mut file, &mut self.zip)?;
        Ok(())
    }

    /// Adds the files of the data folder. A pack of the store that vanishes was joined with
    /// others into a new one, which has its name before: the store is then listed again.
    fn add_all(&mut self, data: &Path) -> io::Result<()> {
        let mut added = HashSet::new();
        for _ in 0..LISTINGS_MAX {
            let mut files = BTreeSet::new();
            list(data, Path::new(""), &mut files)?;
            let mut has_vanished = false;
            for file in files {
                if added.contains(&file) {
                    continue;
                }
                let name = format!("data/{}", file.display());
                match self.add(&data.join(&file), &name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => has_vanished = true,
                    done => {
                        done?;
                        added.insert(file);
                    }
                }
            }
            if !has_vanished {
                return Ok(());
            }
        }
        Err(io::Error::other("its files keep changing"))
    }
}

/// The regular files below the data folder, by their paths in it. Names that begin with a dot are
/// files that are being written.
fn list(data: &Path, at: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(data.join(at)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let is_top = at == Path::new("");
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        // A copy from before an upgrade is no part of the home.
        let is_left_out = LEFT_OUT.contains(&text) || text.contains(".db.before-v");
        if is_top && (is_left_out || text.starts_with('.')) {
            continue;
        }
        let in_store = at.starts_with("store") || text == "store";
        if in_store && text.starts_with('.') {
            continue;
        }
        let kind = entry.file_type()?;
        let path = at.join(&name);
        if kind.is_dir() {
            list(data, &path, files)?;
        } else if kind.is_file() {
            files.insert(path);
        }
    }
    Ok(())
}
