//! `fetch [SEL]`: files of runs, now.

use std::collections::BTreeMap;

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::fetch_event::{Event, One};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{FetchEvent, FetchRequest};
use serde_json::{Value, json};

use crate::args::Fetch;
use crate::connect::{AwaitedNodes, CHANGE_DEADLINE, Next};
use crate::fault::{Stop, code};
use crate::say::progress::Meter;
use crate::session::{Session, refuse_empty, selection};

/// Runs the verb. A call that is repeated after a lost connection finds the
/// files that came home before.
pub async fn run(session: &mut Session, args: &Fetch) -> Result<u8, Stop> {
    refuse_empty(&args.picked)?;
    let asked = FetchRequest {
        selection: Some(selection(&args.picked)),
        include: args.include.clone(),
        dry_run: args.trial.dry_run,
    };
    let mut done: BTreeMap<(u64, u32), One> = BTreeMap::new();
    'asking: loop {
        let out = session.out;
        let mut meter = Meter::new();
        let mut notes = Vec::new();
        let whose = match args.picked.as_slice() {
            [] => AwaitedNodes::All,
            picked => AwaitedNodes::Picked(selection(picked)),
        };
        let mut silence = session.silence(whose).await?;
        let client = session.client().await?;
        let mut events = client
            .call(CHANGE_DEADLINE, asked.clone(), ManClient::fetch)
            .await?;
        loop {
            match silence.over(client.next(&mut events)).await? {
                Next::Message(FetchEvent { event: None }) => {}
                Next::Message(FetchEvent { event: Some(event) }) => match event {
                    Event::Progress(progress) => meter.show(&progress),
                    Event::Note(note) => notes.push(note),
                    Event::Done(one) => {
                        meter.clear();
                        // After a lost connection every run is reported once
                        // more.
                        let run = (one.experiment, one.run);
                        if done.get(&run).is_some_and(|known| known.failed.is_empty()) {
                            continue;
                        }
                        if !out.as_json {
                            out.text(&line(&one, args.trial.dry_run))?;
                        }
                        done.insert(run, one);
                    }
                },
                Next::Lost => continue 'asking,
                Next::End => break,
            }
        }
        meter.clear();
        let done: Vec<One> = done.into_values().collect();
        let fields = || as_json(&done, &notes, args.trial.dry_run);
        out.reply(&notes, fields, || counts(&done, args.trial.dry_run))?;
        return Ok(ended(&done, !args.include.is_empty()));
    }
}

/// The exit code. A run that failed makes the whole fail, and so does a pattern
/// that fits no file of any run. The daemon itself reports nodes out of reach.
fn ended(done: &[One], named: bool) -> u8 {
    let nothing_fits =
        !done.is_empty() && done.iter().all(|one| one.files == 0 && one.unchanged == 0);
    let failed = done.iter().filter(|one| !one.failed.is_empty());
    match code::of_failures(failed.map(|one| one.away)) {
        code::OK if named && nothing_fits => code::FAILED,
        ended => ended,
    }
}

fn line(one: &One, dry_run: bool) -> String {
    let run = format!("{}.{}", one.experiment, one.run);
    let mut said = if one.failed.is_empty() {
        let verb = if dry_run { "would fetch" } else { "fetched" };
        let (files, bytes) = (text::plural(one.files, "file"), text::bytes(one.bytes));
        let mut line = format!("{run}  {verb} {files}, {bytes}");
        if one.unchanged > 0 {
            line.push_str(&format!(" · {} unchanged", one.unchanged));
        }
        if !one.folder.is_empty() {
            line.push_str(&format!("  {}", Safe::line(&one.folder)));
        }
        line + "\n"
    } else {
        format!("{run}  failed: {}\n", Safe::line(&one.failed))
    };
    for note in &one.notes {
        said.push_str(&format!("  note: {}\n", Safe::line(note)));
    }
    said
}

fn counts(done: &[One], dry_run: bool) -> String {
    let failed = done.iter().filter(|one| !one.failed.is_empty()).count();
    let sum = |of: fn(&One) -> u64| done.iter().map(of).sum::<u64>();
    let verb = if dry_run { "would fetch" } else { "fetched" };
    let files = text::plural(sum(|one| one.files), "file");
    let bytes = text::bytes(sum(|one| one.bytes));
    let runs = text::plural(done.len() - failed, "run");
    let mut said = format!("{verb} {files}, {bytes} of {runs}");
    if failed > 0 {
        said.push_str(&format!(" · failed {failed}"));
    }
    if done.is_empty() {
        said.push_str(" · no run was picked");
    }
    said + "\n"
}

fn as_json(done: &[One], notes: &[String], dry_run: bool) -> Value {
    let one = |one: &One| {
        object!(one =>
            id: one.experiment, run: json::run_id(one.experiment, one.run),
            folder?, files, bytes, unchanged, notes, failed?,
        )
    };
    let runs: Vec<_> = done.iter().map(one).collect();
    json!({"runs": runs, "notes": notes, "dry_run": dry_run})
}
