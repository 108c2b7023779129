//! `open SEL`: folders of results on the desktop.

use std::process::Stdio;
use std::time::Duration;

use nero_views::json::{self, run_id};
use nero_views::object;
use nero_wire::v1::PathsRequest;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::paths_reply::One;
use serde_json::json;
use tokio::process::Command;

use crate::args::OpenResults;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};

/// Folders that are opened at once at most: each is a window.
const FOLDERS_MAX: usize = 8;

/// Time in which a desktop tells that it cannot; after it the program is taken for the window.
const TOLD: Duration = Duration::from_secs(2);

/// The program that opens a folder as the desktop does.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

pub async fn run(session: &mut Session, args: &OpenResults) -> Result<u8, Stop> {
    let asked = PathsRequest {
        selection: Some(selection(&args.picked)),
        work: false,
    };
    let reply = session.read(asked, ManClient::paths).await?;
    for one in reply.paths.iter().filter(|one| !one.note.is_empty()) {
        let note = format!("note: {}: {}", one.experiment, one.note);
        session.out.note(&note);
    }
    let there = reply.paths.iter().filter(|one| !one.path.is_empty());
    let there: Vec<_> = there.collect();
    if there.len() > FOLDERS_MAX {
        let fault = Fault::usage(format!("this would open {} folders", there.len()));
        return Err(fault
            .hint(format!(
                "name {FOLDERS_MAX} runs or fewer; `neroman path` prints all"
            ))
            .into());
    }
    let mut why_not = no_desktop();
    let mut opened = Vec::new();
    for one in &there {
        if why_not.is_none() {
            why_not = open(&one.path).await;
        }
        opened.push(why_not.is_none());
        if why_not.is_some() && !session.out.as_json {
            session.out.raw(format!("{}\n", one.path).as_bytes())?;
        }
    }
    if session.out.as_json {
        let folder = |(one, opened): (&&One, &bool)| {
            let run = run_id(one.experiment, one.run);
            object!(one => id: one.experiment, run: run, path, opened: opened)
        };
        let folders: Vec<_> = there.iter().zip(&opened).map(folder).collect();
        let document = json!({"folders": folders, "why_not": why_not});
        session.out.json(&json::document(document))?;
    } else if let (Some(why), false) = (&why_not, there.is_empty()) {
        session.out.note(&format!("not opened: {why}"));
    }
    Ok(code::ok_if(!there.is_empty()))
}

/// Why there is no desktop here.
pub fn no_desktop() -> Option<String> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        return None;
    }
    Some("there is no desktop here (neither DISPLAY nor WAYLAND_DISPLAY is set)".to_owned())
}

/// Opens a folder or an address; why it could not be opened.
pub async fn open(what: &str) -> Option<String> {
    let mut command = Command::new(OPENER);
    command.arg(what).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Err(error) => return Some(format!("{OPENER} cannot be started: {error}")),
        Ok(child) => child,
    };
    match tokio::time::timeout(TOLD, child.wait()).await {
        Ok(Ok(status)) if !status.success() => Some(format!("{OPENER} failed: {status}")),
        Ok(Err(error)) => Some(format!("{OPENER} failed: {error}")),
        // It shows the folder itself.
        Err(_) | Ok(Ok(_)) => None,
    }
}
