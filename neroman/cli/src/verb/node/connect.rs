//! Opening the way to a node in this terminal: ssh asks for what it needs.

use std::process::Stdio;

use nero_wire::v1::NodeLoginRequest;

use crate::connect::READ_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::session::Session;
use crate::verb::exec::os_words;

/// Opens it, when it is not open yet.
pub async fn open(session: &mut Session, name: &str) -> Result<(), Stop> {
    let asked = NodeLoginRequest {
        name: name.to_owned(),
    };
    let client = session.client().await?;
    let reply = client
        .call(READ_DEADLINE, asked, async |man, request| {
            man.node_login(request).await
        })
        .await?;
    if reply.open || reply.argv.is_empty() {
        return Ok(());
    }
    let words = os_words(&reply.argv);
    let [program, rest @ ..] = words.as_slice() else {
        return Ok(());
    };
    let mut ssh = tokio::process::Command::new(program);
    ssh.args(rest);
    // Whether the way is open already is told in our words.
    if rest.windows(2).any(|two| two == ["-O", "check"]) {
        ssh.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let ended = ssh
        .status()
        .await
        .map_err(|error| Fault::new(code::NO_NODE, "cannot start ssh").because(&error))?;
    if ended.success() {
        return Ok(());
    }
    Err(Fault::new(
        code::NO_NODE,
        format!("ssh did not open the way to `{name}`"),
    )
    .cause(ended.to_string())
    .hint(if session.out.screen.can_ask {
        "what ssh said stands above; `ssh -v` with the node's address says more"
    } else {
        "passwords and codes are asked in a terminal, and this is none"
    })
    .into())
}
