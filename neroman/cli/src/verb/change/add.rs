//! `add PATH…`: registers experiments, prints what changed for each, and ends
//! with the next command to type.

use std::io::{self, Read as _};

use nero_model::safe::Safe;
use nero_views::{object, text};
use nero_wire::v1::add_reply::One;
use nero_wire::v1::add_reply::one::What;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AddReply, AddRequest, FolderTaken};
use serde_json::{Value, json};

use crate::args::Add;
use crate::connect::{Change, for_jobs};
use crate::fault::{Fault, Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell};
use crate::session::{Session, absolute, request};

/// More lines than this are counted instead.
const LINES_MAX: usize = 20;
/// Most bytes of rows on standard input, less than one message may have.
const ROWS_BYTES_MAX: u64 = 2 << 20;

pub async fn run(session: &mut Session, args: &Add) -> Result<u8, Stop> {
    let (rows, folder) = match args.paths.as_slice() {
        [one] if one == "-" => (rows()?, absolute(".")?),
        paths if paths.iter().any(|one| one == "-") => {
            let fault = Fault::usage("`-`, rows on standard input, stands beside other paths");
            return Err(fault.hint("add them one after the other").into());
        }
        _ => (Vec::new(), String::new()),
    };
    let paths = args.paths.iter().filter(|path| *path != "-");
    let paths = paths.map(|path| absolute(path));
    let request = AddRequest {
        request: request(),
        paths: paths.collect::<Result<_, _>>()?,
        command: args.command.clone().unwrap_or_default(),
        block: args.to.clone().unwrap_or_default(),
        rows,
        rows_folder: folder,
        shell: for_jobs(),
        dry_run: args.trial.dry_run,
        with: match &args.with {
            Some(with) => absolute(with)?,
            None => String::new(),
        },
        offset: args.offset,
        node: String::new(),
    };
    let client = session.client().await?;
    let reply = client.change(Change::Last, request, ManClient::add).await?;
    let out = &session.out;
    let notes = [reply.notes.clone(), taken(&reply.folders)].concat();
    let text = || as_text(&out.screen, &reply, args.trial.dry_run);
    out.reply(&notes, || as_json(&reply, args.trial.dry_run), text)?;
    Ok(code::OK)
}

/// The rows on standard input.
fn rows() -> Result<Vec<String>, Fault> {
    let text = io::read_to_string(io::stdin().lock().take(ROWS_BYTES_MAX + 1))
        .map_err(|error| Fault::usage("cannot read rows from standard input").because(&error))?;
    let rows: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    let rows: Vec<String> = rows.into_iter().filter(|row| !row.is_empty()).collect();
    if text.len() as u64 > ROWS_BYTES_MAX {
        let size = nero_model::units::print_bytes(ROWS_BYTES_MAX);
        let what = format!("the rows on standard input are larger than {size}");
        return Err(Fault::usage(what).hint("put them into a .jsonl file and add that"));
    }
    if rows.is_empty() {
        Err(Fault::usage("standard input has no row").hint("a row is a line such as {\"lr\": 0.1}"))
    } else {
        Ok(rows)
    }
}

fn change_name(what: What) -> &'static str {
    match what {
        What::Added => "added",
        What::Changed => "changed",
        What::Same => "same",
        What::Gone => "gone",
        What::Hidden => "removed",
        What::Unspecified => "unknown",
    }
}

/// The lines for eyes: changed experiments in full, new ones by name if they
/// are few, unchanged ones as a count.
pub fn as_text(screen: &Screen, reply: &AddReply, dry_run: bool) -> String {
    let mut text = String::new();
    let order = [
        What::Added,
        What::Changed,
        What::Gone,
        What::Unspecified,
        What::Same,
        What::Hidden,
    ];
    for wanted in order {
        let those = reply.experiments.iter().filter(|one| one.what() == wanted);
        let told = those.filter(|one| wanted != What::Same || !one.notes.is_empty());
        text.push_str(&lines(screen, &told.collect::<Vec<_>>()));
    }
    let counts = text::count(reply.experiments.iter().map(|one| change_name(one.what())));
    let counts = text::join(
        counts.iter().map(|(count, word)| format!("{word} {count}")),
        " · ",
    );
    let begin = if dry_run { "would have: " } else { "" };
    if counts.is_empty() {
        text.push_str("nothing found\n");
    } else {
        text.push_str(&format!("{begin}{counts}\n"));
    }
    if !reply.range.is_empty() && !dry_run {
        text.push_str(&format!(
            "next: neroman start {}\n",
            Safe::line(&reply.range)
        ));
    }
    text
}

fn lines(screen: &Screen, those: &[&One]) -> String {
    if those.is_empty() {
        return String::new();
    }
    let row = |one: &&One| {
        let mut said = one.changes.clone();
        said.extend(one.notes.iter().cloned());
        vec![
            Cell::text(change_name(one.what())),
            Cell::whole(one.experiment),
            Cell::text(&text::full_name(&one.collection, &one.name)),
            Cell::text(&said.join("; ")),
        ]
    };
    let rows: Vec<Vec<Cell>> = those.iter().take(LINES_MAX).map(row).collect();
    // Changed experiments are never left out for want of width.
    let wide = Screen {
        tty: false,
        ..*screen
    };
    let header = vec![String::new(); 4];
    let (mut text, _) = table::print(&wide, &header, &rows);
    if those.len() > LINES_MAX {
        let (word, more) = (change_name(those[0].what()), those.len() - LINES_MAX);
        text.push_str(&format!("{word} … and {more} more\n"));
    }
    text
}

/// One line per folder: what travels with its runs, and what does not.
pub fn taken(folders: &[FolderTaken]) -> Vec<String> {
    let line = |one: &FolderTaken| {
        let files = text::plural(one.files, "file");
        let mut line = format!("each run takes {files} along, {}", text::bytes(one.bytes));
        if folders.len() > 1 {
            line = format!("{}: {line}", one.folder);
        }
        if !one.left_out.is_empty() {
            line.push_str(&format!("; leaves out {}", one.left_out.join(", ")));
        }
        line
    };
    folders.iter().map(line).collect()
}

/// The same as JSON.
pub fn taken_json(folders: &[FolderTaken]) -> Value {
    let one = |one: &FolderTaken| object!(one => folder, files, bytes, left_out);
    folders.iter().map(one).collect()
}

fn as_json(reply: &AddReply, dry_run: bool) -> Value {
    let mut fields = object!(reply =>
        experiments: [one =>
            id: one.experiment, name, collection?, what: change_name(one.what()), changes, notes
        ],
        notes, range?,
        folders: taken_json(&reply.folders),
        dry_run: dry_run,
    );
    if !reply.rows.is_empty() {
        fields["rows"] = json!(reply.rows);
    }
    fields
}
