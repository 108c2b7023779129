//! `node take-over`: the runs of a lost machine come here. It ends when their
//! node has reported their states.

use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ListRequest, NodeTakeOverRequest};

use super::events::{self, OutputMode};
use crate::args::NodeTakeOver;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, request, selection};

/// How often the runs are looked at. Each look waits some seconds for the node.
const LOOKS: usize = 6;

pub async fn run(session: &mut Session, args: &NodeTakeOver) -> Result<u8, Stop> {
    let asked = NodeTakeOverRequest {
        request: request(),
        name: args.name.clone(),
        deployment: args.deployment.clone().unwrap_or_default(),
        dry_run: args.trial.dry_run,
    };
    let ended = events::follow(
        session,
        OutputMode::Troubles,
        asked,
        ManClient::node_take_over,
    )
    .await?;
    if ended == code::OK && !args.trial.dry_run {
        until_heard(session, &args.name).await?;
    }
    Ok(ended)
}

/// Waits until the daemon, which begins anew with the runs taken over, has read
/// their journals.
async fn until_heard(session: &mut Session, name: &str) -> Result<(), Fault> {
    let mut unread = 0;
    for _ in 0..LOOKS {
        let asked = ListRequest {
            selection: Some(selection(&[format!("node==\"{name}\"")])),
            settle: true,
            ..ListRequest::default()
        };
        let reply = session.read(asked, ManClient::list).await?;
        unread = reply.experiments.iter().filter(|view| view.unread).count();
        if unread == 0 {
            return Ok(());
        }
    }
    let (name, runs) = (Safe::line(name), text::plural(unread, "run"));
    let note = format!("note: {name} has not told yet how far {runs} got");
    session.out.note(&note);
    Ok(())
}
