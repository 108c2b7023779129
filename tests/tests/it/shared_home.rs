//! Several login nodes with one home: one neromum leads, whichever starts, dies, freezes
//! or cannot be reached, and every run is started exactly once.

mod login;

use std::io::{Read as _, Write as _};
use std::time::{Duration, SystemTime};

use nero_journal::HEADER_BYTES;
use nero_journal::v1::job_not_started;
use nero_journal::v1::{JobExited, JobNotStarted, RecordKind, StopAsked, StopCause};
use nero_journal::{Header, Reader};
use nero_wire::v1::RunSpec;
use nero_wire::v1::run_state::Stage;
use rustix::process::{Signal, kill_process};

use login::{BEAT_S, Logins, Mum, counted, until};

/// Login nodes with `h1` as leader, its connection, and run 1: its job lives there until
/// the gate `long` opens, and ends with `code` then.
async fn busy(cpus: &str, code: u8) -> Option<(Logins, Mum, RunSpec)> {
    let logins = Logins::up(&["--cpus", cpus])?;
    let mut first = logins.reach("h1").await;
    assert_eq!(logins.leader(), (1, "h1".to_owned()));
    let long = logins.run(1, &format!("{}; exit {code}", logins.gate("long")));
    first.accept(&[&long]).await;
    first.running(&long).await;
    Some((logins, first, long))
}

/// The first record of a kind in any segment of a run's first incarnation.
fn record<M: prost::Message + Default>(
    logins: &Logins,
    run: &RunSpec,
    kind: RecordKind,
) -> Option<M> {
    let id = nero_model::RunId {
        experiment: nero_model::ExperimentId(run.experiment),
        number: 1,
    };
    let folder = logins.paths().run(id).join("1");
    std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let bytes = std::fs::read(entry.path()).ok()?;
        let header = Header::parse(&bytes).ok()?;
        let mut records = Reader::new(&bytes[HEADER_BYTES..], HEADER_BYTES as u64, header.chain);
        let found = records.find(|record| record.is(kind))?;
        found.decode().ok()
    })
}

#[tokio::test]
async fn of_three_that_start_at_once_one_leads_and_all_answer() {
    let Some(logins) = Logins::up(&["--cpus", "2"]) else {
        return;
    };
    let before = ["h1", "h2", "h3"].map(|host| logins.listening(host));
    let (one, two, three) = tokio::join!(logins.dial("h1"), logins.dial("h2"), logins.dial("h3"));
    let mut mums = [one.unwrap(), two.unwrap(), three.unwrap()];
    let (epoch, leader) = logins.leader();
    assert_eq!(epoch, 1, "{}", logins.log());
    for mum in &mut mums {
        assert_eq!(mum.host().await, leader);
    }
    let serving: Vec<_> = ["h1", "h2", "h3"].map(|host| logins.mums(host)).concat();
    assert_eq!(serving.len(), 1, "the others ended");

    // Each run is handed over by another dialler, and one by all of them.
    let runs: Vec<RunSpec> = (1..=9).map(|number| logins.run(number, "exit 3")).collect();
    let last = logins.run(10, "true");
    for (index, run) in runs.iter().enumerate() {
        mums[index % 3].accept(&[run, &last]).await;
    }
    for run in runs.iter().chain([&last]) {
        mums[1].settled(run).await;
        assert_eq!(logins.started(run.experiment), [leader.as_str()]);
    }

    // The leader listens inside the cluster, once; the other hosts open no new socket.
    for (host, before) in ["h1", "h2", "h3"].iter().zip(before) {
        let now = logins.listening(host);
        let new: Vec<_> = now.iter().filter(|one| !before.contains(one)).collect();
        if *host == leader {
            assert_eq!(new.len(), 1, "{new:?}");
            assert_eq!(*new[0], logins.lease().unwrap().relay[0]);
        } else {
            assert_eq!(new, Vec::<&String>::new(), "{host}");
        }
    }
    refuses_strangers(&logins.lease().unwrap().relay[0]);
    mums[2].host().await;
}

/// A peer without a certificate gets nothing but the end of a handshake.
fn refuses_strangers(address: &str) {
    let address = address.parse().unwrap();
    let patience = Duration::from_secs(20);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
    for said in [preface, b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0"] {
        let mut stream = std::net::TcpStream::connect_timeout(&address, patience).unwrap();
        stream.set_read_timeout(Some(patience)).unwrap();
        stream.write_all(said).unwrap();
        let mut heard = Vec::new();
        // A reset is an end, too; a read that runs into its time is not.
        if let Err(error) = stream.read_to_end(&mut heard) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        // An alert of TLS: type 21, five bytes of head and two of content.
        assert!(
            heard.is_empty() || (heard[0] == 21 && heard.len() == 7),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn a_frozen_leader_that_wakes_leaves_and_starts_nothing() {
    let Some((logins, mut first, long)) = busy("1", 5).await else {
        return;
    };
    let next = logins.run(2, "true");
    first.accept(&[&next]).await;
    let frozen = logins.mum("h1");
    kill_process(frozen, Signal::STOP).unwrap();

    // The new leader starts nothing: it keeps more disk free than there is.
    let holding = ["--min-free", "99999999999999999"];
    let second = logins.dial_with("h2", &holding).await.unwrap();
    assert_eq!(logins.leader(), (2, "h2".to_owned()));
    second
        .until(&long, "the first to be followed from afar", |state| {
            state.stage() == Stage::Running && state.host == "h1" && state.via_disk
        })
        .await;
    // The launcher of the frozen leader sends it the end of the first run: when it
    // wakes, it reads that first, and the second run is due.
    logins.open("long");
    second.settled(&long).await;
    assert_eq!(second.state(&next).stage(), Stage::Waiting);
    assert!(!logins.left(1));
    kill_process(frozen, Signal::CONT).unwrap();
    logins.nobody_serves("h1").await;
    assert!(logins.left(1), "{}", logins.log());
    let exited: JobExited = record(&logins, &long, RecordKind::JobExited).unwrap();
    assert_eq!(
        exited.code, 5,
        "the true code, though its leader was replaced"
    );
    assert_eq!(logins.started(1), ["h1"]);
    assert_eq!(logins.claims(2), 0, "the old leader started nothing");
    until("the first follower to hear of it", || {
        (!first.is_connected())
            .then_some(())
            .ok_or_else(String::new)
    })
    .await;
    assert_eq!(logins.leader().0, 2);
    // The next leader starts the run, once.
    logins.kill_mums("h2");
    let third = logins.reach("h3").await;
    third.settled(&next).await;
    assert_eq!(logins.started(2), ["h3"]);
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_its_host() {
    let Some((logins, _first, long)) = busy("2", 9).await else {
        return;
    };
    logins.kill_mums("h1");
    let again = logins.reach("h1").await;
    assert_eq!(logins.leader(), (2, "h1".to_owned()));
    // The death was proven, so there was no wait for beats.
    let why = logins.lease().unwrap().why;
    assert_eq!(why, "the neromum of h1 is dead");
    until("the run to be looked after as before", || {
        let state = again.state(&long);
        let here = state.stage() == Stage::Running && state.host.is_empty();
        here.then_some(()).ok_or_else(|| format!("{state:?}"))
    })
    .await;
    logins.open("long");
    again.settled(&long).await;
    let exited: JobExited = record(&logins, &long, RecordKind::JobExited).unwrap();
    assert_eq!(exited.code, 9);
    assert_eq!(logins.started(1), ["h1"]);
}

#[tokio::test]
async fn a_run_on_another_host_is_cancelled_from_here() {
    let Some((logins, _first, long)) = busy("2", 0).await else {
        return;
    };
    logins.kill_mums("h1");
    let mut second = logins.reach("h2").await;
    assert_eq!(logins.leader(), (2, "h2".to_owned()));
    second
        .until(&long, "the run to be followed", |state| state.host == "h1")
        .await;
    second.cancel(&long).await;
    second.settled(&long).await;
    let asked: StopAsked = record(&logins, &long, RecordKind::StopAsked).unwrap();
    assert_eq!(asked.cause(), StopCause::Person);
    assert_eq!(logins.started(1), ["h1"]);
}

/// A launch that an old leader ordered and whose shim comes late.
#[tokio::test]
async fn a_launch_on_its_way_is_no_second_start() {
    let Some(logins) = Logins::up(&["--cpus", "2"]) else {
        return;
    };
    let mut first = logins.reach("h1").await;
    let warm = logins.run(1, "true");
    first.accept(&[&warm]).await;
    first.settled(&warm).await;
    let launcher = logins.launcher("h1");
    kill_process(launcher, Signal::STOP).unwrap();
    let (once, never) = (logins.run(2, "true"), logins.run(3, "true"));
    first.accept(&[&once, &never]).await;
    for run in [&once, &never] {
        first
            .until(run, "a launch to be ordered", |state| {
                state.stage() == Stage::Starting
            })
            .await;
    }
    logins.kill_mums("h1");

    // One run is cancelled before the new leader may start it, one is started.
    let holding = ["--min-free", "99999999999999999"];
    let mut second = logins.dial_with("h2", &holding).await.unwrap();
    assert_eq!(logins.leader(), (2, "h2".to_owned()));
    second.cancel(&never).await;
    second
        .until(&never, "a run to be taken away", |state| {
            state.stage() == Stage::TakenAway
        })
        .await;
    logins.kill_mums("h2");
    let third = logins.reach("h2").await;
    third.settled(&once).await;

    kill_process(launcher, Signal::CONT).unwrap();
    until("the late shims to have looked", || {
        let claimed = logins.claims(3) == 1;
        claimed.then_some(()).ok_or_else(|| logins.log())
    })
    .await;
    until("the late shim to say that it was cancelled", || {
        record::<JobNotStarted>(&logins, &never, RecordKind::JobNotStarted)
            .map(|said| assert_eq!(said.stage(), job_not_started::Stage::Cancelled))
            .ok_or_else(String::new)
    })
    .await;
    assert_eq!(logins.started(2), ["h2"]);
    assert_eq!(logins.claims(2), 1);
    assert_eq!(logins.started(3), Vec::<String>::new());
}

#[tokio::test]
async fn a_dead_host_is_replaced_and_its_runs_are_lost_only_when_it_is_back() {
    let Some((logins, _first, long)) = busy("2", 0).await else {
        return;
    };
    logins.hosts.kill("h1");
    let mut second = logins.reach("h2").await;
    assert_eq!(logins.leader(), (2, "h2".to_owned()));
    second
        .until(&long, "the run to be followed", |state| {
            state.host == "h1" && state.stage() == Stage::Running
        })
        .await;
    // Other runs go on meanwhile.
    let other = logins.run(2, "true");
    second.accept(&[&other]).await;
    second.settled(&other).await;
    assert_eq!(
        second.state(&long).stage(),
        Stage::Running,
        "no proof of its end"
    );

    logins.hosts.start("h1");
    let mut third = logins.reach("h1").await;
    assert_eq!(third.host().await, "h2", "relayed to who leads");
    second.settled(&long).await;
    let lost: nero_journal::v1::Lost = record(&logins, &long, RecordKind::Lost).unwrap();
    assert_eq!(lost.reason(), nero_journal::v1::lost::Reason::Rebooted);
    assert_eq!(logins.started(1), ["h1"]);
    assert_eq!(logins.started(2), ["h2"]);
}

#[tokio::test]
async fn without_a_way_to_the_leader_the_next_epoch_begins_and_they_do_not_take_turns() {
    for how in ["unreachable", "blackhole"] {
        let Some((logins, _first, long)) = busy("2", 0).await else {
            return;
        };
        logins.cut_between("h1", "h2", how);
        let mut second = logins.reach("h2").await;
        assert_eq!(logins.leader(), (2, "h2".to_owned()), "{how}");
        assert!(logins.lease().unwrap().why.contains("cannot be reached"));
        // The run is handed over again, as neroman does, with one more.
        let short = logins.run(2, "true");
        second.accept(&[&long, &short]).await;
        second.settled(&short).await;
        assert!(logins.left(1), "nothing starts before the old one has left");
        // The other way round: not before the new lease is old enough.
        let back = logins.reach("h1").await;
        assert_eq!(logins.leader(), (3, "h1".to_owned()), "{how}");
        let made = |epoch: u64| -> SystemTime {
            let path = logins.paths().lease().join(format!("epoch.{epoch}"));
            std::fs::metadata(path).unwrap().modified().unwrap()
        };
        for epoch in [1, 2] {
            let between = made(epoch + 1).duration_since(made(epoch)).unwrap();
            assert!(between.as_secs_f64() >= 4.0 * BEAT_S, "{how}: {between:?}");
        }
        logins.open("long");
        back.settled(&long).await;
        assert_eq!(logins.started(1), ["h1"]);
        assert_eq!(logins.started(2), ["h2"]);
    }
}

#[tokio::test]
async fn an_agent_with_listen_never_has_no_tcp_socket_and_is_replaced() {
    let Some(logins) = Logins::up(&["--cpus", "2", "--listen", "never"]) else {
        return;
    };
    let before = logins.listening("h1");
    let mut first = logins.reach("h1").await;
    first.accept(&[&logins.run(1, "true")]).await;
    assert_eq!(logins.listening("h1"), before);
    assert!(logins.lease().unwrap().relay.is_empty());
    let mut second = logins.reach("h2").await;
    assert_eq!(second.host().await, "h2");
    assert_eq!(logins.leader(), (2, "h2".to_owned()));
    logins.nobody_serves("h1").await;
    assert!(logins.left(1));
}

/// Leaders are killed, frozen and cut off while runs are handed over.
#[tokio::test]
async fn every_run_is_started_once_whatever_becomes_of_the_leaders() {
    let Some(logins) = Logins::up(&["--cpus", "2"]) else {
        return;
    };
    let runs: Vec<RunSpec> = (1..=24)
        .map(|number| logins.run(number, "sleep 0.2"))
        .collect();
    let all: Vec<&RunSpec> = runs.iter().collect();
    for (round, host) in ["h1", "h2", "h3", "h1"].iter().enumerate() {
        let mut mum = logins.reach(host).await;
        // neroman hands a run over again while it has no reply.
        mum.accept(&all).await;
        if round == 2 {
            // The frozen leader wakes while another leads.
            for host in ["h1", "h2", "h3"] {
                logins.hosts.thaw(host);
            }
        }
        let some = &runs[round * 4];
        mum.settled(some).await;
        let leader = logins.leader().1;
        match round {
            0 => logins.kill_mums(&leader),
            1 => logins.hosts.freeze(&leader),
            _ => {}
        }
    }
    let mut mum = logins.reach("h3").await;
    mum.accept(&all).await;
    for run in &runs {
        mum.settled(run).await;
    }
    let starts = counted(runs.iter().flat_map(|run| {
        let times = logins.started(run.experiment).len();
        vec![run.experiment; times]
    }));
    assert_eq!(starts.len(), runs.len(), "{starts:?}\n{}", logins.log());
    assert!(starts.values().all(|times| *times == 1), "{starts:?}");
}
