//! The node's NVIDIA GPUs, read from `nvidia-smi`: a static program cannot load
//! the driver's library, and a call that hangs in the driver must not block
//! neromum. A node without the program reports no GPUs.

use std::process::Stdio;

use nero_wire::v1::Gpu;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config;

const PROGRAM: &str = "nvidia-smi";
const FIELDS: &str = "index,name,memory.total,memory.used,utilization.gpu,uuid";
/// Limit of reported GPUs.
const GPUS_MAX: usize = 64;

/// The last result.
#[derive(Debug, Default)]
pub struct Gpus(Mutex<Option<CachedGpus>>);

#[derive(Debug, Clone)]
struct CachedGpus {
    gpus: Vec<Gpu>,
    again: Instant,
}

impl Gpus {
    /// The driver's values, at most a minute old.
    pub async fn look(&self) -> Vec<Gpu> {
        let mut known = self.0.lock().await;
        let now = Instant::now();
        if let Some(found) = known.as_ref().filter(|found| now < found.again) {
            return found.gpus.clone();
        }
        let asked = tokio::time::timeout(config::GPUS_PATIENCE, ask()).await;
        let (gpus, pause) = match asked {
            Ok(gpus) => (gpus, config::GPUS_FRESH),
            Err(_) => {
                tracing::warn!("{PROGRAM} does not answer");
                let before = known.take().map(|found| found.gpus);
                (before.unwrap_or_default(), config::GPUS_PAUSE)
            }
        };
        *known = Some(CachedGpus {
            gpus: gpus.clone(),
            again: Instant::now() + pause,
        });
        gpus
    }
}

async fn ask() -> Vec<Gpu> {
    let asked = Command::new(PROGRAM)
        .arg(format!("--query-gpu={FIELDS}"))
        .arg("--format=csv,noheader,nounits")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        // After the time limit, the runtime kills and reaps it.
        .kill_on_drop(true)
        .output()
        .await;
    match asked {
        Ok(said) if said.status.success() => read(&String::from_utf8_lossy(&said.stdout)),
        // There is no such program, or no driver.
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// One line per GPU; a value that the driver does not know (`[N/A]`) stays 0.
fn read(text: &str) -> Vec<Gpu> {
    text.lines().filter_map(line).take(GPUS_MAX).collect()
}

fn line(line: &str) -> Option<Gpu> {
    const MIB: f64 = 1024.0 * 1024.0;
    // Values hold no commas; the fields in the middle are the name.
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, name @ .., total, used, busy, uuid] = &fields[..] else {
        return None;
    };
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0).max(0.0);
    Some(Gpu {
        index: index.parse().ok()?,
        name: name.join(", "),
        memory_bytes: (number(total) * MIB) as u64,
        memory_used_bytes: (number(used) * MIB) as u64,
        utilisation: (number(busy) / 100.0).min(1.0),
        uuid: (*uuid).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_driver_are_read_and_others_passed_over() {
        let text = "0, NVIDIA H200, 143771, 1024, 37, GPU-0a\n\
                    1, Tesla K40m, 11441, [N/A], [N/A], GPU-1b\n\
                    Unable to determine the device handle\n\n";
        let gpus = read(text);
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].name, "NVIDIA H200");
        assert_eq!(gpus[0].memory_bytes, 143_771 * 1024 * 1024);
        assert_eq!(gpus[0].utilisation, 0.37);
        assert_eq!((gpus[1].index, gpus[1].memory_used_bytes), (1, 0));
    }
}
