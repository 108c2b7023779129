//! News of a submission, each of them a name in `starts/`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use nero_model::{ExperimentId, RunId};

/// One start of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StartId {
    /// The scheduler's index of the task; 0 for a job without an array.
    pub task: u32,
    /// 1, 2, 3 … of this task.
    pub number: u32,
}

/// The meaning of a name in `starts/`. In their order the starts of a task lie side by
/// side, and so do the launches of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum News {
    /// A start began; the file's mtime is its beat.
    Began(StartId),
    /// This start is asked to leave.
    Leave(StartId),
    /// This start left, and no process of it lives.
    Left(StartId),
    /// The leader gave this task up: nothing of it is launched from now on.
    Closed(u32),
    /// This start is about to launch an incarnation of a run.
    Launches(RunId, u32, StartId),
    /// The end of an incarnation is synced in the run's folder.
    Ended(RunId, u32),
    /// No record of an ended incarnation can come any more.
    Settled(RunId, u32),
}

impl News {
    /// The start, where it began.
    pub fn start_that_began(&self) -> Option<StartId> {
        let Self::Began(start) = self else {
            return None;
        };
        Some(*start)
    }

    /// The incarnation that a start is about to launch, and the start.
    pub fn launch(&self) -> Option<(RunId, u32, StartId)> {
        let Self::Launches(run, incarnation, start) = self else {
            return None;
        };
        Some((*run, *incarnation, *start))
    }
}

/// The starts of a task that began.
pub fn began(news: &BTreeSet<News>, task: u32) -> impl Iterator<Item = StartId> + Clone {
    let start = |number| News::Began(StartId { task, number });
    news.range(start(0)..=start(u32::MAX))
        .filter_map(News::start_that_began)
}

/// The starts that were about to launch this incarnation of a run.
pub fn launched_by(
    news: &BTreeSet<News>,
    run: RunId,
    incarnation: u32,
) -> impl Iterator<Item = StartId> {
    let start = |task, number| News::Launches(run, incarnation, StartId { task, number });
    news.range(start(0, 0)..=start(u32::MAX, u32::MAX))
        .filter_map(|news| News::launch(news).map(|(_, _, start)| start))
}

impl News {
    /// Number of a run's start; 0 for news of a task.
    pub fn incarnation(&self) -> u32 {
        match self {
            Self::Began(_) | Self::Leave(_) | Self::Left(_) | Self::Closed(_) => 0,
            Self::Launches(_, incarnation, _)
            | Self::Ended(_, incarnation)
            | Self::Settled(_, incarnation) => *incarnation,
        }
    }
}

impl fmt::Display for StartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.number)
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began(start) => write!(f, "task-{start}"),
            Self::Leave(start) => write!(f, "task-{start}.leave"),
            Self::Left(start) => write!(f, "task-{start}.left"),
            Self::Closed(task) => write!(f, "task-{task}.closed"),
            Self::Launches(run, incarnation, start) => {
                write!(f, "run-{run}.{incarnation}.by-{start}")
            }
            Self::Ended(run, incarnation) => write!(f, "run-{run}.{incarnation}.ended"),
            Self::Settled(run, incarnation) => write!(f, "run-{run}.{incarnation}.settled"),
        }
    }
}

/// The name is of no news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewsNameError;

impl FromStr for News {
    type Err = NewsNameError;

    fn from_str(name: &str) -> Result<Self, NewsNameError> {
        let parsed = match name.split_once('-') {
            Some(("task", rest)) => of_task(rest),
            Some(("run", rest)) => of_run(rest),
            Some(_) | None => None,
        };
        // `+1` and `01` are numbers to the parser, and no names of ours.
        parsed
            .filter(|news| news.to_string() == name)
            .ok_or(NewsNameError)
    }
}

fn of_task(rest: &str) -> Option<News> {
    if let Some(task) = rest.strip_suffix(".closed") {
        return Some(News::Closed(task.parse().ok()?));
    }
    let mut parts = rest.splitn(3, '.');
    let start = start(&mut parts)?;
    match parts.next() {
        None => Some(News::Began(start)),
        Some("leave") => Some(News::Leave(start)),
        Some("left") => Some(News::Left(start)),
        Some(_) => None,
    }
}

fn of_run(rest: &str) -> Option<News> {
    let mut parts = rest.splitn(4, '.');
    let experiment = ExperimentId(parts.next()?.parse().ok()?);
    let run = RunId {
        experiment,
        number: parts.next()?.parse().ok()?,
    };
    let incarnation = parts.next()?.parse().ok()?;
    match parts.next()? {
        "ended" => Some(News::Ended(run, incarnation)),
        "settled" => Some(News::Settled(run, incarnation)),
        by => {
            let by = by.strip_prefix("by-")?;
            let start = start(&mut by.splitn(2, '.'))?;
            Some(News::Launches(run, incarnation, start))
        }
    }
}

fn start<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<StartId> {
    Some(StartId {
        task: parts.next()?.parse().ok()?,
        number: parts.next()?.parse().ok()?,
    })
}
