//! Asking a machine what it is, whether its root can be used, and which builds
//! lie there: one script over one connection.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nero_ssh::Host;

use crate::AgentError;
use crate::facts::{self, Facts};
use crate::root;

/// Functions of the script, and what it does.
const BEGIN: &str = include_str!("begin.sh");
const PROBE: &str = include_str!("probe.sh");

/// Asks. `root` is the node's, as its user wrote it; `builds` are those whose
/// presence matters; `needed_bytes` is what a push would take there. With `dry`
/// nothing is made there, not even for a moment.
///
/// # Errors
/// When it cannot be asked, or something there stands in the way.
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
