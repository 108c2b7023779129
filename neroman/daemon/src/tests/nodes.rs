//! Several nodes: where runs go, what happens when a node is out of reach, and
//! what a person can do about it. The daemon is started anew between steps.

use nero_wire::v1;
use nero_wire::v1::node_event::Event;
use tokio::sync::mpsc;

use super::cleaning::clean;
use super::{DEADLINE, Rig, select};
use nero_home::failure::Failure;
use nero_home::ledger::Audience;

const FOUR: &str = "collection: lab\ncommand: echo {x}\nparameters: {x: [1, 2, 3, 4]}\n";
pub(super) const BOTH: &str = "nodes: {alpha: {address: a}, beta: {address: b}}\n\
                    groups: {both: [alpha, beta]}\n";

/// Two nodes with so many CPUs, and four experiments to add.
pub(super) fn both(cpus: (f64, f64)) -> Rig {
    let rig = Rig::configured(BOTH);
    rig.node("alpha").has_cpus(cpus.0);
    rig.node("beta").has_cpus(cpus.1);
    rig.write(FOUR);
    rig
}

pub(super) async fn start_on(rig: &Rig, what: &str, node: &str) -> Result<v1::StartReply, Failure> {
    let request = v1::StartRequest {
        selection: select(what),
        node: node.to_owned(),
        ..v1::StartRequest::default()
    };
    rig.man.start(request).await
}

/// The messages of a call about a node, and its end.
pub(super) async fn follow<F>(
    call: impl FnOnce(mpsc::Sender<Result<v1::NodeEvent, tonic::Status>>) -> F,
) -> (Vec<Event>, Result<(), Failure>)
where
    F: Future<Output = Result<(), Failure>>,
{
    let (tx, mut rx) = mpsc::channel(100);
    let ended = tokio::time::timeout(DEADLINE, call(tx)).await;
    let mut events = Vec::new();
    while let Some(Ok(event)) = rx.recv().await {
        events.extend(event.event);
    }
    (events, ended.expect("the call ends"))
}

/// A person's word that a node is to be connected now.
pub(super) async fn connect(rig: &Rig, name: &str) -> Vec<Event> {
    let request = v1::NodeConnectRequest {
        name: name.to_owned(),
    };
    let (events, ended) = follow(|sink| rig.man.node_connect(request, sink)).await;
    ended.unwrap();
    events
}

/// Two nodes, and the token of run 1.1, which runs on alpha.
pub(super) async fn running_on_alpha() -> (Rig, Vec<u8>) {
    let rig = both((4.0, 1.0));
    rig.add().await;
    let token = running_on(&rig, "alpha").await;
    (rig, token)
}

/// The token of run 1.1, which runs there.
pub(super) async fn running_on(rig: &Rig, node: &str) -> Vec<u8> {
    start_on(rig, "1", node).await.unwrap();
    let token = rig.node(node).token(1, 1).await;
    rig.node(node).begin(&token);
    rig.state(1, "running").await;
    token
}

/// The same after its end, with everything at home.
pub(super) async fn ran_on_alpha() -> Rig {
    let (rig, token) = running_on_alpha().await;
    rig.node("alpha").end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.node("alpha").closed(&token).await;
    rig
}

/// Cuts a node off and waits until that is known.
pub(super) async fn lose(rig: &Rig, name: &str) -> v1::NodeView {
    rig.node(name).cut(true);
    rig.until_node(name, |node| node.unreachable_since_ms > 0)
        .await
}

/// Puts a node back in reach and connects it.
pub(super) async fn regain(rig: &Rig, name: &str) {
    rig.node(name).cut(false);
    connect(rig, name).await;
}

/// Waits until the node of an experiment was told of its run.
pub(super) async fn was_told(rig: &Rig, id: u64) {
    rig.until(id, "was told", |view| {
        view.state == "submitted" || view.state == "pending"
    })
    .await;
}

/// A person's word that a node is gone: what becomes of its experiments.
pub(super) async fn gone(rig: &Rig, name: &str, dry_run: bool) -> Vec<(u64, String)> {
    let request = v1::NodeGoneRequest {
        name: name.to_owned(),
        author: "me".to_owned(),
        dry_run,
        ..v1::NodeGoneRequest::default()
    };
    let reply = rig.man.node_gone(request).await.unwrap();
    let mut told: Vec<_> = reply
        .runs
        .into_iter()
        .map(|one| (one.experiment, one.outcome))
        .collect();
    told.sort();
    told
}

#[tokio::test]
async fn a_batch_is_spread_over_a_group_and_each_node_tells_its_part() {
    let rig = both((1.0, 3.0));
    rig.add().await;
    start_on(&rig, "1-4", "both").await.unwrap();
    let mut on_alpha = 0;
    for id in 1..=4 {
        let view = rig
            .until(id, "was placed", |view| view.node != "both")
            .await;
        on_alpha += usize::from(view.node == "alpha");
        let node = rig.node(&view.node);
        let token = node.token(id, 1).await;
        assert_eq!(node.spec(&token).node, view.node);
        node.begin(&token);
    }
    assert_eq!(on_alpha, 1);
    let rig = rig.restart().await;
    for id in 1..=4 {
        let view = rig.state(id, "running").await;
        let node = rig.node(&view.node);
        let token = node.token(id, 1).await;
        node.end(&token, 0, b"");
        rig.state(id, "finished").await;
    }
    assert_eq!(rig.mum.tries(), 0, "nobody wanted this machine");
    rig.stop().await;
}

#[tokio::test]
async fn flag_beats_default_and_an_unknown_word_is_refused_at_once() {
    let config = format!("{BOTH}default_node: beta\n");
    let rig = Rig::configured(&config);
    rig.write(FOUR);
    rig.add().await;
    rig.start("1").await;
    rig.node("beta").token(1, 1).await;
    start_on(&rig, "2", "alpha").await.unwrap();
    rig.node("alpha").token(2, 1).await;
    let failure = start_on(&rig, "3", "gamma").await.unwrap_err();
    assert!(failure.to_string().contains("gamma"), "{failure}");
    assert!(
        failure.hint_text().contains("alpha"),
        "{}",
        failure.hint_text()
    );
    assert_eq!(rig.view(3).await.state, "defined");
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_fits_nowhere_says_each_node_with_its_value() {
    let rig = both((2.0, 4.0));
    rig.write("collection: lab\ncommand: echo\nresources: {cpus: 3, memory: 64G}\n");
    rig.node("beta").cut(true);
    rig.add().await;
    start_on(&rig, "1", "both").await.unwrap();
    let view = rig
        .until(1, "said why", |view| view.waiting_for.contains("alpha: "))
        .await;
    assert!(
        view.waiting_for
            .contains("alpha: cpus 2 < 3; beta: no contact since "),
        "{}",
        view.waiting_for
    );
    assert_eq!(
        (view.state.as_str(), view.node.as_str()),
        ("queued", "both")
    );
    // What is known by now is said at once the next time.
    regain(&rig, "beta").await;
    let reply = rig.restart_runs_on("1", "both").await;
    let note = reply.notes.join("\n");
    assert!(note.contains("`both` can never take it"), "{note}");
    assert!(note.contains("beta: memory 16G < 64G"), "{note}");
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_its_node_never_got_goes_to_another_one() {
    let rig = both((4.0, 1.0));
    rig.node("alpha").ponder(true);
    rig.add().await;
    start_on(&rig, "1", "both").await.unwrap();
    rig.until(1, "was placed", |view| view.node == "alpha")
        .await;
    let rig = rig.restart().await;
    rig.node("alpha").cut(true);
    let view = rig.until(1, "was moved", |view| view.node == "beta").await;
    assert_eq!(view.cancel, "");
    let token = rig.node("beta").token(1, 1).await;
    assert!(!rig.node("alpha").has(1, 1));
    rig.node("beta").begin(&token);
    rig.state(1, "running").await;
    let history = rig.history("1").await;
    assert!(
        history.contains("1.1: recalled from alpha: no contact since"),
        "{history}"
    );
    assert!(history.contains("1.1: placed on beta"), "{history}");
    rig.stop().await;
}

#[tokio::test]
async fn a_run_unknown_to_every_node_is_aborted_without_one() {
    let rig = both((4.0, 1.0));
    rig.node("alpha").ponder(true);
    rig.add().await;
    start_on(&rig, "1", "both").await.unwrap();
    rig.until(1, "was placed", |view| view.node == "alpha")
        .await;
    let told = rig.abort("1").await.experiments.remove(0);
    assert_eq!(told.outcome, "taken away");
    assert_eq!(rig.view(1).await.state, "aborted");
    let paths = v1::PathsRequest {
        selection: select("1"),
        work: false,
    };
    let path = rig.man.paths(paths).await.unwrap().paths.remove(0);
    assert_eq!(path.note, "it was never started");
    rig.node("alpha").ponder(false);
    let rig = rig.restart().await;
    start_on(&rig, "2", "alpha").await.unwrap();
    rig.node("alpha").token(2, 1).await;
    assert!(!rig.node("alpha").has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_daemon_that_took_another_identity_ends_whoever_asked() {
    let rig = both((4.0, 1.0));
    connect(&rig, "alpha").await;
    // Its terminal stands still, and then it leaves.
    let (tx, _rx) = mpsc::channel(1);
    tx.try_send(Ok(v1::NodeEvent::default())).unwrap();
    let spec = v1::RunSpec {
        token: nero_model::RunToken::random().to_vec(),
        experiment: 1,
        number: 1,
        name: "e".to_owned(),
        collection: "lab".to_owned(),
        ..v1::RunSpec::default()
    };
    let id = nero_model::DeploymentId::random();
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    tokio::select! {
        _ = rig.man.take_over("alpha", id, 1, vec![spec], &tx) => panic!("nobody hears it"),
        adopted = states.wait_for(|state| state.runs == 1) => drop(adopted),
    }
    let ends = tokio::time::timeout(DEADLINE, rig.man.stop.notified()).await;
    assert!(ends.is_ok(), "the daemon is told to end");
    // Nothing is done any more under the old one.
    rig.node("alpha").until_hung_up(1).await;
    assert_eq!(rig.node("alpha").hand_overs(), 0);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_is_added_only_when_it_answers() {
    let rig = Rig::configured("# mine\nnodes:\n  alpha: {address: a} # first\n");
    let request = |name: &str| v1::NodeAddRequest {
        request: nero_model::RequestId::random().to_vec(),
        name: name.to_owned(),
        address: "me@there".to_owned(),
        ..v1::NodeAddRequest::default()
    };
    let text = || std::fs::read_to_string(&rig.home.config).unwrap();
    let before = text();
    rig.node("beta").cut(true);
    let (_, ended) = follow(|sink| rig.man.node_add(request("beta"), sink)).await;
    assert_eq!(ended.unwrap_err().exit_code(), 4);
    assert_eq!(text(), before);
    for bad in ["alpha", "7", "local", "a b"] {
        let (_, ended) = follow(|sink| rig.man.node_add(request(bad), sink)).await;
        assert_eq!(ended.unwrap_err().exit_code(), 2, "{bad}");
    }
    rig.node("beta").cut(false);
    rig.node("beta").has_cpus(2.0);
    let wanted = request("beta");
    for _ in 0..2 {
        // The answer to the first may be lost on its way.
        let (events, ended) = follow(|sink| rig.man.node_add(wanted.clone(), sink)).await;
        ended.unwrap();
        let Some(Event::Node(node)) = events.last() else {
            panic!("{events:?}");
        };
        assert_eq!((node.connected, node.cpus), (true, 2.0));
    }
    assert!(text().starts_with("# mine\nnodes:\n  alpha: {address: a} # first\n"));
    rig.write(FOUR);
    rig.add().await;
    start_on(&rig, "1", "beta").await.unwrap();
    let token = rig.node("beta").token(1, 1).await;
    let remove = v1::NodeRemoveRequest {
        name: "beta".to_owned(),
        ..v1::NodeRemoveRequest::default()
    };
    was_told(&rig, 1).await;
    let refused = rig.man.node_remove(remove.clone()).await.unwrap_err();
    assert!(
        refused.to_string().contains("1 run has not ended"),
        "{refused}"
    );
    rig.node("beta").begin(&token);
    rig.node("beta").end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.node("beta").closed(&token).await;
    let reply = rig.man.node_remove(remove).await.unwrap();
    assert_eq!((reply.live, reply.runs), (0, 1));
    assert_eq!(text(), before);
    assert!(start_on(&rig, "1", "beta").await.is_err());
    rig.stop().await;
}

#[tokio::test]
async fn runs_of_a_node_that_is_configured_no_more_say_so() {
    let (rig, token) = running_on_alpha().await;
    std::fs::write(&rig.home.config, "nodes: {beta: {address: b}}\n").unwrap();
    let view = rig
        .until(1, "said so", |view| {
            view.contact.contains("not configured any more")
        })
        .await;
    assert_eq!(
        (view.state.as_str(), view.node.as_str()),
        ("running", "alpha")
    );
    std::fs::write(&rig.home.config, BOTH).unwrap();
    rig.man.nodes.config().unwrap();
    rig.node("alpha").end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_word_that_leads_nowhere_is_said_to_be_a_groups_or_nobodys() {
    let rig = both((1.0, 1.0));
    rig.add().await;
    for (what, said) in [
        ("both", "`both` is a group"),
        ("gamma", "no node and no experiment is called `gamma`"),
        ("7", "there is no experiment 7"),
    ] {
        let request = v1::LocateRequest {
            what: what.to_owned(),
            terminal: false,
        };
        let failure = rig.man.locate(request).await.unwrap_err();
        assert!(failure.to_string().contains(said), "{what}: {failure}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_clean_of_a_run_concerns_its_node_alone() {
    let rig = ran_on_alpha().await;
    rig.node("beta").cut(true);
    let nodes = |reply: &v1::CleanAskReply| {
        let failed = reply.nodes.iter().filter(|node| !node.failed.is_empty());
        failed.map(|node| node.node.clone()).collect::<Vec<_>>()
    };
    for all in ["", "all"] {
        assert_eq!(
            nodes(&clean(&rig, all, true, true).await),
            ["beta"],
            "{all}"
        );
    }
    let went = clean(&rig, "1", true, false).await;
    assert_eq!(nodes(&went), [] as [String; 0]);
    assert_eq!(went.runs[0].skipped, "");
    rig.stop().await;
}
