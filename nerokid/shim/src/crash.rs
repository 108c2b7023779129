//! Points at which a test can have a process killed, exactly there.
//!
//! `NERO_CRASH_AT=<point>` in the launcher's environment holds for its first
//! launch; `<point>+launcher` kills the launcher first. A build without debug
//! assertions knows nothing of this.

/// Where to die; nowhere in a release build.
#[derive(Clone, Debug, Default)]
pub struct CrashAt {
    #[cfg(debug_assertions)]
    point: Option<(String, bool)>,
}

impl CrashAt {
    /// From the environment.
    pub fn from_environment() -> Self {
        Self {
            #[cfg(debug_assertions)]
            point: std::env::var("NERO_CRASH_AT").ok().map(|text| {
                let point = text.strip_suffix("+launcher");
                (point.unwrap_or(&text).to_owned(), point.is_some())
            }),
        }
    }

    /// Takes the point, leaving none for later launches.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Dies here if this is the point.
    #[cfg(debug_assertions)]
    pub fn here(&self, point: &str) {
        if let Some((at, launcher)) = &self.point
            && at == point
        {
            if *launcher && let Some(parent) = rustix::process::getppid() {
                let _ = crate::sys::kill(parent.as_raw_nonzero().get(), libc::SIGKILL);
            }
            let own = rustix::process::getpid().as_raw_nonzero().get();
            let _ = crate::sys::kill(own, libc::SIGKILL);
        }
    }

    /// Dies here if this is the point: never.
    #[cfg(not(debug_assertions))]
    #[expect(clippy::unused_self, reason = "as in a build with assertions")]
    pub const fn here(&self, _point: &str) {}
}
