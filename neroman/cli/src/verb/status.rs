//! `status [SEL|nodes|NODE]`: the experiments or nodes. A table if it fits the
//! screen, else an overview.

use nero_views::columns::{self, Column};
use nero_views::{Fact, csv, json, totals, workbooks};
use nero_wire::v1::{ExperimentView, ListReply, ListRequest, Window};
use serde_json::{Value, json};

use super::listed::{Parts, list};
use super::on_node::{self, NamedNodes, may_name_nodes, note_namesake};
use super::{node, watch};
use crate::args::Status;
use crate::fault::{Fault, Stop, code};
use crate::say::experiments::as_table;
use crate::say::{Screen, VerbOutput, overview};
use crate::session::{Session, selection};

pub async fn run(session: &mut Session, args: &Status) -> Result<u8, Stop> {
    if args.picked == ["nodes"] {
        if args.watch || args.csv || args.sort.is_some() || !args.columns.is_empty() {
            return Err(Fault::usage("`status nodes` takes --json and nothing else").into());
        }
        return node::list(session).await;
    }
    if args.watch && args.picked.len() != 1 {
        return watch::run(session, args, &args.picked).await;
    }
    let mut reply = match found(session, args).await? {
        StatusSubject::Experiments(reply) => *reply,
        StatusSubject::Parts(parts) => {
            session.warn_of_broken_config();
            parts.print(session).await?;
            return Ok(code::OK);
        }
        StatusSubject::Nodes(named) if args.watch => {
            return watch::run(session, args, &[named.selector()]).await;
        }
        StatusSubject::Nodes(named) if args.csv => {
            let asked = asked(&session.out, args);
            list(session, selection(&[named.selector()]), asked).await?
        }
        StatusSubject::Nodes(named) => return on_set(session, &named, args, None).await,
    };
    if args.watch {
        return watch::run(session, args, &args.picked).await;
    }
    session.warn_of_broken_config();
    if session.out.as_json {
        let (views, _) = arranged(reply.experiments, args)?;
        session.out.json(&json::experiments(
            &views,
            &reply.notes,
            Some(&reply.workbooks),
            &reply.batches,
        ))?;
    } else if args.csv {
        session.out.notes(&reply.notes);
        let (views, chosen) = arranged(reply.experiments, args)?;
        let chosen = chosen.unwrap_or_else(|| columns::all(&views));
        let (header, rows) = columns::sheet(&chosen, &views);
        session.out.raw(&csv::print(&header, &rows))?;
    } else {
        let text = as_text(&session.out.screen, &mut reply, args)?;
        if !reply.nothing_set_up {
            session.out.notes(&reply.notes);
            let now_ms = jiff::Timestamp::now().as_millisecond();
            let books = workbooks::lines(&reply.workbooks, now_ms);
            session.out.notes(&books);
        }
        session.out.text(&text)?;
    }
    Ok(code::OK)
}

/// `node status`: as `status NAME`, also where an experiment has that name.
pub async fn of_node(session: &mut Session, name: &str) -> Result<u8, Stop> {
    let unknown = Fault::usage(format!("no node is called `{name}`"));
    let named = NamedNodes::find(session, name, unknown).await?;
    on_set(session, &named, &plainly(name), None).await
}

/// The options of `status NAME`.
pub fn plainly(name: &str) -> Status {
    Status {
        picked: vec![name.to_owned()],
        ..Status::default()
    }
}

/// Shows the nodes and the experiments there, with a further field for `--json`.
pub async fn on_set(
    session: &mut Session,
    named: &NamedNodes,
    args: &Status,
    more: Option<(&str, Value)>,
) -> Result<u8, Stop> {
    let mut reply = on_node::ask(session, false).await?;
    reply.nodes.retain(|node| named.nodes.contains(&node.name));
    reply
        .groups
        .retain(|name, group| *name == named.word || group.names.contains(&named.word));
    let asked = asked(&session.out, args);
    let mut there = list(session, selection(&[named.selector()]), asked).await?;
    session.warn_of_broken_config();
    if session.out.as_json {
        let (views, _) = arranged(there.experiments, args)?;
        let nodes: Vec<_> = reply.nodes.iter().map(json::node).collect();
        let views: Vec<_> = views.iter().map(json::experiment).collect();
        let mut document = json::document(json!({"nodes": nodes, "experiments": views}));
        if let Some((field, value)) = more {
            document[field] = value;
        }
        session.out.json(&document)?;
        return Ok(code::OK);
    }
    let mut screen = session.out.screen;
    let mut nodes = node::nodes_as_text(&screen, &reply);
    nodes.extend(reply.nodes.iter().map(node::usage_as_text));
    let lines = u16::try_from(nodes.lines().count() + 1).unwrap_or(u16::MAX);
    screen.height = screen.height.saturating_sub(lines);
    let experiments = if there.experiments.is_empty() {
        "no experiment runs there, ran there last, or waits for it\n".to_owned()
    } else {
        // A note that the selection picks nothing would name words that the
        // user did not type.
        there.notes.clear();
        as_text(&screen, &mut there, args)?
    };
    session.out.text(&format!("{nodes}\n{experiments}"))?;
    Ok(code::OK)
}

/// The things that the words name.
enum StatusSubject {
    Experiments(Box<ListReply>),
    /// The same, to be printed as they arrive.
    Parts(Box<Parts>),
    /// A node or a group, and no experiment.
    Nodes(NamedNodes),
}

async fn found(session: &mut Session, args: &Status) -> Result<StatusSubject, Stop> {
    // To sort or to lay out in columns takes the whole list.
    let is_whole = args.sort.is_some() || !args.columns.is_empty() || args.watch;
    let found = if session.out.as_json && !is_whole {
        Parts::open(session, &args.picked).await
    } else {
        Ok(None)
    };
    let found = match found {
        Ok(Some(parts)) => Ok(StatusSubject::Parts(Box::new(parts))),
        Ok(None) => list(session, selection(&args.picked), asked(&session.out, args))
            .await
            .map(|reply| StatusSubject::Experiments(Box::new(reply))),
        Err(fault) => Err(fault),
    };
    match found {
        Ok(found) => {
            note_namesake(session, &args.picked);
            Ok(found)
        }
        Err(fault) if fault.exit_code == code::USAGE => match args.picked.as_slice() {
            [word] if may_name_nodes(word) => Ok(StatusSubject::Nodes(
                NamedNodes::find(session, word, fault).await?,
            )),
            words if words.iter().any(|word| word == "nodes") => Err(fault
                .hint("`nodes` stands alone: `neroman status nodes`")
                .into()),
            _ => Err(fault.into()),
        },
        Err(fault) => Err(fault.into()),
    }
}

/// What is asked for besides the selection: where an overview may be shown, what all experiments
/// have in common, and no more of them than the screen has lines.
fn asked(out: &VerbOutput, args: &Status) -> ListRequest {
    let mut asked = ListRequest {
        facts: asked_facts(args),
        ..ListRequest::default()
    };
    let is_table = args.sort.is_some() || !args.columns.is_empty();
    if out.screen.tty && (args.watch || !is_table) && !args.csv && !out.as_json {
        asked.totals = true;
        asked.window = Some(Window {
            sort: overview::RUNNING_FIRST.to_owned(),
            offset: 0,
            count: u64::from(out.screen.height),
        });
    }
    asked
}

/// The facts of `--columns` and `--sort` that are asked for by name.
pub(super) fn asked_facts(args: &Status) -> Vec<String> {
    let sorted = args.sort.as_deref();
    let sorted = sorted.map(|name| name.strip_prefix('-').unwrap_or(name));
    let named = column_names(args);
    columns::asked_facts(named.iter().map(String::as_str).chain(sorted))
}

/// The columns that were named.
pub(super) fn column_names(args: &Status) -> Vec<String> {
    let lists = args.columns.iter();
    lists.flat_map(|list| columns::split(list)).collect()
}

/// The experiments as `--sort` wants them, and the columns that were named.
fn arranged(
    mut views: Vec<ExperimentView>,
    args: &Status,
) -> Result<(Vec<ExperimentView>, Option<Vec<Column>>), Fault> {
    if let Some(sort) = &args.sort {
        let (backwards, name) = match sort.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, sort.as_str()),
        };
        let column = columns::named(name, &views)?;
        views.sort_by(|one, other| column.compare(one, other, backwards));
    }
    let names = column_names(args);
    let chosen = names.iter().map(|name| columns::named(name, &views));
    let chosen: Vec<Column> = chosen.collect::<Result<_, _>>()?;
    Ok((views, (!chosen.is_empty()).then_some(chosen)))
}

/// The lines for eyes; the experiments are taken from the reply.
fn as_text(screen: &Screen, reply: &mut ListReply, args: &Status) -> Result<String, Fault> {
    if reply.nothing_set_up {
        return Ok(nothing_set_up());
    }
    if reply.experiments.is_empty() {
        let nothing = "the selector picks nothing\n".to_owned();
        return Ok(if reply.notes.is_empty() {
            nothing
        } else {
            String::new()
        });
    }
    let (mut views, chosen) = arranged(std::mem::take(&mut reply.experiments), args)?;
    if screen.tty && chosen.is_none() && args.sort.is_none() {
        // A daemon of an earlier version has sent them all.
        let totals = reply.totals.clone();
        let totals = totals.unwrap_or_else(|| totals::of(&views));
        if totals.experiments + 4 > u64::from(screen.height) {
            return Ok(overview::as_text(screen, &totals, &reply.batches, &views));
        }
        views.sort_by_key(|view| (view.id, view.run));
    }
    let chosen = chosen.or_else(|| {
        let mut columns = columns::telling(&views);
        let run = Column::Fact(Fact::Run);
        // A user who named a run sees in the table that it is this one.
        if names_run(&args.picked) && !columns.contains(&run) {
            columns.insert(1, run);
        }
        Some(columns)
    });
    Ok(as_table(screen, &views, &reply.batches, chosen))
}

/// Whether the words pick a single run, as `144.2`.
fn names_run(picked: &[String]) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let elements = picked.iter().flat_map(|word| word.split(','));
    let mut pairs = elements.filter_map(|element| element.trim().split_once('.'));
    pairs.any(|(id, run)| is_number(id) && is_number(run))
}

fn nothing_set_up() -> String {
    "Nothing is set up yet. Three commands to type:\n\
     \n\
     \x20 neroman add FOLDER     registers the experiments of its neronet.yaml or config.yaml\n\
     \x20 neroman start all      runs them\n\
     \x20 neroman status         shows how they do\n"
        .into()
}
