//! The helper `nerokid gpus`, one per host and user: the only process of ours that calls
//! the driver. A call that hangs leaves a process that no signal ends, so it holds no
//! lock, no lease and no file of ours; it replaces a page that neromum and the watchers
//! read, see [`nero_journal::gpus`].
//!
//! Of two helpers that began at the same time the newer one stays. A helper whose page
//! has no reader leaves.

mod amd;
mod nvidia;
pub mod own;
mod owners;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nero_journal::gpus;
use nero_journal::v1::{GpuCard, GpuPage, GpuTrouble, Process};
use nero_model::ProcessId;

use amd::Amd;
use nvidia::Nvidia;
use owners::Owners;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time without readers after which the helper leaves.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Pages on which a card that was lost is still told of.
const LOST_MAX: usize = 1024;

/// How the helper works.
#[derive(Clone, Debug)]
pub struct GpuHelper {
    /// Folder of the page.
    pub folder: PathBuf,
    /// `/sys`, or what stands in its place.
    pub sys: PathBuf,
}

/// What one reading found.
#[derive(Debug, Default)]
struct GpuReading {
    cards: Vec<GpuCard>,
    driver: String,
    trouble: GpuTrouble,
    detail: String,
    lacks: Vec<String>,
}

/// Reads and writes pages until another helper takes over or the pages have no reader.
///
/// # Errors
/// When the folder cannot be used.
pub fn serve(settings: &GpuHelper) -> Result<(), String> {
    let folder = &settings.folder;
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    gpus::make_folder(folder).map_err(wrong)?;
    let own = ProcessId::own().map_err(wrong)?;
    let mut helper = Helper {
        page: GpuPage {
            helper: Some(own.into()),
            boot_ns: gpus::boot_ns(),
            ..GpuPage::default()
        },
        nvidia: None,
        amd: Amd::new(&settings.sys),
        owners: Owners::default(),
        seen: BTreeMap::new(),
    };
    // Before the first call of the driver: if that hangs, it is known since when.
    gpus::write(folder, &helper.page).map_err(wrong)?;
    let began = Instant::now();
    while !is_replaced(folder, &own) && is_wanted(folder, began) {
        helper.read();
        // A call that hung may return when another helper already writes the page.
        if is_replaced(folder, &own) {
            break;
        }
        gpus::write(folder, &helper.page).map_err(wrong)?;
        if helper.page.trouble() == GpuTrouble::Absent {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// Whether a helper that began later writes the page.
fn is_replaced(folder: &Path, own: &ProcessId) -> bool {
    let Ok(Some(page)) = gpus::read(folder) else {
        return false;
    };
    let newer = |other: &Process| {
        let began = |ticks: u64, pid: i32| (ticks, pid);
        other.boot_id == own.boot_id
            && began(other.start_ticks, other.pid) > began(own.start_ticks, own.pid)
    };
    page.helper.as_ref().is_some_and(newer)
}

fn is_wanted(folder: &Path, began: Instant) -> bool {
    let unread = gpus::unread(folder).unwrap_or(UNREAD_MAX);
    unread.min(began.elapsed()) < UNREAD_MAX
}

struct Helper {
    page: GpuPage,
    nvidia: Option<Nvidia>,
    amd: Amd,
    owners: Owners,
    /// Every card that was found, to tell of those that are lost.
    seen: BTreeMap<String, GpuCard>,
}

impl Helper {
    /// Reads all cards into the page.
    fn read(&mut self) {
        // Of before the calls: what one of them told may be as old.
        let now_ns = gpus::boot_ns();
        let mut reading = match &self.nvidia {
            Some(nvidia) => nvidia.read(),
            None => match Nvidia::load() {
                Ok(nvidia) => self.nvidia.insert(nvidia).read(),
                Err(failed) => failed,
            },
        };
        let mut of_amd = self.amd.read();
        let no_nvidia = [GpuTrouble::Absent, GpuTrouble::NotLoaded];
        if !of_amd.is_empty() && no_nvidia.contains(&reading.trouble) {
            reading.trouble = GpuTrouble::Unspecified;
            reading.detail.clear();
            reading.driver = "AMD".to_owned();
        }
        reading.cards.append(&mut of_amd);
        self.owners.look_again();
        for card in &mut reading.cards {
            self.owners.name(card);
            let foreign = card.processes.iter().any(|process| process.is_foreign);
            let before = self.seen.get(&card.uuid).map_or(0, |seen| seen.foreign_ns);
            card.foreign_ns = if foreign { now_ns } else { before };
        }
        if reading.trouble == GpuTrouble::Unspecified {
            self.note_lost(&mut reading.cards);
        }
        let page = &mut self.page;
        page.number += 1;
        page.boot_ns = now_ns;
        if page.since_ns == 0 {
            page.since_ns = now_ns;
        }
        page.driver = reading.driver;
        page.set_trouble(reading.trouble);
        page.detail = reading.detail;
        page.lacks = reading.lacks;
        page.cards = reading.cards;
    }

    /// Adds cards that were there and do not answer any more.
    fn note_lost(&mut self, cards: &mut Vec<GpuCard>) {
        let lost: Vec<GpuCard> = self
            .seen
            .values()
            .filter(|seen| cards.iter().all(|card| card.uuid != seen.uuid))
            .map(|seen| GpuCard {
                uuid: seen.uuid.clone(),
                name: seen.name.clone(),
                index: seen.index,
                is_amd: seen.is_amd,
                is_slice: seen.is_slice,
                is_lost: true,
                ..GpuCard::default()
            })
            .collect();
        for card in cards.iter() {
            if self.seen.len() < LOST_MAX || self.seen.contains_key(&card.uuid) {
                self.seen.insert(card.uuid.clone(), card.clone());
            }
        }
        cards.extend(lost);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_helper_whose_call_returns_late_leaves_the_page_to_the_one_that_replaced_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = GpuHelper {
            folder: dir.path().join("user/gpus"),
            sys: dir.path().join("sys"),
        };
        let node = settings.sys.join("class/kfd/kfd/topology/nodes/0");
        fs::create_dir_all(&node).unwrap();
        let hang = node.join("gpu_id");
        let made = Command::new("mkfifo").arg(&hang).status().unwrap();
        assert!(made.success());
        let folder = settings.folder.clone();
        let helper = std::thread::spawn(move || serve(&settings));
        // Opens once the helper reads it.
        let call = fs::OpenOptions::new().write(true).open(&hang).unwrap();
        let own = ProcessId::own().unwrap();
        let newer = GpuPage {
            helper: Some(Process {
                start_ticks: own.start_ticks + 1,
                ..own.into()
            }),
            number: 7,
            ..GpuPage::default()
        };
        gpus::write(&folder, &newer).unwrap();
        fs::remove_file(&hang).unwrap();
        drop(call);
        helper.join().unwrap().unwrap();
        assert_eq!(gpus::read(&folder).unwrap(), Some(newer));
    }
}
