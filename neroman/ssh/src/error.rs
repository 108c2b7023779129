//! What goes wrong on the way to a node, in words.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nero_model::safe::Safe;

/// Sort of a failure: what a caller decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The name cannot be resolved; also while the own machine is offline.
    NoSuchHost,
    /// Nothing answers there, or the connection is turned away.
    Unreachable,
    /// No answer in time; the network or the node may be frozen.
    Timeout,
    /// Nobody has said yet that this is the right host.
    HostKeyUnknown,
    /// It shows another host key than before; nothing was sent.
    HostKeyChanged,
    /// None of the keys is accepted.
    Refused,
    /// A password, a code or a passphrase has to be typed.
    NeedsPerson,
    /// The connection that was used has ended.
    MasterGone,
    /// The login shell there does not run what it is given.
    Shell,
    /// The program `ssh`, its configuration or our folder is at fault.
    Program,
    /// Anything else.
    Other,
}

/// A failure on the way to one node.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.headline())]
pub struct SshError {
    /// The node's name; empty when none is concerned.
    pub node: String,
    /// The address given to `ssh`.
    pub address: String,
    /// What went wrong.
    #[source]
    pub trouble: Box<Trouble>,
}

/// What went wrong. Text of `ssh` or of the node in it is as it came; it is
/// made safe when shown.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// An address that is never given to `ssh`.
    #[error("the address cannot be used: {why}")]
    Address {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The variable with the words of the command cannot be split.
    #[error("the variable {variable} is not a command line: {value}")]
    Words {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The program cannot be started.
    #[error("cannot run `{program}`")]
    NoProgram {
        /// Its name or path.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The private folder of the control sockets cannot be used.
    #[error("cannot use the folder {} for control sockets", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A control socket does not fit into the address of a socket.
    #[error("the path of the control socket is too long: {}", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// `ssh -G` refuses the configuration.
    #[error("ssh cannot read its configuration{}", Quoted(.said))]
    Settings {
        /// What it said.
        said: Vec<u8>,
    },
    /// The host's name is unknown.
    #[error("cannot resolve the name of the host{}", Quoted(.said))]
    NoSuchHost {
        /// What `ssh` said.
        said: Vec<u8>,
    },
    /// Nothing listens there, or no way leads there.
    #[error("cannot be reached{}", Quoted(.said))]
    Unreachable {
        /// What `ssh` said.
        said: Vec<u8>,
    },
    /// The host hangs up before anything was said.
    #[error("the host hangs up at once{}", Quoted(.said))]
    HungUp {
        /// What `ssh` said.
        said: Vec<u8>,
    },
    /// No connection in time.
    #[error("no answer in time{}", Quoted(.said))]
    NoAnswer {
        /// What `ssh` said.
        said: Vec<u8>,
    },
    /// The host key is in no file of known hosts.
    #[error("the host key is not known yet{}", Key(.kind, .fingerprint))]
    HostKeyUnknown {
        /// Its kind, as `ssh-ed25519`, where `ssh` printed it.
        kind: Option<String>,
        /// Its fingerprint, `SHA256:…`, where `ssh` printed it.
        fingerprint: Option<String>,
    },
    /// The host key is another than the known one.
    #[error("the host key has changed, nothing was sent{}{}", Key(.kind, .fingerprint), Place(.place))]
    HostKeyChanged {
        /// Kind of the new key.
        kind: Option<String>,
        /// Fingerprint of the new key.
        fingerprint: Option<String>,
        /// File and line of the known key, `FILE:LINE`.
        place: Option<String>,
        /// The command that forgets the known key.
        forget: Option<String>,
    },
    /// The host key is listed as revoked.
    #[error("the host key is revoked, nothing was sent{}", Quoted(.said))]
    HostKeyRevoked {
        /// What `ssh` said.
        said: Vec<u8>,
    },
    /// No key is accepted and nothing else would be.
    #[error("no key is accepted{}", Tried(.methods, .keys))]
    Refused {
        /// What the node offers, `publickey,gssapi-with-mic`.
        methods: String,
        /// Keys that were tried, file and fingerprint.
        keys: Vec<String>,
    },
    /// More keys were tried than the node allows.
    #[error("too many keys were tried before the right one{}", Tried("", .keys))]
    TooManyKeys {
        /// Keys that were tried.
        keys: Vec<String>,
    },
    /// A password, code or passphrase is asked for.
    #[error("{need}{}", Tried(.methods, .keys))]
    NeedsPerson {
        /// What is asked for.
        need: Need,
        /// What the node offers.
        methods: String,
        /// Keys that were tried.
        keys: Vec<String>,
    },
    /// A host on the way there cannot be passed.
    #[error("the way through {}", Safe::line(.by))]
    Jump {
        /// The jump host or the command in between.
        by: String,
        /// What happened there.
        #[source]
        trouble: Box<Trouble>,
    },
    /// `ssh` ended in another way.
    #[error("ssh ended with {status}{}", Quoted(.said))]
    Ended {
        /// How it ended.
        status: String,
        /// What it said.
        said: Vec<u8>,
    },
    /// The connection has ended.
    #[error("the connection has ended{}", Quoted(.said))]
    MasterGone {
        /// What the command said before.
        said: Vec<u8>,
    },
    /// The node allows no more commands over one connection.
    #[error("the node allows no more sessions")]
    TooManySessions,
    /// A call took too long.
    #[error("{what} took longer than {seconds} s")]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
    /// The login shell does something else.
    #[error("the login shell {what}{}", Quoted(.said))]
    Shell {
        /// What it did.
        what: &'static str,
        /// What it printed first.
        said: Vec<u8>,
    },
    /// A command printed more than is taken.
    #[error("the command printed more than {bytes_max} bytes")]
    TooMuch {
        /// Most that is taken.
        bytes_max: usize,
    },
    /// A stream ended by itself.
    #[error("the command ended ({status}){}", Quoted(.said))]
    PipeEnded {
        /// How it ended.
        status: String,
        /// The last of what it said beside its output.
        said: Vec<u8>,
    },
    /// A command with a zero byte.
    #[error("a command cannot hold a zero byte")]
    ZeroByte,
    /// The master's socket says something unexpected.
    #[error("the control socket of ssh does not work")]
    Control {
        /// What happened.
        #[source]
        source: Box<openssh::Error>,
    },
    /// A pipe of our own fails.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a person has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A password or a code.
    Password,
    /// A second factor; the key was accepted.
    SecondFactor,
    /// The passphrase of a key that the node accepts.
    Passphrase,
    /// The agent holds the key and refused to use it.
    Agent,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password => "a password or a code has to be typed",
            Self::SecondFactor => "the key is accepted, a second factor has to be typed",
            Self::Passphrase => "the passphrase of a key has to be typed",
            Self::Agent => "the agent refused to use a key that the node accepts",
        })
    }
}

impl SshError {
    pub(crate) fn new(node: &str, address: &str, trouble: Trouble) -> Self {
        Self {
            node: node.to_owned(),
            address: address.to_owned(),
            trouble: Box::new(trouble),
        }
    }

    /// The sort of failure.
    pub fn fault(&self) -> Fault {
        self.trouble.fault()
    }

    /// Whether trying again is useless before the user has done something.
    pub fn needs_user(&self) -> bool {
        match self.fault() {
            Fault::HostKeyUnknown
            | Fault::HostKeyChanged
            | Fault::Refused
            | Fault::NeedsPerson
            | Fault::Program => true,
            Fault::NoSuchHost
            | Fault::Unreachable
            | Fault::Timeout
            | Fault::MasterGone
            | Fault::Shell
            | Fault::Other => false,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        self.trouble.hint(&self.node, &self.address)
    }

    fn headline(&self) -> String {
        match (self.node.as_str(), self.address.as_str()) {
            ("", "") => "cannot use ssh".to_owned(),
            (node, "") => format!("cannot use ssh for node {}", Safe::line(node)),
            ("", address) => format!("cannot use {} over ssh", Safe::line(address)),
            (node, address) => format!(
                "cannot use node {} ({}) over ssh",
                Safe::line(node),
                Safe::line(address)
            ),
        }
    }
}

impl Trouble {
    /// The sort of failure.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoSuchHost { .. } => Fault::NoSuchHost,
            Self::Unreachable { .. } | Self::HungUp { .. } => Fault::Unreachable,
            Self::NoAnswer { .. } | Self::Deadline { .. } => Fault::Timeout,
            Self::HostKeyUnknown { .. } => Fault::HostKeyUnknown,
            Self::HostKeyChanged { .. } | Self::HostKeyRevoked { .. } => Fault::HostKeyChanged,
            Self::Refused { .. } | Self::TooManyKeys { .. } => Fault::Refused,
            Self::NeedsPerson { .. } => Fault::NeedsPerson,
            Self::MasterGone { .. } => Fault::MasterGone,
            Self::Shell { .. } => Fault::Shell,
            Self::Address { .. }
            | Self::Words { .. }
            | Self::NoProgram { .. }
            | Self::Folder { .. }
            | Self::PathTooLong { .. }
            | Self::Settings { .. } => Fault::Program,
            Self::Jump { trouble, .. } => trouble.fault(),
            Self::Ended { .. }
            | Self::TooManySessions
            | Self::TooMuch { .. }
            | Self::PipeEnded { .. }
            | Self::ZeroByte
            | Self::Control { .. }
            | Self::Io { .. } => Fault::Other,
        }
    }

    fn hint(&self, node: &str, address: &str) -> Option<String> {
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
            Self::NeedsPerson { need: Need::Passphrase, .. } => format!("`ssh-add` the key, or `neroman node connect {node}` asks in the terminal"),
            Self::NeedsPerson { need: Need::Agent, .. } => format!("unlock or confirm the key in your agent (`ssh-add -l`), or `neroman node connect {node}`"),
            Self::NeedsPerson { .. } => format!("`neroman node connect {node}` asks for it in the terminal"),
            Self::Jump { by, trouble } => match &**trouble {
                Self::NeedsPerson { .. } | Self::HostKeyUnknown { .. } => format!("`neroman node connect {node}` asks in the terminal, or `ssh {}` once", Safe::line(by)),
                inner => return inner.hint(&node.to_string(), by),
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

/// `: what was said`, in one safe line of bounded length.
struct Quoted<'a>(&'a [u8]);

/// Longest quotation in a message.
const QUOTED_BYTES_MAX: usize = 600;

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.trim_ascii();
        let shown = &text[..text.len().min(QUOTED_BYTES_MAX)];
        let mut lines = shown
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        let Some(first) = lines.next() else {
            return Ok(());
        };
        write!(f, ": {}", Safe::line(first))?;
        for line in lines {
            write!(f, "; {}", Safe::line(line))?;
        }
        if shown.len() < text.len() {
            f.write_str(" …")?;
        }
        Ok(())
    }
}

/// ` (ssh-ed25519 SHA256:…)`.
struct Key<'a>(&'a Option<String>, &'a Option<String>);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(kind), Some(print)) => write!(f, ": {} {}", Safe::line(kind), Safe::line(print)),
            (None, Some(print)) => write!(f, ": {}", Safe::line(print)),
            (_, None) => Ok(()),
        }
    }
}

/// `; the known one is in FILE:LINE`.
struct Place<'a>(&'a Option<String>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "; the known one is in {}", Safe::line(place)),
            None => Ok(()),
        }
    }
}

/// `; the node offers …; tried …`.
struct Tried<'a>(&'a str, &'a [String]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; the node offers {}", Safe::line(self.0))?;
        }
        match self.1 {
            [] => f.write_str("; no key was tried"),
            keys => {
                for (i, key) in keys.iter().enumerate() {
                    f.write_str(if i == 0 { "; tried " } else { ", " })?;
                    write!(f, "{}", Safe::line(key))?;
                }
                Ok(())
            }
        }
    }
}
