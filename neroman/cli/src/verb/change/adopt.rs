//! `adopt NODE JOBID…`: takes jobs into the books that their owner submitted by hand.

use nero_model::safe::Safe;
use nero_views::{json, object};
use nero_wire::v1::adopt_reply::One;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AdoptReply, AdoptRequest};
use serde_json::Value;

use crate::args::Adopt;
use crate::connect::Change;
use crate::fault::{Stop, code};
use crate::session::Session;

/// What does not hold for a job that nothing of ours started.
const LIMITS: &str = "Nothing of Neronet runs in an adopted job: there is no limit of ours, no CPU or \
memory is measured, and its files stay where they are. Its end is what the scheduler tells; \
`abort` cancels it there. Metrics and rules see its log while an agent is on the login node.";

pub async fn run(session: &mut Session, args: &Adopt) -> Result<u8, Stop> {
    let asked = AdoptRequest {
        node: args.node.clone(),
        jobs: args.jobs.clone(),
        log: args.log.clone().unwrap_or_default(),
    };
    let client = session.client().await?;
    let reply = client.change(Change::Last, asked, ManClient::adopt).await?;
    let notes = notes(&reply);
    let fields = || as_json(&reply, &notes);
    session.out.reply(&[], fields, || as_text(&reply))?;
    if !session.out.as_json {
        session.out.notes(&notes);
    }
    let refused = reply.jobs.iter().any(|one| !one.problem.is_empty());
    Ok(code::ok_if(!refused))
}

fn notes(reply: &AdoptReply) -> Vec<String> {
    let mut notes = Vec::new();
    let is_new = |one: &One| one.problem.is_empty() && !one.known;
    if reply.jobs.iter().any(is_new) {
        notes.push(LIMITS.to_owned());
        if reply.no_accounting {
            notes.push(format!(
                "{} has no accounting there: an end that its queue does not show stays unknown.",
                reply.scheduler
            ));
        }
    }
    notes
}

fn as_text(reply: &AdoptReply) -> String {
    let line = |one: &One| {
        let (asked, name) = (Safe::line(&one.asked), Safe::line(&one.name));
        if !one.problem.is_empty() {
            let hint = match &*one.hint {
                "" => String::new(),
                hint => format!("\n  {}", Safe::line(hint)),
            };
            let why = Safe::line(&one.problem);
            return format!("job {asked} not adopted: {why}{hint}\n");
        }
        let (job, id) = (Safe::line(&one.job), one.experiment);
        if one.known {
            return format!("job {job} was adopted before: {id} {name}\n");
        }
        let log = match (&*one.log, &*one.no_log) {
            ("", "") => "without a log: `--log PATH` names one".to_owned(),
            ("", why) => format!("without a log: {}; `--log PATH` names one", Safe::line(why)),
            (log, _) => format!("log {}", Safe::line(log)),
        };
        format!("job {job} adopted: {id} {name}\n  {log}\n")
    };
    reply.jobs.iter().map(line).collect()
}

fn as_json(reply: &AdoptReply, notes: &[String]) -> Value {
    let outcome = |one: &One| match (&*one.problem, one.known) {
        ("", false) => "adopted",
        ("", true) => "known",
        (_, _) => "refused",
    };
    let is_there = |one: &One| one.problem.is_empty();
    object!(reply =>
        jobs: [one =>
            job: one.asked,
            outcome: outcome(one),
            why: json::some(&one.problem),
            id: is_there(one).then_some(one.experiment),
            name?,
            run: is_there(one).then(|| json::run_id(one.experiment, one.run)),
            log?,
        ],
        scheduler?, notes: notes,
    )
}
