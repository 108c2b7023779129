//! Nodes that are added and not kept, and those that are taken away.

use nero_wire::v1;
use nero_wire::v1::node_event::Event;

use super::Rig;
use super::nodes::follow;

fn request(name: &str, address: &str) -> v1::NodeAddRequest {
    v1::NodeAddRequest {
        request: nero_model::RequestId::random().to_vec(),
        name: name.to_owned(),
        address: address.to_owned(),
        ..v1::NodeAddRequest::default()
    }
}

#[tokio::test]
async fn connections_of_a_node_that_is_not_kept_are_ended() {
    let rig = Rig::configured("nodes: {}\n");
    rig.node("beta").cut(true);
    let wanted = request("beta", "me@there");
    let (_, ended) = follow(|sink| rig.man.node_add(wanted, sink)).await;
    assert_eq!(ended.unwrap_err().exit_code(), 4);
    assert_eq!(rig.node("beta").hung_up(), 1, "it failed");
    rig.node("beta").cut(false);
    rig.node("beta").examines(false);
    let (tx, _rx) = tokio::sync::mpsc::channel(100);
    let (man, wanted) = (rig.man.clone(), request("beta", "me@there"));
    let adding = tokio::spawn(async move { man.node_add(wanted, tx).await });
    rig.node("beta").examined().await;
    adding.abort();
    rig.node("beta").until_hung_up(2).await;
    rig.node("beta").examines(true);
    let wanted = v1::NodeAddRequest {
        dry_run: true,
        without_test: true,
        ..request("beta", "me@there")
    };
    let (_, ended) = follow(|sink| rig.man.node_add(wanted, sink)).await;
    ended.unwrap();
    assert_eq!(rig.node("beta").hung_up(), 3, "it was a trial");
    let wanted = request("beta", "me@there");
    let (_, ended) = follow(|sink| rig.man.node_add(wanted, sink)).await;
    ended.unwrap();
    assert_eq!(rig.node("beta").hung_up(), 3, "it is in use");
    let remove = v1::NodeRemoveRequest {
        name: "beta".to_owned(),
        ..v1::NodeRemoveRequest::default()
    };
    rig.man.node_remove(remove).await.unwrap();
    rig.node("beta").until_hung_up(4).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_person_who_waits_for_a_connection_is_told_that_the_node_was_removed() {
    let rig = Rig::configured("nodes:\n  alpha: {address: a}\n");
    rig.node("alpha").stall(true);
    let asked = v1::NodeConnectRequest {
        name: "alpha".to_owned(),
    };
    let connect = follow(|sink| rig.man.node_connect(asked, sink));
    let remove = async {
        let remove = v1::NodeRemoveRequest {
            name: "alpha".to_owned(),
            ..v1::NodeRemoveRequest::default()
        };
        rig.man.node_remove(remove).await.unwrap();
    };
    let ((_, ended), ()) = tokio::join!(connect, remove);
    let told = ended.unwrap_err().to_string();
    assert!(told.contains("node alpha is not configured"), "{told}");
}

#[tokio::test]
async fn a_second_node_at_the_same_place_is_warned_about() {
    let rig = Rig::configured("nodes:\n  alpha: {address: a}\n");
    let warned = |events: Vec<Event>| {
        events.into_iter().any(|event| match event {
            Event::Finding(finding) => finding.text.contains("node alpha has the same address"),
            _ => false,
        })
    };
    for (root, same) in [("", true), ("~/.neronet/", true), ("/elsewhere", false)] {
        let wanted = v1::NodeAddRequest {
            root: root.to_owned(),
            dry_run: true,
            without_test: true,
            ..request("beta", "a")
        };
        let (events, ended) = follow(|sink| rig.man.node_add(wanted, sink)).await;
        ended.unwrap();
        assert_eq!(warned(events), same, "{root:?}");
    }
    rig.stop().await;
}
