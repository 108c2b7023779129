//! Facts about the host of a run.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use nero_journal::v1::Environment;
use rustix::fs::statvfs;
use rustix::system::{sysinfo, uname};

/// Describes the host, not what of it the run was given; a fact that cannot be read stays empty.
pub fn environment(folder: &Path) -> Environment {
    let names = uname();
    let info = sysinfo();
    Environment {
        host: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
        memory_bytes: info.totalram as u64 * u64::from(info.mem_unit.max(1)),
        cpu_model: cpu_model().unwrap_or_default(),
        disk_free_bytes: statvfs(folder).map_or(0, |disk| disk.f_bavail * disk.f_frsize),
        gpus: gpus(),
        given_gpus: Vec::new(),
        image: String::new(),
    }
}

/// The first processor's name. The file is long on large machines, so only its
/// beginning is read.
fn cpu_model() -> Option<String> {
    let mut text = [0; 4096];
    let got = File::open("/proc/cpuinfo").ok()?.read(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text[..got]);
    let line = text.lines().find(|line| {
        line.starts_with("model name") || line.starts_with("Model") || line.starts_with("cpu model")
    })?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Names of NVIDIA cards, as their driver lists them.
fn gpus() -> Vec<String> {
    let Ok(cards) = fs::read_dir("/proc/driver/nvidia/gpus") else {
        return Vec::new();
    };
    let mut names: Vec<String> = cards
        .filter_map(|card| {
            let text = fs::read_to_string(card.ok()?.path().join("information")).ok()?;
            let line = text.lines().find(|line| line.starts_with("Model:"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .collect();
    names.sort();
    names
}
