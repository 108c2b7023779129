//! Greeting a neromum, and replacing it when our build is newer.

use std::time::Duration;

use futures_util::future::BoxFuture;
use nero_model::DeploymentId;
use nero_wire::hello;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::{Hello, Role, StopRequest};
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;

use crate::AgentError;

/// Time for a greeting, and for an answer to "stop".
const GREETING: Duration = Duration::from_secs(20);
/// Time for a neromum to end after it was told to stop.
const LEAVING: Duration = Duration::from_secs(20);
/// First and longest pause between two looks whether that neromum has ended.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// Longest name of a build that is kept and shown.
const BUILD_CHARS: usize = 64;

/// The greeter and its expectations of the neromum.
#[derive(Clone, Debug)]
pub(crate) struct Greeter {
    pub deployment: DeploymentId,
    /// How often the deployment was taken over.
    pub tenure: u64,
    /// Name of our neromum in greetings; empty: any neromum will do.
    pub mum: String,
    /// The share of the node that the neromum is to give to runs.
    pub gives: String,
}

/// Opens a connection.
pub(crate) type Dial<'a> =
    dyn Fn() -> BoxFuture<'a, Result<Channel, AgentError>> + Send + Sync + 'a;

/// Dials and greets. Asks a neromum once to stop when its build is another and
/// no newer, or when it gives runs another share than configured, so that ours
/// serves. Its runs go on meanwhile.
///
/// # Errors
/// When no neromum can be reached, or we must not speak to the one that
/// answers.
pub(crate) async fn connect(
    dial: &Dial<'_>,
    greeter: &Greeter,
) -> Result<(Channel, Hello), AgentError> {
    let channel = dial().await?;
    let theirs = greet(&channel, greeter).await?;
    let leaves =
        gives_way(&theirs.build, &greeter.mum) || hello::gives_otherwise(&theirs, &greeter.gives);
    if !leaves || stop(&channel).await.is_err() {
        return Ok((channel, theirs));
    }
    drop(channel);
    successor(dial, greeter, &theirs).await
}

/// Dials until another neromum than `before` answers. If `before` does not
/// leave in time, uses it.
async fn successor(
    dial: &Dial<'_>,
    greeter: &Greeter,
    before: &Hello,
) -> Result<(Channel, Hello), AgentError> {
    let deadline = Instant::now() + LEAVING;
    let (mut pause, longest) = PAUSES;
    loop {
        let late = Instant::now() >= deadline;
        let met = async {
            let channel = dial().await?;
            let theirs = greet(&channel, greeter).await?;
            Ok((channel, theirs))
        };
        match met.await {
            Ok((_, theirs)) if is_same(&theirs, before) && !late => {}
            // A neromum that is leaving closes its connections.
            Err(AgentError::Greeting(_) | AgentError::Transport(_)) if !late => {}
            met => return met,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

fn is_same(one: &Hello, other: &Hello) -> bool {
    (one.pid, &one.build) == (other.pid, &other.build)
}

/// Sends our hello and checks the reply.
pub(crate) async fn greet(channel: &Channel, greeter: &Greeter) -> Result<Hello, AgentError> {
    let own = Hello {
        tenure: greeter.tenure,
        host: host_name(),
        capabilities: vec![hello::GENERATIONS.to_owned()],
        ..hello::own(Role::Neroman, "", Some(greeter.deployment))
    };
    let mut request = tonic::Request::new(own);
    request.set_timeout(GREETING);
    let mut client = MumClient::new(channel.clone());
    let refused = |status| AgentError::Greeting(Box::new(status));
    let mut theirs = timeout(GREETING, client.greet(request))
        .await
        .map_err(|_| refused(tonic::Status::deadline_exceeded("no greeting in time")))?
        .map_err(refused)?
        .into_inner();
    theirs.build = theirs.build.chars().take(BUILD_CHARS).collect();
    hello::check(&theirs, Role::Neromum, Some(greeter.deployment)).map_err(AgentError::Hello)?;
    Ok(theirs)
}

async fn stop(channel: &Channel) -> Result<(), ()> {
    let mut request = tonic::Request::new(StopRequest {
        upgrade: true,
        ..StopRequest::default()
    });
    request.set_timeout(GREETING);
    let mut client = MumClient::new(channel.clone());
    match timeout(GREETING, client.stop(request)).await {
        Ok(Ok(_)) => Ok(()),
        // The neromum cannot be replaced now, but we can speak to it.
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

/// Whether the build `ours` replaces a neromum of the build `theirs`: the
/// builds differ, and `theirs` has no higher version.
fn gives_way(theirs: &str, ours: &str) -> bool {
    !ours.is_empty() && theirs != ours && version(theirs) <= version(ours)
}

/// The numbers before the content: "0.12.3+abc" is 0, 12, 3.
fn version(build: &str) -> Vec<u64> {
    let text = build.split(['+', '-']).next().unwrap_or_default();
    let parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    parts.collect()
}

/// The name of this machine.
fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::gives_way;

    #[test]
    fn the_higher_version_serves_and_of_equal_ones_the_asker() {
        for (theirs, ours, expected) in [
            ("0.1.0+a", "0.1.0+a", false),
            ("0.1.0+a", "0.1.0+b", true),
            ("0.1.0+b", "0.1.0+a", true),
            ("0.9.0+a", "0.10.0+b", true),
            ("0.10.0+a", "0.9.9+b", false),
            ("1.0.0+a", "", false),
            ("nonsense", "0.1.0+a", true),
        ] {
            assert_eq!(gives_way(theirs, ours), expected, "{theirs} {ours}");
        }
    }
}
