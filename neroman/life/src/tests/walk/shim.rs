//! Launcher and shims of a node: a start is claimed, begun, passes its gate and ends; any of its
//! processes may be killed.

use std::cmp::Reverse;

use nero_model::RunId;

use super::cards::Lock;
use super::node::{Node, Shim};
use super::world::{Clock, Event, Go, Job, News, note};
use crate::tests::reach::node::Rec;

impl Node {
    pub fn new_shim(&mut self, id: RunId, start: u32, launcher: u32, lock: Option<Lock>) -> u32 {
        self.next_shim += 1;
        let shim = Shim {
            id,
            start,
            has_claim: false,
            is_alive: true,
            is_job_alive: false,
            is_stopping: false,
            launcher,
            job: None,
            lock,
        };
        self.shims.insert(self.next_shim, shim);
        self.next_shim
    }

    /// The shim that claimed a start, else the first that may do so.
    pub fn shim_of(&self, id: RunId, start: u32) -> Option<(u32, Shim)> {
        let own = self.shims.iter().map(|(number, shim)| (*number, *shim));
        let own = own.filter(|(_, shim)| (shim.id, shim.start) == (id, start));
        own.max_by_key(|(number, shim)| (shim.has_claim, Reverse(*number)))
    }

    /// The next step of a shim, if it is there still.
    pub fn goes(&mut self, clock: &mut Clock, number: u32, go: Go) {
        let Some(shim) = self.shims.get_mut(&number) else {
            return;
        };
        let (id, start) = (shim.id, shim.start);
        let Some(folder) = self.disk.get_mut(&id) else {
            return clock.breaks("the folder of a start stays while it may go on", Some(id));
        };
        let at = self.at;
        match go {
            Go::Claim if shim.is_alive => {
                let claim = folder.claims.entry(start).or_insert(None);
                if claim.is_some() {
                    return self.is_over(clock, number, News::Superseded);
                }
                *claim = Some(self.boot);
                shim.has_claim = true;
                folder.record(start, Rec::Claimed, None);
                note!(clock, Some(id), "n{at}: start {start} is claimed");
                self.tell(clock, number, News::Begun);
                clock.soon(Event::Start(at, number, Go::Begin));
            }
            Go::Begin if shim.is_alive => {
                if folder.cancels > 0 {
                    folder.record(start, Rec::NotStartedCancelled, None);
                    return self.is_over(clock, number, News::Ended);
                }
                folder.record(start, Rec::Started, None);
                shim.is_job_alive = true;
                self.tell(clock, number, News::Begun);
                clock.soon(Event::Start(at, number, Go::Gate));
            }
            // The job is at its gate, with or without its shim.
            Go::Gate if shim.is_job_alive && shim.job.is_none() => {
                if folder.closed_gates.contains(&start) {
                    return self.is_over(clock, number, News::Ended);
                }
                folder.passed_gates.insert(start);
                let ms = clock.dice.ms(100, 8000) * clock.rates.slow;
                shim.job = Some(clock.jobs.len());
                clock.is_new = true;
                clock.jobs.push(Job {
                    run: id,
                    token: folder.token,
                    node: at,
                    cpus: folder.cpus,
                    lock: shim.lock,
                    is_alive: true,
                    is_lost: false,
                });
                note!(clock, Some(id), "n{at}: its job begins");
                clock.after(ms, Event::Start(at, number, Go::End));
            }
            // A shim looks for cancel requests; in its place the launcher that looks after the
            // run does.
            Go::Ring => {
                let is_heard = shim.is_alive || self.launcher == Some(shim.launcher);
                let has_job = shim.is_job_alive && shim.job.is_some() && !shim.is_stopping;
                if folder.cancels > 0 && is_heard && has_job {
                    shim.is_stopping = true;
                    folder.record(start, Rec::StopAsked, None);
                    clock.soon(Event::Start(at, number, Go::End));
                }
            }
            Go::End => self.job_ends(clock, number),
            Go::Claim | Go::Begin | Go::Gate => {}
        }
    }

    fn job_ends(&mut self, clock: &mut Clock, number: u32) {
        let Some(shim) = self.shims.get_mut(&number) else {
            return;
        };
        clock.job_ends(shim.job);
        let (id, start, had_job) = (shim.id, shim.start, shim.is_job_alive);
        let is_looked_after = shim.is_alive || self.launcher == Some(shim.launcher);
        shim.is_job_alive = false;
        let code = match (had_job, shim.is_stopping) {
            (false, _) => None,
            (true, true) => Some(143),
            (true, false) => Some(i32::from(clock.dice.chance(clock.rates.crashes))),
        };
        let Some(folder) = self.disk.get_mut(&id) else {
            return;
        };
        let last = [Rec::TreeGone, Rec::Rebooted, Rec::FolderGone];
        if last.into_iter().any(|one| folder.has(start, one)) {
            self.shims.remove(&number);
            return;
        }
        if !is_looked_after {
            return;
        }
        let at = self.at;
        note!(clock, Some(id), "n{at}: its job ended, code {code:?}");
        if !folder.has(start, Rec::Exited) {
            folder.record(start, Rec::Exited, code);
        }
        folder.record(start, Rec::TreeGone, None);
        self.is_over(clock, number, News::Ended);
    }

    /// A shim has its last record.
    fn is_over(&mut self, clock: &mut Clock, number: u32, news: News) {
        self.tell(clock, number, news);
        self.shims.remove(&number);
    }

    fn tell(&mut self, clock: &mut Clock, number: u32, news: News) {
        let Some(shim) = self.shims.get(&number) else {
            return;
        };
        let token = self.disk.get(&shim.id).map(|one| one.token);
        if let Some(token) = token.filter(|_| self.launcher == Some(shim.launcher)) {
            let told = Event::Told(self.at, shim.launcher, token, shim.start, news);
            clock.soon(told);
        }
    }

    /// A shim is killed. Its launcher takes over what it began.
    pub fn shim_dies(&mut self, clock: &mut Clock, nth: u64) {
        let alive = self.shims.iter_mut().filter(|(_, shim)| shim.is_alive);
        let mut alive: Vec<(&u32, &mut Shim)> = alive.collect();
        let nth = nth as usize % alive.len().max(1);
        let Some((number, shim)) = alive.get_mut(nth) else {
            return;
        };
        shim.is_alive = false;
        let (number, id) = (**number, shim.id);
        let (has_claim, has_job) = (shim.has_claim, shim.is_job_alive);
        note!(clock, Some(id), "n{}: a shim is killed", self.at);
        match (has_job, has_claim) {
            (true, _) => {}
            (false, true) => self.is_over(clock, number, News::Ended),
            (false, false) => self.is_over(clock, number, News::NoClaim),
        }
    }

    /// A person deletes the folder of a run whose job goes on, and neromum notes that.
    pub fn folder_is_deleted(&mut self, clock: &mut Clock, nth: u64) {
        let jobs = self.shims.values().filter(|shim| shim.is_job_alive);
        let jobs = jobs.filter_map(|shim| Some((shim.id, shim.start, shim.job?)));
        let jobs: Vec<(RunId, u32, usize)> = jobs.collect();
        let Some((id, start, job)) = jobs.get(nth as usize % jobs.len().max(1)) else {
            return;
        };
        let token = self.disk.get(id).map(|folder| folder.token);
        if let Some(token) = token.filter(|token| self.entry(token).is_some()) {
            clock.jobs[*job].is_lost = true;
            let said = self.say(clock, token, *start, Rec::FolderGone);
            self.lives(clock, said);
        }
    }

    /// The machine starts anew: no process is left, and what was written is there.
    pub fn reboots(&mut self, clock: &mut Clock) {
        note!(clock, None, "{}: its machine starts anew", self.name);
        self.dies(clock);
        self.launcher = None;
        self.boot += 1;
        for shim in std::mem::take(&mut self.shims).into_values() {
            clock.job_ends(shim.job);
        }
    }
}
