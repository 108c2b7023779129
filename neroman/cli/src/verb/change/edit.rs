//! `set SEL k=v…` and `copy ID NAME`: values in place of the source's, and copies.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{Assignment, EditReply, EditRequest};

use crate::args::{Copy, Set};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, request, selection};

/// Experiments that are listed one by one.
const LISTED_MAX: usize = 20;

/// Runs `set`.
pub async fn set(session: &mut Session, args: &Set) -> Result<u8, Stop> {
    if args.values.is_empty() && args.unset.is_empty() {
        let fault = Fault::usage("nothing to set");
        let hint = "neroman set SEL lr=0.1 resources.memory=8G, or --unset lr";
        return Err(fault.hint(hint).into());
    }
    let asked = EditRequest {
        request: request(),
        selection: Some(selection(std::slice::from_ref(&args.picked))),
        set: assignments(&args.values)?,
        unset: args.unset.clone(),
        dry_run: args.trial.dry_run,
        ..EditRequest::default()
    };
    let reply = session.change(asked, ManClient::edit).await?;
    let done = if args.trial.dry_run {
        "would set"
    } else {
        "set"
    };
    print(session, &reply, done, args.trial.dry_run)
}

/// Runs `copy`.
pub async fn copy(session: &mut Session, args: &Copy) -> Result<u8, Stop> {
    let asked = EditRequest {
        request: request(),
        selection: Some(selection(std::slice::from_ref(&args.picked))),
        set: assignments(&args.set)?,
        copy_as: args.name.clone(),
        dry_run: args.trial.dry_run,
        ..EditRequest::default()
    };
    let reply = session.change(asked, ManClient::edit).await?;
    let done = if args.trial.dry_run {
        "would copy to"
    } else {
        "copied to"
    };
    print(session, &reply, done, args.trial.dry_run)
}

/// Reads `k=v`.
pub fn assignments(words: &[String]) -> Result<Vec<Assignment>, Fault> {
    let one = |word: &String| match word.split_once('=') {
        Some((key, text)) if !key.trim().is_empty() => Ok(Assignment {
            key: key.trim().to_owned(),
            text: text.to_owned(),
        }),
        Some(_) | None => {
            let fault = Fault::usage(format!("`{word}` is no KEY=VALUE"));
            Err(fault.hint("such as lr=0.1, node=local or resources.memory=8G"))
        }
    };
    words.iter().map(one).collect()
}

fn print(session: &Session, reply: &EditReply, done: &str, dry_run: bool) -> Result<u8, Stop> {
    let fields = || {
        object!(reply =>
            experiments: [one =>
                id: one.experiment, name, changes, overrides: json::overrides(&one.overrides)
            ],
            notes, dry_run: dry_run,
        )
    };
    let text = || as_text(reply, done);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::ok_if(!reply.experiments.is_empty()))
}

fn as_text(reply: &EditReply, done: &str) -> String {
    let mut shown = String::new();
    for one in reply.experiments.iter().take(LISTED_MAX) {
        let own = one.overrides.iter();
        let own: Vec<String> = own.map(|one| format!("{}={}", one.key, one.text)).collect();
        let what = match (one.changes.as_slice(), own.as_slice()) {
            ([], []) => "as in its source".to_owned(),
            ([], own) => own.join(", "),
            (changes, _) => changes.join(", "),
        };
        let line = format!("{}  {}  {what}", one.experiment, one.name);
        shown.push_str(&format!("{}\n", Safe::line(&line)));
    }
    let more = reply.experiments.len().saturating_sub(LISTED_MAX);
    if more > 0 {
        shown.push_str(&format!("and {more} more\n"));
    }
    let ids: Vec<u64> = reply.experiments.iter().map(|one| one.experiment).collect();
    shown.push_str(&format!("{done} {}", text::plural(ids.len(), "experiment")));
    match ids.as_slice() {
        [] if reply.notes.is_empty() => shown.push_str(" · the selector picks nothing"),
        [] => {}
        ids => shown.push_str(&format!(": {}", text::ids(ids))),
    }
    shown.push('\n');
    shown
}
