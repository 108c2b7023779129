//! Opening the way to a node in this terminal: ssh asks for what it needs.

use std::process::{ExitStatus, Stdio};

use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{NodeConnectRequest, NodeLoginRequest, Remedy};

use super::events::{self, OutputMode};
use crate::fault::{Fault, Stop};
use crate::session::Session;
use crate::verb::exec::os_words;

/// `node connect`. Without a terminal for questions, the daemon itself tries a
/// way that ssh does not open, and reports why it does not open.
pub async fn run(session: &mut Session, name: &str) -> Result<u8, Stop> {
    if session.out.screen.can_ask {
        open(session, name).await?;
        return follow(session, name).await;
    }
    let closed = by_ssh(session, name).await?.is_some();
    let mut ended = follow(session, name).await;
    if let Err(Stop::Fault(why)) = &mut ended
        && closed
        && why.remedy == Remedy::Terminal
    {
        why.hint.push_str("; this is none");
    }
    ended
}

/// Has the daemon connect, and prints its steps.
pub async fn follow(session: &mut Session, name: &str) -> Result<u8, Stop> {
    let asked = NodeConnectRequest {
        name: name.to_owned(),
    };
    events::follow(
        session,
        OutputMode::Troubles,
        asked,
        ManClient::node_connect,
    )
    .await
}

/// Opens the way, unless it is open already.
pub async fn open(session: &mut Session, name: &str) -> Result<(), Stop> {
    let Some(ended) = by_ssh(session, name).await? else {
        return Ok(());
    };
    Err(
        Fault::no_node(format!("ssh did not open the way to `{name}`"))
            .cause(ended.to_string())
            .hint("the output of ssh is above; `ssh -v` with the node's address prints more")
            .into(),
    )
}

/// How ssh ended, when it did not open the way.
async fn by_ssh(session: &mut Session, name: &str) -> Result<Option<ExitStatus>, Stop> {
    let asked = NodeLoginRequest {
        name: name.to_owned(),
    };
    let reply = session.read(asked, ManClient::node_login).await?;
    if reply.open || reply.argv.is_empty() {
        return Ok(None);
    }
    let words = os_words(&reply.argv);
    let [program, rest @ ..] = words.as_slice() else {
        return Ok(None);
    };
    let mut ssh = tokio::process::Command::new(program);
    ssh.args(rest);
    // We report in our own words that the way is open already, and why it does
    // not open when no user reads along.
    if rest.windows(2).any(|two| two == ["-O", "check"]) {
        ssh.stdout(Stdio::null()).stderr(Stdio::null());
    } else if !session.out.screen.can_ask {
        ssh.stderr(Stdio::null());
    }
    let ended = ssh
        .status()
        .await
        .map_err(|error| Fault::no_node("cannot start ssh").because(&error))?;
    Ok((!ended.success()).then_some(ended))
}
