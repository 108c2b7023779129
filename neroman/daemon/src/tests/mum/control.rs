//! What a test has the node do, and what it asks it.

use nero_journal::v1::{self as journal, RecordKind};
use nero_journal::{HEADER_BYTES, Writer};
use nero_wire::v1;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::run_state::Stage;
use tonic::Status;

use super::super::DEADLINE;
use super::super::files::Files;
use super::{FakeMum, Held, Inner, state};

impl FakeMum {
    /// Waits until something is so.
    pub(super) async fn until(&self, what: &str, so: impl Fn(&Inner) -> bool) {
        let mut bell = self.bell.0.subscribe();
        let done = tokio::time::timeout(DEADLINE, async {
            while !so(&self.inner.lock().unwrap()) {
                bell.changed().await.unwrap();
            }
        });
        assert!(done.await.is_ok(), "the node never {what}");
    }

    pub(in crate::tests) fn hung_up(&self) -> usize {
        self.inner.lock().unwrap().hung_up
    }

    /// Waits until its connections were ended this often.
    pub(in crate::tests) async fn until_hung_up(&self, count: usize) {
        self.until("was let go", |inner| inner.hung_up >= count)
            .await;
    }

    /// The token of a run, once it was handed over.
    pub(in crate::tests) async fn token(&self, experiment: u64, number: u32) -> Vec<u8> {
        let of =
            move |held: &Held| held.spec.experiment == experiment && held.spec.number == number;
        self.until("got the run", |inner| inner.runs.values().any(of))
            .await;
        let inner = self.inner.lock().unwrap();
        let found = inner.runs.iter().find(|(_, held)| of(held));
        found.unwrap().0.clone()
    }

    pub(in crate::tests) fn spec(&self, token: &[u8]) -> v1::RunSpec {
        self.inner.lock().unwrap().runs[token].spec.clone()
    }

    /// Its answers to requests for an image.
    pub(in crate::tests) fn answers_images(&self, replies: &[v1::BringImageReply]) {
        self.inner.lock().unwrap().images = replies.iter().cloned().collect();
    }

    /// The images that it was asked for.
    pub(in crate::tests) fn brought(&self) -> Vec<v1::Container> {
        self.inner.lock().unwrap().brought.clone()
    }

    /// What a close look at it finds.
    pub(in crate::tests) fn finds(&self, findings: Vec<v1::Finding>) {
        self.inner.lock().unwrap().findings = findings;
    }

    /// It tells people of an end while neroman is away.
    pub(in crate::tests) fn tells(&self, claim: v1::RelayClaim) {
        self.inner.lock().unwrap().claims.push(claim);
    }

    /// Waits until its claims were taken.
    pub(in crate::tests) async fn until_claimed_nothing(&self) {
        self.until("gave its claims away", |inner| inner.claims.is_empty())
            .await;
    }

    /// Waits until its last order is so.
    pub(in crate::tests) async fn ordered(&self, what: &str, so: impl Fn(&v1::RelayOrder) -> bool) {
        self.until(what, |inner| inner.orders.last().is_some_and(&so))
            .await;
    }

    pub(in crate::tests) fn hand_overs(&self) -> usize {
        self.inner.lock().unwrap().hand_overs
    }

    /// How often the spec of a run was sent again, as that of a run that it has.
    pub(in crate::tests) fn sent_again(&self, token: &[u8]) -> usize {
        let inner = self.inner.lock().unwrap();
        inner.sent_again.iter().filter(|one| *one == token).count()
    }

    /// Says that it cannot use the spec of a run, which is to be sent again.
    pub(in crate::tests) fn wants_spec(&self, token: &[u8]) {
        let file = v1::Unreadable {
            path: "/node/1/1/spec".to_owned(),
            send_spec: true,
            ..v1::Unreadable::default()
        };
        let state = v1::RunState {
            unreadable: vec![file],
            ..state(token, Stage::Unspecified)
        };
        self.inner.lock().unwrap().tell(Event::State(state));
    }

    pub(in crate::tests) fn has(&self, experiment: u64, number: u32) -> bool {
        self.inner
            .lock()
            .unwrap()
            .runs
            .values()
            .any(|held| held.spec.experiment == experiment && held.spec.number == number)
    }

    pub(in crate::tests) async fn cancelled(&self, token: &[u8]) {
        let token = token.to_vec();
        self.until("was told to end it", |inner| {
            inner.cancelled.contains(&token)
        })
        .await;
    }

    pub(in crate::tests) async fn closed(&self, token: &[u8]) {
        let token = token.to_vec();
        self.until("was told to forget it", |inner| {
            inner.closed.contains(&token)
        })
        .await;
    }

    pub(in crate::tests) async fn rules(&self, count: usize) -> v1::RuleSet {
        self.until("got rules", |inner| inner.rules.len() >= count)
            .await;
        self.inner.lock().unwrap().rules[count - 1].clone()
    }

    /// Waits until the newest set that it took has so many rules.
    pub(in crate::tests) async fn has_rules(&self, count: usize) {
        self.until("the newest rules", |inner| {
            inner
                .rules
                .last()
                .is_some_and(|set| set.rules.len() == count)
        })
        .await;
    }

    pub(in crate::tests) fn file(&self, path: &str, content: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        inner.files.put(path, content);
    }

    /// Changes or tells what it holds beside its runs.
    pub(in crate::tests) fn files<T>(&self, change: impl FnOnce(&mut Files) -> T) -> T {
        let done = change(&mut self.inner.lock().unwrap().files);
        self.bell.0.send_modify(|count| *count += 1);
        done
    }

    /// Waits until what it holds beside its runs is so.
    pub(in crate::tests) async fn until_files(&self, what: &str, so: impl Fn(&Files) -> bool) {
        self.until(what, |inner| so(&inner.files)).await;
    }

    pub(in crate::tests) fn positions(&self) -> Vec<v1::RunPosition> {
        self.inner.lock().unwrap().positions.clone()
    }

    /// Drops every connection; with `away` none comes about any more.
    pub(in crate::tests) fn cut(&self, away: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.away = away;
        for follower in inner.followers.drain(..) {
            let _ = follower.try_send(Err(Status::unavailable("killed")));
        }
    }

    /// Whether only a person can open the way.
    pub(in crate::tests) fn lock(&self, locked: bool) {
        self.inner.lock().unwrap().locked = locked;
    }

    /// Number of tries to connect.
    pub(in crate::tests) fn tries(&self) -> usize {
        self.inner.lock().unwrap().tries
    }

    /// Waits until there were that many tries.
    pub(in crate::tests) async fn tried(&self, times: usize) {
        self.until("was tried", |inner| inner.tries >= times).await;
    }

    /// Says that a run goes on on another host of the node.
    pub(in crate::tests) fn goes_on_at(&self, token: &[u8], host: &str) {
        let state = v1::RunState {
            host: host.to_owned(),
            via_disk: true,
            ..state(token, Stage::Running)
        };
        self.inner.lock().unwrap().tell(Event::State(state));
    }

    /// Says that a run waits until a person acts.
    pub(in crate::tests) fn waits_for_a_person(&self, token: &[u8], why: &str) {
        let state = v1::RunState {
            why: why.to_owned(),
            needs_person: true,
            ..state(token, Stage::Waiting)
        };
        self.inner.lock().unwrap().tell(Event::State(state));
    }

    /// Whether it has runs that it does not know yet.
    pub(in crate::tests) fn place(&self, placing: bool) {
        self.inner.lock().unwrap().placing = placing;
    }

    /// Whether it has no room for rules.
    pub(in crate::tests) fn take_no_rules(&self, no_rules: bool) {
        self.inner.lock().unwrap().no_rules = no_rules;
    }

    /// Whether it has no room for cancel requests.
    pub(in crate::tests) fn take_no_cancels(&self, no_cancels: bool) {
        self.inner.lock().unwrap().no_cancels = no_cancels;
    }

    /// Waits until it refused cancel requests.
    pub(in crate::tests) async fn refused_cancels(&self) {
        self.until("refused cancel requests", |inner| inner.cancels_refused > 0)
            .await;
    }

    /// Waits until it refused rules.
    pub(in crate::tests) async fn refused_rules(&self) {
        self.until("refused rules", |inner| inner.rules_refused > 0)
            .await;
    }

    /// What it answers to a probe from now on.
    pub(in crate::tests) fn answers(&self, command: &str, printed: &str) {
        let reply = nero_wire::v1::ProbeReply {
            printed: printed.as_bytes().to_vec(),
            problem: String::new(),
        };
        let mut inner = self.inner.lock().unwrap();
        inner.answers.insert(command.to_owned(), reply);
    }

    /// The probes that it was asked.
    pub(in crate::tests) fn probed(&self) -> Vec<String> {
        self.inner.lock().unwrap().probed.clone()
    }

    /// Whether it answers when it is looked at closely.
    pub(in crate::tests) fn examines(&self, examines: bool) {
        self.inner.lock().unwrap().examines_never = !examines;
    }

    /// Waits until a client has it examined.
    pub(in crate::tests) async fn examined(&self) {
        self.until("was looked at", |inner| inner.examined > 0)
            .await;
    }

    /// Takes the next runs, and is away before it answers.
    pub(in crate::tests) fn swallow(&self, swallows: bool) {
        self.inner.lock().unwrap().swallows = swallows;
    }

    /// Answers no such call from now on, or all.
    pub(in crate::tests) fn silence(&self, call: Option<&'static str>) {
        self.inner.lock().unwrap().silent = call;
        self.bell.0.send_modify(|count| *count += 1);
    }

    /// Waits until a call waits for its answer.
    pub(in crate::tests) async fn until_unanswered(&self) {
        self.until("got the call", |inner| inner.unanswered > 0)
            .await;
    }

    /// Waits until so many calls without an answer were given up.
    pub(in crate::tests) async fn until_given_up(&self, count: usize) {
        self.until("was given up", |inner| inner.given_up >= count)
            .await;
    }

    /// How many calls without an answer were given up.
    pub(in crate::tests) fn given_up(&self) -> usize {
        self.inner.lock().unwrap().given_up
    }

    /// How often it was asked which files it lacks.
    pub(in crate::tests) fn count_asked_for_files(&self) -> usize {
        self.inner.lock().unwrap().asked_for_files
    }

    /// Refuses the next runs, as only this node does; empty: takes them.
    pub(in crate::tests) fn refuse(&self, why: &str) {
        self.inner.lock().unwrap().refuses = why.to_owned();
    }

    /// Takes the next runs later; empty: takes them.
    pub(in crate::tests) fn defer(&self, why: &str) {
        self.inner.lock().unwrap().puts_off = why.to_owned();
    }

    /// Takes the next runs later, and has them: an earlier request lost its
    /// asker and took them in.
    pub(in crate::tests) fn defer_what_it_has(&self, why: &str) {
        let mut inner = self.inner.lock().unwrap();
        inner.has_it = true;
        why.clone_into(&mut inner.puts_off);
    }

    /// Knows no recall, from the next connection on.
    pub(in crate::tests) fn become_old(&self) {
        self.inner.lock().unwrap().is_old = true;
    }

    /// How many runs were recalled from it.
    pub(in crate::tests) fn recalls(&self) -> usize {
        self.inner.lock().unwrap().recalled.len()
    }

    /// Says that it starts nothing for now, and why; with `""` it does.
    pub(in crate::tests) fn holds_back(&self, why: &str) {
        self.inner.lock().unwrap().about.hold = why.to_owned();
    }

    /// Takes no runs together with those of this experiment.
    pub(in crate::tests) fn choke(&self, experiment: Option<u64>) {
        self.inner.lock().unwrap().chokes = experiment;
    }

    /// Whether it takes runs and answers only when this is false again.
    pub(in crate::tests) fn answer_late(&self, late: bool) {
        self.inner.lock().unwrap().answers_late = late;
        self.bell.0.send_modify(|count| *count += 1);
    }

    /// How many sets of rules came beside hand-overs.
    pub(in crate::tests) fn rule_sets(&self) -> usize {
        self.inner.lock().unwrap().rules.len()
    }

    /// Whether it keeps silent about the files that it lacks.
    pub(in crate::tests) fn ponder(&self, ponders: bool) {
        self.inner.lock().unwrap().ponders = ponders;
        self.bell.0.send_modify(|count| *count += 1);
    }

    /// Waits until a client has asked for the files that it lacks.
    pub(in crate::tests) async fn asked_for_files(&self) {
        self.until("was asked for files", |inner| inner.asked_for_files > 0)
            .await;
    }

    /// The next tries to connect panic.
    pub(in crate::tests) fn panic_next(&self, tries: usize) {
        self.inner.lock().unwrap().panics = tries;
    }

    /// While true no try to connect comes to an end; then those that wait fail.
    pub(in crate::tests) fn stall(&self, stalls: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.stalls = stalls;
        inner.away |= stalls;
        drop(inner);
        self.bell.0.send_modify(|count| *count += 1);
    }

    /// Changes its description.
    pub(in crate::tests) fn describe(&self, change: impl FnOnce(&mut v1::NodeDescription)) {
        change(&mut self.inner.lock().unwrap().about);
    }

    /// The bytes that it reports as freed, whatever it cleans.
    pub(in crate::tests) fn free(&self, bytes: u64) {
        self.inner.lock().unwrap().freed_bytes = bytes;
    }

    /// The capacity that it reports.
    pub(in crate::tests) fn has_cpus(&self, cpus: f64) {
        let mut inner = self.inner.lock().unwrap();
        inner.about = v1::NodeDescription {
            cpus,
            memory_bytes: 16 << 30,
            disk_free_bytes: 1 << 40,
            boot_id: "b".to_owned(),
            ..v1::NodeDescription::default()
        };
    }

    /// How much of its disk is free, in bytes.
    pub(in crate::tests) fn has_disk(&self, free: u64, total: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.about.disk_free_bytes = free;
        inner.about.disk_total_bytes = total;
    }

    /// Forgets a run, as a node that lost its disk would.
    pub(in crate::tests) fn forget(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.runs.remove(token).unwrap();
        inner.forgotten.insert(token.to_vec(), held);
    }

    /// Knows a run again that it forgot, or gets it late.
    pub(in crate::tests) fn recall(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.forgotten.remove(token).unwrap();
        inner.runs.insert(token.to_vec(), held);
    }

    /// Has a run, and reports it only once its records are asked for.
    pub(in crate::tests) fn keep_quiet(&self, token: &[u8]) {
        self.inner.lock().unwrap().closed.push(token.to_vec());
    }

    /// Does not know that it may forget a run.
    pub(in crate::tests) fn unclose(&self, token: &[u8]) {
        self.inner.lock().unwrap().closed.retain(|one| one != token);
    }

    /// Waits until it was told so often to end a run.
    pub(in crate::tests) async fn cancelled_times(&self, token: &[u8], times: usize) {
        self.until("was told again to end it", |inner| {
            inner.cancelled.iter().filter(|one| *one == token).count() >= times
        })
        .await;
    }

    /// Appends a record to a run's journal and tells it.
    pub(in crate::tests) fn record(
        &self,
        token: &[u8],
        kind: RecordKind,
        message: &impl prost::Message,
    ) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.runs.get_mut(token).unwrap();
        let (offset, chain) = held.append(kind, message);
        let part = if offset == HEADER_BYTES {
            held.part(0, 0)
        } else {
            held.part(offset, chain)
        };
        inner.tell(Event::Part(part));
    }

    /// Tells of a measurement so many milliseconds after the job's start.
    pub(in crate::tests) fn sampled_at(&self, token: &[u8], run_ms: u64) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.runs.get_mut(token).unwrap();
        let sample = journal::Sample::default();
        let (offset, chain) = held.append_at(RecordKind::Sample, &sample, 5 + run_ms * 1_000_000);
        let part = held.part(offset, chain);
        inner.tell(Event::Part(part));
    }

    /// Tells a record that does not follow what it told of the run's segment, and
    /// has nothing more of the run.
    pub(in crate::tests) fn contradict(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let mut held = inner.runs.remove(token).unwrap();
        held.encoder.chain ^= 1;
        let (offset, chain) = held.append(RecordKind::Notice, &journal::Notice::default());
        inner.tell(Event::Part(held.part(offset, chain)));
    }

    /// Tells a record that does not follow what it told of the run's segment; the run's own
    /// records stay, to be asked for anew.
    pub(in crate::tests) fn misreport(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let mut held = inner.runs[token].clone();
        held.encoder.chain ^= 1;
        let (offset, chain) = held.append(RecordKind::Notice, &journal::Notice::default());
        inner.tell(Event::Part(held.part(offset, chain)));
    }

    /// Appends a stop to a segment of the shim that the daemon has not seen
    /// before.
    pub(in crate::tests) fn stop_late(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let mut shim = Held::of(inner.runs[token].spec.clone(), Writer::Shim);
        let asked = journal::StopAsked {
            cause: journal::StopCause::Person.into(),
            ..journal::StopAsked::default()
        };
        shim.append(RecordKind::StopAsked, &asked);
        inner.tell(Event::Part(shim.part(0, 0)));
    }

    /// Says how far a run has come.
    pub(in crate::tests) fn stage(&self, token: &[u8], stage: Stage) {
        let mut inner = self.inner.lock().unwrap();
        inner.runs.get_mut(token).unwrap().stage = stage;
        inner.tell(Event::State(state(token, stage)));
    }

    /// Refuses a run that it accepted.
    pub(in crate::tests) fn refuses(&self, token: &[u8], why: &str) {
        let mut inner = self.inner.lock().unwrap();
        inner.runs.get_mut(token).unwrap().stage = Stage::Refused;
        let state = v1::RunState {
            why: why.to_owned(),
            ..state(token, Stage::Refused)
        };
        inner.tell(Event::State(state));
    }

    /// A run has come so far, which it does not tell.
    pub(in crate::tests) fn holds(&self, token: &[u8], stage: Stage) {
        self.inner
            .lock()
            .unwrap()
            .runs
            .get_mut(token)
            .unwrap()
            .stage = stage;
    }

    /// Tells what is not so.
    pub(in crate::tests) fn says(&self, token: &[u8], stage: Stage) {
        self.inner
            .lock()
            .unwrap()
            .tell(Event::State(state(token, stage)));
    }

    /// Waits until the run was recalled from it.
    pub(in crate::tests) async fn recalled(&self, token: &[u8]) {
        let so = |inner: &Inner| inner.recalled.iter().any(|one| one == token);
        self.until("was asked for its promise", so).await;
    }

    /// Waits until a run has come so far.
    pub(in crate::tests) async fn until_stage(&self, token: &[u8], stage: Stage) {
        let so = |inner: &Inner| inner.runs[token].stage == stage;
        self.until("had it so far", so).await;
    }

    pub(in crate::tests) fn begin(&self, token: &[u8]) {
        self.record(token, RecordKind::Claimed, &journal::Claimed::default());
        self.record(
            token,
            RecordKind::JobStarted,
            &journal::JobStarted::default(),
        );
        self.stage(token, Stage::Running);
    }

    pub(in crate::tests) fn end(&self, token: &[u8], code: i32, log: &[u8]) {
        let exited = journal::JobExited {
            code,
            run_ms: 7,
            ..journal::JobExited::default()
        };
        let gone = journal::TreeGone {
            stdout_bytes: log.len() as u64,
            ..journal::TreeGone::default()
        };
        self.inner.lock().unwrap().runs.get_mut(token).unwrap().log = log.to_vec();
        self.record(token, RecordKind::JobExited, &exited);
        self.record(token, RecordKind::TreeGone, &gone);
        self.stage(token, Stage::Ended);
        self.stage(token, Stage::Settled);
    }
}
