//! What a node is and has now.

use nero_wire::v1::NodeDescription;

use super::Inner;
use crate::agent::Busy;

/// Everything at once; what cannot be found out stays 0.
pub fn describe(inner: &Inner, busy: Busy) -> NodeDescription {
    let paths = &inner.placer.paths;
    let (total_memory, memory_used_bytes) = sysinfo::System::new()
        .map(|mut system| {
            system.refresh_memory();
            (system.total_memory(), system.used_memory())
        })
        .unwrap_or_default();
    let (disk_free_bytes, disk_total_bytes) = rustix::fs::statvfs(paths.deployment())
        .map(|found| {
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            (bytes(found.f_bavail), bytes(found.f_blocks))
        })
        .unwrap_or_default();
    NodeDescription {
        host: sysinfo::System::host_name().unwrap_or_default(),
        cpus: inner.cpus,
        memory_bytes: inner.memory_bytes.unwrap_or(total_memory),
        load_15: sysinfo::System::load_average().map_or(0.0, |load| load.fifteen),
        memory_used_bytes,
        disk_free_bytes,
        disk_total_bytes,
        live: busy.live,
        waiting: busy.waiting,
        root: paths.root().display().to_string(),
        clock_ms: nero_journal::Clocks::now().wall_ns / 1_000_000,
        boot_id: nero_model::process::boot_id()
            .map(|id| nero_model::ids::hex(&id))
            .unwrap_or_default(),
        cpus_free: busy.cpus_free,
        hold: busy.hold,
        ..NodeDescription::default()
    }
}
