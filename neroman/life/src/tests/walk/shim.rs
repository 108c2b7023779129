//! Launcher and shims of a node: a start is claimed, begun, passes its gate and ends; any of its
//! processes may be killed.

use nero_model::RunId;

use super::folder::CODE_UNKNOWN;
use super::node::Node;
use super::world::{Clock, Event, Go, Job, News};
use crate::tests::reach::node::Rec;

impl Node {
    /// The next step of a start, if its processes are there still.
    pub fn goes(&mut self, clock: &mut Clock, boot: u32, id: RunId, start: u32, go: Go) {
        if boot != self.boot {
            return;
        }
        let Some(shim) = self.shims.get(&(id, start)).copied() else {
            return;
        };
        let Some(folder) = self.disk.get_mut(&id) else {
            return clock.breaks("the folder of a start stays while it may go on", Some(id));
        };
        let at = self.at;
        match go {
            Go::Claim if shim.is_alive => {
                let claim = folder.claims.entry(start).or_insert(None);
                if claim.is_some() {
                    return self.is_over(clock, id, start, News::Superseded);
                }
                *claim = Some(boot);
                folder.record(start, Rec::Claimed, 0);
                clock.note(Some(id), format!("n{at}: start {start} is claimed"));
                self.tell(clock, id, start, News::Begun);
                clock.soon(Event::Start(at, boot, id, start, Go::Begin));
            }
            Go::Begin if shim.is_alive => {
                if folder.cancels > 0 {
                    folder.record(start, Rec::NotStartedCancelled, 0);
                    return self.is_over(clock, id, start, News::Ended);
                }
                folder.record(start, Rec::Started, 0);
                if let Some(shim) = self.shims.get_mut(&(id, start)) {
                    shim.is_job_alive = true;
                }
                self.tell(clock, id, start, News::Begun);
                clock.soon(Event::Start(at, boot, id, start, Go::Gate));
            }
            // The job is at its gate, with or without its shim.
            Go::Gate if shim.is_job_alive && shim.job.is_none() => {
                if folder.closed_gates.contains(&start) {
                    return self.is_over(clock, id, start, News::Ended);
                }
                folder.passed_gates.insert(start);
                let (ms, cpus) = (clock.dice.ms(100, 8000), folder.cpus);
                clock.jobs.push(Job {
                    run: id,
                    node: at,
                    cpus,
                    is_alive: true,
                });
                clock.note(Some(id), format!("n{at}: its job begins"));
                if let Some(shim) = self.shims.get_mut(&(id, start)) {
                    shim.job = Some(clock.jobs.len() - 1);
                }
                clock.after(ms, Event::Start(at, boot, id, start, Go::End));
            }
            Go::Ring => self.ring_heard(clock, id, start),
            Go::End => self.job_ends(clock, id, start),
            Go::Claim | Go::Begin | Go::Gate => {}
        }
    }

    /// A shim looks for cancel requests; in its place the launcher that looks after the run does.
    fn ring_heard(&mut self, clock: &mut Clock, id: RunId, start: u32) {
        let (at, boot, launcher) = (self.at, self.boot, self.launcher);
        let Some(folder) = self.disk.get_mut(&id).filter(|one| one.cancels > 0) else {
            return;
        };
        let Some(shim) = self.shims.get_mut(&(id, start)) else {
            return;
        };
        let is_heard = shim.is_alive || launcher == Some(shim.launcher);
        if is_heard && shim.is_job_alive && shim.job.is_some() && !shim.is_stopping {
            shim.is_stopping = true;
            folder.record(start, Rec::StopAsked, 0);
            clock.soon(Event::Start(at, boot, id, start, Go::End));
        }
    }

    fn job_ends(&mut self, clock: &mut Clock, id: RunId, start: u32) {
        let Some(shim) = self.shims.get(&(id, start)).copied() else {
            return;
        };
        if let Some(job) = shim.job.and_then(|job| clock.jobs.get_mut(job)) {
            job.is_alive = false;
        }
        let is_looked_after = shim.is_alive || self.launcher == Some(shim.launcher);
        if let Some(shim) = self.shims.get_mut(&(id, start)) {
            shim.is_job_alive = false;
        }
        let folder = self.disk.get(&id);
        let has = |what: Rec| folder.is_some_and(|folder| folder.has(start, what));
        if !is_looked_after || has(Rec::TreeGone) || has(Rec::Rebooted) {
            return;
        }
        let code = if !shim.is_job_alive {
            CODE_UNKNOWN
        } else if shim.is_stopping {
            143
        } else {
            i32::from(clock.dice.chance(250))
        };
        clock.note(
            Some(id),
            format!("n{}: its job ended, code {code}", self.at),
        );
        let has_exited = has(Rec::Exited);
        if let Some(folder) = self.disk.get_mut(&id) {
            if !has_exited {
                folder.record(start, Rec::Exited, code);
            }
            folder.record(start, Rec::TreeGone, 0);
        }
        self.is_over(clock, id, start, News::Ended);
    }

    /// A start has its last record.
    fn is_over(&mut self, clock: &mut Clock, id: RunId, start: u32, news: News) {
        self.tell(clock, id, start, news);
        self.shims.remove(&(id, start));
    }

    fn tell(&mut self, clock: &mut Clock, id: RunId, start: u32, news: News) {
        let Some(shim) = self.shims.get(&(id, start)) else {
            return;
        };
        let (launcher, token) = (shim.launcher, self.disk.get(&id).map(|one| one.token));
        if let Some(token) = token.filter(|_| self.launcher == Some(launcher)) {
            clock.soon(Event::Told(self.at, launcher, token, start, news));
        }
    }

    /// The shim of a start is killed. Its launcher takes over what it began.
    pub fn shim_dies(&mut self, clock: &mut Clock, nth: u64) {
        let alive = self.shims.iter().filter(|(_, shim)| shim.is_alive);
        let alive: Vec<(RunId, u32)> = alive.map(|(key, _)| *key).collect();
        let Some(&(id, start)) = alive.get(nth as usize % alive.len().max(1)) else {
            return;
        };
        clock.note(
            Some(id),
            format!("n{}: the shim of start {start} is killed", self.at),
        );
        let Some(shim) = self.shims.get_mut(&(id, start)) else {
            return;
        };
        shim.is_alive = false;
        if shim.is_job_alive {
            return;
        }
        let has_claim = self
            .disk
            .get(&id)
            .and_then(|one| one.claims.get(&start).copied());
        let news = match has_claim.flatten() {
            Some(_) => News::Ended,
            None => News::NoClaim,
        };
        self.is_over(clock, id, start, news);
    }

    /// The machine starts anew: no process is left, and what was written is there.
    pub fn reboots(&mut self, clock: &mut Clock) {
        clock.note(None, format!("{}: its machine starts anew", self.name));
        self.dies(clock);
        self.launcher = None;
        self.boot += 1;
        for shim in std::mem::take(&mut self.shims).into_values() {
            if let Some(job) = shim.job.and_then(|job| clock.jobs.get_mut(job)) {
                job.is_alive = false;
            }
        }
    }
}
