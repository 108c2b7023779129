//! What a driver of a node needs of a connection: how one is made, and what it is.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use nero_home::failure::Failure;

/// A connection to a node's neromum, greeted.
#[expect(missing_debug_implementations, reason = "its future shows nothing")]
pub struct Link {
    pub channel: Channel,
    pub hello: v1::Hello,
    /// Returns when the carrier of the channel has ended.
    pub gone: BoxFuture<'static, ()>,
    /// The ssh connection that carries it to another machine.
    pub host: Option<nero_ssh::Host>,
    /// The facts that the probe of that machine returned.
    pub facts: Option<Arc<nero_agents::Facts>>,
}

/// Why no connection was made.
#[derive(Clone, Debug)]
pub struct ConnectFailure {
    pub failure: Failure,
    /// A new try is of no use before a person does something.
    pub needs_person: bool,
}

impl From<Failure> for ConnectFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            needs_person: false,
        }
    }
}

/// Is called with the progress of a transfer.
pub type OnProgress<'a> = &'a (dyn Fn(v1::Progress) + Send + Sync);

/// Connects to one node.
pub trait Connect: Send + Sync + 'static {
    /// Connects, and starts neromum if none answers.
    fn connect<'a>(&'a self, heard: OnProgress<'a>) -> BoxFuture<'a, Result<Link, ConnectFailure>>;

    /// Closes the carriers of connections: they may be dead without notice. A
    /// carrier that a person opened stays, since its password would be needed
    /// again.
    fn hang_up(&self) -> BoxFuture<'_, ()>;

    /// Number of files and folders that the node's agent has there. Starts nothing.
    fn files_left(&self) -> BoxFuture<'_, Result<u64, Failure>> {
        std::future::ready(Ok(0)).boxed()
    }

    /// Closes all carriers.
    fn forget(&self) -> BoxFuture<'_, ()> {
        self.hang_up()
    }
}

/// Connects to nodes: this machine, and others.
pub trait NodeConnector: Send + Sync + 'static {
    /// The way to a node by its present configuration.
    fn way(&self, name: &str, node: &nero_config::Node) -> Arc<dyn Connect>;
}

/// Calls of the agent of a node.
pub fn mum_client(channel: Channel) -> MumClient<Channel> {
    MumClient::new(channel)
        .max_decoding_message_size(nero_model::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(nero_model::MESSAGE_BYTES_MAX)
}
