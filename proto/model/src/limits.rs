//! Limits that a process sets itself before it looks at what comes from elsewhere.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Limits address space and time on a processor of this process, and lets it leave no core file.
/// Returns whether all limits hold.
pub fn limit(address_space: u64, cpu_seconds: u64) -> bool {
    let limits = [
        (Resource::As, address_space, address_space),
        // At the lower limit SIGXCPU ends it, which nothing else sends; at the upper one
        // SIGKILL, as where memory is short.
        (Resource::Cpu, cpu_seconds, cpu_seconds + 1),
        (Resource::Core, 0, 0),
    ];
    limits.into_iter().all(|(resource, current, maximum)| {
        let limit = Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        };
        setrlimit(resource, limit).is_ok()
    })
}
