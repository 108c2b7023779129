//! `backup FILE`, `backup --restore FILE`: the whole home in one file. The daemon writes it; it is
//! restored without one, into an empty home alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use nero_model::Home;
use nero_views::{json, object, text};
use nero_wire::v1::BackupRequest;
use nero_wire::v1::man_client::ManClient;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use zip::ZipArchive;

use crate::args::Backup;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, absolute, home};

/// What a backup tells of itself.
const NOTE: &str = "backup.json";
/// The highest format that this build restores.
const FORMAT: u64 = 1;
/// Bytes of a note at most.
const NOTE_BYTES_MAX: u64 = 64 * 1024;
/// The database, which gets its name last: a home without it is not restored yet.
const STATE: &str = "data/state.db";
/// The database's name in the home until everything else lies there.
const RESTORING_DB: &str = "restoring.db";

pub async fn run(session: &mut Session, args: &Backup) -> Result<u8, Stop> {
    if args.restore {
        return restore(session, args);
    }
    let file = absolute(&args.file)?;
    check_ours(Path::new(&file))?;
    let asked = BackupRequest { file };
    let reply = session.change(asked, ManClient::backup).await?;
    let told = Contents {
        files: reply.files,
        bytes: reply.bytes,
    };
    let fields = || fields(args, &told, &Value::Null);
    let text = || told.text(" · ") + "\n";
    session.out.reply(&[], fields, text)?;
    if !session.out.as_json {
        let note = "results beside experiments, and what nodes have, are no part of it";
        session.out.note(note);
    }
    Ok(code::OK)
}

/// The JSON of a backup. `note`: the note inside a restored backup, null for a written one.
fn fields(args: &Backup, told: &Contents, note: &Value) -> Value {
    object!(told =>
        file: args.file, restored: args.restore, files, bytes,
        made_at: note["made_ms"].as_i64().map(text::iso_time),
        host: note["host"].as_str().and_then(json::some),
    )
}

/// Refuses to replace a file that is no backup.
fn check_ours(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Fault::cannot("write", path).because(&error)),
        Ok(found) if found.is_file() && found.len() == 0 => return Ok(()),
        Ok(_) => {}
    }
    match open(path) {
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::cannot("write", path)
            .cause("it is there and no backup of neroman")
            .hint("choose another name, or move it away")),
    }
}

/// A backup and its note.
fn open(path: &Path) -> Result<(ZipArchive<File>, Value), Fault> {
    let cannot = || Fault::usage(format!("cannot read the backup {}", path.display()));
    let file = File::open(path).map_err(|error| cannot().because(&error))?;
    let mut archive = ZipArchive::new(file).map_err(|error| cannot().because(&error))?;
    let note = {
        let note = archive.by_name(NOTE);
        let note = note.map_err(|_| cannot().cause("it is no backup of neroman"))?;
        let mut text = String::new();
        let read = note.take(NOTE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| cannot().because(&error))?;
        serde_json::from_str::<Value>(&text).map_err(|error| cannot().because(&error))?
    };
    if note["format"].as_u64().is_none_or(|format| format > FORMAT) {
        return Err(cannot().cause("a later version of neroman made it"));
    }
    Ok((archive, note))
}

fn restore(session: &Session, args: &Backup) -> Result<u8, Stop> {
    let home = home()?;
    let (mut archive, note) = open(Path::new(&args.file))?;
    let failed = |error: &io::Error| {
        Fault::failed("the backup was not restored")
            .because(error)
            .hint("the home is no home yet: type the command again")
    };
    let lock = locked(&home)?;
    let told = if is_whole(&home, &note) {
        Ok(())
    } else {
        begin(&home)?;
        unpack(&mut archive, &home)
    };
    let told = told
        .and_then(|()| finish(&home))
        .and_then(|()| contents(&mut archive));
    let told = told.map_err(|error| failed(&error))?;
    drop(lock);
    let fields = || fields(args, &told, &note);
    let text = || {
        let host = note["host"].as_str().unwrap_or_default();
        let made = text::local_time(note["made_ms"].as_i64().unwrap_or(0));
        format!("restored what {host} had on {made}: {}\n", told.text(", "))
    };
    session.out.reply(&[], fields, text)?;
    if !session.out.as_json {
        session.out.note(
            "what waited then starts when its nodes told what they know; `neroman status` shows it",
        );
    }
    Ok(code::OK)
}

fn refused(what: &Path) -> Fault {
    Fault::usage("a backup is restored into an empty home only")
        .cause(format!("{} is there", what.display()))
        .hint("choose another one: NERONET_HOME=DIR neroman backup --restore FILE")
}

fn cannot_use(path: &Path, error: &io::Error) -> Fault {
    Fault::cannot("use", path).because(error)
}

/// Keeps daemons out of the home while the answer lives.
fn locked(home: &Home) -> Result<File, Fault> {
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
    let made = folders.create(&home.data);
    made.map_err(|error| cannot_use(&home.data, &error))?;
    let path = home.daemon_lock();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let lock = options.truncate(false).open(&path);
    let lock = lock.map_err(|error| cannot_use(&path, &error))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(refused(&path).cause("a daemon uses it"));
    }
    Ok(lock)
}

/// Whether an earlier try restored this backup, and only its answer is missing. The first daemon
/// of a restored home takes the note away.
fn is_whole(home: &Home, note: &Value) -> bool {
    let left = fs::read(home.restored()).unwrap_or_default();
    home.state_db().exists()
        && serde_json::from_slice::<Value>(&left).is_ok_and(|left| left == *note)
}

/// Refuses a home that has files, and puts the mark `restoring` into an empty one.
fn begin(home: &Home) -> Result<(), Fault> {
    if home.state_db().exists() {
        return Err(refused(&home.state_db()));
    }
    // What an earlier try left is written once more.
    let begun = home.restoring();
    if begun.exists() {
        return Ok(());
    }
    if home.config.exists() {
        return Err(refused(&home.config));
    }
    let entries = fs::read_dir(&home.data);
    let entries = entries.map_err(|error| cannot_use(&home.data, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| cannot_use(&home.data, &error))?;
        let is_lock = ["daemon.lock", "start.lock"]
            .iter()
            .any(|name| entry.file_name() == *name);
        if !is_lock {
            return Err(refused(&entry.path()));
        }
    }
    fs::write(&begun, "").map_err(|error| cannot_use(&begun, &error))
}

/// What a backup has.
struct Contents {
    files: u64,
    bytes: u64,
}

impl Contents {
    fn text(&self, between: &str) -> String {
        text::plural(self.files, "file") + between + &text::bytes(self.bytes)
    }
}

/// Writes everything, and the database last.
fn unpack(archive: &mut ZipArchive<File>, home: &Home) -> io::Result<()> {
    let mut state = None;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at)?;
        let name = entry.name()?.into_owned();
        let Some(path) = place(home, &name) else {
            let name = name.escape_debug().to_string();
            return Err(io::Error::other(format!(
                "it has a file of no place here: {name}"
            )));
        };
        if let Some(folder) = path.parent() {
            let mut folders = fs::DirBuilder::new();
            folders.recursive(true).mode(0o700).create(folder)?;
        }
        let is_state = name == STATE;
        let to = if is_state {
            home.data.join(RESTORING_DB)
        } else {
            path
        };
        // Files of the store may not be written to.
        if let Err(error) = fs::remove_file(&to)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mode = entry.unix_mode().unwrap_or(0o600) & 0o777;
        let mut file = options.mode(mode).open(&to)?;
        io::copy(&mut entry, &mut file)?;
        if is_state {
            state = Some(to);
        }
    }
    let state = state.ok_or_else(|| io::Error::other("it has no database"))?;
    // In one go: thousands of files synced one by one take minutes.
    rustix::fs::syncfs(File::open(&home.data)?)?;
    // A daemon that began meanwhile made a database of its own, which stays.
    fs::hard_link(&state, home.state_db())
}

fn contents(archive: &mut ZipArchive<File>) -> io::Result<Contents> {
    let mut bytes = 0;
    for at in 0..archive.len() {
        bytes += archive.by_index(at)?.size();
    }
    let files = archive.len() as u64;
    Ok(Contents { files, bytes })
}

/// Removes the files of the restore itself, as far as that goes, and syncs the home's folder.
fn finish(home: &Home) -> io::Result<()> {
    let _ = fs::remove_file(home.data.join(RESTORING_DB));
    let _ = fs::remove_file(home.restoring());
    File::open(&home.data)?.sync_all()
}

/// Where a file of a backup lies in a home.
fn place(home: &Home, name: &str) -> Option<PathBuf> {
    if name == NOTE {
        return Some(home.restored());
    }
    if name == "config.yaml" {
        return Some(home.config.clone());
    }
    let below = Path::new(name.strip_prefix("data/")?);
    let mut parts = below.components();
    let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
    (is_below && below.file_name().is_some()).then(|| home.data.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_backup_stays_in_the_home() {
        let home = Home::below(Path::new("/h"));
        let place = |name: &str| place(&home, name).map(|path| path.display().to_string());
        assert_eq!(
            place("data/store/ab/c").as_deref(),
            Some("/h/data/store/ab/c")
        );
        assert_eq!(place("backup.json").as_deref(), Some("/h/data/restored"));
        assert_eq!(place("config.yaml").as_deref(), Some("/h/config.yaml"));
        for bad in [
            "data/../x",
            "/etc/passwd",
            "data//etc/x",
            "x",
            "data/",
            "data/a/../../x",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
