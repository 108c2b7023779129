//! Asks a machine for its facts, whether its root can be used, and which builds
//! it has: one script over one connection.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nero_ssh::Host;

use crate::AgentError;
use crate::facts::{self, Facts};
use crate::root;

/// The script: its functions, and its steps.
const BEGIN: &str = include_str!("begin.sh");
const PROBE: &str = include_str!("probe.sh");

/// Runs the probe. `root` is the node's root as its user wrote it; `builds` are
/// the builds to look for; `needed_bytes` is the room that a push needs. With
/// `dry` the probe creates nothing there, not even for a moment.
///
/// # Errors
/// When the machine cannot be asked, or has a fault.
pub(crate) async fn probe(
    host: &Host,
    root: &str,
    builds: &[&str],
    needed_bytes: u64,
    dry: bool,
) -> Result<Facts, AgentError> {
    let setting = root::script(root).map_err(|source| AgentError::Root {
        root: root.to_owned(),
        source,
    })?;
    let builds = builds.join(" ");
    let dry = if dry { "yes" } else { "" };
    let script = format!("{BEGIN}{setting}builds='{builds}'\ndry={dry}\n{PROBE}");
    let (began, at) = (Instant::now(), now_ms());
    let said = host.script(&script).await.map_err(AgentError::Ssh)?;
    let took_ms = began.elapsed().as_millis() as u64;
    let mut facts = facts::read(&said.out, &said.err, needed_bytes)?;
    facts.took_ms = took_ms;
    facts.clock_offset_ms =
        facts::clock_ms(&said.out).map(|there| facts::clock_offset_ms(there, at, took_ms));
    Ok(facts)
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}
