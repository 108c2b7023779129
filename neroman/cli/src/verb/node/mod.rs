//! `node …`: the machines that runs go to.

mod connect;
mod events;
mod forget;
mod list;

use nero_wire::v1::{NodeAddRequest, NodeConnectRequest, NodeDoctorRequest, NodeTakeOverRequest};

use crate::args::{Node, NodeAdd, Warden, YesNo};
use crate::fault::{Fault, Stop};
use crate::session::{Session, request};

pub use list::show as list;

use events::How;

/// Does one of them.
pub async fn run(session: &mut Session, args: &Node) -> Result<u8, Stop> {
    match args {
        Node::Add(args) => add(session, args).await,
        Node::List(json) => list(session, json.json).await,
        Node::Doctor { name, json } => {
            let asked = NodeDoctorRequest { name: name.clone() };
            events::follow(
                session,
                How::Everything.or_json(json.json),
                asked,
                async |man, request| man.node_doctor(request).await,
            )
            .await
        }
        Node::Connect { name, json } => {
            connect::open(session, name).await?;
            let asked = NodeConnectRequest { name: name.clone() };
            events::follow(
                session,
                How::Troubles.or_json(json.json),
                asked,
                async |man, request| man.node_connect(request).await,
            )
            .await
        }
        Node::Rm {
            name,
            yes,
            dry_run,
            json,
        } => forget::remove(session, name, *yes, *dry_run, json.json).await,
        Node::Gone {
            name,
            yes,
            dry_run,
            json,
        } => forget::gone(session, name, *yes, *dry_run, json.json).await,
        Node::TakeOver {
            name,
            deployment,
            dry_run,
            json,
        } => {
            let asked = NodeTakeOverRequest {
                request: request(),
                name: name.clone(),
                deployment: deployment.clone().unwrap_or_default(),
                dry_run: *dry_run,
            };
            events::follow(
                session,
                How::Troubles.or_json(json.json),
                asked,
                async |man, request| man.node_take_over(request).await,
            )
            .await
        }
    }
}

async fn add(session: &mut Session, args: &NodeAdd) -> Result<u8, Stop> {
    if args.warden != Warden::None {
        return Err(Fault::not_built("a warden other than `none`").into());
    }
    let shared = match args.shared {
        None => "",
        Some(YesNo::Yes) => "yes",
        Some(YesNo::No) => "no",
    };
    let asked = NodeAddRequest {
        request: request(),
        name: args.name.clone(),
        address: args.address.clone(),
        root: args.root.clone().unwrap_or_default(),
        dry_run: args.dry_run,
        without_test: args.without_test,
        cpus: args.cpus.unwrap_or(0.0),
        memory_bytes: args.memory.unwrap_or(0),
        shared: shared.to_owned(),
    };
    events::follow(
        session,
        How::Troubles.or_json(args.json.json),
        asked,
        async |man, request| man.node_add(request).await,
    )
    .await
}
