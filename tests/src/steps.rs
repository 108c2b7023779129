//! Steps: every call of a story that changes a file dies once, or fails once.
//!
//! A story is played undisturbed on a disk that records its calls ([`Point`]); then once for each
//! chosen point, where the program is killed or the call fails. In the end everything is as in the
//! undisturbed story, or `status` and `show` tell what is not.

mod cuts;
mod disk;
mod judge;
mod play;
mod stories;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

pub use cuts::cut;
use disk::StoryDisk;
use judge::Facts;
use play::Play;
pub use stories::STORIES;

use crate::chaos::random::Random;
use crate::cluster::Scheduler;

/// What happens at a point: the program is killed, or the call has an error, once or for two
/// seconds.
const FAULTS: [(i32, u32); 6] = [
    (0, 0),
    (libc::EIO, 0),
    (libc::EIO, 2000),
    (libc::ENOSPC, 2000),
    (libc::EDQUOT, 2000),
    (libc::ESTALE, 0),
];

/// A list of commands, and what they promised.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// One word.
    pub name: &'static str,
    place: Place,
    play: fn(&mut Play<'_>),
}

/// Where the runs of a story are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this machine.
    Here,
    /// In jobs of a cluster whose login node this machine is.
    Cluster(Scheduler),
    /// On the host `h1`, over ssh.
    Host,
    /// There, and an older build is in use at first.
    Upgrade,
}

/// A call that changes a file, and what happens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The part, the call and the place.
    pub at: String,
    /// 1 is the first time.
    pub time: u32,
    /// The number of the error; 0 kills the program.
    pub error: i32,
    /// For how long all calls at this place fail.
    pub lasting_ms: u32,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Calls that the undisturbed stories made, and their kinds.
    pub calls: (usize, usize),
    /// Points that were tried, and those at which nothing came by this time.
    pub tried: (usize, usize),
    /// A story and a point, with what was not kept, and where the files are.
    pub broken: Vec<String>,
}

impl Point {
    fn line(&self) -> String {
        format!(
            "{} {} {} {}",
            self.time, self.error, self.lasting_ms, self.at
        )
    }

    /// Each point of a record: every kind of call, its first and its last time, each fault.
    fn all(passed: &BTreeMap<String, u32>) -> Vec<Self> {
        let mut all = Vec::new();
        for (at, times) in passed {
            let is_read = at.split(' ').nth(1) == Some("read");
            // How often a place is passed differs a little from round to round.
            let late = *times - *times / 4;
            for time in [1, late].into_iter().take(late.min(2) as usize) {
                for (error, lasting_ms) in FAULTS {
                    let needs_room = [libc::ENOSPC, libc::EDQUOT].contains(&error);
                    if !is_read || (error != 0 && !needs_room) {
                        let at = at.clone();
                        all.push(Self {
                            at,
                            time,
                            error,
                            lasting_ms,
                        });
                    }
                }
            }
        }
        all
    }
}

/// Plays these stories, each with at most `most` of its points, chosen by `seed`; `None` where
/// this user cannot mount a disk.
pub fn run(stories: &[Story], most: usize, seed: u64, only: Option<&str>) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    for story in stories {
        let undisturbed = Round::of(story, None)?;
        let calls = undisturbed.passed.values().sum::<u32>() as usize;
        outcome.calls.0 += calls;
        outcome.calls.1 += undisturbed.passed.len();
        if !undisturbed.broken.is_empty() {
            let broken = undisturbed.broken.join("\n  ");
            let text = format!("{} undisturbed:\n  {broken}", story.name);
            eprintln!("BROKEN: {text}");
            outcome.broken.push(text);
            continue;
        }
        let mut points = Point::all(&undisturbed.passed);
        points.retain(|point| only.is_none_or(|only| point.line().contains(only)));
        let points = chosen(points, most, seed);
        let next = AtomicUsize::new(0);
        let found = Mutex::new(&mut outcome);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let round = Round::of(story, Some((point, &undisturbed.facts)));
                        let round = round.expect("the first one was mounted");
                        let mut found = found.lock().expect("no thread panics");
                        found.tried.0 += 1;
                        if round.failures == 0 {
                            found.tried.1 += 1;
                            eprintln!("not reached: {}: {}", story.name, point.line());
                        }
                        if !round.broken.is_empty() {
                            let (name, line) = (story.name, point.line());
                            let at = round.kept.unwrap_or_default();
                            let broken = round.broken.join("\n  ");
                            let text = format!("{name}: {line}\n  {broken}\n  in {}", at.display());
                            eprintln!("BROKEN: {text}");
                            found.broken.push(text);
                        }
                    }
                });
            }
        });
    }
    Some(outcome)
}

/// `most` of the points, all over the list.
fn chosen(mut points: Vec<Point>, most: usize, seed: u64) -> Vec<Point> {
    let mut random = Random::new(seed);
    for last in (1..points.len()).rev() {
        points.swap(last, random.between(0, last as u64) as usize);
    }
    points.truncate(most);
    points
}

/// One time that a story was played.
struct Round {
    facts: Facts,
    passed: BTreeMap<String, u32>,
    failures: u32,
    broken: Vec<String>,
    kept: Option<PathBuf>,
}

impl Round {
    fn of(story: &Story, disturbed: Option<(&Point, &Facts)>) -> Option<Self> {
        let mut disk = StoryDisk::mounted(disturbed.map(|(point, _)| point), None)?;
        disk = disk.with(story.place);
        let began = Instant::now();
        let mut play = Play::new(&disk);
        (story.play)(&mut play);
        let mut facts = play.settled();
        let passed = disk.passed();
        if let Some((_, undisturbed)) = disturbed {
            let wrong = facts.agree(undisturbed, &mut play);
            play.broken.extend(wrong);
            if facts.differing(undisturbed).is_empty() {
                play.broken.append(&mut play.failed);
            }
        } else {
            play.broken.append(&mut play.failed);
        }
        let mut broken = play.broken;
        if disturbed.is_some() {
            broken.extend(Play::new(&disk).goes_on());
        }
        let failures = disk.failures();
        if !broken.is_empty() {
            broken.push(format!("after {:.1} s", began.elapsed().as_secs_f64()));
        }
        let kept = (!broken.is_empty()).then(|| disk.keep());
        Some(Self {
            facts,
            passed,
            failures,
            broken,
            kept,
        })
    }
}
