//! AMD's cards, by the files of the kernel: no library, and no call that can hang in one.

use std::fs;
use std::path::{Path, PathBuf};

use nero_journal::v1::{GpuCard, GpuProcess};

use super::nvidia::name;

/// AMD's number as a maker of devices of the PCI bus.
const VENDOR: &str = "0x1002";
/// Most processes that are looked at.
const PROCESSES_MAX: usize = 1024;

/// The tree of the kernel's files.
#[derive(Debug)]
pub struct Amd {
    sys: PathBuf,
}

impl Amd {
    /// Below `/sys`.
    pub fn new(sys: &Path) -> Self {
        Self {
            sys: sys.to_path_buf(),
        }
    }

    /// All cards that compute, in the order in which ROCm numbers them.
    pub fn read(&self) -> Vec<GpuCard> {
        let mut nodes: Vec<(u32, PathBuf)> =
            entries(&self.sys.join("class/kfd/kfd/topology/nodes"))
                .filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path)))
                .collect();
        nodes.sort();
        let devices = self.devices();
        let mut cards = Vec::new();
        let mut count = 0;
        for (_, node) in nodes {
            let Some(gpu) = number(&node.join("gpu_id")).filter(|id| *id > 0) else {
                continue;
            };
            // ROCm numbers those, too, that are told of no further.
            let index = count;
            count += 1;
            let properties = fs::read_to_string(node.join("properties")).unwrap_or_default();
            let property = |name: &str| {
                let mut lines = properties.lines().filter_map(|line| line.split_once(' '));
                lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
            };
            let render: Option<u64> = property("drm_render_minor");
            let found = devices.iter().find(|(minor, _)| Some(*minor) == render);
            let Some((_, device)) = found.filter(|(_, device)| {
                text(&device.join("vendor")).is_some_and(|vendor| vendor == VENDOR)
            }) else {
                continue;
            };
            let mut card = measure(device, index);
            card.processes = self.processes(gpu);
            let seen: u64 = card.processes.iter().filter_map(|one| one.bytes).sum();
            card.unseen_bytes = card.used_bytes.unwrap_or_default().saturating_sub(seen);
            cards.push(card);
        }
        cards
    }

    /// Folders of devices, by the number of their render node.
    fn devices(&self) -> Vec<(u64, PathBuf)> {
        let nodes = entries(&self.sys.join("class/drm"));
        let minor = |path: PathBuf| {
            let minor = path.file_name()?.to_str()?.strip_prefix("renderD")?;
            Some((minor.parse().ok()?, path.join("device")))
        };
        nodes.filter_map(minor).collect()
    }

    fn processes(&self, gpu: u64) -> Vec<GpuProcess> {
        let each = entries(&self.sys.join("class/kfd/kfd/proc")).take(PROCESSES_MAX);
        let of = |path: PathBuf| {
            let pid: i32 = path.file_name()?.to_str()?.parse().ok()?;
            let bytes = number(&path.join(format!("vram_{gpu}"))).filter(|bytes| *bytes > 0)?;
            Some(GpuProcess {
                pid,
                name: name(pid)?,
                bytes: Some(bytes),
                ..GpuProcess::default()
            })
        };
        each.filter_map(of).collect()
    }
}

fn measure(device: &Path, index: u32) -> GpuCard {
    let hwmon = entries(&device.join("hwmon")).next();
    let sensor = |names: &[&str]| {
        let folder = hwmon.as_ref()?;
        names.iter().find_map(|name| number(&folder.join(name)))
    };
    let unique = text(&device.join("unique_id"));
    let place = || {
        let place = fs::canonicalize(device).ok()?;
        Some(place.file_name()?.to_str()?.to_owned())
    };
    let uuid = unique.or_else(place).unwrap_or_else(|| index.to_string());
    GpuCard {
        uuid: format!("GPU-{uuid}"),
        name: text(&device.join("product_name")).unwrap_or_else(|| "AMD GPU".to_owned()),
        index,
        is_amd: true,
        memory_bytes: number(&device.join("mem_info_vram_total")),
        used_bytes: number(&device.join("mem_info_vram_used")),
        utilisation: number(&device.join("gpu_busy_percent")).map(|part| part as f64 / 100.0),
        power_w: sensor(&["power1_average", "power1_input"]).map(|micro| micro as f64 / 1e6),
        temperature_c: sensor(&["temp1_input"]).map(|milli| milli as f64 / 1e3),
        ..GpuCard::default()
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.path())
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}
