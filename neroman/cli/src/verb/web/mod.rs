//! `web [SEL]`: the page in the browser. `nero-web` serves it; here are the address, the daemon and
//! the lines that it executes.

use std::path::PathBuf;

use nero_web::{Caller, Door, DoorError, Site, ViewSettings};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::files::open;
use crate::args;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, absolute, selection};
use crate::view::{calls, rows};

/// Who the history names.
const AUTHOR: &str = "web";
/// The port in addresses of a socket that is forwarded.
const FORWARDED_PORT: u16 = 8080;

pub async fn run(session: &mut Session, args: &args::Web) -> Result<u8, Stop> {
    let picked = args.picked.join(",");
    // A mistake in the selector is told before anything is shown.
    rows::check(session, &picked).await?;
    let door = door(args).await?;
    let (sender, calls) = mpsc::channel(calls::WAITING_MAX);
    let settings = ViewSettings {
        is_read_only: args.read_only,
        select: |text| selection(&[text.to_owned()]),
    };
    let site = Site::new(door.port(), Caller::new(settings, sender))
        .map_err(|error| Fault::failed("cannot make a secret").because(&error))?;
    let address = address(&door, &site, &picked);
    session.out.line(&address)?;
    if let Some(line) = forwarding(args, &door)? {
        let text = format!("on the machine of your browser, before you open it: {line}");
        session.out.note(&text);
    }
    if args.open {
        let why_not = match open::no_desktop() {
            None => open::open(&address).await,
            why_not => why_not,
        };
        if let Some(why) = why_not {
            session.out.note(&format!("not opened: {why}"));
        }
    }
    let failed = |error: std::io::Error| Fault::failed("cannot listen to signals").because(&error);
    let mut end = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::select! {
        () = nero_web::serve(&door, &site) => Ok(code::FAILED),
        () = calls::answer(session, calls, AUTHOR) => Ok(code::FAILED),
        _ = end.recv() => Ok(128 + 15),
        _ = hang_up.recv() => Ok(128 + 1),
    }
}

async fn door(args: &args::Web) -> Result<Door, Fault> {
    let opened = match &args.socket {
        Some(path) => Door::socket(&PathBuf::from(absolute(path)?)).await,
        None => Door::loopback(args.port.unwrap_or(0)).await,
    };
    opened.map_err(|error| {
        let hint = match error {
            DoorError::Port { .. } => "without --port a free one is taken",
            DoorError::NoSocket { .. } | DoorError::Taken { .. } | DoorError::Socket { .. } => {
                "name another path, in a folder of yours"
            }
        };
        Fault::failed("the page cannot be served")
            .because(&error)
            .hint(hint)
    })
}

/// The address with the selector and the secret. What is behind `#` never leaves the browser.
fn address(door: &Door, site: &Site, picked: &str) -> String {
    let port = door.port().unwrap_or(FORWARDED_PORT);
    let query = match picked {
        "" => String::new(),
        picked => format!("?sel={}", nero_web::encoded(picked)),
    };
    format!("http://127.0.0.1:{port}/{query}#token={}", site.token())
}

/// The line that brings a browser elsewhere here, where one is needed.
fn forwarding(args: &args::Web, door: &Door) -> Result<Option<String>, Fault> {
    let over_ssh = std::env::var("SSH_CONNECTION").unwrap_or_default();
    // Address and port of both ends.
    let host = over_ssh.split(' ').nth(2).unwrap_or("HOST");
    let target = match (&args.socket, door.port()) {
        (Some(path), _) => absolute(path)?,
        (None, Some(_)) if over_ssh.is_empty() => return Ok(None),
        (None, port) => format!("127.0.0.1:{}", port.unwrap_or(FORWARDED_PORT)),
    };
    let here = door.port().unwrap_or(FORWARDED_PORT);
    let user = std::env::var("USER").map_or_else(|_| String::new(), |user| format!("{user}@"));
    let port = match over_ssh.split(' ').nth(3) {
        None | Some("22") => String::new(),
        Some(port) => format!("-p {port} "),
    };
    let words = [format!("{here}:{target}"), format!("{user}{host}")];
    let words = words.iter().map(String::as_str);
    let words = shlex::try_join(words).unwrap_or_default();
    Ok(Some(format!("ssh -N {port}-L {words}")))
}
