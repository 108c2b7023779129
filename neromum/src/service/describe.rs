//! Description of the node: its properties and its present load.

use nero_node::agent::NodeLoad;
use nero_node::cards::CardsKnown;
use nero_wire::v1::{NodeDescription, Site};

use super::ServiceState;
use super::gpus::described;
use crate::examine::{kernel, libc};

/// Describes everything at once; a fact that cannot be found out stays 0.
pub fn describe(
    inner: &ServiceState,
    busy: NodeLoad,
    gpus: &CardsKnown,
    site: Option<Site>,
) -> NodeDescription {
    let paths = &inner.placer.paths;
    let memory = Memory::now();
    let (disk_free_bytes, disk_total_bytes) = rustix::fs::statvfs(paths.deployment())
        .map(|found| {
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            (bytes(found.f_bavail), bytes(found.f_blocks))
        })
        .unwrap_or_default();
    let load = sysinfo::System::load_average().unwrap_or_default();
    let memory_bytes = inner.memory_bytes.unwrap_or(memory.total);
    let not_given = memory_bytes.saturating_sub(busy.memory_given);
    let clocks = nero_journal::Clocks::now();
    // A run of a cluster gets no CPU of this host.
    let guarded = site.as_ref().map(largest);
    let (cpus, memory_bytes) = guarded.unwrap_or((inner.cpus, memory_bytes));
    let cpus_free = match guarded {
        Some(_) => cpus,
        None => busy.cpus_free,
    };
    let memory_free_bytes = match guarded {
        Some((_, memory)) => memory,
        None => not_given.min(memory.available),
    };
    NodeDescription {
        host: sysinfo::System::host_name().unwrap_or_default(),
        cpus,
        memory_bytes,
        load_15: load.fifteen,
        load_1: load.one,
        memory_used_bytes: memory.total.saturating_sub(memory.available),
        memory_free_bytes,
        disk_free_bytes,
        disk_total_bytes,
        live: busy.live,
        waiting: busy.waiting,
        root: paths.root().display().to_string(),
        clock_ms: clocks.wall_ns / 1_000_000,
        boot_ms: clocks.mono_ns / 1_000_000,
        boot_id: nero_model::process::boot_id()
            .map(|id| nero_model::ids::hex(&id))
            .unwrap_or_default(),
        cpus_free,
        hold: busy.hold,
        unreadable: busy.unreadable,
        gpus: described(gpus),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: kernel(),
        libc: libc().to_owned(),
        site,
    }
}

/// CPUs and memory of a host that no site has more of.
const MANY: (u64, u64) = (100_000, 1 << 50);

/// The most that a run can have on one host of the cluster. What is not told is not
/// limited: its scheduler refuses what it does not have.
fn largest(site: &Site) -> (f64, u64) {
    let open = || site.partitions.iter().filter(|partition| partition.is_open);
    let most = |each: &dyn Fn(&nero_wire::v1::Partition) -> u64, many: u64| {
        let each = open().map(|partition| match each(partition) {
            0 => many,
            told => told,
        });
        each.max().unwrap_or(many)
    };
    let cpus = most(&|partition| partition.cpus, MANY.0);
    let memory = most(&|partition| partition.memory_bytes, MANY.1);
    (cpus as f64, memory)
}

struct Memory {
    total: u64,
    available: u64,
}

impl Memory {
    fn now() -> Self {
        let mut memory = Self {
            total: 0,
            available: 0,
        };
        if let Ok(mut system) = sysinfo::System::new() {
            system.refresh_memory();
            memory.total = system.total_memory();
            memory.available = system.available_memory();
        }
        memory
    }
}

/// CPUs that this process may use.
pub fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// The memory of this machine; `None` where the kernel does not report it.
pub fn memory_bytes() -> Option<u64> {
    Some(Memory::now().total).filter(|bytes| *bytes > 0)
}
