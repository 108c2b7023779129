//! `restart SEL`: a new run of each picked experiment. Live runs are stopped
//! first, so it asks before it stops more than one.

use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AbortRequest, StartRequest};

use super::edit::assignments;
use super::rehearsal::{is_agreed, is_one_id};
use super::start;
use crate::args::Restart;
use crate::fault::{Stop, code};
use crate::session::{Session, request, selection};

pub async fn run(session: &mut Session, args: &Restart) -> Result<u8, Stop> {
    session.goes_by_ssh();
    if !args.set.is_empty() || args.same_code {
        session.client().await?.edits("--set and --same-code")?;
    }
    if !args.yes && !args.launch.dry_run && !may_stop_live_ones(session, args).await? {
        return Ok(code::FAILED);
    }
    let asked = StartRequest {
        selection: Some(selection(&args.picked)),
        restart: true,
        abandon: args.abandon,
        resume: args.resume,
        set: assignments(&args.set)?,
        same_code: args.same_code,
        ..start::asked(&args.launch)
    };
    start::launch(session, asked, &args.launch, "restart", args.yes).await
}

/// Asks before live runs are stopped: those that an abort of the same selector
/// would touch.
async fn may_stop_live_ones(session: &mut Session, args: &Restart) -> Result<bool, Stop> {
    if is_one_id(&args.picked) {
        return Ok(true);
    }
    let trial = AbortRequest {
        request: request(),
        selection: Some(selection(&args.picked)),
        dry_run: true,
        ..AbortRequest::default()
    };
    let reply = session.read(trial, ManClient::abort).await?;
    let (verb, list) = ("stop and restart", super::abort::touched(&reply));
    is_agreed(&session.out, verb, "live run", &list, reply.explicit).await
}
