//! The cards (GPUs) of a bare node: what the helper `nerokid gpus` tells of them, which of
//! them are locked, and the helper's start. neromum itself never calls the driver.

mod locks;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nero_journal::gpus::{self, FRESH};
use nero_journal::v1::{CardLock, GpuCard, GpuPage, GpuTrouble};
use nero_model::ProcessId;
use nero_model::process::Life;
use nero_model::safe::Safe;
use nero_node_core::cards::{Card, CardRequest, Pool, Share};

/// Age of a page from which on its helper hangs in the driver.
const HUNG: Duration = Duration::from_secs(30);
/// Least time between the start of a helper that hung and that of the next one. A description of
/// a machine without cards holds as long.
const REPLACED_AFTER: Duration = Duration::from_secs(600);
/// Least time between two starts by this process.
const STARTED_AFTER: Duration = Duration::from_secs(5);
/// Time between the two looks that show a card without processes of others: trainers
/// free theirs for less.
const LOOK_TWICE_NS: u64 = 5_000_000_000;
/// Folder of the page in place of the user's own.
const FOLDER: &str = "NERONET_GPUS";

/// The cards of the host that runs may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeCards {
    /// All of them.
    #[default]
    All,
    /// The first ones.
    First(u32),
    /// Those of these numbers.
    Only(Vec<u32>),
}

/// What is known of the host's cards.
#[derive(Clone, Debug, PartialEq)]
pub enum CardsKnown {
    /// The helper tells them now.
    Cards(GpuPage),
    /// The host has none that could be used.
    None(String),
    /// The helper reads them for the first time.
    Looking,
    /// They are not known, for this reason.
    Unknown {
        /// In words.
        why: String,
        /// What a person can do; empty: it passes.
        hint: &'static str,
    },
}

/// Reads the page and starts the helper.
#[derive(Debug)]
pub struct Cards {
    folder: PathBuf,
    program: PathBuf,
    given: NodeCards,
    boot_id: [u8; 16],
    started: Mutex<Option<Instant>>,
}

impl NodeCards {
    /// `4`, `[0,2]`, `0`, as the option `--gpus` has it.
    pub fn read(text: &str) -> Option<Self> {
        match text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
        {
            Some(list) => {
                let numbers = list.split(',').map(|one| one.trim().parse().ok());
                Some(Self::Only(numbers.collect::<Option<_>>()?))
            }
            None => Some(Self::First(text.parse().ok()?)),
        }
    }

    /// The text that [`NodeCards::read`] reads; `None`: the option is left out.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::First(count) => Some(count.to_string()),
            Self::Only(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                Some(format!("[{}]", numbers.join(",")))
            }
        }
    }

    fn has(&self, card: &GpuCard) -> bool {
        match self {
            Self::All => true,
            Self::First(count) => card.index < *count,
            Self::Only(numbers) => numbers.contains(&card.index),
        }
    }
}

impl Cards {
    /// Of this host, read by the program `nerokid`.
    pub fn new(program: &Path, given: NodeCards, boot_id: [u8; 16]) -> Self {
        let folder = std::env::var_os(FOLDER).map_or_else(gpus::folder, PathBuf::from);
        Self {
            folder,
            program: program.to_path_buf(),
            given,
            boot_id,
            started: Mutex::default(),
        }
    }

    /// What is known now. Starts the helper where none is at work.
    pub fn snapshot(&self) -> CardsKnown {
        self.look_at(REPLACED_AFTER)
    }

    /// The same for a run that asks for cards: that there are none is asked anew, since a driver
    /// may have been loaded meanwhile.
    pub fn look_anew(&self) -> CardsKnown {
        self.look_at(FRESH)
    }

    /// What is known now; a page that tells of no cards counts for so long.
    fn look_at(&self, absent_for: Duration) -> CardsKnown {
        if self.given == NodeCards::First(0) {
            return CardsKnown::None("the node gives no GPUs (`gpus: 0`)".to_owned());
        }
        if let Err(error) = gpus::make_folder(&self.folder) {
            return CardsKnown::Unknown {
                why: error.to_string(),
                hint: "",
            };
        }
        gpus::note_reader(&self.folder);
        // A damaged page is replaced as a missing one.
        let page = gpus::read(&self.folder).unwrap_or_default();
        let now_ns = gpus::boot_ns();
        let age = page
            .as_ref()
            .and_then(|page| page.age(now_ns, &self.boot_id));
        let (Some(page), Some(age)) = (page, age) else {
            return self.begin();
        };
        if age > FRESH && page.trouble() != GpuTrouble::Absent {
            return self.silent(&page, age);
        }
        let text = |what: &str| {
            if page.detail.is_empty() {
                what.to_owned()
            } else {
                format!("{what} ({})", Safe::line(&page.detail))
            }
        };
        match page.trouble() {
            GpuTrouble::Absent if age > absent_for => self.begin(),
            GpuTrouble::Absent => {
                CardsKnown::None("this host has no GPUs, or no driver of them".to_owned())
            }
            GpuTrouble::NotLoaded => CardsKnown::Unknown {
                why: text("the library of the NVIDIA driver is there, the driver is not loaded"),
                hint: "load it (`modprobe nvidia`), or have the administrator do so",
            },
            GpuTrouble::Mismatched => CardsKnown::Unknown {
                why: text("the NVIDIA driver and its library are of different versions"),
                hint: "the driver was updated: the machine must be restarted",
            },
            GpuTrouble::Broken => CardsKnown::Unknown {
                why: text("the NVIDIA driver fails"),
                hint: "run nvidia-smi there",
            },
            GpuTrouble::Unspecified if page.number == 0 => CardsKnown::Looking,
            GpuTrouble::Unspecified => CardsKnown::Cards(self.of_node(page)),
        }
    }

    /// The page with the cards that the node gives.
    fn of_node(&self, mut page: GpuPage) -> GpuPage {
        page.cards.retain(|card| self.given.has(card));
        page
    }

    /// Why a run never gets what it asks for here; `None`: it may.
    pub fn lacks(told: &CardsKnown, request: &CardRequest) -> Option<String> {
        let cards = match told {
            CardsKnown::Cards(page) => page
                .cards
                .iter()
                .map(|card| known(card, 0, Vec::new()))
                .collect(),
            CardsKnown::None(_) => Vec::new(),
            // It may get them later.
            CardsKnown::Looking | CardsKnown::Unknown { .. } => return None,
        };
        request.lacks(&cards)
    }

    /// Starts a helper, unless this process did a moment ago.
    fn begin(&self) -> CardsKnown {
        let mut started = self
            .started
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if started.is_some_and(|at| at.elapsed() < STARTED_AFTER) {
            return CardsKnown::Looking;
        }
        *started = Some(Instant::now());
        match self.spawn() {
            Ok(()) => CardsKnown::Looking,
            Err(error) => CardsKnown::Unknown {
                why: format!("{} cannot be started: {error}", self.program.display()),
                hint: "",
            },
        }
    }

    fn spawn(&self) -> std::io::Result<()> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .arg("gpus")
            .arg(&self.folder)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It outlives us, and no signal of our terminal ends it.
            .process_group(0)
            .kill_on_drop(false);
        let mut child = command.spawn()?;
        tracing::info!(pid = child.id(), "the helper for GPUs was started");
        #[expect(
            clippy::disallowed_methods,
            reason = "it only keeps a zombie away; the page tells of a dead helper"
        )]
        tokio::spawn(async move {
            let ended = child.wait().await;
            tracing::info!(?ended, "the helper for GPUs ended");
        });
        Ok(())
    }

    /// The helper of a page that grew old: it left, it was killed, or it hangs.
    fn silent(&self, page: &GpuPage, age: Duration) -> CardsKnown {
        let helper = page.helper.as_ref().and_then(|helper| helper.identity());
        let life = helper
            .as_ref()
            .and_then(|helper| ProcessId::life(helper).ok());
        let is_dead = matches!(life, Some(Life::Dead | Life::Zombie | Life::Rebooted));
        // One that died in its first calls would do so again.
        if (is_dead && page.number > 0) || age > REPLACED_AFTER {
            return self.begin();
        }
        if age <= HUNG {
            return CardsKnown::Looking;
        }
        let pid = helper.map_or(0, |helper| helper.pid);
        let minutes = age.as_secs() / 60;
        let what = if is_dead {
            "the helper that asks the GPU driver died in its first call"
        } else {
            "the GPU driver does not answer"
        };
        CardsKnown::Unknown {
            why: format!(
                "{what} (last heard {minutes} min ago, pid {pid}): runs go on, nothing new gets a GPU; asked \
                 again after {} min",
                REPLACED_AFTER.as_secs() / 60
            ),
            hint: "run nvidia-smi there; a driver that hangs for good needs a restart of the machine",
        }
    }

    /// The cards with what of them is locked, for the choice of a run's.
    pub fn pool(&self) -> Pool {
        let page = match self.look_anew() {
            CardsKnown::Cards(page) => page,
            CardsKnown::None(_) => return Pool::Known(Vec::new()),
            CardsKnown::Looking => return Pool::Unknown("they are being looked at".to_owned()),
            CardsKnown::Unknown { why, .. } => return Pool::Unknown(why),
        };
        if page.boot_ns - page.since_ns < LOOK_TWICE_NS {
            return Pool::Unknown("they are looked at twice, 5 s apart".to_owned());
        }
        let cards = page.cards.iter().map(|card| {
            let locked = locks::locked(&gpus::slots(&self.folder, &card.uuid))?;
            Ok(known(card, page.boot_ns, locked))
        });
        match cards.collect::<std::io::Result<Vec<Card>>>() {
            Ok(cards) => Pool::Known(cards),
            Err(error) => Pool::Unknown(format!("{}: {error}", self.folder.display())),
        }
    }

    /// Options with which a watcher finds the readings of a run's cards.
    pub fn watcher_options(&self, shares: &[Share]) -> Vec<String> {
        if shares.is_empty() {
            return Vec::new();
        }
        let uuids: Vec<&str> = shares.iter().map(|share| &*share.uuid).collect();
        let folder = self.folder.display().to_string();
        vec![
            "--gpus".to_owned(),
            folder,
            "--cards".to_owned(),
            uuids.join(","),
        ]
    }

    /// The locks that a start needs.
    pub fn locks(&self, shares: &[Share]) -> Vec<CardLock> {
        let lock = |share: &Share| CardLock {
            path: gpus::slots(&self.folder, &share.uuid).display().to_string(),
            start: share.start,
            length: share.length,
        };
        shares.iter().map(lock).collect()
    }
}

fn known(card: &GpuCard, now_ns: u64, locked: Vec<(u32, u32)>) -> Card {
    let in_words = |process: &nero_journal::v1::GpuProcess| {
        format!(
            "{} (pid {}, {})",
            Safe::line(&process.name),
            process.pid,
            Safe::line(&process.user)
        )
    };
    let mut processes = card.processes.iter();
    let foreign = processes.clone().find(|process| process.is_foreign);
    let lately = card.foreign_ns > 0 && now_ns.saturating_sub(card.foreign_ns) < LOOK_TWICE_NS;
    Card {
        uuid: card.uuid.clone(),
        name: card.name.clone(),
        index: card.index,
        is_amd: card.is_amd,
        is_slice: card.is_slice,
        is_lost: card.is_lost,
        memory_bytes: card.memory_bytes,
        used_bytes: card.used_bytes,
        unseen_bytes: card.unseen_bytes,
        foreign: match (foreign, lately) {
            (Some(foreign), _) => Some(in_words(foreign)),
            (None, true) => Some("a process of others that ended a moment ago".to_owned()),
            (None, false) => None,
        },
        process: processes.next().map(in_words),
        locked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_stays_foreign_for_five_seconds_after_its_last_process_of_others() {
        let ended_ns = 7 * LOOK_TWICE_NS;
        let card = GpuCard {
            foreign_ns: ended_ns,
            ..GpuCard::default()
        };
        let foreign = |card: &GpuCard, now_ns| known(card, now_ns, Vec::new()).foreign;
        let lately = Some("a process of others that ended a moment ago".to_owned());
        assert_eq!(foreign(&card, ended_ns), lately);
        assert_eq!(foreign(&card, ended_ns + LOOK_TWICE_NS - 1), lately);
        assert_eq!(foreign(&card, ended_ns + LOOK_TWICE_NS), None);
        assert_eq!(foreign(&GpuCard::default(), 1), None, "it never had one");
    }

    #[test]
    fn what_a_node_gives_is_read_as_it_is_written() {
        for text in ["0", "4", "[0,2]", "[3]"] {
            assert_eq!(NodeCards::read(text).unwrap().text().as_deref(), Some(text));
        }
        for wrong in ["", "[", "[a]", "-1", "0,2", "[0,]"] {
            assert_eq!(NodeCards::read(wrong), None, "{wrong}");
        }
        let card = |index| GpuCard {
            index,
            ..GpuCard::default()
        };
        let given = |text: &str| {
            let given = NodeCards::read(text).unwrap();
            (0..4)
                .filter(|index| given.has(&card(*index)))
                .collect::<Vec<u32>>()
        };
        assert_eq!(
            (given("2"), given("[0,3]"), given("0")),
            (vec![0, 1], vec![0, 3], vec![])
        );
    }
}
