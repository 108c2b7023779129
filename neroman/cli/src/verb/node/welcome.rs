//! `node welcome`: the end of `node join` at the head, started there over `ssh` by the machine
//! that joins. It keeps that machine as a node, and opens the way to it: a connection of `ssh`
//! through the socket that the machine brought. It ends with either side.

use std::ffi::OsString;
use std::io::{BufRead as _, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nero_config::Edit;
use nero_model::names::JOINED;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{NodeAddRequest, NodeLoginRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

use super::connect;
use super::join::{MARK, make_key};
use super::private::PrivateFolder;
use crate::args::NodeWelcome;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, home, request};
use crate::verb::exec::os_words;
use crate::verb::on_node;

/// How long an earlier connection of the machine may take to end.
const FREED: Duration = Duration::from_secs(30);
/// Lines that are read ahead; the peer sends two.
const LINES: usize = 4;
/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(100);

/// What the machine that joins tells of itself, in one line.
#[derive(Debug, Deserialize)]
struct Guest {
    name: String,
    user: String,
    machine: String,
    host_key: String,
    socket: String,
    root: Option<String>,
    cpus: Option<f64>,
    gpus: Option<u32>,
    /// Whether it was a node of this neroman already.
    again: bool,
}

impl Guest {
    /// The host of its address. Two machines of one name differ in it.
    fn host(&self) -> String {
        format!("{}.{}{JOINED}", self.name, self.machine)
    }
}

/// Runs the verb. Errors go to the machine that joins.
pub async fn run(session: &mut Session, args: &NodeWelcome) -> Result<u8, Stop> {
    if let Some(socket) = &args.pipe {
        return pipe(Path::new(socket)).map(|()| code::OK).map_err(|error| {
            Fault::no_node("the machine that joined is gone")
                .because(&error)
                .into()
        });
    }
    match welcome(session).await {
        Err(Stop::Fault(fault)) => {
            tell(&json!({
                "error": fault.what,
                "causes": fault.causes,
                "hint": fault.hint,
                "exit_code": fault.exit_code,
            }));
            Ok(fault.exit_code)
        }
        other => other,
    }
}

fn gone() -> Fault {
    Fault::no_node("the machine that joins is gone")
}

async fn welcome(session: &mut Session) -> Result<u8, Stop> {
    let mut lines = input_lines();
    let asked = lines.recv().await.ok_or_else(gone)?;
    let guest: Guest = serde_json::from_str(&asked)
        .map_err(|error| Fault::usage("another version of Neronet joins").because(&error))?;
    let ended = serve(session, &guest, &mut lines).await;
    // The server of ssh leaves it.
    let _ = std::fs::remove_file(&guest.socket);
    ended
}

/// Goes with the machine until either side ends.
async fn serve(
    session: &mut Session,
    guest: &Guest,
    lines: &mut mpsc::Receiver<String>,
) -> Result<u8, Stop> {
    let folder = PrivateFolder::make()?;
    let key = make_key(&folder.path().join("key")).await?;
    let known = format!("{} {}\n", guest.host(), guest.host_key);
    std::fs::write(folder.path().join("known"), known)
        .map_err(|error| Fault::failed("cannot keep a key").because(&error))?;
    tell(&json!({"key": key}));
    lines.recv().await.ok_or_else(gone)?;
    keep(session, guest).await?;
    let control = open(session, guest, folder.path()).await?;
    connect::follow(session, &guest.name).await?;
    tell(&json!({"ready": guest.name}));
    Ok(tokio::select! {
        () = until_end(&control) => code::NO_NODE,
        None = lines.recv() => code::OK,
    })
}

/// Keeps the machine as a node, unless it is one.
async fn keep(session: &mut Session, guest: &Guest) -> Result<(), Stop> {
    let address = format!("{}@{}", guest.user, guest.host());
    let known = on_node::ask(session, true).await?;
    let name = &guest.name;
    match known.nodes.iter().find(|node| node.name == *name) {
        Some(node) if node.address == address => return limit(guest),
        Some(node) => {
            let place = if node.address.is_empty() {
                "this machine"
            } else {
                &node.address
            };
            return Err(
                Fault::usage(format!("there is a node `{name}` already: {place}"))
                    .hint("neroman node join HEAD --name NAME")
                    .into(),
            );
        }
        None if guest.again => {
            return Err(Fault::usage(format!("the node `{name}` was removed"))
                .hint("`neroman node join` once more brings it back")
                .into());
        }
        None => {}
    }
    let asked = NodeAddRequest {
        request: request(),
        name: name.clone(),
        address,
        root: guest.root.clone().unwrap_or_default(),
        without_test: true,
        cpus: guest.cpus.unwrap_or(0.0),
        ..NodeAddRequest::default()
    };
    super::keep(session, asked).await?;
    limit(guest)
}

/// Notes how many cards runs may have there.
fn limit(guest: &Guest) -> Result<(), Stop> {
    if let Some(gpus) = guest.gpus {
        let edit = Edit::Set {
            key: format!("nodes.{}.gpus", guest.name),
            value: gpus.to_string(),
        };
        edit.apply(&home()?.config)
            .map_err(|error| Fault::usage("the configuration was not changed").because(&error))?;
    }
    Ok(())
}

/// Opens the way as `node connect` does, but through the machine's socket; returns the path of
/// the control socket.
async fn open(
    session: &mut Session,
    guest: &Guest,
    folder: &Path,
) -> Result<std::path::PathBuf, Stop> {
    let record = home()?.data.join(format!("joined-{}", guest.name));
    let words = free_words(session, guest, &record).await?;
    let control = words.iter().position(|word| word == "-S");
    let end = words.iter().position(|word| word == "--");
    let (Some(control), Some(end)) = (control, end) else {
        return Err(Fault::new(code::BUG, "the daemon knows no way of ssh").into());
    };
    let mut words = words;
    let control = words[control + 1].to_string_lossy().replace("%%", "%");
    let program = std::env::current_exe()
        .map_err(|error| Fault::failed("cannot find neroman itself").because(&error))?;
    let quoted = |text: String| format!("'{}'", text.replace('\'', "'\\''").replace('%', "%%"));
    let options = [
        format!(
            "ProxyCommand={} node welcome --pipe {}",
            quoted(program.display().to_string()),
            quoted(guest.socket.clone())
        ),
        format!("UserKnownHostsFile={}/known", folder.display()),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        format!("IdentityFile={}/key", folder.display()),
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        "PreferredAuthentications=publickey".to_owned(),
    ];
    let options = options
        .into_iter()
        .flat_map(|option| ["-o".into(), option.into()]);
    words.splice(end..end, options);
    let log = folder.join("log");
    let ended = tokio::process::Command::new(&words[0])
        // It stays in the background, and would keep our outputs open.
        .arg("-E")
        .arg(&log)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .map_err(|error| Fault::no_node("cannot start ssh").because(&error))?;
    if ended.success() {
        // Without it the next connection of this machine waits until this one is found dead.
        let _ = std::fs::write(&record, &control);
        return Ok(control.into());
    }
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let last = said.lines().last().unwrap_or_default().to_owned();
    Err(
        Fault::no_node(format!("ssh did not open the way back to `{}`", guest.name))
            .cause(last)
            .into(),
    )
}

/// The words that open the way, once an earlier connection of this machine is ended.
async fn free_words(
    session: &mut Session,
    guest: &Guest,
    record: &Path,
) -> Result<Vec<OsString>, Stop> {
    let began = Instant::now();
    loop {
        let asked = NodeLoginRequest {
            name: guest.name.clone(),
        };
        let reply = session.read(asked, ManClient::node_login).await?;
        let words = os_words(&reply.argv);
        let is_taken = words.is_empty() || words.iter().any(|word| word == "-O");
        if !is_taken {
            return Ok(words);
        }
        if began.elapsed() > FREED {
            let what = format!("the earlier connection of `{}` does not end", guest.name);
            return Err(Fault::no_node(what).into());
        }
        if let Ok(control) = std::fs::read_to_string(record) {
            // If it has ended already, ssh says so.
            let _ = tokio::process::Command::new("ssh")
                .args(["-S", &control, "-O", "exit", "--", "joined"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns when the connection has ended: nothing is sent there before.
async fn until_end(control: &Path) {
    let Ok(mut socket) = tokio::net::UnixStream::connect(control).await else {
        return;
    };
    let mut part = [0; 64];
    while let Ok(1..) = socket.read(&mut part).await {}
}

/// Lines of standard input. A thread reads them, which the end of this program ends.
fn input_lines() -> mpsc::Receiver<String> {
    let (tx, rx) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if tx.blocking_send(line).is_err() {
                return;
            }
        }
    });
    rx
}

/// A line for the machine that joins. If it is gone, standard input ends.
fn tell(told: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{MARK}{told}").and_then(|()| stdout.flush());
}

/// Connects standard input and output to a socket, until the socket ends.
fn pipe(socket: &Path) -> std::io::Result<()> {
    let mut down = UnixStream::connect(socket)?;
    let mut up = down.try_clone()?;
    let mut input = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    std::thread::spawn(move || {
        let _ = copy(&mut input, &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    copy(&mut down, &mut output)
}

/// Hands on what comes, as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut part = vec![0; 64 << 10];
    loop {
        match from.read(&mut part)? {
            0 => return Ok(()),
            count => to.write_all(&part[..count])?,
        }
    }
}
