//! NVIDIA's cards, by its library, which is loaded at run time. Each reading is optional
//! by itself: an old driver lacks the call for one and has the others.

use std::cell::RefCell;
use std::ffi::OsStr;

use nero_journal::v1::{GpuCard, GpuProcess, GpuTrouble};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::GpuReading;

/// The library by the loader's own search, then where WSL and NixOS have it.
const LIBRARIES: [&str; 3] = [
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];
/// Limits of cards, of slices of one card, and of processes on one.
const CARDS_MAX: u32 = 64;
const SLICES_MAX: u32 = 16;
const PROCESSES_MAX: usize = 256;
/// Programs of the display and of the driver, which do not compute.
const NOT_COMPUTING: [&str; 4] = ["Xorg", "Xwayland", "gnome-shell", "nvidia-cuda-mps-server"];

/// The loaded library.
#[derive(Debug)]
pub struct Nvidia {
    nvml: Nvml,
    driver: String,
    /// Readings for which this driver lacks the call.
    lacks: RefCell<Vec<String>>,
}

impl Nvidia {
    /// Loads it. The error is the reading when that fails.
    pub fn load() -> Result<Self, GpuReading> {
        let mut absent = String::new();
        for path in LIBRARIES {
            match Nvml::builder().lib_path(OsStr::new(path)).init() {
                Ok(nvml) => {
                    let version = nvml.sys_driver_version().unwrap_or_default();
                    return Ok(Self {
                        nvml,
                        driver: format!("NVIDIA {version}"),
                        lacks: RefCell::default(),
                    });
                }
                Err(NvmlError::LibloadingError(error)) => {
                    if absent.is_empty() {
                        absent = error.to_string();
                    }
                }
                Err(error) => return Err(trouble(&error)),
            }
        }
        Err(GpuReading {
            trouble: GpuTrouble::Absent,
            detail: absent,
            ..GpuReading::default()
        })
    }

    /// All cards; of a split card its slices.
    pub fn read(&self) -> GpuReading {
        let count = match self.nvml.device_count() {
            Ok(count) => count.min(CARDS_MAX),
            Err(error) => return trouble(&error),
        };
        let mut cards = Vec::new();
        for index in 0..count {
            // A card that does not answer is told of as lost by who saw it before.
            if let Ok(device) = self.nvml.device_by_index(index) {
                self.read_card(index, &device, &mut cards);
            }
        }
        GpuReading {
            cards,
            driver: self.driver.clone(),
            lacks: self.lacks.borrow().clone(),
            ..GpuReading::default()
        }
    }

    fn read_card(&self, index: u32, device: &Device<'_>, cards: &mut Vec<GpuCard>) {
        let Ok(uuid) = device.uuid() else {
            return;
        };
        let card = self.measure(device, uuid, index);
        let split = device.mig_mode().is_ok_and(|mode| mode.current == 1);
        if !split {
            cards.push(card);
            return;
        }
        let most = device
            .mig_device_count()
            .unwrap_or_default()
            .min(SLICES_MAX);
        for slice in (0..most).filter_map(|at| device.mig_device_by_index(at).ok()) {
            let Ok(uuid) = slice.uuid() else {
                continue;
            };
            let mut part = self.measure(&slice, uuid, index);
            part.is_slice = true;
            // The driver knows these of the whole card alone.
            part.utilisation = None;
            part.power_w = None;
            part.temperature_c = card.temperature_c;
            cards.push(part);
        }
    }

    fn measure(&self, device: &Device<'_>, uuid: String, index: u32) -> GpuCard {
        let memory = self.known("memory", device.memory_info());
        let utilisation = self.known("utilisation", device.utilization_rates());
        let power = self.known("power", device.power_usage());
        let sensor = TemperatureSensor::Gpu;
        let temperature = self.known("temperature", device.temperature(sensor));
        // Drivers before 510 have the earlier call alone.
        let computing = match device.running_compute_processes() {
            Err(NvmlError::FailedToLoadSymbol(_)) => device.running_compute_processes_v2(),
            told => told,
        };
        let computing = self.known("processes", computing);
        let drawing = match device.running_graphics_processes() {
            Err(NvmlError::FailedToLoadSymbol(_)) => device.running_graphics_processes_v2(),
            told => told,
        };
        let drawing = drawing.unwrap_or_default();
        let bytes = |used: &UsedGpuMemory| match used {
            UsedGpuMemory::Used(bytes) => Some(*bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let mut card = GpuCard {
            name: self.known("name", device.name()).unwrap_or_default(),
            uuid,
            index,
            memory_bytes: memory.as_ref().map(|memory| memory.total),
            used_bytes: memory.as_ref().map(|memory| memory.used),
            utilisation: utilisation.map(|used| f64::from(used.gpu) / 100.0),
            power_w: power.map(|power| f64::from(power) / 1000.0),
            temperature_c: temperature.map(f64::from),
            ..GpuCard::default()
        };
        let mut seen = 0;
        for process in drawing {
            seen += bytes(&process.used_gpu_memory).unwrap_or_default();
        }
        for process in computing
            .unwrap_or_default()
            .into_iter()
            .take(PROCESSES_MAX)
        {
            let pid = i32::try_from(process.pid).unwrap_or_default();
            let used = bytes(&process.used_gpu_memory);
            let Some(name) = name(pid) else {
                // Of another pid name space: its memory is that of nobody.
                continue;
            };
            seen += used.unwrap_or_default();
            if !NOT_COMPUTING.contains(&&*name) {
                card.processes.push(GpuProcess {
                    pid,
                    name,
                    bytes: used,
                    ..GpuProcess::default()
                });
            }
        }
        card.unseen_bytes = card.used_bytes.unwrap_or_default().saturating_sub(seen);
        card
    }

    /// A reading, if the driver has it; notes one for which it lacks the call.
    fn known<T>(&self, what: &str, reading: Result<T, NvmlError>) -> Option<T> {
        if let Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) = &reading {
            let mut lacks = self.lacks.borrow_mut();
            if lacks.iter().all(|lacked| lacked != what) {
                lacks.push(what.to_owned());
            }
        }
        reading.ok()
    }
}

/// The name of a process; `None`: it cannot be seen.
pub fn name(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(text.trim_end().to_owned())
}

fn trouble(error: &NvmlError) -> GpuReading {
    let trouble = match error {
        NvmlError::DriverNotLoaded => GpuTrouble::NotLoaded,
        NvmlError::LibRmVersionMismatch => GpuTrouble::Mismatched,
        _ => GpuTrouble::Broken,
    };
    GpuReading {
        trouble,
        detail: error.to_string(),
        ..GpuReading::default()
    }
}
