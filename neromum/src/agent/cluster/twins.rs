//! A thousand submissions whose answers are lost, late, or wrong, in a made-up world:
//! the standing of a submission and the word about its task are the product's, the
//! steps of leader and starts are those of `docs/design/schedulers.md`. Each run ends
//! once, and no two starts of it overlap. Without any one of the guards that does
//! not hold.

use nero_warden::standing::{Standing, Step};
use nero_warden::{Ended, JobId, JobName, Listed, Queue, Reason, State, Submitted};

use super::task::{Seen, Task};

/// A step that keeps starts apart, and may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The leader closes a task before its run is submitted again.
    Close,
    /// A start looks for the closed task after it made its launch known.
    LookBeforeClaim,
    /// The leader reads the starts again after it closed the task.
    ReadAgain,
    /// The leader takes the claim away from a start that may be frozen.
    Withhold,
    /// Of two that make a claim one wins.
    Exclusive,
}

const GUARDS: [Guard; 5] = [
    Guard::Close,
    Guard::LookBeforeClaim,
    Guard::ReadAgain,
    Guard::Withhold,
    Guard::Exclusive,
];

/// Pseudo-random numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Where a start stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    LookForClosed,
    WaitForEarlier,
    Announce,
    LookAgain,
    Claim,
    Run,
    Left,
}

#[derive(Clone, Debug)]
struct ModelStart {
    submission: usize,
    job: u64,
    at: Progress,
    /// Its next step is made then; until then its beat stands still if it is frozen.
    wakes_s: u64,
    beat_s: u64,
    /// The incarnation that it was about to launch.
    announced: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Withheld,
    Of(usize),
    Ended,
}

#[derive(Clone, Debug)]
struct ModelJob {
    id: u64,
    submission: usize,
    /// When it is in the queue, when it starts, and since when it is over.
    arrives_s: u64,
    starts_s: u64,
    over_s: Option<u64>,
    start: Option<usize>,
    /// The controller forgot it.
    is_forgotten: bool,
}

struct Submission {
    name: JobName,
    standing: Standing,
    task: Task,
    made_s: u64,
    is_closed: bool,
}

struct World {
    dice: Dice,
    without: Option<Guard>,
    now_s: u64,
    up_since_s: u64,
    submissions: Vec<Submission>,
    jobs: Vec<ModelJob>,
    starts: Vec<ModelStart>,
    claims: Vec<Claim>,
    /// Starts that made a claim.
    ran: Vec<usize>,
    overlaps: u32,
    ends: u32,
    next_look_s: u64,
}

/// Three beats.
const STILL_S: u64 = 45;
const SECONDS: u64 = 9000;

impl World {
    fn new(seed: u64, without: Option<Guard>) -> Self {
        let mut world = Self {
            dice: Dice(seed),
            without,
            now_s: 0,
            up_since_s: 0,
            submissions: Vec::new(),
            jobs: Vec::new(),
            starts: Vec::new(),
            claims: Vec::new(),
            ran: Vec::new(),
            overlaps: 0,
            ends: 0,
            next_look_s: 0,
        };
        world.intend();
        world
    }

    fn has(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    fn intend(&mut self) {
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        let id = (0..26).map(|_| char::from(letters[self.dice.below(32) as usize]));
        let id: String = id.collect();
        self.submissions.push(Submission {
            name: JobName::of(&id).unwrap(),
            standing: Standing::NEW,
            task: Task::new(0, Vec::new()),
            made_s: self.now_s,
            is_closed: false,
        });
    }

    /// The call: accepted and told, accepted and not told, on its way for long, or lost.
    fn call(&mut self, submission: usize) {
        self.submissions[submission].standing.sent();
        let id = self.jobs.len() as u64 + 1;
        let way = self.dice.below(4);
        let late_s = match way {
            2 => self.dice.below(400),
            _ => 0,
        };
        if way != 3 {
            let arrives_s = self.now_s + late_s;
            self.jobs.push(ModelJob {
                id,
                submission,
                arrives_s,
                starts_s: arrives_s + self.dice.below(300),
                over_s: None,
                start: None,
                is_forgotten: false,
            });
        }
        let answer = match way {
            0 => Submitted::Accepted(JobId(id)),
            _ => Submitted::Ambiguous("Socket timed out".to_owned()),
        };
        let one = &mut self.submissions[submission];
        one.standing.answered(answer);
        if self.dice.one_in(4) && matches!(one.standing, Standing::InDoubt(_)) {
            // The leader was killed, and the call with it.
            one.standing = Standing::recovered();
            one.standing.call_is_over();
        }
    }

    fn queue(&self, submission: usize) -> Queue {
        let row = |job: &ModelJob| {
            let state = match (job.over_s, job.start) {
                (Some(at), _) if self.now_s > at + 100 => return None,
                (Some(_), _) => State::Ended(Ended::Completed),
                (None, Some(_)) => State::Running,
                (None, None) => State::Waiting(Reason::default()),
            };
            Some(Listed {
                name: self.submissions[submission].name.clone(),
                job: JobId(job.id),
                tasks: None,
                state,
                host: None,
                start_s: None,
            })
        };
        let jobs = self.jobs.iter().filter(|job| {
            job.submission == submission && job.arrives_s <= self.now_s && !job.is_forgotten
        });
        Queue {
            ours: jobs.filter_map(row).collect(),
            ..Queue::default()
        }
    }

    fn lives(&self, start: &ModelStart) -> bool {
        start.at != Progress::Left && self.now_s < start.beat_s + STILL_S
    }

    fn look(&mut self) {
        let newest = self.submissions.len() - 1;
        let queue = self.queue(newest);
        let began = self.starts.iter().find(|start| start.submission == newest);
        let began = began.map(|start| JobId(start.job));
        let one = &mut self.submissions[newest];
        if let Some(job) = began {
            one.standing.began(job);
        }
        let step = one.standing.listed(self.now_s * 1000, &queue, &one.name);
        match step {
            Step::CancelTwins(twins) => {
                for twin in twins {
                    let job = self.jobs.iter_mut().find(|job| job.id == twin.0);
                    job.unwrap().over_s.get_or_insert(self.now_s);
                }
            }
            Step::Submit | Step::List | Step::Rest => {}
        }
        if one.standing.next() == Step::Submit {
            self.call(newest);
            return;
        }
        let Standing::Accepted(job) = one.standing else {
            return;
        };
        let rows: Vec<&Listed> = queue.ours.iter().collect();
        let row = one.task.row(&rows, job).cloned();
        one.task.listed(row.as_ref(), self.now_s * 1000);
        if matches!(one.task.seen, Seen::Gone(_)) && !self.any_lives(newest) {
            self.is_over(newest);
        }
    }

    fn any_lives(&self, submission: usize) -> bool {
        let mut starts = self.starts.iter();
        starts.any(|start| start.submission == submission && self.lives(start))
    }

    /// The task is over by the scheduler's word and the beats.
    fn is_over(&mut self, submission: usize) {
        if self
            .claims
            .last()
            .is_some_and(|claim| *claim != Claim::Withheld)
        {
            return;
        }
        let one = &self.submissions[submission];
        let age_s = self.now_s - one.made_s;
        let was_lost = age_s > self.now_s - self.up_since_s;
        if !was_lost && !one.is_closed {
            // A person decides: here that the controller is started anew.
            self.up_since_s = self.now_s;
            return;
        }
        // Names may come between the look that found the task over and this step: the
        // leader may have been frozen, too.
        let before = self.announced(submission);
        for _ in 0..self.dice.below(60) {
            self.second();
        }
        if self.has(Guard::Close) {
            self.submissions[submission].is_closed = true;
        }
        let announced = match self.has(Guard::ReadAgain) {
            true if self.any_lives(submission) => return,
            true => self.announced(submission),
            false => before,
        };
        let is_claimed = self
            .claims
            .last()
            .is_some_and(|claim| *claim != Claim::Withheld);
        if self.has(Guard::Withhold) && announced && !is_claimed {
            self.claims.push(Claim::Withheld);
        }
        if self
            .claims
            .last()
            .is_none_or(|claim| *claim == Claim::Withheld)
        {
            self.intend();
        }
    }

    /// Whether a start that did not leave made known that it launches.
    fn announced(&self, submission: usize) -> bool {
        let incarnation = self.claims.len();
        self.starts.iter().any(|start| {
            start.submission == submission
                && start.at != Progress::Left
                && start.announced == Some(incarnation)
        })
    }

    /// A second of jobs and starts.
    fn second(&mut self) {
        self.now_s += 1;
        for index in 0..self.jobs.len() {
            let job = &self.jobs[index];
            let is_due = job.start.is_none() && job.over_s.is_none() && job.starts_s <= self.now_s;
            if is_due && job.arrives_s <= self.now_s {
                self.begin(index);
            }
            let job = &mut self.jobs[index];
            let start = job.start.map(|start| &self.starts[start]);
            if start.is_some_and(|start| start.at == Progress::Left) {
                job.over_s.get_or_insert(self.now_s);
            }
        }
        for index in 0..self.starts.len() {
            self.step(index);
        }
        if self.dice.one_in(1500) && self.now_s < SECONDS / 2 {
            self.roll_back();
        }
    }

    /// The controller is started anew and forgets some of what it had.
    fn roll_back(&mut self) {
        self.up_since_s = self.now_s;
        for job in &mut self.jobs {
            job.is_forgotten |= self.dice.one_in(2);
        }
    }

    fn begin(&mut self, job: usize) {
        let (id, submission) = (self.jobs[job].id, self.jobs[job].submission);
        // What a controller forgot may be on its way to a host.
        if self.jobs[job].is_forgotten && self.dice.one_in(2) {
            self.jobs[job].over_s = Some(self.now_s);
            return;
        }
        self.jobs[job].start = Some(self.starts.len());
        self.starts.push(ModelStart {
            submission,
            job: id,
            at: Progress::LookForClosed,
            wakes_s: self.now_s,
            beat_s: self.now_s,
            announced: None,
        });
    }

    fn step(&mut self, index: usize) {
        let start = self.starts[index].clone();
        if start.wakes_s > self.now_s || start.at == Progress::Left {
            return;
        }
        self.starts[index].beat_s = self.now_s;
        let at = self.next_of(index, &start);
        let start = &mut self.starts[index];
        start.at = at;
        let was_frozen = at != Progress::Run && self.dice.one_in(4);
        start.wakes_s = self.now_s + if was_frozen { self.dice.below(900) } else { 0 };
    }

    fn next_of(&mut self, index: usize, start: &ModelStart) -> Progress {
        let is_closed = self.submissions[start.submission].is_closed;
        let incarnation = self.claims.len();
        match start.at {
            Progress::LookForClosed if is_closed => Progress::Left,
            Progress::LookForClosed => Progress::WaitForEarlier,
            Progress::WaitForEarlier => {
                let earlier = &self.starts[..index];
                let mut earlier = earlier
                    .iter()
                    .filter(|one| one.submission == start.submission);
                match earlier.any(|one| self.lives(one)) {
                    true => Progress::Left,
                    false => Progress::Announce,
                }
            }
            Progress::Announce => match self.claims.last() {
                None | Some(Claim::Withheld) => {
                    self.starts[index].announced = Some(incarnation);
                    Progress::LookAgain
                }
                Some(Claim::Of(_) | Claim::Ended) => Progress::Left,
            },
            Progress::LookAgain if is_closed && self.has(Guard::LookBeforeClaim) => Progress::Left,
            Progress::LookAgain => Progress::Claim,
            Progress::Claim => {
                let is_free = start.announced == Some(incarnation);
                if !is_free && self.has(Guard::Exclusive) {
                    return Progress::Left;
                }
                if self
                    .claims
                    .iter()
                    .any(|claim| matches!(claim, Claim::Of(_)))
                {
                    self.overlaps += 1;
                }
                self.claims.push(Claim::Of(index));
                self.ran.push(index);
                Progress::Run
            }
            Progress::Run if self.dice.one_in(60) => {
                let own = self
                    .claims
                    .iter_mut()
                    .find(|claim| **claim == Claim::Of(index));
                *own.unwrap() = Claim::Ended;
                self.ends += 1;
                Progress::Left
            }
            Progress::Run => Progress::Run,
            Progress::Left => Progress::Left,
        }
    }

    /// Whether the run's end is one of the leader's newest submission: of earlier ones it
    /// expects nothing.
    fn is_told(&self) -> bool {
        let last = self.ran.last();
        last.is_some_and(|start| self.starts[*start].submission + 1 == self.submissions.len())
    }

    fn is_quiet(&self) -> bool {
        self.ends > 0 && self.jobs.iter().all(|job| job.over_s.is_some())
    }

    fn play(mut self) -> Self {
        while self.now_s < SECONDS && !self.is_quiet() {
            if self.now_s >= self.next_look_s {
                self.next_look_s = self.now_s + 10;
                self.look();
            }
            self.second();
        }
        self
    }
}

/// What went wrong in a world, if anything did, and the number of copies in it.
fn play(seed: u64, without: Option<Guard>) -> (Option<&'static str>, u64) {
    let world = World::new(seed, without).play();
    let copies = world.jobs.len() as u64 - 1;
    let wrong = [
        (world.overlaps > 0, "two starts overlap"),
        (world.ran.len() > 1, "it ran twice"),
        (world.ends == 0, "it never ended"),
        (!world.is_told(), "its submission never tells its end"),
    ];
    let wrong = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
    (wrong.map(|(_, what)| what), copies)
}

#[test]
fn of_a_thousand_submissions_with_late_copies_each_run_ends_once() {
    let mut copies = 0;
    for seed in 0..1000 {
        let (wrong, more) = play(seed, None);
        assert_eq!(wrong, None, "seed {seed}");
        copies += more;
    }
    assert!(copies >= 100, "{copies} copies");
}

#[test]
fn without_any_one_of_its_guards_a_late_copy_overlaps_or_loses_a_run() {
    for guard in GUARDS {
        let goes_wrong = |seed: u64| play(seed, Some(guard)).0.is_some();
        assert!((0..20_000).any(goes_wrong), "{guard:?} guards nothing");
    }
}
