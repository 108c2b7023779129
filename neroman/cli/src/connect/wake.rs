//! Asks a daemon that lives without its socket to make the socket again.

use std::time::Duration;

use nero_model::process::Life;
use nero_model::{Holder, Home};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

use super::{Greeted, find as look, spawn};
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
pub async fn find(home: &Home) -> Result<Option<Greeted>, Fault> {
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
            return Err(spawn::is_held(home, Some(&holder)));
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
    let Some(pid) = Pid::from_raw(holder.process.pid) else {
        return;
    };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    // The handle names the process that had the number when it was made.
    if !lives(holder) {
        return;
    }
    // If the signal has no effect, the wait ends with a message that names the
    // process.
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(&handle, Signal::HUP),
        Err(rustix::io::Errno::NOSYS) => kill_process(pid, Signal::HUP),
        Err(_) => Ok(()),
    };
}
