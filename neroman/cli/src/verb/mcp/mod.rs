//! `mcp [SEL]`: tools for a coding agent over standard input and output. `nero-web` has the tools.

use std::io::IsTerminal as _;

use nero_web::{AgentTools, Caller, ViewSettings};
use tokio::sync::mpsc;

use super::help;
use crate::args;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};
use crate::view::{calls, rows};

/// Who the history names.
const AUTHOR: &str = "mcp";

pub async fn run(session: &mut Session, args: &args::Mcp) -> Result<u8, Stop> {
    let picked = args.picked.join(",");
    // A mistake in the selector is told before the agent speaks.
    rows::check(session, &picked).await?;
    if std::io::stdin().is_terminal() {
        let text = "note: a coding agent starts this program and speaks to it; `neroman help mcp`";
        session.out.note(text);
    }
    let (sender, calls) = mpsc::channel(calls::WAITING_MAX);
    let settings = ViewSettings {
        is_read_only: args.read_only,
        select: |text| selection(&[text.to_owned()]),
    };
    let caller = Caller::new(settings, sender);
    let tools = AgentTools::new(caller, picked, help::words().collect());
    tokio::select! {
        served = tools.serve() => match served {
            Ok(()) => Ok(code::OK),
            Err(error) => {
                let fault = Fault::failed("the agent does not speak the protocol");
                Err(fault.because(error.as_ref()).into())
            }
        },
        () = calls::answer(session, calls, AUTHOR) => Ok(code::FAILED),
    }
}
