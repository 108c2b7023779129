//! Reports disk use and cleans. One such piece of work at a time, off the
//! reactor.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use nero_model::{ExperimentId, RunId, RunToken};
use nero_node::agent::Candidate;
use nero_node::clean::measure::{Size, measure};
use nero_node::clean::sweep::FreedSpace;
use nero_node::config;
use nero_node::runs::{folders, spec, tombstone};
use nero_node::staging::container::asked;
use nero_wire::v1::clean_reply::Refusal;
use nero_wire::v1::disk_usage_reply::Run;
use nero_wire::v1::{CleanReply, CleanRequest, DiskUsageReply, RunFolder, RunRef};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::answers::Answers;
use super::{ServiceState, off_reactor};

/// Number of run folders on their way to a neroman that takes over.
const FOLDERS_WAITING: usize = 16;
/// Limit in bytes of runs listed in one reply, well below a message's limit.
const REPLY_BYTES_MAX: usize = 3 * 1024 * 1024;

impl ServiceState {
    /// Runs one piece of the janitor's work when it is its turn.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let turn = self.turn.clone().lock_owned().await;
        off_reactor(move || {
            let _turn = turn;
            work()
        })
        .await
    }
}

/// Disk use of the deployment's folder.
pub async fn usage(inner: &Arc<ServiceState>, each_run: bool) -> Result<DiskUsageReply, Status> {
    let open = inner.answer(inner.agent.open_runs()).await?;
    let held = inner.clone();
    let measured = inner
        .in_turn(move || measure_all(&held, &open, each_run))
        .await?
        .map_err(|error| Status::internal(format!("cannot measure the node's folder: {error}")));
    Ok(DiskUsageReply {
        images_bytes: inner.containers.brought_size().await.bytes,
        ..measured?
    })
}

fn measure_all(
    inner: &ServiceState,
    open: &HashSet<RunId>,
    each_run: bool,
) -> std::io::Result<DiskUsageReply> {
    let paths = &inner.placer.paths;
    let (store, unused) = inner.janitor.store_usage();
    let builds = inner.janitor.builds()?;
    let mut reply = DiskUsageReply {
        store_bytes: store.bytes,
        store_files: store.files,
        store_unused_bytes: unused.bytes,
        trash_bytes: inner.janitor.trash_size().bytes,
        agents_bytes: builds.all.bytes,
        agents_unused_bytes: builds.unused.bytes,
        ..DiskUsageReply::default()
    };
    if let Ok(found) = rustix::fs::statvfs(paths.deployment()) {
        reply.free_bytes = found.f_bavail.saturating_mul(found.f_frsize);
        reply.total_bytes = found.f_blocks.saturating_mul(found.f_frsize);
    }
    let mut told = 0;
    for (id, folder) in folders::all(paths)? {
        let size = measure(&folder)?;
        reply.runs_bytes += size.bytes;
        if each_run && told < REPLY_BYTES_MAX {
            told += folder.as_os_str().len() + 64;
            let token = spec::of_folder(&folder).map(|spec| spec.token);
            reply.runs.push(Run {
                run: Some(RunRef {
                    token: token.unwrap_or_default(),
                    experiment: id.experiment.0,
                    number: id.number,
                }),
                bytes: size.bytes,
                live: open.contains(&id),
                folder: folder.display().to_string(),
            });
        }
    }
    Ok(reply)
}

/// Removes the requested things, or lists them in a dry run. Once begun, it
/// goes on to its end even if the caller leaves.
pub async fn clean(inner: &Arc<ServiceState>, request: CleanRequest) -> Result<CleanReply, Status> {
    if request.runs.len() > config::HAND_OVER_MAX {
        return Err(Status::invalid_argument("too many runs in one call"));
    }
    let inner = inner.clone();
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited at once, unless the caller leaves"
    )]
    let cleaning = tokio::spawn(async move { clean_all(&inner, request).await });
    cleaning
        .await
        .map_err(|_| Status::internal("cleaning failed"))?
}

async fn clean_all(inner: &Arc<ServiceState>, request: CleanRequest) -> Result<CleanReply, Status> {
    let mut reply = CleanReply::default();
    let mut freed = FreedSpace::default();
    if !request.runs.is_empty() {
        let dry_run = request.dry_run;
        freed = clean_runs(inner, request.runs, dry_run, &mut reply).await?;
    }
    if request.store {
        let unnamed_ms = match request.unnamed_ms {
            0 => config::UNNAMED_KEPT_MS,
            given => given,
        };
        let (janitor, dry_run) = (inner.janitor.clone(), request.dry_run);
        let sweep = move || {
            if dry_run {
                freed.add(janitor.trash_size());
            }
            janitor.sweep(unnamed_ms, dry_run, &mut freed);
            freed
        };
        freed = inner.in_turn(sweep).await?;
    }
    if request.images {
        let open = inner.answer(inner.agent.open_runs()).await?;
        let mut kept: HashSet<String> = request.kept_images.into_iter().collect();
        kept.extend(open.iter().flat_map(|run| images_of(inner, *run)));
        let removed = inner.containers.remove_brought(&kept, request.dry_run);
        let (size, notes) = removed.await;
        freed.add(size);
        freed.notes.extend(notes);
    }
    if !request.dry_run {
        inner.janitor.empty_trash();
    }
    reply.freed_bytes = freed.size.bytes;
    reply.freed_files = freed.size.files;
    reply.notes = freed.notes;
    Ok(reply)
}

/// The image of a run's container, as the run and as the runtime call it.
fn images_of(inner: &ServiceState, run: RunId) -> Vec<String> {
    let spec = spec::of_folder(&inner.placer.paths.run(run)).unwrap_or_default();
    let container = asked(&spec).cloned().unwrap_or_default();
    vec![container.image, container.ready]
}

async fn clean_runs(
    inner: &Arc<ServiceState>,
    asked: Vec<RunRef>,
    dry_run: bool,
    reply: &mut CleanReply,
) -> Result<FreedSpace, Status> {
    let held = inner.clone();
    let looked = inner
        .in_turn(move || {
            let look = |run: &RunRef| (run.token.clone(), check_run(&held, run));
            asked.iter().map(look).collect::<Vec<_>>()
        })
        .await?;
    let mut candidates = Vec::new();
    for (token, look) in looked {
        match look {
            RunCheck::Here(candidate) => candidates.push(*candidate),
            RunCheck::GoneBefore => reply.cleaned.push(token),
            RunCheck::Refused(why) => reply.refused.push(Refusal { token, why }),
        }
    }
    let decided = inner.agent.clean(candidates.clone(), dry_run);
    let verdicts = inner.answer(decided).await?;
    let mut going = Vec::new();
    for (candidate, verdict) in candidates.into_iter().zip(verdicts) {
        let token = candidate.token.to_vec();
        match verdict {
            None => going.push(candidate),
            Some(why) => reply.refused.push(Refusal { token, why }),
        }
    }
    let tokens: Vec<RunToken> = going.iter().map(|one| one.token).collect();
    let held = inner.clone();
    let done = inner
        .in_turn(move || take_away(&held, &going, dry_run))
        .await;
    if !dry_run {
        inner.agent.cleaned(tokens).await?;
    }
    let (cleaned, kept, freed) = done?;
    let cleaned = cleaned.into_iter().map(RunToken::to_vec);
    reply.cleaned.extend(cleaned);
    let refusals = kept.into_iter().map(|(token, why)| Refusal {
        token: token.to_vec(),
        why,
    });
    reply.refused.extend(refusals);
    Ok(freed)
}

enum RunCheck {
    Here(Box<Candidate>),
    GoneBefore,
    Refused(String),
}

/// The state of a run from its folder.
fn check_run(inner: &ServiceState, run: &RunRef) -> RunCheck {
    let paths = &inner.placer.paths;
    let id = RunId {
        experiment: ExperimentId(run.experiment),
        number: run.number,
    };
    let token = match RunToken::from_slice(&run.token) {
        Some(token) if run.experiment > 0 && run.number > 0 => token,
        _ => return RunCheck::Refused("this is no run".to_owned()),
    };
    let run_dir = paths.run(id);
    let spec = match spec::of_folder(&run_dir) {
        Ok(spec) if spec.token == token.as_bytes() => spec,
        found => {
            return match (tombstone::read(paths, id, token), found) {
                (Ok(Some(_)), _) => RunCheck::GoneBefore,
                (_, Ok(_)) => RunCheck::Refused("another run lies in its folder".to_owned()),
                (_, Err(_)) if !run_dir.exists() => {
                    RunCheck::Refused("it is not on this node".to_owned())
                }
                (_, Err(why)) => RunCheck::Refused(why),
            };
        }
    };
    let life = match folders::life(&run_dir, token) {
        Ok(life) => life,
        Err(error) => return RunCheck::Refused(format!("cannot read its segments: {error}")),
    };
    let ended = life.facts.ended();
    RunCheck::Here(Box::new(Candidate {
        token,
        id,
        ended,
        never_began: life.never_began(),
        elsewhere: elsewhere(inner, &spec.node).then_some(spec.node),
    }))
}

/// Whether a neromum of another node in the same folder has the run.
fn elsewhere(inner: &ServiceState, node: &str) -> bool {
    let own = inner.placer.paths.mum();
    let theirs = own.with_file_name(nero_model::paths::file_name(node));
    !node.is_empty() && theirs != own && theirs.exists()
}

type KeptRun = (RunToken, String);

/// Writes the records to keep of the runs, durably, then moves their folders
/// away.
fn take_away(
    inner: &ServiceState,
    going: &[Candidate],
    dry_run: bool,
) -> (Vec<RunToken>, Vec<KeptRun>, FreedSpace) {
    let paths = &inner.placer.paths;
    let (mut freed, mut kept) = (FreedSpace::default(), Vec::new());
    let mut ready: Vec<(RunToken, PathBuf, Size)> = Vec::new();
    for one in going {
        let run_dir = paths.run(one.id);
        let noted = folders::life(&run_dir, one.token).and_then(|life| {
            let size = measure(&run_dir)?;
            if !dry_run {
                tombstone::write(paths, one.id, life.end(one.token))?;
            }
            Ok(size)
        });
        match noted {
            Ok(size) => ready.push((one.token, run_dir, size)),
            Err(error) => kept.push((one.token, format!("cannot clean it: {error}"))),
        }
    }
    let synced = if dry_run {
        Ok(())
    } else {
        std::fs::File::open(paths.deployment())
            .and_then(|folder| rustix::fs::syncfs(&folder).map_err(Into::into))
    };
    let mut cleaned = Vec::new();
    for (token, run_dir, size) in ready {
        let taken = match &synced {
            Err(error) => Err(error.to_string()),
            Ok(()) if dry_run => Ok(()),
            Ok(()) => inner
                .janitor
                .discard(&run_dir)
                .map_err(|error| error.to_string()),
        };
        match taken {
            Ok(()) => {
                freed.add(size);
                cleaned.push(token);
            }
            Err(why) => kept.push((token, format!("cannot clean it: {why}"))),
        }
    }
    (cleaned, kept, freed)
}

/// Every run folder, except those of recalled runs.
pub async fn folders(inner: &Arc<ServiceState>) -> Result<Answers<RunFolder>, Status> {
    let paths = inner.placer.paths.clone();
    let listed = inner.in_turn(move || folders::all(&paths)).await?;
    let listed = listed
        .map_err(|error| Status::internal(format!("cannot list the run folders: {error}")))?;
    let (folders, answers) = mpsc::channel(FOLDERS_WAITING);
    let inner = inner.clone();
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of the answers tells its end"
    )]
    let describing = tokio::spawn(async move {
        for (_, folder) in listed {
            // The caller may have left.
            let Ok(room) = folders.reserve().await else {
                return;
            };
            let described = inner.file_work(move || folders::describe(&folder)).await;
            if let Some(described) = described.transpose() {
                room.send(described);
            }
        }
    });
    let answers = ReceiverStream::new(answers).chain(super::end_of(describing));
    Ok(Box::pin(answers))
}
