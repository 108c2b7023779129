//! One turn: new rules, new output, a sample, the evaluation of rules; then
//! records to the disk, and only then the actions that follow from them.

use std::io;

use nero_expr::CohortNumber;
use nero_journal::request::RequestKind;
use nero_journal::v1::{RulesApplied, RulesRefused, StepAsked};
use nero_model::paths::run as names;
use nero_model::setup;
use nero_wire::v1::RuleSet;

use super::begin::BLOCK_BYTES;
use super::{HEARD_MAX_MS, RING_AGAIN_MS, UnseenRequests, Watch, WatchError, past};
use crate::core::facts::Sight;
use crate::core::intake::Intake;
use crate::core::log::Log;
use crate::core::record::Record;
use crate::core::rules::{Effect, SentRule};
use crate::folder::control;
use crate::folder::life::Life;
use crate::output::tail::{Look, Tail};
use crate::processes::sample::{Measure as _, Usage};
use crate::processes::signals;

/// Limit of blocks read from each log in one turn, so that other work gets its
/// time.
const BLOCKS_PER_TURN: usize = 32;

/// The first bytes of standard error, in which lines of `setup` are looked for.
const SETUP_BYTES_MAX: u64 = 1 << 20;
/// Most lines of `setup` that are told.
const SETUP_SHOWN_MAX: usize = 5;

/// Most hosts that a remark names.
const UNWATCHED_SHOWN_MAX: usize = 16;

impl Watch {
    /// Does one turn. Returns true when there is more to read.
    pub(super) fn turn(&mut self) -> Result<bool, WatchError> {
        // Output that came while the disk refused records is still to be read.
        let mut more = self.journal.is_stuck();
        // While the disk refuses records, no further ones are made.
        if !more {
            self.take_ran();
            if std::mem::take(&mut self.look_at_rules) {
                let since = self.rules.version().max(self.rules_refused);
                self.newer_rules(since, 0);
                self.pass_requests_on();
                self.tell_step();
            }
            self.look_for_unheard();
            self.remember()?;
            let ran_ms = self.sight().runtime_ms().unwrap_or(0);
            self.intake.series_mut().set_ran_ms(ran_ms);
            // Files first: what they report is not read from the output.
            more = self.read_files()? | self.read_logs()?;
            self.intake.tick(self.now.mono_ms, &mut self.out);
            let samples = self.sample_due_ms <= self.now.mono_ms;
            if samples {
                self.sample();
            }
            self.follow_progress(samples);
            self.remember()?;
            self.evaluate();
            self.rules.tell_held(&mut self.out);
            self.intake.flush(&mut self.out);
        }
        self.write()?;
        Ok(more && !self.journal.is_stuck())
    }

    /// Records the ends of commands of rules.
    pub(super) fn take_ran(&mut self) {
        for ran in self.acts.ended(&self.place) {
            self.rules.ran(ran.rule, ran.times);
            self.out.push(Record::RuleRan(ran));
        }
    }

    /// Writes the decided records; then carries out their actions, and sends
    /// them.
    pub(super) fn write(&mut self) -> Result<(), WatchError> {
        self.journal.write(self.out.drain(..))?;
        if !self.journal.is_stuck() {
            self.acts.sweep();
            self.asked.extend(self.rules.take_asked());
            self.carry_out();
        }
        self.journal.send();
        Ok(())
    }

    /// Reads points again that a new rule asks for. They are on disk first.
    pub(super) fn remember(&mut self) -> Result<(), WatchError> {
        for (series, past) in self.rules.take_wants() {
            self.intake.series_mut().want(series, past);
        }
        let lacking = self.intake.series().lacking();
        if lacking.is_empty() {
            return Ok(());
        }
        self.intake.close_window(&mut self.out);
        self.intake.flush(&mut self.out);
        // Points that end the hold of a `for` are written here: a later watcher does not
        // read them again.
        self.rules.tell_held(&mut self.out);
        self.write()?;
        if self.journal.is_stuck() {
            return Ok(());
        }
        let pasts = past::read(&self.place, &self.life, lacking);
        let pasts = pasts.map_err(|source| WatchError::Read {
            folder: self.place.folder.clone(),
            source,
        })?;
        self.intake.series_mut().remember(pasts);
        Ok(())
    }

    /// Reads a bounded piece of both logs; returns true when there is more.
    pub(super) fn read_logs(&mut self) -> Result<bool, WatchError> {
        let mut more = false;
        let mut tails = std::mem::take(&mut self.tails);
        let read = tails.iter_mut().try_for_each(|tail| {
            more |= self.read_log(tail)?;
            Ok(())
        });
        self.tails = tails;
        read.map(|()| more)
    }

    fn read_log(&mut self, tail: &mut Tail) -> Result<bool, WatchError> {
        let more = self.read_tail(tail).map_err(|source| WatchError::Log {
            path: tail.path().to_path_buf(),
            source,
        })?;
        if tail.was_deleted() {
            let path = tail.path().display();
            let text = format!("{path} was deleted; what is printed is still read");
            self.out.push(Record::notice(text));
        }
        Ok(more)
    }

    /// Reads a bounded piece of one log; returns true when there is more.
    pub(super) fn read_tail(&mut self, tail: &mut Tail) -> io::Result<bool> {
        for _ in 0..BLOCKS_PER_TURN {
            match tail.read_next(&mut self.block)? {
                Look::Bytes(count) => {
                    let block = std::mem::take(&mut self.block);
                    self.take(tail.log, &block[..count]);
                    if tail.log == Log::Stderr && tail.offset() <= SETUP_BYTES_MAX {
                        self.tell_failed_setup(&block[..count]);
                    }
                    self.block = block;
                    if count < BLOCK_BYTES {
                        // Another file may have the name by now.
                        return Ok(tail.must_check_name());
                    }
                }
                Look::NewPart => self.intake.truncated(tail.log, &mut self.out),
                Look::Nothing => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reports the lines of `setup` that failed: bash, or `neromum job` in an allocation, writes
    /// them before what the job prints.
    fn tell_failed_setup(&mut self, bytes: &[u8]) {
        let lines = bytes.split(|byte| *byte == b'\n');
        let texts = lines.filter_map(|line| setup::failure(&String::from_utf8_lossy(line)));
        self.out
            .extend(texts.take(SETUP_SHOWN_MAX).map(Record::notice));
    }

    /// Takes the next bytes of a log.
    pub(super) fn take(&mut self, log: Log, bytes: &[u8]) {
        match log {
            Log::Stdout | Log::Stderr => self.facts.output_ms = self.now.mono_ms,
            // A file may be read again from its start.
            Log::File(_) => {}
        }
        let (rules, facts, now) = (&mut self.rules, &self.facts, self.now);
        let each_line = |intake: &mut Intake, out: &mut Vec<Record>| {
            if rules.is_empty() {
                return;
            }
            let mut news = Vec::new();
            let sight = Sight {
                facts,
                series: intake.series(),
                now,
            };
            rules.see(&sight, &mut news);
            for (series, past) in rules.take_wants() {
                intake.series_mut().want(series, past);
            }
            let sight = Sight {
                facts,
                series: intake.series(),
                now,
            };
            rules.touched(intake.touched(), &sight, &mut news);
            if !news.is_empty() {
                // The points that made the rule hold come first.
                intake.flush(out);
                out.append(&mut news);
            }
        };
        self.intake
            .feed(log, bytes, now.mono_ms, &mut self.out, each_line);
    }

    /// Takes the progress that was printed; records it if it changed, `all` also small
    /// changes. A watcher that goes on from the record reads no older line again.
    pub(super) fn follow_progress(&mut self, all: bool) {
        let printed = self.intake.take_done();
        let sight = Sight {
            facts: &self.facts,
            series: self.intake.series(),
            now: self.now,
        };
        self.progress.take(printed, &sight);
        self.facts.progress = self.progress.now();
        if let Some(progress) = self.progress.news(self.now.mono_ms, all) {
            self.intake.mark(&mut self.out);
            self.out.push(Record::Progress(progress));
        }
    }

    fn sample(&mut self) {
        let interval_ms = self.place.interval_ms();
        let now_ms = self.now.mono_ms;
        self.sample_due_ms = (self.sample_due_ms + interval_ms).max(now_ms + interval_ms / 2);
        let mut usage = self
            .procfs
            .measure(self.life.known.shim, self.life.known.job);
        usage.add(&self.measure_hosts(interval_ms));
        let mut processes = self.procfs.tree().to_vec();
        if let Some(of_daemon) = &mut self.of_daemon {
            usage.add(&of_daemon.measure(&self.life.here()));
            processes.extend(of_daemon.measured());
        }
        let since_ms = self
            .life
            .started()
            .map_or(now_ms, |started| started.mono_ms);
        let mut sample = self.sampler.sample(usage, now_ms, since_ms);
        if let Some(cards) = &self.cards {
            cards.measure(&processes, &mut sample);
        }
        sample.stdout_bytes = self.tails[0].bytes();
        sample.stderr_bytes = self.tails[1].bytes();
        sample.silent_ms = now_ms.saturating_sub(self.facts.output_ms.max(since_ms));
        self.facts.sample = Some(sample);
        self.out.push(Record::Sample(sample));
        self.intake.mark(&mut self.out);
        // Some of their folders may not have been there to be watched.
        self.check_files();
        // Without notifications from the file system, names and cancel requests are
        // looked at with every sample.
        if !self.waker.hears_files() {
            self.check_names();
        }
        self.look_at_rules |= !self.waker.hears_control();
    }

    /// What the run uses outside of its tree, by the helpers of its hosts.
    fn measure_hosts(&mut self, interval_ms: u64) -> Usage {
        let mut unwatched = Vec::new();
        let (hosts, now_ms) = (&self.life.hosts, self.now.mono_ms);
        let folder = &self.place.folder;
        let usage = self
            .hosts
            .read_samples(folder, hosts, now_ms, interval_ms, &mut unwatched);
        if !unwatched.is_empty() {
            let shown = unwatched[..unwatched.len().min(UNWATCHED_SHOWN_MAX)].join(", ");
            let more = match unwatched.len() - unwatched.len().min(UNWATCHED_SHOWN_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!(
                "nobody watches the run on {shown}{more}: what it uses there is not counted, and \
                 what it leaves behind there is the scheduler's to end"
            );
            self.out.push(Record::notice(text));
        }
        usage
    }

    /// Rings the supervisor for requests that are new in the folder: a neromum on
    /// another host writes them and cannot signal processes here. One ring too many
    /// makes the shim look once more.
    fn pass_requests_on(&mut self) {
        let kinds = [RequestKind::Cancel, RequestKind::Pause];
        let [Ok(cancel), Ok(pause)] = kinds.map(|kind| kind.newest(&self.place.run)) else {
            // The next sample looks again.
            return;
        };
        let newest = [cancel, pause];
        if newest != self.passed_on && control::ring(&self.place.folder).is_ok() {
            self.passed_on = newest;
        }
    }

    /// When a request that is not recorded is to be told of.
    pub(super) fn unheard_due_ms(&self) -> Option<u64> {
        let unheard = self.unheard.filter(|unheard| !unheard.is_told);
        unheard
            .map(|unheard| (unheard.rung_ms + RING_AGAIN_MS).min(unheard.since_ms + HEARD_MAX_MS))
    }

    /// Whether the supervisor recorded every stop and pause that it was asked for.
    fn is_heard(&self) -> bool {
        let [cancel, pause] = self.passed_on;
        let life = &self.life;
        let paused = life.known.paused.map_or(0, |pause| pause.request);
        let resumed = life.known.resumed.map_or(0, |end| end.request);
        let is_ended = life.ending.is_some() || life.known.is_over();
        is_ended || (cancel == 0 && pause <= paused.max(resumed))
    }

    /// Tells people of a request that is not recorded after a while, and rings once more.
    fn look_for_unheard(&mut self) {
        // The scheduler ends an adopted job, in its own time.
        if self.is_heard() || self.place.spec.adopted.is_some() {
            self.unheard = None;
            return;
        }
        let now_ms = self.now.mono_ms;
        let unheard = self.unheard.get_or_insert(UnseenRequests {
            since_ms: now_ms,
            rung_ms: now_ms,
            is_told: false,
        });
        if unheard.is_told {
            return;
        }
        if now_ms < unheard.since_ms + HEARD_MAX_MS {
            // A supervisor whose disk did not answer took the request for none.
            if now_ms >= unheard.rung_ms + RING_AGAIN_MS {
                unheard.rung_ms = now_ms;
                let _ = control::ring(&self.place.folder);
            }
            return;
        }
        unheard.is_told = true;
        // A report of the newest record may be on its way.
        match Life::read(&self.place.folder) {
            Ok(life) => self.life = life,
            Err(_) => return,
        }
        self.look_at_life = true;
        if self.is_heard() {
            return;
        }
        let _ = control::ring(&self.place.folder);
        let what = match self.passed_on {
            [0, _] => "a pause or its end",
            _ => "a stop",
        };
        let supervisor = self.life.known.taken_over_by.or(self.life.known.shim);
        let supervisor =
            supervisor.map_or_else(String::new, |one| format!(" (process {})", one.pid));
        self.out.push(Record::notice(format!(
            "{what} was asked for, and nobody carried it out within {} s: the run's supervisor{supervisor} does not answer",
            HEARD_MAX_MS / 1000
        )));
    }

    /// Records that the job waits for a step on neroman's machine.
    fn tell_step(&mut self) {
        let asked = control::newest_ask(&self.place.control(), self.place.incarnation);
        // If the folder cannot be listed now, the next sample looks again.
        let step = asked.unwrap_or(0);
        if step > self.step_asked {
            self.step_asked = step;
            self.out.push(Record::StepAsked(StepAsked { step }));
        }
    }

    /// Evaluates all rules.
    pub(super) fn evaluate(&mut self) {
        if self.rules.is_empty() {
            return;
        }
        let mut news = Vec::new();
        let sight = Sight {
            facts: &self.facts,
            series: self.intake.series(),
            now: self.now,
        };
        self.rules.all(&sight, &mut news);
        if !news.is_empty() {
            self.intake.flush(&mut self.out);
            self.out.append(&mut news);
        }
    }

    /// Puts the spec's rules in force, then newer sets; and takes the ends that
    /// an earlier watcher may not have asked for.
    pub(super) fn begin_rules(&mut self, applied: u64) {
        if let Some(set) = self.place.spec.rules.clone() {
            self.apply(set.version, Ok(set), applied);
        }
        self.newer_rules(self.rules.version(), applied);
        self.asked = self.rules.inherited();
    }

    /// Takes the newest rule set above `since` that can be read. Sets up to the
    /// version `told` are recorded as taken already.
    fn newer_rules(&mut self, since: u64, told: u64) {
        // If the folder cannot be listed now, the next sample looks again.
        let sets = control::newer_rules(&self.place.control(), since).unwrap_or_default();
        for (version, set) in sets {
            let set = set.map_err(|error| {
                let file = self.place.control().join(names::rules(version));
                format!("{}: {}", file.display(), crate::chain(&error))
            });
            if self.apply(version, set, told) {
                return;
            }
        }
    }

    /// Puts a set in force, or records why not.
    fn apply(&mut self, version: u64, set: Result<RuleSet, String>, told: u64) -> bool {
        let given = set.map(|set| {
            self.facts.cohort = set.cohort.into_iter().map(cohort).collect();
            set.rules.into_iter().map(given).collect::<Vec<_>>()
        });
        let sight = Sight {
            facts: &self.facts,
            series: self.intake.series(),
            now: self.now,
        };
        let applied = given.map(|given| self.rules.apply(version, given, &sight, &mut self.out));
        match applied {
            Ok(off) => {
                let stands = !self.rules.is_empty() || !off.is_empty();
                if version > told || (version == 0 && stands) {
                    let applied = RulesApplied { version, off };
                    self.out.push(Record::RulesApplied(applied));
                }
                true
            }
            Err(why) => {
                if version > self.rules_refused || version == 0 {
                    self.rules_refused = version;
                    let refused = RulesRefused { version, why };
                    self.out.push(Record::RulesRefused(refused));
                }
                false
            }
        }
    }

    /// Writes the requests of rules that fired, sends their signals, and begins their commands. A request that
    /// cannot be written is tried again: the firing is on disk, so the request is made in
    /// the end. A signal is never sent again: after a crash of the watcher it is not known
    /// whether the job got it.
    fn carry_out(&mut self) {
        if self.life.known.is_over() {
            self.asked.retain(|asked| asked.effect.is_command());
        }
        let (spec, wall_ms) = (&self.place.spec, self.now.wall_ms);
        let job = self.life.known.job;
        let (place, acts) = (&self.place, &mut self.acts);
        let out = &mut self.out;
        self.asked.retain(|asked| {
            let written = match &asked.effect {
                Effect::Pause => control::pause(&place.run, spec, asked, wall_ms),
                Effect::End => control::cancel(&place.run, spec, asked, wall_ms),
                Effect::Run(fired) => {
                    acts.begin(place, job, fired);
                    return false;
                }
                Effect::Signal(number) => {
                    if job.is_none_or(|job| signals::send(&job, *number) == 0) {
                        let rule = asked.rule;
                        let text = format!("rule {rule}: signal {number} reached no process");
                        out.push(Record::notice(text));
                    }
                    return false;
                }
            };
            // Ring although the request lay there already: its writer may
            // have died before ringing. A failure of either part is tried again.
            written.and_then(|()| control::ring(&place.folder)).is_err()
        });
    }
}

fn cohort(number: nero_wire::v1::CohortNumber) -> (String, CohortNumber) {
    let folded = CohortNumber {
        value: number.value,
        peers: number.peers,
        at_ms: number.at_ms,
    };
    (number.text, folded)
}

fn given(rule: nero_wire::v1::Rule) -> SentRule {
    SentRule {
        id: rule.id,
        action: rule.action,
        argument: rule.argument,
        text: rule.text,
        author: rule.author,
        repeat_ms: rule.repeat_ms,
    }
}
