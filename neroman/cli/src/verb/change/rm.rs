//! `rm SEL`: hides experiments; `--undo` brings them back. With more than one
//! experiment it lists them and asks; it removes exactly the listed ones.

use nero_views::{object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{RemoveReply, RemoveRequest};

use super::rehearsal::{ending, is_one_id, narrow, skips};
use crate::args::Remove;
use crate::fault::{Stop, code};
use crate::session::{Session, request, selection};

pub async fn run(session: &mut Session, args: &Remove) -> Result<u8, Stop> {
    let mut asked = RemoveRequest {
        request: request(),
        selection: Some(selection(&args.picked)),
        undo: args.undo,
        dry_run: args.trial.dry_run,
    };
    if !args.yes && !args.trial.dry_run && !args.undo && !is_one_id(&args.picked) {
        let trial = RemoveRequest {
            request: request(),
            dry_run: true,
            ..asked.clone()
        };
        let reply = session.change(trial, ManClient::remove).await?;
        let (found, picked) = ((touched(&reply), reply.explicit), &mut asked.selection);
        if !narrow(&session.out, "remove", "experiment", found, picked).await? {
            return Ok(code::FAILED);
        }
    }
    let reply = session.change(asked, ManClient::remove).await?;
    let fields = || {
        object!(reply =>
            experiments: [one => id: one.experiment, name, skipped?],
            touched: touched(&reply).len(),
            notes, undo: args.undo, dry_run: args.trial.dry_run,
        )
    };
    let text = || as_text(&reply, args);
    session.out.reply(&reply.notes, fields, text)?;
    let done = !touched(&reply).is_empty() || args.trial.dry_run;
    Ok(code::ok_if(done))
}

fn touched(reply: &RemoveReply) -> Vec<(u64, String)> {
    let ones = reply.experiments.iter();
    ones.filter(|one| one.skipped.is_empty())
        .map(|one| (one.experiment, one.name.clone()))
        .collect()
}

/// The lines for eyes.
fn as_text(reply: &RemoveReply, args: &Remove) -> String {
    let skipped = reply.experiments.iter();
    let skipped = skipped.filter(|one| !one.skipped.is_empty());
    let skipped = skipped.map(|one| (one.experiment, &*one.skipped_as, &*one.skipped));
    let (mut text, short) = skips(skipped);
    let ids: Vec<u64> = touched(reply).iter().map(|(id, _)| *id).collect();
    let done = match (args.undo, args.trial.dry_run) {
        (false, false) => "removed",
        (false, true) => "would remove",
        (true, false) => "brought back",
        (true, true) => "would bring back",
    };
    text.push_str(&format!("{done} {}", ids.len()));
    let is_unexplained = reply.experiments.is_empty() && reply.notes.is_empty();
    text.push_str(&ending(&short, is_unexplained));
    if !ids.is_empty() && !args.undo && !args.trial.dry_run {
        let ids = text::ids(&ids);
        text.push_str(&format!("for 30 days: neroman rm --undo {ids}\n"));
    }
    text
}
