//! `DaemonStatus`.

use nero_model::Holder;
use nero_wire::v1;

use crate::service::views::list;
use crate::service::views::view::Sight;
use crate::service::{Man, select};

impl Man {
    /// The state of the daemon itself.
    pub(crate) fn daemon_status(&self, request: &v1::DaemonStatusRequest) -> v1::DaemonStatusReply {
        let state = self.ledger.state();
        let zone = select::zone(&request.zone, request.utc_offset_s);
        let sight = Sight::new(&state, self.nodes.known(), zone, self.clock);
        let holder = Holder::read(&self.home.daemon_lock());
        let socket = holder.map_or_else(|| self.home.socket(), |holder| holder.socket);
        let full = self.ledger.no_room();
        let all = state.experiments.iter();
        let removed = all.filter(|one| one.hidden_ms.is_some()).count() as u64;
        let all = state.experiments.iter();
        let gone = all.filter(|one| one.hidden_ms.is_none() && one.is_gone());
        v1::DaemonStatusReply {
            hello: Some(self.hello()),
            started_ms: self.started_ms,
            home: self.home.data.display().to_string(),
            socket: socket.display().to_string(),
            database: self.home.state_db().display().to_string(),
            experiments: state.experiments.len() as u64,
            gone: gone.count() as u64,
            removed,
            runs: state.runs,
            live: state.live,
            log: self.home.daemon_log().display().to_string(),
            nodes: self.node_views(&self.nodes.usable_config()),
            notes: full
                .map(|full| list::no_room(&full, &sight))
                .into_iter()
                .chain(nero_store::doubt(&self.home.data))
                .collect(),
        }
    }
}
