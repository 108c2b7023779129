//! Joins stdin and stdout to neromum's socket, for a caller at the other end
//! of an ssh channel. Starts neromum when nobody answers.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use nero_model::paths::NodePaths;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::args::Options;
use crate::run::SOCKET;

/// How long a neromum that was started may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Joins until either side ends.
///
/// # Errors
/// When nobody can be reached, or a side fails.
pub fn dial(options: &Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let joined = runtime.block_on(join(options));
    // Reading stdin happens on a thread that cannot be called back.
    runtime.shutdown_background();
    joined
}

async fn join(options: &Options) -> io::Result<()> {
    let paths = NodePaths::new(&options.root, &options.deployment, &options.node);
    let socket = paths.sockets().join(SOCKET);
    let stream = match UnixStream::connect(&socket).await {
        Ok(stream) => stream,
        Err(_) => {
            start(options)?;
            wait_for(&socket).await?
        }
    };
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the socket {} belongs to another user", socket.display()),
        ));
    }
    let (mut from_mum, mut to_mum) = stream.into_split();
    let up = async {
        let copied = copy(&mut tokio::io::stdin(), &mut to_mum).await;
        // The end of stdin is the end of requests; answers may still come.
        to_mum.shutdown().await?;
        copied
    };
    let down = async { copy(&mut from_mum, &mut tokio::io::stdout()).await };
    tokio::select! {
        ended = async { tokio::join!(up, std::future::pending::<()>()).0 } => ended,
        ended = down => ended,
    }
}

/// Copies and flushes after each piece: nobody waits for a full buffer.
async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(()),
            length => {
                to.write_all(&buffer[..length]).await?;
                to.flush().await?;
            }
        }
    }
}

fn start(options: &Options) -> io::Result<()> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .arg("serve")
        .arg("--own-session")
        .arg("--root")
        .arg(&options.root)
        .arg("--deployment")
        .arg(options.deployment.to_string())
        .arg("--node")
        .arg(&options.node)
        .arg("--min-free")
        .arg(options.min_free.to_string())
        .arg("--leave-after")
        .arg(options.leave_after.as_secs_f64().to_string());
    if let Some(cpus) = options.cpus {
        command.arg("--cpus").arg(cpus.to_string());
    }
    if let Some(memory) = options.memory {
        command.arg("--memory").arg(memory.to_string());
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map(drop)
}

async fn wait_for(socket: &std::path::Path) -> io::Result<UnixStream> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(2);
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if tokio::time::Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
