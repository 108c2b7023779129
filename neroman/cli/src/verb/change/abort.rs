//! `abort SEL`: ends live runs and takes queued ones away. With more than one
//! experiment it lists them and asks; it aborts exactly the listed ones.

use nero_model::safe::Safe;
use nero_views::json::run_id;
use nero_views::{object, text};
use nero_wire::v1::abort_reply::{One, Outcome};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AbortReply, AbortRequest};
use serde_json::Value;

use super::rehearsal::{ending, is_one_id, narrow, skips};
use crate::args::Abort;
use crate::fault::{Stop, code};
use crate::session::{Session, author, request, selection};

pub async fn run(session: &mut Session, args: &Abort) -> Result<u8, Stop> {
    let mut asked = AbortRequest {
        request: request(),
        selection: Some(selection(&args.picked)),
        grace_ms: args.grace.unwrap_or(0),
        signal: args.signal.unwrap_or(0),
        dry_run: args.trial.dry_run,
        author: author(),
    };
    if !args.yes && !args.trial.dry_run && !is_one_id(&args.picked) {
        let trial = AbortRequest {
            request: request(),
            dry_run: true,
            ..asked.clone()
        };
        let reply = session.change(trial, ManClient::abort).await?;
        let (found, picked) = ((touched(&reply), reply.explicit), &mut asked.selection);
        if !narrow(&session.out, "abort", "live run", found, picked).await? {
            return Ok(code::FAILED);
        }
    }
    let reply = session.change(asked, ManClient::abort).await?;
    let fields = || as_json(&reply, args.trial.dry_run);
    let text = || as_text(&reply, args.trial.dry_run);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::OK)
}

/// Ends one run that the person has already been asked about.
///
/// # Errors
/// The daemon refuses, or is not there.
pub async fn abort_run(session: &mut Session, picked: &str) -> Result<(), Stop> {
    let asked = AbortRequest {
        request: request(),
        selection: Some(selection(&[picked.to_owned()])),
        author: author(),
        ..AbortRequest::default()
    };
    let reply = session.change(asked, ManClient::abort).await?;
    session.out.text(&as_text(&reply, false))
}

/// The experiments that an abort touches.
pub fn touched(reply: &AbortReply) -> Vec<(u64, String)> {
    let touched = reply.experiments.iter();
    let touched = touched.filter(|one| one.became() != Outcome::Skipped);
    touched
        .map(|one| (one.experiment, one.name.clone()))
        .collect()
}

/// The lines for eyes.
pub fn as_text(reply: &AbortReply, dry_run: bool) -> String {
    let with = |outcome: Outcome| {
        let those = reply.experiments.iter();
        those.filter(move |one| one.became() == outcome)
    };
    let skipped = with(Outcome::Skipped).map(|one| (one.experiment, "", &*one.why));
    let (mut text, short) = skips(skipped);
    let begin = if dry_run { "would abort" } else { "aborted" };
    let unconfirmed = unconfirmed(reply);
    let confirmed = with(Outcome::Asked).count() - unconfirmed.len();
    if unconfirmed.is_empty() || confirmed > 0 {
        text.push_str(&format!("{begin} {confirmed}"));
    }
    if !unconfirmed.is_empty() {
        let between = if confirmed > 0 { " · " } else { "" };
        text.push_str(&format!("{between}asked {}", unconfirmed.len()));
    }
    // An older daemon gives the word alone.
    for outcome in [Outcome::TakenAway, Outcome::GivenUp, Outcome::Unspecified] {
        for (count, word) in text::count(with(outcome).map(|one| &*one.outcome)) {
            text.push_str(&format!(" · {} {count}", Safe::line(&word)));
        }
    }
    let is_unexplained = reply.experiments.is_empty() && reply.notes.is_empty();
    text.push_str(&ending(&short, is_unexplained));
    for one in unconfirmed {
        let run = format!("{}.{}", one.experiment, one.run);
        text.push_str(&format!("  {run} {}: {}\n", one.name, one.why));
    }
    text
}

/// Runs that were told to end and whose nodes have not confirmed it.
fn unconfirmed(reply: &AbortReply) -> Vec<&One> {
    let asked = |one: &&One| one.became() == Outcome::Asked && !one.why.is_empty();
    reply.experiments.iter().filter(asked).collect()
}

fn as_json(reply: &AbortReply, dry_run: bool) -> Value {
    object!(reply =>
        experiments: [one =>
            id: one.experiment, name, run: run_id(one.experiment, one.run), outcome, why?
        ],
        touched: touched(reply).len(),
        notes, dry_run: dry_run,
    )
}
