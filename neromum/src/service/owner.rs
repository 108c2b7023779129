//! The owner of this deployment: the neroman with the highest tenure. After
//! `node take-over` from another machine the former owner is refused, and its
//! open connections here are ended.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nero_journal::Clocks;
use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::Owner;
use nero_model::paths::NodePaths;
use nero_model::safe::Safe;
use nero_wire::hello;
use nero_wire::v1::Hello;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tonic::Status;

use super::ServiceState;
use super::link::{LinkInfo, LinkState};

/// Limit of the kept name of a host.
const HOST_CHARS: usize = 128;

/// The owner, and the connections with their tenures.
#[derive(Debug)]
pub struct Owners {
    path: PathBuf,
    links: Mutex<Vec<Weak<LinkState>>>,
    /// One greeting at a time changes the owner.
    turn: tokio::sync::Mutex<()>,
    /// The tenure whose runs are taken in. A hand-over reads it until its runs are accepted.
    handing_over: Arc<RwLock<u64>>,
}

impl Owners {
    /// For one deployment.
    pub fn new(paths: &NodePaths) -> Self {
        Self {
            path: paths.deployment().join("owner"),
            links: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            handing_over: Arc::default(),
        }
    }

    /// Permits a hand-over by a neroman of this tenure. The next owner waits until the permit
    /// is dropped.
    pub async fn permit(&self, tenure: u64) -> Result<OwnedRwLockReadGuard<u64>, Status> {
        let permit = Arc::clone(&self.handing_over).read_owned().await;
        if *permit == tenure {
            Ok(permit)
        } else {
            Err(Status::aborted("the deployment was taken over"))
        }
    }

    /// Waits for hand-overs of an earlier owner, and permits those of this tenure alone. A new
    /// owner lists the runs of this node. The list would lack a run that comes in behind it, and
    /// the new owner would give the number of that run to another one.
    async fn wait_for_hand_overs(&self, tenure: u64) {
        if *self.handing_over.read().await != tenure {
            *self.handing_over.write().await = tenure;
        }
    }

    /// Remembers a connection, to end it if the owner changes.
    fn keep(&self, link: &LinkInfo) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.push(link.state());
    }

    /// Ends the connections of lower tenures.
    fn end_before(&self, tenure: u64) {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        for link in links.iter().filter_map(Weak::upgrade) {
            if link.tenure() < tenure {
                link.end();
            }
        }
    }
}

/// Accepts a neroman, or refuses it. A higher tenure is made durable first.
pub async fn greet(inner: &ServiceState, hello: &Hello, link: &LinkInfo) -> Result<(), Status> {
    let owners = &inner.owners;
    let _turn = owners.turn.lock().await;
    let host: String = hello.host.chars().take(HOST_CHARS).collect();
    let (path, tenure) = (owners.path.clone(), hello.tenure);
    inner
        .file_work(move || settle(&path, tenure, host))
        .await??;
    link.greet(tenure);
    owners.keep(link);
    owners.end_before(tenure);
    owners.wait_for_hand_overs(tenure).await;
    Ok(())
}

fn settle(path: &Path, tenure: u64, host: String) -> Result<(), Status> {
    let owner = read(path)?;
    let other = !owner.host.is_empty() && !host.is_empty() && owner.host != host;
    if tenure < owner.tenure || (tenure == owner.tenure && tenure > 0 && other) {
        return Err(taken_over(&owner));
    }
    if tenure == owner.tenure {
        return Ok(());
    }
    let next = Owner {
        tenure,
        host,
        since_ms: now_ms(),
    };
    tracing::info!(tenure, host = %Safe::line(&next.host), "taken over");
    frame::replace(FrameKind::Owner, path, &next)
        .map_err(|error| Status::internal(format!("cannot write {}: {error}", path.display())))
}

fn taken_over(owner: &Owner) -> Status {
    // neroman stores this text, so it has a date: an age would soon be wrong.
    hello::taken_over(format!(
        "this node's runs were taken over by {} at {} UTC",
        Safe::line(&owner.host),
        utc(owner.since_ms),
    ))
}

/// Formats milliseconds since 1970 as `2026-11-22 07:57`. Years begin in March
/// here, so that a leap day is the last day of its year.
fn utc(at_ms: i64) -> String {
    let minutes = at_ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440) + 719_468, minutes.rem_euclid(1440));
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month < 3);
    let (hour, minute) = (minute / 60, minute % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

fn now_ms() -> i64 {
    Clocks::now().wall_ns / 1_000_000
}

fn read(path: &Path) -> Result<Owner, Status> {
    match frame::read(FrameKind::Owner, path) {
        Ok(owner) => Ok(owner),
        Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Owner::default())
        }
        Err(error) => Err(Status::failed_precondition(format!(
            "cannot tell whose runs these are: {error}: {}; remove that file when no other \
             machine's neroman uses this node",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<(), Status>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn moments_are_days_and_minutes() {
        for (at_s, want) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_709_251_200, "2024-03-01 00:00"),
            (1_798_761_540, "2026-12-31 23:59"),
            (-60, "1969-12-31 23:59"),
        ] {
            assert_eq!(utc(at_s * 1000), want);
        }
    }

    #[test]
    fn the_highest_tenure_owns_and_equals_must_be_the_same_host() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner");
        let greet = |tenure, host: &str| settle(&path, tenure, host.to_owned());
        greet(0, "a").unwrap();
        greet(0, "b").unwrap();
        assert!(!path.exists());
        greet(2, "laptop").unwrap();
        greet(2, "laptop").unwrap();
        for (tenure, host) in [(2, "other"), (1, "laptop"), (0, "laptop")] {
            let refused = greet(tenure, host);
            assert!(refused.as_ref().is_err_and(hello::is_taken_over));
            assert!(text(refused).contains("taken over by laptop"));
        }
        greet(3, "ot\u{1b}her").unwrap();
        let refused = text(greet(2, "laptop"));
        let since = utc(read(&path).unwrap().since_ms);
        assert!(
            refused.ends_with(&format!("ot\\u{{1b}}her at {since} UTC")),
            "{refused}"
        );
        // neroman stores the text and shows it later, so it must not change.
        assert_eq!(text(greet(2, "laptop")), refused);
        std::fs::write(&path, "rubbish").unwrap();
        let refused = greet(9, "x");
        assert!(!refused.as_ref().is_err_and(hello::is_taken_over));
        assert!(text(refused).contains("cannot tell whose"));
    }
}
