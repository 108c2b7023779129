//! The launchers of this deployment: the one of this build, which starts jobs,
//! and older ones, which look after theirs until these end. A launcher's message
//! is a doorbell: the agent reads the disk, then the core decides.

use std::collections::{HashMap, HashSet};

use nero_journal::v1::{
    Changed, Doorbell, EndAll, FromLauncher, Retire, changed, from_launcher, to_launcher,
};
use nero_model::RunToken;
use nero_node_core::Stage;
use nero_node_core::decide::TrackingState;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Agent, AgentHandle, Driver};
use crate::config;
use crate::launch::bare::{self, LinkId, News};

/// Links to launchers.
#[derive(Debug, Default)]
pub struct Launchers {
    pub(super) handle: Option<AgentHandle>,
    links: HashMap<LinkId, LauncherLink>,
    own: Option<LinkId>,
    next: u64,
    /// Number of connections being made: until they are, it is unknown which
    /// launcher tracks which run.
    opening: usize,
    /// Time at which the own launcher was last opened.
    own_opened: Option<Instant>,
    /// Fault of the own launcher.
    trouble: String,
}

#[derive(Debug)]
struct LauncherLink {
    orders: mpsc::UnboundedSender<Vec<u8>>,
    out: Vec<u8>,
    listed: bool,
}

impl Launchers {
    /// Whether the own launcher answers and every launcher has sent its list.
    pub fn ready(&self) -> bool {
        self.opening == 0 && self.own.is_some() && self.links.values().all(|link| link.listed)
    }

    /// Fault of the own launcher; empty when it has none.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// The connection over which jobs are started.
    pub fn own_link(&self) -> Option<LinkId> {
        self.own
    }

    /// The connections to all launchers.
    pub fn all_links(&self) -> HashSet<LinkId> {
        self.links.keys().copied().collect()
    }

    /// Sends to the own launcher, with everything else of this turn.
    pub fn send_own(&mut self, message: to_launcher::Message) {
        if let Some(link) = self.own.and_then(|own| self.links.get_mut(&own)) {
            bare::encode(&mut link.out, message);
        }
    }

    /// Sends to all, since any may look after a run.
    pub fn send_all(&mut self, message: &to_launcher::Message) {
        for link in self.links.values_mut() {
            bare::encode(&mut link.out, message.clone());
        }
    }

    /// Asks the own launcher to leave when it has nothing to do.
    pub fn retire_own(&mut self) {
        self.send_own(to_launcher::Message::Retire(Retire {}));
    }

    /// Sends the gathered messages.
    pub fn flush(&mut self) {
        for link in self.links.values_mut() {
            if !link.out.is_empty() {
                // If the connection is broken, `Down` reports that.
                let _ = link.orders.send(std::mem::take(&mut link.out));
            }
        }
    }

    /// Time of the next try to open the own launcher. A launcher that served for a while is
    /// opened again at once. One that dies as soon as it answers is not: that would go
    /// round without a pause.
    fn next_try(&self, now: Instant, was_up: bool) -> Instant {
        let pause_from = if was_up { self.own_opened } else { Some(now) };
        pause_from.map_or(now, |from| now.max(from + config::LAUNCHER_RETRY))
    }

    fn open(&mut self, launcher: bare::Launcher) {
        let Some(handle) = self.handle.clone() else {
            return;
        };
        self.next += 1;
        self.opening += 1;
        let link = LinkId(self.next);
        let own = launcher.program.is_some();
        let teller = handle.clone();
        #[expect(clippy::disallowed_methods, reason = "the next task awaits it")]
        let serving = tokio::spawn(bare::serve(launcher, link, move |news| {
            let teller = teller.clone();
            async move {
                // Sending fails once neromum leaves.
                let _ = teller.launcher(news).await;
            }
        }));
        #[expect(
            clippy::disallowed_methods,
            reason = "it tells the agent the end of the link, whatever ended it"
        )]
        tokio::spawn(async move {
            let why = match serving.await {
                Ok(why) => why.to_string(),
                Err(panic) => panic.to_string(),
            };
            let down = News::Down { link, own, why };
            let _ = handle.launcher(down).await;
        });
    }
}

impl<D: Driver> Agent<D> {
    /// Opens links to every launcher that may live.
    pub(super) fn open_launchers(&mut self) {
        let own = self.setup.launcher.clone();
        let folder = own.socket.parent().map(std::path::Path::to_path_buf);
        let found = folder.and_then(|folder| std::fs::read_dir(folder).ok());
        for entry in found.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let socket = entry.path();
            if name.starts_with("launcher-") && name.ends_with(".sock") && socket != own.socket {
                self.launchers.open(bare::Launcher {
                    socket,
                    program: None,
                    ..own.clone()
                });
            }
        }
        self.open_own_launcher();
    }

    pub(super) fn open_own_launcher(&mut self) {
        self.launchers.own_opened = Some(Instant::now());
        self.launchers.open(self.setup.launcher.clone());
    }

    pub(super) fn launcher(&mut self, news: News) {
        match news {
            News::Up { link, own, orders } => self.launcher_up(link, own, orders),
            News::Messages { link, messages } => {
                for message in messages {
                    self.launcher_says(link, message);
                }
            }
            News::Down { link, own, why } => self.launcher_down(link, own, &why),
        }
    }

    /// Asks every launcher to end its jobs.
    pub fn end_launches(&mut self) {
        self.launchers
            .send_all(&to_launcher::Message::EndAll(EndAll {}));
    }

    fn launcher_up(&mut self, link: LinkId, own: bool, orders: mpsc::UnboundedSender<Vec<u8>>) {
        self.launchers.opening -= 1;
        let new = LauncherLink {
            orders,
            out: Vec::new(),
            listed: false,
        };
        self.launchers.links.insert(link, new);
        if self.ending {
            self.end_launches();
        }
        if own {
            self.launchers.own = Some(link);
            self.launchers.trouble.clear();
            // Any other reason for a hold is found again at the next start.
            self.core.release();
        } else if let Some(old) = self.launchers.links.get_mut(&link) {
            bare::encode(&mut old.out, to_launcher::Message::Retire(Retire {}));
        }
    }

    fn launcher_says(&mut self, link: LinkId, message: FromLauncher) {
        match message.message {
            Some(from_launcher::Message::Changed(changed)) => self.changed(link, &changed),
            Some(from_launcher::Message::Listed(_)) => {
                if let Some(link) = self.launchers.links.get_mut(&link) {
                    link.listed = true;
                }
                self.examine_when_ready();
            }
            // A second hello, or a message of a later build: nothing to do.
            Some(from_launcher::Message::Hello(_)) | None => {}
        }
    }

    fn launcher_down(&mut self, link: LinkId, own: bool, why: &str) {
        let was_up = self.launchers.links.remove(&link).is_some();
        if !was_up {
            self.launchers.opening -= 1;
        }
        for entry in self.entries.values_mut() {
            if entry.tracked == Some(link) {
                entry.tracked = None;
            }
        }
        if !own && !was_up {
            tracing::info!(why, "a launcher of another build cannot be spoken to");
        }
        if own {
            tracing::warn!(why, was_up, "the launcher's link ended");
            self.launchers.own = None;
            self.launchers.trouble = format!("the launcher does not answer: {why}");
            let next = self.launchers.next_try(Instant::now(), was_up);
            self.timers.launcher = Some(next);
            if !was_up {
                let trouble = self.launchers.trouble.clone();
                self.core.hold(&trouble);
            }
        }
        self.examine_when_ready();
    }

    fn examine_when_ready(&mut self) {
        if self.launchers.ready() {
            self.examine();
        }
    }

    /// Decides anew about every started run that no launcher looks after.
    fn examine(&mut self) {
        let untracked: Vec<RunToken> = self
            .core
            .runs()
            .filter(|(_, run)| match run.stage {
                Stage::Running { .. } | Stage::Held { .. } => true,
                Stage::Starting { launched, .. } => launched,
                Stage::Waiting
                | Stage::Submitted { .. }
                | Stage::Ended { .. }
                | Stage::Settled { .. }
                | Stage::TakenAway
                | Stage::Refused => false,
            })
            .filter(|(token, _)| {
                self.entries
                    .get(token)
                    .is_some_and(|entry| entry.tracked.is_none())
            })
            .map(|(token, _)| *token)
            .collect();
        for token in untracked {
            let incarnation = self.entries[&token].incarnation.max(1);
            self.look_and_decide(token, incarnation);
        }
    }

    fn changed(&mut self, link: LinkId, changed: &Changed) {
        let Some(token) = RunToken::from_slice(&changed.token) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let incarnation = changed.incarnation.max(1);
        if incarnation < entry.incarnation {
            // The message is about a start that is over; the newer one counts.
            return;
        }
        use changed::What;
        match changed.what() {
            What::Started | What::TakenOver => {
                entry.tracked = Some(link);
                let cancelled = entry.cancels > 0;
                // The first ring may have come before its launcher was known.
                if cancelled && let Some(link) = self.launchers.links.get_mut(&link) {
                    let token = token.to_vec();
                    let doorbell = to_launcher::Message::Doorbell(Doorbell { token });
                    bare::encode(&mut link.out, doorbell);
                }
                self.look_and_decide(token, incarnation);
                D::claimed(self, token, incarnation);
            }
            What::Ended => {
                entry.tracked = None;
                self.look_and_decide_as(token, incarnation, TrackingState::Over);
            }
            What::Superseded => {
                if entry.tracked == Some(link) {
                    entry.tracked = None;
                }
                self.look_and_decide(token, incarnation);
            }
            What::NoClaim => {
                entry.tracked = None;
                self.no_claim(token, incarnation, changed.errno);
            }
            What::WatcherEnded => {
                self.read_segments(token, incarnation);
                self.see_to_output(token);
            }
            What::Unspecified => self.look_and_decide(token, incarnation),
        }
    }

    /// A shim ended without a claim: by itself, or for lack of something.
    fn no_claim(&mut self, token: RunToken, incarnation: u32, errno: i32) {
        self.read_segments(token, incarnation);
        let claimed = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.facts.claimed);
        if claimed || errno == 0 {
            self.look_and_decide_as(token, incarnation, TrackingState::Over);
            return;
        }
        use rustix::io::Errno;
        let asks = |run: &nero_node_core::Run| run.request.count > 0;
        if errno == Errno::BUSY.raw_os_error() && self.core.run(&token).is_some_and(asks) {
            self.cards_taken(token);
            return;
        }
        let why = format!(
            "a run cannot be started: {}",
            std::io::Error::from_raw_os_error(errno)
        );
        let never = [
            Errno::INVAL,
            Errno::TOOBIG,
            Errno::NAMETOOLONG,
            Errno::FAULT,
        ];
        if never.iter().any(|never| never.raw_os_error() == errno) {
            self.core.cannot_launch(token, &why);
        } else {
            self.core.not_launched(token, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_dies_as_soon_as_it_answers_is_started_at_most_twice_a_second() {
        let opened = Instant::now();
        let launchers = Launchers {
            own_opened: Some(opened),
            ..Launchers::default()
        };
        let soon = opened + config::LAUNCHER_RETRY / 100;
        let late = opened + config::LAUNCHER_RETRY * 2;
        assert_eq!(
            launchers.next_try(soon, true) - opened,
            config::LAUNCHER_RETRY
        );
        assert_eq!(launchers.next_try(late, true), late, "it served a while");
        assert_eq!(
            launchers.next_try(late, false) - late,
            config::LAUNCHER_RETRY
        );
    }
}
