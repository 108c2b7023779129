//! Points at which a test can have a process killed, exactly there.
//!
//! `NERO_CRASH_AT=<point>[,<victim>…]` in the launcher's environment holds for
//! its first launch. Victims, one after the other: `parent`, `self` (the one
//! that reaches the point, also when none is named), `stop` (it stands still),
//! `hold` (it stands still and goes on, unharmed, when it is continued).
//! A build without debug assertions knows nothing of this.

/// The point at which to die; never in a release build.
#[derive(Clone, Debug, Default)]
pub struct CrashAt {
    #[cfg(debug_assertions)]
    plan: Option<String>,
}

impl CrashAt {
    /// From the environment.
    pub fn from_environment() -> Self {
        Self {
            #[cfg(debug_assertions)]
            plan: std::env::var("NERO_CRASH_AT").ok(),
        }
    }

    /// Takes the point, so that later launches have none.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Dies here if this is the point.
    #[cfg(debug_assertions)]
    pub fn here(&self, point: &str) {
        use crate::sys::kill;
        let mut words = self.plan.as_deref().unwrap_or_default().split(',');
        if words.next() != Some(point) {
            return;
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let parent = rustix::process::getppid().map_or(own, |pid| pid.as_raw_nonzero().get());
        for victim in words.chain(["self"]) {
            // Nothing can be done about a refusal; the test will see it.
            let _ = match victim {
                "parent" => kill(parent, libc::SIGKILL),
                "stop" => kill(own, libc::SIGSTOP),
                "hold" => {
                    let _ = kill(own, libc::SIGSTOP);
                    return;
                }
                _ => kill(own, libc::SIGKILL),
            };
        }
    }

    /// Dies here if this is the point: never.
    #[cfg(not(debug_assertions))]
    #[expect(clippy::unused_self, reason = "as in a build with assertions")]
    pub const fn here(&self, _point: &str) {}
}
