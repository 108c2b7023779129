//! The processes of one command, which end with it.

use tokio::process::Child;

/// The process group of a command. Dropping it ends every process in it.
pub struct ProcessGroup(Option<rustix::process::Pid>);

impl ProcessGroup {
    /// The group that a child leads.
    pub fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        Self(leader.and_then(rustix::process::Pid::from_raw))
    }

    /// Leaves the group alone: its leader was reaped, or its processes may go on.
    pub fn leave(&mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // An empty group is no error here.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}
