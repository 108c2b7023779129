//! A node tells of ends while neroman is away: once, and not after neroman knows.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use nero_wire::v1::{RelayClaim, RelayOrder, RunSpec};

use crate::rig::{Known, Mum, Node, wait_for};

/// A `sendmail` of the test's own, and what it was given.
struct Postbox {
    folder: tempfile::TempDir,
    path: String,
}

impl Postbox {
    /// One that keeps each message, and then does this.
    fn that(does: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display().to_string();
        let program = folder.path().join("sendmail");
        let keep =
            "echo \"$@\" >> \"$D/args\"; cat > \"$D/part.$$\"; mv \"$D/part.$$\" \"$D/letter.$$\"";
        fs::write(
            &program,
            format!("#!/bin/sh\nD='{shown}'\n{keep}\n{does}\n"),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{shown}:/usr/bin:/bin");
        Self { folder, path }
    }

    fn letters(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let is_letter = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "letter");
        let paths = entries.map(|entry| entry.path()).filter(is_letter);
        paths
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    async fn until(&self, count: usize) -> Vec<String> {
        wait_for(&format!("{count} letters"), || {
            let letters = self.letters();
            (letters.len() >= count).then_some(letters)
        })
        .await
    }
}

/// Neromum of a node with this postbox, and nobody else's programs.
async fn serve(node: &mut Node, postbox: &Postbox) -> Mum {
    node.start_with_env(&[("PATH", &postbox.path), ("HOME", "/")])
        .await
}

fn order(runs: &[&RunSpec]) -> RelayOrder {
    RelayOrder {
        node: "gpu1".to_owned(),
        after_ms: 300,
        from: "ada@a.org".to_owned(),
        to: vec!["ada@a.org".to_owned()],
        events: vec!["crashed".to_owned()],
        tokens: runs.iter().map(|run| run.token.clone()).collect(),
        adopted: Vec::new(),
        home: "laptop".to_owned(),
    }
}

async fn ordered(mum: &mut Mum, order: RelayOrder) -> Vec<RelayClaim> {
    mum.client.relay(order).await.unwrap().into_inner().claims
}

#[tokio::test]
async fn ends_are_told_while_nobody_follows_and_then_known_to_neroman() {
    let postbox = Postbox::that("");
    let mut node = Node::new();
    let mut mum = serve(&mut node, &postbox).await;
    let line = "while [ ! -e ../go ]; do sleep 0.02; done; echo oh no >&2; exit";
    let crashes = node.sh(1, &format!("{line} 3"));
    let finishes = node.sh(2, &format!("{line} 0"));
    mum.accept(&[&crashes, &finishes]).await;
    let runs = [&crashes, &finishes];
    assert_eq!(ordered(&mut mum, order(&runs)).await, []);
    let mut follower = mum.follow(Known::default()).await;
    for run in runs {
        fs::write(node.run_dir(run).join("go"), "").unwrap();
    }
    follower.settled(&runs).await;
    drop((follower, mum));
    let letters = postbox.until(1).await;
    let letter = &letters[0];
    for part in [
        "From: Neronet <ada@a.org>\nTo: <ada@a.org>\n",
        "Subject: [Neronet] 1 run ended on gpu1\n",
        "it has not heard of neroman on laptop for 1m",
        "1.1 experiment 1 (tests): crashed: exit code 3\n    oh no\n",
    ] {
        assert!(letter.contains(part), "{part} in {letter}");
    }
    assert!(
        !letter.contains("experiment 2"),
        "nobody asked for that: {letter}"
    );
    let args = fs::read_to_string(postbox.folder.path().join("args")).unwrap();
    assert_eq!(args, "-i -f ada@a.org -- ada@a.org\n");

    let mut mum = node.connect().await;
    let none = order(&[]);
    let claims = ordered(&mut mum, none.clone()).await;
    let [claim] = &claims[..] else {
        panic!("{claims:?}")
    };
    assert!(letter.contains(&claim.message_id), "{claim:?}");
    assert_eq!(claim.tokens, std::slice::from_ref(&crashes.token));
    // Until neroman has recorded it, it is told again.
    assert_eq!(ordered(&mut mum, none.clone()).await, claims);
    let adopted = RelayOrder {
        adopted: vec![claim.id.clone()],
        ..none
    };
    assert_eq!(ordered(&mut mum, adopted).await, []);
    assert_eq!(postbox.letters().len(), 1);
}

#[tokio::test]
async fn a_letter_whose_fate_is_unknown_goes_once_more_with_the_same_bytes() {
    let postbox = Postbox::that("while [ ! -e \"$D/release\" ]; do sleep 0.02; done");
    let mut node = Node::new();
    let mut mum = serve(&mut node, &postbox).await;
    let crashes = node.sh(1, "exit 3");
    mum.accept(&[&crashes]).await;
    assert_eq!(ordered(&mut mum, order(&[&crashes])).await, []);
    drop(mum);
    postbox.until(1).await;
    node.kill_mum();
    fs::write(postbox.folder.path().join("release"), "").unwrap();
    drop(serve(&mut node, &postbox).await);
    let letters = postbox.until(2).await;
    assert_eq!(letters[0], letters[1]);
    let mut mum = node.connect().await;
    let claims = ordered(&mut mum, order(&[])).await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    assert_eq!(postbox.letters().len(), 2);
}

#[tokio::test]
async fn a_letter_that_was_refused_is_tried_again_and_claimed_when_it_was_taken() {
    let postbox = Postbox::that("[ -e \"$D/takes\" ] || exit 75\ntouch \"$D/took\"");
    let mut node = Node::new();
    let mut mum = serve(&mut node, &postbox).await;
    let crashes = node.sh(1, "exit 3");
    mum.accept(&[&crashes]).await;
    assert_eq!(ordered(&mut mum, order(&[&crashes])).await, []);
    drop(mum);
    postbox.until(2).await;
    let mut mum = node.connect().await;
    let refused = ordered(&mut mum, order(&[&crashes])).await;
    assert_eq!(refused, [], "it was refused");
    fs::write(postbox.folder.path().join("takes"), "").unwrap();
    drop(mum);
    let took = postbox.folder.path().join("took");
    wait_for("a letter that is taken", || took.exists().then_some(())).await;
    let mut mum = node.connect().await;
    let claims = ordered(&mut mum, order(&[])).await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    assert_eq!(claims[0].tokens, std::slice::from_ref(&crashes.token));
}
