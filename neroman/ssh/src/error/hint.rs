//! What to do next about a failure.

use nero_model::safe::Safe;

use super::{Need, Trouble};

impl Trouble {
    /// For the node of this name at this address.
    pub(super) fn hint(&self, node: &str, address: &str) -> Option<String> {
        let (node, address) = (Safe::line(node), Safe::line(address));
        Some(match self {
            Self::Address { .. } => "give what you would give to `ssh`: a host, an alias of ~/.ssh/config, USER@HOST".to_owned(),
            Self::Words { .. } => "close the quotes in it, or unset it".to_owned(),
            Self::NoProgram { .. } => "install OpenSSH's client (package openssh-client), or name it in NERONET_SSH".to_owned(),
            Self::Folder { .. } => "make it a folder of your own with mode 0700, or remove it".to_owned(),
            Self::PathTooLong { .. } => "set XDG_RUNTIME_DIR to a folder with a short path".to_owned(),
            Self::Settings { .. } => format!("`ssh -G {address}` shows the same; mend the file and line it names"),
            Self::NoSuchHost { .. } => format!("check the name, and whether this machine is online: `ssh {address}`"),
            Self::Unreachable { .. } => format!("check that the host is up and its port right, and whether a VPN is needed: `ssh {address}`"),
            Self::HungUp { .. } => "its ssh server is overloaded, or turns this machine away (a firewall, too many tries); wait a little".to_owned(),
            Self::NoAnswer { .. } => "the host may be down, or behind a firewall or VPN".to_owned(),
            Self::HostKeyUnknown { .. } => format!(
                "compare the fingerprint with what the host's owner says, then accept it: `ssh {address}` once, or `neroman node connect {node}`"
            ),
            Self::HostKeyChanged { forget, .. } => match forget {
                Some(forget) => format!(
                    "if the host was installed anew, ask its owner for the new fingerprint and forget the old key: {}",
                    Safe::line(forget)
                ),
                None => format!("if the host was installed anew, ask its owner for the new fingerprint and forget the old key: ssh-keygen -R {address}"),
            },
            Self::HostKeyRevoked { .. } => "ask the host's owner; the key must not be used any more".to_owned(),
            Self::Refused { .. } => format!("check user and key with `ssh -v {address}`; `ssh-add -l` lists the agent's keys, `ssh-copy-id {address}` installs one"),
            Self::TooManyKeys { .. } => "name the right key for this host in ~/.ssh/config: IdentityFile and IdentitiesOnly yes".to_owned(),
            Self::NeedsPerson { need: Need::Unlock, .. } => format!("`ssh-add` the key and run the command again, or `neroman node connect {node}` asks in the terminal"),
            Self::NeedsPerson { need: Need::Agent, .. } => format!("unlock or confirm the key in your agent (`ssh-add -l`), or `neroman node connect {node}`"),
            Self::NeedsPerson { .. } => format!("`neroman node connect {node}` asks for it in the terminal"),
            Self::Jump { by, trouble } => match (&**trouble, single_jump(by)) {
                (Self::NeedsPerson { .. } | Self::HostKeyUnknown { .. }, _) => {
                    format!("`neroman node connect {node}` asks in the terminal")
                }
                (inner, Some(jump)) => return inner.hint(&node.to_string(), jump),
                (_, None) => format!("`ssh -v {address}` says more"),
            },
            Self::Ended { .. } => format!("`ssh -v {address}` says more"),
            Self::MasterGone { .. } => "it is opened again with the next try".to_owned(),
            Self::TooManySessions => "close other sessions to this host, or ask its owner for a larger MaxSessions in sshd_config".to_owned(),
            Self::Deadline { .. } => "the network or the node may be frozen or very busy".to_owned(),
            Self::Shell { .. } => format!("look what the account's start-up files do: `ssh {address} sh -c true` must print nothing and end with 0"),
            Self::Control { .. } => format!("`neroman node connect {node}` opens a new connection"),
            Self::PipeEnded { .. } | Self::TooMuch { .. } | Self::ZeroByte | Self::Io { .. } => return None,
        })
    }
}

/// What `ssh` is given to come to the one jump host; none for several, and for
/// a command in between.
fn single_jump(by: &str) -> Option<&str> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    by.chars().all(plain).then_some(by)
}
