//! `infra down`: ends the runs of a set of hosts, and forgets the hosts.

use nero_model::safe::quoted;
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AbortRequest, NodePutAwayRequest, NodesReply};

use super::{Board, LOCAL, Member, members, on_each, on_node, sum_up};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, author, exactly, request};
use crate::verb::change::abort;

pub async fn run(session: &mut Session, name: &str, purge: bool, yes: bool) -> Result<u8, Stop> {
    let known = on_node::ask(session, true).await?;
    let members = members(&known, name)?;
    refuse_default(&known, name, &members)?;
    if !end_runs(session, name, &members, yes).await? {
        session.out.note("nothing was done");
        return Ok(code::FAILED);
    }
    let request = |member: &Member| NodePutAwayRequest {
        name: member.node.clone(),
        group: name.to_owned(),
        purge,
    };
    let requests = members.iter().map(request).collect();
    let board = Board::new(session.out, "put away", &members);
    let mut board = on_each(session, board, requests, ManClient::node_put_away).await?;
    for (host, member) in board.hosts.iter_mut().zip(&members) {
        if let Some(fault) = host.failed.as_mut()
            && fault.exit_code == code::NO_NODE
        {
            let cause = "its runs go on until it is reached, and end then";
            fault.causes.push(cause.to_owned());
            fault.hint = format!(
                "neroman infra down {name} again when it is back; neroman node gone {} when it \
                 never will be",
                member.node
            );
        }
    }
    sum_up(&board, name)
}

/// The configuration would name what is gone.
fn refuse_default(known: &NodesReply, name: &str, members: &[Member]) -> Result<(), Fault> {
    let default = &known.default_node;
    let is_member = members.iter().any(|member| member.node == *default);
    if default == name || is_member && default != LOCAL {
        let what = format!("`default_node` is {}", quoted(default));
        return Err(Fault::usage(what).hint("neroman config set default_node local"));
    }
    Ok(())
}

/// Names the live runs of the hosts, asks, and has them ended; those of this machine go on.
/// Whether the verb goes on.
async fn end_runs(
    session: &mut Session,
    name: &str,
    members: &[Member],
    yes: bool,
) -> Result<bool, Stop> {
    let nodes = members.iter().map(|member| member.node.as_str());
    let words = nodes.filter(|node| *node != LOCAL).chain([name]);
    let each = words.map(|word| format!("(node==\"{word}\" && live)"));
    let mut asked = AbortRequest {
        request: request(),
        selection: Some(exactly(text::join(each, ","))),
        dry_run: true,
        author: author(),
        ..AbortRequest::default()
    };
    let touched = abort::touched(&session.change(asked.clone(), ManClient::abort).await?);
    if touched.is_empty() {
        return Ok(true);
    }
    if !yes && !may_end(session, &touched).await? {
        return Ok(false);
    }
    let ids: Vec<u64> = touched.iter().map(|(id, _)| *id).collect();
    asked.request = request();
    asked.dry_run = false;
    asked.selection = Some(exactly(text::ids(&ids)));
    let reply = session.change(asked, ManClient::abort).await?;
    session.out.note(abort::as_text(&reply, false).trim_end());
    Ok(true)
}

async fn may_end(session: &Session, touched: &[(u64, String)]) -> Result<bool, Stop> {
    let what = format!("end {}", text::plural(touched.len(), "live run"));
    if !session.out.screen.can_ask {
        return Err(Fault::usage(format!("this would {what}"))
            .cause("there is no terminal to ask")
            .hint("add --yes to go on")
            .into());
    }
    for (id, name) in touched {
        session.out.note(&format!("  {id}  {name}"));
    }
    session.out.ask(&format!("{what}?")).await
}
