//! The node's own cards (GPUs): what the core knows of them, and what a start gets.

use nero_journal::v1::{CardShare, Launch, LedgerCards};
use nero_model::RunToken;
use nero_node_core::cards::{Card, Pool, Share};
use tokio::time::Instant;

use super::{Agent, Driver};
use crate::config;
use crate::staging::container::VisibleCards;

/// Variables that show cards to programs, by maker.
const OF_NVIDIA: &str = "CUDA_VISIBLE_DEVICES";
const OF_AMD: &str = "ROCR_VISIBLE_DEVICES";
/// Variables by which AMD's libraries choose among those once more: an empty list hides all.
const AMONG_AMD: [&str; 3] = [OF_NVIDIA, "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];
/// The order in which NVIDIA's cards are numbered.
const ORDER: &str = "CUDA_DEVICE_ORDER";
const BY_BUS: &str = "PCI_BUS_ID";

impl<D: Driver> Agent<D> {
    /// Looks at the cards while a run waits for some, and now and then while a run has
    /// some: without readers the helper leaves.
    pub(super) fn see_to_cards(&mut self) {
        let Some(cards) = &self.setup.cards else {
            return;
        };
        let pause = match self.core.wants_cards() {
            (true, _) => config::CARDS_WAITED_FOR,
            (false, true) => config::CARDS_READ,
            (false, false) => {
                self.timers.cards = None;
                return;
            }
        };
        let next = Instant::now() + pause;
        if self.timers.cards.is_none_or(|at| at > next) {
            self.core.set_pool(cards.pool());
            self.timers.cards = Some(next);
        }
    }

    /// Another home got the cards first, or they are lost: the run waits for others.
    pub(super) fn cards_taken(&mut self, token: RunToken) {
        if let Some(cards) = &self.setup.cards {
            self.core.set_pool(cards.pool());
        }
        self.core.cards_taken(token);
    }

    /// Gives a start its cards: in the ledger, as locks, and in its environment. False:
    /// it cannot have them, and waits again.
    pub(super) fn give_own_cards(
        &mut self,
        token: RunToken,
        incarnation: u32,
        launch: &mut Launch,
    ) -> bool {
        let Some(cards) = self.setup.cards.clone() else {
            return true;
        };
        let Some(run) = self.core.run(&token) else {
            return false;
        };
        if run.request.is_unmanaged {
            return true;
        }
        if run.request.count == 0 || run.cancelled {
            for name in [OF_NVIDIA, OF_AMD] {
                let head = format!("{name}=");
                // A list of its own stays.
                if !launch
                    .env
                    .iter()
                    .any(|var| var.starts_with(head.as_bytes()))
                {
                    launch.env.push(head.into_bytes());
                }
            }
            return true;
        }
        let shares = run.shares.clone();
        let Some(given) = self.find(&shares) else {
            self.cards_taken(token);
            return false;
        };
        show(&given, &mut launch.env);
        let record = LedgerCards {
            token: token.to_vec(),
            incarnation,
            cards: to_record(&shares),
        };
        if let Err(error) = self.ledger.cards(&record) {
            self.core.not_launched(
                token,
                &format!("the ledger does not take its GPUs: {error}"),
            );
            return false;
        }
        launch.cards = cards.locks(&shares);
        launch.watcher.extend(cards.watcher_options(&shares));
        true
    }

    /// The cards of these shares, as they are numbered now: a lost card shifts the others.
    fn find(&self, shares: &[Share]) -> Option<Vec<Card>> {
        let Some(Pool::Known(cards)) = self.core.pool() else {
            return None;
        };
        let find = |share: &Share| {
            let mut of_share = cards.iter().filter(|card| card.uuid == share.uuid);
            of_share.find(|card| !card.is_lost).cloned()
        };
        shares.iter().map(find).collect()
    }

    /// The GPUs that a run sees. A scheduler shows an allocation its own.
    pub(super) fn visible_cards(&self, token: RunToken, launch: &Launch) -> VisibleCards {
        let run = self.core.run(&token);
        if self.setup.cards.is_none() {
            let head = format!("{OF_NVIDIA}=");
            let shown = |var: &Vec<u8>| var.starts_with(head.as_bytes()) && var.len() > head.len();
            return if launch.env.iter().any(shown) {
                VisibleCards::All
            } else {
                VisibleCards::Listed(Vec::new())
            };
        }
        if run.is_some_and(|run| run.request.is_unmanaged) {
            return match self.core.pool() {
                Some(Pool::Known(cards)) if !cards.is_empty() => VisibleCards::All,
                Some(Pool::Known(_) | Pool::Unknown(_)) | None => VisibleCards::Listed(Vec::new()),
            };
        }
        let shares = run.map(|run| run.shares.iter().map(|share| share.uuid.clone()));
        VisibleCards::Listed(shares.into_iter().flatten().collect())
    }

    /// The record of a run's cards, for a ledger that is written anew.
    pub(super) fn cards_kept(&self, token: &RunToken) -> Option<LedgerCards> {
        let run = self.core.run(token)?;
        let incarnation = run.stage.incarnation();
        (incarnation > 0 && !run.shares.is_empty()).then(|| LedgerCards {
            token: token.to_vec(),
            incarnation,
            cards: to_record(&run.shares),
        })
    }
}

/// The shares in a record of the ledger.
pub(super) fn from_record(record: &LedgerCards) -> Vec<Share> {
    let of = |card: &CardShare| Share {
        uuid: card.uuid.clone(),
        start: card.start,
        length: card.length,
    };
    record.cards.iter().map(of).collect()
}

fn to_record(shares: &[Share]) -> Vec<CardShare> {
    let of = |share: &Share| CardShare {
        uuid: share.uuid.clone(),
        start: share.start,
        length: share.length,
    };
    shares.iter().map(of).collect()
}

/// Lets a job see these cards and no others.
fn show(cards: &[Card], env: &mut Vec<Vec<u8>>) {
    let is_amd = cards.iter().any(|card| card.is_amd);
    let each: Vec<String> = cards
        .iter()
        .map(|card| {
            if card.is_slice {
                card.uuid.clone()
            } else {
                card.index.to_string()
            }
        })
        .collect();
    let list = each.join(",");
    let (given, others): (&[_], &[_]) = if is_amd {
        (&[(OF_AMD, &*list)], &AMONG_AMD)
    } else {
        (&[(ORDER, BY_BUS), (OF_NVIDIA, &list), (OF_AMD, "")], &[])
    };
    let given_names = given.iter().map(|(name, _)| name);
    for name in given_names.chain(others) {
        let head = format!("{name}=");
        env.retain(|var| !var.starts_with(head.as_bytes()));
    }
    for (name, value) in given {
        env.push(format!("{name}={value}").into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cards: &[Card]) -> Vec<String> {
        let mut env = vec![b"A=1".to_vec(), b"CUDA_VISIBLE_DEVICES=7".to_vec()];
        show(cards, &mut env);
        env.iter()
            .map(|var| String::from_utf8_lossy(var).into_owned())
            .collect()
    }

    #[test]
    fn a_job_sees_whole_cards_by_number_and_slices_by_their_names() {
        let card = |index| Card {
            uuid: format!("GPU-{index}"),
            index,
            ..Card::default()
        };
        let expected = [
            "A=1",
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=0,3",
            "ROCR_VISIBLE_DEVICES=",
        ];
        assert_eq!(shown(&[card(0), card(3)]), expected);
        let slice = Card {
            is_slice: true,
            uuid: "MIG-a".to_owned(),
            ..card(0)
        };
        assert_eq!(shown(&[slice])[2], "CUDA_VISIBLE_DEVICES=MIG-a");
        let amd = Card {
            is_amd: true,
            ..card(1)
        };
        assert_eq!(
            shown(&[amd]),
            ["A=1", "ROCR_VISIBLE_DEVICES=1"],
            "AMD's libraries read NVIDIA's variable, too"
        );
    }
}
