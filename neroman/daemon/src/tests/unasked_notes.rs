//! What a person is told without asking: that no node takes a run, that a node
//! which matters is out of reach, that what is shown is old.

use nero_wire::v1;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::nodes::{BOTH, both, connect, lose, regain, running_on_alpha, start_on};
use super::stories::notes;
use super::{DEADLINE, Rig, select};
use nero_home::failure::Failure;

/// Two nodes, and an experiment that is too large for both.
async fn too_large() -> Rig {
    let rig = both((2.0, 1.0));
    rig.write("collection: lab\ncommand: echo\nresources: {cpus: 3}\n");
    rig.add().await;
    rig
}

const NEVER: &str = "1.1: `both` can never take it (alpha: cpus 2 < 3; beta: cpus 1 < 3)";

/// What is said by a call that goes on, one message at a time.
pub(super) struct Heard<T> {
    pub(super) rx: mpsc::Receiver<Result<T, tonic::Status>>,
    pub(super) call: JoinHandle<Result<(), Failure>>,
}

impl<T> Heard<T> {
    pub(super) async fn next(&mut self) -> T {
        let said = tokio::time::timeout(DEADLINE, self.rx.recv()).await;
        said.expect("something is said").expect("more").unwrap()
    }

    /// Waits until the call ends: how it did.
    pub(super) async fn end(self) -> Result<(), Failure> {
        let ended = tokio::time::timeout(DEADLINE, self.call).await;
        ended.expect("the call ends").unwrap()
    }
}

pub(super) fn wait(rig: &Rig, what: &str) -> Heard<v1::WaitEvent> {
    let (tx, rx) = mpsc::channel(8);
    let request = v1::WaitRequest {
        selection: select(what),
        settle: false,
        any: false,
    };
    let man = rig.man.clone();
    let call = tokio::spawn(async move { man.wait(request, tx).await });
    Heard { rx, call }
}

pub(super) fn follow_log(rig: &Rig, what: &str) -> Heard<v1::LogChunk> {
    let (tx, rx) = mpsc::channel(8);
    let request = v1::LogsRequest {
        what: what.to_owned(),
        follow: true,
        ..v1::LogsRequest::default()
    };
    let man = rig.man.clone();
    let call = tokio::spawn(async move { man.logs(request, tx).await });
    Heard { rx, call }
}

#[tokio::test]
async fn a_start_says_that_no_node_can_ever_take_it_also_when_none_was_asked_yet() {
    let rig = too_large().await;
    let asked = v1::StartRequest {
        selection: select("1"),
        node: "both".to_owned(),
        dry_run: true,
        ..v1::StartRequest::default()
    };
    let dry = rig.man.start(asked.clone()).await.unwrap();
    assert_eq!(dry.notes, [NEVER]);
    let rig = rig.restart().await;
    let started = start_on(&rig, "1", "both").await.unwrap();
    assert_eq!(started.notes, [NEVER]);
    rig.stop().await;
}

#[tokio::test]
async fn a_start_does_not_wait_for_nodes_that_cannot_change_what_is_said() {
    let rig = too_large().await;
    connect(&rig, "alpha").await;
    rig.node("alpha").has_cpus(4.0);
    rig.until_node("alpha", |node| node.cpus > 0.0).await;
    rig.write("collection: lab\ncommand: echo\nresources: {cpus: 2}\n");
    rig.add().await;
    let started = start_on(&rig, "1", "both").await.unwrap();
    assert!(started.notes.is_empty(), "{:?}", started.notes);
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_ends_with_the_reason_when_no_node_can_ever_take_what_is_left() {
    let rig = too_large().await;
    start_on(&rig, "1", "both").await.unwrap();
    let mut heard = wait(&rig, "1");
    assert_eq!(heard.next().await.notes, [NEVER]);
    let event = heard.next().await;
    assert!(event.done && event.notes.is_empty(), "{event:?}");
    assert_eq!(event.ended[0].state, "queued");
    let why = NEVER.strip_prefix("1.1: ").unwrap();
    assert_eq!(event.ended[0].reason, why);
    heard.end().await.unwrap();
    // Nothing happened to the run: the configuration may still change.
    assert_eq!(rig.view(1).await.state, "queued");
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_says_that_the_nodes_which_may_take_a_run_are_out_of_reach() {
    let rig = too_large().await;
    rig.node("beta").cut(true);
    start_on(&rig, "1", "both").await.unwrap();
    let mut heard = wait(&rig, "1");
    let said = heard.next().await.notes;
    let told = matches!(&*said, [line] if line
        .starts_with("1.1: no node takes it now (alpha: cpus 2 < 3; beta: no contact since "));
    assert!(told, "{said:?}");
    // Now it is known that this one cannot have it either.
    regain(&rig, "beta").await;
    assert_eq!(heard.next().await.notes, [NEVER]);
    rig.stop().await;
}

#[tokio::test]
async fn runs_that_lack_alike_are_one_line_of_a_start_and_of_a_wait() {
    let rig = both((2.0, 1.0));
    rig.write(
        "collection: lab\ncommand: echo\n\
         +a: {resources: {cpus: 3}}\n+b: {resources: {cpus: 16}}\n+c: {resources: {cpus: 3}}\n",
    );
    rig.add().await;
    let line = "3 runs of 1-3: `both` can never take them \
                (1.1: alpha: cpus 2 < 3; beta: cpus 1 < 3)";
    let started = start_on(&rig, "1-3", "both").await.unwrap();
    assert_eq!(started.notes, [line]);
    assert_eq!(wait(&rig, "1-3").next().await.notes, [line]);
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_ends_when_only_runs_are_left_that_wait_for_a_person_at_their_node() {
    let rig = both((4.0, 4.0));
    rig.write("collection: lab\ncommand: echo\n+a: {}\n+b: {}\n");
    rig.add().await;
    start_on(&rig, "1-2", "alpha").await.unwrap();
    let (one, two) = (
        rig.node("alpha").token(1, 1).await,
        rig.node("alpha").token(2, 1).await,
    );
    let why = "in SLURM's queue as job 7: QOSMaxGRESPerJob";
    rig.node("alpha").waits_for_a_person(&one, why);
    rig.until(1, "asks a person", |view| view.held == why).await;
    let mut heard = wait(&rig, "1-2");
    assert_eq!(heard.next().await.notes, [format!("1: {why}")]);
    // The other goes on: it is waited for.
    rig.node("alpha").begin(&two);
    rig.node("alpha").end(&two, 0, b"");
    let ended = loop {
        let event = heard.next().await;
        if event.done {
            break event.ended;
        }
    };
    let left = ended.last().expect("the run that waits");
    assert_eq!((left.id, &*left.state, &*left.reason), (1, "pending", why));
    heard.end().await.unwrap();
    rig.stop().await;
}

#[tokio::test]
async fn a_start_notes_values_for_nodes_that_do_not_exist() {
    let rig = both((4.0, 4.0));
    rig.write(
        "collection: lab\ncommand: echo\npartition: {tritn: gpu, both: gpu, alpha: gpu}\n+a: {}\n+b: {}\n",
    );
    rig.add().await;
    let started = start_on(&rig, "1-2", "alpha").await.unwrap();
    let expected = [
        "1-2: `partition.both` does nothing: both is a group; name its nodes",
        "1-2: `partition.tritn` does nothing: no node has the name tritn",
    ];
    assert_eq!(started.notes, expected);
    rig.stop().await;
}

#[tokio::test]
async fn a_run_out_of_reach_is_shown_as_its_node_last_reported_it() {
    let (rig, _) = running_on_alpha().await;
    let fresh = rig.view(1).await;
    assert_eq!(fresh.as_of_ms, 0);
    lose(&rig, "alpha").await;
    let seen = rig.view(1).await;
    let runtime_s = seen.runtime_s.expect("it runs");
    assert!(seen.as_of_ms > 0 && seen.contact.starts_with("no contact since "));
    let until = seen.started_ms + (runtime_s * 1000.0).round() as i64;
    assert!(until <= seen.as_of_ms.max(seen.started_ms), "{seen:?}");
    // Time goes by and tells nothing of it.
    let clock = &rig.man.clock;
    while clock.now_ms() <= seen.as_of_ms + 20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.view(1).await.runtime_s, Some(runtime_s));
    regain(&rig, "alpha").await;
    rig.until(1, "seen again", |view| view.as_of_ms == 0).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_log_that_is_followed_says_once_that_its_node_is_out_of_reach_and_back() {
    let (rig, _) = running_on_alpha().await;
    lose(&rig, "alpha").await;
    let mut heard = follow_log(&rig, "1");
    let mut notice = async || loop {
        if let Some(notice) = heard.next().await.node {
            return notice;
        }
    };
    let away = notice().await;
    assert_eq!((away.node.as_str(), away.back), ("alpha", false));
    regain(&rig, "alpha").await;
    let back = notice().await;
    assert_eq!((back.node.as_str(), back.back), ("alpha", true));
    rig.stop().await;
}

/// The description of the only node, asked until it fits.
async fn asked(rig: &Rig, so: impl Fn(&v1::NodeView) -> bool) -> v1::NodeView {
    let asking = async {
        loop {
            let mut reply = rig.man.ask_nodes(v1::NodesRequest::default()).await;
            let node = reply.nodes.pop().expect("a node");
            if so(&node) {
                return node;
            }
        }
    };
    let said = tokio::time::timeout(DEADLINE, asking).await;
    said.expect("the node comes to say so")
}

#[tokio::test]
async fn a_node_says_that_its_disk_is_full_and_which_runs_wait_for_that() {
    let rig = Rig::new();
    rig.write("collection: lab\ncommand: echo\nfiles: [a]\n");
    std::fs::write(rig.folder.join("a"), "a").unwrap();
    rig.add().await;
    rig.mum.has_cpus(2.0);
    rig.mum.has_disk(1 << 20, 1 << 30);
    let full = tonic::Status::resource_exhausted("no room in /node");
    rig.mum.files(|files| files.refused = Some(full));
    rig.start("1").await;
    rig.until(1, "said why", |view| view.waiting_for.contains("no room"))
        .await;
    // What is queued anew while its files are sent is tried again at once, and
    // nothing is wrong while it is tried.
    let node = asked(&rig, |node| !node.troubles.is_empty()).await;
    assert_eq!(node.hold, "disk full: 1 MB are free, 67 MB are kept back");
    let told = matches!(&*node.troubles, [line] if line
        .starts_with("1 run waits: ") && line.contains("no room"));
    assert!(told, "{node:?}");
    // With room again nothing is left to say.
    rig.mum.has_disk(1 << 29, 1 << 30);
    rig.mum.files(|files| files.refused = None);
    rig.mum.cut(false);
    rig.mum.token(1, 1).await;
    // That its node took it is written down after the node has it.
    rig.until(1, "taken", |view| view.waiting_for.is_empty())
        .await;
    let node = asked(&rig, |_| true).await;
    assert!(node.hold.is_empty() && node.troubles.is_empty(), "{node:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_taken_over_experiment_is_shown_as_not_read_yet_without_warnings() {
    let rig = Rig::configured(BOTH);
    let spec = v1::RunSpec {
        token: nero_model::RunToken::random().to_vec(),
        experiment: 1,
        number: 1,
        name: "old".to_owned(),
        collection: "lab".to_owned(),
        argv: vec!["true".to_owned()],
        ..v1::RunSpec::default()
    };
    rig.node("alpha").cut(true);
    let (tx, _rx) = mpsc::channel(8);
    let deployment = rig.man.deployment;
    let adopting = rig.man.take_over("alpha", deployment, 2, vec![spec], &tx);
    adopting.await.unwrap();
    let rig = rig.restart().await;
    let view = rig.view(1).await;
    assert!(view.unread, "{view:?}");
    assert_eq!(
        view.waiting_for,
        "the first word of its node: it was taken over"
    );
    assert!(view.warnings.is_empty(), "{view:?}");
    let notes = notes(&rig, "1").await;
    assert!(
        !notes.iter().any(|note| note.contains("newer")),
        "{notes:?}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_change_after_a_time_without_any_is_told_at_once_whatever_the_interval() {
    let rig = Rig::configured("");
    rig.write("collection: lab\ncommand: echo\n");
    rig.add().await;
    let (tx, rx) = mpsc::channel(8);
    let request = v1::WatchRequest {
        selection: select("1"),
        interval_ms: 3_600_000,
        ..v1::WatchRequest::default()
    };
    let man = rig.man.clone();
    let call = tokio::spawn(async move { man.watch(request, tx).await });
    let mut heard = Heard { rx, call };
    assert!(heard.next().await.first);
    rig.start("1").await;
    let changed = heard.next().await.experiments;
    assert_ne!(changed[0].state, "defined");
}
