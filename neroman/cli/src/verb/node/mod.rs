//! `node …`: the machines that runs go to.

mod connect;
mod events;
mod forget;
mod join;
mod list;
mod private;
mod take_over;
mod welcome;

use nero_model::names::TOOLKITS;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::node_event::Event;
use nero_wire::v1::{NodeAddRequest, NodeDoctorRequest, NodeEvent, Remedy};

use crate::args::{NodeAdd, NodeVerb, Warden, YesNo};
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, request};
use crate::verb::status;

pub use events::{finding_as_json, finding_text};
pub use forget::may_forget;
pub use list::{as_text as nodes_as_text, show as list, usage_as_text};

use events::OutputMode;

pub async fn run(session: &mut Session, args: &NodeVerb) -> Result<u8, Stop> {
    session.goes_by_ssh();
    match args {
        NodeVerb::Add(args) => add(session, args).await,
        NodeVerb::Join(args) => join::run(session, args).await,
        NodeVerb::Welcome(args) => welcome::run(session, args).await,
        NodeVerb::List(_) => list(session).await,
        NodeVerb::Status { name, .. } => status::of_node(session, name).await,
        NodeVerb::Doctor { name, short, .. } => {
            let asked = NodeDoctorRequest { name: name.clone() };
            let how = if *short {
                OutputMode::Only(TOOLKITS)
            } else {
                OutputMode::Everything
            };
            events::follow(session, how, asked, ManClient::node_doctor).await
        }
        NodeVerb::Connect { name, .. } => connect::run(session, name).await,
        NodeVerb::Rm(args) => forget::remove(session, args).await,
        NodeVerb::Gone(args) => forget::gone(session, args).await,
        NodeVerb::TakeOver(args) => take_over::run(session, args).await,
    }
}

async fn add(session: &mut Session, args: &NodeAdd) -> Result<u8, Stop> {
    if args.warden == Some(Warden::Generic) {
        let fault = Fault::usage("--warden generic needs the commands of its scheduler");
        let hint = "write `warden: generic` and `scheduler:` into config.yaml, as `neroman help schedulers` shows";
        return Err(fault.hint(hint).into());
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
        warden: args.warden.map_or("", Warden::as_str).to_owned(),
        ..NodeAddRequest::default()
    };
    let tried = events::follow(
        session,
        OutputMode::Troubles,
        asked.clone(),
        ManClient::node_add,
    );
    let failed = match tried.await {
        Err(Stop::Fault(fault)) if needs_terminal(&fault, args) => *fault,
        other => return other,
    };
    if !session.out.screen.can_ask || session.out.as_json {
        let (name, address) = (&args.name, &args.address);
        let hint = format!(
            "in a terminal this command asks for it; else `neroman node add {name} {address} \
             --without-test` keeps the node, and `neroman node connect {name}` asks later"
        );
        return Err(failed.hint(hint).into());
    }
    for cause in &failed.causes {
        session.out.note(&format!("note: {cause}"));
    }
    // The daemon opens ways of known nodes only: the node is removed if the way
    // does not open.
    let kept = NodeAddRequest {
        request: request(),
        without_test: true,
        ..asked.clone()
    };
    keep(session, kept).await?;
    let opened = match connect::open(session, &args.name).await {
        Ok(()) => connect::follow(session, &args.name).await,
        Err(stop) => Err(stop),
    };
    if opened.is_err() && forget::quietly(session, &args.name).await.is_err() {
        session.out.note(&format!(
            "note: {0} is kept; `neroman node rm {0}` forgets it",
            args.name
        ));
    }
    opened
}

/// Whether the user has to type something before the node can be tried.
fn needs_terminal(fault: &Fault, args: &NodeAdd) -> bool {
    let asks = match fault.remedy {
        Remedy::Connect | Remedy::Terminal => true,
        Remedy::Unspecified | Remedy::TakeOver => false,
    };
    fault.exit_code == code::NO_NODE && !args.dry_run && !args.without_test && asks
}

/// Keeps the node without a word.
async fn keep(session: &mut Session, asked: NodeAddRequest) -> Result<(), Stop> {
    let take = async |event: Option<NodeEvent>| match event.map(|one| one.event) {
        Some(Some(Event::Failed(failure))) => Err(Fault::from_failure(failure).into()),
        event => Ok(event.is_some()),
    };
    session
        .each(CHANGE_DEADLINE, asked, ManClient::node_add, take)
        .await
}
