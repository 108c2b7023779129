//! Nodes of a set: made ready and put away, whatever was cut off before.

use nero_config::Config;
use nero_wire::v1;
use nero_wire::v1::finding::Level;
use nero_wire::v1::node_event::Event;

use super::Rig;
use super::nodes::{BOTH, both, follow, lose, regain, running_on};
use nero_home::failure::Failure;

fn asked(name: &str, address: &str, image: &str) -> v1::NodeReadyRequest {
    v1::NodeReadyRequest {
        node: Some(v1::NodeAddRequest {
            request: nero_model::RequestId::random().to_vec(),
            name: name.to_owned(),
            address: address.to_owned(),
            group: "lab".to_owned(),
            container: image.to_owned(),
            ..v1::NodeAddRequest::default()
        }),
        ..v1::NodeReadyRequest::default()
    }
}

async fn ready(rig: &Rig, request: v1::NodeReadyRequest) -> Result<Vec<Event>, Failure> {
    let (events, ended) = follow(|sink| rig.man.node_ready(request, sink)).await;
    ended.map(|()| events)
}

async fn put_away(rig: &Rig, name: &str, group: &str) -> Result<Vec<Event>, Failure> {
    let request = v1::NodePutAwayRequest {
        name: name.to_owned(),
        group: group.to_owned(),
        purge: false,
    };
    let (events, ended) = follow(|sink| rig.man.node_put_away(request, sink)).await;
    ended.map(|()| events)
}

fn config(rig: &Rig) -> Config {
    Config::read(&rig.man.home.config).unwrap()
}

/// The nodes of the set, sorted.
fn members(rig: &Rig) -> Vec<String> {
    let config = config(rig);
    let group = config.groups.get("lab");
    let mut nodes = group.map_or_else(Vec::new, |group| group.nodes.clone());
    nodes.sort_unstable();
    nodes
}

fn image(later: bool, why: &str) -> v1::BringImageReply {
    v1::BringImageReply {
        ready: (!later && why.is_empty()).then(|| v1::Container {
            image: "tiny:1".to_owned(),
            runtime: "podman".to_owned(),
            digest: "sha256:0123456789abcdef".to_owned(),
            ..v1::Container::default()
        }),
        why: why.to_owned(),
        hint: "neroman node doctor NODE".to_owned(),
        later,
    }
}

#[tokio::test]
async fn hosts_that_become_ready_at_once_are_all_kept_in_the_set() {
    let before = "# mine\nnodes: {alpha: {address: a}} # first\n";
    let rig = Rig::configured(before);
    let names = ["lab-1", "lab-2", "lab-3", "lab-4", "lab-5"];
    let each = names.map(|name| ready(&rig, asked(name, name, "")));
    for ended in futures_util::future::join_all(each).await {
        let events = ended.unwrap();
        assert!(matches!(events.last(), Some(Event::Node(node)) if node.connected));
    }
    assert_eq!(members(&rig), names);
    let text = std::fs::read_to_string(&rig.man.home.config).unwrap();
    assert!(
        text.starts_with("# mine\n") && text.contains("# first"),
        "{text}"
    );
    let tries: Vec<usize> = names.iter().map(|name| rig.node(name).tries()).collect();
    for name in names {
        ready(&rig, asked(name, name, "")).await.unwrap();
    }
    let again: Vec<usize> = names.iter().map(|name| rig.node(name).tries()).collect();
    assert_eq!(tries, again, "they are ready");
    assert_eq!(std::fs::read_to_string(&rig.man.home.config).unwrap(), text);
    rig.stop().await;
}

#[tokio::test]
async fn a_host_that_is_not_fit_is_not_kept_and_a_later_try_takes_it() {
    let rig = Rig::configured("nodes: {}\n");
    rig.node("lab-1").cut(true);
    let failure = ready(&rig, asked("lab-1", "h1", "")).await.unwrap_err();
    assert_eq!(failure.exit_code(), 4);
    rig.node("lab-1").cut(false);
    rig.node("lab-1").lock(true);
    let failure = ready(&rig, asked("lab-1", "h1", "")).await.unwrap_err();
    assert_eq!(failure.exit_code(), 4, "its key is refused");
    rig.node("lab-1").lock(false);
    rig.node("lab-1").finds(vec![v1::Finding {
        level: Level::Bad.into(),
        what: "space".to_owned(),
        text: "the disk is full".to_owned(),
        ..v1::Finding::default()
    }]);
    let failure = ready(&rig, asked("lab-1", "h1", "")).await.unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    assert!(
        failure.to_string().contains("the disk is full"),
        "{failure}"
    );
    assert!(config(&rig).node("lab-1").is_none());
    rig.node("lab-1").finds(Vec::new());
    ready(&rig, asked("lab-1", "h1", "")).await.unwrap();
    assert_eq!(members(&rig), ["lab-1"]);
    let failure = ready(&rig, asked("lab-1", "other", "")).await.unwrap_err();
    assert!(
        failure.to_string().contains("another machine: h1"),
        "{failure}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn an_image_is_waited_for_and_its_refusal_leaves_the_host_in_the_set() {
    let rig = Rig::configured("nodes: {}\n");
    let node = rig.node("lab-1");
    node.answers_images(&[image(true, "on its way"), image(false, "no runtime here")]);
    let failure = ready(&rig, asked("lab-1", "h1", "tiny:1"))
        .await
        .unwrap_err();
    assert!(failure.to_string().contains("no runtime here"), "{failure}");
    assert_eq!(failure.hint_text(), "neroman node doctor lab-1");
    assert_eq!((members(&rig).len(), node.brought().len()), (1, 2));
    node.answers_images(&[image(true, "on its way"), image(false, "")]);
    let events = ready(&rig, asked("lab-1", "h1", "")).await.unwrap();
    let told = events.iter().find_map(|event| match event {
        Event::Finding(finding) if finding.what == "image" => Some(finding.text.clone()),
        _ => None,
    });
    assert_eq!(
        told.as_deref(),
        Some("tiny:1 (podman, sha256:0123456789ab)")
    );
    let seen = rig.man.node_image(v1::NodeImageRequest {
        name: "lab-1".to_owned(),
    });
    let seen = seen.await.unwrap();
    assert_eq!(
        (seen.image.as_str(), seen.runtime.as_str()),
        ("tiny:1", "podman")
    );
    let brought = node.brought();
    let pulls: Vec<&str> = brought.iter().map(|one| one.pull.as_str()).collect();
    assert_eq!(pulls, ["", "", "", "", "never"]);
    let file = ready(&rig, asked("lab-1", "h1", "./env.tar"))
        .await
        .unwrap_err();
    assert!(
        file.to_string().contains("is a file of a folder here"),
        "{file}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn an_image_is_not_replaced_beside_runs() {
    let rig = both((4.0, 1.0));
    rig.add().await;
    running_on(&rig, "alpha").await;
    let node = rig.node("alpha");
    node.answers_images(&[image(false, "")]);
    for (idle_only, pull) in [(true, ""), (false, "always")] {
        let request = v1::NodeReadyRequest {
            pull: "always".to_owned(),
            idle_only,
            ..asked("alpha", "", "tiny:1")
        };
        ready(&rig, request).await.unwrap();
        assert_eq!(node.brought().pop().unwrap().pull, pull);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_host_is_forgotten_when_its_runs_have_ended() {
    let rig = both((4.0, 1.0));
    rig.add().await;
    let token = running_on(&rig, "alpha").await;
    let node = rig.node("alpha");
    let end = async {
        rig.abort("1").await;
        node.cancelled(&token).await;
        assert!(config(&rig).node("alpha").is_some(), "its run is live");
        node.end(&token, 0, b"");
    };
    let (away, ()) = tokio::join!(put_away(&rig, "alpha", "both"), end);
    away.unwrap();
    assert!(config(&rig).node("alpha").is_none());
    assert_eq!(config(&rig).groups["both"].nodes, ["beta"]);
    put_away(&rig, "beta", "both").await.unwrap();
    put_away(&rig, "beta", "both").await.unwrap();
    assert!(
        config(&rig).groups.is_empty(),
        "the last node takes it along"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_host_out_of_reach_stays_in_the_set_until_it_is_back() {
    let rig = Rig::configured(BOTH);
    super::nodes::connect(&rig, "alpha").await;
    lose(&rig, "alpha").await;
    let failure = put_away(&rig, "alpha", "both").await.unwrap_err();
    assert_eq!(failure.exit_code(), 4);
    assert_eq!(config(&rig).groups["both"].nodes, ["alpha", "beta"]);
    regain(&rig, "alpha").await;
    put_away(&rig, "alpha", "both").await.unwrap();
    assert_eq!(config(&rig).groups["both"].nodes, ["beta"]);
    rig.stop().await;
}

#[tokio::test]
async fn this_machine_leaves_the_set_and_stays_a_node() {
    let rig = Rig::configured("nodes: {a: {address: a}}\ngroups: {lab: [local, a]}\n");
    put_away(&rig, "local", "lab").await.unwrap();
    assert_eq!(members(&rig), ["a"]);
    rig.stop().await;
}
