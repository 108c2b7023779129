//! The link to a launcher: frames over a Unix socket. One task per launcher reads
//! and writes at the same time, so that a full buffer on one side cannot block
//! the other. The launcher of this build is started when none answers;
//! launchers of older builds are only listened to and asked to leave.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nero_journal::v1::{FromLauncher, LauncherHello, ToLauncher, from_launcher, to_launcher};
use nero_model::process::ProcessHandle;
use nero_model::safe::Safe;
use nero_model::{PROTOCOL_HIGHEST, PROTOCOL_LOWEST, ProcessId, VERSION};
use prost::Message as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::config;

/// Identifies one connection to a launcher; a later one to the same launcher
/// has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// An event of a launcher's link, for the agent.
#[derive(Debug)]
pub enum News {
    /// The launcher answers, and its protocol is ours.
    Up {
        /// The connection.
        link: LinkId,
        /// Whether it is the launcher of this build.
        own: bool,
        /// Sends frames to it. Not bounded: the agent sends at most a few
        /// messages for each run that holds a slot.
        orders: mpsc::UnboundedSender<Vec<u8>>,
    },
    /// Messages that arrived together.
    Messages {
        /// The connection.
        link: LinkId,
        /// The messages in order.
        messages: Vec<FromLauncher>,
    },
    /// The connection ended, or could not be made.
    Down {
        /// The connection.
        link: LinkId,
        /// Whether it was the launcher of this build.
        own: bool,
        /// Reason.
        why: String,
    },
}

/// A launcher: its socket, and how to start it.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Socket of the launcher.
    pub socket: PathBuf,
    /// The program; `None` for a launcher that is only listened to.
    pub program: Option<PathBuf>,
    /// Log of the launcher.
    pub log: PathBuf,
    /// Name of this build.
    pub build: String,
    /// Whether it serves an allocation of a scheduler: it ends with it.
    pub in_allocation: bool,
}

/// Limit of a frame in bytes.
const FRAME_BYTES_MAX: usize = nero_model::MESSAGE_BYTES_MAX;

/// Connects to the launcher, starts it when none answers, and passes its
/// messages on until the connection ends; returns the reason. `tell` delivers
/// news to the agent.
pub async fn serve<F, T>(launcher: Launcher, link: LinkId, tell: F) -> io::Error
where
    F: Fn(News) -> T,
    T: Future<Output = ()>,
{
    let own = launcher.program.is_some();
    match open(&launcher).await {
        Ok(stream) => talk(stream, &launcher, link, own, &tell).await,
        Err(error) => error,
    }
}

async fn open(launcher: &Launcher) -> Result<UnixStream, io::Error> {
    let first = match connect(&launcher.socket).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    let Some(program) = &launcher.program else {
        return Err(first);
    };
    start(launcher, program)?;
    let deadline = tokio::time::Instant::now() + config::LAUNCHER_PATIENCE;
    // A few tries are cheaper than a watch for the socket; this happens once
    // per launcher.
    let mut pause = std::time::Duration::from_millis(1);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(std::time::Duration::from_millis(50));
        match connect(&launcher.socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if tokio::time::Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
    }
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket).await?;
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the launcher's socket belongs to another user",
        ));
    }
    Ok(stream)
}

/// Starts the program so that it outlives us: its own session (which it makes
/// itself, and could not as the leader of a group), nothing inherited.
fn start(launcher: &Launcher, program: &Path) -> io::Result<()> {
    let mut command = tokio::process::Command::new(program);
    command
        .arg("launcher")
        .arg("--socket")
        .arg(&launcher.socket)
        .arg("--log")
        .arg(&launcher.log)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(false);
    if launcher.in_allocation {
        command.arg("--allocation");
    }
    for name in [
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "TZ",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let mut child = command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    tracing::info!(pid = child.id(), "launcher started");
    #[expect(
        clippy::disallowed_methods,
        reason = "it only keeps a zombie away; the end of the link tells of a dead launcher"
    )]
    tokio::spawn(async move {
        let ended = child.wait().await;
        tracing::info!(?ended, "launcher ended");
    });
    Ok(())
}

async fn talk<F, T>(
    stream: UnixStream,
    launcher: &Launcher,
    link: LinkId,
    own: bool,
    tell: &F,
) -> io::Error
where
    F: Fn(News) -> T,
    T: Future<Output = ()>,
{
    let (mut reader, writer) = stream.into_split();
    #[expect(
        clippy::disallowed_methods,
        reason = "the agent never waits for a launcher: see `News::Up`"
    )]
    let (orders, queue) = mpsc::unbounded_channel();
    if let Err(error) = say_hello(&launcher.build, &orders) {
        return error;
    }
    let mut frames = Frames::default();
    let reading = async {
        match read_hello(&mut reader, &mut frames).await {
            Ok(()) => {
                tell(News::Up { link, own, orders }).await;
                read(&mut reader, &mut frames, link, tell).await
            }
            Err(error) => error,
        }
    };
    let writing = async {
        write(writer, queue).await;
        std::future::pending().await
    };
    tokio::select! {
        why = reading => why,
        why = writing => why,
    }
}

fn say_hello(build: &str, orders: &mpsc::UnboundedSender<Vec<u8>>) -> io::Result<()> {
    let hello = LauncherHello {
        build: build.to_owned(),
        protocol_lowest: PROTOCOL_LOWEST,
        protocol_highest: PROTOCOL_HIGHEST,
        process: Some(ProcessId::own()?.into()),
    };
    let mut frame = Vec::new();
    encode(&mut frame, to_launcher::Message::Hello(hello));
    orders
        .send(frame)
        .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
}

async fn read_hello(reader: &mut OwnedReadHalf, frames: &mut Frames) -> io::Result<()> {
    let first = async {
        loop {
            if let Some(message) = frames.next()? {
                return Ok::<_, io::Error>(message);
            }
            frames.fill(reader).await?;
        }
    };
    let first = tokio::time::timeout(config::LAUNCHER_PATIENCE, first)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the launcher says nothing"))??;
    match first.message {
        Some(from_launcher::Message::Hello(hello))
            if hello.protocol_lowest <= PROTOCOL_HIGHEST
                && hello.protocol_highest >= PROTOCOL_LOWEST =>
        {
            Ok(())
        }
        Some(from_launcher::Message::Hello(hello)) => {
            send_home(&hello);
            Err(invalid(&format!(
                "the launcher {} speaks protocols {} to {}, this neromum ({VERSION}) {PROTOCOL_LOWEST} \
             to {PROTOCOL_HIGHEST}; its runs go on and are followed by disk, and it leaves after them",
                Safe::line(&hello.build),
                hello.protocol_lowest,
                hello.protocol_highest,
            )))
        }
        _ => Err(invalid("the launcher did not say hello first")),
    }
}

/// Sends the signal by which a launcher leaves once no run needs it, when we
/// cannot speak its protocol.
fn send_home(hello: &LauncherHello) {
    let process = hello.process.as_ref().and_then(|said| said.identity());
    let handle = process.and_then(|process| ProcessHandle::open(&process));
    if let Some(handle) = handle.filter(ProcessHandle::is_alive) {
        // The launcher may end by itself in between.
        let _ = handle.signal(rustix::process::Signal::TERM);
    }
}

async fn read<F, T>(
    reader: &mut OwnedReadHalf,
    frames: &mut Frames,
    link: LinkId,
    tell: &F,
) -> io::Error
where
    F: Fn(News) -> T,
    T: Future<Output = ()>,
{
    loop {
        let mut messages = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return error,
            }
        }
        if !messages.is_empty() {
            tell(News::Messages { link, messages }).await;
        }
        if let Err(error) = frames.fill(reader).await {
            return error;
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        // The reading task notices a broken connection.
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Appends one message as a frame.
pub fn encode(out: &mut Vec<u8>, message: to_launcher::Message) {
    let message = ToLauncher {
        message: Some(message),
    };
    out.extend_from_slice(&(message.encoded_len() as u32).to_le_bytes());
    message.encode(out).expect("a vector grows");
}

/// Bytes that were read and not yet decoded.
#[derive(Debug, Default)]
struct Frames {
    bytes: bytes::BytesMut,
}

impl Frames {
    async fn fill(&mut self, reader: &mut OwnedReadHalf) -> io::Result<()> {
        self.bytes.reserve(16 * 1024);
        match reader.read_buf(&mut self.bytes).await? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the launcher closed the connection",
            )),
            _ => Ok(()),
        }
    }

    fn next(&mut self) -> io::Result<Option<FromLauncher>> {
        let Some(head) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(invalid("the launcher sent a frame that is too long"));
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let frame = self.bytes.split_to(4 + length);
        FromLauncher::decode(&frame[4..])
            .map(Some)
            .map_err(|_| invalid("the launcher sent a frame that is no message"))
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
