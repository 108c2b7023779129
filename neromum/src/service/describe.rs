//! Description of the node: its properties and its present load.

use std::path::Path;
use std::sync::OnceLock;

use nero_wire::v1::{Gpu, NodeDescription};

use super::Inner;
use crate::agent::Busy;

/// Describes everything at once; a fact that cannot be found out stays 0.
pub fn describe(inner: &Inner, busy: Busy, gpus: Vec<Gpu>) -> NodeDescription {
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
    NodeDescription {
        host: sysinfo::System::host_name().unwrap_or_default(),
        cpus: inner.cpus,
        memory_bytes,
        load_15: load.fifteen,
        load_1: load.one,
        memory_used_bytes: memory.total.saturating_sub(memory.available),
        memory_free_bytes: not_given.min(memory.available),
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
        cpus_free: busy.cpus_free,
        hold: busy.hold,
        unreadable: busy.unreadable,
        gpus,
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: kernel(),
        libc: libc().to_owned(),
    }
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

/// The memory of this machine; `None` where the kernel does not report it.
pub fn memory_bytes() -> Option<u64> {
    Some(Memory::now().total).filter(|bytes| *bytes > 0)
}

/// The kernel's release.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// The C library that the node's programs use; ours may be another. Read once,
/// from the library's file.
pub fn libc() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let arch = std::env::consts::ARCH;
        let folders = [
            "/lib64".to_owned(),
            format!("/lib/{arch}-linux-gnu"),
            "/lib".to_owned(),
            format!("/usr/lib/{arch}-linux-gnu"),
            "/usr/lib64".to_owned(),
            "/usr/lib".to_owned(),
        ];
        let glibc = folders
            .iter()
            .find_map(|folder| std::fs::read(format!("{folder}/libc.so.6")).ok());
        if let Some(library) = glibc {
            return glibc_version(&library).unwrap_or_else(|| "glibc".to_owned());
        }
        if Path::new(&format!("/lib/ld-musl-{arch}.so.1")).exists() {
            return "musl".to_owned();
        }
        String::new()
    })
}

/// Reads the version from a text in the library: `GNU C Library (…) stable
/// release version 2.36.`
fn glibc_version(library: &[u8]) -> Option<String> {
    let after = |text: &[u8], word: &[u8]| {
        let at = text.windows(word.len()).position(|window| window == word)?;
        Some(at + word.len())
    };
    let named = &library[after(library, b"GNU C Library")?..];
    let named = &named[..named.len().min(200)];
    let version = &named[after(named, b"version ")?..];
    let length = version
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let version = std::str::from_utf8(&version[..length]).ok()?;
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| format!("glibc {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_out_of_the_library() {
        let library = b"\0\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(glibc_version(library).as_deref(), Some("glibc 2.36"));
        let old = b"GNU C Library stable release version 2.17, by Roland McGrath";
        assert_eq!(glibc_version(old).as_deref(), Some("glibc 2.17"));
        assert_eq!(glibc_version(b"GNU C Library"), None);
        assert_eq!(glibc_version(b""), None);
    }
}
