//! `note SEL TEXT` and `tag SEL +a -b`: what a person says of experiments.

use nero_model::safe::Safe;
use nero_views::{object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AnnotateReply, AnnotateRequest};

use crate::args::{Note, Tag};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, request, selection};

/// Runs `note`.
pub async fn note(session: &mut Session, args: &Note) -> Result<u8, Stop> {
    let asked = AnnotateRequest {
        request: request(),
        selection: Some(selection(std::slice::from_ref(&args.picked))),
        note: Some(args.text.join(" ")),
        dry_run: args.trial.dry_run,
        ..AnnotateRequest::default()
    };
    let reply = session.change(asked, ManClient::annotate).await?;
    let done = if args.text.iter().all(|word| word.trim().is_empty()) {
        "note removed from"
    } else {
        "noted at"
    };
    print(session, &reply, done, args.trial.dry_run)
}

/// Runs `tag`.
pub async fn tag(session: &mut Session, args: &Tag) -> Result<u8, Stop> {
    let (add_tags, remove_tags) = signed(&args.tags)?;
    let asked = AnnotateRequest {
        request: request(),
        selection: Some(selection(std::slice::from_ref(&args.picked))),
        add_tags,
        remove_tags,
        dry_run: args.trial.dry_run,
        ..AnnotateRequest::default()
    };
    let reply = session.change(asked, ManClient::annotate).await?;
    print(session, &reply, "retagged", args.trial.dry_run)
}

/// The tags to add and those to take away.
fn signed(tags: &[String]) -> Result<(Vec<String>, Vec<String>), Fault> {
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    for tag in tags {
        if let Some(tag) = tag.strip_prefix('+') {
            add.push(tag.to_owned());
        } else if let Some(tag) = tag.strip_prefix('-') {
            remove.push(tag.to_owned());
        } else {
            let fault = Fault::usage(format!("`{tag}` has no sign"));
            return Err(fault.hint(format!("`+{tag}` adds the tag, `-{tag}` takes it away")));
        }
    }
    Ok((add, remove))
}

fn print(session: &Session, reply: &AnnotateReply, done: &str, dry_run: bool) -> Result<u8, Stop> {
    let fields = || {
        object!(reply =>
            experiments: [one => id: one.experiment, name, note?, tags, changed],
            notes, dry_run: dry_run,
        )
    };
    let text = || line(reply, done, dry_run);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::ok_if(!reply.experiments.is_empty()))
}

/// The one line for eyes; of one experiment with what it has now.
fn line(reply: &AnnotateReply, done: &str, dry_run: bool) -> String {
    let changed = reply.experiments.iter().filter(|one| one.changed);
    let ids: Vec<u64> = changed.map(|one| one.experiment).collect();
    let would = if dry_run { "would be " } else { "" };
    let mut line = format!("{would}{done} {}", ids.len());
    if !ids.is_empty() {
        line.push_str(&format!(": {}", text::ids(&ids)));
    }
    match reply.experiments.len() - ids.len() {
        0 => {}
        same => line.push_str(&format!(" · unchanged {same}")),
    }
    if let [one] = reply.experiments.as_slice() {
        if !one.tags.is_empty() {
            line.push_str(&format!(" · tags: {}", one.tags.join(" ")));
        }
        if !one.note.is_empty() {
            line.push_str(&format!(" · note: {}", one.note));
        }
    }
    if reply.experiments.is_empty() && reply.notes.is_empty() {
        line.push_str(" · the selector picks nothing");
    }
    format!("{}\n", Safe::line(&line))
}
