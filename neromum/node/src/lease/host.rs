//! The identity of this host, and the recorded boots of hosts.

use std::path::Path;

use nero_journal::v1::HostSeen;
use nero_model::ProcessId;
use nero_model::process::Life;
use nero_node_core::lease::ProcessPlace;

/// Limit of a text from a file of the system or of a lease.
const TEXT_BYTES_MAX: usize = 256;

/// Identity of a host: its name and machine id together, since either may be
/// the same on several hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host's own name.
    pub name: String,
    /// `/etc/machine-id`; empty where there is none.
    pub machine: String,
}

impl Host {
    /// This host.
    pub fn own() -> Self {
        let name = rustix::system::uname();
        Self {
            name: bounded(&name.nodename().to_string_lossy()),
            machine: read(Path::new("/etc/machine-id")),
        }
    }

    /// Whether a name and a machine id are certainly this host's.
    fn is(&self, name: &str, machine: &str) -> bool {
        let telling = !self.machine.is_empty() || !matches!(&*self.name, "" | "localhost");
        telling && self.name == name && self.machine == machine
    }
}

fn read(path: &Path) -> String {
    bounded(std::fs::read_to_string(path).unwrap_or_default().trim())
}

fn bounded(text: &str) -> String {
    text.chars().take(TEXT_BYTES_MAX / 4).collect()
}

/// Recorded boots of hosts, in the order of their records.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<HostSeen>);

impl Hosts {
    /// In the given order.
    pub fn new(seen: Vec<HostSeen>) -> Self {
        Self(seen)
    }

    /// The host of a boot id; `None` when it has no record.
    pub fn of(&self, boot_id: &[u8; 16]) -> Option<&HostSeen> {
        self.0.iter().rev().find(|seen| seen.boot_id == boot_id)
    }

    /// Whether a boot is over: a later one of the same host was recorded.
    pub fn is_over(&self, boot_id: &[u8; 16]) -> bool {
        let Some(at) = self.0.iter().rposition(|seen| seen.boot_id == boot_id) else {
            return false;
        };
        let of = Host {
            name: self.0[at].host.clone(),
            machine: self.0[at].machine.clone(),
        };
        self.0[at + 1..]
            .iter()
            .any(|later| of.is(&later.host, &later.machine))
    }

    /// Whether this boot of this host is its newest recorded one.
    pub fn knows(&self, host: &Host, boot_id: &[u8; 16]) -> bool {
        let newest = self.0.iter().rev().find(|seen| {
            let same = seen.host == host.name && seen.machine == host.machine;
            same || seen.boot_id == boot_id
        });
        newest.is_some_and(|seen| seen.boot_id == boot_id)
    }
}

/// The observer: this process with its host.
#[derive(Clone, Debug)]
pub struct Eye {
    /// Host of the process.
    pub host: Host,
    /// The process itself.
    pub process: ProcessId,
}

impl Eye {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> std::io::Result<Self> {
        Ok(Self {
            host: Host::own(),
            process: ProcessId::own()?,
        })
    }

    /// Place of a process on a host with this name and machine id. A `/proc`
    /// that cannot be read proves nothing.
    pub fn place(
        &self,
        process: &ProcessId,
        name: &str,
        machine: &str,
        hosts: &Hosts,
    ) -> ProcessPlace {
        if process.boot_id != self.process.boot_id {
            let over = self.host.is(name, machine) || hosts.is_over(&process.boot_id);
            return if over {
                ProcessPlace::Dead
            } else {
                ProcessPlace::Elsewhere
            };
        }
        match process.life() {
            Ok(Life::Alive) => ProcessPlace::Here,
            Ok(Life::Zombie | Life::Dead | Life::Rebooted) => ProcessPlace::Dead,
            Ok(Life::Elsewhere) | Err(_) => ProcessPlace::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(host: &str, machine: &str, boot: u8) -> HostSeen {
        HostSeen {
            host: host.to_owned(),
            machine: machine.to_owned(),
            boot_id: vec![boot; 16],
        }
    }

    #[test]
    fn a_start_is_over_when_its_own_host_was_seen_with_a_later_one() {
        let hosts = Hosts::new(vec![
            seen("h1", "m", 1),
            seen("h2", "m", 2),
            seen("h1", "m", 3),
        ]);
        assert!(hosts.is_over(&[1; 16]));
        assert!(
            !hosts.is_over(&[2; 16]),
            "another host's start says nothing"
        );
        assert!(!hosts.is_over(&[3; 16]));
        assert!(!hosts.is_over(&[9; 16]), "never seen");
    }

    #[test]
    fn names_that_many_hosts_share_prove_nothing() {
        let hosts = Hosts::new(vec![seen("localhost", "", 1), seen("localhost", "", 2)]);
        assert!(!hosts.is_over(&[1; 16]));
        let hosts = Hosts::new(vec![seen("h1", "m", 1), seen("h1", "other", 2)]);
        assert!(!hosts.is_over(&[1; 16]));
    }

    #[test]
    fn a_start_is_written_down_once_and_again_after_another() {
        let host = Host {
            name: "h1".to_owned(),
            machine: "m".to_owned(),
        };
        let mut all = vec![seen("h1", "m", 1), seen("h2", "m", 2)];
        assert!(Hosts::new(all.clone()).knows(&host, &[1; 16]));
        assert!(!Hosts::new(all.clone()).knows(&host, &[3; 16]));
        all.push(seen("h1", "m", 3));
        assert!(!Hosts::new(all.clone()).knows(&host, &[1; 16]));
        assert!(Hosts::new(all).knows(&host, &[3; 16]));
    }

    #[test]
    fn processes_are_placed_by_boot_name_space_and_host() {
        let eye = Eye::own().unwrap();
        let hosts = Hosts::default();
        let (name, machine) = (eye.host.name.clone(), eye.host.machine.clone());
        let place = |process, name: &str, hosts: &Hosts| eye.place(&process, name, &machine, hosts);
        assert_eq!(place(eye.process, "whatever", &hosts), ProcessPlace::Here);
        let recycled = ProcessId {
            start_ticks: eye.process.start_ticks + 1,
            ..eye.process
        };
        assert_eq!(place(recycled, &name, &hosts), ProcessPlace::Dead);
        let container = ProcessId {
            pid_namespace: 1,
            ..eye.process
        };
        assert_eq!(place(container, &name, &hosts), ProcessPlace::Elsewhere);
        let other_boot = ProcessId {
            boot_id: [7; 16],
            ..eye.process
        };
        assert_eq!(
            place(other_boot, "another host", &hosts),
            ProcessPlace::Elsewhere
        );
        let again = Hosts::new(vec![
            seen("another host", &machine, 7),
            seen("another host", &machine, 8),
        ]);
        assert_eq!(
            place(other_boot, "another host", &again),
            ProcessPlace::Dead
        );
    }
}
