//! The socket's edge: checks peers, handles their messages, sends news.
//!
//! Called by the launcher's loop. Wire messages end here and in [`super::link`].

use nero_journal::v1::changed::What;
use nero_journal::v1::{Changed, LauncherHello, Listed, Process, from_launcher, to_launcher};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::SocketFlags;

use super::{ABOUT_BITS, LINK, Launcher};
use crate::launcher::link::{BrokenLink, Connection};
use crate::launcher::run::{LaunchedRun, RunKey};

/// Connections at once: neromum has one, and one more while it is replaced.
const LINKS_MAX: usize = 32;

impl Launcher {
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(fd) = rustix::net::accept_with(&self.listener, flags) {
            let peer = rustix::net::sockopt::socket_peercred(&fd);
            let ours = rustix::process::geteuid();
            if !peer.is_ok_and(|peer| peer.uid == ours) {
                self.log(format_args!("another user was refused"));
                continue;
            }
            if self.links.len() >= LINKS_MAX {
                continue;
            }
            let key = self.key();
            let data = EventData::new_u64(key << ABOUT_BITS | LINK);
            if epoll::add(&self.epoll, &fd, data, EventFlags::IN).is_ok() {
                self.links.insert(key, Connection::new(fd));
            }
        }
    }

    pub(super) fn on_link(&mut self, key: u64, flags: EventFlags) {
        let read = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if read && self.read_link(key).is_err() {
            self.links.remove(&key);
        }
    }

    fn read_link(&mut self, key: u64) -> Result<(), BrokenLink> {
        self.links.get_mut(&key).ok_or(BrokenLink)?.receive()?;
        while let Some(message) = self.links.get_mut(&key).ok_or(BrokenLink)?.next()? {
            self.on_message(key, message)?;
        }
        Ok(())
    }

    fn on_message(&mut self, key: u64, message: to_launcher::Message) -> Result<(), BrokenLink> {
        let greeted = self.links.get(&key).is_some_and(|link| link.greeted);
        match message {
            to_launcher::Message::Hello(hello) => self.greet(key, &hello),
            _ if !greeted => Err(BrokenLink),
            to_launcher::Message::Launch(launch) => {
                self.launch(&launch);
                Ok(())
            }
            to_launcher::Message::Guard(guard) => {
                self.guard(&guard);
                Ok(())
            }
            to_launcher::Message::Doorbell(ring) => {
                self.ring(&ring.token);
                Ok(())
            }
            to_launcher::Message::Retire(_) => {
                self.retiring = true;
                Ok(())
            }
            to_launcher::Message::EndAll(_) => {
                self.end_all();
                Ok(())
            }
        }
    }

    /// Sends our hello and the list of living runs.
    fn greet(&mut self, key: u64, hello: &LauncherHello) -> Result<(), BrokenLink> {
        let link = self.links.get_mut(&key).ok_or(BrokenLink)?;
        link.push(&from_launcher::Message::Hello(LauncherHello {
            build: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_lowest: nero_model::PROTOCOL_LOWEST,
            protocol_highest: nero_model::PROTOCOL_HIGHEST,
            process: Some(Process::from(self.own.process)),
        }));
        let known = hello.protocol_lowest <= nero_model::PROTOCOL_HIGHEST
            && hello.protocol_highest >= nero_model::PROTOCOL_LOWEST;
        if !known {
            // The peer reads in our hello why nothing follows.
            let _ = link.send();
            return Err(BrokenLink);
        }
        for run in self.runs.values().filter(|run| run.is_live()) {
            link.push(&from_launcher::Message::Changed(changed(
                run,
                What::Started,
                0,
            )));
        }
        link.push(&from_launcher::Message::Listed(Listed {}));
        link.greeted = true;
        Ok(())
    }

    pub(super) fn tell(&mut self, message: Changed) {
        let message = from_launcher::Message::Changed(message);
        for link in self.links.values_mut().filter(|link| link.greeted) {
            link.push(&message);
        }
    }

    pub(super) fn tell_of(&mut self, key: RunKey, what: What, errno: i32) {
        if let Some(message) = self.runs.get(&key).map(|run| changed(run, what, errno)) {
            self.tell(message);
        }
    }

    /// Sends the gathered output; broken connections are forgotten.
    pub(super) fn flush(&mut self) {
        let epoll = &self.epoll;
        self.links.retain(|key, link| {
            if !link.has_output() && !link.waits_for_room {
                return true;
            }
            let sent = link.send();
            let wants_room = link.has_output();
            if sent.is_ok() && wants_room != link.waits_for_room {
                link.waits_for_room = wants_room;
                let mut flags = EventFlags::IN;
                flags.set(EventFlags::OUT, wants_room);
                let data = EventData::new_u64(*key << ABOUT_BITS | LINK);
                return epoll::modify(epoll, &link.fd, data, flags).is_ok();
            }
            sent.is_ok()
        });
    }
}

/// News of one run.
fn changed(run: &LaunchedRun, what: What, errno: i32) -> Changed {
    Changed {
        token: run.subject.token.to_vec(),
        what: what as i32,
        incarnation: run.subject.incarnation,
        errno,
    }
}
