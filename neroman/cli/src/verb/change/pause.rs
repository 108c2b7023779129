//! `pause SEL` and `resume SEL`: stop live runs for a while, and let them go on.

use nero_model::safe::Safe;
use nero_views::json::run_id;
use nero_views::object;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::pause_reply::{One, Outcome};
use nero_wire::v1::{PauseReply, PauseRequest};
use serde_json::Value;

use super::rehearsal::{ending, is_one_id, narrow, skips};
use crate::args::Pause;
use crate::fault::{Stop, code};
use crate::session::{Session, author, selection};

/// Which of the two verbs was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseChange {
    Pause,
    Resume,
}

impl PauseChange {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    fn done(self, dry_run: bool) -> String {
        if dry_run {
            format!("would {}", self.as_str())
        } else {
            format!("{}d", self.as_str())
        }
    }
}

pub async fn run(session: &mut Session, args: &Pause, which: PauseChange) -> Result<u8, Stop> {
    let mut asked = PauseRequest {
        selection: Some(selection(&args.picked)),
        resume: which == PauseChange::Resume,
        dry_run: args.trial.dry_run,
        author: author(),
    };
    if !args.yes && !args.trial.dry_run && !is_one_id(&args.picked) {
        let trial = PauseRequest {
            dry_run: true,
            ..asked.clone()
        };
        let reply = session.change(trial, ManClient::pause).await?;
        let (found, picked) = ((touched(&reply), reply.explicit), &mut asked.selection);
        if !narrow(&session.out, which.as_str(), "live run", found, picked).await? {
            return Ok(code::FAILED);
        }
    }
    let reply = session.change(asked, ManClient::pause).await?;
    let fields = || as_json(&reply, args.trial.dry_run);
    let text = || as_text(&reply, which, args.trial.dry_run);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::ok_if(with(&reply, Outcome::Failed).next().is_none()))
}

fn with(reply: &PauseReply, outcome: Outcome) -> impl Iterator<Item = &One> {
    let ones = reply.experiments.iter();
    ones.filter(move |one| one.outcome() == outcome)
}

/// The experiments that the verb touches.
fn touched(reply: &PauseReply) -> Vec<(u64, String)> {
    let done = with(reply, Outcome::Done);
    done.map(|one| (one.experiment, one.name.clone())).collect()
}

fn as_text(reply: &PauseReply, which: PauseChange, dry_run: bool) -> String {
    let skipped = with(reply, Outcome::Skipped).map(|one| (one.experiment, "", &*one.why));
    let (mut text, short) = skips(skipped);
    for one in with(reply, Outcome::Failed) {
        let run = format!("{}.{}", one.experiment, one.run);
        text.push_str(&format!("{run} failed: {}\n", Safe::line(&one.why)));
    }
    text.push_str(&format!("{} {}", which.done(dry_run), touched(reply).len()));
    let failed = with(reply, Outcome::Failed).count();
    if failed > 0 {
        text.push_str(&format!(" · failed {failed}"));
    }
    let is_unexplained = reply.experiments.is_empty() && reply.notes.is_empty();
    text.push_str(&ending(&short, is_unexplained));
    text
}

fn as_json(reply: &PauseReply, dry_run: bool) -> Value {
    let word = |one: &One| match one.outcome() {
        Outcome::Unspecified => "",
        Outcome::Done => "done",
        Outcome::Skipped => "skipped",
        Outcome::Failed => "failed",
    };
    object!(reply =>
        experiments: [one =>
            id: one.experiment, name, run: run_id(one.experiment, one.run), outcome: word(one), why?
        ],
        touched: touched(reply).len(),
        notes, dry_run: dry_run,
    )
}
