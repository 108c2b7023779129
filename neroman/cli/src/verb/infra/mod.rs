//! `infra …`: a set of hosts, which is a group of nodes. Each verb makes one call for each host,
//! all at once; the daemon leaves out what is done already.

mod board;
mod down;
mod up;

use std::cell::RefCell;

use futures_util::future::join_all;
use nero_config::LOCAL;
use nero_model::safe::{Safe, quoted};
use nero_views::object;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{
    NodeAddRequest, NodeEvent, NodeImageReply, NodeImageRequest, NodeReadyRequest, NodesReply,
};
use serde_json::json;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::on_node::{self, NamedNodes};
use super::status;
use crate::args::InfraVerb;
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::session::Session;
use board::Board;

/// A host of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Member {
    /// Its name as a node.
    node: String,
    /// As `ssh` takes it; empty: this machine.
    address: String,
}

pub async fn run(session: &mut Session, args: &InfraVerb) -> Result<u8, Stop> {
    session.goes_by_ssh();
    match args {
        InfraVerb::Up(args) => up::run(session, args).await,
        InfraVerb::Status { name, .. } => show(session, name).await,
        InfraVerb::Update { name, now, .. } => update(session, name, *now).await,
        InfraVerb::Down {
            name, purge, yes, ..
        } => down::run(session, name, *purge, *yes).await,
    }
}

/// The hosts of a set that is there.
fn members(known: &NodesReply, name: &str) -> Result<Vec<Member>, Fault> {
    let Some(group) = known.groups.get(name) else {
        let fault = Fault::usage(format!("there is no set of hosts {}", quoted(name)));
        let groups = known.groups.keys();
        return Err(match nero_model::names::suggest(name, groups) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("neroman infra up {name} -a HOST,HOST makes one")),
        });
    };
    let address = |name: &String| known.nodes.iter().find(|node| node.name == *name);
    let member = |node: &String| Member {
        node: node.clone(),
        address: address(node).map_or_else(String::new, |node| node.address.clone()),
    };
    Ok(group.names.iter().map(member).collect())
}

/// Makes a call for each host, all at once, and shows what becomes of them.
async fn on_each<Q: Clone>(
    session: &Session,
    board: Board,
    requests: Vec<Q>,
    send: impl AsyncFn(
        &mut ManClient<Channel>,
        Request<Q>,
    ) -> Result<Response<Streaming<NodeEvent>>, Status>,
) -> Result<Board, Stop> {
    let board = RefCell::new(board);
    let calls = requests.into_iter().enumerate().map(|(index, request)| {
        let (board, send) = (&board, &send);
        async move {
            let ended = follow(session, board, index, request, send).await;
            let failed = match ended {
                Ok(()) => None,
                Err(Stop::Fault(fault)) => Some(*fault),
                Err(stop) => return Err(stop),
            };
            board.borrow_mut().end(index, failed)
        }
    });
    for ended in join_all(calls).await {
        ended?;
    }
    Ok(board.into_inner())
}

/// Makes one call and takes its events. After a lost connection the call is made again.
async fn follow<Q: Clone>(
    session: &Session,
    board: &RefCell<Board>,
    index: usize,
    request: Q,
    send: &impl AsyncFn(
        &mut ManClient<Channel>,
        Request<Q>,
    ) -> Result<Response<Streaming<NodeEvent>>, Status>,
) -> Result<(), Stop> {
    let take = async |event: Option<NodeEvent>| {
        let taken = event.map(|event| board.borrow_mut().take(index, event));
        taken.unwrap_or(Ok(())).map(|()| true)
    };
    let mut session = session.beside();
    session.each(CHANGE_DEADLINE, request, send, take).await
}

/// Prints what became of the hosts; the exit code.
fn sum_up(board: &Board, name: &str) -> Result<u8, Stop> {
    let fields = || json!({"infra": name, "hosts": board.as_json()});
    board.out.reply(&[], fields, || board.summary(name))?;
    let failed = board.hosts.iter().filter_map(|host| host.failed.as_ref());
    Ok(code::of_failures(
        failed.map(|fault| fault.exit_code == code::NO_NODE),
    ))
}

/// `infra update`. A connection brings the agent of the daemon's build by itself.
async fn update(session: &mut Session, name: &str, now: bool) -> Result<u8, Stop> {
    let known = on_node::ask(session, true).await?;
    let members = members(&known, name)?;
    let request = |member: &Member| NodeReadyRequest {
        node: Some(NodeAddRequest {
            name: member.node.clone(),
            group: name.to_owned(),
            ..NodeAddRequest::default()
        }),
        pull: "always".to_owned(),
        idle_only: !now,
    };
    let requests = members.iter().map(request).collect();
    let board = Board::new(session.out, "up to date", &members);
    let board = on_each(session, board, requests, ManClient::node_ready).await?;
    sum_up(&board, name)
}

/// `infra status`: as `status GROUP`, and the images.
async fn show(session: &mut Session, name: &str) -> Result<u8, Stop> {
    let known = on_node::ask(session, true).await?;
    let members = members(&known, name)?;
    let named = NamedNodes {
        word: name.to_owned(),
        nodes: members.iter().map(|member| member.node.clone()).collect(),
    };
    let args = status::plainly(name);
    let images = join_all(members.iter().map(|member| image(session, &member.node))).await;
    let images: Vec<NodeImageReply> = images.into_iter().collect::<Result<_, _>>()?;
    let images = members.iter().zip(&images);
    let images: Vec<_> = images
        .filter(|(_, image)| !image.image.is_empty())
        .collect();
    if session.out.as_json {
        let image = |(member, image): &(&Member, &NodeImageReply)| object!(image => node: member.node, image, runtime?, digest?, why_not?);
        let images = images.iter().map(image).collect();
        return status::on_set(session, &named, &args, Some(("images", images))).await;
    }
    let shown = status::on_set(session, &named, &args, None).await?;
    for (member, image) in images {
        let how = match image.runtime.as_str() {
            "" => image.why_not.clone(),
            runtime => format!("{runtime} {}", image.digest),
        };
        let line = format!("{}: image {}: {how}", member.node, image.image);
        session.out.line(Safe::line(&line).to_string().trim_end())?;
    }
    Ok(shown)
}

async fn image(session: &Session, node: &str) -> Result<NodeImageReply, Fault> {
    let asked = NodeImageRequest {
        name: node.to_owned(),
    };
    let mut session = session.beside();
    session.read(asked, ManClient::node_image).await
}
