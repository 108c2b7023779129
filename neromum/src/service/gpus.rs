//! The node's GPUs as its description shows them. neromum never calls the driver: it reads
//! what the helper tells, see [`nero_node::cards`].

use std::sync::Arc;

use nero_journal::v1::GpuCard;
use nero_node::cards::{Cards, CardsKnown};
use nero_node::config;
use nero_wire::v1::Gpu;
use tokio::time::Instant;

/// Limit of reported GPUs.
const GPUS_MAX: usize = 64;
/// Time between two looks at a page that is being made.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// The cards that the node gives; `None`: a scheduler gives them.
#[derive(Debug)]
pub struct Gpus(Option<Arc<Cards>>);

impl Gpus {
    /// Of this host.
    pub fn new(cards: Option<Arc<Cards>>) -> Self {
        Self(cards)
    }

    /// What is known of them. Waits for the first reading of a helper that was just
    /// started, and not for a driver that hangs.
    pub async fn snapshot(&self) -> CardsKnown {
        self.when_read(Cards::snapshot).await
    }

    /// The same for runs that ask for cards: that there are none is asked anew.
    pub async fn look_anew(&self) -> CardsKnown {
        self.when_read(Cards::look_anew).await
    }

    async fn when_read(&self, look: fn(&Cards) -> CardsKnown) -> CardsKnown {
        let Some(cards) = &self.0 else {
            return CardsKnown::None("its scheduler gives GPUs".to_owned());
        };
        let deadline = Instant::now() + config::CARDS_PATIENCE;
        loop {
            let told = look(cards);
            if !matches!(told, CardsKnown::Looking) || Instant::now() > deadline {
                return told;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The GPUs in a description; none where they are not known.
pub fn described(told: &CardsKnown) -> Vec<Gpu> {
    let CardsKnown::Cards(page) = told else {
        return Vec::new();
    };
    let there = page.cards.iter().filter(|card| !card.is_lost);
    there.take(GPUS_MAX).map(gpu).collect()
}

fn gpu(card: &GpuCard) -> Gpu {
    Gpu {
        index: card.index,
        name: card.name.clone(),
        memory_bytes: card.memory_bytes.unwrap_or_default(),
        memory_used_bytes: card.used_bytes.unwrap_or_default(),
        utilisation: card.utilisation.unwrap_or_default(),
        uuid: card.uuid.clone(),
    }
}
