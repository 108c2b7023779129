//! The launchers of this deployment: the one of this build, which starts jobs,
//! and older ones, which look after theirs until these end. What a launcher
//! says is a doorbell: the disk is read, then the core decides.

use std::collections::HashMap;

use nero_journal::v1::{
    Changed, Doorbell, FromLauncher, Retire, changed, from_launcher, to_launcher,
};
use nero_model::RunToken;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Agent, AgentHandle, Message, segments};
use crate::config;
use crate::core::Stage;
use crate::core::decide::{self, Decision, Lives, Tracking, decide};
use crate::core::facts::Facts;
use crate::lease;
use crate::warden::bare::{self, LinkId, News};

/// Links to launchers.
#[derive(Debug, Default)]
pub struct Launchers {
    pub(super) handle: Option<AgentHandle>,
    links: HashMap<LinkId, Link>,
    own: Option<LinkId>,
    next: u64,
    /// Connections being made: until they are, nobody knows who tracks what.
    opening: usize,
    /// What is wrong with the own launcher.
    trouble: String,
}

#[derive(Debug)]
struct Link {
    orders: mpsc::UnboundedSender<Vec<u8>>,
    out: Vec<u8>,
    listed: bool,
}

impl Launchers {
    /// Whether the own launcher answers and every launcher has said what it has.
    pub fn ready(&self) -> bool {
        self.opening == 0 && self.own.is_some() && self.links.values().all(|link| link.listed)
    }

    /// What is wrong with the own launcher; empty when nothing is.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// The connection over which jobs are started.
    pub fn own_link(&self) -> Option<LinkId> {
        self.own
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

    /// Hands over what gathered.
    pub fn flush(&mut self) {
        for link in self.links.values_mut() {
            if !link.out.is_empty() {
                // A broken connection is told by `Down`.
                let _ = link.orders.send(std::mem::take(&mut link.out));
            }
        }
    }

    fn open(&mut self, launcher: bare::Launcher) {
        let Some(handle) = self.handle.clone() else {
            return;
        };
        self.next += 1;
        self.opening += 1;
        let link = LinkId(self.next);
        tokio::spawn(bare::serve(launcher, link, move |news| {
            let handle = handle.clone();
            async move {
                // Nobody listens once neromum leaves.
                let _ = handle.tell(Message::Launcher(news)).await;
            }
        }));
    }
}

impl Agent {
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

    fn launcher_up(&mut self, link: LinkId, own: bool, orders: mpsc::UnboundedSender<Vec<u8>>) {
        self.launchers.opening -= 1;
        let new = Link {
            orders,
            out: Vec::new(),
            listed: false,
        };
        self.launchers.links.insert(link, new);
        if own {
            self.launchers.own = Some(link);
            self.launchers.trouble.clear();
            // Whatever else holds starts is found again at the next one.
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
            // A second hello, or something of a newer build: nothing to do.
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
            let again = if was_up {
                Instant::now()
            } else {
                Instant::now() + config::LAUNCHER_RETRY
            };
            self.timers.launcher = Some(again);
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
                Stage::Running { .. } => true,
                Stage::Starting { launched, .. } => launched,
                Stage::Waiting
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
            // Of a start that is over; the newer one is what counts.
            return;
        }
        use changed::What;
        match changed.what() {
            What::Started | What::TakenOver => {
                entry.tracked = Some(link);
                let wished = entry.cancels > 0;
                // Rung perhaps before it was known who looks after the run.
                if wished && let Some(link) = self.launchers.links.get_mut(&link) {
                    let token = token.to_vec();
                    let doorbell = to_launcher::Message::Doorbell(Doorbell { token });
                    bare::encode(&mut link.out, doorbell);
                }
                self.look_and_decide(token, incarnation);
            }
            What::Ended => {
                entry.tracked = None;
                self.look_and_decide_as(token, incarnation, Tracking::Over);
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
                self.look(token, incarnation);
                self.see_to_output(token);
            }
            What::Unspecified => self.look_and_decide(token, incarnation),
        }
    }

    /// A shim ended without a claim: of its own doing, or for want of something.
    fn no_claim(&mut self, token: RunToken, incarnation: u32, errno: i32) {
        self.look(token, incarnation);
        let claimed = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.facts.claimed);
        if claimed || errno == 0 {
            self.look_and_decide_as(token, incarnation, Tracking::Over);
            return;
        }
        let why = format!(
            "a run cannot be started: {}",
            std::io::Error::from_raw_os_error(errno)
        );
        use rustix::io::Errno;
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

    pub(super) fn look_and_decide(&mut self, token: RunToken, incarnation: u32) {
        let tracked = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.tracked.is_some());
        let tracking = if tracked {
            Tracking::Tracked
        } else {
            Tracking::Nobody
        };
        self.look_and_decide_as(token, incarnation, tracking);
    }

    /// Reads a run's segments and decides; when they cannot be read, later.
    pub(super) fn look_and_decide_as(
        &mut self,
        token: RunToken,
        incarnation: u32,
        tracking: Tracking,
    ) {
        // Who lives is asked before the segments are read: what was dead then
        // cannot have written what the reading missed. The identities are known
        // only from the segments, so these are read twice where it matters.
        let mut read = tracking == Tracking::Over || self.look(token, incarnation);
        let lives = match tracking {
            Tracking::Nobody => self.lives(token),
            Tracking::Tracked | Tracking::Over => Lives {
                shim: None,
                job: None,
            },
        };
        if tracking != Tracking::Tracked {
            read &= self.look(token, incarnation);
        }
        if !read {
            // Nothing follows from what could not be read.
            self.timers.look_later(token, incarnation, tracking);
            return;
        }
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let (origin, host) = self.origin(&entry.facts);
        let host = host.filter(|_| entry.facts.claimed);
        let decision = decide(&entry.facts, lives, tracking, origin);
        let taken_over = entry.facts.taken_over == Some(false);
        let incarnation = entry.incarnation.max(1);
        // Without launchers, only what the disk proves counts; the rest is
        // decided when they have answered.
        let proven = matches!(
            decision,
            Decision::Ended | Decision::SayRebooted | Decision::Elsewhere
        );
        if tracking == Tracking::Nobody && !self.launchers.ready() && !proven {
            return;
        }
        self.is_elsewhere(token, host);
        self.core.found(token, incarnation, decision);
        if taken_over {
            self.core.set_unsupervised(token, true);
        }
    }

    /// Where the claim was made, and on which host when that is another.
    fn origin(&self, facts: &Facts) -> (decide::Origin, Option<String>) {
        let Some(held) = &self.setup.lease else {
            let over = facts.boot_id.is_some_and(|boot| boot != self.setup.boot_id);
            let origin = if over {
                decide::Origin::Over
            } else {
                decide::Origin::Here
            };
            return (origin, None);
        };
        let origin = match facts.boot_id {
            Some(boot_id) => held.origin(&boot_id, facts.shim.as_ref()),
            // A claim that cannot be read may be one that is not here yet.
            None => lease::Origin::Elsewhere("an unknown host".to_owned()),
        };
        match origin {
            lease::Origin::Here => (decide::Origin::Here, None),
            lease::Origin::Over => (decide::Origin::Over, None),
            lease::Origin::Elsewhere(host) => (decide::Origin::Elsewhere, Some(host)),
        }
    }

    fn is_elsewhere(&mut self, token: RunToken, host: Option<String>) {
        if let Some(entry) = self.entries.get_mut(&token)
            && entry.elsewhere != host
        {
            entry.elsewhere = host;
            self.report(token);
        }
    }

    fn lives(&self, token: RunToken) -> Lives {
        let facts = self.entries.get(&token).map(|entry| entry.facts);
        // A /proc that cannot be read says nothing about a process: it counts
        // as one that cannot be seen.
        let life = |process: Option<nero_model::ProcessId>| {
            process.map(|process| {
                process
                    .life()
                    .unwrap_or(nero_model::process::Life::Elsewhere)
            })
        };
        Lives {
            shim: life(facts.and_then(|facts| facts.shim)),
            job: life(facts.and_then(|facts| facts.job)),
        }
    }

    /// Reads what was appended to a run's segments; false when that cannot be
    /// read now.
    pub(super) fn look(&mut self, token: RunToken, incarnation: u32) -> bool {
        let Some(entry) = self.entries.get_mut(&token) else {
            return true;
        };
        entry.begin(incarnation);
        let run_dir = self.setup.paths.run(entry.id);
        let (mut look, mut read) = (segments::Look::default(), Ok(()));
        // Of a job that ended at once there is nothing but the claim, until it
        // is settled.
        let brief = entry.kid.is_none()
            && !entry.facts.ended()
            && !entry.rules
            && !entry.facts.watched
            && entry
                .launched
                .is_some_and(|at| at.elapsed() < config::WATCHER_DUE);
        if brief {
            read = segments::look_at_claim(
                &run_dir,
                incarnation,
                &mut entry.segments,
                &mut entry.facts,
                &mut look,
            );
        }
        if !brief || !entry.facts.ended() {
            let all = segments::look_into(
                &run_dir,
                incarnation,
                &mut entry.segments,
                &mut entry.facts,
                &mut look,
            );
            read = read.and(all);
        }
        // Told once, however often it is looked.
        let unread = read.as_ref().err().map(ToString::to_string);
        if let Some(why) = &unread
            && entry.unread.as_ref() != Some(why)
        {
            tracing::warn!(run = %entry.id, why, "a run's segments cannot be read now: nothing is decided about it");
        }
        entry.unread = unread;
        for path in std::mem::take(&mut look.shut) {
            if !entry.shut.contains(&path) {
                tracing::error!(run = %entry.id, path = %path.display(), "a segment whose mode lets nobody read it is passed over");
                entry.shut.push(path);
            }
        }
        // What was read before that is not read again.
        self.looked(token, look);
        read.is_ok()
    }

    fn looked(&mut self, token: RunToken, look: segments::Look) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let main_process_only = !look.ends.is_empty() && !entry.facts.ended();
        if !look.ends.is_empty() {
            entry.unsynced = !entry.kept;
            entry.ends.extend(look.ends);
        }
        if !entry.unsynced {
            for seg in &mut entry.segments {
                seg.visible = seg.len;
            }
        }
        if main_process_only {
            self.keep_end(token);
        }
        if look.grew {
            self.mark(token);
        }
    }

    /// Looks at the segments of live runs whose watcher does not tell us.
    pub(super) fn look_at_live(&mut self) {
        let live: Vec<(RunToken, u32)> = self
            .core
            .runs()
            .filter(|(_, run)| matches!(run.stage, Stage::Running { .. }))
            .map(|(token, run)| (*token, run.stage.incarnation()))
            .collect();
        for (token, incarnation) in live {
            self.look_and_decide(token, incarnation);
        }
    }
}
