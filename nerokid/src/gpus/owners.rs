//! Whose the processes on cards are: those of runs to which a neromum of this user gave
//! cards, and foreign ones.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use nero_journal::v1::GpuCard;
use nero_model::process::Stat;

/// Most parents of a process that are looked at.
const PARENTS_MAX: usize = 32;
/// The variable that a run with cards has: how many.
const GPUS: &[u8] = b"NERO_GPUS=";
/// Its value in a run that was given no card.
const NOT_GIVEN: [&[u8]; 2] = [b"0", b"unmanaged"];

/// Looks each process up once.
#[derive(Debug, Default)]
pub struct Owners {
    known: HashMap<i32, Owner>,
}

#[derive(Clone, Debug)]
struct Owner {
    start_ticks: u64,
    user: String,
    is_foreign: bool,
    /// Whether this round met it.
    is_met: bool,
}

impl Owners {
    /// Begins a round, and forgets the processes that the last one did not meet.
    pub fn look_again(&mut self) {
        self.known
            .retain(|_, owner| std::mem::take(&mut owner.is_met));
    }

    /// Fills in the owner of each process of a card. A process that is gone by now is
    /// left out.
    pub fn name(&mut self, card: &mut GpuCard) {
        card.processes.retain_mut(|process| {
            let Ok(stat) = Stat::read(process.pid) else {
                return false;
            };
            let known = self.known.get(&process.pid);
            let known = known.filter(|owner| owner.start_ticks == stat.start_ticks);
            let owner = known.cloned().unwrap_or_else(|| Owner {
                start_ticks: stat.start_ticks,
                user: user_of(process.pid),
                is_foreign: !has_cards_of_ours(process.pid),
                is_met: true,
            });
            process.user.clone_from(&owner.user);
            process.is_foreign = owner.is_foreign;
            let met = Owner {
                is_met: true,
                ..owner
            };
            self.known.insert(process.pid, met);
            true
        });
    }
}

/// Whether a process, or one that it descends from, is of a run that was given cards. A
/// process of another user cannot be read, and its parents are not asked.
fn has_cards_of_ours(pid: i32) -> bool {
    let mut pid = pid;
    for _ in 0..PARENTS_MAX {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            return false;
        };
        let mut each = environment.split(|byte| *byte == 0);
        if let Some(given) = each.find_map(|var| var.strip_prefix(GPUS)) {
            return !NOT_GIVEN.contains(&given);
        }
        match Stat::read(pid) {
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

/// The name of a process's user, else its number.
fn user_of(pid: i32) -> String {
    let Ok(found) = fs::metadata(format!("/proc/{pid}")) else {
        return String::new();
    };
    let uid = found.uid().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = passwd.lines().map(|line| line.split(':'));
    let name = lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {uid}"))
}
