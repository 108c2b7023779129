//! Failures on the way to a node, with their messages.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nero_model::safe::Safe;

mod hint;
mod show;
#[cfg(test)]
mod tests;

use show::{AuthAttempts, Key, KnownHostPlace, QuotedOutput};

/// Kind of a failure, by which a caller decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The name cannot be resolved; also while the own machine is offline.
    NoSuchHost,
    /// Nothing answers there, or the connection is turned away.
    Unreachable,
    /// No answer in time; the network or the node may be frozen.
    Timeout,
    /// No person has confirmed this host key yet.
    HostKeyUnknown,
    /// The host shows another host key than before; nothing was sent.
    HostKeyChanged,
    /// None of the keys is accepted.
    Refused,
    /// A password, a code or a passphrase has to be typed.
    NeedsPerson,
    /// The connection that was used has ended.
    MasterGone,
    /// The login shell there does not run our command.
    Shell,
    /// The program `ssh`, its configuration or our folder is at fault, until a
    /// person mends it.
    Program,
    /// Anything else.
    Other,
}

/// Where a hint leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To another step than `node connect`, or to none.
    Nothing,
    /// To `node connect`.
    ToConnect,
    /// To `node connect` in a terminal, where `ssh` asks.
    InTerminal,
}

/// A failure on the way to one node.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.headline())]
pub struct SshError {
    /// The node's name; empty when none is concerned.
    pub node: String,
    /// The address given to `ssh`.
    pub address: String,
    /// The failure itself.
    #[source]
    pub trouble: Box<Trouble>,
}

/// A failure with its data. Text of `ssh` or of the node is stored as it came
/// and made safe when shown.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// An address that is never given to `ssh`.
    #[error("the address cannot be used: {why}")]
    Address {
        /// The fault of the address.
        why: &'static str,
    },
    /// The variable with the words of the command cannot be split.
    #[error("the variable {variable} is not a command line: {value}")]
    Words {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// The program cannot be started.
    #[error("cannot run `{program}`")]
    NoProgram {
        /// Name or path of the program.
        program: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The private folder of the control sockets cannot be used.
    #[error("cannot use the folder {} for control sockets", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Error of the file system.
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
    #[error("ssh cannot read its configuration{}", QuotedOutput(.said))]
    Settings {
        /// Output of `ssh -G`.
        said: Vec<u8>,
    },
    /// The host's name is unknown.
    #[error("cannot resolve the name of the host{}", QuotedOutput(.said))]
    NoSuchHost {
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// Nothing listens there, or no way leads there.
    #[error("cannot be reached{}", QuotedOutput(.said))]
    Unreachable {
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// The host hangs up before it sends anything.
    #[error("the host hangs up at once{}", QuotedOutput(.said))]
    HungUp {
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// No connection in time.
    #[error("no answer in time{}", QuotedOutput(.said))]
    NoAnswer {
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// The host key is in no file of known hosts.
    #[error("the host key is not known yet{}", Key(.kind, .fingerprint))]
    HostKeyUnknown {
        /// Kind of the key, as `ssh-ed25519`, where `ssh` printed it.
        kind: Option<String>,
        /// Fingerprint of the key, `SHA256:…`, where `ssh` printed it.
        fingerprint: Option<String>,
    },
    /// The host key is another than the known one.
    #[error(
        "the host key has changed, nothing was sent{}{}",
        Key(.kind, .fingerprint),
        KnownHostPlace(.place)
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
    #[error("the host key is revoked, nothing was sent{}", QuotedOutput(.said))]
    HostKeyRevoked {
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// The node accepts none of the keys and offers no other method that we can
    /// use.
    #[error("no key is accepted{}", AuthAttempts(.methods, .keys))]
    Refused {
        /// Methods that the node offers, `publickey,gssapi-with-mic`.
        methods: String,
        /// Keys that were tried, file and fingerprint.
        keys: Vec<String>,
    },
    /// More keys were tried than the node allows.
    #[error("too many keys were tried before the right one{}", AuthAttempts("", .keys))]
    TooManyKeys {
        /// Keys that were tried.
        keys: Vec<String>,
    },
    /// A password, code or passphrase is asked for.
    #[error("{need}{}", AuthAttempts(.methods, .keys))]
    NeedsPerson {
        /// The secret that the node asks for.
        need: SecretKind,
        /// Methods that the node offers.
        methods: String,
        /// Keys that were tried.
        keys: Vec<String>,
    },
    /// A host on the way there cannot be passed.
    #[error("the way through {}", Safe::line(.by))]
    Jump {
        /// The jump host or the command in between.
        by: String,
        /// The failure on the way.
        #[source]
        trouble: Box<Trouble>,
    },
    /// `ssh` ended in another way.
    #[error("ssh ended with {status}{}", QuotedOutput(.said))]
    Ended {
        /// Exit status or signal of `ssh`.
        status: String,
        /// Output of `ssh`.
        said: Vec<u8>,
    },
    /// The connection has ended.
    #[error("the connection has ended{}", QuotedOutput(.said))]
    MasterGone {
        /// Output of the command before the connection ended.
        said: Vec<u8>,
    },
    /// The node allows no more commands over one connection.
    #[error("the node allows no more sessions")]
    TooManySessions,
    /// A call took too long.
    #[error("{what} took longer than {seconds} s")]
    Deadline {
        /// The action that we waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
    /// A command that should open a stream does not print its mark.
    #[error("the command does not answer within {seconds} s{}", QuotedOutput(.said))]
    Unanswered {
        /// Seconds that we waited.
        seconds: u64,
        /// Output of the command until then.
        said: Vec<u8>,
    },
    /// The login shell does something else than run the command.
    #[error("the login shell {what}{}", QuotedOutput(.said))]
    Shell {
        /// Description of its behaviour.
        what: &'static str,
        /// Beginning of its output.
        said: Vec<u8>,
    },
    /// A command printed more than we take.
    #[error("the command printed more than {bytes_max} bytes")]
    TooMuch {
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// The command of a stream ended by itself.
    #[error("the command ended ({status}){}", QuotedOutput(.said))]
    PipeEnded {
        /// Exit status or signal of the command.
        status: String,
        /// End of its standard error.
        said: Vec<u8>,
    },
    /// A command with a zero byte.
    #[error("a command cannot hold a zero byte")]
    ZeroByte,
    /// The master's control socket returned something unexpected.
    #[error("the control socket of ssh does not work")]
    Control {
        /// What happened.
        #[source]
        source: Box<openssh::Error>,
    },
    /// A pipe of our own fails.
    #[error("cannot {what}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
}

/// A secret that a person has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A password or a code.
    Password,
    /// A second factor; the key was accepted.
    SecondFactor,
    /// A key that the node accepts but `ssh` cannot use: its passphrase is
    /// missing, or its agent does not answer.
    Unlock,
    /// The agent holds the key and refused to use it.
    Agent,
}

impl fmt::Display for SecretKind {
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
    /// A failure on the way to this node.
    pub fn new(node: &str, address: &str, trouble: Trouble) -> Self {
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

    /// Whether a retry is useless before the user has done something.
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

    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        self.trouble.hint(&self.node, &self.address)
    }

    /// Whether the hint leads to `node connect`.
    pub fn asks(&self) -> Asks {
        self.trouble.asks()
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

/// Whether the kernel may succeed later: there were no processes, open files,
/// memory or room left.
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
