//! `infra up`: makes hosts ready.

use std::path::Path;

use nero_config::{Mistakes, MlframeworkHosts, check_name};
use nero_model::safe::quoted;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{NodeAddRequest, NodeReadyRequest, NodesReply, Remedy};

use super::{Board, LOCAL, Member, members, on_each, on_node, sum_up};
use crate::args::{InfraUp, Warden};
use crate::fault::{Fault, Stop, code};
use crate::session::{InterruptNotice, Session, absolute, request};

pub async fn run(session: &mut Session, args: &InfraUp) -> Result<u8, Stop> {
    let hosts = hosts(args)?;
    say_unneeded(session, args, &hosts);
    let known = on_node::ask(session, true).await?;
    let members = asked(args, &hosts, &known)?;
    let template = template(args, &hosts)?;
    let request = |member: &Member| NodeReadyRequest {
        node: Some(NodeAddRequest {
            request: request(),
            name: member.node.clone(),
            address: member.address.clone(),
            ..template.clone()
        }),
        ..NodeReadyRequest::default()
    };
    let requests = members.iter().map(request).collect();
    session.on_interrupt(InterruptNotice::text(
        "hosts that are ready stay so; the same command goes on".to_owned(),
    ));
    let board = Board::new(session.out, "ready", &members);
    let mut board = on_each(session, board, requests, ManClient::node_ready).await?;
    for (host, member) in board.hosts.iter_mut().zip(&members) {
        if let Some(fault) = &mut host.failed {
            hint_by_person(fault, member);
        }
    }
    sum_up(&board, &args.name)
}

/// The hosts of the command line or of the file.
fn hosts(args: &InfraUp) -> Result<MlframeworkHosts, Fault> {
    let Some(file) = &args.file else {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        let (hosts, workers) = (text(&args.hosts), text(&args.workers));
        let refused = |mistakes: Mistakes| {
            let first = &mistakes.list[0];
            Fault::usage(first.message.clone()).hint(first.hint.clone())
        };
        let read = MlframeworkHosts::of_words(&hosts, &workers).map_err(refused)?;
        let is_given = args.hosts.is_some() || args.workers.is_some();
        if is_given && read.workers.is_empty() {
            return Err(Fault::usage("no host is given").hint("-a h1,h2, or -w local"));
        }
        return Ok(MlframeworkHosts {
            key: args.key.clone(),
            remote_path: args.root.clone(),
            ..read
        });
    };
    let read = MlframeworkHosts::read(Path::new(file)).map_err(|error| {
        Fault::usage("the hosts cannot be read")
            .because(&error)
            .maybe_hint(error.hint())
    })?;
    if read.workers.is_empty() {
        let fault = Fault::usage(format!("{file} names no host"));
        return Err(fault.hint("REMOTE=\"h1,h2\" in config.sh"));
    }
    Ok(read)
}

/// Tells which of mlframework's settings are of no use here.
fn say_unneeded(session: &Session, args: &InfraUp, hosts: &MlframeworkHosts) {
    let note = |text: &str| session.out.note(&format!("note: {text}"));
    if args.folder.is_some() || hosts.folder.is_some() {
        note("no project folder is needed: files travel with the runs of `neroman start`");
    }
    if args.master.is_some() || args.broker.is_some() || hosts.names_master {
        note("no master and no broker are needed: runs go to the hosts over ssh");
    }
}

/// The hosts that are asked for.
fn asked(
    args: &InfraUp,
    hosts: &MlframeworkHosts,
    known: &NodesReply,
) -> Result<Vec<Member>, Fault> {
    let name = &args.name;
    if let Err(error) = check_name(name) {
        let what = format!("{} cannot be the name of a set of hosts", quoted(name));
        return Err(Fault::usage(what).because(&error).hint("for example `lab`"));
    }
    if known.nodes.iter().any(|node| node.name == *name) {
        let fault = Fault::usage(format!("{} is a node", quoted(name)));
        return Err(fault.hint("neroman infra up NAME, with another name"));
    }
    if hosts.workers.is_empty() {
        return members(known, name);
    }
    let member = |number: &usize| match number.checked_sub(1) {
        None => Member {
            node: LOCAL.to_owned(),
            address: String::new(),
        },
        Some(index) => Member {
            node: format!("{name}-{number}"),
            address: hosts.hosts[index].clone(),
        },
    };
    Ok(hosts.workers.iter().map(member).collect())
}

/// What is the same for all hosts.
fn template(args: &InfraUp, hosts: &MlframeworkHosts) -> Result<NodeAddRequest, Fault> {
    if args.warden == Some(Warden::Generic) {
        let fault = Fault::usage("--warden generic needs the commands of its scheduler");
        return Err(fault.hint("`neroman help schedulers` shows what to write into config.yaml"));
    }
    refuse_file(args.image.as_deref().unwrap_or_default())?;
    let key = hosts.key.as_deref().map(absolute).transpose()?;
    if let Some(key) = &key
        && let Err(error) = std::fs::File::open(key)
    {
        let fault = Fault::usage(format!("cannot read the key {}", quoted(key)));
        return Err(fault
            .because(&error)
            .hint("-i takes the path of a private key"));
    }
    let root = hosts.remote_path.as_deref().map(|root| {
        if root.starts_with(['/', '~', '$']) {
            root.to_owned()
        } else {
            format!("~/{root}")
        }
    });
    Ok(NodeAddRequest {
        root: root.unwrap_or_default(),
        cpus: args.cpus.unwrap_or(0.0),
        warden: args.warden.map_or("", Warden::as_str).to_owned(),
        group: args.name.clone(),
        key: key.unwrap_or_default(),
        container: args.image.clone().unwrap_or_default(),
        ..NodeAddRequest::default()
    })
}

/// An image that is a file here travels with the runs that name it, and comes to no host by itself.
fn refuse_file(image: &str) -> Result<(), Fault> {
    let is_file = [".sif", ".tar", ".tar.gz", ".sqfs"];
    let is_file = image.starts_with('.') || is_file.iter().any(|end| image.ends_with(end));
    if !is_file || image.starts_with(['/', '~']) {
        return Ok(());
    }
    let file = Path::new(image).file_name().unwrap_or_default().display();
    let name = quoted(image);
    let what = format!("the image {name} is a file here, which the hosts lack");
    Err(Fault::usage(what).hint(format!(
        "`scp {image} HOST:` for each host, then --image '~/{file}'; or `container: ./{file}` in \
         the experiment, whose runs take it along"
    )))
}

/// A host that asks for a password is added alone: its questions come in this terminal.
fn hint_by_person(fault: &mut Fault, member: &Member) {
    let asks = match fault.remedy {
        Remedy::Connect | Remedy::Terminal => true,
        Remedy::Unspecified | Remedy::TakeOver => false,
    };
    if fault.exit_code == code::NO_NODE && asks {
        fault.hint = format!(
            "neroman node add {} {} asks for what ssh needs; then this command again",
            member.node, member.address
        );
    }
}
