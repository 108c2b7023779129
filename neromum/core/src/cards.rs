//! Cards (GPUs) of a bare node: which a run is given, and why it waits for one. Pure: what
//! the driver and the locks of other homes tell comes in with [`Pool`].

use std::fmt::Write as _;

use nero_model::RunToken;
use nero_model::units::short_bytes;

use super::Core;

/// Shares of one card.
pub const WHOLE: u32 = 1_000_000;
/// Memory that a card may have in use without a process that can be seen: the driver's own.
const UNSEEN_BYTES: u64 = 512 << 20;
/// The same as a part of its memory: one of so many.
const UNSEEN_PART: u64 = 20;

/// What a run asks of the node's cards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardRequest {
    /// Number of cards; 0: it is given none.
    pub count: u32,
    /// Shares of each, up to [`WHOLE`].
    pub share: u32,
    /// Memory that each must have, which no other run of ours may ask for.
    pub memory_bytes: u64,
    /// A part of the cards' name; empty: any.
    pub kind: String,
    /// Whether it sees all cards, and sees to them itself.
    pub is_unmanaged: bool,
}

/// A card that the node gives to runs, and what is known of it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Names it for ever.
    pub uuid: String,
    /// What it is.
    pub name: String,
    /// Its number among those of its maker.
    pub index: u32,
    /// Whether AMD made it.
    pub is_amd: bool,
    /// Whether it is a slice of a card (MIG).
    pub is_slice: bool,
    /// Whether it does not answer any more.
    pub is_lost: bool,
    /// All of its memory.
    pub memory_bytes: Option<u64>,
    /// Memory in use.
    pub used_bytes: Option<u64>,
    /// Memory in use by no process that can be seen.
    pub unseen_bytes: u64,
    /// The process of somebody else that it computes for, or lately did, in words.
    pub foreign: Option<String>,
    /// A process on it, of whatever run, in words.
    pub process: Option<String>,
    /// Shares that are locked, by runs of any home of this user: from, to.
    pub locked: Vec<(u32, u32)>,
}

/// The cards of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// They are not known, for this reason: nothing new gets one.
    Unknown(String),
    /// All that the node gives.
    Known(Vec<Card>),
}

/// A part of a card that a start has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The card.
    pub uuid: String,
    /// The first of its shares.
    pub start: u32,
    /// Number of them.
    pub length: u32,
}

/// Why a run gets no card now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoCards {
    /// In words.
    pub why: String,
    /// Whether cards will come by themselves, so that others must not take what the run
    /// needs beside them.
    pub is_next: bool,
}

/// The shares that runs of this node have, with the memory that they ask for.
type CardHolds<'a> = Vec<(&'a Share, u64)>;

impl Core {
    /// Notes what is known of the node's cards.
    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    /// What is known of the node's cards; `None`: others give them.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Notes what a run asks for, and the shares that its newest start got.
    pub fn set_cards(&mut self, token: RunToken, request: CardRequest, shares: Vec<Share>) {
        self.has_card_runs |= request.count > 0;
        if let Some(run) = self.runs.get_mut(&token) {
            run.request = request;
            run.shares = shares;
        }
    }

    /// Whether a run waits that asks for cards, or has some.
    pub fn wants_cards(&self) -> (bool, bool) {
        if !self.has_card_runs {
            return (false, false);
        }
        let mut waiting = self.queue.values().map(|token| &self.runs[token]);
        let waits = waiting.any(|run| run.request.count > 0);
        let has = |run: &super::Run| run.stage.holds_slot() && run.request.count > 0;
        (waits, self.runs.values().any(has))
    }

    /// Notes that the cards of a start went to another home before it was launched.
    pub fn cards_taken(&mut self, token: RunToken) {
        self.back_to_queue(token);
    }

    /// Whether a run would get its cards if these runs had ended.
    pub(super) fn has_cards_after(&self, token: RunToken, ended: &[RunToken]) -> bool {
        let request = &self.runs[&token].request;
        let cards = match self.pool.as_ref().filter(|_| request.count > 0) {
            None => return true,
            Some(Pool::Unknown(_)) => return false,
            Some(Pool::Known(cards)) => cards,
        };
        let (freed, kept): (Vec<_>, Vec<_>) =
            (self.holding()).partition(|(token, _)| ended.contains(token));
        let freed: Vec<&Share> = freed.iter().flat_map(|(_, run)| &run.shares).collect();
        let held: CardHolds<'_> = kept
            .iter()
            .flat_map(|(_, run)| {
                run.shares
                    .iter()
                    .map(|share| (share, run.request.memory_bytes))
            })
            .collect();
        let mut cards = cards.clone();
        for card in &mut cards {
            let of_card = || freed.iter().filter(|share| share.uuid == card.uuid);
            if of_card().next().is_none() {
                continue;
            }
            let is_of = |share: &&&Share, (from, to): (u32, u32)| {
                share.start <= from && to <= share.start + share.length
            };
            let mut locked = card.locked.clone();
            locked.retain(|range| !of_card().any(|share| is_of(&share, *range)));
            card.locked = locked;
            // What is on it belongs to the runs that have ended.
            (card.process, card.unseen_bytes, card.used_bytes) = (None, 0, Some(0));
        }
        pick(&cards, &held, request).is_ok()
    }

    /// The shares that a run gets now.
    pub(super) fn pick_cards(&self, token: RunToken) -> Result<Vec<Share>, NoCards> {
        let request = &self.runs[&token].request;
        let Some(pool) = self.pool.as_ref().filter(|_| request.count > 0) else {
            return Ok(Vec::new());
        };
        let cards = match pool {
            Pool::Known(cards) => cards,
            Pool::Unknown(why) => {
                return Err(NoCards {
                    why: format!("waits for GPUs: {why}"),
                    is_next: false,
                });
            }
        };
        let mut held = CardHolds::new();
        for (_, run) in self.holding() {
            if run.request.count > 0 && run.shares.is_empty() {
                return Err(NoCards {
                    why: format!("waits for GPUs: which of them {} has is not known", run.id),
                    is_next: true,
                });
            }
            let memory = run.request.memory_bytes;
            held.extend(run.shares.iter().map(|share| (share, memory)));
        }
        pick(cards, &held, request)
    }
}

/// Memory that the driver may have in use for itself, or keep from programs.
fn driver_bytes_max(memory_bytes: u64) -> u64 {
    UNSEEN_BYTES.max(memory_bytes / UNSEEN_PART)
}

/// Chooses cards of one maker, those with runs of ours first where a part is asked for.
fn pick(
    cards: &[Card],
    held: &CardHolds<'_>,
    request: &CardRequest,
) -> Result<Vec<Share>, NoCards> {
    let mut why = String::new();
    let mut free = Vec::new();
    for card in request.suitable(cards) {
        match gap(card, held, request) {
            Ok(start) => free.push((card, start)),
            Err(taken) => {
                let _ = write!(why, "; {taken}");
            }
        }
    }
    let is_shared = |card: &Card| held.iter().any(|(share, _)| share.uuid == card.uuid);
    // Stable: else in the order of the cards.
    free.sort_by_key(|(card, _)| request.share == WHOLE || !is_shared(card));
    for is_amd in [false, true] {
        let of_maker = free.iter().filter(|(card, _)| card.is_amd == is_amd);
        let given: Vec<Share> = of_maker
            .take(request.count as usize)
            .map(|(card, start)| Share {
                uuid: card.uuid.clone(),
                start: *start,
                length: request.share,
            })
            .collect();
        if given.len() == request.count as usize {
            return Ok(given);
        }
    }
    if let Some(lacks) = request.lacks(cards) {
        return Err(NoCards {
            why: format!("{lacks}{why}"),
            is_next: false,
        });
    }
    let asks = request.in_words();
    Err(NoCards {
        why: format!("waits for {asks}{why}"),
        is_next: true,
    })
}

impl CardRequest {
    /// Whether a card is of the kind and size.
    fn suits(&self, card: &Card) -> bool {
        let name = card.name.to_lowercase();
        let is_large = |memory| memory + driver_bytes_max(memory) >= self.memory_bytes;
        name.contains(&self.kind.to_lowercase())
            && (self.memory_bytes == 0 || card.memory_bytes.is_some_and(is_large))
    }

    /// The cards that it may get. A program is made for one maker, mostly NVIDIA: AMD's
    /// cards beside NVIDIA's are given by their name alone.
    fn suitable<'a>(&'a self, cards: &'a [Card]) -> impl Iterator<Item = &'a Card> {
        let is_named = !self.kind.is_empty() || cards.iter().all(|card| card.is_amd);
        let is_of_maker = move |card: &Card| is_named || !card.is_amd;
        let suits = move |card: &&Card| is_of_maker(card) && self.may_have(card);
        cards.iter().filter(suits)
    }

    /// Why these cards are never enough; `None`: they are.
    pub fn lacks(&self, cards: &[Card]) -> Option<String> {
        let there = |is_amd| {
            let usable = |card: &&Card| card.is_amd == is_amd && !card.is_lost;
            self.suitable(cards).filter(usable).count()
        };
        let all = there(false).max(there(true));
        (all < self.count as usize).then(|| {
            format!(
                "it asks for {}, and this node has {all} of the kind",
                self.in_words()
            )
        })
    }

    /// Whether it may get a card. A process computes on one slice alone.
    fn may_have(&self, card: &Card) -> bool {
        self.suits(card) && (self.count == 1 || !card.is_slice)
    }

    fn in_words(&self) -> String {
        let mut words = match (self.count, self.share) {
            (1, WHOLE) => "1 GPU".to_owned(),
            (1, part) => format!("{} of a GPU", f64::from(part) / f64::from(WHOLE)),
            (count, _) => format!("{count} GPUs"),
        };
        if !self.kind.is_empty() {
            let _ = write!(words, " ({})", self.kind);
        }
        if self.memory_bytes > 0 {
            let _ = write!(words, " with {}", short_bytes(self.memory_bytes));
        }
        words
    }
}

/// The first free shares of a card that are enough; else why there are none.
fn gap(card: &Card, held: &CardHolds<'_>, request: &CardRequest) -> Result<u32, String> {
    let of_card: Vec<&(&Share, u64)> = held
        .iter()
        .filter(|(share, _)| share.uuid == card.uuid)
        .collect();
    let number = card.index;
    if card.is_lost {
        return Err(format!(
            "GPU {number} is lost: the driver does not find it any more"
        ));
    }
    if let Some(foreign) = &card.foreign {
        return Err(format!("GPU {number} is used by {foreign}"));
    }
    let is_ours = !of_card.is_empty() || !card.locked.is_empty();
    if let Some(process) = card.process.as_ref().filter(|_| !is_ours) {
        return Err(format!("GPU {number} is still used by {process}"));
    }
    let memory = card.memory_bytes.unwrap_or_default();
    if !is_ours && card.unseen_bytes > driver_bytes_max(memory) {
        let unseen = short_bytes(card.unseen_bytes);
        return Err(format!(
            "GPU {number}: {unseen} are used by processes that cannot be seen from here"
        ));
    }
    let asked: u64 = of_card.iter().map(|(_, memory)| memory).sum();
    let used = if is_ours {
        asked
    } else {
        card.used_bytes.unwrap_or_default()
    };
    let most = memory + driver_bytes_max(memory);
    if request.memory_bytes > 0 && used + request.memory_bytes > most {
        return Err(format!(
            "GPU {number} has {} left",
            short_bytes(memory.saturating_sub(used))
        ));
    }
    let ours = of_card
        .iter()
        .map(|(share, _)| (share.start, share.start + share.length));
    let mut taken: Vec<(u32, u32)> = ours.chain(card.locked.iter().copied()).collect();
    taken.sort_unstable();
    let mut start = 0;
    for (from, to) in taken {
        if from >= start + request.share {
            break;
        }
        start = start.max(to);
    }
    if start + request.share <= WHOLE {
        return Ok(start);
    }
    Err(if of_card.is_empty() {
        format!("GPU {number} is taken by another home of yours")
    } else {
        format!("GPU {number} is taken")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(index: u32) -> Card {
        Card {
            uuid: format!("GPU-{index}"),
            name: "NVIDIA A100-SXM4-80GB".to_owned(),
            index,
            memory_bytes: Some(80 << 30),
            ..Card::default()
        }
    }

    fn asks(count: u32, share: u32) -> CardRequest {
        CardRequest {
            count,
            share,
            ..CardRequest::default()
        }
    }

    fn given(
        cards: &[Card],
        held: &[Share],
        request: &CardRequest,
    ) -> Result<Vec<(u32, u32)>, String> {
        let held = held.iter().map(|share| (share, 0)).collect();
        let shares = pick(cards, &held, request).map_err(|no| no.why)?;
        let number = |share: &Share| share.uuid["GPU-".len()..].parse().unwrap();
        Ok(shares
            .iter()
            .map(|share| (number(share), share.start))
            .collect())
    }

    fn share(index: u32, start: u32, length: u32) -> Share {
        Share {
            uuid: format!("GPU-{index}"),
            start,
            length,
        }
    }

    #[test]
    fn whole_cards_go_to_one_run_and_parts_fill_a_card_that_runs_share() {
        let cards = [card(0), card(1), card(2)];
        assert_eq!(
            given(&cards, &[], &asks(2, WHOLE)),
            Ok(vec![(0, 0), (1, 0)])
        );
        let half = [share(1, 0, 500_000)];
        assert_eq!(
            given(&cards, &half, &asks(1, 400_000)),
            Ok(vec![(1, 500_000)])
        );
        assert_eq!(given(&cards, &half, &asks(1, 600_000)), Ok(vec![(0, 0)]));
        assert_eq!(
            given(&cards, &half, &asks(2, WHOLE)),
            Ok(vec![(0, 0), (2, 0)])
        );
        let why = given(&cards, &half, &asks(3, WHOLE)).unwrap_err();
        assert_eq!(why, "waits for 3 GPUs; GPU 1 is taken");
        let why = given(&cards, &[], &asks(4, WHOLE)).unwrap_err();
        assert_eq!(why, "it asks for 4 GPUs, and this node has 3 of the kind");
        let middle = [share(0, 300_000, 300_000)];
        let one = &cards[..1];
        assert_eq!(given(one, &middle, &asks(1, 300_000)), Ok(vec![(0, 0)]));
        assert_eq!(
            given(one, &middle, &asks(1, 400_000)),
            Ok(vec![(0, 600_000)])
        );
    }

    #[test]
    fn a_gpu_that_others_hold_or_use_is_not_given_and_the_reason_names_them() {
        let locked = Card {
            locked: vec![(0, WHOLE)],
            ..card(0)
        };
        let foreign = Card {
            foreign: Some("python (pid 7, user anna)".to_owned()),
            ..card(1)
        };
        let unseen = Card {
            unseen_bytes: 12 << 30,
            ..card(2)
        };
        let lost = Card {
            is_lost: true,
            ..card(3)
        };
        let left = Card {
            process: Some("python (pid 8)".to_owned()),
            ..card(4)
        };
        let why = given(&[locked, foreign, unseen, lost, left], &[], &asks(1, WHOLE));
        assert_eq!(
            why.unwrap_err(),
            "waits for 1 GPU; GPU 0 is taken by another home of yours; GPU 1 is used by python (pid 7, \
             user anna); GPU 2: 12G are used by processes that cannot be seen from here; GPU 3 is lost: \
             the driver does not find it any more; GPU 4 is still used by python (pid 8)"
        );
        let driver = Card {
            unseen_bytes: 600 << 20,
            ..card(0)
        };
        assert_eq!(given(&[driver], &[], &asks(1, WHOLE)), Ok(vec![(0, 0)]));
    }

    #[test]
    fn a_kind_and_memory_choose_the_card_and_slices_serve_one_alone() {
        let small = Card {
            name: "NVIDIA RTX A4000".to_owned(),
            memory_bytes: Some(16 << 30),
            ..card(0)
        };
        let slice = |index| Card {
            is_slice: true,
            ..card(index)
        };
        let cards = [small, slice(1), slice(2)];
        let request = CardRequest {
            memory_bytes: 40 << 30,
            kind: "a100".to_owned(),
            ..asks(1, WHOLE)
        };
        assert_eq!(given(&cards, &[], &request), Ok(vec![(1, 0)]));
        let two = CardRequest {
            count: 2,
            ..request.clone()
        };
        let why = given(&cards, &[], &two).unwrap_err();
        assert_eq!(
            why,
            "it asks for 2 GPUs (a100) with 40G, and this node has 0 of the kind"
        );
        let taken = share(1, 0, 250_000);
        let held = vec![(&taken, 60 << 30)];
        let part = CardRequest {
            share: 250_000,
            ..request
        };
        let chosen = pick(&cards, &held, &part).unwrap();
        assert_eq!(chosen, [share(2, 0, 250_000)], "the other has 20G left");
    }

    #[test]
    fn a_card_of_24564_mib_has_24g_for_a_run_and_one_of_unknown_memory_has_none() {
        let card = Card {
            memory_bytes: Some(24_564 << 20),
            used_bytes: Some(600 << 20),
            ..card(0)
        };
        let asks_memory = |gib: u64| CardRequest {
            memory_bytes: gib << 30,
            ..asks(1, 500_000)
        };
        let given = |card: &Card, held: &CardHolds<'_>, gib| {
            let given = pick(std::slice::from_ref(card), held, &asks_memory(gib));
            given.map(|_| ()).map_err(|no| no.why)
        };
        assert_eq!(given(&card, &CardHolds::new(), 24), Ok(()));
        let none =
            Err("it asks for 0.5 of a GPU with 26G, and this node has 0 of the kind".to_owned());
        assert_eq!(given(&card, &CardHolds::new(), 26), none);
        let taken = share(0, 0, 500_000);
        let half = CardHolds::from([(&taken, 12 << 30)]);
        assert_eq!(given(&card, &half, 12), Ok(()));
        assert!(given(&card, &half, 14).is_err());
        let unknown = Card {
            memory_bytes: None,
            ..card
        };
        assert!(given(&unknown, &CardHolds::new(), 1).is_err());
        assert_eq!(given(&unknown, &CardHolds::new(), 0), Ok(()));
    }

    #[test]
    fn amd_cards_beside_nvidias_are_given_by_name_and_makers_are_not_mixed() {
        let amd = Card {
            is_amd: true,
            ..card(1)
        };
        let cards = [
            card(0),
            amd.clone(),
            Card {
                uuid: "GPU-2".to_owned(),
                ..amd
            },
        ];
        let named = |count| CardRequest {
            kind: "a100".to_owned(),
            ..asks(count, WHOLE)
        };
        assert_eq!(given(&cards, &[], &named(2)), Ok(vec![(1, 0), (2, 0)]));
        assert_eq!(
            given(&cards, &[], &named(3)).unwrap_err(),
            "it asks for 3 GPUs (a100), and this node has 2 of the kind"
        );
        assert_eq!(
            given(&cards, &[], &asks(2, WHOLE)).unwrap_err(),
            "it asks for 2 GPUs, and this node has 1 of the kind"
        );
        let of_amd = asks(2, WHOLE);
        assert_eq!(given(&cards[1..], &[], &of_amd), Ok(vec![(1, 0), (2, 0)]));
    }
}
