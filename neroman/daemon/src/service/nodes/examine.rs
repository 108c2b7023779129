//! The close look at a node, and the finding about its clock.

use std::time::Duration;

use nero_model::plain::plain_owned;
use nero_wire::v1;
use tonic::transport::Channel;

use super::scheduler;
use nero_home::failure::connection_lost;
use nero_link::connect::mum_client;

/// How long the examination of the node may take.
const EXAMINE: Duration = Duration::from_secs(60);
/// Limit of a wrong clock that is not reported.
const CLOCK_MS: i64 = 2000;

/// The findings of an examination that the node's configuration does not answer; empty if the agent
/// is too old for it. Only the daemon knows the clock's offset.
pub(crate) async fn examine(
    channel: &Channel,
    programs: Vec<String>,
    clock_offset_ms: Option<i64>,
    node: &nero_config::Node,
) -> Vec<v1::Finding> {
    let mut client = mum_client(channel.clone());
    let request = v1::ExamineRequest { programs };
    let mut findings = match tokio::time::timeout(EXAMINE, client.examine(request)).await {
        Ok(Ok(reply)) => reply.into_inner().findings,
        Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => Vec::new(),
        Ok(Err(status)) if connection_lost(&status) => {
            vec![unexamined("the connection was lost")]
        }
        Ok(Err(status)) => vec![unexamined(status.message())],
        Err(_) => vec![unexamined("it does not answer in time")],
    };
    findings.retain(|one| scheduler::is_open(one, node));
    for finding in &mut findings {
        finding.text = plain_owned(std::mem::take(&mut finding.text));
    }
    findings.extend(clock_offset_ms.map(clock));
    findings
}

/// The finding about the node's clock.
pub(crate) fn clock(offset_ms: i64) -> v1::Finding {
    use v1::finding::Level;
    let off = offset_ms as f64 / 1000.0;
    let right = offset_ms.abs() < CLOCK_MS;
    v1::Finding {
        level: if right { Level::Good } else { Level::Warning }.into(),
        what: "clock".to_owned(),
        text: if right {
            "it agrees with ours".to_owned()
        } else if off > 0.0 {
            format!("it is {off:.0} s ahead of ours")
        } else {
            format!("it is {:.0} s behind ours", -off)
        },
        hint: if right {
            String::new()
        } else {
            "its times are shown as it reports them; order and limits do not depend on it"
                .to_owned()
        },
        ..v1::Finding::default()
    }
}

fn unexamined(why: &str) -> v1::Finding {
    v1::Finding {
        level: v1::finding::Level::Warning.into(),
        what: "look".to_owned(),
        text: format!("the node cannot be looked at closely: {why}"),
        hint: String::new(),
        ..v1::Finding::default()
    }
}
