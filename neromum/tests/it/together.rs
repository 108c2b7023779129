//! Launcher, shim and neromum die together, in every order, and a person
//! cancels the run: before, in between, or afterwards. The job is always ended,
//! and the run always has an end.

use nero_journal::v1::RecordKind;
use nero_model::process::Life;
use nero_model::{ProcessId, RequestId};
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{CancelRequest, RunSpec};
use rustix::process::Signal;

use crate::rig::{Known, Mum, Node, kill, reference, wait_for};

/// The process that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Launcher,
    Shim,
    Mum,
}
use Who::{Launcher, Shim};

const ORDERS: [[Who; 3]; 6] = [
    [Launcher, Shim, Who::Mum],
    [Launcher, Who::Mum, Shim],
    [Shim, Launcher, Who::Mum],
    [Shim, Who::Mum, Launcher],
    [Who::Mum, Launcher, Shim],
    [Who::Mum, Shim, Launcher],
];

/// A job that ignores `TERM`, and records a process that left its session.
const STUBBORN: &str = "trap '' TERM; setsid sleep 600 & echo $! >> ../stray; \
                        while :; do sleep 0.02; done";

/// A run, its processes, and their servers.
struct Scene {
    node: Node,
    mum: Option<Mum>,
    spec: RunSpec,
    shim: i32,
    launcher: i32,
    tree: [ProcessId; 2],
}

impl Scene {
    async fn new() -> Self {
        let mut node = Node::new();
        let mut mum = node.start().await;
        let spec = node.sh(1, STUBBORN);
        mum.accept(&[&spec]).await;
        let stray = wait_for("the job's first line", || {
            let text = std::fs::read_to_string(node.run_dir(&spec).join("stray")).ok()?;
            text.strip_suffix('\n')?.parse::<i32>().ok()
        })
        .await;
        let (shim, job) = node.claim(&spec);
        let launcher = node.launcher().await;
        let tree = [job, stray].map(|pid| ProcessId::of(pid).unwrap());
        Self {
            node,
            mum: Some(mum),
            spec,
            shim,
            launcher,
            tree,
        }
    }

    fn end(&mut self, who: Who) {
        match who {
            Launcher => kill(self.launcher, Signal::KILL),
            Shim => kill(self.shim, Signal::KILL),
            Who::Mum => {
                self.mum = None;
                self.node.kill_mum();
            }
        }
    }

    /// Cancels the run, by a new neromum if there is none.
    async fn cancel(&mut self) {
        if self.mum.is_none() {
            self.mum = Some(self.node.start().await);
        }
        let request = CancelRequest {
            request: RequestId::random().to_vec(),
            runs: vec![reference(&self.spec)],
            grace_ms: 200,
            signal: 0,
            author: "test".to_owned(),
            ..CancelRequest::default()
        };
        let client = &mut self.mum.as_mut().unwrap().client;
        client.cancel(request).await.unwrap();
    }

    /// Checks that the run has an end, and that no process of its tree is
    /// alive.
    async fn ends(mut self, how: &str) {
        let mut mum = match self.mum.take() {
            Some(mum) => mum,
            None => self.node.start().await,
        };
        let mut follower = mum.follow(Known::default()).await;
        follower.settled(&[&self.spec]).await;
        let run = follower.of(&self.spec);
        assert!(run.stages.contains(&Stage::Settled), "{how}");
        for process in self.tree {
            let life = process.life();
            assert!(
                matches!(life, Ok(Life::Dead | Life::Zombie)),
                "{how}: {life:?} {:?}",
                run.kinds()
            );
        }
        assert!(
            run.count(RecordKind::StopAsked) >= 1,
            "{how}: {:?}",
            run.kinds()
        );
        assert_eq!(
            run.count(RecordKind::TreeGone),
            1,
            "{how}: {:?}",
            run.kinds()
        );
    }
}

/// `when` processes die before the cancel; with 3, all of them.
async fn die_and_cancel(when: usize) {
    for order in ORDERS {
        let mut scene = Scene::new().await;
        for (at, who) in order.into_iter().enumerate() {
            if at == when {
                scene.cancel().await;
            }
            scene.end(who);
        }
        if when == order.len() {
            scene.cancel().await;
        }
        scene
            .ends(&format!("{order:?}, cancelled after {when}"))
            .await;
    }
}

#[tokio::test]
async fn a_cancel_before_all_of_them_die_is_carried_out() {
    die_and_cancel(0).await;
}

#[tokio::test]
async fn a_cancel_after_the_first_death_is_carried_out() {
    die_and_cancel(1).await;
}

#[tokio::test]
async fn a_cancel_before_the_last_death_is_carried_out() {
    die_and_cancel(2).await;
}

#[tokio::test]
async fn a_cancel_after_all_of_them_died_is_carried_out() {
    die_and_cancel(3).await;
}

#[tokio::test]
async fn with_the_main_process_dead_too_the_rest_of_the_tree_is_ended() {
    let mut scene = Scene::new().await;
    for who in [Who::Mum, Launcher, Shim] {
        scene.end(who);
    }
    kill(scene.tree[0].pid, Signal::KILL);
    scene.cancel().await;
    scene.ends("a stray alone").await;
}
