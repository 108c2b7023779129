//! `Nodes`: what is known of each.

use std::time::Duration;

use nero_config::LOCAL;
use nero_wire::v1;

use super::Man;

/// How long a node may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(1);

impl Man {
    /// Every node, as it is now.
    pub(super) async fn ask_nodes(&self) -> Vec<v1::NodeView> {
        self.node.described(PATIENCE).await;
        self.nodes()
    }

    /// Every node, as it was heard of last.
    pub(super) fn nodes(&self) -> Vec<v1::NodeView> {
        let now = self.node.now();
        let about = now.description.clone().unwrap_or_default();
        let share = |used: u64, total: u64| {
            if total == 0 {
                0.0
            } else {
                used as f64 / total as f64
            }
        };
        let root = self.home.local_root.display().to_string();
        vec![v1::NodeView {
            name: LOCAL.to_owned(),
            address: String::new(),
            warden: "none".to_owned(),
            connected: now.channel.is_some(),
            why_not: now.why_not,
            contact_ms: now.contact_ms.unwrap_or(0),
            load_15: about.load_15,
            memory_used: share(about.memory_used_bytes, about.memory_bytes),
            disk_used: share(
                about.disk_total_bytes.saturating_sub(about.disk_free_bytes),
                about.disk_total_bytes,
            ),
            live: about.live,
            waiting: about.waiting,
            cpus: about.cpus,
            cpus_free: about.cpus_free,
            memory_bytes: about.memory_bytes,
            root: if about.root.is_empty() {
                root
            } else {
                about.root
            },
            hold: about.hold,
            ..v1::NodeView::default()
        }]
    }
}
