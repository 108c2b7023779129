//! The link to the own daemon: dialled, greeted, and started when no daemon
//! answers. Verbs call through [`Client`] and never see a channel.

mod environment;
mod silence;
mod spawn;
#[cfg(test)]
mod tests;
mod wake;

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use nero_model::{Home, VERSION};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{Hello, Role};
use nero_wire::{DialError, dial, hello};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::fault::Fault;
use crate::say::VerbOutput;
use crate::session::AUTHOR;

pub use environment::for_jobs;
pub use silence::{AwaitedNodes, Silence};
pub use spawn::{Program, last_lines, lock};

/// How long a daemon may take to say hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// How long a daemon may take to answer a call that only reads.
pub const READ_DEADLINE: Duration = Duration::from_secs(60);

/// How long a daemon may take to answer a call that freezes code or asks nodes
/// first.
pub const CHANGE_DEADLINE: Duration = Duration::from_secs(600);

/// A daemon that ends a stream so often before its first message is not
/// started once more.
const LOST_STREAMS_MAX: u32 = 5;

/// Longest reply that is taken from our own daemon: a list of a hundred
/// thousand experiments fits.
const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Prefix of the daemon's `ssh` command among its capabilities; an older daemon
/// does not report it.
const SSH: &str = "ssh=";

/// What a call changes. The daemon completes the change even if the client
/// leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing: it reads, or ends with its client.
    #[default]
    Nothing,
    /// Experiments are added or started; `last` names them.
    Last,
    /// Something else.
    Other,
}

/// A daemon that was greeted.
#[derive(Clone, Debug)]
pub struct Client {
    home: Home,
    program: Program,
    man: ManClient<Channel>,
    hello: Hello,
    /// Streams that were lost since the last message of one.
    lost_streams: u32,
    /// What the unanswered call changes.
    changing: Rc<Cell<Change>>,
}

/// A daemon that answered, and its greeting.
type GreetedDaemon = (ManClient<Channel>, Hello);

impl Client {
    /// Connects; starts the daemon when none answers.
    ///
    /// # Errors
    /// When no daemon can be started or greeted.
    pub async fn connect(home: &Home, program: &Program) -> Result<Self, Fault> {
        if let Some(client) = Self::connect_only(home, program).await? {
            return Ok(client);
        }
        let greeted = spawn::start(home, program).await?;
        Ok(Self::of(home, program, greeted))
    }

    fn of(home: &Home, program: &Program, (man, hello): GreetedDaemon) -> Self {
        Self {
            home: home.clone(),
            program: program.clone(),
            man,
            hello,
            lost_streams: 0,
            changing: Rc::default(),
        }
    }

    /// Connects to a daemon that runs already; `None` when no daemon answers.
    ///
    /// # Errors
    /// When a process answers that cannot be greeted.
    pub async fn connect_only(home: &Home, program: &Program) -> Result<Option<Self>, Fault> {
        let greeted = wake::find(home).await?;
        Ok(greeted.map(|greeted| Self::of(home, program, greeted)))
    }

    /// The daemon's greeting.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether the daemon names this among its capabilities.
    pub fn can(&self, capability: &str) -> bool {
        let mut said = self.hello.capabilities.iter();
        said.any(|word| word == capability)
    }

    /// Refuses what an earlier daemon would leave out without a word.
    ///
    /// # Errors
    /// When the daemon is of such a build.
    pub fn edits(&self, option: &str) -> Result<(), Fault> {
        if self.can(hello::EDITS) {
            Ok(())
        } else {
            Err(Fault::usage(format!(
                "the daemon is of an earlier build, which does not know `{option}`"
            ))
            .hint("`neroman daemon stop`; the next command starts the present one, runs go on"))
        }
    }

    /// Makes a watch over the next calls, which wait for answers of these
    /// nodes.
    pub fn silence(&self, out: VerbOutput, whose: AwaitedNodes) -> Silence {
        Silence::new(self.man.clone(), out, whose)
    }

    /// A line about a daemon of another version that can still be used.
    pub fn skew(&self) -> Option<String> {
        let version = |build: &str| build.split('+').next().unwrap_or(build).to_owned();
        let (theirs, ours) = (version(&self.hello.build), version(VERSION));
        (theirs != ours).then(|| {
            format!(
                "the daemon that runs is version {theirs}, this is {ours}; \
                 `neroman daemon stop` lets the next command start the new one"
            )
        })
    }

    /// A line about a daemon that reaches nodes by another `ssh` command than
    /// this environment sets.
    pub fn other_ssh(&self) -> Option<String> {
        let said = &self.hello.capabilities;
        let theirs = said.iter().find_map(|word| word.strip_prefix(SSH))?;
        let ours = std::env::var_os("NERONET_SSH").unwrap_or_default();
        let ours = ours.to_string_lossy();
        let named = |command: &str| match command {
            "" => "`ssh`".to_owned(),
            other => format!("`{other}`"),
        };
        (theirs != ours).then(|| {
            format!(
                "the daemon that runs uses {}, NERONET_SSH stands for {} here; \
                 `neroman daemon stop` lets the next command start one that uses it",
                named(theirs),
                named(&ours)
            )
        })
    }

    /// Stores in `changing` what the daemon works on.
    #[must_use]
    pub fn telling(self, changing: &Rc<Cell<Change>>) -> Self {
        Self {
            changing: Rc::clone(changing),
            ..self
        }
    }

    /// Calls the daemon. When the connection is lost the daemon is started
    /// again and the call repeated once, with the same request.
    ///
    /// # Errors
    /// The daemon's error, or why it cannot be reached.
    pub async fn call<Q: Clone, P>(
        &mut self,
        deadline: Duration,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        self.ask(deadline, Change::Nothing, request, send).await
    }

    /// Calls the daemon for a change, which it completes whether or not the
    /// client stays; else as [`Client::call`].
    pub async fn change<Q: Clone, P>(
        &mut self,
        change: Change,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        self.ask(CHANGE_DEADLINE, change, request, send).await
    }

    async fn ask<Q: Clone, P>(
        &mut self,
        deadline: Duration,
        change: Change,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        let late = |_| {
            Fault::no_daemon(format!(
                "the daemon did not answer within {} s",
                deadline.as_secs()
            ))
            .hint("`neroman daemon logs` shows what it does")
        };
        for again in [true, false] {
            let mut call = Request::new(request.clone());
            if let Some(author) = view_author() {
                call.metadata_mut().insert(hello::AUTHOR_FIELD, author);
            }
            let sent = send(&mut self.man, call);
            // If the caller is dropped, this stays set: the daemon goes on.
            self.changing.set(change);
            let answer = tokio::time::timeout(deadline, sent).await.map_err(late)?;
            self.changing.set(Change::Nothing);
            match answer {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) if lost(&status) && again => self.again().await?,
                Err(status) if lost(&status) => return Err(lost_again(&status)),
                Err(status) => return Err(Fault::from_status(&status)),
            }
        }
        unreachable!("the second round returns")
    }

    /// Calls once, without a repeat: for calls that end the daemon.
    ///
    /// # Errors
    /// The daemon's error.
    pub async fn once<Q, P>(
        &mut self,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<Option<P>, Fault> {
        let sent = send(&mut self.man, Request::new(request));
        match tokio::time::timeout(READ_DEADLINE, sent).await {
            Err(_) => Err(Fault::no_daemon("the daemon did not answer")),
            Ok(Ok(reply)) => Ok(Some(reply.into_inner())),
            Ok(Err(status)) if lost(&status) => Ok(None),
            Ok(Err(status)) => Err(Fault::from_status(&status)),
        }
    }

    /// The next message of a stream. `Lost` after a lost connection, when the
    /// daemon was started again and the caller must ask anew.
    ///
    /// # Errors
    /// The daemon's error.
    pub async fn next<P>(&mut self, stream: &mut Streaming<P>) -> Result<Next<P>, Fault> {
        match stream.message().await {
            Ok(Some(message)) => {
                self.lost_streams = 0;
                Ok(Next::Message(message))
            }
            Ok(None) => Ok(Next::End),
            Err(status) if lost(&status) && self.lost_streams < LOST_STREAMS_MAX => {
                let lost_streams = self.lost_streams + 1;
                self.again().await?;
                self.lost_streams = lost_streams;
                Ok(Next::Lost)
            }
            Err(status) if lost(&status) => Err(lost_again(&status)),
            Err(status) => Err(Fault::from_status(&status)),
        }
    }

    async fn again(&mut self) -> Result<(), Fault> {
        let fresh = Self::connect(&self.home, &self.program).await?;
        *self = fresh;
        Ok(())
    }
}

/// The view that executes this line, for the history.
fn view_author() -> Option<AsciiMetadataValue> {
    std::env::var(AUTHOR).ok()?.parse().ok()
}

/// The next item of a stream.
#[derive(Debug)]
pub enum Next<P> {
    /// A message.
    Message(P),
    /// The stream is complete.
    End,
    /// The connection was lost and is restored.
    Lost,
}

/// Dials and greets at each place where the daemon may be, without starting
/// anything; `None` when no daemon answers.
async fn find(home: &Home) -> Result<Option<GreetedDaemon>, Fault> {
    for socket in home.sockets_to_try() {
        if let Some(greeted) = greet_at(&socket).await? {
            return Ok(Some(greeted));
        }
    }
    Ok(None)
}

async fn greet_at(path: &Path) -> Result<Option<GreetedDaemon>, Fault> {
    let channel = match dial(path).await {
        Ok(channel) => channel,
        Err(DialError::Nobody { source, .. }) if is_nobody(&source) => return Ok(None),
        // The daemon died between accepting and greeting.
        Err(DialError::Transport { .. }) => return Ok(None),
        // Another user took this place below `/tmp` first; our daemon has another one.
        Err(DialError::NotOurs { .. }) => return Ok(None),
        Err(error @ DialError::Nobody { .. }) => {
            return Err(Fault::no_daemon("cannot connect to the daemon").because(&error));
        }
    };
    let mut man = ManClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX);
    let greeted = man.greet(Hello {
        // The daemon's own agent may belong to a login that has ended.
        ssh_auth_sock: environment::ssh_auth_sock(),
        ..hello::own(Role::Client, "", None)
    });
    let hello = match tokio::time::timeout(HELLO_DEADLINE, greeted).await {
        Ok(Ok(reply)) => reply.into_inner(),
        Ok(Err(status)) if lost(&status) => return Ok(None),
        Ok(Err(status)) => return Err(Fault::from_status(&status)),
        Err(_) => {
            return Err(
                Fault::no_daemon("the daemon accepts connections and does not answer")
                    .hint("`neroman daemon logs` shows what it does"),
            );
        }
    };
    hello::check(&hello, Role::Neroman, None).map_err(|error| {
        Fault::no_daemon("the daemon that runs cannot be spoken to")
            .because(&error)
            .hint("end it with the neroman that started it: `neroman daemon stop`")
    })?;
    Ok(Some((man, hello)))
}

/// Whether the error means that no daemon of ours listens at the socket: a dead
/// process left the socket, or its folder is no folder or closed to us.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied
    )
}

/// Whether the connection broke, as opposed to an error of the daemon: only a
/// status made on our side has a source, and only one of the daemon has
/// details.
fn lost(status: &Status) -> bool {
    let made_here = std::error::Error::source(status).is_some();
    status.details().is_empty() && (made_here || status.code() == tonic::Code::Unavailable)
}

fn lost_again(status: &Status) -> Fault {
    let fault = Fault::no_daemon("the connection to the daemon was lost again and again");
    let fault = match std::error::Error::source(status) {
        Some(cause) => fault.because(cause),
        None => fault.cause(status.message()),
    };
    fault.hint("`neroman daemon logs` shows why it ended")
}
