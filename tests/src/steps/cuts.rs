//! Power cuts: what a story has shown is so after them.
//!
//! A story is played once. What the disk would hold is written down behind each answer, and in
//! front of some syncs. Each time the machine starts anew with it.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::disk::StoryDisk;
use super::judge::Facts;
use super::play::{Moment, Play};
use super::{Outcome, Place, Story};
use crate::chaos::random::Random;
use crate::power::{Cut, Remnant};

/// Time after which all that was shown is so again.
const AGAIN: Duration = Duration::from_secs(45);

/// The first sync in front of which there is a cut: up to the pause between two of them.
const FIRST_CUT_MAX: u64 = 7;

/// Files of the test and of jobs, whose disk is another one.
const BESIDE: [&str; 4] = ["notes", "steps", "go", "mails"];

/// What is left of the person's side, and of the node's.
const REMNANTS: [(Remnant, Remnant); 7] = [
    (Remnant::All, Remnant::All),
    (Remnant::Own, Remnant::Own),
    (Remnant::Torn, Remnant::Torn),
    (Remnant::All, Remnant::Now),
    (Remnant::Now, Remnant::All),
    (Remnant::Own, Remnant::Now),
    (Remnant::Now, Remnant::Torn),
];

/// Plays these stories, each with at most `most` cuts, chosen by `seed`; `None` where this user
/// cannot mount a disk.
///
/// # Panics
/// When the disk of the test refuses.
pub fn cut(stories: &[Story], most: usize, seed: u64) -> Option<Outcome> {
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Some(Outcome::default()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(story) = stories.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nodes that are machines of their own have a power of their own.
                    if story.place != Place::Here {
                        continue;
                    }
                    let found = of_story(story, most, seed);
                    let mut all = outcome.lock().expect("no thread panics");
                    *all = all.take().zip(found).map(|(mut all, found)| {
                        all.calls.0 += found.calls.0;
                        all.tried.0 += found.tried.0;
                        all.broken.extend(found.broken);
                        all
                    });
                }
            });
        }
    });
    outcome.into_inner().expect("no thread panics")
}

fn of_story(story: &Story, most: usize, seed: u64) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    let mut random = Random::of_text(seed, story.name);
    let mut played = Played::of(story, random.between(0, FIRST_CUT_MAX))?;
    let cuts = played.cuts();
    outcome.calls.0 = cuts.len();
    let mut what = "undisturbed".to_owned();
    for _ in 0..most {
        let (Some((at, name)), true) = (random.pick(&cuts), played.broken.is_empty()) else {
            break;
        };
        let left = random.pick(&REMNANTS).expect("some of them");
        // The time of a file is that of the last tick.
        let own = name
            .strip_prefix("cut.")
            .and_then(|number| number.parse().ok());
        let earlier = || played.moments.iter().rposition(|moment| moment.at <= at);
        let before = own.or_else(earlier);
        let words = before.map_or("nothing", |before| &played.moments[before].words);
        what = format!("{name} with {left:?} left, behind {words}");
        played.boot(&name, left, before, &mut random);
        outcome.tried.0 += 1;
    }
    if !played.broken.is_empty() {
        let (broken, kept) = (played.broken.join("\n  "), played.disk.keep());
        let text = format!(
            "{}: {what}\n  {broken}\n  in {}",
            story.name,
            kept.display()
        );
        eprintln!("BROKEN: {text}");
        outcome.broken.push(text);
    }
    Some(outcome)
}

/// The power may be cut as soon as a command is answered, and again when a person has looked at
/// everything. At the first moment what was shown before is promised, and what the command did.
fn shown(play: &mut Play<'_>, words: &[&str]) {
    let mut words = words.join(" ");
    let disk = play
        .home
        .path()
        .parent()
        .expect("it lies on a disk")
        .to_path_buf();
    let cut = |moments: &[Moment]| {
        let at = SystemTime::now();
        let name = format!("cut.{}", moments.len());
        fs::create_dir(disk.join(name)).expect("a folder");
        at
    };
    let at = cut(&play.moments);
    let facts = Facts::of(play);
    let before = play.moments.last().map(|last| &last.shown);
    let shown = facts.asked_for(before);
    play.moments.push(Moment {
        words: words.clone(),
        at,
        shown,
    });
    words.push_str(" and a look");
    let at = cut(&play.moments);
    play.moments.push(Moment {
        words,
        at,
        shown: facts,
    });
}

/// A story that was played, and its disk, from which everything can be taken up again.
struct Played {
    disk: StoryDisk,
    moments: Vec<Moment>,
    /// Files of the story itself.
    own: Vec<PathBuf>,
    broken: Vec<String>,
    boots: usize,
}

impl Played {
    fn of(story: &Story, first_cut: u64) -> Option<Self> {
        let mut disk = StoryDisk::mounted(None, Some(first_cut))?;
        let traced = disk.cuts().join("traced");
        let strace = "strace -DDD -f -qq --seccomp-bpf -e signal=none -e trace=syncfs -A -o";
        disk.start_by(&format!("{strace} {}", traced.display()));
        // The kind of this file system says that it is.
        disk.home().configure("nodes: {local: {shared: false}}\n");
        let mut play = Play::new(&disk);
        play.answered = shown;
        (story.play)(&mut play);
        play.settled();
        shown(&mut play, &["nothing more"]);
        let (moments, own, broken) = (play.moments, play.own, play.broken);
        disk.take_away();
        Some(Self {
            disk,
            moments,
            own,
            broken,
            boots: 0,
        })
    }

    /// The moments at which the power may be cut, and their names.
    fn cuts(&self) -> Vec<(SystemTime, String)> {
        let entries = fs::read_dir(self.disk.cuts()).expect("a folder").flatten();
        let mut cuts: Vec<_> = entries
            .filter_map(|entry| {
                let at = entry.path().join("now").metadata().ok()?.modified();
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((at.expect("a time"), name))
            })
            .collect();
        cuts.sort();
        cuts
    }

    /// Starts the machine anew with what is left, and notes what was lost of what was shown.
    fn boot(
        &mut self,
        cut: &str,
        (head, node): (Remnant, Remnant),
        before: Option<usize>,
        random: &mut Random,
    ) {
        let home = self.disk.home().path().to_path_buf();
        let _ = fs::remove_dir_all(&home);
        let left = |path: &Path| {
            let mut words = path.components().skip(1).map(Component::as_os_str);
            match (words.next(), words.next()) {
                (Some(name), _) if BESIDE.iter().any(|beside| name == *beside) => Remnant::Now,
                (Some(base), Some(name)) if base == "home" && name == "node" => node,
                _ => head,
            }
        };
        let at = home.parent().expect("it lies on a disk");
        let put = Cut::of(&self.disk.cuts(), cut).put(at, left, random);
        put.expect("the disk takes it");
        self.boots += 1;
        let number = self.boots;
        let boot_id = self.disk.cuts().join(format!("boot_id.{number}"));
        fs::write(&boot_id, format!("00000000-0000-4000-8000-{number:012}\n")).expect("a file");
        self.disk.start_by(&format!(
            "unshare --mount --propagation private sh -c \
'mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"'",
            boot_id.display()
        ));
        let mut play = Play::new(&self.disk);
        play.own.clone_from(&self.own);
        // What a job waits for.
        fs::write(home.join("go"), "").expect("a file");
        let began = Instant::now();
        self.broken = loop {
            let facts = play.settled();
            let shown = before.map(|before| &self.moments[before].shown);
            let lost = shown.map_or_else(Vec::new, |shown| shown.lost(&facts));
            if lost.is_empty() || began.elapsed() > AGAIN || !play.broken.is_empty() {
                break lost;
            }
        };
        self.broken.append(&mut play.broken);
        if self.broken.is_empty() {
            self.broken = Play::new(&self.disk).goes_on();
        }
        self.disk.home().end_everything();
    }
}
