//! Measurements, for a quiet machine and release programs:
//! `NERO_PROGRAMS=target/release cargo nextest run -p neromum speed --run-ignored all --no-capture -j1`

use std::time::Instant;

use nero_model::process::Stat;
use nero_wire::v1::RunSpec;

use crate::rig::{Known, Node, wait_for};

/// CPU time of a process so far, in microseconds.
fn cpu_us(pid: i32) -> u64 {
    let stat = Stat::read(pid).unwrap();
    (stat.user_ticks + stat.system_ticks) * 1_000_000 / rustix::param::clock_ticks_per_second()
}

/// Memory that nobody shares, in KiB.
fn private_kib(pid: i32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn tiny_runs() {
    let mut node = Node::with(&["--cpus", "2"]);
    let mut mum = node.start().await;
    let pid = node.mum_pid();
    println!("idle: {} KiB private", private_kib(pid));
    let mut follower = mum.follow(Known::default()).await;
    for round in 0..3 {
        let specs: Vec<RunSpec> = (1..=1000)
            .map(|number| node.run(round * 1000 + number, &["true"]))
            .collect();
        let all: Vec<&RunSpec> = specs.iter().collect();
        let (begun, cpu) = (Instant::now(), cpu_us(pid));
        mum.accept(&all).await;
        let handed = begun.elapsed();
        follower.settled(&all).await;
        println!(
            "1000 x true: handed over in {handed:?}, settled in {:?}, {} us of CPU a run",
            begun.elapsed(),
            (cpu_us(pid) - cpu) / 1000
        );
        follower.close(&all).await;
    }
    println!("after: {} KiB private", private_kib(pid));
    let mut waits = Vec::new();
    for number in 5000..5050 {
        let spec = node.run(number, &["true"]);
        let begun = Instant::now();
        mum.accept(&[&spec]).await;
        let handed = begun.elapsed();
        follower.settled(&[&spec]).await;
        waits.push((begun.elapsed(), handed));
    }
    waits.sort();
    println!(
        "one alone, median: settled and handed over after {:?}",
        waits[25]
    );
}

#[tokio::test]
#[ignore = "a measurement"]
async fn ten_thousand_folders() {
    let mut node = Node::with(&["--cpus", "2"]);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    for round in 0..10 {
        let specs: Vec<RunSpec> = (1..=1000)
            .map(|number| node.run(round * 1000 + number, &["true"]))
            .collect();
        let all: Vec<&RunSpec> = specs.iter().collect();
        mum.accept(&all).await;
        follower.settled(&all).await;
    }
    drop((follower, mum));
    node.kill_mum();
    let begun = Instant::now();
    let mut mum = node.start().await;
    println!("10 000 folders: first answer after {:?}", begun.elapsed());
    let mut follower = mum.follow(Known::default()).await;
    follower.caught_up().await;
    println!("10 000 folders: all sent anew after {:?}", begun.elapsed());
    println!("{} KiB private", private_kib(node.mum_pid()));
    assert_eq!(follower.known.runs.len(), 10_000);
    // Nothing wakes an idle neromum.
    let pid = node.mum_pid();
    let switches = || {
        std::fs::read_to_string(format!("/proc/{pid}/status"))
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|count| count.trim().parse::<u64>().ok())
            .unwrap()
    };
    let quiet = Instant::now();
    wait_for("the dust to settle", || {
        (quiet.elapsed().as_secs() >= 3).then_some(())
    })
    .await;
    let (before, quiet) = (switches(), Instant::now());
    wait_for("five seconds", || {
        (quiet.elapsed().as_secs() >= 5).then_some(())
    })
    .await;
    println!("wake-ups in 5 s: {}", switches() - before);
}
