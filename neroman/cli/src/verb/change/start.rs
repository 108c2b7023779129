//! `start SEL|PATH…`: makes runs, reports what was skipped and why. `restart`
//! shares this code except for its question.

use std::path::Path;

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::start_reply::One;
use nero_wire::v1::{BatchScript, StartReply, StartRequest};
use serde_json::Value;

use super::add::{taken, taken_json};
use super::rehearsal::{ending, skips};
use crate::args::{Launch, Start};
use crate::connect::{Change, for_jobs};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, absolute, exactly, request, selection};
use crate::verb::wait;

/// More started runs than this are only counted.
const NAMED_MAX: usize = 5;

pub async fn run(session: &mut Session, args: &Start) -> Result<u8, Stop> {
    session.goes_by_ssh();
    let (paths, selectors): (Vec<String>, Vec<String>) =
        args.picked.iter().cloned().partition(|word| is_path(word));
    for path in &paths {
        if !begins_as_path(path) {
            session.out.note(&format!(
                "note: `{path}` is read as the file or folder; name=… picks an experiment"
            ));
        }
    }
    let paths = paths.iter().map(|path| absolute(path));
    let asked = StartRequest {
        selection: (!selectors.is_empty()).then(|| selection(&selectors)),
        paths: paths.collect::<Result<_, _>>()?,
        ..asked(&args.launch)
    };
    launch(session, asked, &args.launch, "start", args.yes).await
}

/// A request with the options of both verbs.
pub fn asked(launch: &Launch) -> StartRequest {
    StartRequest {
        request: request(),
        node: launch.node.clone().unwrap_or_default(),
        dry_run: launch.dry_run,
        as_added: launch.as_added,
        shell: for_jobs(),
        at_most: launch.at_most.unwrap_or(0),
        big: launch.big,
        show_script: launch.show_script,
        pilot: launch.pilot,
        priority: launch.priority,
        order: launch.order.clone().unwrap_or_default(),
        ..StartRequest::default()
    }
}

/// Sends the request, prints the outcome, waits if `--wait` was given.
pub async fn launch(
    session: &mut Session,
    mut asked: StartRequest,
    launch: &Launch,
    verb: &str,
    yes: bool,
) -> Result<u8, Stop> {
    asked.may_ask = !yes && !launch.dry_run && session.out.screen.can_ask;
    let mut reply = send(session, asked.clone()).await?;
    if !reply.costs.is_empty() {
        session.out.note(&Safe::line(&reply.costs).to_string());
        if !session.out.ask(&format!("{verb} them?")).await? {
            session.out.note("nothing was done");
            return Ok(code::FAILED);
        }
        asked.may_ask = false;
        asked.request = request();
        reply = send(session, asked).await?;
    }
    print(session, &reply, launch.dry_run, verb)?;
    let started: Vec<u64> = started(&reply).map(|one| one.experiment).collect();
    if launch.dry_run {
        Ok(code::OK)
    } else if started.is_empty() {
        Ok(code::FAILED)
    } else if launch.wait {
        let picked = exactly(text::ids(&started));
        wait::until_ended(session, picked, &reply.notes).await
    } else {
        Ok(code::OK)
    }
}

pub async fn send(session: &mut Session, asked: StartRequest) -> Result<StartReply, Fault> {
    let client = session.client().await?;
    let started = client.change(Change::Last, asked, ManClient::start);
    started.await
}

/// Prints the outcome.
///
/// # Errors
/// When the output cannot be written.
pub fn print(session: &Session, reply: &StartReply, dry_run: bool, verb: &str) -> Result<(), Stop> {
    let notes = [reply.notes.clone(), taken(&reply.folders)].concat();
    let text = || scripts_as_text(reply) + &as_text(reply, dry_run, verb);
    let out = &session.out;
    out.reply(&notes, || as_json(reply, dry_run), text)
}

pub fn started(reply: &StartReply) -> impl Iterator<Item = &One> {
    reply
        .experiments
        .iter()
        .filter(|one| one.skipped.is_empty())
}

/// The lines for eyes.
fn as_text(reply: &StartReply, dry_run: bool, verb: &str) -> String {
    let mut text = String::new();
    let made: Vec<&One> = started(reply).collect();
    if made.len() <= NAMED_MAX {
        for one in &made {
            let name = Safe::line(&one.name);
            match json::run_id(one.experiment, one.run) {
                Some(run) => text.push_str(&format!("{run}  {name}\n")),
                None => text.push_str(&format!("{}  {name}\n", one.experiment)),
            }
        }
    }
    let skipped = reply.experiments.iter();
    let skipped = skipped.filter(|one| !one.skipped.is_empty());
    let done = match (verb, dry_run) {
        ("restart", false) => "restarted",
        ("restart", true) => "would restart",
        (_, false) => "started",
        (_, true) => "would start",
    };
    let (long, short) = skips(skipped.map(|one| (one.experiment, &*one.skipped_as, &*one.skipped)));
    let is_unexplained = reply.experiments.is_empty() && reply.notes.is_empty();
    let ending = ending(&short, is_unexplained);
    format!("{text}{long}{done} {}{ending}", made.len())
}

/// Each batch script as it would be submitted, below a line that tells whose it is.
fn scripts_as_text(reply: &StartReply) -> String {
    let mut all = String::new();
    for one in &reply.scripts {
        let runs = text::plural(one.experiments.len(), "run");
        let which = text::ids(&one.experiments);
        all.push_str(&format!("# {}: {runs} of {which}", Safe::line(&one.node)));
        let (command, script) = (Safe::line(&one.command), Safe::lines(&one.script));
        all.push_str(&match one.problem.as_str() {
            "" => format!(", the batch script of\n# {command}\n{script}\n"),
            why => format!(": {}\n\n", Safe::line(why)),
        });
    }
    all
}

fn script_as_json(one: &BatchScript) -> Value {
    object!(one => node, experiments, command?, script?, problem?)
}

fn as_json(reply: &StartReply, dry_run: bool) -> Value {
    let started = started(reply).count();
    let mut fields = object!(reply =>
        experiments: [one =>
            id: one.experiment, name, run: json::run_id(one.experiment, one.run), skipped?
        ],
        started: started,
        skipped: reply.experiments.len() - started,
        notes,
        folders: taken_json(&reply.folders),
        batch?, dry_run: dry_run,
    );
    if !reply.scripts.is_empty() {
        fields["scripts"] = reply.scripts.iter().map(script_as_json).collect();
    }
    fields
}

/// Whether an operand of `start` is a file or folder and no selector. A word
/// that looks like an id, a range or a word of the selector language never is.
fn is_path(word: &str) -> bool {
    if begins_as_path(word) {
        return true;
    }
    let is_ids = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b",-:.".contains(&byte));
    if is_ids {
        return false;
    }
    let path = Path::new(word);
    let describes = |name: &str| path.join(name).is_file();
    let ending = path.extension().and_then(|ending| ending.to_str());
    describes("neronet.yaml")
        || describes("config.yaml")
        || (path.is_file()
            && ending.is_some_and(|ending| {
                let described = [
                    "yaml", "yml", "xlsx", "xlsm", "xlsb", "xls", "ods", "csv", "tsv", "jsonl",
                ];
                let scripts = ["sh", "slurm", "sbatch", "sge", "job"];
                described.contains(&ending) || scripts.contains(&ending)
            }))
}

fn begins_as_path(word: &str) -> bool {
    word == "."
        || word == ".."
        || ["/", "./", "../", "~/"]
            .iter()
            .any(|begin| word.starts_with(begin))
}
