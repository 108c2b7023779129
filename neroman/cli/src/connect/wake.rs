//! Asks a daemon that lives without its socket to make the socket again.

use std::time::Duration;

use nero_model::process::{Life, ProcessHandle};
use nero_model::safe::Safe;
use nero_model::{Holder, Home};
use rustix::process::Signal;
use tokio::time::Instant;

use super::{GreetedDaemon, find as look};
use crate::fault::Fault;

/// How long the daemon may take to make its socket again, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks; there is no event for "listens again".
const LOOK: Duration = Duration::from_millis(5);

/// The daemon that answers; `None` when none runs on this host.
///
/// # Errors
/// When a process answers that cannot be greeted, or a daemon runs and does not
/// answer.
pub async fn find(home: &Home) -> Result<Option<GreetedDaemon>, Fault> {
    if let Some(greeted) = look(home).await? {
        return Ok(Some(greeted));
    }
    let Some(holder) = Holder::read(&home.daemon_lock()) else {
        return Ok(None);
    };
    ring(&holder);
    let deadline = Instant::now() + PATIENCE;
    while lives(&holder) {
        if let Some(greeted) = look(home).await? {
            return Ok(Some(greeted));
        }
        if Instant::now() > deadline {
            return Err(is_held(home, Some(&holder)));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

/// Whether the process that wrote the lock lives on this host.
pub fn lives(holder: &Holder) -> bool {
    matches!(holder.process.life(), Ok(Life::Alive))
}

/// Asks the lock's holder, exactly that process, to look for its socket.
fn ring(holder: &Holder) {
    let handle = ProcessHandle::open(&holder.process);
    if let Some(handle) = handle.filter(ProcessHandle::is_alive) {
        // If the signal has no effect, the wait ends with a message that names the process.
        let _ = handle.signal(Signal::HUP);
    }
}

/// Another daemon has the lock and cannot be reached from here.
pub fn is_held(home: &Home, holder: Option<&Holder>) -> Fault {
    let lock = home.daemon_lock();
    let lock = lock.display();
    let Some(holder) = holder else {
        return Fault::no_daemon("the daemon of this home runs and cannot be found")
            .cause(format!(
                "{lock} is locked by a daemon of an earlier version, which does not write down where it answers"
            ))
            .hint(format!(
                "`fuser {lock}` prints its process; `kill` it, and the next command starts a new one (jobs go on)"
            ));
    };
    let (pid, socket) = (holder.process.pid, holder.socket.display());
    if holder.is_here() {
        return Fault::no_daemon(format!("the daemon of this home (process {pid}) does not answer"))
            .cause(format!("it holds {lock} and should answer at {socket}"))
            .hint(format!(
                "`neroman daemon logs` shows what it does; after `kill {pid}` the next command starts a new one (jobs go on)"
            ));
    }
    let host = Safe::line(&holder.host).to_string();
    Fault::no_daemon(format!(
        "the daemon of this home runs on another host, {host}"
    ))
    .cause(format!("process {pid} there holds {lock}"))
    .hint(format!(
        "work on {host}, or end it there with `neroman daemon stop`"
    ))
}
