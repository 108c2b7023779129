//! `wait SEL`: 0 when everything picked finished, 1 when something did not.

use std::collections::BTreeMap;

use nero_model::safe::Safe;
use nero_wire::v1::{ExperimentView, NodeNotice, Selection, WaitRequest};
use serde_json::{Value, json};

use super::add::full_name;
use crate::args::Wait;
use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Stop, code};
use crate::say::{Out, json, text};
use crate::session::{Session, selection};

/// Does it.
pub async fn run(session: &mut Session, args: &Wait) -> Result<u8, Stop> {
    until_ended(session, selection(&args.picked), args.json.json).await
}

/// Waits, says how it ended, returns the exit code.
pub async fn until_ended(
    session: &mut Session,
    picked: Selection,
    as_json: bool,
) -> Result<u8, Stop> {
    let (ended, notices) = ended(session, picked).await?;
    let all_finished = ended.values().all(|view| view.state == "finished");
    if as_json {
        let views: Vec<_> = ended.values().map(json::experiment).collect();
        session.out.json(&json::document(json!({
            "experiments": views,
            "finished": all_finished,
            "notices": notices.iter().map(notice_json).collect::<Vec<_>>(),
        })))?;
    } else {
        let views: Vec<&ExperimentView> = ended.values().collect();
        session.out.text(&as_text(&views))?;
    }
    Ok(if all_finished { code::OK } else { code::FAILED })
}

/// What ended, by experiment and run.
type Ended = BTreeMap<(u64, u32), ExperimentView>;

/// Follows the daemon's events to the end, and says at once when a node that
/// carries what is waited for goes out of reach or is back. After a lost
/// connection it asks anew and is told of everything once more.
async fn ended(session: &mut Session, picked: Selection) -> Result<(Ended, Vec<NodeNotice>), Stop> {
    let asked = WaitRequest {
        selection: Some(picked),
        settle: false,
    };
    let out = Out {
        screen: session.out.screen,
    };
    let progress = out.screen.can_ask;
    let mut ended = BTreeMap::new();
    let mut notices: Vec<NodeNotice> = Vec::new();
    'asking: loop {
        let client = session.client().await?;
        let mut events = client
            .call(READ_DEADLINE, asked.clone(), async |man, request| {
                man.wait(request).await
            })
            .await?;
        loop {
            match client.next(&mut events).await? {
                Next::Message(event) => {
                    for view in event.ended {
                        ended.insert((view.id, view.run), view);
                    }
                    if let Some(notice) = event.notice.filter(|one| is_news(one, &notices)) {
                        if progress {
                            super::watch::clear_progress();
                        }
                        out.note(&notice_text(&notice));
                        notices.push(notice);
                    }
                    if progress && event.still_live > 0 {
                        super::watch::progress(ended.len(), event.still_live);
                    }
                    if event.done {
                        break 'asking;
                    }
                }
                Next::End => break 'asking,
                Next::Lost => continue 'asking,
            }
        }
    }
    if progress {
        super::watch::clear_progress();
    }
    Ok((ended, notices))
}

/// Whether it says something else of its node than what was said last.
fn is_news(notice: &NodeNotice, said: &[NodeNotice]) -> bool {
    let last = said.iter().rfind(|one| one.node == notice.node);
    notice.back != last.is_none_or(|last| last.back)
}

/// `node h1 is out of reach since 08:24:13 (no route), its 2 runs are not seen`.
fn notice_text(notice: &NodeNotice) -> String {
    let mut said = format!("note: node {} is ", notice.node);
    said.push_str(if notice.back { "back" } else { "out of reach" });
    match (notice.since_ms, notice.back) {
        (0, _) => {}
        (at, true) => said.push_str(&format!(
            ", nothing was heard since {}",
            text::local_time(at)
        )),
        (at, false) => said.push_str(&format!(" since {}", text::local_time(at))),
    }
    if !notice.why.is_empty() {
        said.push_str(&format!(" ({})", notice.why));
    }
    if !notice.back {
        let runs = usize::try_from(notice.runs).unwrap_or(usize::MAX);
        let are = if runs == 1 { "is" } else { "are" };
        said.push_str(&format!(
            "; {} there {are} not seen",
            text::plural(runs, "run")
        ));
    }
    Safe::line(&said).to_string()
}

fn notice_json(notice: &NodeNotice) -> Value {
    json!({
        "node": notice.node,
        "back": notice.back,
        "since": text::iso_time(notice.since_ms),
        "why": json::some(&notice.why),
        "runs": notice.runs,
    })
}

/// What did not finish, grouped, and the counts.
pub fn as_text(views: &[&ExperimentView]) -> String {
    let mut text = String::new();
    let mut groups: Vec<(String, Vec<&ExperimentView>)> = Vec::new();
    for view in views.iter().filter(|view| view.state != "finished") {
        let why = if view.reason.is_empty() {
            view.state.clone()
        } else {
            format!("{}: {}", view.state, view.reason)
        };
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, those)) => those.push(view),
            None => groups.push((why, vec![view])),
        }
    }
    for (why, those) in groups {
        let ids: Vec<u64> = those.iter().map(|view| view.id).collect();
        let which = match those.as_slice() {
            [only] => format!("{}  {}", only.id, full_name(&only.collection, &only.name)),
            _ => text::ids(&ids),
        };
        let line = format!("{which}  {why}");
        text.push_str(&format!("{}\n", nero_model::safe::Safe::line(&line)));
    }
    let counts = text::count(views.iter().map(|view| view.state.as_str()));
    let counts: Vec<String> = counts
        .iter()
        .map(|(count, word)| format!("{word} {count}"))
        .collect();
    let line = if counts.is_empty() {
        "the selector picks nothing".to_owned()
    } else {
        counts.join(" · ")
    };
    text.push_str(&format!("{}\n", nero_model::safe::Safe::line(&line)));
    text
}
