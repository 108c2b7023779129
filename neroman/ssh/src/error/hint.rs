//! The hint for each failure: the next step for the user.

use nero_model::names::JOINED;
use nero_model::safe::Safe;

use super::{Asks, SecretKind, Trouble, may_pass};

impl Trouble {
    /// The hint for the node of this name at this address.
    pub(super) fn hint(&self, node: &str, address: &str) -> Option<String> {
        match self {
            Self::HostKeyUnknown { .. }
            | Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked { .. }
            | Self::Refused { .. }
            | Self::TooManyKeys { .. }
            | Self::NeedsPerson { .. } => Some(self.hint_of_trust(node, address)),
            Self::Jump { by, trouble } => Some(hint_of_jump(by, trouble, node, address)),
            Self::NoSuchHost { .. } if address.ends_with(JOINED) => {
                some("`neroman node join` on that machine is the only way there: start it again")
            }
            Self::Settings { .. }
            | Self::NoSuchHost { .. }
            | Self::Unreachable { .. }
            | Self::Ended { .. }
            | Self::Shell { .. }
            | Self::Control { .. } => self.hint_with_names(node, address),
            Self::Address { .. } => {
                some("give what `ssh` takes: a host, USER@HOST, an alias of ~/.ssh/config")
            }
            Self::Words { .. } => some("close the quotes in it, or unset it"),
            Self::NoProgram { source, .. } | Self::Folder { source, .. } if may_pass(source) => {
                some("this may pass: look for a full disk, too many processes or open files here")
            }
            Self::NoProgram { .. } => {
                some("install OpenSSH's client (openssh-client), or name it in NERONET_SSH")
            }
            Self::Folder { .. } => some("make it a folder of your own, mode 0700, or remove it"),
            Self::PathTooLong { .. } => {
                some("set XDG_RUNTIME_DIR to a folder with a short and plain path")
            }
            Self::HungUp { .. } => some(
                "its ssh server is busy or turns this machine away \
                 (a firewall, too many tries); wait a little",
            ),
            Self::NoAnswer { .. } => some("the host may be down, or behind a firewall or a VPN"),
            Self::MasterGone { .. } => some("the next try opens it again"),
            Self::TooManySessions => some(
                "close other sessions to this host, \
                 or ask for a larger MaxSessions in its sshd_config",
            ),
            Self::Deadline { .. } => Some(format!(
                "the network or the node may be frozen or very busy, or a start-up file of the \
                 account is slow: `time ssh {} true`",
                Safe::line(address)
            )),
            Self::Unanswered { .. } => some("the node or its disk may be very busy, or frozen"),
            Self::PipeEnded { .. } | Self::TooMuch { .. } | Self::ZeroByte | Self::Io { .. } => {
                None
            }
        }
    }

    /// Where the hint leads.
    pub(super) fn asks(&self) -> Asks {
        match self {
            Self::NeedsPerson { need, .. } => match need {
                SecretKind::Unlock | SecretKind::Password | SecretKind::SecondFactor => {
                    Asks::InTerminal
                }
                SecretKind::Agent => Asks::ToConnect,
            },
            Self::HostKeyUnknown { .. } | Self::Control { .. } => Asks::ToConnect,
            Self::Jump { trouble, .. } if asks_at_jump(trouble) => Asks::InTerminal,
            Self::Jump { by, trouble } => match single_jump(by) {
                Some(_) => trouble.asks(),
                None => Asks::Nothing,
            },
            Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked { .. }
            | Self::Refused { .. }
            | Self::TooManyKeys { .. }
            | Self::Settings { .. }
            | Self::NoSuchHost { .. }
            | Self::Unreachable { .. }
            | Self::Ended { .. }
            | Self::Shell { .. }
            | Self::Address { .. }
            | Self::Words { .. }
            | Self::NoProgram { .. }
            | Self::Folder { .. }
            | Self::PathTooLong { .. }
            | Self::HungUp { .. }
            | Self::NoAnswer { .. }
            | Self::MasterGone { .. }
            | Self::TooManySessions
            | Self::Deadline { .. }
            | Self::Unanswered { .. }
            | Self::PipeEnded { .. }
            | Self::TooMuch { .. }
            | Self::ZeroByte
            | Self::Io { .. } => Asks::Nothing,
        }
    }

    /// The hint when the host's key or ours is not trusted.
    fn hint_of_trust(&self, node: &str, address: &str) -> String {
        let (node, address) = (Safe::line(node), Safe::line(address));
        match self {
            Self::HostKeyUnknown { .. } => format!(
                "compare the fingerprint with what the host's owner says, then accept it: \
                 `ssh {address}` once, or `neroman node connect {node}`"
            ),
            Self::HostKeyChanged { forget, .. } => {
                let forget = match forget {
                    Some(command) => Safe::line(command).to_string(),
                    None => format!("ssh-keygen -R {address}"),
                };
                format!(
                    "if the host was installed anew, ask its owner for the new fingerprint \
                     and forget the old key: {forget}"
                )
            }
            Self::Refused { methods, .. } => {
                let ticket = if methods.contains("gssapi") {
                    "`kinit` renews a ticket of Kerberos; "
                } else {
                    ""
                };
                format!(
                    "{ticket}`ssh -v {address}` shows user and keys; `ssh-add -l` lists the \
                     agent's keys, `ssh-copy-id {address}` installs one"
                )
            }
            Self::TooManyKeys { .. } => "name the right key for this host in ~/.ssh/config: \
                                         IdentityFile, and IdentitiesOnly yes"
                .to_owned(),
            Self::NeedsPerson { need, .. } => match need {
                SecretKind::Unlock => format!(
                    "`neroman node connect {node}` asks in the terminal, \
                     or takes the key when you `ssh-add` it before"
                ),
                SecretKind::Agent => format!(
                    "`neroman node connect {node}`, and unlock or confirm the key in your agent"
                ),
                SecretKind::Password | SecretKind::SecondFactor => {
                    format!("`neroman node connect {node}` asks for it in the terminal")
                }
            },
            _ => "ask the host's owner; this key must not be trusted any more".to_owned(),
        }
    }

    fn hint_with_names(&self, node: &str, address: &str) -> Option<String> {
        let (node, address) = (Safe::line(node), Safe::line(address));
        Some(match self {
            Self::Settings { .. } => {
                format!("mend the file and line it names; `ssh -G {address}` shows the same")
            }
            Self::NoSuchHost { .. } => {
                format!("check the name, and whether this machine is online: `ssh {address}`")
            }
            Self::Unreachable { .. } => format!(
                "check that the host is up, its port, and whether a VPN is needed: \
                 `ssh {address}`"
            ),
            Self::Shell { said, .. } if is_no_login(said) => {
                "the account has no login shell there; ask the host's administrator for one"
                    .to_owned()
            }
            Self::Shell { .. } => format!(
                "look at the account's start-up files: `ssh {address} sh -c true` \
                 must end at once, with 0"
            ),
            Self::Control { .. } => format!("`neroman node connect {node}` opens a new connection"),
            Self::Ended { .. } => format!("`ssh -v {address}` prints more"),
            _ => return None,
        })
    }
}

/// Whether the text comes from `nologin` in place of a shell.
fn is_no_login(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said).to_ascii_lowercase();
    said.contains("account is currently not available") || said.contains("not allowed to log in")
}

fn some(hint: &str) -> Option<String> {
    Some(hint.to_owned())
}

/// The hint for a failure at the host in between.
fn hint_of_jump(by: &str, trouble: &Trouble, node: &str, address: &str) -> String {
    if asks_at_jump(trouble) {
        return format!(
            "`neroman node connect {}` asks in the terminal",
            Safe::line(node)
        );
    }
    single_jump(by)
        .and_then(|jump| trouble.hint(node, jump))
        .unwrap_or_else(|| format!("`ssh -v {}` prints more", Safe::line(address)))
}

/// Whether `ssh` asks a person something about the host in between.
fn asks_at_jump(trouble: &Trouble) -> bool {
    matches!(
        trouble,
        Trouble::NeedsPerson { .. } | Trouble::HostKeyUnknown { .. }
    )
}

/// The address of the jump host, when there is exactly one; `None` for several,
/// and for a proxy command.
fn single_jump(by: &str) -> Option<&str> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    by.chars().all(plain).then_some(by)
}
