//! `wait SEL`: 0 when everything picked finished, 1 when something did not.

use std::collections::{BTreeMap, BTreeSet};

use nero_model::Phase;
use nero_model::safe::Safe;
use nero_views::{json, object, text, totals};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, NodeNotice, Selection, WaitEvent, WaitRequest};
use tokio::sync::watch;

use super::listed::views;
use super::logs;
use crate::args::Wait;
use crate::connect::READ_DEADLINE;
use crate::fault::{Stop, code};
use crate::session::{Session, selection};

pub async fn run(session: &mut Session, args: &Wait) -> Result<u8, Stop> {
    if args.any {
        session.client().await?.edits("--any")?;
    }
    let picked = selection(&args.picked);
    let Some(timeout) = args.timeout else {
        let mut heard = WaitEvents::default();
        let progress = session.out.screen.can_ask;
        follow(session, picked, args.any, progress, &mut heard).await?;
        return print(session, &heard, false);
    };
    // The selector may pick other experiments later, as `running` does.
    let begun = views(session, picked.clone()).await?;
    let mut heard = WaitEvents::default();
    if timeout.is_zero() {
        // A look, whose result does not depend on the speed of an answer.
        let has_ended = |view: &ExperimentView| view.run != 0 && !is_live(view);
        let is_done = args.any && begun.iter().any(has_ended);
        let is_late = !is_done && begun.iter().any(is_live);
        let views = begun.into_iter();
        let views = views.filter(|view| !is_done || has_ended(view));
        heard.ended = views.map(|view| ((view.id, view.run), view)).collect();
        return print(session, &heard, is_late);
    }
    let progress = session.out.screen.can_ask;
    let following = follow(session, picked, args.any, progress, &mut heard);
    let is_late = tokio::time::timeout(timeout, following)
        .await
        .map_or(Ok(true), |ended| ended.map(|()| false))?;
    if is_late {
        if session.out.screen.can_ask {
            super::watch::clear_progress();
        }
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let within = nero_model::units::print_duration_ms(ms);
        let out = &session.out;
        out.note(&format!("note: not all have ended within {within}"));
        let open = begun
            .iter()
            .filter(|view| !heard.ended.contains_key(&(view.id, view.run)));
        let ids: Vec<u64> = open.map(|view| view.id).collect();
        let now = if ids.is_empty() {
            Vec::new()
        } else {
            views(session, selection(&[any_of(&ids)])).await?
        };
        for begun in begun {
            let key = (begun.id, begun.run);
            // If a newer run was made meanwhile, it is not the run that was waited
            // for.
            let same = |view: &&ExperimentView| (view.id, view.run) == key;
            let view = now.iter().find(same).unwrap_or(&begun);
            heard.ended.entry(key).or_insert_with(|| view.clone());
        }
    }
    print(session, &heard, is_late)
}

/// A selector of those of the experiments that still exist: an id that picks nothing
/// is a mistake, an expression that does is none.
fn any_of(ids: &[u64]) -> String {
    let ranges = text::ranges(ids).into_iter();
    let each = ranges.map(|(first, last)| format!("id>={first} && id<={last}"));
    text::join(each, ",")
}

/// Waits, prints how the selection ended, returns the exit code. `said` holds the
/// notes that were printed before.
pub async fn until_ended(
    session: &mut Session,
    picked: Selection,
    said: &[String],
) -> Result<u8, Stop> {
    let mut heard = WaitEvents {
        notes: said.to_vec(),
        ..WaitEvents::default()
    };
    let progress = session.out.screen.can_ask;
    follow(session, picked, false, progress, &mut heard).await?;
    print(session, &heard, false)
}

/// Waits until what is picked has ended; prints notes alone.
pub async fn to_end(session: &mut Session, picked: Selection) -> Result<(), Stop> {
    follow(session, picked, false, false, &mut WaitEvents::default()).await
}

/// The same, and prints meanwhile what the runs print. `runs` are the runs of the experiments
/// that `picked` picks.
pub async fn until_ended_with_logs(
    session: &mut Session,
    picked: Selection,
    runs: &BTreeMap<u64, String>,
) -> Result<u8, Stop> {
    let mut heard = WaitEvents::default();
    let (given_up, open) = watch::channel(BTreeSet::new());
    let names: Vec<String> = runs.values().cloned().collect();
    let mut beside = session.beside();
    let waiting = async {
        follow(&mut beside, picked, false, false, &mut heard).await?;
        // Runs that no node takes were given up: they have no log that could end.
        let left = heard.ended.values().filter(|view| is_live(view));
        let left = left.filter_map(|view| runs.get(&view.id).cloned());
        given_up.send_replace(left.collect());
        Ok(())
    };
    tokio::try_join!(logs::follow(session, &names, open), waiting)?;
    print(session, &heard, false)
}

fn print(session: &Session, heard: &WaitEvents, is_late: bool) -> Result<u8, Stop> {
    let ended = &heard.ended;
    // An experiment without a run has nothing to wait for; `wait all` counts the
    // others.
    let mut with_runs = ended.values().filter(|view| view.run != 0).peekable();
    let is_something = ended.is_empty() || with_runs.peek().is_some();
    let all_finished = is_something && with_runs.all(|view| view.state == "finished");
    let fields = || {
        object!(heard =>
            experiments: ended.values().map(json::experiment).collect::<Vec<_>>(),
            finished: all_finished, timed_out: is_late,
            notices: [one => node, back, since: text::iso_time(one.since_ms), why?, runs],
            notes,
        )
    };
    let text = || as_text(&ended.values().collect::<Vec<_>>());
    session.out.reply(&[], fields, text)?;
    Ok(code::ok_if(all_finished && !is_late))
}

fn is_live(view: &ExperimentView) -> bool {
    Phase::ALL
        .iter()
        .any(|phase| phase.as_str() == view.state && phase.is_live())
}

/// The events while waiting.
#[derive(Default)]
struct WaitEvents {
    /// The ends, by experiment and run.
    ended: BTreeMap<(u64, u32), ExperimentView>,
    /// Notices about nodes.
    notices: Vec<NodeNotice>,
    /// Notes about runs that no node takes.
    notes: Vec<String>,
}

/// Follows the daemon's events to the end. Prints at once when a node of a picked
/// run goes out of reach or is back, and when no node takes a run. After a lost
/// connection it asks anew and gets everything once more.
async fn follow(
    session: &mut Session,
    picked: Selection,
    any: bool,
    progress: bool,
    heard: &mut WaitEvents,
) -> Result<(), Stop> {
    let asked = WaitRequest {
        selection: Some(picked),
        settle: false,
        any,
    };
    let out = session.out;
    let clear = || {
        if progress {
            super::watch::clear_progress();
        }
    };
    let take = async |event: Option<WaitEvent>| {
        let event = event.unwrap_or_default();
        for view in event.ended {
            heard.ended.insert((view.id, view.run), view);
        }
        if let Some(notice) = event.notice.filter(|one| is_news(one, &heard.notices)) {
            clear();
            out.note(&notice_text(&notice));
            heard.notices.push(notice);
        }
        for note in event.notes {
            if !heard.notes.contains(&note) {
                clear();
                out.note(&format!("note: {}", Safe::line(&note)));
                heard.notes.push(note);
            }
        }
        if progress && event.still_live > 0 {
            super::watch::progress(heard.ended.len(), event.still_live);
        }
        Ok::<_, Stop>(!event.done)
    };
    session
        .each(READ_DEADLINE, asked, ManClient::wait, take)
        .await?;
    clear();
    Ok(())
}

/// Whether the notice differs from the last one about its node.
pub fn is_news(notice: &NodeNotice, said: &[NodeNotice]) -> bool {
    let last = said.iter().rfind(|one| one.node == notice.node);
    notice.back != last.is_none_or(|last| last.back)
}

/// `node h1 is out of reach since 08:24:13 (no route), its 2 runs are not seen`.
pub fn notice_text(notice: &NodeNotice) -> String {
    let mut said = format!("note: node {} is ", notice.node);
    said.push_str(if notice.back { "back" } else { "out of reach" });
    if notice.since_ms != 0 {
        said.push_str(if notice.back {
            ", nothing was heard"
        } else {
            ""
        });
        said.push_str(&format!(" since {}", text::local_time(notice.since_ms)));
    }
    if !notice.why.is_empty() {
        said.push_str(&format!(" ({})", notice.why));
    }
    if !notice.back {
        let are = if notice.runs == 1 { "is" } else { "are" };
        let runs = text::plural(notice.runs, "run");
        said.push_str(&format!("; {runs} there {are} not seen"));
    }
    Safe::line(&said).to_string()
}

/// The experiments that did not finish, grouped, and the counts.
pub fn as_text(views: &[&ExperimentView]) -> String {
    let mut text = String::new();
    let why = |view: &ExperimentView| {
        let hints = view.hints.iter().map(|hint| format!("; {hint}"));
        let hints: String = hints.collect();
        match text::why(&view.state, &view.reason, &view.stderr_line).as_str() {
            "" => format!("{}{hints}", view.state),
            why => format!("{}: {why}{hints}", view.state),
        }
    };
    let unfinished = views.iter().filter(|view| view.state != "finished");
    for (why, those) in text::grouped(unfinished.map(|view| (why(view), view))) {
        let ids: Vec<u64> = those.iter().map(|view| view.id).collect();
        let mut which = text::ids(&ids);
        if let [only] = those.as_slice() {
            let name = text::full_name(&only.collection, &only.name);
            which.push_str(&format!("  {name}"));
        }
        let line = format!("{which}  {why}");
        text.push_str(&format!("{}\n", Safe::line(&line)));
    }
    // A finished experiment may have warnings: its results may wait for room.
    for group in totals::of(views.iter().copied()).warnings {
        let line = format!("warning {}: {}", group.ids, group.text);
        text.push_str(&format!("{}\n", Safe::line(&line)));
    }
    let counts = text::count(views.iter().map(|view| view.state.as_str()));
    let counts = text::join(
        counts.iter().map(|(count, word)| format!("{word} {count}")),
        " · ",
    );
    let line = if counts.is_empty() {
        "the selector picks nothing"
    } else {
        &counts
    };
    text + &format!("{}\n", Safe::line(line))
}
