//! `DaemonStatus`.

use nero_wire::v1;

use super::Man;

impl Man {
    /// What the daemon says of itself.
    pub(super) fn daemon_status(&self) -> v1::DaemonStatusReply {
        let state = self.ledger.state();
        v1::DaemonStatusReply {
            hello: Some(self.hello()),
            started_ms: self.started_ms,
            home: self.home.data.display().to_string(),
            socket: self.home.socket().display().to_string(),
            database: self.home.state_db().display().to_string(),
            experiments: state.experiments.len() as u64,
            runs: state.runs,
            live: state.live,
            log: self.home.daemon_log().display().to_string(),
            nodes: self.node_views(&self.nodes.usable_config()),
        }
    }
}
