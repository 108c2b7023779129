//! The rest between walks over all experiments.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// How many times as long as a walk the rest behind it is: walks take a tenth of a core.
const RESTS: u32 = 9;

/// The shortest rest.
const REST_LEAST: Duration = Duration::from_millis(50);

/// The end of the rest that all windows share: one walks at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct WalkRest {
    until: Arc<Mutex<Option<Instant>>>,
}

impl WalkRest {
    /// Walks once the walks before are over and rested from. The first walk of a window does not
    /// wait for that rest, since a person does.
    pub(super) async fn walk<T>(&self, is_first: bool, walk: impl Future<Output = T>) -> T {
        let mut until = self.until.lock().await;
        if let Some(until) = until.filter(|_| !is_first) {
            sleep_until(until).await;
        }
        let began = Instant::now();
        let made = walk.await;
        let rest = (began.elapsed() * RESTS).max(REST_LEAST);
        *until = Some(Instant::now() + rest);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn walks_rest_nine_times_as_long_as_they_took() {
        let walks = WalkRest::default();
        let began = Instant::now();
        let of = |took_ms: u64| tokio::time::sleep(Duration::from_millis(took_ms));
        // The clock of tokio goes by milliseconds.
        let check = |wanted_ms: u64| {
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            assert!(ms.abs_diff(wanted_ms) <= 10, "{ms} {wanted_ms}");
        };
        walks.walk(true, of(30)).await;
        check(30);
        // Another window shows its first rows at once.
        walks.walk(true, of(30)).await;
        check(60);
        walks.walk(false, of(1)).await;
        check(60 + 270 + 1);
        // The shortest rest.
        walks.walk(false, of(1)).await;
        check(331 + 50 + 1);
    }
}
