//! Starts of a task on hosts that stand still at times, with a launcher and a shim that are
//! made up: the shim makes the claim, and its job runs for a while.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use nero_cluster::submission::{Files, News, Plan, StartId};
use nero_journal::v1::{
    Changed, FromLauncher, JobExited, Launch, LauncherHello, Listed as AllListed, RecordKind,
    TaskLeft, ToLauncher, TreeGone, changed, from_launcher, to_launcher,
};
use nero_journal::{Segment, Writer};
use nero_model::paths::run as names;
use nero_model::{ProcessId, RunId, RunToken};
use nero_node::agent::handle::TaskMessage;
use nero_node::lease::host::Host;
use nero_node::lease::{BEAT, Eye};
use nero_node::runs::segments;
use nero_node_core::capacity::Capacity;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

use super::super::tests::{append, begin_claim, stop};
use super::Guard;
use super::world::World;
use crate::args::Grant;
use crate::job::allocation::Allocation;
use crate::job::launched;
use crate::job::start::{EarlierStarts, Start};

/// What a start tells whose job is over.
const OVER: &str = "its job is over";
/// How long a beat stands still that is told apart from all that live.
const OLD: Duration = Duration::from_secs(3600);

/// The beat of a start, on a disk whose clock is real while the time of the world is
/// not: a start that lives has a time that lies ahead and grows.
struct Heart {
    path: PathBuf,
    /// The claim that the start made.
    claim: RefCell<Option<PathBuf>>,
    /// Since when it does not beat.
    stands: Cell<Option<Instant>>,
}

impl Heart {
    fn set(&self, time: SystemTime) {
        let claim = self.claim.borrow();
        for path in std::iter::once(&self.path).chain(claim.as_ref()) {
            // The submission may be forgotten by now.
            if let Ok(file) = std::fs::File::options().write(true).open(path) {
                file.set_modified(time).unwrap();
            }
        }
    }

    fn beat(&self, world: &World) {
        let ahead = Duration::from_secs(24 * 3600) + world.began.elapsed();
        if world.lacks(Guard::Beat) {
            self.set(world.epoch - OLD)
        } else {
            self.set(world.epoch + ahead)
        }
    }

    async fn beats(self: Rc<Self>, world: Rc<World>) {
        while self.path.exists() && !self.path.with_added_extension("left").exists() {
            match self.stands.get() {
                None => self.beat(&world),
                Some(since) if since.elapsed() >= BEAT * 3 => self.set(world.epoch - OLD),
                Some(_) => {}
            }
            sleep(BEAT).await;
        }
    }

    /// The process stands still for a while, or dies with its host: then it is pending
    /// for ever.
    async fn may_stand_still(&self, world: &World) {
        if world.dice.one_in(if world.is_harsh { 2 } else { 4 }) {
            if world.dice.one_in(4) {
                self.dies().await;
            }
            self.stands.set(Some(Instant::now()));
            sleep(world.dice.seconds(900)).await;
            self.stands.set(None);
            self.beat(world);
        }
    }

    async fn dies(&self) {
        self.stands.set(Some(Instant::now()));
        std::future::pending().await
    }
}

/// `neromum job`, on a host of its own. Returns whether a job of it ran.
pub async fn start(world: Rc<World>, files: Files, job: u64) -> bool {
    let Ok(plan) = files.read_plan() else {
        return false;
    };
    let grant = Grant {
        folder: files.folder().to_path_buf(),
        job: job.to_string(),
        task: 0,
        cpus: None,
        memory: None,
        gpus: 0,
        setup: None,
        min_free: 0,
    };
    let eye = Eye {
        host: Host {
            name: format!("c{}", world.dice.next()),
            machine: world.dice.next().to_string(),
        },
        process: ProcessId {
            boot_id: nero_model::ids::random(),
            ..ProcessId::own().unwrap()
        },
    };
    if world.lacks(Guard::EarlierStarts) {
        for number in 1..9 {
            let earlier = News::Began(StartId { task: 0, number });
            let _ = std::fs::remove_file(files.path(earlier));
        }
    }
    let Ok(start) = Start::record(&files, &plan, &grant, "", eye) else {
        return false;
    };
    let run = plan.tasks[0].runs[0].id;
    let tell = |what: String| world.note(run, format!("start {}: {what}", start.id()), |_| {});
    tell(format!("of job {job} of {}", plan.submission));
    if world.lacks(Guard::LeftAtTheEnd) {
        let _ = start.leave(&TaskLeft::default());
    }
    let heart = Rc::new(Heart {
        path: files.path(News::Began(start.id())),
        claim: RefCell::default(),
        stands: Cell::new(None),
    });
    spawn_local(heart.clone().beats(world.clone()));
    heart.may_stand_still(&world).await;
    // The folder may be gone by now.
    let how = works(&world, &files, &plan, &start, &heart).await;
    tell(format!("leaves: {how:?}"));
    let _ = start.leave(&TaskLeft::default());
    matches!(how, Ok(OVER))
}

/// Returns why it began nothing, or what became of its job.
async fn works(
    world: &Rc<World>,
    files: &Files,
    plan: &Plan,
    start: &Start,
    heart: &Heart,
) -> io::Result<&'static str> {
    let task = &plan.tasks[0];
    if files.is_closed(task.index)? {
        return Ok("closed");
    }
    heart.may_stand_still(world).await;
    let asked = || async {
        let request = files.path(News::Leave(start.id()));
        while !request.exists() {
            sleep(Duration::from_secs(5)).await;
        }
    };
    let gone = tokio::select! {
        earlier = start.wait_for_earlier() => match earlier.map_err(io::Error::other)? {
            EarlierStarts::Over(gone) => gone,
            EarlierStarts::MayLive(_) => return Ok("an earlier one may live"),
            EarlierStarts::OtherJob(_) => return Ok("another job has the task"),
            EarlierStarts::Untold => unreachable!("nothing was said"),
        },
        () = asked() => return Ok("asked to leave"),
    };
    let mut allocation = Allocation::new(files.clone(), start.id());
    allocation.earlier = launched(files, &gone)?;
    heart.may_stand_still(world).await;
    let sockets = tempfile::tempdir()?;
    let mut setup = world.node.setup();
    setup.launcher.socket = sockets.path().join("launcher-1.sock");
    setup.launcher.program = Some("/nonexistent".into());
    let listener = UnixListener::bind(&setup.launcher.socket)?;
    let (agent, handle, boxes) = Allocation::of_task(
        setup,
        allocation,
        Capacity::UNBOUNDED,
        &task.runs,
        plan.deployment,
    );
    let asked = async {
        asked().await;
        handle.tell_task(TaskMessage::EndAll);
        std::future::pending::<()>().await;
    };
    let launcher = Launcher {
        world,
        files,
        start: start.id(),
        heart,
    };
    tokio::select! {
        _ = agent.run(handle.clone(), boxes) => Ok("nothing to do"),
        ended = launcher.serve(listener) => {
            let (run, incarnation) = ended?;
            files.note(News::Ended(run, incarnation), true)?;
            files.note(News::Settled(run, incarnation), false)?;
            Ok(OVER)
        }
        () = asked => unreachable!("it never returns"),
    }
}

/// A launcher with a shim.
struct Launcher<'a> {
    world: &'a World,
    files: &'a Files,
    start: StartId,
    heart: &'a Heart,
}

impl Launcher<'_> {
    /// Claims, and lets the job run for a while. Returns when that has ended.
    async fn serve(&self, listener: UnixListener) -> io::Result<(RunId, u32)> {
        let (mut link, _) = listener.accept().await?;
        tell(&mut link, from_launcher::Message::Hello(hello())).await?;
        tell(&mut link, from_launcher::Message::Listed(AllListed {})).await?;
        loop {
            let Some(to_launcher::Message::Launch(launch)) = next(&mut link).await? else {
                continue;
            };
            let token = RunToken::from_slice(&launch.token).unwrap();
            let run = self.world.runs[&token];
            if self.world.lacks(Guard::LaunchName) {
                let launches = News::Launches(run, launch.incarnation, self.start);
                let _ = std::fs::remove_file(self.files.path(launches));
            }
            self.heart.may_stand_still(self.world).await;
            let changed = |what| {
                from_launcher::Message::Changed(Changed {
                    token: launch.token.clone(),
                    what: i32::from(what),
                    incarnation: launch.incarnation,
                    errno: 0,
                })
            };
            let Some(segment) = self.claimed(&launch, token)? else {
                tell(&mut link, changed(changed::What::Superseded)).await?;
                continue;
            };
            let begins = format!("start {} begins {}", self.start, launch.incarnation);
            self.world.note(run, begins, |seen| {
                let is_beside = seen.live > 0 || seen.ends > 0 || seen.is_told;
                seen.overlaps += u32::from(is_beside);
                seen.live += 1;
            });
            tell(&mut link, changed(changed::What::Started)).await?;
            self.runs(run, segment, &mut link).await?;
            return Ok((run, launch.incarnation));
        }
    }

    async fn runs(
        &self,
        run: RunId,
        mut segment: Segment,
        link: &mut UnixStream,
    ) -> io::Result<()> {
        let world = self.world;
        let ends = timeout(world.dice.seconds(240), until_end_all(link)).await;
        if world.dice.one_in(16) {
            world.note(run, "its host dies", |seen| {
                seen.live -= 1;
                seen.deaths += 1;
            });
            self.heart.dies().await;
        }
        match ends {
            Ok(asked) => {
                asked?;
                let news = self.files.news().unwrap_or_default();
                let is_later =
                    |one: &News| matches!(one, News::Began(start) if *start > self.start);
                let is_for_later = news.iter().any(is_later);
                stop(&mut segment);
                world.note(
                    run,
                    format!("stopped, for a later start: {is_for_later}"),
                    |seen| {
                        seen.live -= 1;
                        seen.stops += u32::from(is_for_later);
                    },
                );
            }
            Err(_) => {
                append(&mut segment, RecordKind::JobExited, &JobExited::default());
                append(&mut segment, RecordKind::TreeGone, &TreeGone::default());
                world.note(run, "ended by itself", |seen| {
                    seen.live -= 1;
                    seen.ends += 1;
                    seen.ended = Some((Instant::now(), std::time::Instant::now()));
                });
            }
        }
        Ok(())
    }

    /// `None` when another has the claim.
    fn claimed(&self, launch: &Launch, token: RunToken) -> io::Result<Option<Segment>> {
        let folder = segments::folder(launch.run_dir.as_ref(), launch.incarnation);
        nero_model::paths::make_private(&folder)?;
        let path = folder.join(names::CLAIM);
        if self.world.lacks(Guard::OneClaim) {
            let _ = std::fs::remove_file(&path);
        }
        match Segment::create(&path, Writer::Shim, token.as_bytes(), launch.incarnation) {
            Ok(mut segment) => {
                begin_claim(&mut segment);
                self.heart.claim.replace(Some(path.clone()));
                self.world.claims.borrow_mut().insert(path);
                Ok(Some(segment))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn hello() -> LauncherHello {
    LauncherHello {
        build: String::new(),
        protocol_lowest: nero_model::PROTOCOL_LOWEST,
        protocol_highest: nero_model::PROTOCOL_HIGHEST,
        process: None,
    }
}

async fn tell(link: &mut UnixStream, message: from_launcher::Message) -> io::Result<()> {
    let message = FromLauncher {
        message: Some(message),
    };
    let mut frame = (message.encoded_len() as u32).to_le_bytes().to_vec();
    frame.extend(message.encode_to_vec());
    link.write_all(&frame).await
}

async fn next(link: &mut UnixStream) -> io::Result<Option<to_launcher::Message>> {
    let length = link.read_u32_le().await?;
    let mut frame = vec![0; length as usize];
    link.read_exact(&mut frame).await?;
    Ok(ToLauncher::decode(&*frame)?.message)
}

async fn until_end_all(link: &mut UnixStream) -> io::Result<()> {
    while !matches!(next(link).await?, Some(to_launcher::Message::EndAll(_))) {}
    Ok(())
}
