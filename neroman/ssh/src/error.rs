//! What goes wrong on the way to a node, in words.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nero_model::safe::Safe;

mod hint;
mod show;
#[cfg(test)]
mod tests;

use show::{Key, Place, Quoted, Tried};

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
    /// The program `ssh`, its configuration or our folder is at fault, until
    /// somebody mends it.
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
    #[error(
        "the host key has changed, nothing was sent{}{}",
        Key(.kind, .fingerprint),
        Place(.place)
    )]
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
    /// A command that was to speak with us does not begin to.
    #[error("the command does not answer within {seconds} s{}", Quoted(.said))]
    Unanswered {
        /// How long it was waited for.
        seconds: u64,
        /// What it said meanwhile.
        said: Vec<u8>,
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
    /// A key that the node accepts, and that cannot be used: its passphrase is
    /// missing, or the agent that holds it.
    Unlock,
    /// The agent holds the key and refused to use it.
    Agent,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password => "a password or a code has to be typed",
            Self::SecondFactor => "the key is accepted, a second factor has to be typed",
            Self::Unlock => {
                "the node accepts a key that cannot be used: passphrase or agent is missing"
            }
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
            Self::NoAnswer { .. } | Self::Deadline { .. } | Self::Unanswered { .. } => {
                Fault::Timeout
            }
            Self::HostKeyUnknown { .. } => Fault::HostKeyUnknown,
            Self::HostKeyChanged { .. } | Self::HostKeyRevoked { .. } => Fault::HostKeyChanged,
            Self::Refused { .. } | Self::TooManyKeys { .. } => Fault::Refused,
            Self::NeedsPerson { .. } => Fault::NeedsPerson,
            Self::MasterGone { .. } => Fault::MasterGone,
            Self::Shell { .. } => Fault::Shell,
            Self::NoProgram { source, .. } | Self::Folder { source, .. } if may_pass(source) => {
                Fault::Other
            }
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
}

/// Whether the kernel may say otherwise in a while: there were no processes,
/// open files, memory or room left.
fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind;
    !matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidInput
            | ErrorKind::ReadOnlyFilesystem
    )
}
