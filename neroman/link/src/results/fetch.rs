//! Brings one run's files home over one connection: lists them, compares them
//! with the files here, and fetches the rest in streams.

use std::path::Path;
use std::time::Duration;

use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use super::choice::{self, Choice, FileToFetch, UnfetchedFile};
use super::folder::Folder;
use super::notes::Notes;
use super::receive::{self, StreamResult};
use super::request::{FileRequest, UnnamedFiles};
use super::stamps::FileStamps;
use super::trouble::Trouble;
use super::way::{SILENCE, Way, blocking, ended_early, silent};
use crate::transfer::RunningTransfer;
use nero_home::failure::Failure;

/// How long a list of files may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Files of one stream, and bytes of their names: the request fits a message.
pub(super) const STREAM_FILES_MAX: usize = 20_000;
/// See [`STREAM_FILES_MAX`].
const STREAM_NAMES_MAX: usize = 2 * 1024 * 1024;
/// Parts that wait for the disk: 8 MiB at most.
const PARTS_WAITING: usize = 32;
/// How often files that change while they are read are fetched again.
const ROUNDS: usize = 3;

/// The files that came home, and those that did not.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Files that travelled.
    pub files: u64,
    /// Bytes that travelled.
    pub bytes: u64,
    /// Files that were here already.
    pub unchanged: u64,
    /// Files that stay on the node because they are too large.
    pub left: Vec<UnfetchedFile>,
    /// Files for which there is no room here.
    pub no_room: Vec<UnfetchedFile>,
    /// Files that the job made and that no output names.
    pub unnamed: Vec<UnfetchedFile>,
    /// Outputs that match no file.
    pub unfit: Vec<String>,
    /// Files that can never come home.
    pub unkept: u64,
    pub notes: Notes,
}

/// The folder and the records, locked while files come.
struct LockedFolder {
    folder: Folder,
    known: FileStamps,
}

impl LockedFolder {
    fn forget(self) {
        let Self { mut folder, known } = self;
        for name in known.halves() {
            let files = [
                super::folder::safe_path(&name),
                super::folder::earlier_path(&name),
                super::logs::place(&name),
            ];
            for path in files.into_iter().flatten() {
                folder.discard(&path);
            }
        }
        known.forget();
    }
}

/// Fetches the requested files; `last` means that no more will come, so the
/// records are removed.
pub(super) async fn files(way: &Way, ask: &FileRequest, last: bool) -> Result<Outcome, Trouble> {
    let mut outcome = Outcome::default();
    let mut held = hold(&way.folder, &way.known).await?;
    let rounds = if ask.live { 1 } else { ROUNDS };
    for round in 1..=rounds {
        let Some(list) = list(way, ask).await? else {
            return Ok(nothing_there(ask));
        };
        let choice;
        (held, choice) = choose(held, list, ask, way).await?;
        outcome.unchanged = choice.unchanged.saturating_sub(outcome.files);
        outcome.left.clone_from(&choice.left);
        outcome.no_room.clone_from(&choice.no_room);
        outcome.unnamed.clone_from(&choice.unnamed);
        outcome.unfit.clone_from(&choice.unfit);
        outcome.unkept = choice.unkept;
        let (notes, changed);
        (held, notes, changed) = take(held, way, choice, &mut outcome).await?;
        if changed.is_empty() || round == rounds {
            outcome.notes.append(notes);
            if !ask.live {
                for name in changed {
                    let name = nero_model::safe::Safe::line(&name).to_string();
                    outcome
                        .notes
                        .add(format!("{name} changed while it was fetched"));
                }
            }
            break;
        }
    }
    blocking(move || {
        if last {
            held.forget()
        } else {
            held.known.close()
        }
    })
    .await?;
    Ok(outcome)
}

/// The result that `files` would have, without fetching.
pub(super) async fn preview(way: &Way, ask: &FileRequest) -> Result<Outcome, Trouble> {
    let Some(list) = list(way, ask).await? else {
        return Ok(nothing_there(ask));
    };
    let folder = way.folder.clone();
    if blocking(move || !folder.is_dir()).await? {
        // No file came yet.
        let all = matches!(ask.unnamed, UnnamedFiles::Fetch { .. });
        let comes = |entry: &&v1::FileEntry| all || !entry.made || !entry.globs.is_empty();
        let coming = list.files.iter().filter(comes);
        return Ok(Outcome {
            files: coming.clone().count() as u64,
            bytes: coming.fold(0, |sum, entry| sum.saturating_add(entry.size)),
            unkept: choice::unlisted(&list),
            notes: Notes::of(ask.unfit(&list)),
            ..Outcome::default()
        });
    }
    let held = hold(&way.folder, &way.known).await?;
    let (held, choice) = choose(held, list, ask, way).await?;
    blocking(move || held.known.close()).await?;
    Ok(Outcome {
        files: choice.wanted.len() as u64,
        bytes: choice.bytes,
        unchanged: choice.unchanged,
        left: choice.left,
        no_room: choice.no_room,
        unnamed: choice.unnamed,
        unfit: choice.unfit,
        unkept: choice.unkept,
        notes: choice.notes,
    })
}

/// The result for a run whose folder does not exist yet.
fn nothing_there(ask: &FileRequest) -> Outcome {
    Outcome {
        notes: Notes::of(ask.unfit(&v1::ListFilesReply::default())),
        ..Outcome::default()
    }
}

/// The node's list; `None` if a live run has no folder yet.
pub(super) async fn list(
    way: &Way,
    ask: &FileRequest,
) -> Result<Option<v1::ListFilesReply>, Trouble> {
    let mut request = tonic::Request::new(v1::ListFilesRequest {
        run: Some(way.run.clone()),
        globs: ask.globs.iter().map(|glob| glob.path.clone()).collect(),
        incarnation: way.start,
        made: ask.unnamed != UnnamedFiles::Ignore,
    });
    request.set_timeout(PATIENCE);
    match way.client.clone().list_files(request).await {
        Ok(reply) => Ok(Some(reply.into_inner())),
        // A job that removed its own folder left no files.
        Err(status)
            if status.code() == tonic::Code::NotFound && (ask.live || ask.globs.is_empty()) =>
        {
            Ok(None)
        }
        Err(status) => Err(Trouble::status("cannot list the outputs", &status)),
    }
}

async fn hold(folder: &Path, known: &Path) -> Result<LockedFolder, Trouble> {
    let (folder, known) = (folder.to_path_buf(), known.to_path_buf());
    blocking(move || {
        Ok(LockedFolder {
            folder: Folder::open(&folder).map_err(|error| Trouble::unwritten(&folder, &error))?,
            known: FileStamps::open(&known).map_err(|error| Trouble::unwritten(&known, &error))?,
        })
    })
    .await?
}

async fn choose(
    mut held: LockedFolder,
    list: v1::ListFilesReply,
    ask: &FileRequest,
    way: &Way,
) -> Result<(LockedFolder, Choice), Trouble> {
    let (ask, whose) = (ask.clone(), way.whose.clone());
    let min_free = way.min_free;
    blocking(move || {
        let room = receive::room(&held.folder, min_free)?;
        let choice = choice::choose(&list, &ask, &whose, &mut held.folder, &held.known, room);
        Ok((held, choice))
    })
    .await?
}

/// Fetches the chosen files; returns those that changed meanwhile.
async fn take(
    mut held: LockedFolder,
    way: &Way,
    choice: Choice,
    outcome: &mut Outcome,
) -> Result<(LockedFolder, Notes, Vec<String>), Trouble> {
    let mut notes = choice.notes;
    let mut changed = Vec::new();
    let mut wanted = choice.wanted;
    let mut moving = RunningTransfer::new(
        way.on_progress.clone(),
        &way.whose.node,
        "fetching results",
        choice.bytes,
        wanted.len() as u64,
    );
    while !wanted.is_empty() {
        let asked = one_stream(&wanted);
        let came;
        (held, moving, came) = stream(held, moving, way, asked).await?;
        let (received, result) = came;
        outcome.files += received.files;
        outcome.bytes += received.bytes;
        notes.append(received.notes);
        for line in received.unread {
            notes.add(line);
        }
        changed.extend(received.changed);
        result?;
        wanted.drain(..received.next);
    }
    let links = choice.links;
    blocking(move || {
        for (path, target) in links {
            let at = held.folder.path().join(&path);
            let made = held.folder.link(&path, &target);
            if !made.map_err(|error| Trouble::unwritten(&at, &error))? {
                let shown = nero_model::safe::Safe::line(path.as_os_str().as_encoded_bytes());
                notes.add(format!(
                    "{shown} is a link there, and a file is in its place here"
                ));
            }
        }
        Ok((held, notes, changed))
    })
    .await?
}

/// As many files as one request may name.
fn one_stream(wanted: &[FileToFetch]) -> Vec<FileToFetch> {
    let mut bytes = 0;
    wanted
        .iter()
        .take(STREAM_FILES_MAX)
        .take_while(|want| {
            let fits = bytes == 0 || bytes + want.name.len() <= STREAM_NAMES_MAX;
            bytes += want.name.len() + 16;
            fits
        })
        .cloned()
        .collect()
}

type StreamOutcome = (StreamResult, Result<(), Trouble>);

/// Fetches the files of one request. Files that came before a failure stay.
async fn stream(
    held: LockedFolder,
    moving: RunningTransfer,
    way: &Way,
    asked: Vec<FileToFetch>,
) -> Result<(LockedFolder, RunningTransfer, StreamOutcome), Trouble> {
    let request = v1::ReadFilesRequest {
        run: Some(way.run.clone()),
        incarnation: way.start,
        files: asked
            .iter()
            .map(|want| v1::read_files_request::Want {
                path: want.name.clone(),
                offset: want.from,
                // One byte more shows that the file grew beyond all bounds.
                max_bytes: (want.most - want.from).saturating_add(1),
                log: false,
            })
            .collect(),
        hash_only: false,
    };
    let count = asked.len();
    let min_free = way.min_free;
    let (tx, mut rx) = mpsc::channel(PARTS_WAITING);
    let writing = tokio::task::spawn_blocking(move || {
        let (mut held, mut moving) = (held, moving);
        let parts = std::iter::from_fn(|| rx.blocking_recv());
        let came = receive::receive(
            &mut held.folder,
            &mut held.known,
            &asked,
            parts,
            &mut moving,
            min_free,
        );
        (held, moving, came)
    });
    let pumped = pump(way.client.clone(), request, tx).await;
    let (held, moving, (received, written)) = writing.await.map_err(ended_early)?;
    let result = match (written, pumped) {
        (Err(trouble), _) => Err(trouble),
        (Ok(()), Err(trouble)) => Err(trouble),
        // The receiver wants no more of this stream, or has all of it.
        (Ok(()), Ok(_)) if received.next == count || !received.changed.is_empty() => Ok(()),
        (Ok(()), Ok(())) => Err(Trouble::Refused(Failure::node_errs(
            "ended its answer before the last file",
        ))),
    };
    Ok((held, moving, (received, result)))
}

/// Passes parts from the network to the disk's thread until either ends.
pub(super) async fn pump(
    mut client: MumClient<Channel>,
    request: v1::ReadFilesRequest,
    tx: mpsc::Sender<v1::FilePart>,
) -> Result<(), Trouble> {
    let failed = |status: tonic::Status| Trouble::status("cannot fetch the outputs", &status);
    let mut parts = tokio::time::timeout(SILENCE, client.read_files(request))
        .await
        .map_err(|_| silent())?
        .map_err(failed)?
        .into_inner();
    loop {
        let part = tokio::select! {
            part = tokio::time::timeout(SILENCE, parts.message()) => part,
            // All requested files are here, or one was refused.
            () = tx.closed() => return Ok(()),
        };
        let part = part.map_err(|_| silent())?.map_err(failed)?;
        let Some(part) = part else { return Ok(()) };
        if tx.send(part).await.is_err() {
            return Ok(());
        }
    }
}
